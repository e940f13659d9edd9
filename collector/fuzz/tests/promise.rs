//! Inputs made to cost as much as they can: memory stays below the promise, and the work below the square of the size.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::io::Write;
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Words that inputs refer to as items 0, 1, 2 … of the memo.
const WORDS: [&str; 16] = [
    "segments",
    "device_traces",
    "blocks",
    "state",
    "action",
    "alloc",
    "addr",
    "size",
    "total_size",
    "address",
    "device",
    "free_completed",
    "allocator_settings",
    "active_allocated",
    "frames",
    "name",
];

/// A reference to a word.
fn word(text: &str) -> Vec<u8> {
    let index = WORDS.iter().position(|word| *word == text).unwrap();
    vec![b'h', index as u8]
}

fn number(number: u64) -> Vec<u8> {
    [&[0x8a, 8][..], &number.to_le_bytes()].concat()
}

/// A pickle that begins with the words, and whose value is what `parts` say.
fn pickle(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![0x80, 4];
    for text in WORDS {
        bytes.extend([0x8c, text.len() as u8]);
        bytes.extend(text.as_bytes());
        bytes.extend([0x94, b'0']);
    }
    bytes.extend(parts.concat());
    bytes.push(b'.');
    bytes
}

/// A pickle that ends in the middle.
fn torn(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = pickle(parts);
    bytes.pop();
    bytes
}

