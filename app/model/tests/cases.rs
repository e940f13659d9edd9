//! Small situations with known answers: what each odd or ordinary thing does to the figures, and what is said about it.

mod support;

use support::{LARGE, SMALL, alloc, event, free, freed, history, map, reserve, timed};
use vramscope_model::{
    BlockId, EventSeq, History, LaneId, Metric, Position, SegmentId, Subject, TimeAxis, fit, fragmentation, holders,
    pinning,
};
use vramscope_trace::{
    AllocatorSettings, Batch, Event, EventKind, NameId, Origin, PoolOwner, Problem, ProblemKind, StackId, StreamId,
    TimeNs,
};

const LANE: LaneId = LaneId(0);
const MIB: u64 = 1 << 20;

fn values(history: &History, metric: Metric) -> Vec<u64> {
    (0..=history.end().0).filter_map(|at| history.value_at(LANE, metric, Position(at))).collect()
}

fn kinds(history: &History) -> Vec<(ProblemKind, u64)> {
    history.problems().iter().map(|problem| (problem.kind, problem.count)).collect()
}

fn example(history: &History) -> String {
    history.problems()[0].example.clone()
}

/// As told before recording began.
fn at_start(mut kind: EventKind) -> EventKind {
    match &mut kind {
        EventKind::SegmentAlloc { at_start, .. }
        | EventKind::SegmentMap { at_start, .. }
        | EventKind::BlockAlloc { at_start, .. }
        | EventKind::FreeRequested { at_start, .. } => *at_start = true,
        _ => {}
    }
    kind
}

#[test]
fn nothing_is_a_history_too() {
    let history = history(&[]);
    assert_eq!((history.end(), history.recording_start()), (Position::START, Position::START));
    assert_eq!(history.time_axis(), TimeAxis::Missing);
    assert!(history.lanes().is_empty() && history.problems().is_empty());
    assert!(history.snapshot_at(Position(9)).lanes.is_empty());
    assert_eq!(history.value_at(LANE, Metric::Reserved, Position::START), None);
    assert_eq!(history.position_at(TimeNs(0)), Position::START);
}

#[test]
fn an_expandable_segment_keeps_its_hole() {
    let kinds_of = [map(0, 20), alloc(0, 8), map(20, 20), alloc(20, 16), free(0), freed(0)];
    let mut events = timed(kinds_of);
    events.push(event(1006, EventKind::SegmentUnmap { address: 0, bytes: 20 }));
    events.push(event(1007, map(60, 20)));
    events.push(event(1008, map(40, 20)));
    let history = history(&events);
    let state = |at| history.snapshot_at(Position(at)).lanes[0].clone();
    let seven = state(7);
    assert_eq!((seven.reserved, seven.allocated, seven.segments.len()), (20, 16, 1));
    assert_eq!((seven.segments[0].address, seven.segments[0].span_bytes()), (20, 20));
    // A range that touches nothing is a segment of its own, and stays one when the gap is filled.
    let nine = state(9);
    let mapped =
        |index: usize| nine.segments[index].mapped.iter().map(|range| (range.start, range.end)).collect::<Vec<_>>();
    assert_eq!((mapped(0), mapped(1)), (vec![(20, 60)], vec![(60, 80)]));
    let envelope = history.segment(SegmentId(0)).unwrap();
    assert_eq!((envelope.address, envelope.bytes, envelope.expandable), (0, 60, true));
    assert_eq!(fragmentation(&nine).segments, 2);
    assert!(history.problems().is_empty());
}

#[test]
fn a_segment_whose_last_page_is_unmapped_is_freed() {
    let unmap = |address, bytes| EventKind::SegmentUnmap { address, bytes };
    let history = history(&timed([map(0, 40), unmap(0, 20), unmap(20, 20), map(0, 20)]));
    assert_eq!(history.segment(SegmentId(0)).unwrap().freed, Some(Position(3)));
    assert_eq!(history.segment(SegmentId(1)).unwrap().created, Position(4));
    assert_eq!(values(&history, Metric::Reserved), [0, 40, 20, 0, 20]);
}

