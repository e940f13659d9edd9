//! The protocol between a lane's writer and its reader, stopped at every store and every load.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vramscope_wire::{BURST, LaneReader, Layout, RECORD_WORDS, Record, Source, Words, write_records};

const LANE: u32 = 1;

fn layout() -> Layout {
    Layout::new(2, 4).unwrap()
}

fn record(number: u64) -> Record {
    Record(std::array::from_fn(|word| number * 100 + word as u64))
}

/// The number of a whole record; `None` if it is put together from several.
fn number(record: &Record) -> Option<u64> {
    let number = record.0[0] / 100;
    (*record == crate::record(number)).then_some(number)
}

/// Which order stores between two fences become visible in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    AsWritten,
    Reversed,
}

/// Notes every store of a writer, with the moment (1, 2, …) at which it becomes visible.
struct Noted {
    order: Order,
    /// A broken writer: the head becomes visible before the records.
    head_first: bool,
    /// A broken writer: records may become visible before the head that was stored before them.
    no_fence: bool,
    group: RefCell<Vec<(usize, u64)>>,
    /// Each word's values, with the moment from which they hold.
    words: RefCell<Vec<Vec<(usize, u64)>>>,
    moments: Cell<usize>,
}

impl Noted {
    fn new(order: Order) -> Self {
        Self {
            order,
            head_first: false,
            no_fence: false,
            group: RefCell::default(),
            words: RefCell::new(vec![Vec::new(); (layout().file_bytes() / 8) as usize]),
            moments: Cell::new(0),
        }
    }

    fn show(&self, at: usize, value: u64) {
        self.moments.set(self.moments.get() + 1);
        self.words.borrow_mut()[at].push((self.moments.get(), value));
    }

    fn flush(&self) {
        let mut group = self.group.take();
        if self.order == Order::Reversed {
            group.reverse();
        }
        for (at, value) in group {
            self.show(at, value);
        }
    }

    fn value(&self, at: usize, moment: usize) -> u64 {
        let words = self.words.borrow();
        let history = &words[at];
        let known = history.partition_point(|&(from, _)| from <= moment);
        if known == 0 { 0 } else { history[known - 1].1 }
    }
}

impl Words for Noted {
    fn own(&self, at: usize) -> u64 {
        self.group
            .borrow()
            .iter()
            .rev()
            .find(|&&(word, _)| word == at)
            .map_or_else(|| self.value(at, usize::MAX), |&(_, value)| value)
    }

    fn store(&self, at: usize, value: u64) {
        self.group.borrow_mut().push((at, value));
    }

    fn order(&self) {
        if !self.no_fence {
            self.flush();
        }
    }

    fn publish(&self, at: usize, value: u64) {
        if self.no_fence {
            // The head waits in the store buffer and may be overtaken by what comes next.
            let kept = self.group.take();
            let (heads, rest): (Vec<_>, Vec<_>) = kept.into_iter().partition(|&(word, _)| word == at);
            for (word, value) in rest.into_iter().chain(heads) {
                self.show(word, value);
            }
            self.group.borrow_mut().push((at, value));
        } else if self.head_first {
            self.show(at, value);
            self.flush();
        } else {
            self.flush();
            self.show(at, value);
        }
    }
}

/// A reader's view that moves forward in time at chosen loads.
struct View<'a> {
    noted: &'a Noted,
    moment: Cell<usize>,
    loads: Cell<usize>,
    jumps: &'a [(usize, usize)],
}

impl Source for View<'_> {
    fn read(&self, at: usize, out: &mut [u64]) -> bool {
        for (offset, out) in out.iter_mut().enumerate() {
            let load = self.loads.get();
            for &(when, by) in self.jumps {
                if when == load {
                    self.moment.set(self.moment.get() + by);
                }
            }
            *out = self.noted.value(at + offset, self.moment.get());
            self.loads.set(load + 1);
        }
        true
    }
}

/// Writes 48 records in bursts of every size.
fn written(noted: Noted) -> Noted {
    let mut next = 0;
    for size in (1..=BURST).cycle() {
        if next >= 48 {
            break;
        }
        let burst: Vec<Record> = (next..next + size).map(record).collect();
        write_records(&noted, layout(), LANE, &burst);
        next += size;
    }
    noted.flush();
    noted
}

const BUFFER_RECORDS: usize = 2;
/// Loads of one read: the head, the records, the head.
const LOADS: usize = 1 + BUFFER_RECORDS * RECORD_WORDS + 1;

/// Reads once with a schedule and checks what came; `false` if the reader believed something false.
fn holds(noted: &Noted, from: u64, start: usize, jumps: &[(usize, usize)]) -> bool {
    let view = View { noted, moment: Cell::new(start), loads: Cell::new(0), jumps };
    let mut reader = reader_at(from);
    let mut buffer = [0; BUFFER_RECORDS * RECORD_WORDS];
    let taken = reader.read(&view, layout(), LANE, &mut buffer).unwrap();
    if taken.damaged {
        return true;
    }
    let first = from + taken.lost;
    taken.records().enumerate().all(|(index, record)| number(&record) == Some(first + index as u64))
}

