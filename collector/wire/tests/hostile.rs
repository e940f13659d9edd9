//! Files that no writer wrote: readers say so, and neither panic nor read outside.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::cell::Cell;

use vramscope_wire::{
    Api, BURST, Header, HeaderError, Kind, LaneReader, Layout, MAGIC, Meta, RECORD_WORDS, Record, Source, TEXT_BYTES,
    TextAssembler, VERSION, text_records,
};

/// A small random generator (xorshift), so that failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // Small, large and middling numbers alike.
        match self.0 % 5 {
            0 => self.0 % 32,
            1 => u64::MAX - self.0 % 32,
            2 => self.0 % (1 << 20),
            _ => self.0,
        }
    }
}

#[test]
fn headers_survive_a_round_trip() {
    for (lanes, log2, rank) in [(1, 4, None), (64, 16, Some(0)), (1024, 24, Some(7))] {
        let header = Header {
            layout: Layout::new(lanes, log2).unwrap(),
            pid: 4321,
            parent: 1,
            rank,
            unix_ns: 1_700_000_000_000_000_000,
            monotonic_ns: 5,
            name: *b"python3\0\0\0\0\0\0\0\0\0",
        };
        assert_eq!(Header::parse(&header.words()), Ok(header));
    }
}

#[test]
fn what_is_no_ring_is_told_apart() {
    let good = Header {
        layout: Layout::new(2, 4).unwrap(),
        pid: 1,
        parent: 1,
        rank: None,
        unix_ns: 0,
        monotonic_ns: 0,
        name: [0; 16],
    }
    .words();
    let with = |at: usize, word: u64| {
        let mut words = good;
        words[at] = word;
        Header::parse(&words)
    };
    assert_eq!(Header::parse(&good[..7]), Err(HeaderError::NotYet));
    assert_eq!(with(0, 0), Err(HeaderError::NotYet));
    assert_eq!(with(0, MAGIC + 1), Err(HeaderError::NoRing));
    assert_eq!(with(1, u64::from(VERSION + 1) | 2 << 32), Err(HeaderError::Version(VERSION + 1)));
    for lanes in [0, u64::from(Layout::MOST_LANES) + 1, u64::from(u32::MAX)] {
        assert_eq!(with(1, u64::from(VERSION) | lanes << 32), Err(HeaderError::Shape));
    }
    for log2 in [0, 3, 25, 63, 64, u64::from(u32::MAX)] {
        assert_eq!(with(2, log2), Err(HeaderError::Shape));
    }
    let mut random = Random(1);
    for _ in 0..100_000 {
        let words: [u64; 8] = std::array::from_fn(|_| random.next());
        assert!(Header::parse(&words).is_err());
    }
}

/// Answers every read with random words, and notes how far reads reach.
struct Noise {
    random: Cell<u64>,
    furthest: Cell<usize>,
}

impl Source for Noise {
    fn read(&self, at: usize, out: &mut [u64]) -> bool {
        let mut random = Random(self.random.get());
        out.fill_with(|| random.next());
        self.random.set(random.0);
        self.furthest.set(self.furthest.get().max(at + out.len()));
        true
    }
}

#[test]
fn random_lanes_are_read_without_harm() {
    let layout = Layout::new(3, 5).unwrap();
    let noise = Noise { random: Cell::new(7), furthest: Cell::new(0) };
    let mut readers = [LaneReader::default(); 3];
    let mut buffer = [0; 40 * RECORD_WORDS];
    let mut texts = TextAssembler::default();
    for round in 0..200_000 {
        let lane = round % 3;
        let taken = readers[lane].read(&noise, layout, lane as u32, &mut buffer).unwrap();
        assert!(taken.records().len() as u64 <= layout.records());
        for record in taken.records() {
            let _ = record.meta();
            if let Some(text) = texts.push(&record) {
                assert!(text.bytes().len() <= TEXT_BYTES);
            }
        }
    }
    assert!(noise.furthest.get() as u64 * 8 <= layout.file_bytes());
}

#[test]
fn a_file_that_is_too_short_is_no_source() {
    struct Short(usize);
    impl Source for Short {
        fn read(&self, at: usize, out: &mut [u64]) -> bool {
            out.fill(40);
            at + out.len() <= self.0
        }
    }
    let layout = Layout::new(1, 5).unwrap();
    let mut buffer = [0; 8 * RECORD_WORDS];
    for words in [0, layout.head(0), layout.head(0) + 1, layout.first_record(0) + 3] {
        assert_eq!(LaneReader::default().read(&Short(words), layout, 0, &mut buffer), None, "{words}");
    }
}

fn meta(kind: Kind) -> Meta {
    Meta { kind, device: 3, api: Api::Hook, flags: 0, thread: 99 }
}

#[test]
fn texts_of_every_length_survive_a_round_trip() {
    let long: Vec<u8> = (0..400u32).map(|n| b'a' + (n % 26) as u8).collect();
    for length in 0..=long.len() {
        let (records, count) = text_records(meta(Kind::RangeBegin), 5, 8, &long[..length]);
        assert!(count as u64 <= BURST);
        let mut texts = TextAssembler::default();
        let mut found = None;
        for record in &records[..count] {
            assert!(TextAssembler::concerns(record));
            assert!(found.is_none(), "a text was whole before its last record");
            found = texts.push(record);
        }
        let text = found.unwrap();
        assert_eq!(text.bytes(), &long[..length.min(TEXT_BYTES)]);
        assert_eq!((text.is_cut(), text.id, text.time_ns, text.meta.thread), (length > TEXT_BYTES, 8, 5, 99));
    }
}

#[test]
fn a_text_without_its_end_is_cut_and_an_end_without_its_text_is_dropped() {
    let (records, count) = text_records(meta(Kind::Mark), 5, 0, &[b'x'; 200]);
    assert!(count >= 4);
    let mut texts = TextAssembler::default();
    assert_eq!(texts.push(&records[2]), None, "an end alone");
    assert_eq!(texts.push(&records[0]), None);
    assert_eq!(texts.push(&records[1]), None);
    let block = Record::new(meta(Kind::BlockAlloc), 6, [1, 2, 3, 4]);
    let cut = texts.push(&block).unwrap();
    assert!(cut.is_cut() && !TextAssembler::concerns(&block));
    assert_eq!(cut.bytes(), &[b'x'; 32 + 56]);
    assert_eq!(texts.push(&block), None);
}

#[test]
fn records_of_unknown_kinds_say_so() {
    for kind in 0..=255u64 {
        let known = Record([kind, 0, 0, 0, 0, 0, 0, 0]).meta().is_some();
        assert_eq!(known, (1..=18).contains(&kind), "{kind}");
    }
    let whole = meta(Kind::Unmap);
    assert_eq!(Record::new(whole, 1, [0; 4]).meta(), Some(whole));
}
