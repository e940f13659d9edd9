//! Awkward programs under the real shim and a fake driver: what their rings hold, and that they notice nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "shim/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{Run, golden, kit};
use vramscope_collector::sources::shim::ShimSource;
use vramscope_trace::{Counter, Event, EventKind, Interner, ProcessId};

/// Everything a folder of rings says, and the source it came from.
fn events(run: &Run) -> (Vec<Event>, Interner, ShimSource) {
    let (mut source, mut names, mut events) = (ShimSource::new(run.rings.path()), Interner::new(), Vec::new());
    source.finish(&mut names, &mut events);
    (events, names, source)
}

#[test]
fn every_way_to_allocate_is_seen_by_every_way_to_find_the_driver() {
    for (program, script) in [("plain", "devices=2"), ("async", ""), ("virtual", "devices=2"), ("host", "")] {
        let by_name = Run::new(&kit().job, &[program], script).succeeded().dump();
        golden(program, &by_name);
        // Ways: dlsym, cuGetProcAddress, cuGetProcAddress_v2, the same for per-thread streams.
        for way in ["1", "2", "3"] {
            let other = Run::new(&kit().job, &[program, way], script).succeeded().dump();
            assert_eq!(other, by_name, "{program} by way {way}");
        }
    }
    golden("direct", &Run::new(&kit().direct, &[], "").succeeded().dump());
}

#[test]
fn failed_calls_are_told_with_their_codes() {
    let script = "fail=cuMemAlloc_v2@2:2 fail=cuMemFree_v2@1:1 fail=cuMemCreate@1:801 memory=104857600";
    let run = Run::new(&kit().job, &["failures"], script).succeeded();
    golden("failures", &run.dump());
    let (events, _, mut source) = events(&run);
    let ooms: Vec<_> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::OutOfMemory { requested, device_free, .. } => Some((requested, device_free)),
            _ => None,
        })
        .collect();
    assert_eq!(ooms, [(1 << 20, Some(99 << 20)), (200 << 20, Some(99 << 20))]);
    assert_eq!(source.take_problems(), [], "a free that failed is taken back");
    assert_eq!(live(&events), BTreeMap::new());
}

#[test]
fn blocks_tell_the_frameworks_memory_from_a_librarys() {
    let run = Run::new(&kit().job, &["blocks"], "").succeeded();
    golden("blocks", &run.dump());
    let (events, _, mut source) = events(&run);
    assert_eq!(source.take_problems(), []);
    let segments: Vec<_> = events.iter().filter(|event| event.kind.label().starts_with("segment")).collect();
    let [EventKind::SegmentAlloc { address, bytes, .. }, EventKind::SegmentFree { address: freed, .. }] =
        [segments[0].kind, segments[1].kind]
    else {
        panic!("{segments:?}")
    };
    assert_eq!((address, freed, bytes, segments.len()), (0x7f00_0080_0000, address, 2 << 20, 2));
    let outside = events.iter().rev().find_map(|event| match event.kind {
        EventKind::CounterSample { counter: Counter::OutsideFramework, value } => Some(value),
        _ => None,
    });
    assert_eq!(outside, Some(8 << 20));
    let oom = events.iter().find_map(|event| match event.kind {
        EventKind::OutOfMemory { requested, device_free, .. } => Some((requested, device_free)),
        _ => None,
    });
    assert_eq!(oom, Some((90 << 30, Some((80 << 30) - (10 << 20)))));
    for event in &events {
        if let EventKind::BlockAlloc { requested, .. } = event.kind {
            assert_eq!((requested, event.stream), (None, None), "what the shim does not know stays unknown");
        }
    }
}

#[test]
fn marks_and_ranges_arrive_whole() {
    golden("marks", &Run::new(&kit().job, &["marks"], "").succeeded().dump());
    let run = Run::new(&kit().job, &["nvtx"], "").succeeded();
    golden("nvtx", &run.dump());
    let (events, names, _) = events(&run);
    let spans: Vec<String> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::AnnotationBegin { name } => Some(format!("+{}", names.text(name))),
            EventKind::AnnotationEnd { name } => Some(format!("-{}", names.text(name))),
            _ => None,
        })
        .collect();
    let wanted = "+outer +inner -inner +across threads -outer -across threads +with attributes -with attributes +registered -registered";
    assert_eq!(spans.join(" "), wanted);
}

