//! Fuzz targets for the readers of files: plain functions that end in an assertion when a promise of the reader is broken.
//!
//! Run them for ten minutes with `cargo run --release -p vramscope-fuzz -- pickle 600 1` (target, seconds, seed; targets are
//! `pickle`, `json`, `wrapped` and `recording`). New behaviour is kept in `corpus/`, inputs that break a promise in `findings/`. Any other
//! fuzzer can call the same functions. `cargo test` replays the corpus.

mod bytes;
mod json_tokens;
mod memory;
mod mutate;
mod opcodes;
mod oracle;
mod random;
mod recordings;

pub use bytes::Bytes;
pub use memory::{drain, grown_by};
pub use mutate::Mutator;
pub use oracle::{Said, signature};
pub use random::Random;

use std::io::Write;

use base64::Engine;
use flate2::Compression;
use flate2::write::GzEncoder;

/// A target: gives a signature of what the reader did, for drivers that keep inputs with new ones.
pub type Target = fn(&[u8]) -> String;

/// The targets by name.
pub const TARGETS: [(&str, Target); 4] =
    [("pickle", pickle), ("json", json), ("wrapped", wrapped), ("recording", recording)];

/// Reads `data` as a pickle. What does not begin as one gets the opcode that says so.
pub fn pickle(data: &[u8]) -> String {
    if data.first() == Some(&0x80) {
        return oracle::check(data);
    }
    oracle::check(&[&[0x80, 4], data].concat())
}

/// Reads `data` as JSON. What does not begin as a container gets an opening bracket.
pub fn json(data: &[u8]) -> String {
    let first = data.trim_ascii_start().first();
    if matches!(first, Some(b'{' | b'[' | 0xef)) {
        return oracle::check(data);
    }
    oracle::check(&[b"[", data].concat())
}

/// Reads `data` as a recording. What does not begin as one gets the mark that says so.
pub fn recording(data: &[u8]) -> String {
    if data.starts_with(&vramscope_recording::MAGIC) {
        return recordings::check(data);
    }
    recordings::check(&[&vramscope_recording::MAGIC, data].concat())
}

/// Reads `data` in a wrapper that its first byte chooses.
pub fn wrapped(data: &[u8]) -> String {
    let (&kind, inner) = data.split_first().unwrap_or((&0, &[]));
    let bytes = match kind % 8 {
        0 => gzip(inner),
        1 => gzip(&gzip(inner)),
        2 => page(inner),
        3 => gzip(&page(inner)),
        4 => {
            // A packed file that ends in the middle.
            let mut packed = gzip(inner);
            packed.truncate(packed.len() - packed.len() / 3);
            packed
        }
        5 => {
            // Two packed files, one after the other.
            let (first, second) = inner.split_at(inner.len() / 2);
            [gzip(first), gzip(second)].concat()
        }
        6 => page(&gzip(inner)),
        _ => inner.to_vec(),
    };
    oracle::check(&bytes)
}

/// Packs with the fastest setting: the reader is tested, not the packer.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to a vector cannot fail; if it did, less would be read.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// A page as PyTorch's viewer writes it.
fn page(bytes: &[u8]) -> Vec<u8> {
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    format!("<!DOCTYPE html>\n<script>init([{{\"name\": \"snapshot.pickle\", \"base64\": \"{text}\"}}])</script>")
        .into_bytes()
}