#[test]
fn pending_is_told_apart_and_plain_frees_leave_no_trace() {
    let history = history(&timed([
        reserve(0, 1000),
        alloc(0, 100),
        alloc(100, 50),
        free(0),
        alloc(200, 10),
        free(100),
        freed(100),
        freed(0),
    ]));
    assert_eq!(values(&history, Metric::Pending), [0, 0, 0, 0, 100, 100, 150, 100, 0]);
    assert_eq!(values(&history, Metric::Allocated), [0, 0, 100, 150, 50, 60, 10, 10, 10]);
    let points: Vec<_> = history.series(LANE, Metric::Pending).unwrap().points().collect();
    assert_eq!(points, [(Position(4), 100), (Position(8), 0)]);
    assert_eq!(history.peak(LANE, Metric::Pending).unwrap().bytes, 100);
    assert_eq!(history.peak(LANE, Metric::Allocated).unwrap().at, Position(3));
}

#[test]
fn a_free_that_completes_out_of_turn_is_counted_once() {
    let history =
        history(&timed([reserve(0, 1000), alloc(0, 100), alloc(100, 50), free(0), free(100), freed(0), freed(100)]));
    assert_eq!(values(&history, Metric::Pending), [0, 0, 0, 0, 100, 150, 50, 0]);
}

#[test]
fn what_was_allocated_before_is_a_base() {
    let history = history(&timed([
        at_start(reserve(0, 1000)),
        at_start(alloc(0, 300)),
        at_start(alloc(300, 200)),
        at_start(free(300)),
        alloc(500, 100),
        freed(300),
    ]));
    assert_eq!(history.recording_start(), Position(4));
    assert_eq!(history.lanes()[0].entries, 2);
    assert_eq!(history.value_at(LANE, Metric::Allocated, history.recording_start()), Some(300));
    assert_eq!(history.value_at(LANE, Metric::Pending, history.recording_start()), Some(200));
    // 500 bytes were allocated while the start was told, but never at one time in the run.
    let peak = history.peak(LANE, Metric::Allocated).unwrap();
    assert_eq!((peak.bytes, peak.at), (400, Position(5)));
    let base = history.block(BlockId(0)).unwrap();
    assert!(base.at_start && !history.block(BlockId(2)).unwrap().at_start);
    assert!(history.problems().is_empty());
}

#[test]
fn frees_of_nothing_are_told_apart() {
    let unknown = history(&timed([reserve(0, 1000), free(64), freed(64)]));
    assert_eq!(kinds(&unknown), [(ProblemKind::UnknownAddress, 2)]);
    assert_eq!(example(&unknown), "event 1: free of 0x40, which is the start of no known block");
    let double = history(&timed([reserve(0, 1000), alloc(0, 8), free(0), free(0), freed(0), freed(0)]));
    assert_eq!(kinds(&double), [(ProblemKind::DoubleFree, 2)]);
    assert_eq!(example(&double), "event 3: block 0x0 was already freed");
    assert_eq!(values(&double, Metric::Allocated), [0, 0, 8, 0, 0, 0, 0]);
}

#[test]
fn a_free_may_be_completed_without_being_requested() {
    let history = history(&timed([reserve(0, 1000), alloc(0, 8), freed(0)]));
    let block = history.block(BlockId(0)).unwrap();
    assert_eq!((block.free_requested, block.free_completed), (Some(Position(3)), Some(Position(3))));
    assert_eq!(values(&history, Metric::Allocated), [0, 0, 8, 0]);
    assert!(history.problems().is_empty());
}

