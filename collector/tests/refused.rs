//! What is no snapshot, or not all of one, is refused or salvaged in plain words; nothing panics, hangs or runs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod pickling;
mod replay;

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use pickling::*;
use replay::{Replay, read};
use vramscope_trace::{EventKind, ProblemKind, Progress, SourceMessage};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[track_caller]
fn failure(bytes: &[u8]) -> String {
    let replay = Replay::of_bytes(bytes);
    replay.failed.unwrap_or_else(|| panic!("read as {:?}", replay.info))
}

#[test]
fn opcodes_that_could_run_code_are_refused_by_name_and_offset() {
    for (opcode, name) in [
        (b'c', "GLOBAL"),
        (0x93, "STACK_GLOBAL"),
        (b'R', "REDUCE"),
        (b'b', "BUILD"),
        (b'i', "INST"),
        (b'o', "OBJ"),
        (0x81, "NEWOBJ"),
        (0x92, "NEWOBJ_EX"),
        (0x82, "EXT1"),
        (0x83, "EXT2"),
        (0x84, "EXT4"),
        (b'P', "PERSID"),
        (b'Q', "BINPERSID"),
        (0x8f, "EMPTY_SET"),
        (0x90, "ADDITEMS"),
        (0x91, "FROZENSET"),
        (0x97, "NEXT_BUFFER"),
        (0x98, "READONLY_BUFFER"),
        (b'I', "INT (protocol 0)"),
        (b'L', "LONG (protocol 0)"),
        (b'F', "FLOAT (protocol 0)"),
        (b'S', "STRING (protocol 0)"),
        (b'V', "UNICODE (protocol 0)"),
        (b'g', "GET (protocol 0)"),
        (b'p', "PUT (protocol 0)"),
    ] {
        for offset in [2, 1000, 300_000] {
            // Nothings, pushed and popped, up to the offset.
            let mut bytes = vec![0x80, 2];
            bytes.extend((0..offset - 2).map(|index| if index % 2 == 0 { b'N' } else { b'0' }));
            bytes.extend([opcode, 1, 2, 3, 4, b'.']);
            assert_eq!(
                failure(&bytes),
                format!(
                    "uses the pickle opcode {name} at byte {offset}; memory snapshots are plain data and never need it, \
                     so the file was not read further"
                )
            );
        }
    }
    assert_eq!(failure(b"\x80\x04\xee."), "has the unknown pickle opcode 0xee at byte 2");
}

#[test]
fn every_opcode_is_known_refused_or_unknown() {
    let mut unknown = Vec::new();
    for opcode in 0..=255u8 {
        let sentence = failure(&[&[0x80, 4, opcode][..], &[0; 9]].concat());
        if sentence.starts_with("has the unknown") && sentence.contains(&format!("{opcode:#04x}")) {
            unknown.push(opcode);
        }
    }
    let known = b"(.012BCGJKMNTUX]aedhjlqrstu})\x80\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x94\x95\x96";
    let refused = b"cRbioPQILFSVgp\x81\x82\x83\x84\x8f\x90\x91\x92\x93\x97\x98";
    let expected: Vec<u8> = (0..=255).filter(|opcode| !known.contains(opcode) && !refused.contains(opcode)).collect();
    assert_eq!(unknown, expected);
}

