//! Reading recordings, for the tests that use them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};

use vramscope_model::{History, Ingest};
use vramscope_trace::{Progress, SourceMessage};

/// A folder of recordings; `None`, with a word about it, where it is absent.
pub(crate) fn shared(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: the recordings in {} are not here", path.display());
    None
}

/// The snapshots in a folder, by name.
pub(crate) fn snapshots(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".pickle.gz"))
        .collect();
    found.sort();
    found
}

/// Everything a recording tells.
pub(crate) fn read(path: &Path) -> History {
    let (out, messages) = crossbeam_channel::bounded(16);
    std::thread::scope(|scope| {
        scope.spawn(move || vramscope_collector::read_file(path, &Progress::default(), &out));
        let mut ingest = Ingest::new();
        for message in messages {
            match message {
                SourceMessage::Batch(batch) => ingest.push(batch),
                SourceMessage::Reset => ingest = Ingest::new(),
                SourceMessage::Info(info) => ingest.set_info(info),
                SourceMessage::Done => {}
                SourceMessage::Failed(sentence) => panic!("{}: {sentence}", path.display()),
            }
        }
        ingest.history()
    })
}
