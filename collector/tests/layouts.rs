//! Every layout that snapshots of torch 1.13 to 2.15 and their relatives have, as small made-up files.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod pickling;
mod replay;

use pickling::*;
use replay::Replay;
use vramscope_trace::{DeviceId, EventKind, PoolOwner, ProblemKind, SizeClass, StackId, StreamId, TimeNs};

/// Reads a tree as a pickle, and holds it against the same tree as JSON.
#[track_caller]
fn read(file: &Node) -> Replay {
    let replay = Replay::of_bytes(&pickle(file, Style::Python(4)));
    let again = Replay::of_bytes(json(file).as_bytes());
    assert_eq!(replay.lines(), again.lines());
    assert_eq!((&replay.problems, &replay.failed), (&again.problems, &again.failed));
    replay
}

fn kinds(replay: &Replay) -> Vec<EventKind> {
    replay.events.iter().map(|event| event.kind).collect()
}

#[test]
fn torch_1_13_is_a_list_of_segments_whose_blocks_have_a_past_but_no_address() {
    let past = |size: u64| dict([("addr", BASE.into()), ("real_size", size.into()), ("frames", frames())]);
    let piece = |size: u64, state: &str| dict([("size", size.into()), ("state", state.into())]);
    let segment = dict([
        ("device", 0.into()),
        ("address", BASE.into()),
        ("total_size", (2 * MIB).into()),
        ("allocated_size", 1536.into()),
        ("active_size", 1536.into()),
        ("stream", 0.into()),
        ("segment_type", "small".into()),
        (
            "blocks",
            vec![
                piece(1024, "active_allocated").with("history", vec![past(1000), past(3)]),
                piece(512, "inactive").with("history", vec![past(1)]),
                piece(512, "active_allocated"),
                piece(2 * MIB - 2048, "inactive"),
            ]
            .into(),
        ),
    ]);
    let replay = read(&vec![segment].into());
    assert_eq!(replay.kinds(), [ProblemKind::NoHistory]);
    let device = replay.device();
    assert_eq!((device.allocated, device.reserved, device.entries), (1536, 2 * MIB, 0));
    assert_eq!(device.blocks[&BASE], (1024, Some(1000), false));
    assert_eq!(device.blocks[&(BASE + 1536)], (512, None, false));
    let EventKind::BlockAlloc { stack, .. } = replay.events[1].kind else { panic!("{:?}", replay.events) };
    assert_eq!(replay.stack(stack).len(), 2, "the stack of the latest allocation");
    assert!(replay.events.iter().all(|event| event.time.is_none()));
}

#[test]
fn torch_2_0_has_a_trace_of_one_entry_and_no_times() {
    let frames = vec![frame("a.py", 1, "f")];
    let entry = entry("snapshot", 0, 512).with("frames", frames).with("cpp_frames", vec!["f".into()]);
    let piece =
        dict([("size", (2 * MIB).into()), ("state", "active_awaiting_free".into()), ("requested_size", 5.into())]);
    let segment = segment(BASE, 2 * MIB, vec![piece]).without("segment_pool_id").without("is_expandable");
    let file = dict([("segments", vec![segment].into()), ("device_traces", vec![vec![entry].into()].into())]);
    let replay = read(&file);
    let device = replay.device();
    assert_eq!((device.pending, device.allocated, device.entries), (2 * MIB, 0, 1));
    assert!(matches!(replay.events[2].kind, EventKind::FreeRequested { at_start: true, .. }));
    assert!(matches!(replay.events[3].kind, EventKind::Other { bytes: 512, .. }));
    assert_eq!(replay.kinds(), [ProblemKind::TruncatedHistory]);
}