#[test]
fn other_formats_are_refused_by_name() {
    let heads: [(&[u8], &str); 17] = [
        (b"PK\x03\x04\x14\0", "is a zip archive, probably a PyTorch checkpoint"),
        (b"SQLite format 3\0", "is an SQLite database"),
        (b"timestamp, index, memory.used [MiB]\n", "is a table written by nvidia-smi (CSV)"),
        (b"# gpu   sm   mem\n", "is a table written by nvidia-smi dmon"),
        (b"#gpu   pid  type\n", "is a table written by nvidia-smi pmon"),
        (b"Thread,Time,Action,Pointer,Size,Stream\n", "is an RMM allocation log (CSV)"),
        (b"Time,Action,Pointer,Size\n", "is an RMM allocation log (CSV)"),
        (b"\x0a\x04\x08\x01", "is a JAX device memory profile (pprof)"),
        (b"\x80\x06.", "is a pickle of protocol 6; protocols 2 to 5 are known"),
        (b"\x80\x04\x80\x07.", "is a pickle of protocol 7; protocols 2 to 5 are known"),
        (b"(dp0\nS'segments'\n", "is no format this program knows (it begins with the bytes 28 64 70 30)"),
        (b"\x7fELF", "is no format this program knows (it begins with the bytes 7f 45 4c 46)"),
        (b"x", "is no format this program knows (it begins with the bytes 78)"),
        (b"<!DOCTYPE html><p>\"base6\"base64", "is an HTML page without a memory snapshot in it"),
        (b"{\"schemaVersion\": 1, \"traceEvents\": []}", "is a PyTorch profiler trace (Chrome trace JSON)"),
        (b"[[1, 2], [3]]", "looks like a PyTorch memory timeline (JSON)"),
        (b"[[1, 0, [5, 0], 7]]", "looks like a PyTorch memory timeline (raw JSON)"),
    ];
    for (bytes, words) in heads {
        for bytes in [bytes.to_vec(), gzip(bytes)] {
            let sentence = failure(&bytes);
            assert!(sentence.starts_with(words), "{sentence}");
        }
    }
    assert!(failure(&gzip(b"\xff\xff\xff\xff\x70\0\0\0")).starts_with("has a vramscope recording packed inside"));
    for (bytes, words) in [
        (&b"{}"[..], "holds an empty dictionary; a memory snapshot is what"),
        (b"{\"a\": 1, \"b\\n\": 2}", "holds a dictionary of other things (a, b\u{fffd}); a memory snapshot is"),
        (b"[1]", "is a list of other things, not of memory segments; a memory"),
        (b"\x80\x04N.", "holds a single value; a memory snapshot is"),
        (b"[", "ends in the middle, at byte 1"),
        (b"[1 2]", "is no valid JSON at byte 3"),
        (b"{\"a\" 1}", "is no valid JSON at byte 5"),
        (b"{1: 1}", "is no valid JSON at byte 1"),
        (b"[\"\\u+123\"]", "is no valid JSON at byte 3"),
        (b"[nul]", "is no valid JSON at byte 4"),
    ] {
        let sentence = failure(bytes);
        assert!(sentence.starts_with(words), "{sentence}");
    }
}

#[test]
fn other_formats_in_the_collection_are_refused_by_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    if !root.join("formats").is_dir() {
        return println!("skipped: the files in {} are not here", root.display());
    }
    for (name, words) in [
        ("formats/dmon.txt", "is a table written by nvidia-smi dmon"),
        ("formats/pmon.txt", "is a table written by nvidia-smi pmon"),
        ("formats/smi.csv", "is a table written by nvidia-smi (CSV)"),
        ("formats/jax_memory.prof", "is a JAX device memory profile (pprof)"),
        ("formats/memory_timeline.json", "looks like a PyTorch memory timeline (JSON)"),
        ("formats/memory_timeline.raw.json.gz", "looks like a PyTorch memory timeline (raw JSON)"),
        ("formats/torch_profiler_trace.json.gz", "is a PyTorch profiler trace (Chrome trace JSON)"),
        ("cases/public/jax-gpu-small.prof", "is a JAX device memory profile (pprof)"),
        ("cases/public/trace-2021-bytes-only.pt.trace.json.gz", "is a PyTorch profiler trace (Chrome trace JSON)"),
        ("cases/public/trace-2022-addr-totals-rank1.json.gz", "is a PyTorch profiler trace (Chrome trace JSON)"),
        ("cases/public/trace-no-memory-big-int.json.gz", "is a PyTorch profiler trace (Chrome trace JSON)"),
        ("cases/public/trace-no-memory-rocm-mi250.json.gz", "is a PyTorch profiler trace (Chrome trace JSON)"),
    ] {
        let messages = read(&root.join(name));
        let Some(SourceMessage::Failed(sentence)) = messages.last() else { panic!("{name}: {messages:?}") };
        assert!(sentence.starts_with(words), "{name}: {sentence}");
        assert!(sentence.contains("cannot open yet"), "{name}: {sentence}");
    }
}

#[test]
fn what_cannot_be_opened_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let said = |path: &Path| match &read(path)[..] {
        [SourceMessage::Failed(sentence)] => sentence.clone(),
        other => panic!("{other:?}"),
    };
    assert!(said(folder.path()).starts_with("cannot be opened: "));
    assert!(said(&folder.path().join("nothing.pickle")).starts_with("cannot be opened: "));
    let empty = folder.path().join("empty.pickle");
    std::fs::write(&empty, b"").unwrap();
    assert_eq!(said(&empty), "is empty");
    assert_eq!(failure(&gzip(b"")), "is empty");
}