/// A reader that has read `position` records.
fn reader_at(position: u64) -> LaneReader {
    struct Head(u64);
    impl Source for Head {
        fn read(&self, at: usize, out: &mut [u64]) -> bool {
            out.fill(if at == layout().head(LANE) { self.0 } else { 0 });
            true
        }
    }
    let mut reader = LaneReader::default();
    let mut buffer = [0; 64 * RECORD_WORDS];
    for head in 1..=position {
        reader.read(&Head(head), layout(), LANE, &mut buffer).unwrap();
    }
    reader
}

/// Tries every single interruption and a grid of double ones; returns how many schedules were tried and how many went wrong.
fn try_all(noted: &Noted) -> (u64, u64) {
    let (mut tried, mut wrong) = (0, 0);
    let mut check = |from, start, jumps: &[(usize, usize)]| {
        tried += 1;
        wrong += u64::from(!holds(noted, from, start, jumps));
    };
    let end = noted.moments.get();
    for from in [0, 3, 14, 15] {
        for start in (0..end).step_by(3) {
            for load in 0..LOADS {
                for by in 0..(end - start).min(220) {
                    check(from, start, &[(load, by)]);
                }
            }
        }
        for start in (0..end).step_by(23) {
            for first in 0..LOADS {
                for second in first..LOADS {
                    for (by, then) in
                        [1, 2, 7, 9, 40, 90, 130, 160].into_iter().flat_map(|a| [1, 8, 9, 45, 99].map(|b| (a, b)))
                    {
                        check(from, start, &[(first, by), (second, then)]);
                    }
                }
            }
        }
    }
    (tried, wrong)
}

#[test]
fn no_interruption_makes_a_reader_believe_a_torn_record() {
    for order in [Order::AsWritten, Order::Reversed] {
        let (tried, wrong) = try_all(&written(Noted::new(order)));
        assert!(tried > 500_000, "{tried}");
        assert_eq!(wrong, 0, "{order:?}: {wrong} of {tried}");
    }
}

#[test]
fn the_same_search_finds_what_is_wrong_with_broken_writers() {
    let (_, wrong) = try_all(&written(Noted { head_first: true, ..Noted::new(Order::AsWritten) }));
    assert!(wrong > 0, "a head before its records");
    let (_, wrong) = try_all(&written(Noted { no_fence: true, ..Noted::new(Order::AsWritten) }));
    assert!(wrong > 0, "records before the head that was stored before them");
}

#[test]
fn a_slow_reader_loses_the_oldest_and_knows_how_many() {
    let words = memory();
    for number in 0..100 {
        write_records(&words[..], layout(), LANE, &[record(number)]);
    }
    let mut reader = LaneReader::default();
    let mut buffer = [0; 64 * RECORD_WORDS];
    let taken = reader.read(&words[..], layout(), LANE, &mut buffer).unwrap();
    let kept = layout().records() - BURST;
    assert_eq!(taken.lost, 100 - kept);
    let mut numbers: Vec<u64> = taken.records().filter_map(|record| number(&record)).collect();
    loop {
        let more = reader.read(&words[..], layout(), LANE, &mut buffer).unwrap();
        if more.is_empty() {
            break;
        }
        assert_eq!(more.lost, 0);
        numbers.extend(more.records().filter_map(|record| number(&record)));
    }
    assert_eq!(numbers, (100 - kept..100).collect::<Vec<_>>());
}

fn memory() -> Vec<AtomicU64> {
    (0..layout().file_bytes() / 8).map(|_| AtomicU64::new(0)).collect()
}

#[test]
fn two_threads_agree_on_every_record() {
    let words = memory();
    let done = AtomicBool::new(false);
    const RECORDS: u64 = 300_000;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = 0;
            while next < RECORDS {
                let burst: Vec<Record> = (next..next + 1 + next % BURST).map(record).collect();
                write_records(&words[..], layout(), LANE, &burst);
                next += burst.len() as u64;
                if next % 7 == 0 {
                    std::hint::spin_loop();
                }
            }
            done.store(true, Ordering::Release);
        });
        let mut reader = LaneReader::default();
        let mut buffer = [0; 8 * RECORD_WORDS];
        let (mut position, mut taken_records) = (0, 0);
        loop {
            let finished = done.load(Ordering::Acquire);
            let taken = reader.read(&words[..], layout(), LANE, &mut buffer).unwrap();
            assert!(!taken.damaged);
            if taken.is_empty() && finished {
                break;
            }
            position += taken.lost;
            for record in taken.records() {
                assert_eq!(number(&record), Some(position));
                position += 1;
                taken_records += 1;
            }
        }
        assert!(position >= RECORDS, "lost and taken records make up all of them");
        assert!(taken_records > 0);
    });
}