#[test]
fn legacy_free_is_a_whole_free() {
    let entries = vec![entry("segment_alloc", BASE, 2 * MIB), entry("alloc", BASE, 9), entry("free", BASE, 9)];
    let replay =
        read(&snapshot(vec![segment(BASE, 2 * MIB, vec![block(BASE, 2 * MIB, "inactive")])], vec![trace(entries)]));
    assert_eq!(replay.problems, []);
    assert_eq!((replay.device().allocated, replay.device().peak_allocated), (0, 512));
    assert_eq!(kinds(&replay)[2], EventKind::FreeCompleted { address: BASE });
}

#[test]
fn without_completions_a_request_frees() {
    // skip_actions=["free_completed"]
    let entries = vec![
        entry("segment_alloc", BASE, 2 * MIB),
        entry("alloc", BASE, 9),
        entry("free_requested", BASE, 9),
        entry("alloc", BASE, 600),
    ];
    let blocks = vec![block(BASE, 1024, "active_allocated"), block(BASE + 1024, 2 * MIB - 1024, "inactive")];
    let replay = read(&snapshot(vec![segment(BASE, 2 * MIB, blocks)], vec![trace(entries)]));
    assert_eq!(replay.problems, []);
    assert_eq!((replay.device().allocated, replay.device().pending), (1024, 0));
    assert!(matches!(kinds(&replay)[2..4], [EventKind::FreeRequested { .. }, EventKind::FreeCompleted { .. }]));
    assert_eq!(replay.info.unwrap().entries_by_device, [(0, 4)], "the file's own count");
}

#[test]
fn pending_frees_are_told_at_both_ends() {
    let pending = |address| block(address, MIB, "active_pending_free");
    let entries = vec![
        entry("free_completed", BASE + MIB, MIB),
        entry("free_requested", BASE, MIB),
        entry("free_requested", BASE + 3 * MIB, MIB),
    ];
    let blocks = vec![
        pending(BASE),
        block(BASE + MIB, MIB, "inactive"),
        pending(BASE + 2 * MIB),
        pending(BASE + 3 * MIB),
        block(BASE + 4 * MIB, 16 * MIB, "inactive"),
    ];
    let replay = read(&snapshot(vec![segment(BASE, 20 * MIB, blocks)], vec![trace(entries)]));
    let start = replay.events.iter().filter(|event| event.kind.at_start());
    let freed: Vec<u64> = start
        .filter_map(|event| match event.kind {
            EventKind::FreeRequested { address, .. } => Some(address - BASE),
            _ => None,
        })
        .collect();
    assert_eq!(freed, [MIB, 2 * MIB], "freed before the recording, and still waiting when it began");
    let device = replay.device();
    assert_eq!((device.pending, device.allocated), (3 * MIB, 0));
    assert_eq!(replay.kinds(), [ProblemKind::TruncatedHistory]);
}

#[test]
fn a_file_that_ends_between_request_and_completion_frees_nothing() {
    let entries =
        vec![entry("segment_alloc", BASE, 2 * MIB), entry("alloc", BASE, 512), entry("free_requested", BASE, 512)];
    let blocks = vec![block(BASE, 512, "active_pending_free"), block(BASE + 512, 2 * MIB - 512, "inactive")];
    let replay = read(&snapshot(vec![segment(BASE, 2 * MIB, blocks)], vec![trace(entries)]));
    assert_eq!((replay.device().pending, replay.events.len()), (512, 3));
    assert_eq!(replay.problems, []);
}