#[test]
fn what_unpacks_to_too_much_is_given_up() {
    // Zeros after a good beginning, in steps that fit into memory: 600 MiB from 600 KiB.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(b"\x80\x04\x8e\0\0\0\0\0\0\0\x01").unwrap();
    let zeros = vec![0; 1 << 20];
    (0..600).for_each(|_| encoder.write_all(&zeros).unwrap());
    let bomb = encoder.finish().unwrap();
    let limit = bomb.len() as u64 * 512 + (256 << 20);
    let sentence =
        format!("unpacks to more than {limit} bytes, 512 times its own size or more; that is not a recording");
    assert_eq!(failure(&bomb), sentence);
    // Packed again it is smaller, and what one layer gives to the next counts too.
    assert!(failure(&gzip(&bomb)).starts_with("unpacks to more than "));
}

#[test]
fn torn_files_keep_what_came_before() {
    let whole = Replay::of_bytes(&pickle(&small(), Style::Python(4)));
    let entries: Vec<String> = whole.lines().into_iter().filter(|line| !line.contains("Annotation")).collect();
    let files = STYLES.map(|style| (format!("{style:?}"), pickle(&small(), style)));
    let others = [("JSON".to_owned(), json(&small()).into_bytes()), ("gzip".into(), gzip(json(&small()).as_bytes()))];
    for (name, bytes) in files.into_iter().chain(others) {
        let mut before = 0;
        for cut in 1..bytes.len() {
            let replay = Replay::of_bytes(&bytes[..cut]);
            let place = format!("{name}, {cut} of {} bytes", bytes.len());
            if let Some(sentence) = &replay.failed {
                assert!(sentence.starts_with("ends in the middle, at byte") || cut < 5, "{place}: {sentence}");
                assert_eq!((before, replay.events.len()), (0, 0), "{place}");
                continue;
            }
            // The packed file's last bytes are its checksum and length, after the end of what is packed.
            if name != "gzip" || cut < bytes.len() - 20 {
                assert_eq!(replay.problem(ProblemKind::TornFile).count, 1, "{place}");
            }
            let told = |line: &String| !line.contains("at_start: true") && !line.contains("Annotation");
            let lines: Vec<String> = replay.lines().into_iter().filter(told).collect();
            let wrong = lines.iter().zip(&entries).find(|(told, entry)| told != entry);
            assert_eq!(wrong, None, "{place}");
            assert!(lines.len() >= before, "{place}: fewer entries than before");
            before = lines.len();
        }
        assert_eq!(before, entries.len(), "{name}");
    }
}

#[test]
fn a_torn_file_of_two_devices_keeps_them_apart() {
    let first = trace(vec![entry("segment_alloc", BASE, 2 * MIB), entry("alloc", BASE, 512)]);
    let second = trace((0..3).map(|index| entry("alloc", BASE + 512 * index, 512)).collect());
    let file = snapshot(vec![], vec![first, vec![].into(), second]);
    for (name, bytes) in [
        ("Python", pickle(&file, Style::Python(4))),
        ("C++", pickle(&file, Style::Cpp)),
        ("one by one", pickle(&file, Style::OneByOne)),
        ("JSON", json(&file).into_bytes()),
    ] {
        let tear = bytes.windows(18).rposition(|part| part == b"allocator_settings").unwrap();
        let replay = Replay::of_bytes(&bytes[..tear]);
        let entries: Vec<(u16, u64)> = replay.devices.iter().map(|(&device, state)| (device, state.entries)).collect();
        assert_eq!(entries, [(0, 2), (2, 3)], "{name}");
        assert_eq!(replay.devices[&2].allocated, 3 * 512, "{name}");
    }
}

#[test]
fn real_files_may_be_torn_anywhere() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus/gpt_fp32.pickle.gz");
    let Ok(packed) = std::fs::read(&path) else {
        return println!("skipped: {} is not here", path.display());
    };
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&packed[..]), &mut bytes).unwrap();
    let whole = Replay::of_bytes(&bytes).events;
    let mut most = 0;
    for step in 1..60 {
        for torn in [&bytes[..bytes.len() * step / 60], &packed[..packed.len() * step / 60]] {
            let replay = Replay::of_bytes(torn);
            assert_eq!(replay.failed, None, "{step}");
            assert!(replay.kinds().contains(&ProblemKind::TornFile), "{step}");
            assert!(!replay.kinds().contains(&ProblemKind::SizesDisagree), "{step}: its end is missing, not wrong");
            let told: Vec<_> = replay.events.iter().filter(|event| !event.kind.at_start()).collect();
            assert!(told.iter().zip(&whole).all(|(&told, whole)| told == whole), "{step}");
            most = most.max(told.len());
        }
    }
    assert!(most * 100 > whole.len() * 95, "{most} of {}", whole.len());
}

