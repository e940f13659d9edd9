//! Situations from public threads (collected in `cases/reports.md` of the shared folder), each with its smallest input, as far as
//! the source itself must get them right.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod pickling;
mod replay;

use pickling::*;
use replay::Replay;
use vramscope_collector::find_recordings;
use vramscope_trace::{EventKind, ProblemKind, StackId};

#[track_caller]
fn read(file: &Node) -> Replay {
    let replay = Replay::of_bytes(&pickle(file, Style::Python(4)));
    assert_eq!(replay.failed, None);
    replay
}

/// A segment of 20 MiB and the blocks in it, each by offset and size in KiB and state; the rest is free.
fn tiled(blocks: &[(u64, u64, &str)]) -> Node {
    let mut tiles = Vec::new();
    let mut end = 0;
    for &(offset, size, state) in blocks {
        if offset > end {
            tiles.push(block(BASE + (end << 10), (offset - end) << 10, "inactive"));
        }
        tiles.push(block(BASE + (offset << 10), size << 10, state));
        end = offset + size;
    }
    tiles.push(block(BASE + (end << 10), 20 * MIB - (end << 10), "inactive"));
    segment(BASE, 20 * MIB, tiles)
}

// Situation 1: pytorch/pytorch#183842, pytorch/torchtitan#3375.
#[test]
fn four_protocols_make_four_identical_pictures() {
    let entries = vec![entry("segment_alloc", BASE, 2 * MIB), entry("alloc", BASE, 512)];
    let blocks = vec![block(BASE, 512, "active_allocated"), block(BASE + 512, 2 * MIB - 512, "inactive")];
    let file = snapshot(vec![segment(BASE, 2 * MIB, blocks)], vec![trace(entries)]);
    let pictures = [2, 3, 4, 5].map(|protocol| Replay::of_bytes(&pickle(&file, Style::Python(protocol))));
    assert!(pictures.iter().all(|picture| picture.lines() == pictures[0].lines() && picture.problems.is_empty()));
    assert_eq!(pictures[3].device().allocated, 512);
    // An unknown opcode is named with its place.
    let mut bytes = pickle(&file, Style::Python(5));
    let stop = bytes.len() - 1;
    bytes[stop] = 0xfe;
    let failure = Replay::of_bytes(&bytes).failed.unwrap();
    assert_eq!(failure, format!("has the unknown pickle opcode 0xfe at byte {stop}"));
}

// Situation 2: pytorch/pytorch#115234.
#[test]
fn a_number_that_cannot_be_is_a_marked_cell() {
    let entries = vec![
        entry("segment_alloc", BASE, 2 * MIB),
        entry("alloc", u64::MAX, 512),
        entry("alloc", BASE, 0).with("size", -1),
        entry("alloc", BASE, 512).with("stream", Node::Int(vec![1; 12])),
    ];
    let replay = read(&snapshot(vec![], vec![trace(entries)]));
    let told: Vec<_> = replay.events.iter().filter(|event| !event.kind.at_start()).collect();
    assert_eq!(told.len(), 4, "each entry is one event");
    assert!(matches!(told[1].kind, EventKind::BlockAlloc { address: u64::MAX, .. }), "exact to the last bit");
    let EventKind::Other { name, address: BASE, .. } = told[2].kind else { panic!("{:?}", told[2]) };
    assert_eq!(replay.dictionary.name(name), "alloc");
    assert!(matches!(told[3].kind, EventKind::BlockAlloc { bytes: 512, .. }) && told[3].stream.is_none());
    let problem = replay.problem(ProblemKind::UnknownKey);
    assert_eq!((problem.count, problem.example.as_str()), (2, "trace entry 2: key \u{201c}size\u{201d} with -1"));
}

// Situation 5: pytorch/pytorch#179491.
#[test]
fn what_was_allocated_before_is_the_base() {
    let entries = vec![entry("alloc", BASE + (12 << 20), 6 * MIB)];
    let segment = tiled(&[(0, 4096, "active_allocated"), (12288, 6144, "active_allocated")]);
    let replay = read(&snapshot(vec![segment], vec![trace(entries)]));
    let device = replay.device();
    assert_eq!((device.base, device.allocated, device.reserved), (4 * MIB, 10 * MIB, 20 * MIB));
    let start: Vec<_> = replay.events.iter().take_while(|event| event.kind.at_start()).collect();
    assert_eq!(start.len(), 2, "a segment and a block");
    assert!(start.iter().all(|event| event.time == replay.events[2].time), "at the time of the first entry");
    let problem = replay.problem(ProblemKind::TruncatedHistory);
    assert_eq!(problem.example, "device 0: 1 blocks (4194304 bytes) were allocated before the first of 1 entries");
    assert_eq!(replay.info.unwrap().truncated_devices, [0]);
}