#[test]
fn a_block_over_others_ends_them() {
    let history =
        history(&timed([reserve(0, 1000), alloc(0, 100), alloc(100, 50), alloc(200, 8), free(200), alloc(50, 400)]));
    assert_eq!(kinds(&history), [(ProblemKind::Overlap, 3)]);
    assert_eq!(example(&history), "event 5: block 0x32 of 400 bytes lies over block 0x0, which is still live");
    assert_eq!(history.value_at(LANE, Metric::Allocated, history.end()), Some(400));
    assert_eq!(history.value_at(LANE, Metric::Pending, history.end()), Some(0));
    assert_eq!(history.block(BlockId(0)).unwrap().free_requested, Some(Position(6)));
    assert_eq!(history.block(BlockId(2)).unwrap().free_requested, Some(Position(5)));
}

#[test]
fn blocks_outlive_their_segment_as_loose_ones() {
    let history = history(&timed([reserve(0, 100), alloc(0, 40), EventKind::SegmentFree { address: 0, bytes: 90 }]));
    assert_eq!(kinds(&history), [(ProblemKind::SizesDisagree, 2)]);
    let state = &history.snapshot_at(history.end()).lanes[0];
    assert_eq!((state.reserved, state.allocated, state.loose.len()), (0, 40, 1));
    let figures = fragmentation(state);
    assert_eq!((figures.allocated, figures.loose, figures.loose_blocks), (0, 40, 1));
}

#[test]
fn a_source_without_segments_is_nothing_odd() {
    let history = history(&timed([alloc(0, 100), free(0), freed(0)]));
    assert!(history.problems().is_empty());
    assert_eq!(history.snapshot_at(Position(1)).lanes[0].loose.len(), 1);
}

#[test]
fn what_was_requested_is_unknown_once_one_block_is() {
    let mut events = timed([reserve(0, 1000), alloc(0, 100)]);
    assert_eq!(history(&events).value_at(LANE, Metric::Requested, Position(2)), Some(100));
    let silent =
        EventKind::BlockAlloc { address: 200, bytes: 50, requested: None, stack: StackId::NONE, at_start: false };
    events.push(event(2000, silent));
    let history = history(&events);
    assert_eq!(history.value_at(LANE, Metric::Requested, Position(2)), None);
    assert!(history.series(LANE, Metric::Requested).is_none());
    assert!(history.columns(LANE, Metric::Requested, &[Position(0), Position(3)]).is_empty());
    assert_eq!(history.snapshot_at(history.end()).lanes[0].requested, None);
    assert_eq!(fragmentation(&history.snapshot_at(history.end()).lanes[0]).rounding, None);
}

#[test]
fn figures_beyond_the_address_space_are_cut_not_wrapped() {
    let history = history(&timed([reserve(u64::MAX - 10, 100), alloc(u64::MAX - 10, u64::MAX), alloc(5, u64::MAX)]));
    assert_eq!(history.value_at(LANE, Metric::Reserved, history.end()), Some(10));
    assert_eq!(history.value_at(LANE, Metric::Allocated, history.end()), Some(u64::MAX - 5));
    // The segment once; each block once for its size and once for having asked for more than it got.
    assert!(kinds(&history).contains(&(ProblemKind::SizesDisagree, 5)), "{:?}", history.problems());
}

fn at_times(times: [Option<i64>; 5]) -> History {
    let events: Vec<Event> = times
        .iter()
        .zip([reserve(0, 1000), alloc(0, 8), alloc(8, 8), free(0), freed(0)])
        .map(|(time, kind)| Event { time: time.map(TimeNs::from_micros), ..event(0, kind) })
        .collect();
    history(&events)
}

