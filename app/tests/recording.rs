//! Law 3: what is saved and opened again is the same to the last line of the dump, and takes few bytes.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use vramscope::{saving, stacks};
use vramscope_model::{History, Ingest, dump};
use vramscope_recording::{Anonymizer, Writer};
use vramscope_trace::{
    Batch, DeviceId, Event, EventKind, Interner, NameId, Origin, Problem, ProblemKind, ProcessId, Progress,
    SourceMessage, StackId, StreamId, TimeNs,
};

fn shared(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    println!("skipped: the recordings in {} are not here", path.display());
    None
}

fn snapshots(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(".pickle.gz")).collect();
    found.sort();
    found
}

/// Reads bytes into a history.
fn open(bytes: &[u8]) -> History {
    let (out, messages) = crossbeam_channel::unbounded();
    vramscope_collector::read_bytes(bytes, &Progress::default(), &out);
    drop(out);
    let mut ingest = Ingest::new();
    for message in messages {
        match message {
            SourceMessage::Batch(batch) => ingest.push(batch),
            SourceMessage::Reset => ingest = Ingest::new(),
            SourceMessage::Info(info) => ingest.set_info(info),
            SourceMessage::Failed(sentence) => panic!("{sentence}"),
            SourceMessage::Done => {}
        }
    }
    ingest.history()
}

fn save(history: &History) -> Vec<u8> {
    saving::write(history, Writer::new(Vec::new()).unwrap()).unwrap()
}

fn assert_same(one: &History, other: &History, name: &str) {
    assert_eq!(one.info(), other.info(), "{name}");
    let (one, other) = (dump(one), dump(other));
    let differs = one.lines().zip(other.lines()).find(|(one, other)| one != other);
    assert!(one == other, "{name}: first difference: {differs:?}");
}

#[test]
fn every_recorded_file_comes_back_the_same() {
    let Some(folder) = shared("corpus") else { return };
    let files = snapshots(&folder);
    assert!(files.len() > 15);
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let history = open(&std::fs::read(&path).unwrap());
        let bytes = save(&history);
        let again = open(&bytes);
        assert_same(&history, &again, &name);
        assert_eq!(save(&again), bytes, "{name}: saving again changes nothing");
        let each = bytes.len() as f64 / f64::from(history.end().0);
        println!("{name}: {} events, {each:.2} bytes an event", history.end().0);
        // A recording has some kilobytes of its own; they must not count in a run of any length.
        assert!(bytes.len() < 24_000 + 5 * history.end().0 as usize, "{name}: {each:.2} bytes an event");
        if name.starts_with("varlen_default") {
            assert!(each < 8.0, "{name}: {each:.2} bytes an event");
        }
    }
}

#[test]
fn an_anonymous_copy_looks_the_same_and_names_nothing() {
    let Some(folder) = shared("corpus") else { return };
    for name in ["gpt_allstacks", "grow_oom", "streams"] {
        let history = open(&std::fs::read(folder.join(format!("{name}.pickle.gz"))).unwrap());
        let writer = Writer::anonymous(Vec::new(), Anonymizer::new()).unwrap();
        let hidden = open(&saving::write(&history, writer).unwrap());
        assert_eq!(hidden.end(), history.end());
        let (names, _, stacks) = history.dictionary().counts();
        for id in (0..stacks).map(StackId) {
            assert_eq!(hidden.dictionary().stack(id), history.dictionary().stack(id));
            let telling = |history: &History| stacks::telling_frame(history.dictionary(), id);
            assert_eq!(
                telling(&hidden),
                telling(&history),
                "another frame tells most: {}",
                stacks::title(history.dictionary(), id)
            );
        }
        let open_names: Vec<&str> = (0..names).map(|id| history.dictionary().name(NameId(id))).collect();
        let paths = open_names.iter().filter(|name| name.len() > 8 && name.contains('/'));
        let text: String = (0..names).map(|id| hidden.dictionary().name(NameId(id)).to_owned() + "\n").collect();
        for path in paths {
            assert!(!text.lines().any(|line| line == *path), "{path} is told");
        }
        for event in (0..history.end().0).map(vramscope_model::EventSeq) {
            assert_eq!(hidden.event(event), history.event(event));
        }
    }
}

