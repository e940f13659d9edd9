//! Recordings on disk: finding them, and reading one.

use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use crossbeam_channel::Sender;
use vramscope_trace::{Progress, SourceMessage};

use crate::sources::{recording, torch_snapshot};

/// A recording on disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Recording {
    /// The rank its name tells, for one of several processes of a job. Recordings sort by it.
    pub rank: Option<u32>,
    /// What to call it: its name without the folder.
    pub label: String,
    /// Where it is.
    pub path: PathBuf,
}

/// File name endings of recordings in a folder.
const ENDINGS: [&str; 8] =
    [".pickle", ".pkl", ".pickle.gz", ".pkl.gz", ".json", ".json.gz", ".html", vramscope_recording::ENDING];

/// The recordings at `path`: a file is itself, a folder all recordings directly in it, ranks in order.
///
/// # Errors
/// One sentence, if there is nothing there or nothing in it.
pub fn find_recordings(path: &Path) -> Result<Vec<Recording>, String> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| format!("{shown} cannot be opened: {error}"))?;
    if !metadata.is_dir() {
        return Ok(vec![recording(path.to_owned())]);
    }
    let listing = std::fs::read_dir(path).map_err(|error| format!("{shown} cannot be listed: {error}"))?;
    let mut found: Vec<Recording> = listing
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.is_file() && has_ending(path))
        .map(recording)
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(format!("{shown} holds no recordings (files ending in {})", ENDINGS.join(", ")));
    }
    Ok(found)
}

fn has_ending(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

fn recording(path: PathBuf) -> Recording {
    let label = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Recording { rank: rank_of(&label), label, path }
}

/// The rank a file name tells: the digits after the word "rank" (`rank0_snapshot`, `oom_rank3`, `snapshot-rank_2`).
fn rank_of(name: &str) -> Option<u32> {
    let lower = name.to_lowercase();
    lower.match_indices("rank").find_map(|(at, word)| {
        let rest = lower[at + word.len()..].trim_start_matches(['_', '-', '.', '=']);
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    })
}

/// Reads one recording and says what happened in it; returns when all is said. The last message is [`SourceMessage::Done`] or
/// [`SourceMessage::Failed`] with one sentence.
pub fn read_file(path: &Path, progress: &Progress, out: &Sender<SourceMessage>) {
    let opened = File::open(path).and_then(|file| {
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(std::io::Error::other("it is a folder"));
        }
        Ok((metadata.len(), file))
    });
    match opened {
        Ok((bytes, file)) => read_stream(file, bytes, progress, out),
        // If nobody listens any more, nobody misses it.
        Err(error) => drop(out.send(SourceMessage::Failed(format!("cannot be opened: {error}")))),
    }
}

/// Reads a recording in memory, as [`read_file`] does.
pub fn read_bytes(bytes: &[u8], progress: &Progress, out: &Sender<SourceMessage>) {
    read_stream(bytes, bytes.len() as u64, progress, out);
}

/// Reads a recording from a stream of about `packed_bytes` bytes, as [`read_file`] does. Packed streams may unpack to a multiple
/// of that.
pub fn read_stream(mut source: impl Read + Send, packed_bytes: u64, progress: &Progress, out: &Sender<SourceMessage>) {
    let mut head = Vec::new();
    if let Err(error) = source.by_ref().take(vramscope_recording::MAGIC.len() as u64).read_to_end(&mut head) {
        // If nobody listens any more, nobody misses it.
        return drop(out.send(SourceMessage::Failed(format!("cannot be read: {error}"))));
    }
    let is_recording = head == vramscope_recording::MAGIC;
    let whole = Cursor::new(head).chain(source);
    if is_recording {
        recording::read(BufReader::new(whole), packed_bytes, progress, out);
    } else {
        torch_snapshot::read(Box::new(whole), packed_bytes, progress, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_from_names() {
        for (name, rank) in [
            ("rank0_memory_snapshot.pickle", Some(0)),
            ("oom_rank3.pickle", Some(3)),
            ("snapshot-rank_12.pickle.gz", Some(12)),
            ("Rank-7.json", Some(7)),
            ("ranking.pickle", None),
            ("snapshot.pickle", None),
            ("rank99999999999.pickle", None),
        ] {
            assert_eq!(rank_of(name), rank, "{name}");
        }
    }
}