#[test]
fn odd_clocks_are_no_axis() {
    let equal = at_times([Some(7); 5]);
    assert_eq!((equal.time_axis(), kinds(&equal)), (TimeAxis::AllEqual, vec![(ProblemKind::ClockStep, 5)]));
    let missing = at_times([None; 5]);
    assert_eq!((missing.time_axis(), kinds(&missing)), (TimeAxis::Missing, vec![(ProblemKind::NoTimes, 5)]));
    assert_eq!(missing.time_at(missing.end()), None);
    let back = at_times([Some(20_000_000), Some(20_000_001), Some(10_000_001), Some(20_000_002), Some(20_000_003)]);
    assert_eq!((back.time_axis(), kinds(&back)), (TimeAxis::GoesBack, vec![(ProblemKind::ClockStep, 1)]));
    assert_eq!(example(&back), "event 2: its time is 10000000 \u{b5}s before the one before it");
    assert_eq!(back.time_at(Position(3)), Some(TimeNs::from_micros(20_000_001)));
    assert_eq!(back.event(EventSeq(2)).unwrap().time(), Some(TimeNs::from_micros(10_000_001)));
    let good = at_times([Some(1), Some(2), Some(2), Some(3), Some(4)]);
    let (first, last) = (TimeNs::from_micros(1), TimeNs::from_micros(4));
    assert_eq!((good.time_axis(), kinds(&good)), (TimeAxis::Usable { first, last }, vec![]));
    assert_eq!(good.position_at(TimeNs::from_micros(2)), Position(3));
}

#[test]
fn annotations_may_be_told_after_everything() {
    let note = |micros, kind| Event { stream: None, origin: Origin::Annotation, ..event(micros, kind) };
    let (a, b) = (NameId(1), NameId(2));
    let mut events = timed([reserve(0, 1000), alloc(0, 8), free(0), freed(0)]);
    events.extend([
        note(900, EventKind::AnnotationEnd { name: b }),
        note(1000, EventKind::AnnotationBegin { name: a }),
        note(1001, EventKind::AnnotationBegin { name: b }),
        note(1002, EventKind::AnnotationEnd { name: b }),
        note(1002, EventKind::AnnotationBegin { name: a }),
        note(1003, EventKind::AnnotationEnd { name: a }),
    ]);
    let history = history(&events);
    let micros = |time: Option<TimeNs>| time.map(TimeNs::micros);
    let spans: Vec<_> = history
        .annotations()
        .iter()
        .map(|span| (span.name, micros(span.begin), micros(span.end), span.depth))
        .collect();
    assert_eq!(
        spans,
        [
            (b, None, Some(900), 0),
            (a, Some(1000), None, 0),
            (b, Some(1001), Some(1002), 1),
            (a, Some(1002), Some(1003), 1)
        ]
    );
    assert_eq!(kinds(&history), [(ProblemKind::OrphanAnnotation, 2)]);
    let (first, last) = (TimeNs::from_micros(1000), TimeNs::from_micros(1003));
    assert_eq!(history.time_axis(), TimeAxis::Usable { first, last });
    assert_eq!(history.position_at(last), history.end());
}

#[test]
fn failures_and_losses_are_listed_with_their_state() {
    let oom = EventKind::OutOfMemory { requested: 50, device_free: None, stack: StackId::NONE };
    let history =
        history(&timed([reserve(0, 100), alloc(0, 90), oom, EventKind::LostEvents { count: 17 }, alloc(90, 10)]));
    let failed = history.ooms()[0];
    assert_eq!((failed.at, failed.requested, failed.device_free, failed.lane), (Position(2), 50, None, LANE));
    assert_eq!(history.event(failed.seq).unwrap().subject, Subject::Oom(0));
    assert_eq!(history.lost()[0].count, 17);
    assert_eq!(kinds(&history), [(ProblemKind::LostEvents, 17)]);
    assert_eq!(history.lanes()[0].entries, 4);
}

#[test]
fn problems_of_source_and_ingest_are_one_list() {
    let mut ingest = support::ingest();
    let told = |kind, example: &str| Problem { kind, count: 2, example: example.to_owned() };
    ingest.push(Batch {
        events: timed([reserve(0, 100), free(4)]),
        problems: vec![told(ProblemKind::TornFile, "byte 9"), told(ProblemKind::UnknownAddress, "said first")],
        ..Batch::default()
    });
    let problems = ingest.history().problems();
    assert_eq!(problems[0], Problem { count: 3, ..told(ProblemKind::UnknownAddress, "said first") });
    assert_eq!(problems[1], told(ProblemKind::TornFile, "byte 9"));
}

