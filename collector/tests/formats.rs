//! The same snapshot in every syntax and wrapper gives the same events.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod pickling;
mod replay;

use std::io::Write;

use base64::Engine;
use flate2::Compression;
use flate2::write::GzEncoder;
use pickling::*;
use replay::Replay;
use vramscope_trace::{EventKind, ProblemKind};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// As `_memory_viz.py` embeds a snapshot: filled up with zero bytes to a multiple of three.
fn page(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.extend(std::iter::repeat_n(0, 3 - bytes.len() % 3));
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    format!(
        "<!DOCTYPE html>\n<html>\n<head>\n</head>\n<body>\n<script type=\"module\">\nimport {{add_local_files}} from \"https://x/MemoryViz.js\"\n\
         const local_files = [{{\"name\": \"snapshot.pickle\", \"base64\": \"{text}\"}}]\nadd_local_files(local_files, \"Active Memory Timeline\")\n</script>\n</body>\n"
    )
    .into_bytes()
}

/// Holds what `bytes` say against the plainest form, and gives the name of their format.
#[track_caller]
fn same_as_plain(bytes: &[u8]) -> String {
    let plain = Replay::of_bytes(&pickle(&small(), Style::Python(4)));
    let replay = Replay::of_bytes(bytes);
    assert_eq!(replay.failed, None);
    assert_eq!(replay.lines(), plain.lines());
    assert_eq!(replay.problems, plain.problems);
    let (mut info, mut expected) = (replay.info.unwrap(), plain.info.unwrap());
    expected.format.clear();
    let format = std::mem::take(&mut info.format);
    assert_eq!(info, expected);
    format
}

#[test]
fn the_small_snapshot_says_what_is_in_it() {
    let replay = Replay::of_bytes(&pickle(&small(), Style::Python(4)));
    assert_eq!(replay.problems, []);
    let device = replay.device();
    assert_eq!((device.entries, device.allocated, device.reserved), (7, 512 + 20 * MIB, 22 * MIB));
    assert_eq!(device.peak_allocated, 512 + 20 * MIB, "a rest of less than 1 MiB is not split off");
    assert_eq!(replay.events.len(), 9);
    assert_eq!(replay.stack(replay::stack_of(&replay.events[1]))[1].0, "C:\\torch\\\"odd\".cpp");
    assert_eq!(replay.stack(replay::stack_of(&replay.events[1]))[0].2, "step \u{1f680}");
    let info = replay.info.unwrap();
    assert_eq!((info.devices_visible, info.annotations, &*info.entries_by_device), (2, 2, &[(0, 7)][..]));
}

// A dump written by Python 3.14 uses protocol 5, which some viewers cannot read: pytorch/pytorch#183842.
#[test]
fn every_style_of_pickle_is_the_same() {
    for style in STYLES.into_iter().chain([Style::Unshared]) {
        assert_eq!(same_as_plain(&pickle(&small(), style)), "PyTorch memory snapshot (pickle)", "{style:?}");
    }
}

#[test]
fn json_is_the_same() {
    let text = json(&small());
    assert_eq!(same_as_plain(text.as_bytes()), "PyTorch memory snapshot (JSON)");
    same_as_plain(format!("\u{feff}{text}").as_bytes());
    same_as_plain(format!(" \r\n\t{}\n", text.replace(", ", " ,\n").replace(": ", "\t:")).as_bytes());
    same_as_plain(text.replace('/', "\\/").as_bytes());
}

#[test]
fn every_wrapper_is_the_same() {
    let bare = pickle(&small(), Style::Python(4));
    let text = json(&small());
    for (bytes, format) in [
        (gzip(&bare), "(pickle, gzip)"),
        (gzip(&gzip(&bare)), "(pickle, gzip, gzip)"),
        (gzip(text.as_bytes()), "(JSON, gzip)"),
        (page(&bare), "(pickle, HTML page)"),
        (page(text.as_bytes()), "(JSON, HTML page)"),
        (gzip(&page(&gzip(&bare))), "(pickle, gzip, HTML page, gzip)"),
    ] {
        assert_eq!(same_as_plain(&bytes), format!("PyTorch memory snapshot {format}"));
    }
    let (first, second) = bare.split_at(bare.len() / 2);
    same_as_plain(&[gzip(first), gzip(second)].concat());
}

