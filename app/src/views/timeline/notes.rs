//! What is told beside the counters: annotations by row, failures, named instants, and places where events are missing.

use std::collections::HashMap;
use std::sync::Arc;

use vramscope_model::{History, Lane, LaneId};
use vramscope_trace::NameId;

use super::flags::{self, Base, Flag};
use crate::axis::{Axis, AxisKind};
use crate::ctx::{Ctx, Revision};
use crate::jobs::Latest;

/// Most rows of annotations; what is nested deeper is not drawn.
const MOST_ROWS: usize = 3;

/// A span of annotations, in places of the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RibbonSpan {
    pub low: f64,
    pub high: f64,
    pub name: NameId,
    /// Which of the theme's categories it is coloured with.
    pub category: usize,
}

/// What is told of one lane, in places of one axis.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Annotations by depth, each row in order and without overlap.
    pub rows: Vec<Vec<RibbonSpan>>,
    /// Allocations that failed, with the bytes they asked for.
    pub ooms: Vec<Flag<u64>>,
    /// Named instants.
    pub marks: Vec<Flag<NameId>>,
    /// Where events are missing, and how many.
    pub lost: Vec<Flag<u64>>,
    /// What was allocated before recording began.
    pub base: Arc<Base>,
}

#[derive(Clone, PartialEq)]
struct Key {
    revision: Revision,
    lane: LaneId,
    axis: AxisKind,
}

/// The last notes; new ones are made off the window's thread, as a long job has many annotations.
#[derive(Default)]
pub(super) struct NotesCache {
    latest: Latest<Key, Arc<Notes>>,
}

impl NotesCache {
    /// The newest there are for this lane and axis; empty until there are any.
    pub(super) fn get(&mut self, ctx: &Ctx<'_>) -> Arc<Notes> {
        let key = Key { revision: ctx.revision, lane: ctx.lane, axis: ctx.axis.kind() };
        let (history, axis, lane) = (Arc::clone(ctx.history), ctx.axis.clone(), ctx.lane);
        let latest = self.latest.get(ctx.jobs, &key, move || Arc::new(notes(&history, &axis, lane)));
        let latest = latest.filter(|(known, _)| known.lane == key.lane && known.axis == key.axis);
        latest.map_or_else(Arc::default, |(_, notes)| Arc::clone(notes))
    }
}

fn notes(history: &History, axis: &Axis, lane: LaneId) -> Notes {
    let Some(lane) = history.lanes().iter().find(|known| known.id == lane) else { return Notes::default() };
    Notes {
        rows: rows(history, axis, lane),
        ooms: flags::ooms(history, axis, lane.id),
        marks: flags::marks(history, axis, lane),
        lost: flags::lost(history, axis, lane),
        base: Arc::new(Base::of(history, lane.id)),
    }
}

fn rows(history: &History, axis: &Axis, lane: &Lane) -> Vec<Vec<RibbonSpan>> {
    let mut categories: HashMap<NameId, usize> = HashMap::new();
    let mut rows: Vec<Vec<RibbonSpan>> = Vec::new();
    for span in history.annotations() {
        let depth = span.depth as usize;
        if span.device != lane.device || span.process != lane.process || depth >= MOST_ROWS {
            continue;
        }
        let next = categories.len();
        let category = *categories.entry(span.name).or_insert(next);
        let low = span.begin.map_or(axis.all().low, |time| axis.place_of_time(time));
        let high = span.end.map_or(axis.all().high, |time| axis.place_of_time(time));
        if rows.len() <= depth {
            rows.resize_with(depth + 1, Vec::new);
        }
        rows[depth].push(RibbonSpan { low, high: high.max(low), name: span.name, category });
    }
    for row in &mut rows {
        row.sort_by(|a, b| a.low.total_cmp(&b.low));
    }
    rows
}
