//! What the timeline shows: summaries per pixel column, kept while nothing they depend on changes, and annotations by row.

use std::collections::HashMap;
use std::sync::Arc;

use vramscope_model::{Column, History, LaneId, Metric, Oom, Position};
use vramscope_trace::NameId;

use crate::axis::{Axis, AxisKind, Span};
use crate::ctx::{Ctx, Revision};
use crate::jobs::Latest;

/// Most rows of annotations; what is nested deeper is not drawn.
const MOST_ROWS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Key {
    revision: Revision,
    lane: LaneId,
    axis: AxisKind,
    span: Span,
    columns: usize,
    capacity: Option<u64>,
}

/// What is painted.
pub(super) struct Data {
    /// Per metric in the order of [`Metric::ALL`]; `None` where the recording does not tell it.
    pub series: [Option<Vec<Column>>; 4],
    /// Bytes at the upper edge of the plot.
    pub top: f64,
    /// Failures of this lane.
    pub ooms: Vec<Oom>,
}

/// The last answer.
#[derive(Default)]
pub(super) struct Cache {
    known: Option<(Key, Data)>,
}

impl Cache {
    /// The data for a plot of that width in points.
    pub(super) fn get(&mut self, ctx: &Ctx<'_>, width: f32, pixels_per_point: f32) -> &Data {
        let key = Key {
            revision: ctx.revision,
            lane: ctx.lane,
            axis: ctx.axis.kind(),
            span: ctx.span,
            columns: ((width * pixels_per_point).round() as usize).clamp(1, 16_384),
            capacity: ctx.capacity,
        };
        let known = self.known.take().filter(|(known, _)| *known == key);
        let (_, data) = self.known.insert(known.unwrap_or_else(|| (key, data(ctx, key.columns))));
        data
    }
}

fn data(ctx: &Ctx<'_>, columns: usize) -> Data {
    let edges = edges(ctx.axis, ctx.span, columns);
    let series = Metric::ALL.map(|metric| {
        let known = ctx.history.value_at(ctx.lane, metric, ctx.history.end()).is_some();
        known.then(|| ctx.history.columns(ctx.lane, metric, &edges))
    });
    let peak = ctx.history.peak(ctx.lane, Metric::Reserved).map_or(0, |peak| peak.bytes);
    let peak = peak.max(ctx.history.peak(ctx.lane, Metric::Allocated).map_or(0, |peak| peak.bytes)).max(1);
    let ooms = ctx.history.ooms().into_iter().filter(|oom| oom.lane == ctx.lane).collect();
    Data { series, top: top(peak, ctx.capacity), ooms }
}

/// The positions between columns that divide a part of the axis evenly: one more than columns.
pub(crate) fn edges(axis: &Axis, span: Span, columns: usize) -> Vec<Position> {
    (0..=columns).map(|index| axis.position_at(span.at(index as f64 / columns as f64))).collect()
}

/// Bytes at the upper edge: a little above the peak, or above the capacity where that leaves the curves readable.
fn top(peak: u64, capacity: Option<u64>) -> f64 {
    let highest = match capacity {
        Some(capacity) if capacity / 4 < peak => capacity.max(peak),
        _ => peak,
    };
    highest as f64 * 1.06
}

/// A span of annotations, in places of the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RibbonSpan {
    pub low: f64,
    pub high: f64,
    pub name: NameId,
    /// Which of the theme's categories it is coloured with.
    pub category: usize,
}

/// Annotations by depth, each row in order and without overlap.
#[derive(Debug, Default)]
pub(super) struct Ribbon {
    pub rows: Vec<Vec<RibbonSpan>>,
}

#[derive(Clone, PartialEq)]
struct RibbonKey {
    revision: Revision,
    lane: LaneId,
    axis: AxisKind,
}

/// The last ribbon; a new one is made off the window's thread, as a long job has many annotations.
#[derive(Default)]
pub(super) struct RibbonCache {
    latest: Latest<RibbonKey, Arc<Ribbon>>,
}

impl RibbonCache {
    /// The newest ribbon there is for this lane and axis.
    pub(super) fn get(&mut self, ctx: &Ctx<'_>) -> Option<Arc<Ribbon>> {
        let key = RibbonKey { revision: ctx.revision, lane: ctx.lane, axis: ctx.axis.kind() };
        let (history, axis, lane) = (Arc::clone(ctx.history), ctx.axis.clone(), ctx.lane);
        let (known, ribbon) = self.latest.get(ctx.jobs, &key, move || Arc::new(ribbon(&history, &axis, lane)))?;
        (known.lane == key.lane && known.axis == key.axis).then(|| Arc::clone(ribbon))
    }
}

fn ribbon(history: &History, axis: &Axis, lane: LaneId) -> Ribbon {
    let Some(lane) = history.lanes().iter().find(|known| known.id == lane) else { return Ribbon::default() };
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
    Ribbon { rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_far_above_the_peak_does_not_flatten_the_curves() {
        assert_eq!(top(100, None), 106.0);
        assert_eq!(top(100, Some(200)), 212.0);
        assert_eq!(top(100, Some(50)), 106.0, "a run may exceed the capacity that was typed");
        assert_eq!(top(100, Some(1000)), 106.0);
    }
}