#[test]
fn devices_are_merged_by_time() {
    let timed = |entries: &[(u64, u64)]| {
        let entries = entries.iter().map(|&(time, size)| entry("alloc", BASE + size * MIB, size).with("time_us", time));
        Node::from(entries.collect::<Vec<_>>())
    };
    let order = |traces: Vec<Node>| {
        let replay = read(&snapshot(vec![], traces));
        let told = |event: &vramscope_trace::Event| match event.kind {
            EventKind::BlockAlloc { requested, .. } => (event.device.0, requested.unwrap()),
            other => panic!("{other:?}"),
        };
        replay.events.iter().map(told).collect::<Vec<_>>()
    };
    let (one, two) = (timed(&[(10, 1), (30, 3), (30, 4), (60, 6)]), timed(&[(20, 2), (30, 5), (70, 7)]));
    assert_eq!(
        order(vec![one.clone(), two.clone()]),
        [(0, 1), (1, 2), (0, 3), (0, 4), (1, 5), (0, 6), (1, 7)],
        "of equal times the first device's comes first"
    );
    assert_eq!(order(vec![two, one]).len(), 7);
    // A clock that goes back does not change the order within its device.
    let back = timed(&[(10, 1), (50, 2), (20, 3), (60, 4)]);
    assert_eq!(order(vec![back, timed(&[(40, 5), (55, 6)])]), [(0, 1), (1, 5), (0, 2), (0, 3), (1, 6), (0, 4)]);
    // Each device may have thousands of neighbours.
    let many: Vec<Node> = (0..3000).map(|device| timed(&[(10_000 - device, device + 1)])).collect();
    let order = order(many);
    assert!(order.is_sorted_by(|one, other| one.0 > other.0) && order.len() == 3000);
}

#[test]
fn private_pools_come_from_events_or_segments() {
    let pool = |a: i32, b: i32| tuple(vec![a.into(), b.into()]);
    let seg = |address: u64, size: u64, pool: Node| {
        segment(address, size, vec![block(address, size, "inactive")]).with("segment_pool_id", pool)
    };
    let far = BASE + 100 * MIB;
    let entries = vec![
        entry("segment_alloc", BASE, 2 * MIB).with("pool_id", pool(7, 0)),
        entry("segment_alloc", far, 20 * MIB),
        entry("segment_alloc", far + 20 * MIB, 2 * MIB).with("pool_id", vec![0.into(), 9.into()]),
        entry("segment_free", far + 20 * MIB, 2 * MIB).with("pool_id", pool(0, 9)),
    ];
    // Some writers have lists for tuples.
    let segments = vec![seg(BASE, 2 * MIB, pool(7, 0)), seg(far, 20 * MIB, vec![0.into(), 3.into()].into())];
    let replay = read(&snapshot(segments, vec![trace(entries)]));
    let pools: Vec<(PoolOwner, SizeClass)> = kinds(&replay)
        .iter()
        .filter_map(|kind| match kind {
            EventKind::SegmentAlloc { pool, .. } => pool.map(|pool| (pool.owner, pool.class)),
            _ => None,
        })
        .collect();
    let expected =
        [(PoolOwner(7, 0), SizeClass::Small), (PoolOwner(0, 3), SizeClass::Large), (PoolOwner(0, 9), SizeClass::Small)];
    assert_eq!(pools, expected);
    assert_eq!(replay.kinds(), []);
}