#[test]
fn children_and_successors_have_rings_of_their_own() {
    let run = Run::with(Command::new(&kit().job).arg("fork").env("RANK", "3"), "").succeeded();
    golden("fork", &run.dump());
    let (_, _, source) = events(&run);
    let processes: Vec<_> = source.processes().collect();
    let parent =
        processes.iter().find(|process| processes.iter().any(|child| child.parent == process.process)).unwrap();
    assert_eq!((processes.len(), parent.rank, parent.alive), (2, Some(3), false));
    assert_eq!(parent.devices, [(0, "GPU-66616b65-2d67-7075-2d75-7569642d2d00".to_owned())]);
    let run = Run::new(&kit().job, &["exec"], "").succeeded();
    golden("exec", &run.dump());
    let pids: Vec<u32> = run.files().iter().map(|ring| ring.header().pid).collect();
    assert_eq!(pids[0], pids[1], "exec keeps the process");
}

#[test]
fn what_was_written_outlives_a_process_that_ends_abruptly() {
    golden("exit", &Run::new(&kit().job, &["exit"], "").succeeded().dump());
    let run = Run::new(&kit().job, &["kill"], "");
    assert_eq!(run.output.status.signal(), Some(9));
    golden("kill", &run.dump());
}

/// Bytes by address of what is allocated at the end; fails where an address is given out twice or freed twice.
fn live(events: &[Event]) -> BTreeMap<(ProcessId, u64), u64> {
    let mut live = BTreeMap::new();
    for event in events {
        match event.kind {
            EventKind::BlockAlloc { address, bytes, .. } => {
                assert_eq!(live.insert((event.process, address), bytes), None, "{address:#x} twice");
            }
            EventKind::FreeRequested { address, .. } => {
                assert!(live.remove(&(event.process, address)).is_some(), "{address:#x} was free");
            }
            _ => {}
        }
    }
    live
}

#[test]
fn threads_that_race_for_one_address_never_seem_to_share_it() {
    let run = Run::new(&kit().job, &["race"], "").succeeded();
    let (events, _, mut source) = events(&run);
    let allocs = events.iter().filter(|event| matches!(event.kind, EventKind::BlockAlloc { .. })).count();
    assert_eq!(allocs, 8 * 2000);
    assert_eq!(live(&events), BTreeMap::new());
    assert_eq!(source.take_problems(), []);
}

#[test]
fn lanes_of_ended_threads_are_used_again() {
    let run = Run::new(&kit().job, &["threads"], "").succeeded();
    let (events, _, source) = events(&run);
    assert_eq!(events.iter().filter(|event| matches!(event.kind, EventKind::BlockAlloc { .. })).count(), 200);
    assert_eq!(source.processes().next().unwrap().lost, 0);
}

#[test]
fn more_threads_than_lanes_lose_events_and_say_how_many() {
    // Sixteen records a lane: 2,000 rounds of two events overwrite most of what they write.
    let run = Run::with(Command::new(&kit().job).arg("race").env("VRAMSCOPE_LANE_LOG2", "4"), "").succeeded();
    let (events, _, source) = events(&run);
    let told = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::BlockAlloc { .. } | EventKind::FreeCompleted { .. }))
        .count();
    let lost: u64 = events
        .iter()
        .map(|event| match event.kind {
            EventKind::LostEvents { count } => count,
            _ => 0,
        })
        .sum();
    assert_eq!(source.processes().next().unwrap().lost, lost);
    // Each record is an allocation or a free; a free of an address whose allocation was lost says nothing.
    assert!(lost > 20_000 && told as u64 + lost <= 8 * 4000 + 1, "{told} told, {lost} lost");
}