#[test]
fn what_follows_the_snapshot_is_not_read() {
    let bare = pickle(&small(), Style::Python(4));
    for tail in [&b"\0"[..], b"\0\0\0", b"cposix\nsystem\n", b"\x80\x04N."] {
        same_as_plain(&[&bare, tail].concat());
        same_as_plain(&gzip(&[&bare, tail].concat()));
        same_as_plain(&[&gzip(&bare), tail].concat());
    }
    same_as_plain(&[json(&small()).as_bytes(), b"\n\0trailing"].concat());
}

// One integer of 9 bytes must not end the reading: pytorch/pytorch#115234.
#[test]
fn integers_have_any_length() {
    let mut wide = u64::MAX.to_le_bytes().to_vec();
    wide.push(0);
    let long = |length: usize, last: u8| {
        let mut bytes = vec![0; length];
        bytes[0] = 1;
        bytes[length - 1] = last;
        Node::Int(bytes)
    };
    let cells: Vec<(Node, Result<u64, &str>)> = vec![
        (Node::Int(wide), Ok(u64::MAX)),
        (Node::Int(vec![]), Ok(0)),
        (Node::Int(vec![0xff, 0xff, 0]), Ok(0xffff)),
        (Node::Int([&[5][..], &[0; 254]].concat()), Ok(5)),
        (Node::Int([&[6][..], &[0; 255]].concat()), Ok(6)),
        (Node::Int([&[7][..], &[0; 300_000]].concat()), Ok(7)),
        (Node::from(-1), Err("-1")),
        (Node::from(-(1i128 << 70)), Err("more than 64 bits")),
        (Node::from(1i128 << 64), Err("more than 64 bits")),
        (long(12, 1), Err("more than 64 bits")),
        (long(300_000, 0x80), Err("more than 64 bits")),
        (Node::from(1.5), Err("1.5")),
        (Node::from(4096.0), Ok(4096)),
        (Node::from("1"), Err("\u{201c}1\u{201d}")),
        (Node::None, Err("a value of another kind")),
    ];
    for (cell, expected) in cells {
        let shown = format!("{cell:?}").chars().take(60).collect::<String>();
        let entries = vec![
            entry("segment_alloc", BASE, 2 * MIB),
            entry("user_defined", BASE, 0).with("addr", cell.clone()),
            entry("alloc", BASE, 512).with("stream", cell.clone()),
            entry("oom", 0, 7).with("device_free", cell.clone()),
        ];
        let replay = Replay::of_bytes(&pickle(&snapshot(vec![], vec![trace(entries)]), Style::Python(2)));
        assert_eq!(replay.failed, None, "{shown}");
        let events: Vec<_> = replay.events.iter().filter(|event| !event.kind.at_start()).collect();
        let stream = events[2].stream.map(|stream| stream.0);
        assert!(matches!(events[2].kind, EventKind::BlockAlloc { bytes: 512, .. }), "{shown}: {:?}", events[2]);
        match expected {
            Ok(number) => {
                assert!(matches!(events[1].kind, EventKind::Other { address, .. } if address == number), "{shown}");
                assert_eq!(stream, Some(number), "{shown}");
                assert!(
                    matches!(events[3].kind, EventKind::OutOfMemory { device_free, .. } if device_free == Some(number)),
                    "{shown}"
                );
                assert!(!replay.kinds().contains(&ProblemKind::UnknownKey), "{shown}: {:?}", replay.problems);
            }
            Err(words) => {
                assert_eq!(stream, None, "{shown}: a stream that is none is unknown");
                let problem = replay.problem(ProblemKind::UnknownKey);
                assert_eq!(problem.count, 3, "{shown}");
                assert!(problem.example.ends_with(words) || problem.example.contains(words), "{shown}: {problem:?}");
                assert!(problem.example.starts_with("trace entry 1: key \u{201c}addr\u{201d}"), "{problem:?}");
            }
        }
    }
}

