//! What must hold for every recording, and how one is cut into pieces that can be changed.

use std::ops::Range;

use vramscope_recording::{MAGIC, Reader, Writer};
use vramscope_trace::SourceMessage;

use crate::oracle::{listen, same, signature};
use crate::{Bytes, Random};

/// Words of eight bytes: everything in a recording is aligned to them.
pub(crate) fn split(bytes: &[u8]) -> Vec<Range<usize>> {
    (0..bytes.len()).step_by(8).map(|at| at..(at + 8).min(bytes.len())).collect()
}

/// Reads `data` at once and in pieces, and writes what it says again.
pub(crate) fn check(data: &[u8]) -> String {
    let bytes = data.len() as u64;
    let whole = listen(data, bytes);
    let seed = data.iter().fold(bytes, |seed, &byte| seed.rotate_left(5) ^ u64::from(byte));
    let most = 1 + Random::new(seed).below(1 + data.len().min(64) + data.len() / 256);
    let pieces = listen(Bytes::new(data, most, seed), bytes);
    assert!(same(&whole, &pieces), "what is said depends on how the input is cut into reads of up to {most} bytes");
    for text in whole.failure.iter().chain(whole.problems.iter().map(|problem| &problem.example)) {
        assert!(text.len() < 4096 && !text.chars().any(char::is_control), "{text:?}");
    }
    assert_eq!(whole.resets, 0, "a recording is told once");
    if whole.failure.is_none() {
        let again = recorded(data);
        let again = listen(&again[..], again.len() as u64);
        // What is said does not change when it is recorded again.
        assert_eq!((&again.failure, again.dictionary), (&whole.failure, whole.dictionary));
        assert_eq!(again.problems, whole.problems);
        assert!(again.events == whole.events, "other events when recorded again");
    }
    signature(&whole)
}

/// What a recording says, recorded again. Writing to memory cannot fail; if it did, nothing would be there to read.
fn recorded(data: &[u8]) -> Vec<u8> {
    let mut reader = Reader::new(data);
    let mut write = || {
        let mut writer = Writer::new(Vec::new())?;
        while let Some(message) = reader.next_message() {
            match message {
                SourceMessage::Batch(batch) => writer.batch(&batch)?,
                SourceMessage::Info(info) => writer.info(&info)?,
                _ => {}
            }
        }
        writer.finish()
    };
    write().unwrap_or_else(|_: std::io::Error| MAGIC.to_vec())
}
