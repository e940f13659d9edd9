//! Buffered input with a known offset: bytes are looked at in a window that slides over a file, a gzip stream or memory.

use std::io::Read;

use vramscope_trace::Progress;

use super::error::ReadError;

/// Size of the window. One refill copies it, so it should fit into a core's cache.
const WINDOW: usize = 256 << 10;

/// The least the window holds before the end of the input, so that short opcodes can be decoded without checks.
pub(super) const LOOKAHEAD: usize = 1 << 10;

/// A sliding window over a byte stream.
pub(super) struct Input<'a> {
    source: Box<dyn Read + 'a>,
    progress: &'a Progress,
    buffer: Vec<u8>,
    /// Start of what is not consumed yet.
    at: usize,
    /// End of what is valid.
    end: usize,
    /// Offset of `buffer[0]` in the stream.
    origin: u64,
    ended: bool,
}

impl<'a> Input<'a> {
    /// A window at the start of `source`.
    pub(super) fn new(source: Box<dyn Read + 'a>, progress: &'a Progress) -> Self {
        Self { source, progress, buffer: vec![0; WINDOW], at: 0, end: 0, origin: 0, ended: false }
    }

    /// Offset of the next byte in the (unpacked) stream.
    pub(super) fn offset(&self) -> u64 {
        self.origin + self.at as u64
    }

    /// What is in the window; at least [`LOOKAHEAD`] bytes unless the stream ends before.
    #[inline]
    pub(super) fn window(&mut self) -> Result<&[u8], ReadError> {
        if self.end - self.at < LOOKAHEAD && !self.ended {
            self.refill()?;
        }
        Ok(&self.buffer[self.at..self.end])
    }

    /// Moves past `count` bytes of the window.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(self.at + count <= self.end);
        self.at = (self.at + count).min(self.end);
    }

    /// Hands `count` bytes to `take` piece by piece, in order.
    ///
    /// # Errors
    /// When the stream ends before.
    pub(super) fn take(&mut self, mut count: u64, mut take: impl FnMut(&[u8])) -> Result<(), ReadError> {
        while count > 0 {
            let window = self.window()?;
            if window.is_empty() {
                return Err(ReadError::torn(self.offset()));
            }
            let part = (window.len() as u64).min(count) as usize;
            take(&window[..part]);
            self.consume(part);
            count -= part as u64;
        }
        Ok(())
    }

    fn refill(&mut self) -> Result<(), ReadError> {
        if self.progress.is_cancelled() {
            return Err(ReadError::Cancelled);
        }
        self.buffer.copy_within(self.at..self.end, 0);
        self.origin += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        while self.end < self.buffer.len() {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(count) => self.end += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => match ReadError::from_io(&error, 0, self.progress) {
                    ReadError::Torn(_) => {
                        self.ended = true;
                        break;
                    }
                    other => return Err(other),
                },
            }
        }
        Ok(())
    }
}