fn kind(bytes: [u8; 4], names: u32, stacks: u32) -> EventKind {
    let [kind, place, size, more] = bytes;
    let (address, bytes) = (u64::from(place % 16) << 20, u64::from(size % 4) << 20);
    let (stack, name, at_start) = (StackId(u32::from(more) % stacks), NameId(u32::from(more) % names), more > 200);
    match kind % 10 {
        0..=2 => EventKind::BlockAlloc { address, bytes, requested: (more % 5 > 0).then_some(bytes), stack, at_start },
        3 => EventKind::FreeRequested { address, stack, at_start },
        4 => EventKind::FreeCompleted { address },
        5 => EventKind::SegmentAlloc { address, bytes: bytes * 4, pool: None, stack, at_start },
        6 => EventKind::SegmentFree { address, bytes: bytes * 4 },
        7 => EventKind::AnnotationBegin { name },
        8 => EventKind::AnnotationEnd { name },
        _ => EventKind::Other { name, address, bytes },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn any_run_comes_back_the_same(
        texts in prop::collection::vec(any::<String>(), 0..8),
        events in prop::collection::vec(any::<[u8; 4]>(), 0..200),
        problems in prop::collection::vec((0..ProblemKind::ALL.len(), 0..4_usize), 0..6),
        cut in 1..50_usize,
    ) {
        let mut interner = Interner::new();
        let mut texts = texts.iter();
        let mut ingest = Ingest::new();
        let mut problems = problems.iter();
        let mut names = 1;
        for (n, piece) in events.chunks(cut).enumerate() {
            let name = texts.next().map_or(NameId(0), |text| interner.name(text));
            let frame = interner.frame(vramscope_trace::Frame { file: name, function: NameId(0), line: n as u32 });
            let stack = interner.stack(&[frame]);
            names = names.max(name.0 + 1);
            let event = |(m, bytes): (usize, &[u8; 4])| Event {
                time: (bytes[3] % 7 > 0).then(|| TimeNs((n * 100 + m) as i64 - i64::from(bytes[3] % 3) * 5)),
                process: ProcessId(u32::from(bytes[1] > 240)),
                device: DeviceId(u16::from(bytes[1] > 220)),
                stream: (bytes[2] > 20).then_some(StreamId(0)),
                origin: Origin::Snapshot,
                kind: kind(*bytes, names, stack.0 + 1),
            };
            let told = problems.by_ref().take(n % 3).map(|&(kind, example)| Problem {
                kind: ProblemKind::ALL[kind],
                count: example as u64 + 1,
                example: format!("case {example}"),
            });
            ingest.push(Batch {
                dictionary: interner.take_chunks(),
                events: piece.iter().enumerate().map(event).collect(),
                problems: told.collect(),
            });
        }
        let history = ingest.history();
        let again = open(&save(&history));
        prop_assert_eq!(dump(&again), dump(&history));
    }
}

/// Runs the program.
fn vramscope(arguments: &[&str]) -> (Option<i32>, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_vramscope")).args(arguments).output().unwrap();
    (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr))
}

#[test]
fn the_command_line_saves_and_exports() {
    let demos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../assets/demos");
    let demo = |name: &str| demos.join(format!("{name}.pickle.gz")).display().to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (open, saved, hidden) = (demo("cuda_graph"), path("run.vmt"), path("hidden.vmt"));
    assert_eq!(vramscope(&["save", &open, "-o", &saved]), (Some(0), String::new()));
    assert_eq!(vramscope(&["save", &saved, "-o", &hidden, "--anonymous"]), (Some(0), String::new()));
    let report = |file: &str| {
        let (code, text) = vramscope(&["report", file, "--json"]);
        assert_eq!(code, Some(0), "{text}");
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value.as_object_mut().unwrap().remove("file");
        value
    };
    assert_eq!(report(&saved), report(&open));
    assert_eq!(
        report(&hidden)["devices"][0]["peak_allocated_bytes"],
        report(&open)["devices"][0]["peak_allocated_bytes"]
    );

    let several = path("several");
    assert_eq!(vramscope(&["save", &open, &demo("gpt_fp32"), &saved, &saved, "-o", &several]).0, Some(0));
    let mut names: Vec<_> = std::fs::read_dir(&several).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["cuda_graph.vmt", "gpt_fp32.vmt", "run-2.vmt", "run.vmt"]);
    assert_eq!(vramscope(&["report", &several]).0, Some(0), "a folder of recordings opens");

    for (table, header) in [
        ("events", "event,time_us,process,device,"),
        ("blocks", "block,process,device,segment,pool,"),
        ("segments", "segment,process,device,pool,"),
        ("stacks", "process,device,stack,allocations,"),
    ] {
        let out = path(table);
        assert_eq!(vramscope(&["export", &saved, "--table", table, "-o", &out]), (Some(0), String::new()));
        let text = std::fs::read_to_string(&out).unwrap();
        assert!(text.starts_with(header) && text.lines().count() > 2, "{table}");
        assert_eq!(vramscope(&["export", &saved, "--table", table, "--format", "arrow", "-o", &out]).0, Some(0));
        assert!(std::fs::read(&out).unwrap().starts_with(b"ARROW1"), "{table}");
    }
    let nowhere = path("no/such/folder/x.vmt");
    let (code, text) = vramscope(&["save", &open, "-o", &nowhere]);
    assert!(code == Some(1) && text.contains("x.vmt cannot be written"), "{code:?} {text}");
    assert_eq!(vramscope(&["save", &open]).0, Some(2));
}

#[test]
fn tables_say_what_the_report_says() {
    let history = open(include_bytes!("../../assets/demos/gpt_fp32.pickle.gz"));
    let lane = &history.lanes()[0];
    let sum = |contents, column: &str| -> u64 {
        let bytes = vramscope::tables::write(&history, contents, vramscope_recording::Format::Csv, Vec::new()).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let mut lines = text.lines();
        let place = lines.next().unwrap().split(',').position(|name| name == column).unwrap();
        // Quoted cells, which may hold commas and ends of lines, come last.
        lines
            .filter(|line| line.split(',').count() > place)
            .filter_map(|line| line.split(',').nth(place)?.parse::<u64>().ok())
            .sum()
    };
    let peak = history.peak(lane.id, vramscope_model::Metric::Allocated).unwrap().bytes;
    let end = history.value_at(lane.id, vramscope_model::Metric::Allocated, history.end()).unwrap();
    assert_eq!(sum(vramscope::tables::Contents::Stacks, "peak_bytes"), peak);
    assert_eq!(sum(vramscope::tables::Contents::Stacks, "end_bytes"), end);
    let blocks: u64 = (0..history.blocks())
        .filter_map(|id| history.block(vramscope_model::BlockId(id)))
        .map(|block| block.bytes)
        .sum();
    assert_eq!(sum(vramscope::tables::Contents::Blocks, "bytes"), blocks);
}
