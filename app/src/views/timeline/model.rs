//! What the timeline shows: summaries per pixel column, kept while nothing they depend on changes.

use std::sync::Arc;

use vramscope_model::{Column, LaneId, Metric, Position};

use super::flags::Base;
use crate::axis::{Axis, AxisKind, Span};
use crate::ctx::{Ctx, Revision};

#[derive(Clone, Debug, PartialEq)]
struct Key {
    revision: Revision,
    lane: LaneId,
    axis: AxisKind,
    span: Span,
    columns: usize,
    capacity: Option<u64>,
    base: Arc<Base>,
}

/// What is painted.
pub(super) struct Data {
    /// Per metric in the order of [`Metric::ALL`]; `None` where the recording does not tell it.
    pub series: [Option<Vec<Column>>; 4],
    /// Bytes at the upper edge of the plot.
    pub top: f64,
    /// What is left, per column, of what was allocated before recording; empty if nothing was.
    pub base: Vec<Column>,
}

impl Data {
    /// The columns of a metric, where the recording tells it.
    pub(super) fn of(&self, metric: Metric) -> Option<&[Column]> {
        self.series[metric as usize].as_deref()
    }
}

/// The last answer.
#[derive(Default)]
pub(super) struct Cache {
    known: Option<(Key, Data)>,
}

impl Cache {
    /// The data for a plot of that width in points.
    pub(super) fn get(&mut self, ctx: &Ctx<'_>, base: &Arc<Base>, width: f32, pixels_per_point: f32) -> &Data {
        let key = Key {
            revision: ctx.revision,
            lane: ctx.lane,
            axis: ctx.axis.kind(),
            span: ctx.span,
            columns: ((width * pixels_per_point).round() as usize).clamp(1, 16_384),
            capacity: ctx.capacity,
            base: Arc::clone(base),
        };
        let known = self.known.take().filter(|(known, _)| *known == key);
        let (_, data) = self.known.insert(known.unwrap_or_else(|| {
            let data = data(ctx, base, key.columns);
            (key, data)
        }));
        data
    }
}

fn data(ctx: &Ctx<'_>, base: &Base, columns: usize) -> Data {
    let edges = edges(ctx.axis, ctx.span, columns);
    let series = Metric::ALL.map(|metric| {
        let known = ctx.history.value_at(ctx.lane, metric, ctx.history.end()).is_some();
        known.then(|| ctx.history.columns(ctx.lane, metric, &edges))
    });
    let peak = ctx.history.peak(ctx.lane, Metric::Reserved).map_or(0, |peak| peak.bytes);
    let peak = peak.max(ctx.history.peak(ctx.lane, Metric::Allocated).map_or(0, |peak| peak.bytes)).max(1);
    Data { series, top: top(peak, ctx.capacity), base: base.columns(&edges) }
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
