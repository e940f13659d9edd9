//! Laws that hold for every stream of events, however odd: chunking, prefix, round trip, tiling, and agreement with a slow,
//! obvious bookkeeper.

mod support;

use proptest::prelude::*;
use support::naive::Naive;
use support::{UNIT, history, ingest, odd_events};
use vramscope_model::{
    EventSeq, GapKind, History, LaneState, MapWhat, Metric, Position, TimeAxis, block_map, dump, fragmentation,
    holders, pinning,
};
use vramscope_trace::{Batch, Event, EventKind, StackId, TimeNs};

/// Streams of up to `most` odd events.
fn streams(most: usize) -> impl Strategy<Value = Vec<Event>> {
    (prop::collection::vec(any::<[u8; 6]>(), 0..most), any::<bool>(), any::<bool>())
        .prop_map(|(bytes, told, on_time)| odd_events(&bytes, told, on_time))
}

fn batch(events: &[Event]) -> Batch {
    Batch { events: events.to_vec(), ..Batch::default() }
}

/// The snapshot's part of a lane, as the slow bookkeeper tells it.
fn check_lane(state: &LaneState, expected: &support::naive::NaiveLane) {
    let sums = (state.reserved, state.allocated, state.pending);
    assert_eq!(sums, (expected.reserved() * UNIT, expected.allocated() * UNIT, expected.pending() * UNIT));
    let mapped: Vec<(u32, Vec<(u64, u64)>)> = state
        .segments
        .iter()
        .map(|segment| {
            (segment.segment.0, segment.mapped.iter().map(|range| (range.start / UNIT, range.end / UNIT)).collect())
        })
        .collect();
    let mut expected_mapped: Vec<_> = expected.mapped().into_iter().collect();
    expected_mapped.sort_by_key(|(_, ranges)| ranges[0]);
    assert_eq!(mapped, expected_mapped);
    let placed = state
        .segments
        .iter()
        .flat_map(|segment| segment.blocks.iter().map(|block| (Some(segment.segment.0), block)))
        .chain(state.loose.iter().map(|block| (None, block)));
    let mut blocks: Vec<_> = placed
        .map(|(segment, block)| {
            (block.address / UNIT, block.bytes / UNIT, block.id.0, block.pending, block.requested, segment)
        })
        .collect();
    blocks.sort_unstable();
    let expected_blocks: Vec<_> = expected
        .blocks
        .iter()
        .map(|b| (b.start, b.end - b.start, b.id, b.pending, b.requested, expected.is_placed(b)))
        .collect();
    assert_eq!(blocks, expected_blocks);
}

/// Blocks and gaps tile their segment, and all figures add up.
fn check_tiling(history: &History, state: &LaneState) {
    let figures = fragmentation(state);
    assert_eq!(figures.reserved, state.reserved);
    assert_eq!(figures.reserved, figures.allocated + figures.pending + figures.releasable + figures.pinned);
    assert_eq!(figures.active + figures.loose, state.allocated + state.pending);
    assert_eq!(figures.reserved, figures.by_pool.iter().map(|pool| pool.reserved).sum::<u64>());
    let (mut releasable, mut pinned) = (0, 0);
    for segment in &state.segments {
        let map = block_map(segment);
        let mut at = segment.address;
        let mut mapped = 0;
        for item in &map.items {
            assert_eq!(item.range.start, at, "no gap and no overlap");
            at = item.range.end;
            let bytes = item.range.end - item.range.start;
            match item.what {
                MapWhat::Block { index } => {
                    let block = &segment.blocks[index];
                    assert_eq!((block.address, block.bytes), (item.range.start, bytes));
                }
                MapWhat::Gap(GapKind::Releasable) => releasable += bytes,
                MapWhat::Gap(GapKind::Pinned) => pinned += bytes,
                MapWhat::Unmapped => {}
            }
            mapped += if item.what == MapWhat::Unmapped { 0 } else { bytes };
        }
        assert_eq!(at, segment.address + segment.span_bytes());
        assert_eq!(mapped, segment.mapped_bytes());
        let drawn = map.items.iter().filter(|item| matches!(item.what, MapWhat::Block { .. })).count();
        assert_eq!(drawn, segment.blocks.len());
    }
    assert_eq!((releasable, pinned), (figures.releasable, figures.pinned));
    let held = holders(history, state, 2);
    let listed: u64 = held.largest.iter().map(|holder| holder.bytes).sum();
    assert_eq!(listed + held.other_bytes, state.allocated);
    check_pins(state, figures.releasable);
}

