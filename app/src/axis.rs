//! The horizontal axis that all views share: time or events, and the way between a place on it and a [`Position`].
//!
//! A place is an `f64`: nanoseconds since the first time of the recording, or the number of events applied. Where a
//! recording's times cannot order its events, the axis falls back to events and says why.

use vramscope_model::{History, Position, TimeAxis};
use vramscope_trace::TimeNs;

use crate::widgets::{number, time};

/// What the axis counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AxisKind {
    /// Time.
    #[default]
    Time,
    /// Events: each takes the same room.
    Events,
}

/// A part of the axis, `low < high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Left end.
    pub low: f64,
    /// Right end.
    pub high: f64,
}

impl Span {
    /// Its length.
    pub fn length(self) -> f64 {
        self.high - self.low
    }

    /// Where a place lies in it: 0 at the left end, 1 at the right.
    pub fn part_of(self, place: f64) -> f64 {
        (place - self.low) / self.length()
    }

    /// The place at a part of it.
    pub fn at(self, part: f64) -> f64 {
        self.low + self.length() * part
    }

    /// Zoomed by `factor` (below 1 shows less) with `place` staying where it is.
    pub fn zoomed(self, factor: f64, place: f64) -> Self {
        Self { low: place + (self.low - place) * factor, high: place + (self.high - place) * factor }
    }

    /// Moved by a part of its own length.
    pub fn moved(self, part: f64) -> Self {
        let by = self.length() * part;
        Self { low: self.low + by, high: self.high + by }
    }

    /// Pushed and shrunk until it lies within `bounds`, at least `shortest` long.
    pub fn within(self, bounds: Self, shortest: f64) -> Self {
        let length = self.length().clamp(shortest.min(bounds.length()), bounds.length());
        let middle = f64::midpoint(self.low, self.high);
        let low = (middle - length / 2.0).clamp(bounds.low, bounds.high - length);
        Self { low, high: low + length }
    }
}

/// Round distances on a clock, in nanoseconds: one, two, five, ten, thirty minutes, one, two, six, twelve, 24 hours.
const CLOCK_STEPS: [f64; 10] = [60e9, 120e9, 300e9, 600e9, 1800e9, 3600e9, 7200e9, 21_600e9, 43_200e9, 86_400e9];

/// The axis of one recording.
#[derive(Clone)]
pub struct Axis {
    history: History,
    kind: AxisKind,
    fallback: Option<&'static str>,
    first: i64,
    clock: Option<i64>,
    all: Span,
}

impl Axis {
    /// The axis of a history, by time if wanted and possible.
    pub fn new(history: &History, wanted: AxisKind) -> Self {
        let time = match (wanted, history.time_axis()) {
            (AxisKind::Events, _) => Err(None),
            (AxisKind::Time, TimeAxis::Usable { first, last }) if first < last => Ok((first.0, last.0)),
            (AxisKind::Time, TimeAxis::Usable { .. } | TimeAxis::AllEqual) => {
                Err(Some("All times in this recording are equal, so the axis shows events"))
            }
            (AxisKind::Time, TimeAxis::Missing) => Err(Some("This recording has no times, so the axis shows events")),
            (AxisKind::Time, TimeAxis::GoesBack) => {
                Err(Some("Times in this recording go backwards, so the axis shows events"))
            }
        };
        let (kind, fallback, first, all) = match time {
            Ok((first, last)) => (AxisKind::Time, None, first, Span { low: 0.0, high: (last - first) as f64 }),
            Err(why) => {
                let (low, high) = (history.recording_start().0, history.end().0);
                let all = Span { low: f64::from(low), high: f64::from(high.max(low + 1)) };
                (AxisKind::Events, why, 0, all)
            }
        };
        let clock = match history.time_axis() {
            TimeAxis::Usable { first, .. } => Some(first.0),
            TimeAxis::Missing | TimeAxis::AllEqual | TimeAxis::GoesBack => None,
        };
        Self { history: history.clone(), kind, fallback, first, clock, all }
    }

    /// What it counts.
    pub fn kind(&self) -> AxisKind {
        self.kind
    }

