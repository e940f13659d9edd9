//! A stream that gives its bytes in small uneven pieces, as pipes and sockets do.

use std::io::Read;

use crate::Random;

/// Gives at most a few bytes a read.
pub struct Bytes<'a> {
    rest: &'a [u8],
    random: Random,
    most: usize,
}

impl<'a> Bytes<'a> {
    /// `bytes` in pieces of 1 to `most`; their lengths follow from `seed`.
    pub fn new(bytes: &'a [u8], most: usize, seed: u64) -> Self {
        Self { rest: bytes, random: Random::new(seed), most }
    }
}

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = (1 + self.random.below(self.most)).min(buffer.len()).min(self.rest.len());
        let (now, later) = self.rest.split_at(count);
        buffer[..count].copy_from_slice(now);
        self.rest = later;
        Ok(count)
    }
}