#[test]
fn oom_user_defined_and_notes_change_nothing() {
    let entries = vec![
        entry("segment_alloc", BASE, 2 * MIB),
        entry("oom", 5 * MIB, 3 * MIB),
        entry("oom", 0, 3 * MIB).without("device_free"),
        entry("user_defined", 0, 0).with("user_metadata", "mark"),
        entry("snapshot", 0, 9),
        entry("annotate", BASE, 0),
        entry("workspace_snapshot", 0, 0),
    ];
    let replay =
        read(&snapshot(vec![segment(BASE, 2 * MIB, vec![block(BASE, 2 * MIB, "inactive")])], vec![trace(entries)]));
    assert_eq!(replay.problems, []);
    let events = kinds(&replay);
    for (event, free) in [(events[1], Some(5 * MIB)), (events[2], None)] {
        assert!(
            matches!(event, EventKind::OutOfMemory { requested, device_free, stack }
                if requested == 3 * MIB && device_free == free && stack != StackId::NONE),
            "{event:?}"
        );
    }
    let names: Vec<&str> = events[3..]
        .iter()
        .map(|kind| match kind {
            EventKind::Other { name, .. } => replay.dictionary.name(*name),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(names, ["user_defined", "snapshot", "annotate", "workspace_snapshot"]);
    assert_eq!((replay.device().allocated, replay.device().reserved), (0, 2 * MIB));
}

#[test]
fn host_memory_is_kept_apart() {
    let host = segment(0x1000, 4096, vec![block(0x1000, 4096, "active_allocated")]);
    let flat = dict([("address", 0x9000.into()), ("allocated_size", 8192.into())]);
    let file = small()
        .with("host_segments", vec![host, flat])
        .with("host_traces", vec![trace(vec![entry("alloc", 0x1000, 4096), entry("free_completed", 0x1000, 4096)])]);
    let plain = read(&small());
    let replay = read(&file);
    assert_eq!(replay.device().allocated, plain.device().allocated);
    assert_eq!(replay.events.len(), plain.events.len());
    let info = replay.info.unwrap();
    assert_eq!((info.host_bytes, info.host_entries), (Some(4096 + 8192), 2));
    assert_eq!(info.entries_by_device, [(0, 7)]);
    assert_eq!(replay.problems, []);
}

#[test]
fn annotations_follow_the_events() {
    let notes = vec![
        annotation("outer", "START", TIME),
        annotation("inner", "START", TIME + 1).with("device", 1),
        annotation("inner", "END", TIME + 2).without("time_us"),
    ];
    let replay = read(&small().with("external_annotations", notes));
    let told: Vec<_> = replay.events[7..].iter().map(|event| (event.device, event.time.map(TimeNs::micros))).collect();
    let time = |offset| Some((TIME + offset) as i64);
    assert_eq!(told, [(DeviceId(0), time(0)), (DeviceId(1), time(1)), (DeviceId(0), None)]);
    assert!(matches!(
        kinds(&replay)[7..],
        [EventKind::AnnotationBegin { name: a }, EventKind::AnnotationBegin { name: b }, EventKind::AnnotationEnd { name: c }]
            if a != b && b == c && replay.dictionary.name(a) == "outer"
    ));
}

#[test]
fn profiler_made_files_have_names_for_frames_and_no_addresses() {
    // `_memory_viz.profile_plot`: device 1 stands for the CPU when there is one GPU.
    let names = vec![frame("", 0, "aten::mm")];
    let made = |action: &str, size: i32| {
        entry(action, BASE, 0)
            .with("size", size)
            .without("time_us")
            .with("category", "activation")
            .with("frames", names.clone())
    };
    let entries =
        vec![made("alloc", 700), made("free_requested", 700), made("free_completed", 700), made("alloc", 512)];
    let live = dict([
        ("size", 512.into()),
        ("requested_size", 512.into()),
        ("state", "active_allocated".into()),
        ("frames", names.clone().into()),
    ]);
    let seg = |device: i32, blocks: Vec<Node>| {
        dict([
            ("device", device.into()),
            ("address", BASE.into()),
            ("total_size", (2 * MIB).into()),
            ("stream", 0.into()),
            ("blocks", blocks.into()),
        ])
    };
    let rest = |size: u64| dict([("size", size.into()), ("state", "inactive".into())]);
    let segments = vec![seg(0, vec![live, rest(2 * MIB - 512)]), seg(1, vec![rest(2 * MIB)])];
    let file = dict([("segments", segments.into()), ("device_traces", vec![entries.into(), vec![].into()].into())]);
    let replay = read(&file);
    assert_eq!(replay.kinds(), []);
    assert_eq!((replay.devices[&0].allocated, replay.devices[&0].peak_allocated), (512, 1024));
    assert_eq!(replay.devices[&1].reserved, 2 * MIB);
    assert!(replay.events.iter().all(|event| event.time.is_none()));
}

#[test]
fn of_equal_keys_the_last_counts() {
    let twice = |name: &str, first: Node, last: Node| vec![(Node::from(name), first), (Node::from(name), last)];
    let entry = [
        twice("action", "free".into(), "alloc".into()),
        twice("addr", 1.into(), BASE.into()),
        twice("size", (-1).into(), 512.into()),
        twice("stream", 3.into(), 4.into()),
    ];
    let entry = Node::Dict(entry.concat().into());
    let traces = vec![vec![entry].into()];
    let top = [twice("device_traces", vec![].into(), traces.into()), twice("segments", 5.into(), vec![].into())];
    let replay = read(&Node::Dict(top.concat().into()));
    assert_eq!(replay.events.len(), 1);
    assert_eq!(replay.events[0].stream, Some(StreamId(4)));
    let block = EventKind::BlockAlloc {
        address: BASE,
        bytes: 512,
        requested: Some(512),
        stack: StackId::NONE,
        at_start: false,
    };
    assert_eq!(replay.events[0].kind, block);
}

#[test]
fn entries_may_be_shared() {
    let alloc = entry("alloc", BASE, 512);
    let free = entry("free_completed", BASE, 512);
    let list = Node::from(vec![alloc.clone(), free.clone(), alloc.clone(), free.clone(), alloc]);
    let file = |traces: Vec<Node>| snapshot(vec![], traces);
    let shared = Replay::of_bytes(&pickle(&file(vec![list.clone()]), Style::Python(4)));
    let unshared = Replay::of_bytes(&pickle(&file(vec![list.clone()]), Style::Unshared));
    assert_eq!(shared.lines(), unshared.lines());
    assert_eq!((shared.device().entries, shared.device().allocated), (5, 512));
    // A whole list that two devices share would be counted over and over.
    let twice = Replay::of_bytes(&pickle(&file(vec![list.clone(), list]), Style::Python(4)));
    assert_eq!(twice.device().entries, 5);
    assert_eq!(twice.problem(ProblemKind::UnknownKey).example, "device 1: its trace is another device's");
}

#[test]
fn segments_and_blocks_are_counted_once() {
    let one = segment(BASE, 2 * MIB, vec![block(BASE, 2 * MIB, "active_allocated")]);
    let Node::Dict(pairs) = &one else { panic!() };
    let blocks = pairs.last().unwrap().1.clone();
    let other = one.with("address", BASE + 32 * MIB).with("blocks", blocks);
    let file = snapshot(vec![one.clone(), one, other], vec![]);
    let replay = Replay::of_bytes(&pickle(&file, Style::Python(4)));
    assert_eq!(replay.device().reserved, 4 * MIB);
    assert_eq!(replay.device().allocated, 2 * MIB);
    assert_eq!(replay.problem(ProblemKind::Overlap).example, "segment record 0 is listed twice");
    assert_eq!(replay.kinds(), [ProblemKind::Overlap, ProblemKind::SizesDisagree, ProblemKind::NoHistory]);
}

#[test]
fn frames_cost_what_is_different_about_them() {
    // Real files: 3.5 million frame records, of which 1,400 are different.
    let frames: Vec<Node> =
        (0..140).map(|n| frame(&format!("file{}.py", n % 20), n, &format!("function{}", n % 70))).collect();
    let stack = |n: usize| (0..30).map(|depth| frames[(n * 7 + depth) % 140].clone()).collect::<Vec<_>>();
    let stacks: Vec<Node> = (0..40).map(|n| stack(n).into()).collect();
    let shared = (0..3000).map(|n| entry("alloc", BASE + n * 512, 512).with("frames", stacks[n as usize % 40].clone()));
    let own_lists = (0..3000).map(|n| entry("alloc", BASE + n * 512, 512).with("frames", stack(n as usize % 40)));
    let shared = snapshot(vec![], vec![shared.collect::<Vec<_>>().into()]);
    let own_lists = snapshot(vec![], vec![own_lists.collect::<Vec<_>>().into()]);
    let plain = Replay::of_bytes(&pickle(&snapshot(vec![], vec![trace(vec![])]), Style::Python(4)));
    // 7 steps through 140 frames: 20 different stacks, and none at all.
    let expected = (plain.dictionary.counts().0 + 20 + 70, 140, 20 + 1);
    for (name, bytes) in [
        ("lists shared", pickle(&shared, Style::Python(4))),
        ("lists shared, C++", pickle(&shared, Style::Cpp)),
        ("frames shared", pickle(&own_lists, Style::Python(2))),
        ("nothing shared", pickle(&own_lists, Style::Unshared)),
        ("JSON", json(&own_lists).into_bytes()),
    ] {
        let replay = Replay::of_bytes(&bytes);
        assert_eq!(replay.events.len(), 3000, "{name}");
        assert_eq!(replay.dictionary.counts(), expected, "{name}");
        assert_eq!(
            replay.stack(replay::stack_of(&replay.events[1]))[0],
            ("file7.py".into(), 7, "function7".into()),
            "{name}"
        );
    }
}

#[test]
fn settings_are_read_and_shown() {
    let divisions = Node::Dict(vec![("1".into(), 4.into()), ("32768".into(), 8.into()), ("3".into(), 2.into())].into());
    let told = settings()
        .with("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64")
        .with("max_split_size", 64 * MIB)
        .with("garbage_collection_threshold", 0.5)
        .with("expandable_segments", true)
        .with("roundup_power2_divisions", divisions)
        .with("new_setting", "x".repeat(100_000).as_str());
    let settings = read(&small().with("allocator_settings", told)).info.unwrap().settings.unwrap();
    assert_eq!(settings.conf.as_deref(), Some("max_split_size_mb:64"));
    assert_eq!((settings.max_split_size, settings.garbage_collection_threshold), (Some(64 * MIB), 0.5));
    assert!(settings.expandable_segments);
    let mut divisions = [0; 16];
    (divisions[0], divisions[15]) = (4, 8);
    assert_eq!(settings.roundup_power2_divisions, divisions);
    let text = |name: &str| settings.all.iter().find(|(key, _)| key == name).unwrap().1.clone();
    assert_eq!(text("roundup_power2_divisions"), "1:4, 32768:8, 3:2");
    assert_eq!((text("expandable_segments").as_str(), text("new_setting").len()), ("True", 4096));
    // Early builds wrote 2^64 - 1 for unlimited; -1 is what later ones write.
    for unlimited in [Node::from(u64::MAX), Node::from(-1)] {
        let told = pickling::settings().with("max_split_size", unlimited);
        let settings = read(&small().with("allocator_settings", told)).info.unwrap().settings.unwrap();
        assert_eq!(settings.max_split_size, None);
    }
}

#[test]
fn a_block_from_before_owns_what_a_later_neighbour_shows() {
    // 17.5 MiB in a free piece of 18: half a MiB was not split off. Nothing says so until the piece behind is handed out.
    let asked = 17 * MIB + (512 << 10);
    let entries = vec![
        entry("alloc", BASE + 18 * MIB, 2 * MIB),
        entry("free_requested", BASE, asked),
        entry("free_completed", BASE, asked),
    ];
    let blocks = vec![block(BASE, 18 * MIB, "inactive"), block(BASE + 18 * MIB, 2 * MIB, "active_allocated")];
    let replay = read(&snapshot(vec![segment(BASE, 20 * MIB, blocks)], vec![trace(entries)]));
    assert_eq!((replay.device().peak_allocated, replay.device().allocated), (20 * MIB, 2 * MIB));
    let EventKind::BlockAlloc { bytes, requested, at_start: true, .. } = replay.events[1].kind else {
        panic!("{:?}", replay.events)
    };
    assert_eq!((bytes, requested), (18 * MIB, Some(asked)));
}
