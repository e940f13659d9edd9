//! Which part of a recording is shown first: an idle beginning or end must not squeeze what happened into a corner.

use vramscope_model::{History, LaneId, Metric};

use crate::axis::{Axis, AxisKind, Span};

/// More than this part of what is shown must be idle before it is left out.
const IDLE: f64 = 1.0 / 3.0;
/// What is left out at one end holds fewer than this part of all events.
const FEW: f64 = 0.03;
/// Cells in which events are counted.
const CELLS: u32 = 48;
/// A cell that holds at least this part of an even share of the events belongs to the run, not to the idle time before it.
const ACTIVE: f64 = 0.1;
/// Room left beside what is shown, as a part of it.
const MARGIN: f64 = 0.03;
/// Each round looks closer at what the one before left, so a burst after hours is found too.
const ROUNDS: usize = 8;

/// The part of the axis to show first for a lane: all of it, or all but idle ends that hold neither a peak nor a failure.
pub(crate) fn first_view(history: &History, axis: &Axis, lane: LaneId) -> Span {
    let all = axis.all();
    if axis.kind() == AxisKind::Events {
        return all;
    }
    let start = history.recording_start().0;
    let total = f64::from(history.end().0.saturating_sub(start));
    let part_until = |place: f64| f64::from(axis.position_at(place).0.saturating_sub(start)) / total.max(1.0);
    let busy = busy_part(all, part_until);
    let peaks = [Metric::Allocated, Metric::Reserved].into_iter().filter_map(|metric| history.peak(lane, metric));
    let ooms = history.ooms().into_iter().filter(|oom| oom.lane == lane);
    let telling = peaks.map(|peak| peak.at).chain(ooms.map(|oom| oom.seq.after()));
    let with = |span: Span, place: f64| Span { low: span.low.min(place), high: span.high.max(place) };
    let shown = telling.map(|at| axis.place_of(at)).fold(busy, with);
    let room = shown.length() * MARGIN;
    // An end that is shown anyway needs no room beyond it.
    let shown = Span { low: (shown.low - room).max(all.low), high: (shown.high + room).min(all.high) };
    // Moving a span rounds its ends, and the last event must not fall off.
    if shown.length() < axis.shortest() { shown.within(all, axis.shortest()) } else { shown }
}

/// `all` without its idle ends. `part_until` tells which part of all events (0 to 1) have happened up to a place.
fn busy_part(all: Span, part_until: impl Fn(f64) -> f64) -> Span {
    let mut span = all;
    for _ in 0..ROUNDS {
        let parts: Vec<f64> = (0..=CELLS).map(|cell| part_until(span.at(f64::from(cell) / f64::from(CELLS)))).collect();
        let active = |cell: usize| parts[cell + 1] - parts[cell] >= ACTIVE / f64::from(CELLS);
        let cells = CELLS as usize;
        let mut first = (0..cells).take_while(|&cell| parts[cell + 1] < FEW).count();
        while first > 0 && active(first - 1) {
            first -= 1;
        }
        let mut last = cells - (0..cells).rev().take_while(|&cell| 1.0 - parts[cell] < FEW).count();
        while last < cells && active(last) {
            last += 1;
        }
        let edge = |cell: usize| cell as f64 / cells as f64;
        let low = if edge(first) > IDLE { edge(first) } else { 0.0 };
        let high = if 1.0 - edge(last) > IDLE { edge(last) } else { 1.0 };
        if (low, high) == (0.0, 1.0) || low >= high {
            break;
        }
        span = Span { low: span.at(low), high: span.at(high) };
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: Span = Span { low: 0.0, high: 1e9 };

    fn busy(places: &[f64]) -> Span {
        let mut sorted = places.to_vec();
        sorted.sort_by(f64::total_cmp);
        let total = sorted.len().max(1) as f64;
        busy_part(ALL, |place| sorted.partition_point(|&event| event <= place) as f64 / total)
    }

    /// `count` events, evenly from `low` to `high`.
    fn even(low: f64, high: f64, count: u32) -> impl Iterator<Item = f64> {
        (0..count).map(move |index| low + (high - low) * f64::from(index) / f64::from(count))
    }

    #[test]
    fn an_idle_beginning_is_left_out_and_a_lively_one_is_not() {
        let late: Vec<f64> = even(0.0, 1e6, 10).chain(even(8e8, 1e9, 1000)).collect();
        let span = busy(&late);
        assert!(span.low > 7e8 && span.low <= 8e8 && span.high == 1e9, "{span:?}");
        assert_eq!(busy(&even(0.0, 1e9, 1000).collect::<Vec<_>>()), ALL);
        // A quarter is no more than a pause.
        assert_eq!(busy(&even(2.5e8, 1e9, 1000).collect::<Vec<_>>()), ALL);
        // Nor is a beginning with a twentieth of the events.
        assert_eq!(busy(&even(0.0, 5e8, 100).chain(even(5e8, 1e9, 1900)).collect::<Vec<_>>()), ALL);
        assert_eq!(busy(&[]), ALL);
    }

    #[test]
    fn an_idle_end_is_left_out_too_and_a_burst_amid_hours_is_found() {
        let early: Vec<f64> = even(0.0, 2e8, 1000).chain([1e9]).collect();
        let span = busy(&early);
        assert!(span.low == 0.0 && span.high >= 2e8 && span.high < 3e8, "{span:?}");
        let burst: Vec<f64> = even(5e8, 5e8 + 1e3, 1000).collect();
        let span = busy(&burst);
        assert!(span.low <= 5e8 && span.high >= 5e8 + 1e3 && span.length() < 1e5, "{span:?}");
    }

    #[test]
    fn a_trickle_before_the_run_is_left_out_and_the_first_burst_of_the_run_is_not() {
        let trickle: Vec<f64> = even(0.0, 8e8, 20).chain(even(8e8, 1e9, 1000)).collect();
        assert!(busy(&trickle).low > 7e8);
        // Loading the model is few events but belongs to the run.
        let load: Vec<f64> = even(7e8, 7.4e8, 20).chain(even(7.4e8, 1e9, 1000)).collect();
        assert!(busy(&load).low <= 7e8, "{:?}", busy(&load));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn what_is_left_out_holds_few(
            bursts in prop::collection::vec((0.0..1e9f64, 1.0..2e8f64, 1u32..400), 1..6),
        ) {
            let events: Vec<f64> =
                bursts.iter().flat_map(|&(low, length, count)| even(low, (low + length).min(1e9), count)).collect();
            let span = busy(&events);
            prop_assert!(span.low >= ALL.low && span.high <= ALL.high && span.low < span.high);
            let total = events.len() as f64;
            let before = events.iter().filter(|&&event| event <= span.low).count() as f64;
            let after = events.iter().filter(|&&event| event > span.high).count() as f64;
            prop_assert!(before / total < FEW && after / total < FEW, "{before} before, {after} after of {total}");
        }
    }
}
