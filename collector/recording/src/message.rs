//! Cuts a stream into Arrow messages without believing any length in it.

use std::io::{self, Read};

/// The longest header a message may have in bytes. Ours have a few kilobytes.
const MOST_HEADER: u64 = 16 << 20;

/// Why reading stopped. Sentences have no subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// What follows cannot be read, for the reason given; everything before is good.
    Torn(String),
    /// The whole cannot be read, or not further: a sentence without a subject.
    Failed(String),
}

impl Stop {
    pub(crate) fn torn(why: impl Into<String>) -> Self {
        Self::Torn(why.into())
    }
}

/// A stream with a count of what was read.
pub(crate) struct Source<R> {
    inner: R,
    offset: u64,
    header: Vec<u8>,
    body: Vec<u8>,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, offset: 0, header: Vec::new(), body: Vec::new() }
    }

    /// Bytes read so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The header of the last message, and its body.
    pub(crate) fn message(&self) -> (&[u8], &[u8]) {
        (&self.header, &self.body)
    }

    /// Reads the next header. False at the end mark.
    pub(crate) fn header(&mut self) -> Result<bool, Stop> {
        let mut start = [0; 8];
        let got = self.start(&mut start)?;
        if got == 0 {
            return Err(Stop::torn("there is no end mark: the program that wrote it was stopped"));
        }
        let ([mark @ .., _, _, _, _], [_, _, _, _, length @ ..]) = (start, start);
        if !mark.starts_with(&crate::MAGIC[..got.min(4)]) {
            return Err(Stop::torn("what follows is no Arrow message"));
        }
        if got < start.len() {
            return Err(Stop::torn("a message ends in the middle"));
        }
        let length = u64::from(u32::from_le_bytes(length));
        if length > MOST_HEADER {
            return Err(Stop::torn(format!("a message claims a header of {length} bytes")));
        }
        self.offset += read_exactly(&mut self.inner, length, &mut self.header)?;
        Ok(length > 0)
    }

    /// Reads the body that belongs to the last header.
    pub(crate) fn body(&mut self, length: i64) -> Result<(), Stop> {
        let length = u64::try_from(length).map_err(|_| Stop::torn("a message claims a body of negative length"))?;
        self.offset += read_exactly(&mut self.inner, length, &mut self.body)?;
        Ok(())
    }

    /// Reads mark and length; how many bytes there were.
    fn start(&mut self, start: &mut [u8; 8]) -> Result<usize, Stop> {
        let mut got = 0;
        while got < start.len() {
            match self.inner.read(&mut start[got..]) {
                Ok(0) => break,
                Ok(count) => got += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(from_io(&error)),
            }
        }
        self.offset += got as u64;
        Ok(got)
    }
}

/// Replaces `into` by the next `length` bytes. Memory grows with what there is, not with what is claimed.
fn read_exactly(from: &mut impl Read, length: u64, into: &mut Vec<u8>) -> Result<u64, Stop> {
    into.clear();
    let got = from.take(length).read_to_end(into).map_err(|error| from_io(&error))? as u64;
    if got < length { Err(Stop::torn("a message ends in the middle")) } else { Ok(got) }
}

fn from_io(error: &io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Stop::torn("the stream it comes in ends in the middle")
        }
        _ => Stop::Failed(format!("cannot be read: {error}")),
    }
}
