//! What a view may look at during a frame: one recording, one lane, one cursor, shared by all views. Nothing in it can be
//! changed; wishes go to [`Ctx::commands`].

use std::sync::Arc;

use vramscope_model::{BlockId, History, LaneId, LaneState, Metric, Position, Snapshot};

use crate::axis::{Axis, Span};
use crate::command::Commands;
use crate::jobs::Jobs;
use crate::playback::Playback;
use crate::theme::Theme;

/// Tells one published history from every other: keep it beside what was worked out from a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Revision(pub u64);

/// Everything a view of a recording needs. The start page and the help need less and take less.
pub struct Ctx<'a> {
    /// The colours.
    pub theme: &'static Theme,
    /// The recording as far as it has been read.
    pub history: &'a Arc<History>,
    /// Which history this is.
    pub revision: Revision,
    /// The process and device that is shown.
    pub lane: LaneId,
    /// The horizontal axis.
    pub axis: &'a Axis,
    /// The part of the axis that is shown.
    pub span: Span,
    /// The instant that is looked at.
    pub cursor: Position,
    /// The allocator's whole state at the cursor.
    pub snapshot: &'a Arc<Snapshot>,
    /// The two ends of a measurement, in the order they were set.
    pub measured: Option<(Position, Position)>,
    /// The block under the pointer, in whichever view.
    pub hovered: Option<BlockId>,
    /// The block whose details stay in view.
    pub selected: Option<BlockId>,
    /// The device's capacity in bytes, where somebody stated it.
    pub capacity: Option<u64>,
    /// Which lines the timeline shows.
    pub shown: Shown,
    /// What the colours of blocks tell.
    pub color_by: ColorBy,
    /// Whether and how fast the cursor moves by itself.
    pub playback: Playback,
    /// Where slow questions are answered.
    pub jobs: &'a Jobs,
    /// Where wishes go.
    pub commands: &'a Commands,
}

impl Ctx<'_> {
    /// How many recorded events lie before the cursor, and how many there are: what a file counts as its entries. Facts about
    /// the start and annotations, which have positions too, are none.
    pub fn entries(&self) -> (u64, u64) {
        let all = self.history.lanes().iter().map(|lane| lane.entries).sum();
        let before = self.cursor.0.saturating_sub(self.history.recording_start().0);
        (u64::from(before).min(all), all)
    }

    /// The state of the shown lane at the cursor; `None` before its first event.
    pub fn lane_state(&self) -> Option<&LaneState> {
        self.snapshot.lanes.iter().find(|state| state.lane == self.lane)
    }
}

/// A set of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown(u8);

impl Default for Shown {
    /// All of them.
    fn default() -> Self {
        Metric::ALL.into_iter().fold(Self(0), Self::toggled)
    }
}

impl Shown {
    /// Whether a metric is in the set.
    pub fn has(self, metric: Metric) -> bool {
        self.0 & Self::bit(metric) != 0
    }

    /// The set with a metric added, or taken out if it was there.
    #[must_use]
    pub fn toggled(self, metric: Metric) -> Self {
        Self(self.0 ^ Self::bit(metric))
    }

    fn bit(metric: Metric) -> u8 {
        1 << metric as u8
    }
}

/// What the colours of blocks tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ColorBy {
    /// The line of the program that allocated it.
    #[default]
    Stack,
    /// Its size.
    Size,
    /// Its pool and stream.
    Pool,
    /// Its stream.
    Stream,
    /// How long it has lived.
    Age,
    /// The annotation it was allocated in.
    Phase,
}

impl ColorBy {
    /// All of them, in the order they are offered.
    pub const ALL: [Self; 6] = [Self::Stack, Self::Size, Self::Pool, Self::Stream, Self::Age, Self::Phase];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Size => "size",
            Self::Pool => "pool",
            Self::Stream => "stream",
            Self::Age => "age",
            Self::Phase => "phase",
        }
    }
}

/// What a metric is called on screen.
pub fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Reserved => "reserved",
        Metric::Allocated => "allocated",
        Metric::Requested => "requested",
        Metric::Pending => "pending",
    }
}

/// What a metric means, in one sentence.
pub fn metric_meaning(metric: Metric) -> &'static str {
    match metric {
        Metric::Reserved => "Reserved: bytes that PyTorch holds from the driver, used or not",
        Metric::Allocated => "Allocated: bytes of blocks in use, rounding included",
        Metric::Requested => "Requested: bytes that tensors asked for, before rounding",
        Metric::Pending => "Pending: bytes that were freed but still wait for another stream",
    }
}

/// The colour of a metric.
pub fn metric_color(theme: &Theme, metric: Metric) -> egui::Color32 {
    match metric {
        Metric::Reserved => theme.reserved,
        Metric::Allocated => theme.allocated,
        Metric::Requested => theme.requested,
        Metric::Pending => theme.pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_can_be_hidden_and_shown_again() {
        let all = Shown::default();
        assert!(Metric::ALL.into_iter().all(|metric| all.has(metric)));
        let some = all.toggled(Metric::Pending);
        assert!(!some.has(Metric::Pending) && some.has(Metric::Reserved));
        assert_eq!(some.toggled(Metric::Pending), all);
    }
}
