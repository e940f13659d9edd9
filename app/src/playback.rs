//! Playback: moves the cursor on as time goes by, at the recorded pace or event by event. The clock is the caller's.

use vramscope_model::{History, Position, TimeAxis};
use vramscope_trace::TimeNs;

/// The longest step of the clock that counts, in seconds: after a stall, playback goes on where it was.
const LONGEST_TICK: f64 = 0.1;
/// Events a second that stand for "as recorded" where a recording has no usable times.
const WITHOUT_TIMES: f64 = 100.0;

/// How long playback of a whole recording takes at the pace that suits it, in seconds.
const SUITED_SECONDS: f64 = 20.0;

/// How fast playback goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As recorded, so many times faster.
    Recorded(f64),
    /// So many events a second.
    Even(f64),
}

impl Default for Pace {
    fn default() -> Self {
        Self::Recorded(1.0)
    }
}

impl Pace {
    /// What can be chosen.
    pub const CHOICES: [Self; 12] = [
        Self::Recorded(0.01),
        Self::Recorded(0.25),
        Self::Recorded(0.5),
        Self::Recorded(1.0),
        Self::Recorded(2.0),
        Self::Recorded(4.0),
        Self::Recorded(8.0),
        Self::Recorded(16.0),
        Self::Even(10.0),
        Self::Even(100.0),
        Self::Even(1000.0),
        Self::Even(10_000.0),
    ];

    /// The choice that crosses a recording in about twenty seconds: what is played unasked should be worth watching.
    pub fn suited_to(history: &History) -> Self {
        let events = f64::from(history.end().0 - history.recording_start().0).max(1.0);
        let recorded = match history.time_axis() {
            TimeAxis::Usable { first, last } if last > first => Some((last.0 - first.0) as f64 / 1e9),
            _ => None,
        };
        let far = |pace: Self| {
            let seconds = match pace {
                Self::Recorded(factor) => recorded? / factor,
                Self::Even(rate) => events / rate,
            };
            Some((seconds / SUITED_SECONDS).ln().abs())
        };
        let near = |a: &Self, b: &Self| far(*a).unwrap_or(f64::INFINITY).total_cmp(&far(*b).unwrap_or(f64::INFINITY));
        // As recorded is half idle more often than not, so of two equally good ones the even pace is taken: it comes first.
        Self::CHOICES.into_iter().rev().min_by(near).unwrap_or_default()
    }

    /// In words.
    pub fn name(self) -> String {
        match self {
            Self::Recorded(1.0) => "as recorded".to_owned(),
            Self::Recorded(factor) => format!("{factor}\u{d7} as recorded"),
            Self::Even(events) => format!("{} events/s", crate::widgets::number::text(events as u64)),
        }
    }
}

/// Whether and how fast the cursor moves by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Playback {
    /// Whether it moves.
    pub playing: bool,
    /// How fast.
    pub pace: Pace,
    head: Option<Head>,
}

/// Where playback is: finer than the cursor, which only knows whole events.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Head {
    /// The clock when it was there, in seconds.
    now: f64,
    /// The cursor then.
    cursor: Position,
    /// Nanoseconds since the first time, or events.
    place: f64,
}

impl Playback {
    /// Starts or pauses.
    pub fn toggle(&mut self) {
        self.playing = !self.playing;
        self.head = None;
    }

    /// Changes the pace.
    pub fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
        self.head = None;
    }

    /// Where the cursor should be when the clock shows `now` seconds; `None` = where it is. Pauses at the end. A cursor that
    /// somebody else moved meanwhile is played on from where it is.
    pub fn tick(&mut self, now: f64, history: &History, cursor: Position) -> Option<Position> {
        if !self.playing {
            self.head = None;
            return None;
        }
        if cursor >= history.end() {
            self.playing = false;
            return None;
        }
        let track = Track::new(history, self.pace);
        let known = self.head.filter(|head| head.cursor == cursor);
        let head = known.unwrap_or_else(|| Head { now, cursor, place: track.place_of(cursor) });
        let place = head.place + (now - head.now).clamp(0.0, LONGEST_TICK) * track.speed;
        let next = track.position_at(place).clamp(cursor, history.end());
        self.head = Some(Head { now, cursor: next, place });
        (next != cursor).then_some(next)
    }
}

/// What playback moves along.
struct Track<'a> {
    history: &'a History,
    /// The first time, where times are followed.
    first: Option<i64>,
    /// Places a second.
    speed: f64,
}