// Situation 6: NVIDIA-NeMo/Megatron-Bridge#3487.
#[test]
fn a_snapshot_without_a_recording_has_its_final_state() {
    let segment = tiled(&[(0, 2048, "active_allocated"), (2048, 1024, "active_pending_free")]);
    let replay = read(&snapshot(vec![segment], vec![vec![].into(), vec![].into()]));
    let device = replay.device();
    assert_eq!((device.allocated, device.pending, device.reserved), (2 * MIB, MIB, 20 * MIB));
    assert_eq!(device.entries, 0);
    assert_eq!(replay.kinds(), [ProblemKind::NoHistory]);
    assert_eq!(replay.problem(ProblemKind::NoHistory).example, "1 segments and no events");
    let info = replay.info.unwrap();
    assert_eq!((info.devices_visible, info.truncated_devices.len()), (2, 0));
}

// Situation 7: pytorch/pytorch#155889 (for #129674).
#[test]
fn a_ring_that_lost_its_beginning_says_so() {
    let entries = vec![entry("free_completed", BASE + 64 * MIB, 64)];
    let replay = read(&snapshot(vec![tiled(&[(0, 1024, "active_allocated")])], vec![trace(entries)]));
    // That the address is unknown is found by whoever takes the event in.
    assert_eq!(replay.kinds(), [ProblemKind::TruncatedHistory]);
    assert_eq!(replay.problem(ProblemKind::TruncatedHistory).count, 1);
    assert_eq!(replay.info.as_ref().unwrap().truncated_devices, [0]);
    assert_eq!((replay.device().allocated, replay.device().entries), (MIB, 1), "never below zero, nothing dropped");
    // A free inside a known segment: the block was there before, with its rounded size.
    let entries = vec![
        entry("free_requested", BASE + 2 * MIB, 3 * MIB - 5),
        entry("free_completed", BASE + 2 * MIB, 3 * MIB - 5),
    ];
    let replay = read(&snapshot(vec![tiled(&[(0, 1024, "active_allocated")])], vec![trace(entries)]));
    assert_eq!((replay.device().peak_allocated, replay.device().allocated), (4 * MIB, MIB));
    assert_eq!(replay.kinds(), [ProblemKind::TruncatedHistory]);
}

// Situation 9: EvolvingLMMs-Lab/lmms-engine#176, pytorch/torchtitan#395.
#[test]
fn a_folder_of_ranks_is_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let names =
        ["snapshot-rank_10.pickle", "rank0_step5.pickle", "oom_rank3.pickle.gz", "Rank-2.JSON", "notes.txt", "a.html"];
    for name in names {
        // Each process has its data on its own first device.
        std::fs::write(folder.path().join(name), pickle(&small(), Style::Python(4))).unwrap();
    }
    std::fs::create_dir(folder.path().join("rank1.pickle")).unwrap();
    let found = find_recordings(folder.path()).unwrap();
    let ranks: Vec<(Option<u32>, &str)> = found.iter().map(|file| (file.rank, file.label.as_str())).collect();
    assert_eq!(
        ranks,
        [
            (None, "a.html"),
            (Some(0), "rank0_step5.pickle"),
            (Some(2), "Rank-2.JSON"),
            (Some(3), "oom_rank3.pickle.gz"),
            (Some(10), "snapshot-rank_10.pickle"),
        ]
    );
    for file in &found {
        let replay = Replay::of(&replay::read(&file.path));
        assert_eq!(replay.devices.keys().copied().collect::<Vec<_>>(), [0], "the device is not the rank");
    }
    let empty = folder.path().join("rank1.pickle");
    assert!(find_recordings(&empty).unwrap_err().contains("holds no recordings"));
    assert!(find_recordings(&empty.join("none")).unwrap_err().contains("cannot be opened"));
}

// Situation 10: pytorch/pytorch#174044, #106346.
#[test]
fn both_shapes_are_read_and_empty_devices_kept() {
    let list = read(&vec![tiled(&[(0, 1024, "active_allocated")])].into());
    assert_eq!((list.device().allocated, list.info.unwrap().devices_visible), (MIB, 0));
    let entries =
        vec![entry("alloc", BASE, MIB), entry("free_requested", BASE, MIB), entry("free_completed", BASE, MIB)];
    let traces = vec![vec![].into(), vec![].into(), trace(entries), vec![].into()];
    let replay = read(&snapshot(vec![tiled(&[]).with("device", 2)], traces));
    assert_eq!(replay.devices.keys().copied().collect::<Vec<_>>(), [2]);
    assert_eq!((replay.device().entries, replay.device().reserved), (3, 20 * MIB));
    let info = replay.info.unwrap();
    assert_eq!((info.devices_visible, info.entries_by_device), (4, vec![(2, 3)]));
}

