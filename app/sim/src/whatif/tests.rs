//! Small runs whose answers can be worked out by hand, after situations that people reported.

use vramscope_trace::{Action, PoolOwner, Request, Requests, StackId, StreamId, TimeNs};

use super::*;
use crate::conf;
use crate::policy::{Limit, Torch};

const MIB: u64 = 1 << 20;

/// Makes requests one by one.
#[derive(Default)]
struct Program {
    requests: Requests,
    allocations: u32,
}

impl Program {
    fn push(&mut self, action: Action) {
        let event = self.requests.list.len() as u32;
        self.requests.list.push(Request { time: Some(TimeNs(i64::from(event))), event, action });
    }

    /// Asks for so many MiB on a stream.
    fn make_on(&mut self, stream: u64, mebibytes: u64) -> u32 {
        let stream = StreamId(stream);
        let owner = PoolOwner::DEFAULT;
        self.push(Action::Alloc { bytes: mebibytes * MIB, stream, owner, stack: StackId::NONE, failed: false });
        self.allocations += 1;
        self.allocations - 1
    }

    fn make(&mut self, mebibytes: u64) -> u32 {
        self.make_on(0, mebibytes)
    }

    fn free(&mut self, allocation: u32) {
        self.push(Action::FreeRequested { allocation, stack: StackId::NONE });
        self.push(Action::FreeCompleted { allocation });
    }
}

fn policy(text: &str, mebibytes: Option<u64>) -> Policy {
    conf::parse(text, Torch::NEWEST, mebibytes.map(|count| count * MIB)).unwrap()
}

/// A large tensor's segment is cut up by small tensors before it is asked for again (pytorch/pytorch#35901).
fn cut_up() -> Requests {
    let mut program = Program::default();
    let large = program.make(116);
    program.free(large);
    for _ in 0..5 {
        program.make(3);
    }
    program.make(116);
    program.requests
}

#[test]
fn settings_that_keep_large_segments_whole_save_the_run() {
    let requests = cut_up();
    let fails = |text| predict(&requests, &policy(text, Some(140))).outcome.failure.is_some();
    assert!(fails(""));
    assert!(!fails("expandable_segments:True"));
    assert!(!fails("max_split_size_mb:64"));
    let failure = predict(&requests, &policy("", Some(140))).outcome.failure.unwrap();
    assert_eq!((failure.requested, failure.totals.reserved, failure.totals.retries), (116 * MIB, 116 * MIB, 1));
}

#[test]
fn the_smallest_capacity_is_the_smallest_that_survives() {
    let requests = cut_up();
    // A cap is asked for 116 MiB, whatever whole pages then take: with expandable segments 140 MiB are reserved under 136.
    for (text, least) in [("", 232), ("max_split_size_mb:64", 136), ("expandable_segments:True", 136)] {
        let found = min_capacity(&requests, &policy(text, None)).map(|bytes| bytes / MIB);
        assert_eq!(found, Some(least), "{text}");
        for (mebibytes, survives) in [(least, true), (least - 2, false)] {
            let prediction = predict(&requests, &policy(text, Some(mebibytes)));
            assert_eq!(prediction.outcome.failure.is_none(), survives, "{text} on {mebibytes} MiB");
        }
    }
}

#[test]
fn no_capacity_is_enough_for_what_no_device_has() {
    let mut program = Program::default();
    program.make(1 << 31);
    assert_eq!(min_capacity(&program.requests, &policy("", None)), None);
}

#[test]
fn memory_of_one_stream_does_not_serve_another() {
    let mut program = Program::default();
    let large = program.make_on(7, 500);
    program.make_on(7, 4);
    program.free(large);
    let mut kept = program.make(200);
    let policy = policy("", Some(720));
    assert_eq!(predict(&program.requests, &policy).outcome.totals.retries, 0);
    // What stream 7 leaves free can only go back to the driver whole.
    program.free(kept);
    kept = program.make(300);
    let totals = predict(&program.requests, &policy).outcome.totals;
    assert_eq!((totals.retries, totals.reserved), (1, 320 * MIB));
    assert_eq!(kept, 3);
}

#[test]
fn a_device_that_is_full_refuses_pages_not_whole_segments() {
    let mut program = Program::default();
    program.make(2);
    let expandable = policy("expandable_segments:True", None);
    let fails = |limit| {
        let outcome = predict(&program.requests, &expandable.with_limit(limit)).outcome;
        outcome.failure.is_some()
    };
    assert!(!fails(Limit::Device(20 * MIB)) && fails(Limit::Device(19 * MIB)));
    assert!(!fails(Limit::Fraction(20 * MIB)) && fails(Limit::Fraction(19 * MIB)));
}

#[test]
fn an_answer_says_when_addresses_decide() {
    // Two free blocks of 12 MiB, one beside free space that a request of 30 MiB needs: best fit takes the lower one.
    let mut program = Program::default();
    let one = program.make(12);
    let other = program.make(12);
    program.free(one);
    program.free(other);
    let first = program.make(12);
    let second = program.make(5);
    program.free(first);
    program.free(second);
    let requests = program.requests;
    let prediction = predict(&requests, &policy("", None));
    assert_eq!(prediction.outcome.totals.ties, 1);
    assert!(prediction.outcome.totals.guessed_places > 0);
    assert!(!prediction.depends_on_addresses, "equal segments are interchangeable");
    assert_eq!(prediction.peak_reserved_range, (24 * MIB, 24 * MIB));
}

#[test]
fn survivors_come_first_and_the_leanest_of_them() {
    let requests = cut_up();
    let mut found: Vec<(&str, Prediction)> = ["", "max_split_size_mb:64", "expandable_segments:True"]
        .map(|text| (text, predict(&requests, &policy(text, Some(140)))))
        .into();
    found.sort_by(|(_, one), (_, other)| rank(one, other));
    let order: Vec<&str> = found.iter().map(|(text, _)| *text).collect();
    assert_eq!(order, ["max_split_size_mb:64", "expandable_segments:True", ""]);
}
