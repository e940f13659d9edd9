//! Whether times can serve as an axis, and the running maximum that orders them.

use vramscope_trace::{Problem, ProblemKind, TimeNs};

use crate::TimeAxis;
use crate::store::NO_TIME;

/// What is known about times so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The latest time of a clocked event (anything but annotations and marks, which may be told late).
    pub(crate) latest: i64,
    /// The first time of an event that was not about the start.
    first: Option<i64>,
    timed: u64,
    untimed: u64,
    goes_back: bool,
}

impl Default for Clock {
    fn default() -> Self {
        Self { latest: NO_TIME, first: None, timed: 0, untimed: 0, goes_back: false }
    }
}

impl Clock {
    /// Counts a memory event of the run itself.
    #[inline]
    pub(crate) fn memory_event(&mut self, time: Option<TimeNs>) {
        match time {
            Some(TimeNs(time)) => {
                self.timed += 1;
                self.goes_back |= time < self.latest;
            }
            None => self.untimed += 1,
        }
        self.other_event(time);
    }

    /// Counts another clocked event: it moves the clock on, but it may be late.
    pub(crate) fn other_event(&mut self, time: Option<TimeNs>) {
        if let Some(time) = time {
            self.first.get_or_insert(time.0);
            self.start_fact(Some(time));
        }
    }

    /// A fact about the start: its time, if any, is no part of the axis.
    pub(crate) fn start_fact(&mut self, time: Option<TimeNs>) {
        self.latest = self.latest.max(time.map_or(NO_TIME, |time| time.0));
    }

    /// Whether times can serve as an axis.
    pub(crate) fn axis(&self) -> TimeAxis {
        match self.first {
            None => TimeAxis::Missing,
            Some(_) if self.goes_back => TimeAxis::GoesBack,
            Some(first) if first >= self.latest => TimeAxis::AllEqual,
            Some(first) => TimeAxis::Usable { first: TimeNs(first), last: TimeNs(self.latest) },
        }
    }

    /// Adds what is odd about the times as a whole.
    pub(crate) fn add_problems(&self, problems: &mut Vec<Problem>) {
        match self.axis() {
            TimeAxis::Missing
                if self.untimed > 0 && problems.iter().all(|known| known.kind != ProblemKind::NoTimes) =>
            {
                Problem::note(problems, ProblemKind::NoTimes, self.untimed, || {
                    format!("none of {} events has a time", self.untimed)
                });
            }
            TimeAxis::AllEqual if self.timed > 1 => {
                Problem::note(problems, ProblemKind::ClockStep, self.timed, || {
                    format!("all {} events have the same time, {} \u{b5}s", self.timed, TimeNs(self.latest).micros())
                });
            }
            _ => {}
        }
    }
}
