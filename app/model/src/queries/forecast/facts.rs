//! The facts of finished steps, from a history whose steps are known.

use super::StepFacts;
use crate::{History, LaneId, Metric, Phase, Position, Steps};

/// What each finished step of a lane did, in order: those that ran out of memory or are not wholly in the recording are left
/// out.
pub fn step_facts(history: &History, lane: LaneId, steps: &Steps) -> Vec<StepFacts> {
    let value = |metric: Metric, at: Position| history.value_at(lane, metric, at).unwrap_or(0);
    let most = |metric: Metric, from: Position, to: Position| {
        history.columns(lane, metric, &[from, to]).first().map_or_else(|| value(metric, to), |column| column.max)
    };
    let mut facts: Vec<StepFacts> = Vec::new();
    let mut reserved = 0;
    let mut spans = steps.phases.iter().peekable();
    for (number, step) in steps.steps.iter().enumerate() {
        let mut found = StepFacts { floor: value(Metric::Allocated, step.range.end), ..StepFacts::default() };
        while let Some(span) = spans.next_if(|span| span.range.start < step.range.end) {
            if span.step != Some(number as u32) {
                continue;
            }
            let (from, to) = (span.range.start, span.range.end);
            let peak = most(Metric::Reserved, from, to);
            found.peak = found.peak.max(most(Metric::Allocated, from, to));
            found.reserved = found.reserved.max(peak);
            found.flushed |= peak < reserved;
            reserved = peak;
            if span.phase == Phase::Optimizer {
                let growth = value(Metric::Allocated, to) as i64 - value(Metric::Allocated, from) as i64;
                found.update_growth = Some(found.update_growth.unwrap_or(0) + growth);
            }
        }
        if !step.partial && !step.out_of_memory {
            facts.push(found);
        }
    }
    facts
}