/// A pin's figure is what freeing the block really changes.
fn check_pins(state: &LaneState, releasable: u64) {
    for pin in pinning(state, 3) {
        let mut without = state.clone();
        let segment =
            without.segments.iter_mut().find(|segment| segment.segment == pin.segment).expect("a pin's segment");
        let at = segment.blocks.iter().position(|block| block.id == pin.block).expect("a pin's block");
        let mut blocks = segment.blocks.to_vec();
        let freed = blocks.remove(at);
        segment.blocks = blocks.into();
        let gained = fragmentation(&without).releasable - releasable;
        assert!(pin.pinned_bytes <= gained && gained <= pin.pinned_bytes + freed.bytes, "{pin:?} gains {gained}");
        if !state.segments.iter().any(|segment| segment.expandable) && gained > 0 {
            assert_eq!(pin.pinned_bytes + freed.bytes, gained);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Law 1: how events are cut into batches does not matter, nor does looking in between.
    #[test]
    fn chunking(events in streams(600), cuts in prop::collection::vec(1_usize..90, 1..20)) {
        let mut ingest = ingest();
        let mut rest = &events[..];
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            ingest.push(batch(now));
            drop(ingest.history());
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(dump(&ingest.history()), dump(&history(&events)));
    }

    /// Law 2: a history taken after k events never changes, and equals the one made of only those k.
    #[test]
    fn prefix(events in streams(600), part in 0.0_f64..1.0) {
        let k = (events.len() as f64 * part) as usize;
        let mut ingest = ingest();
        ingest.push(batch(&events[..k]));
        let early = ingest.history();
        ingest.push(batch(&events[k..]));
        let late = ingest.history();
        prop_assert_eq!(dump(&early), dump(&history(&events[..k])));
        prop_assert_eq!(late.end(), Position(events.len() as u32));
        if late.lanes().iter().all(|lane| lane.requested_known) {
            let (then, mut now) = (early.snapshot_at(early.end()), late.snapshot_at(early.end()));
            now.lanes.truncate(then.lanes.len());
            prop_assert_eq!(then, now);
        }
    }

    /// Every event comes back exactly as it was told.
    #[test]
    fn round_trip(events in streams(600)) {
        let history = history(&events);
        for (seq, event) in (0..).zip(&events) {
            prop_assert_eq!(history.event(EventSeq(seq)).map(|view| view.event), Some(*event));
        }
        prop_assert!(history.event(EventSeq(events.len() as u32)).is_none());
    }

    /// Positions and times agree with a plain scan.
    #[test]
    fn clock(events in streams(300)) {
        let history = history(&events);
        let clocked = |event: &Event| !matches!(
            event.kind,
            EventKind::AnnotationBegin { .. } | EventKind::AnnotationEnd { .. } | EventKind::Mark { .. }
        );
        let mut latest = None;
        let mut running = vec![None];
        for event in &events {
            if clocked(event) {
                latest = latest.max(event.time);
            }
            running.push(latest);
        }
        for (at, time) in (0..).zip(&running) {
            prop_assert_eq!(history.time_at(Position(at)), *time);
        }
        for time in -8..80 {
            let time = TimeNs(time * 5);
            let expected = running[1..].iter().take_while(|known| **known <= Some(time)).count();
            prop_assert_eq!(history.position_at(time), Position(expected as u32));
        }
        if let TimeAxis::Usable { first, last } = history.time_axis() {
            prop_assert!(first < last);
            prop_assert_eq!(history.position_at(last), history.end());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Law 4, and agreement with the slow bookkeeper, over streams long enough for several checkpoints.
    #[test]
    fn every_state_agrees(events in streams(3500), stride in 23_usize..60) {
        let history = history(&events);
        let mut naive = Naive::default();
        let mut peaks = vec![[0; 4]; history.lanes().len()];
        let start = history.recording_start();
        for (n, event) in events.iter().enumerate() {
            naive.apply(event);
            let at = Position(n as u32 + 1);
            for (lane, (_, expected)) in history.lanes().iter().zip(&naive.lanes) {
                let values = [expected.reserved(), expected.allocated(), expected.requested(), expected.pending()].map(|units| units * UNIT);
                for (metric, value) in Metric::ALL.into_iter().zip(values) {
                    let known = metric != Metric::Requested || lane.requested_known;
                    prop_assert_eq!(history.value_at(lane.id, metric, at), known.then_some(value), "{:?} at {:?}", metric, at);
                    if at >= start {
                        let peak = &mut peaks[usize::from(lane.id.0)][metric as usize];
                        *peak = value.max(*peak);
                    }
                }
            }
            if n % stride == 0 || n + 1 == events.len() || n % 1024 < 2 {
                let snapshot = history.snapshot_at(at);
                prop_assert_eq!(snapshot.lanes.len(), history.lanes().len());
                for (state, (_, expected)) in snapshot.lanes.iter().zip(&naive.lanes) {
                    check_lane(state, expected);
                    check_tiling(&history, state);
                }
                for state in snapshot.lanes.iter().skip(naive.lanes.len()) {
                    prop_assert!(state.segments.is_empty() && state.loose.is_empty() && state.reserved == 0);
                }
            }
        }
        for (lane, peaks) in history.lanes().iter().zip(peaks) {
            for metric in [Metric::Reserved, Metric::Allocated] {
                let peak = history.peak(lane.id, metric).unwrap();
                prop_assert_eq!(peak.bytes, peaks[metric as usize]);
                prop_assert_eq!(history.value_at(lane.id, metric, peak.at), Some(peak.bytes));
                let before = (start.0..peak.at.0).all(|at| history.value_at(lane.id, metric, Position(at)) < Some(peak.bytes));
                prop_assert!(before, "the peak is the first");
            }
        }
    }

    /// Columns are exact: first, min, max, last and the place of the max, over positions with both ends.
    #[test]
    fn columns_hide_nothing(events in streams(1200), mut edges in prop::collection::vec(0_u32..1300, 2..40)) {
        let history = history(&events);
        edges.sort_unstable();
        let edges: Vec<Position> = edges.into_iter().map(Position).collect();
        for lane in history.lanes() {
            for metric in [Metric::Reserved, Metric::Allocated, Metric::Requested] {
                let columns = history.columns(lane.id, metric, &edges);
                if metric == Metric::Requested && !lane.requested_known {
                    prop_assert!(columns.is_empty());
                    continue;
                }
                prop_assert_eq!(columns.len(), edges.len() - 1);
                for (column, edge) in columns.iter().zip(edges.windows(2)) {
                    let from = edge[0].min(history.end());
                    let to = edge[1].min(history.end());
                    let values: Vec<u64> =
                        (from.0..=to.0).filter_map(|at| history.value_at(lane.id, metric, Position(at))).collect();
                    prop_assert_eq!(Some(&column.first), values.first());
                    prop_assert_eq!(Some(&column.last), values.last());
                    prop_assert_eq!(Some(&column.min), values.iter().min());
                    prop_assert_eq!(Some(&column.max), values.iter().max());
                    let peak = values.iter().position(|value| *value == column.max).unwrap() as u32;
                    prop_assert_eq!(column.peak_at, Position(from.0 + peak));
                }
            }
        }
    }
}

/// A block's own figures are those of the states it lives in.
#[test]
fn blocks_tell_their_lives() {
    let mut ingest = ingest();
    ingest.push(batch(&support::timed([
        support::reserve(0x1000, 0x1000),
        support::alloc(0x1000, 512),
        support::alloc(0x1200, 512),
        EventKind::FreeRequested { address: 0x1000, stack: StackId(0), at_start: false },
    ])));
    let early = ingest.history();
    ingest.push(batch(&support::timed([support::freed(0x1000)])));
    let late = ingest.history();
    let ids = late.blocks_allocated_in(Position(1)..Position(3));
    assert_eq!((ids.start.0, ids.end.0), (0, 2));
    assert_eq!(late.blocks_allocated_in(Position(2)..Position(2)).start.0, 1);
    let (then, now) = (early.block(ids.start).unwrap(), late.block(ids.start).unwrap());
    assert_eq!((then.allocated, then.free_requested, then.free_completed), (Position(2), Some(Position(4)), None));
    assert_eq!(now.free_completed, Some(Position(5)));
    assert!(late.block(ids.end).is_none());
}

/// Readers on other threads see their own end while the writer goes on.
#[test]
fn readers_are_not_disturbed() {
    let bytes: Vec<[u8; 6]> = (0..6000_u64)
        .map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes())
        .map(|b| [b[7], b[6], b[5], b[4], b[3], b[2]])
        .collect();
    let events = odd_events(&bytes, true, true);
    let mut ingest = ingest();
    std::thread::scope(|scope| {
        for (n, part) in events.chunks(500).enumerate() {
            ingest.push(batch(part));
            let seen = ingest.history();
            let all = &events;
            scope.spawn(move || assert_eq!(dump(&seen), dump(&history(&all[..((n + 1) * 500).min(all.len())]))));
        }
    });
}