/// A dictionary of one list under `key`.
fn under(key: &str, list: &[u8]) -> Vec<u8> {
    pickle(&[b"}", &word(key), b"](", list, b"es"])
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// `count` entries made by `each`, in one trace.
fn entries(count: u64, each: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    let list: Vec<u8> = (0..count).flat_map(each).collect();
    under("device_traces", &[&b"]("[..], &list, b"e"].concat())
}

fn entry(action: &str, address: u64, size: u64) -> Vec<u8> {
    let pairs = [word("action"), word(action), word("addr"), number(address), word("size"), number(size)];
    [&b"}("[..], &pairs.concat(), b"u"].concat()
}

type Inputs = Vec<(&'static str, Vec<u8>)>;

/// How often small things are repeated.
const MANY: usize = 300_000;

/// What `each` gives for the numbers below `count`.
fn each(count: u32, each: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (0..count).flat_map(each).collect()
}

/// A text of four bytes that only this number has.
fn text(number: u32) -> Vec<u8> {
    [&[0x8c, 4][..], &number.to_le_bytes()].concat()
}

fn many_small_things() -> Inputs {
    let frame = |n| [&b"]}\x8c\x08filename"[..], &text(n), b"saa"].concat();
    vec![
        ("lists", pickle(&[&b"]".repeat(MANY)])),
        ("dictionaries", pickle(&[&b"}".repeat(MANY)])),
        ("marks", pickle(&[&b"(".repeat(MANY)])),
        ("lists of one", pickle(&[&b"]Na".repeat(MANY)])),
        ("dictionaries of one", pickle(&[&b"}NNs".repeat(MANY)])),
        ("pairs", pickle(&[&b"K\x01K\x02\x86".repeat(MANY)])),
        ("no text", pickle(&[b"X\0\0\x10\0", &[0xff; 1 << 20]])),
        ("names", pickle(&[&each(MANY as u32, text)])),
        ("frames", pickle(&[b"]", &each(MANY as u32, frame)])),
        ("JSON lists", "[[],".repeat(MANY).into_bytes()),
        ("JSON dictionaries", ["[", &"{},".repeat(MANY)].concat().into_bytes()),
        ("JSON depth", "[".repeat(MANY).into_bytes()),
        ("JSON numbers", ["[", &"0.5,".repeat(MANY)].concat().into_bytes()),
        ("JSON keys", ["{", &"\"\":1,".repeat(MANY)].concat().into_bytes()),
        ("blanks packed twice", gzip(&gzip(&[&b"<html>"[..], &[b' '; 32 << 20]].concat()))),
    ]
}

fn segments_and_blocks() -> Inputs {
    let segment = [&b"}"[..], &word("total_size"), b"Ns"].concat();
    let block = [&b"}"[..], &word("state"), &word("active_allocated"), b"s"].concat();
    let listed = [&b"}"[..], &word("blocks"), b"](", &block.repeat(MANY), b"es"].concat();
    // Item 16 is a list of blocks, or a segment that has one; it is then used over and over.
    let some = block.repeat(20_000);
    let blocks = [&b"]\x94("[..], &some, b"e0"].concat();
    let odd_blocks = [&b"]\x94("[..], &some, b"Ne0"].concat();
    let with_blocks = [&b"}"[..], &word("blocks"), b"h\x10s"].concat().repeat(100_000);
    let one = [&b"}\x94("[..], &word("total_size"), b"N", &word("blocks"), b"](", &some, b"eu"].concat();
    let segments = [&b"]\x94("[..], &segment.repeat(50_000), b"e0"].concat();
    let often = [word("segments"), b"h\x10".to_vec()].concat().repeat(50_000);
    vec![
        ("segments", under("segments", &segment.repeat(MANY))),
        ("segments that are torn off", under("segments", &segment.repeat(MANY))[..MANY * 3].to_vec()),
        ("blocks", under("segments", &listed)),
        ("one segment listed often", under("segments", &[&one[..], &b"h\x10".repeat(100_000)].concat())),
        ("blocks of many segments", under("segments", &[blocks, with_blocks.clone()].concat())),
        ("no blocks of many segments", under("segments", &[odd_blocks, with_blocks].concat())),
        ("one key often", pickle(&[&segments, b"}(", &often, b"u"])),
    ]
}

fn traces() -> Inputs {
    let trace = [&b"]\x94("[..], &entry("alloc", 5, 5).repeat(50_000), b"e"].concat();
    let devices = each(60_000, |n| [&b"]("[..], &entry("alloc", n.into(), n.into()), b"e"].concat());
    let segments = each(60_000, |n| {
        let (device, address) = (number(n.into()), number(u64::from(n) << 30));
        let pairs = [word("device"), device, word("total_size"), number(4096), word("address"), address];
        [&b"}("[..], &pairs.concat(), b"u"].concat()
    });
    let both = [&b"}("[..], &word("device_traces"), b"](", &devices, b"e", &word("segments"), b"](", &segments, b"eu"];
    vec![
        ("one trace of many devices", under("device_traces", &[&trace[..], &b"h\x10".repeat(60_000)].concat())),
        ("many devices", pickle(&both)),
        ("lists and marks that wait", torn(&[b"}(", &word("device_traces"), b"]", &b"](".repeat(MANY)])),
        ("one list that waits often", torn(&[b"}(", &word("device_traces"), b"](", &trace, &b"2".repeat(MANY)])),
        ("entries", entries(MANY as u64, |_| [&b"}"[..], &word("action"), &word("alloc"), b"s"].concat())),
        ("allocations", entries(100_000, |n| entry("alloc", n << 9, 9))),
        ("frees", entries(100_000, |n| entry("free_completed", n << 9, 9))),
        ("allocations over each other", entries(50_000, |n| entry("alloc", 50_000 - n, u64::MAX >> (n % 64)))),
    ]
}

fn settings() -> Inputs {
    let long_text = [&b"X\0\0\x10\0"[..], &[b'x'; 1 << 20], b"\x940"].concat();
    let long = each(4096, |n| [text(n), b"h\x10".to_vec()].concat());
    let short = each(4096, |n| [text(n), b"K\x01".to_vec()].concat());
    let all = word("allocator_settings");
    let segment = [word("total_size"), number(1 << 30), word("address"), number(0)].concat();
    let frees: Vec<u8> = (0..20_000).flat_map(|n| entry("free_completed", n << 9, 9)).collect();
    let segments = [&word("segments")[..], b"](}(", &segment, b"ue"].concat();
    let traces = [&word("device_traces")[..], b"](](", &frees, b"ee"].concat();
    vec![
        ("long settings", pickle(&[&long_text, b"}(", &word("segments"), b"]", &all, b"}(", &long, b"uu"])),
        ("settings and guesses", pickle(&[b"}(", &segments, &traces, &all, b"}(", &short, b"uu"])),
    ]
}

#[test]
fn nothing_costs_more_than_promised() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile");
    for (name, bytes) in [many_small_things(), segments_and_blocks(), traces(), settings()].concat() {
        std::fs::write(&file, &bytes).unwrap();
        // A process of its own: one that has run before keeps memory that would not be counted again.
        let output = Command::new(env!("CARGO_BIN_EXE_vramscope-fuzz")).arg("measure").arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{name}: {}", said.split_once(": ").unwrap().1.trim());
        assert!(output.status.success(), "{name}: {said}");
    }
}