// Situation 11: pytorch/pytorch#108208.
#[test]
fn blocks_without_a_stack_keep_their_bytes() {
    let frames = |frames: Vec<Node>| entry("alloc", 0, 512).with("frames", frames);
    let entries = vec![
        entry("alloc", BASE, 512),
        frames(vec![]).with("addr", BASE + 512),
        frames(vec![frame("??", 0, "??")]).with("addr", BASE + 1024),
    ];
    let replay = read(&snapshot(vec![], vec![entries.into()]));
    assert_eq!(replay.device().allocated, 1536);
    let stacks: Vec<StackId> = replay.events.iter().map(replay::stack_of).collect();
    assert_eq!(stacks[..2], [StackId::NONE; 2]);
    assert_eq!(replay.stack(stacks[2]), [("??".into(), 0, "??".into())]);
    assert!(!replay.kinds().contains(&ProblemKind::NoStacks), "one has a stack");
    let replay = read(&snapshot(vec![], vec![vec![entry("alloc", BASE, 512)].into()]));
    assert_eq!(replay.problem(ProblemKind::NoStacks).example, "none of 1 entries has a call stack");
}

// Situation 12: intel/torch-xpu-ops#2311, ml-explore/mlx#3954, ecmwf/anemoi-core#302.
#[test]
fn other_makers_files_are_read_as_far_as_they_go() {
    let entries = vec![
        entry("segment_alloc", 0x1000, 2 * MIB),
        entry("alloc", 0x1000, 512),
        entry("segment_shrink", 0x1000, 5).with("queue", 1),
    ];
    let blocks = vec![block(0x1000, 512, "active_allocated"), block(0x1200, 2 * MIB - 512, "inactive")];
    let segment = segment(0x1000, 2 * MIB, blocks).with("memory_format", "x");
    let replay = read(&snapshot(vec![segment], vec![trace(entries)]).without("allocator_settings"));
    assert_eq!((replay.device().allocated, replay.device().reserved), (512, 2 * MIB));
    let EventKind::Other { name, address: 0x1000, bytes: 5 } = replay.events[2].kind else {
        panic!("{:?}", replay.events)
    };
    assert_eq!(replay.dictionary.name(name), "segment_shrink");
    let action = "entry 2: action \u{201c}segment_shrink\u{201d}";
    assert_eq!(replay.problem(ProblemKind::UnknownAction).example, action);
    let key = replay.problem(ProblemKind::UnknownKey);
    assert_eq!(
        (key.count, key.example.as_str()),
        (2, "segment 0: key \u{201c}memory_format\u{201d} with \u{201c}x\u{201d}")
    );
    assert_eq!(replay.info.unwrap().settings, None);
}

// Situation 14: verl-project/rl-insight#76. Whether the axis can use the times is the model's to say.
#[test]
fn times_may_be_equal_missing_or_go_back() {
    let times = |times: [Option<u64>; 5]| {
        let entries = times.iter().enumerate().map(|(index, time)| {
            let entry = entry("alloc", BASE + 512 * index as u64, 512);
            time.map_or(entry.clone(), |time| entry.with("time_us", TIME + time))
        });
        let replay = read(&snapshot(vec![], vec![entries.collect::<Vec<_>>().into()]));
        assert_eq!(replay.device().allocated, 5 * 512);
        replay.events.iter().map(|event| event.time.map(|time| time.micros() - TIME as i64)).collect::<Vec<_>>()
    };
    assert_eq!(times([Some(5); 5]), [Some(5); 5]);
    assert_eq!(times([None; 5]), [None; 5]);
    let back = [Some(10_000_000), Some(10_000_001), Some(0), Some(1), None];
    assert_eq!(times(back), [Some(10_000_000), Some(10_000_001), Some(0), Some(1), None], "the order is the file's");
}