/// Free memory of another pool or stream never serves a request.
#[test]
fn a_request_is_served_from_its_own_pool_and_stream_only() {
    let with = |stream, pool, kind| {
        let mut event = Event { stream: Some(StreamId(stream)), ..event(1, kind) };
        if let EventKind::SegmentAlloc { pool: its, .. } = &mut event.kind {
            *its = Some(pool);
        }
        event
    };
    let history = history(&[
        with(0, LARGE, reserve(0, 20 * MIB)),
        with(7, LARGE, reserve(100 * MIB, 500 * MIB)),
        with(0, SMALL, reserve(1000 * MIB, 2 * MIB)),
        with(0, LARGE, alloc(0, 12 * MIB)),
    ]);
    let state = &history.snapshot_at(history.end()).lanes[0];
    let ask = |bytes| fit(state, bytes, PoolOwner::DEFAULT, StreamId(0), &AllocatorSettings::default());
    let large = ask(200 * MIB);
    assert_eq!((large.from_cache, large.free_here, large.largest_free_here), (None, 8 * MIB, 8 * MIB));
    assert_eq!(large.segment_bytes, 200 * MIB);
    let elsewhere: Vec<_> = large.free_elsewhere.iter().map(|other| (other.stream, other.free)).collect();
    assert_eq!(elsewhere, [(Some(StreamId(0)), 2 * MIB), (Some(StreamId(7)), 500 * MIB)]);
    assert_eq!(ask(8 * MIB).from_cache, Some(12 * MIB));
    assert_eq!(ask(MIB).from_cache, Some(1000 * MIB));
}

/// A large segment that small blocks were put into can serve nothing large: the blocks that pin it are named.
#[test]
fn pins_are_the_blocks_that_hold_memory_back() {
    let mut story = vec![reserve(0, 120), alloc(0, 116), free(0), freed(0)];
    story.extend((0..5).map(|n| alloc(n * 24, 3)));
    story.extend([reserve(1000, 64), alloc(1000, 1), reserve(2000, 64), alloc(2000, 64)]);
    let history = history(&timed(story));
    let state = &history.snapshot_at(history.end()).lanes[0];
    let pins: Vec<_> = pinning(state, 9).iter().map(|pin| (pin.block.0, pin.pinned_bytes, pin.shared_bytes)).collect();
    // The lone block of the second segment first; of the five, none alone would release anything.
    assert_eq!(pins[0], (6, 63, 63));
    assert_eq!(pins[1..], [(1, 0, 21), (2, 0, 21), (3, 0, 21), (4, 0, 21), (5, 0, 21)]);
    let figures = fragmentation(state);
    assert_eq!((figures.pinned, figures.releasable, figures.largest_free), (105 + 63, 0, 63));
}

#[test]
fn holders_name_the_stacks_and_the_rest() {
    let by = |address, bytes, stack| match alloc(address, bytes) {
        EventKind::BlockAlloc { address, bytes, requested, at_start, .. } => {
            EventKind::BlockAlloc { address, bytes, requested, stack: StackId(stack), at_start }
        }
        other => other,
    };
    let history = history(&timed([
        reserve(0, 1000),
        by(0, 10, 2),
        by(10, 30, 1),
        by(40, 20, 2),
        by(60, 7, 0),
        by(70, 9, 5),
        by(80, 99, 5),
        free(80),
    ]));
    let held = holders(&history, &history.snapshot_at(history.end()).lanes[0], 2);
    let largest: Vec<_> = held.largest.iter().map(|holder| (holder.stack.0, holder.bytes, holder.count)).collect();
    assert_eq!(largest, [(1, 30, 1), (2, 30, 2)]);
    assert_eq!((held.other_stacks, held.other_bytes, held.other_count), (2, 16, 2));
}