impl<'a> Track<'a> {
    fn new(history: &'a History, pace: Pace) -> Self {
        let (first, speed) = match (pace, history.time_axis()) {
            (Pace::Recorded(factor), TimeAxis::Usable { first, .. }) => (Some(first.0), factor * 1e9),
            (Pace::Recorded(factor), _) => (None, factor * WITHOUT_TIMES),
            (Pace::Even(events), _) => (None, events),
        };
        Self { history, first, speed }
    }

    fn place_of(&self, position: Position) -> f64 {
        match self.first {
            Some(first) => self.history.time_at(position).map_or(0.0, |time| (time.0 - first) as f64),
            None => f64::from(position.0),
        }
    }

    fn position_at(&self, place: f64) -> Position {
        match self.first {
            Some(first) => self.history.position_at(TimeNs(first.saturating_add(place as i64))),
            None => Position(place.clamp(0.0, f64::from(u32::MAX)) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use vramscope_model::Ingest;
    use vramscope_trace::{Batch, DeviceId, Event, EventKind, Origin, ProcessId, StackId};

    /// One allocation every 100 ms.
    fn history(events: u32, times: bool) -> History {
        let event = |index: u32| Event {
            time: times.then(|| TimeNs(1_000_000_000 + i64::from(index) * 100_000_000)),
            process: ProcessId(0),
            device: DeviceId(0),
            stream: None,
            origin: Origin::Snapshot,
            kind: EventKind::BlockAlloc {
                address: u64::from(index + 1) << 20,
                bytes: 512,
                requested: None,
                stack: StackId::NONE,
                at_start: false,
            },
        };
        let mut ingest = Ingest::new();
        ingest.push(Batch { events: (0..events).map(event).collect(), ..Batch::default() });
        ingest.set_info(Arc::default());
        ingest.history()
    }

    /// Lets the clock run in ticks of 10 ms and gives the cursor after it.
    fn run(playback: &mut Playback, history: &History, mut cursor: Position, from: f64, seconds: f64) -> Position {
        for tick in 0..=(seconds * 100.0) as u32 {
            cursor = playback.tick(from + f64::from(tick) / 100.0, history, cursor).unwrap_or(cursor);
        }
        cursor
    }

    #[test]
    fn the_pace_suits_the_recording() {
        // A hundred events in ten seconds, with and without times, and a long one.
        assert_eq!(Pace::suited_to(&history(100, true)), Pace::Recorded(0.5));
        assert_eq!(Pace::suited_to(&history(100, false)), Pace::Even(10.0));
        assert_eq!(Pace::suited_to(&history(20_000, true)), Pace::Even(1000.0));
        assert_eq!(Pace::suited_to(&history(0, true)), Pace::Even(10.0), "nothing to play does no harm");
    }

    #[test]
    fn as_recorded_follows_the_recorded_times() {
        let history = history(100, true);
        for (factor, seconds, events) in [(1.0, 1.05, 11), (15.0, 0.5, 76), (0.25, 4.2, 11)] {
            let mut playback = Playback { playing: true, pace: Pace::Recorded(factor), ..Playback::default() };
            let cursor = run(&mut playback, &history, Position(1), 7.0, seconds);
            assert_eq!(cursor, Position(events), "{factor} times");
            assert!(playback.playing);
        }
    }

    #[test]
    fn even_pace_counts_events_and_so_does_a_recording_without_times() {
        for (pace, times) in [(Pace::Even(100.0), true), (Pace::Recorded(1.0), false)] {
            let history = history(400, times);
            let mut playback = Playback { playing: true, pace, ..Playback::default() };
            let cursor = run(&mut playback, &history, Position(10), 0.0, 1.0);
            assert!((109..=110).contains(&cursor.0), "{cursor:?}");
        }
    }

    #[test]
    fn it_pauses_at_the_end_stands_still_when_paused_and_follows_a_moved_cursor() {
        let history = history(20, true);
        let mut playback = Playback { playing: true, pace: Pace::Recorded(16.0), ..Playback::default() };
        assert_eq!(run(&mut playback, &history, Position(1), 0.0, 1.0), Position(20));
        assert!(!playback.playing);
        assert_eq!(playback.tick(9.0, &history, Position(3)), None);
        playback.toggle();
        assert_eq!(playback.tick(10.0, &history, Position(3)), None, "the first tick only looks at the clock");
        assert_eq!(playback.tick(10.1, &history, Position(3)), Some(Position(18)));
        assert_eq!(playback.tick(10.2, &history, Position(5)), None, "somebody moved it back to 5");
        assert_eq!(
            playback.tick(60.0, &history, Position(5)),
            Some(Position(20)),
            "a stall counts as a tenth of a second"
        );
    }
}