// Situation 20: pytorch/pytorch#96995.
#[test]
fn expandable_segments_grow_shrink_and_have_holes() {
    let entries = vec![
        entry("segment_map", BASE, 20 * MIB),
        entry("alloc", BASE, 8 * MIB),
        entry("segment_map", BASE + 20 * MIB, 20 * MIB),
        entry("alloc", BASE + 20 * MIB, 16 * MIB),
        entry("free_requested", BASE, 8 * MIB),
        entry("free_completed", BASE, 8 * MIB),
        entry("segment_unmap", BASE, 20 * MIB),
        entry("segment_map", BASE + 40 * MIB, 40 * MIB),
        entry("segment_unmap", BASE + 40 * MIB, 20 * MIB),
    ];
    let run = |address: u64, blocks: Vec<Node>| segment(address, 20 * MIB, blocks).with("is_expandable", true);
    let finals = vec![
        run(
            BASE + 20 * MIB,
            vec![
                block(BASE + 20 * MIB, 16 * MIB, "active_allocated"),
                // Free blocks may carry the size of an old request.
                block(BASE + 36 * MIB, 4 * MIB, "inactive").with("requested_size", 777),
            ],
        ),
        run(BASE + 60 * MIB, vec![block(BASE + 60 * MIB, 20 * MIB, "inactive")]),
    ];
    let file =
        snapshot(finals, vec![trace(entries)]).with("allocator_settings", settings().with("expandable_segments", true));
    let replay = read(&file);
    assert_eq!(replay.problems, [], "the events lead to the final segments, hole and all");
    let device = replay.device();
    assert_eq!((device.reserved, device.allocated, device.peak_reserved), (40 * MIB, 16 * MIB, 60 * MIB));
    assert!(matches!(replay.events[0].kind, EventKind::SegmentMap { at_start: false, .. }));
    // The same without its first two entries: what was mapped and allocated then is the start.
    let later = replay.events[2].time.unwrap().micros() as u64;
    let entries = (2..9).map(|index| {
        let [action, address, bytes] = match index {
            2 => ["segment_map", "20", "20"],
            3 => ["alloc", "20", "16"],
            4 => ["free_requested", "0", "8"],
            5 => ["free_completed", "0", "8"],
            6 => ["segment_unmap", "0", "20"],
            7 => ["segment_map", "40", "40"],
            _ => ["segment_unmap", "40", "20"],
        };
        let number = |text: &str| text.parse::<u64>().unwrap() * MIB;
        entry(action, BASE + number(address), number(bytes)).with("time_us", later + index)
    });
    let file = file.with("device_traces", vec![entries.collect::<Vec<_>>().into()]);
    let replay = read(&file);
    assert_eq!(replay.kinds(), [ProblemKind::TruncatedHistory, ProblemKind::NoStacks]);
    let device = replay.device();
    assert_eq!((device.reserved, device.allocated, device.peak_reserved), (40 * MIB, 16 * MIB, 60 * MIB));
    assert_eq!((device.base, device.peak_allocated), (8 * MIB, 24 * MIB));
}

// Situation 22: pytorch/torchtitan#735, pytorch/pytorch#124260.
#[test]
fn what_waits_for_another_stream_is_neither_allocated_nor_free() {
    let mut entries = vec![
        entry("segment_alloc", BASE, 40 * MIB),
        entry("alloc", BASE, 10 * MIB).with("stream", 7),
        entry("free_requested", BASE, 10 * MIB).with("stream", 7),
    ];
    for index in 0..50 {
        let size = if index == 25 { 20 * MIB } else { 2 * MIB };
        entries.push(entry("alloc", BASE + 10 * MIB, size));
        entries.push(entry("free_requested", BASE + 10 * MIB, size));
        entries.push(entry("free_completed", BASE + 10 * MIB, size));
    }
    entries.push(entry("free_completed", BASE, 10 * MIB).with("stream", 7));
    let file = snapshot(vec![segment(BASE, 40 * MIB, vec![block(BASE, 40 * MIB, "inactive")])], vec![trace(entries)]);
    let replay = read(&file);
    assert_eq!(replay.problems, []);
    let (mut pending, mut most) = (0i64, (0, 0));
    let mut allocated = 0i64;
    for event in &replay.events {
        match event.kind {
            EventKind::BlockAlloc { bytes, .. } => allocated += bytes as i64,
            EventKind::FreeRequested { address, .. } => {
                let bytes = if address == BASE { 10 } else { 0 } * MIB as i64;
                (allocated, pending) = if bytes > 0 { (allocated - bytes, pending + bytes) } else { (0, pending) };
            }
            EventKind::FreeCompleted { address: BASE } => pending -= 10 * MIB as i64,
            _ => {}
        }
        most = most.max((allocated, pending));
    }
    assert_eq!(most, (20 * MIB as i64, 10 * MIB as i64), "at the peak 10 MiB wait");
    assert_eq!((replay.device().pending, replay.device().allocated), (0, 0));
    assert_eq!(replay.device().peak_allocated, 20 * MIB);
}
