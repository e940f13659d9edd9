//! Tests of the side panel's answers.

use std::sync::Arc;

use vramscope_model::{Elsewhere, Fit, History, Metric, Position, fit};
use vramscope_trace::{Pool, PoolOwner, SizeClass, StreamId};

use super::figures::percent;
use super::model::{Reason, failure, next_request, settings, top_pins, verdict};
use crate::demos::find;
use crate::session::Session;

const MIB: u64 = 1 << 20;

fn demo(name: &str) -> Arc<History> {
    let wake: crate::jobs::Wake = Arc::new(|| ());
    let mut session = Session::open_demo(find(name).unwrap(), &wake);
    session.wait();
    Arc::clone(&session.runs()[0].history)
}

fn refused() -> Fit {
    Fit {
        rounded: 432 * MIB,
        class: SizeClass::Large,
        from_cache: None,
        segment_bytes: 432 * MIB,
        largest_free_here: 358 * MIB,
        free_here: 1200 * MIB,
        free_elsewhere: Vec::new(),
    }
}

#[test]
fn shares_never_hide_something_or_claim_everything() {
    assert_eq!(percent(0, 0), "0 %");
    assert_eq!(percent(0, 10), "0 %");
    assert_eq!(percent(1, 1_000_000), "<0.1 %");
    assert_eq!(percent(999_999, 1_000_000), ">99.9 %");
    assert_eq!(percent(7, 7), "100 %");
    assert_eq!(percent(1, 3), "33.3 %");
}

#[test]
fn a_refusal_says_why() {
    let pieces = verdict(&refused(), 0, None);
    assert!(!pieces.served);
    assert_eq!(pieces.line, "Needs a new segment of 432.00 MiB");
    assert_eq!(pieces.reasons, ["1.17 GiB are free here, but in pieces: the longest is 358.00 MiB."]);
    let little = verdict(&Fit { free_here: 400 * MIB, ..refused() }, 0, None);
    assert_eq!(little.reasons, ["Only 400.00 MiB are free here."]);
    let none = verdict(&Fit { free_here: 0, largest_free_here: 0, ..refused() }, 0, None);
    assert_eq!(none.reasons, ["This pool and stream have no free memory."]);
    let served = verdict(&Fit { from_cache: Some(1), ..refused() }, 0, Some(1));
    assert!(served.served && served.reasons.is_empty());
}

#[test]
fn free_memory_elsewhere_and_the_capacity_are_told() {
    let pool = Pool { owner: PoolOwner(1, 0), class: SizeClass::Large };
    let elsewhere =
        |largest_free| Elsewhere { pool: Some(pool), stream: Some(StreamId(0)), free: 900 * MIB, largest_free };
    let fit = Fit { free_elsewhere: vec![elsewhere(500 * MIB), elsewhere(100 * MIB)], ..refused() };
    let told = verdict(&fit, 800 * MIB, Some(1024 * MIB));
    assert_eq!(told.reasons.len(), 3, "only what would be long enough is worth telling: {:?}", told.reasons);
    assert!(told.reasons[1].contains("Private pool (1, 0), large") && told.reasons[1].contains("only its owner"));
    assert!(told.reasons[2].contains("more than the device has"));
    assert!(verdict(&fit, 100 * MIB, Some(1024 * MIB)).reasons[2].starts_with("Reserved would rise to 532.00 MiB"));
}

#[test]
fn who_pins_alone_comes_before_who_pins_as_much_together() {
    let pin = |block, pinned_bytes, shared_bytes| {
        let (block, segment) = (vramscope_model::BlockId(block), vramscope_model::SegmentId(0));
        vramscope_model::Pin { block, segment, pinned_bytes, shared_bytes }
    };
    let pins =
        vec![pin(1, 5, 5), pin(2, 0, 90), pin(3, 90, 90), pin(4, 0, 7), pin(5, 0, 6), pin(6, 0, 1), pin(7, 0, 90)];
    let order: Vec<u32> = top_pins(pins).iter().map(|pin| pin.block.0).collect();
    assert_eq!(order, [3, 2, 7, 4, 5]);
}

#[test]
fn the_next_request_is_the_next_allocation_unless_one_fails_soon() {
    let history = demo("grow_oom");
    let lane = history.lanes()[0].id;
    let oom = history.ooms()[0];
    let next = |at: Position| next_request(&history, lane, failure(&history, lane, at).as_ref(), at);
    for at in [oom.at, Position(oom.at.0 - 500), oom.seq.after()] {
        let request = next(at).unwrap();
        assert_eq!((request.bytes, request.reason), (oom.requested, Reason::Failed));
    }
    let peak = history.peak(lane, Metric::Allocated).unwrap().at;
    assert!(oom.at.0 - peak.0 > 1000);
    let request = next(peak).unwrap();
    let block = history.block(history.blocks_allocated_in(peak..history.end()).start).unwrap();
    assert_eq!((Some(request.bytes), request.reason), (block.requested, Reason::Next));
    assert_eq!(next(history.end()), None, "nothing comes after the end");
}

#[test]
fn the_request_that_failed_finds_no_place_where_it_failed() {
    let history = demo("grow_oom");
    let oom = history.ooms()[0];
    let state = history.snapshot_at(oom.at).lanes.remove(0);
    let fit = fit(&state, oom.requested, PoolOwner::DEFAULT, StreamId(0), &settings(&history));
    let verdict = verdict(&fit, state.reserved, None);
    assert!(!verdict.served, "{fit:?}");
}