#[test]
fn json_integers_are_as_exact() {
    for (number, expected) in [
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", None),
        ("-1", None),
        ("4.096e3", Some(4096)),
        ("9007199254740993", Some(9_007_199_254_740_993)),
        ("NaN", None),
        ("-Infinity", None),
    ] {
        let text = json(&snapshot(vec![], vec![trace(vec![entry("alloc", BASE, 1).with("stream", 77)])]));
        let replay = Replay::of_bytes(text.replace("\"stream\": 77", &format!("\"stream\": {number}")).as_bytes());
        assert_eq!(replay.failed, None, "{number}");
        assert_eq!(replay.events[0].stream.map(|stream| stream.0), expected, "{number}");
    }
}

#[test]
fn texts_may_be_anything() {
    let odd = "lone \u{fffd} and \u{1f680} and \0";
    let entries = vec![entry("alloc", BASE, 4).with("user_metadata", odd).with("action", odd)];
    let file = snapshot(vec![], vec![trace(entries)]);
    for bytes in [pickle(&file, Style::Python(4)), json(&file).into_bytes()] {
        let replay = Replay::of_bytes(&bytes);
        let EventKind::Other { name, address: BASE, bytes: 4 } = replay.events[0].kind else {
            panic!("{:?}", replay.events)
        };
        assert_eq!(replay.dictionary.name(name), odd);
        let problem = replay.problem(ProblemKind::UnknownAction);
        assert_eq!(problem.example, "entry 0: action \u{201c}lone \u{fffd} and \u{1f680} and \u{fffd}\u{201d}");
    }
    // What Python writes for half a surrogate pair.
    let text = json(&file).replace("\\ud83d\\ude80", "\\ud83d");
    assert_eq!(Replay::of_bytes(text.as_bytes()).failed, None);
    let long = "x".repeat(600_000);
    let replay = Replay::of_bytes(&pickle(&snapshot(vec![], vec![trace(vec![entry(&long, 1, 2)])]), Style::Python(4)));
    let EventKind::Other { name, .. } = replay.events[0].kind else { panic!("{:?}", replay.events) };
    assert_eq!(replay.dictionary.name(name).len(), 600_000);
    assert!(replay.problem(ProblemKind::UnknownAction).example.len() < 200);
}

#[test]
fn long_traces_are_the_same_in_every_style() {
    // More entries than are handed on together, their keys in two orders.
    let lists: Vec<Node> = (0..7).map(|n| vec![frame("a.py", n, "f"), frame("b.py", n, "g")].into()).collect();
    let entries = (0..9000u64).map(|index| {
        let action = if index % 2 == 0 { "alloc" } else { "free_completed" };
        let entry = entry(action, BASE + 512 * (index / 2 % 1000), 512).with("time_us", TIME + index / 3);
        let entry = entry.with("frames", lists[index as usize % 7].clone()).with("user_metadata", "");
        if index % 5 == 0 { entry.without("action").with("action", action) } else { entry }
    });
    let file = snapshot(vec![segment(BASE, 2 * MIB, vec![block(BASE, 2 * MIB, "inactive")])], vec![trace(vec![])]);
    let file = file.with("device_traces", vec![entries.collect::<Vec<_>>().into()]);
    let plain = Replay::of_bytes(&pickle(&file, Style::Python(4)));
    assert_eq!((plain.device().entries, plain.problems.len()), (9000, 0), "{:?}", plain.problems);
    for style in STYLES.into_iter().chain([Style::Unshared]) {
        let replay = Replay::of_bytes(&pickle(&file, style));
        assert!(replay.lines() == plain.lines(), "{style:?}");
        assert_eq!(replay.problems, [], "{style:?}");
    }
    let replay = Replay::of_bytes(json(&file).as_bytes());
    assert!(replay.lines() == plain.lines() && replay.problems.is_empty(), "JSON");
}