#[test]
fn depth_costs_no_stack() {
    let deep = 200_000;
    let pickle = [&[0x80, 4][..], &b"]".repeat(deep), &b"a".repeat(deep - 1), b"."].concat();
    assert!(failure(&pickle).starts_with("looks like"), "{}", failure(&pickle));
    let json = "[".repeat(deep) + &"]".repeat(deep);
    assert!(failure(json.as_bytes()).starts_with("looks like"));
    let json = "{\"a\":".repeat(deep) + "1" + &"}".repeat(deep);
    assert!(failure(json.as_bytes()).starts_with("holds a dictionary of other things (a)"));
    assert!(failure("[".repeat(deep).as_bytes()).starts_with("ends in the middle"));
    assert!(failure(&[&[0x80, 4][..], &b"(".repeat(deep), b"."].concat()).starts_with("is no valid pickle"));
    // A list that holds itself.
    assert!(failure(b"\x80\x02]q\x00h\x00a.").starts_with("looks like"));
}

#[test]
fn the_memo_takes_any_number() {
    let put = |number: u32| [&b"r"[..], &number.to_le_bytes()].concat();
    let get = |number: u32| [&b"j"[..], &number.to_le_bytes()].concat();
    let numbers = [u32::MAX, 1 << 31, 77, 3, 0, 1, 4_000_000_000];
    let mut bytes = b"\x80\x02}".to_vec();
    for (index, number) in numbers.into_iter().enumerate() {
        bytes.extend([b'K', index as u8]);
        bytes.extend(put(number));
        bytes.push(b'0');
    }
    // An entry whose address is what was stored under each number.
    let name = |text: &str| [&[b'X', text.len() as u8, 0, 0, 0], text.as_bytes()].concat();
    bytes.extend([name("device_traces"), b"]](".to_vec()].concat());
    for number in numbers {
        bytes.extend([b"}(".to_vec(), name("action"), name("x"), name("addr"), get(number), b"u".to_vec()].concat());
    }
    bytes.extend(b"eas.");
    let replay = Replay::of_bytes(&bytes);
    let addresses: Vec<u64> = replay
        .events
        .iter()
        .map(|event| match event.kind {
            EventKind::Other { address, .. } => address,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((replay.failed, addresses), (None, (0..7).collect()));
    assert_eq!(
        failure(&[&b"\x80\x02"[..], &get(9), b"."].concat()),
        "is no valid pickle: before byte 7 it refers to item 9, which was never stored"
    );
}

#[test]
fn cancelling_ends_in_one_sentence_soon() {
    let bytes = pickle(&small(), Style::Python(4));
    let (out, messages) = crossbeam_channel::unbounded();
    let progress = Progress::default();
    progress.cancel();
    vramscope_collector::read_bytes(&bytes, &progress, &out);
    let last = messages.try_iter().last();
    assert!(
        matches!(&last, Some(SourceMessage::Failed(words)) if words == "was not read to the end: cancelled"),
        "{last:?}"
    );

    /// Zeros without end, and a request to stop after the first few.
    struct Endless<'a>(&'a Progress, u64);
    impl std::io::Read for Endless<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 += buffer.len() as u64;
            assert!(self.1 < 64 << 20, "still reading");
            if self.1 > 16 << 20 {
                self.0.cancel();
            }
            buffer.fill(b'N');
            if self.1 == buffer.len() as u64 {
                buffer[..2].copy_from_slice(b"\x80\x04");
            }
            Ok(buffer.len())
        }
    }
    let progress = Progress::default();
    vramscope_collector::read_stream(Endless(&progress, 0), 100 << 20, &progress, &out);
    let (done, total) = progress.get();
    assert!(done > 16 << 20 && done < 32 << 20 && total == 100 << 20, "{done} of {total}");
    let said: Vec<SourceMessage> = messages.try_iter().collect();
    assert!(matches!(&said[..], [SourceMessage::Failed(words)] if words.ends_with("cancelled")), "{said:?}");

    let progress = Progress::default();
    vramscope_collector::read_bytes(&bytes, &progress, &out);
    assert_eq!(progress.get(), (bytes.len() as u64, bytes.len() as u64));
    drop(messages);
    // Nobody listens: the reader just ends.
    vramscope_collector::read_bytes(&bytes, &Progress::default(), &out);
}
