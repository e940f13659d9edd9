//! Real recordings against PyTorch's own counters: allocated and reserved must be right to the byte.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod replay;

use std::path::{Path, PathBuf};

use replay::{Replay, read};

fn shared(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: the recordings in {} are not here", path.display());
    None
}

fn snapshots(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".pickle.gz"))
        .collect();
    found.sort();
    found
}

fn sidecar(snapshot: &Path) -> serde_json::Value {
    let path = snapshot.to_string_lossy().replace(".pickle.gz", ".json");
    serde_json::from_reader(std::fs::File::open(path).unwrap()).unwrap()
}

fn most(marks: &serde_json::Value, key: &str) -> u64 {
    marks.as_array().unwrap().iter().filter_map(|mark| mark[key].as_u64()).max().unwrap()
}

#[test]
fn peaks_equal_pytorchs_own_counters() {
    let Some(folder) = shared("corpus") else { return };
    let mut wrong = Vec::new();
    for path in snapshots(&folder) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let replay = Replay::of(&read(&path));
        let truth = sidecar(&path);
        let peaks = (most(&truth["marks"], "peak_allocated"), most(&truth["marks"], "peak_reserved"));
        println!("{name}: {:?} truth {peaks:?} {:?}", replay.peaks(0), replay.problems);
        // A ring that lost its beginning cannot know the peak of what it lost.
        if !name.starts_with("gpt_truncated") && replay.peaks(0) != peaks {
            wrong.push((name, replay.peaks(0), peaks));
        }
    }
    assert!(wrong.is_empty(), "file, found, truth: {wrong:#?}");
}

#[test]
fn counters_at_every_mark_equal_pytorchs_own() {
    let Some(folder) = shared("corpus") else { return };
    let mut checked = 0;
    for path in snapshots(&folder) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Marks of seedfrag come after what they name, within the same microseconds.
        if name.starts_with("seedfrag") {
            continue;
        }
        let replay = Replay::of(&read(&path));
        for mark in sidecar(&path)["marks"].as_array().unwrap() {
            let time = mark["t_us"].as_i64().unwrap();
            let Some((allocated, reserved)) = replay.before(0, time) else { continue };
            let truth = (mark["allocated"].as_u64().unwrap(), mark["reserved"].as_u64().unwrap());
            assert_eq!((allocated, reserved), truth, "{name} at {mark}");
            checked += 1;
        }
    }
    assert!(checked > 500, "only {checked} marks were checked");
}

#[test]
fn every_whole_history_of_the_other_runs_ends_in_its_own_segments() {
    let Some(folder) = shared("whatif") else { return };
    for path in snapshots(&folder) {
        let messages = read(&path);
        let replay = Replay::of(&messages);
        assert_eq!(replay.problems, [], "{}", path.display());
        let truth = sidecar(&path);
        println!("{} {:?} {}", path.display(), replay.peaks(0), truth["marks"].as_array().map_or(0, Vec::len));
    }
}
