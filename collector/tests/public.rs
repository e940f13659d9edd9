//! Files that other projects published, against the reference values noted beside them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

mod replay;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use replay::{Replay, read};
use vramscope_trace::{EventKind, PoolOwner, ProblemKind};

fn public(name: &str) -> Option<Replay> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases/public").join(name);
    if !path.is_file() {
        println!("skipped: {} is not here", path.display());
        return None;
    }
    let replay = Replay::of(&read(&path));
    assert_eq!(replay.failed, None, "{name}");
    Some(replay)
}

/// Reserved, allocated and baseline at the end, and the peak of allocated.
fn figures(replay: &Replay) -> (u64, u64, u64, u64) {
    let device = replay.device();
    (device.reserved, device.allocated, device.base, device.peak_allocated)
}

/// The peak of the baseline and what was requested since.
fn peak_of_requests(replay: &Replay) -> u64 {
    let mut live = BTreeMap::new();
    let (mut sum, mut peak) = (0, 0);
    for event in &replay.events {
        match event.kind {
            EventKind::BlockAlloc { address, bytes, requested, at_start, .. } => {
                let bytes = if at_start { bytes } else { requested.unwrap() };
                live.insert(address, bytes);
                sum += bytes;
                peak = peak.max(sum);
            }
            EventKind::FreeRequested { address, .. } => sum -= live.remove(&address).unwrap_or(0),
            _ => {}
        }
    }
    peak
}

#[test]
fn a_whole_history_of_97_events() {
    let Some(replay) = public("snap-full-history-97ev.pickle") else { return };
    // The running sum of requested bytes peaks at 3249143816; blocks take more.
    assert_eq!(figures(&replay), (3_781_165_056, 31_719_936, 0, 3_249_144_832));
    assert_eq!((replay.device().entries, replay.problems.len()), (97, 0), "{:?}", replay.problems);
    let requested: u64 = replay.device().blocks.values().map(|&(_, requested, _)| requested.unwrap()).sum();
    assert_eq!(requested, 31_719_428);
}

#[test]
fn forward_passes_on_a_baseline() {
    // The noted peaks count what was requested on top of the baseline. Blocks at the end of a segment take more: in the first
    // file five of 1.5 MiB lie 2 MiB before it, and half a MiB is not split off.
    for (name, reserved, requested, peak, entries) in [
        ("snap-forward-fp32.pickle", 610_271_232, 558_317_568, 558_317_568 + 5 * (512 << 10), 2043),
        ("snap-forward-bf16.pickle", 861_929_472, 781_312_000, 815_783_936, 2811),
    ] {
        let Some(replay) = public(name) else { return };
        assert_eq!(peak_of_requests(&replay), requested, "{name}");
        assert_eq!(figures(&replay), (reserved, 525_286_400, 525_286_400, peak), "{name}");
        assert_eq!(replay.kinds(), [ProblemKind::TruncatedHistory], "{name}");
        assert_eq!(replay.device().entries, entries, "{name}");
        assert_eq!(replay.info.unwrap().annotations, 2, "{name}");
    }
}

#[test]
fn windows_paths_and_the_newest_keys() {
    let Some(replay) = public("snap-windows-user-metadata-keys.pickle") else { return };
    let (reserved, allocated, _, peak) = figures(&replay);
    assert_eq!((reserved, allocated), (14_180_941_824, 1_377_753_600));
    assert_eq!(peak, 13_927_832_064);
    assert_eq!(replay.kinds(), [ProblemKind::TruncatedHistory], "two frees of blocks from before");
    assert_eq!(replay.device().entries, 5163);
    let stackless = replay.events.iter().filter(|event| !event.kind.at_start());
    assert!(stackless.filter(|event| replay::stack_of(event).0 == 0).count() > 0);
    assert!(
        (0..replay.dictionary.counts().0).any(|id| replay.dictionary.name(vramscope_trace::NameId(id)).contains(":\\"))
    );
}

#[test]
fn cuda_graph_pools_and_pending_frees() {
    let Some(replay) = public("snap-cudagraph-pools-pending-free.pickle") else { return };
    assert_eq!(figures(&replay), (26_189_234_176, 24_916_034_560, 24_916_034_560, 24_916_034_560));
    let device = replay.device();
    assert_eq!(device.allocated + device.pending, 25_513_411_584, "active");
    assert_eq!((device.pending, device.entries), (597_377_024, 0));
    assert_eq!(replay.kinds(), [ProblemKind::NoHistory]);
    let pool = |owner: PoolOwner| {
        let segments = replay.events.iter().filter_map(|event| match event.kind {
            EventKind::SegmentAlloc { bytes, pool: Some(pool), .. } if pool.owner == owner => Some(bytes),
            _ => None,
        });
        segments.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes))
    };
    assert_eq!(pool(PoolOwner(0, 1)), (44, 585_105_408));
    assert_eq!(pool(PoolOwner(0, 2)), (24, 21_793_603_584));
    assert_eq!(pool(PoolOwner(0, 0)), (59, 3_810_525_184));
}

#[test]
fn a_ring_of_one_entry() {
    let Some(replay) = public("snap-ring1-free-only.pickle") else { return };
    let (reserved, allocated, _, _) = figures(&replay);
    assert_eq!((reserved, allocated), (17_133_731_840, 16_397_578_240));
    assert_eq!(replay.device().entries, 1);
    assert!(replay.kinds().contains(&ProblemKind::TruncatedHistory), "{:?}", replay.problems);
}

#[test]
fn the_layout_of_torch_2_0() {
    for (name, reserved, allocated) in [
        ("snap-torch20-history-oom.pickle", 11_844_714_496, 11_840_159_744),
        ("snap-torch20-history-ring1.pickle", 7_608_467_456, 5_683_450_880),
    ] {
        let Some(replay) = public(name) else { return };
        let (found_reserved, found_allocated, _, _) = figures(&replay);
        assert_eq!((found_reserved, found_allocated), (reserved, allocated), "{name}");
        assert_eq!(replay.device().entries, 1, "{name}");
        assert!(replay.kinds().contains(&ProblemKind::TruncatedHistory), "{name}: {:?}", replay.problems);
        let known = replay.device().blocks.values().filter(|(_, requested, _)| requested.is_some()).count();
        assert!(known > 400, "{name}: the latest request of {known} blocks is known");
    }
}

#[test]
fn a_file_edited_by_hand() {
    let Some(replay) = public("snap-handmade-inconsistent.pickle") else { return };
    assert_eq!(replay.device().entries, 1040);
    let problem = replay.problem(ProblemKind::SizesDisagree);
    assert!(problem.count > 1 && problem.example.contains("bytes"), "{problem:?}");
    assert_eq!(figures(&replay).0, 262_144_000);
    // The noted peak, 2255406836, counts what was requested.
    assert_eq!(replay.device().peak_allocated, 2_255_416_320);
}
