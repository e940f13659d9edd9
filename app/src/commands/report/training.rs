//! The steps and phases of a recording's busiest lane, and what its finished steps foretell.

use std::cmp::Reverse;

use serde::Serialize;
use vramscope_model::{
    Capacity, Forecast, Forecaster, History, LaneId, Metric, Phase, StepSource, Steps, step_facts, steps,
};

/// Steps, phases and forecast, as fields of a report.
#[derive(Debug, Serialize)]
pub(super) struct Training {
    steps: StepFields,
    /// Phases that were seen, in the order of a run.
    phases: Vec<PhaseFields>,
    /// After the last finished step; `null` without steps or where the capacity is unknown.
    forecast: Option<ForecastFields>,
}

#[derive(Debug, Serialize)]
struct StepFields {
    count: usize,
    source: &'static str,
    confidence: f32,
}

/// One phase, all its stretches together.
#[derive(Debug, Serialize)]
struct PhaseFields {
    name: &'static str,
    peak_allocated_bytes: u64,
    /// By how much what is allocated changed during it, in sum over all steps.
    lasting_bytes: i64,
    headroom_bytes: Option<i64>,
    time_us: Option<i64>,
}

#[derive(Debug, Serialize)]
struct ForecastFields {
    step: usize,
    p20: f64,
    p50: f64,
    cause: &'static str,
    steps_left: Option<(u32, u32)>,
}

/// The fields of a recording. `card` is the card's size, if the user names it.
pub(super) fn of(history: &History, card: Option<u64>) -> Training {
    let busiest = history.lanes().iter().max_by_key(|lane| (lane.entries, Reverse(lane.id)));
    let found = busiest.and_then(|lane| Some((lane.id, steps(history, lane.id, &|| false)?)));
    let Some((lane, steps)) = found else {
        let steps = StepFields { count: 0, source: StepSource::None.name(), confidence: 0.0 };
        return Training { steps, phases: Vec::new(), forecast: None };
    };
    let capacity = card.or_else(|| Capacity::from_failures(history, lane).bytes);
    let phase = |phase: Phase| phase_fields(history, lane, &steps, phase, capacity);
    let forecast = capacity.and_then(|capacity| {
        let mut forecaster = Forecaster::new(capacity);
        let facts = step_facts(history, lane, &steps).into_iter();
        let (step, forecast) = facts.map(|facts| forecaster.step(facts)).enumerate().last()?;
        let Forecast { p20, p50, cause, steps_left, .. } = forecast;
        Some(ForecastFields { step, p20, p50, cause: cause.name(), steps_left })
    });
    Training {
        phases: Phase::ALL.into_iter().filter_map(phase).collect(),
        steps: StepFields { count: steps.steps.len(), source: steps.source.name(), confidence: steps.confidence },
        forecast,
    }
}

/// A phase's figures; `None` if it was not seen.
fn phase_fields(
    history: &History,
    lane: LaneId,
    steps: &Steps,
    phase: Phase,
    capacity: Option<u64>,
) -> Option<PhaseFields> {
    let spans: Vec<_> = steps.phases.iter().filter(|span| span.phase == phase).map(|span| &span.range).collect();
    let value = |at| history.value_at(lane, Metric::Allocated, at).unwrap_or(0);
    let highest =
        |from, to| history.columns(lane, Metric::Allocated, &[from, to]).first().map_or(0, |column| column.max);
    let time = |from, to| Some(history.time_at(to)?.micros() - history.time_at(from)?.micros());
    let peak = spans.iter().map(|span| highest(span.start, span.end)).max()?;
    Some(PhaseFields {
        name: phase.name(),
        peak_allocated_bytes: peak,
        lasting_bytes: spans.iter().map(|span| value(span.end) as i64 - value(span.start) as i64).sum(),
        headroom_bytes: capacity.map(|capacity| capacity as i64 - peak as i64),
        time_us: spans.iter().filter_map(|span| time(span.start, span.end)).reduce(|sum, more| sum + more),
    })
}