    /// Why it counts events although time was wanted, as a sentence.
    pub fn fallback(&self) -> Option<&'static str> {
        self.fallback
    }

    /// The whole recording.
    pub fn all(&self) -> Span {
        self.all
    }

    /// The shortest part that is worth looking at.
    pub fn shortest(&self) -> f64 {
        match self.kind {
            AxisKind::Time => 100.0,
            AxisKind::Events => 8.0,
        }
    }

    /// The state that is in force at a place: the number of events applied by then.
    pub fn position_at(&self, place: f64) -> Position {
        let (start, end) = (self.history.recording_start(), self.history.end());
        let position = match self.kind {
            AxisKind::Events => Position(place.clamp(0.0, f64::from(u32::MAX)) as u32),
            AxisKind::Time => self.history.position_at(TimeNs(self.first.saturating_add(place.floor() as i64))),
        };
        position.clamp(start, end)
    }

    /// The place where a state begins.
    pub fn place_of(&self, position: Position) -> f64 {
        match self.kind {
            AxisKind::Events => f64::from(position.0),
            AxisKind::Time => self.history.time_at(position).map_or(self.all.low, |time| (time.0 - self.first) as f64),
        }
    }

    /// Nanoseconds from the first time of the recording to a state, whatever the axis counts; `None` without usable times.
    pub fn elapsed(&self, position: Position) -> Option<f64> {
        Some((self.history.time_at(position)?.0 - self.clock?) as f64)
    }

    /// The place of a moment, which need not be an event's.
    pub fn place_of_time(&self, time: TimeNs) -> f64 {
        match self.kind {
            AxisKind::Time => (time.0.saturating_sub(self.first)) as f64,
            AxisKind::Events => self.place_of(self.history.position_at(time)),
        }
    }

    /// A place in words, as exact as ticks `step` apart need.
    pub fn tick(&self, place: f64, step: f64) -> String {
        match self.kind {
            AxisKind::Time => time::tick(place, step),
            AxisKind::Events => {
                let start = f64::from(self.history.recording_start().0);
                number::text((place - start).max(0.0).round() as u64)
            }
        }
    }

    /// A length in words.
    pub fn length(&self, length: f64) -> String {
        match self.kind {
            AxisKind::Time => time::duration(length),
            AxisKind::Events => number::of(length.max(0.0).round() as u64, "event", "events"),
        }
    }

    /// Places for ticks in a part of the axis, at most `most`, at round values; and the distance between them.
    pub fn ticks(&self, span: Span, most: usize) -> (Vec<f64>, f64) {
        let least = if self.kind == AxisKind::Events { 1.0 } else { 1e-3 };
        let wish = span.length() / most.max(1) as f64;
        let step = match self.kind {
            AxisKind::Time => CLOCK_STEPS.into_iter().filter(|_| wish > 50e9).find(|&step| wish <= step),
            AxisKind::Events => None,
        };
        let step = step.unwrap_or_else(|| round_step(wish)).max(least);
        let first = (span.low / step).ceil() as i64;
        let last = (span.high / step).floor() as i64;
        ((first..=last).map(|index| index as f64 * step).collect(), step)
    }
}

/// The smallest of 1, 2, 5, 10, 20, … that is not below `value`.
fn round_step(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let digits = value / power;
    let digit = [1.0, 2.0, 5.0].into_iter().find(|&digit| digits <= digit * (1.0 + 1e-9)).unwrap_or(10.0);
    digit * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zooming_keeps_the_place_and_stays_inside() {
        let all = Span { low: 0.0, high: 1000.0 };
        let half = all.zoomed(0.5, 200.0);
        assert_eq!(half, Span { low: 100.0, high: 600.0 });
        assert!((half.part_of(200.0) - all.part_of(200.0)).abs() < 1e-12);
        assert_eq!(half.moved(-1.0).within(all, 8.0), Span { low: 0.0, high: 500.0 });
        assert_eq!(all.zoomed(3.0, 10.0).within(all, 8.0), all);
        assert_eq!(all.zoomed(1e-9, 10.0).within(all, 8.0).length(), 8.0);
    }

    #[test]
    fn steps_are_round() {
        for (value, step) in [(1.0, 1.0), (1.1, 2.0), (3.0, 5.0), (7.0, 10.0), (0.02, 0.02), (120.0, 200.0)] {
            assert!((round_step(value) / step - 1.0).abs() < 1e-9, "{value} gives {}", round_step(value));
        }
    }
}

