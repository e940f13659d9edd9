//! Makes the small picture of a demo recording for the start page, by reading it whole.

use std::sync::Arc;

use vramscope_model::Metric;

use crate::axis::{Axis, AxisKind};
use crate::demos::Demo;
use crate::session::Session;
use crate::views::start::Preview;
use crate::views::timeline::edges;

/// Columns of the picture.
const COLUMNS: usize = 192;

/// Reads a demo and sums it up. Takes as long as opening it: a job, not part of a frame.
pub(crate) fn of(demo: &'static Demo) -> Preview {
    let wake: crate::jobs::Wake = Arc::new(|| ());
    let mut session = Session::open_demo(demo, &wake);
    session.wait();
    let Some(history) = session.runs().first().map(|run| Arc::clone(&run.history)) else { return Preview::default() };
    let Some(lane) = history.lanes().first() else { return Preview::default() };
    let axis = Axis::new(&history, AxisKind::Events);
    let edges = edges(&axis, axis.all(), COLUMNS);
    let highest = |metric| history.columns(lane.id, metric, &edges);
    let columns = highest(Metric::Reserved).into_iter().zip(highest(Metric::Allocated));
    let peak = |metric| history.peak(lane.id, metric).map_or(0, |peak| peak.bytes);
    Preview {
        peak_reserved: peak(Metric::Reserved),
        peak_allocated: peak(Metric::Allocated),
        entries: lane.entries,
        columns: columns.map(|(reserved, allocated)| [reserved.max, allocated.max]).collect(),
        ooms: history.ooms().iter().map(|oom| axis.all().part_of(axis.place_of(oom.seq.after())) as f32).collect(),
    }
}