#[test]
fn without_a_driver_nothing_changes() {
    let rings = tempfile::tempdir().unwrap();
    let output = Command::new(&kit().job)
        .arg("missing")
        .env("LD_PRELOAD", &kit().shim)
        .env("VRAMSCOPE_RING_DIR", rings.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(rings.path()).unwrap().count(), 0, "no event, no ring");
}

#[test]
fn withheld_or_off_the_shim_shows_nothing() {
    for preload in [None, Some(&kit().shim)] {
        let rings = tempfile::tempdir().unwrap();
        let mut command = Command::new(&kit().job);
        command.arg("blocks").env("LD_LIBRARY_PATH", &kit().libraries);
        match preload {
            None => command.env("VRAMSCOPE_RING_DIR", rings.path()),
            Some(shim) => command.env("LD_PRELOAD", shim),
        };
        assert!(command.current_dir(rings.path()).status().unwrap().success());
        assert_eq!(fs::read_dir(rings.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_ring_that_cannot_be_made_costs_the_job_nothing() {
    let job = kit().job.display().to_string();
    for (shell, folder) in [("", "/nonexistent/folder"), ("ulimit -f 100;", ".")] {
        let rings = tempfile::tempdir().unwrap();
        let output = Command::new("bash")
            .args(["-c", &format!("{shell} LD_PRELOAD=$SHIM exec \"$0\" async"), &job])
            .env("SHIM", &kit().shim)
            .env("LD_LIBRARY_PATH", &kit().libraries)
            .env("VRAMSCOPE_RING_DIR", folder)
            .current_dir(rings.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{shell}: {}", output.status);
        assert_eq!(fs::read_dir(rings.path()).unwrap().count(), 0, "{shell}");
    }
}

#[test]
fn damaged_rings_are_complained_about_and_survived() {
    let run = Run::new(&kit().job, &["plain"], "devices=2").succeeded();
    let path = run.files()[0].path().to_owned();
    let good = fs::read(&path).unwrap();
    let (whole, _, _) = events(&run);
    for length in [0, 7, 64, 4095, 4096, 12_288, 12_300, 20_000] {
        fs::write(&path, &good[..length]).unwrap();
        let (cut, _, _) = events(&run);
        assert!(cut.len() <= whole.len());
    }
    let mut seed = 1u64;
    for _ in 0..200 {
        let mut bad = good[..100_000].to_vec();
        for _ in 0..20 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (seed >> 33) as usize % 16_000;
            bad[at] = (seed >> 20) as u8;
        }
        fs::write(&path, &bad).unwrap();
        drop(events(&run));
    }
}

#[test]
fn a_running_job_is_followed_without_loss() {
    let rings = tempfile::tempdir().unwrap();
    const EVENTS: u64 = 400_000;
    let mut child = Command::new(&kit().job)
        .args(["bench", "1", &EVENTS.to_string(), "200000"])
        .env("LD_PRELOAD", &kit().shim)
        .env("LD_LIBRARY_PATH", &kit().libraries)
        .env("VRAMSCOPE_RING_DIR", rings.path())
        .env("VRAMSCOPE_LANE_LOG2", "19")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (mut source, mut names, mut events) = (ShimSource::new(rings.path()), Interner::new(), Vec::new());
    let (mut told, mut polls, mut alive) = (0, 0, false);
    let end = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() && Instant::now() < end {
        source.poll(&mut names, &mut events);
        alive |= source.processes().any(|process| process.alive);
        polls += u64::from(!events.is_empty());
        told += blocks(&mut events);
        std::thread::sleep(Duration::from_millis(2));
    }
    source.finish(&mut names, &mut events);
    told += blocks(&mut events);
    assert!(alive && polls > 5, "followed while it ran: {polls} polls");
    assert_eq!((told, source.processes().next().unwrap().lost), (EVENTS, 0));
    assert!(source.take_problems().is_empty());
}

fn blocks(events: &mut Vec<Event>) -> u64 {
    let is_block = |event: &Event| matches!(event.kind, EventKind::BlockAlloc { .. } | EventKind::FreeRequested { .. });
    events.drain(..).filter(is_block).count() as u64
}