#[cfg(test)]
mod history_tests {
    use super::*;
    use vramscope_model::Ingest;
    use vramscope_trace::{Batch, DeviceId, Event, EventKind, Origin, ProcessId, StackId};

    /// A history of allocations at those times.
    fn history(times: &[Option<i64>]) -> History {
        let events = times.iter().zip(0u64..).map(|(&time, index)| Event {
            time: time.map(TimeNs),
            process: ProcessId(0),
            device: DeviceId(0),
            stream: None,
            origin: Origin::Snapshot,
            kind: EventKind::BlockAlloc {
                address: (index + 1) << 20,
                bytes: 512,
                requested: Some(500),
                stack: StackId::NONE,
                at_start: false,
            },
        });
        let mut ingest = Ingest::new();
        ingest.push(Batch { events: events.collect(), ..Batch::default() });
        ingest.history()
    }

    #[test]
    fn a_place_on_the_time_axis_is_the_state_in_force_then() {
        let history = history(&[Some(1000), Some(2000), Some(2000), Some(5000)]);
        let axis = Axis::new(&history, AxisKind::Time);
        assert_eq!((axis.kind(), axis.all()), (AxisKind::Time, Span { low: 0.0, high: 4000.0 }));
        for (place, position) in [(0.0, 1), (999.0, 1), (1000.0, 3), (1000.5, 3), (4000.0, 4), (1e18, 4), (-5.0, 0)] {
            assert_eq!(axis.position_at(place), Position(position), "at {place}");
        }
        for position in (0..=4).map(Position) {
            assert!(axis.position_at(axis.place_of(position)) >= position, "{position:?}");
        }
        assert_eq!(axis.elapsed(Position(4)), Some(4000.0));
    }

    #[test]
    fn ticks_are_round_few_and_inside() {
        let second = 1_000_000_000;
        let history = history(&[Some(0), Some(7200 * second)]);
        let axis = Axis::new(&history, AxisKind::Time);
        for (low, high, step) in [(0.0, 7200e9, 1800e9), (0.0, 500e9, 120e9), (3e9, 8e9, 1e9), (5.0, 905.0, 200.0)] {
            let (places, found) = axis.ticks(Span { low, high }, 6);
            assert_eq!(found, step);
            assert!(places.len() <= 7 && places.iter().all(|place| (low..=high).contains(place)), "{places:?}");
        }
        let events = Axis::new(&history, AxisKind::Events);
        assert_eq!(events.ticks(Span { low: 0.0, high: 2.0 }, 10).1, 1.0, "there is nothing between two events");
    }

    #[test]
    fn a_place_on_the_event_axis_is_a_number_of_events() {
        let history = history(&[Some(1000), Some(2000), Some(5000)]);
        let axis = Axis::new(&history, AxisKind::Events);
        assert_eq!((axis.all(), axis.fallback()), (Span { low: 0.0, high: 3.0 }, None));
        assert_eq!(axis.position_at(1.99), Position(1));
        assert_eq!(axis.place_of(Position(2)), 2.0);
        assert_eq!(axis.place_of_time(TimeNs(2500)), 2.0);
        assert_eq!(axis.elapsed(Position(3)), Some(4000.0), "times are known all the same");
    }

    #[test]
    fn times_that_cannot_order_events_give_an_event_axis_that_says_why() {
        for (times, word) in [
            (vec![None, None], "no times"),
            (vec![Some(7), Some(7)], "equal"),
            (vec![Some(7), Some(9), Some(3)], "backwards"),
        ] {
            let axis = Axis::new(&history(&times), AxisKind::Time);
            assert_eq!(axis.kind(), AxisKind::Events);
            assert!(axis.fallback().is_some_and(|sentence| sentence.contains(word)), "{times:?}");
        }
        assert_eq!(Axis::new(&history(&[]), AxisKind::Time).all().length(), 1.0);
    }
}
