//! What had grown until an allocation failed: blocks that pile up, the optimizer's state, validation, or a larger step.
//!
//! Each kind is measured in bytes that were not there in the step that got furthest before; the largest is named. Less than a
//! part in [`MATTERS`] of what was needed is not worth naming.

use std::ops::Range;

use vramscope_trace::StackId;

use super::facts::Facts;
use super::words::size;
use super::{Growth, live_blocks};
use crate::{Beat, Block, History, LaneId, LaneState, Leaks, Metric, Phase, Position, Steps};

/// Growth by less than one in so many bytes needed is left out.
const MATTERS: u64 = 100;

/// What has grown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) growth: Growth,
    /// In words; empty if nothing has.
    pub(super) sentence: String,
    /// The stack whose blocks pile up.
    pub(super) stack: Option<StackId>,
}

impl Found {
    pub(super) const NOTHING: Self = Self { growth: Growth::None, sentence: String::new(), stack: None };
}

/// A step that went through: where it began, and how much it had then and at most. Bytes.
#[derive(Clone, Copy, Debug)]
struct Before {
    start: Position,
    floor: u64,
    peak: u64,
}

impl Before {
    fn excess(&self) -> u64 {
        self.peak.saturating_sub(self.floor)
    }
}

/// Everything that is compared.
struct Scene<'a> {
    history: &'a History,
    lane: LaneId,
    steps: &'a Steps,
    at: Position,
    /// What was in use, and what was asked for on top.
    allocated: u64,
    needed: u64,
    /// The step it happened in, as an index; `None` = in none.
    step: Option<usize>,
    before: Vec<Before>,
    /// Blocks in use.
    live: Vec<Block>,
}

/// What has grown until a state in which a request failed.
pub(super) fn find(
    history: &History,
    state: &LaneState,
    at: Position,
    facts: &Facts,
    steps: &Steps,
    leaks: &Leaks,
) -> Found {
    // What failed comes after the step's last operation: the phase it happened in knows the step.
    let step = steps.phase_at(at).and_then(|span| span.step).map(|step| step as usize);
    let mut scene = Scene {
        history,
        lane: state.lane,
        steps,
        at,
        allocated: state.allocated,
        needed: state.allocated.saturating_add(facts.request.unwrap_or(0)),
        step,
        before: Vec::new(),
        live: live_blocks(history, state).collect(),
    };
    scene.before = scene.finished();
    if let Some(found) = scene.at_validation() {
        return found;
    }
    let candidates = [scene.leak(leaks), scene.left_by_validation(), scene.state(), scene.larger_step()];
    let best = candidates.into_iter().flatten().max_by_key(|(bytes, _)| *bytes);
    best.filter(|(bytes, _)| *bytes >= scene.needed / MATTERS && *bytes > 0).map_or(Found::NOTHING, |(_, found)| found)
}

impl Scene<'_> {
    /// The steps that were over by then, as far as they are whole.
    fn finished(&self) -> Vec<Before> {
        let value = |at| self.history.value_at(self.lane, Metric::Allocated, at).unwrap_or(0);
        let steps = self.steps.steps.iter().enumerate();
        let earlier = steps.filter(|(index, step)| {
            !step.partial && !step.out_of_memory && step.range.end <= self.at && Some(*index) != self.step
        });
        earlier
            .map(|(_, step)| Before {
                start: step.range.start,
                floor: value(step.range.start),
                peak: self.most(&step.range),
            })
            .collect()
    }

    /// The step that got furthest.
    fn furthest(&self) -> Option<&Before> {
        self.before.iter().max_by_key(|before| before.peak)
    }

    fn phase(&self, at: Position) -> Phase {
        self.steps.phase_at(at).map_or(Phase::Other, |span| span.phase)
    }

    /// Training went well, and validation did not.
    fn at_validation(&self) -> Option<Found> {
        let phase = self.steps.phase_at(self.at).filter(|span| span.phase == Phase::Validation)?;
        let before = self.steps.phases.iter().take_while(|span| span.range.start < phase.range.start);
        let trains = |phase: Phase| matches!(phase, Phase::Backward | Phase::Optimizer);
        if !before.clone().any(|span| trains(span.phase)) {
            return None;
        }
        let training = before.filter(|span| span.phase != Phase::Validation);
        let trained = training.map(|span| self.most(&span.range)).max().unwrap_or(0);
        let sentence = format!(
            "It happened in validation, which needed {}; training before it took {} at most.",
            size(self.needed),
            size(trained)
        );
        Some(Found { growth: Growth::Validation, sentence, stack: None })
    }

    /// The most that was in use in a range.
    fn most(&self, range: &Range<Position>) -> u64 {
        let columns = self.history.columns(self.lane, Metric::Allocated, &[range.start, range.end]);
        columns.first().map_or(0, |column| column.max)
    }

    /// Blocks that come again with every step and do not go.
    fn leak(&self, leaks: &Leaks) -> Option<(u64, Found)> {
        if !leaks.rising {
            return None;
        }
        let first = leaks.suspects.first()?;
        let piled = |block: &Block| {
            let suspect = leaks
                .suspects
                .iter()
                .find(|suspect| suspect.stack == block.stack && suspect.size.is_none_or(|size| size == block.bytes));
            suspect.is_some() && !block.at_start
        };
        let bytes: u64 = self.live.iter().filter(|block| piled(block)).map(|block| block.bytes).sum();
        let rate = leaks.suspects.iter().map(|suspect| suspect.bytes_per_step).sum::<f64>().max(0.0) as u64;
        let (turn, since) = match leaks.beat {
            Beat::Step => ("step", "step"),
            Beat::Turn => ("turn of the loop", "turn"),
        };
        let kind = if first.stack == StackId::NONE { "of the same size" } else { "of the same call stack" };
        let sentence = format!(
            "A leak filled it: blocks {kind} pile up, {} more with each {turn} since {since} {}, {} by then.",
            size(rate),
            first.since,
            size(bytes)
        );
        let stack = Some(first.stack).filter(|stack| *stack != StackId::NONE);
        Some((bytes, Found { growth: Growth::Leak, sentence, stack }))
    }

    /// What validation has left behind since the step that got furthest.
    fn left_by_validation(&self) -> Option<(u64, Found)> {
        let since = match self.furthest() {
            Some(before) => before.start,
            None if self.steps.steps.is_empty() => self.history.recording_start(),
            None => return None,
        };
        let bytes = self.live_from(since, |scene, block| scene.phase(block.allocated) == Phase::Validation);
        let sentence = format!("Validation before it left {} behind that earlier steps did not have.", size(bytes));
        Some((bytes, Found { growth: Growth::Validation, sentence, stack: None }))
    }

    /// The optimizer's state that has come since the step that got furthest began; in a first step, what has come of it so far.
    fn state(&self) -> Option<(u64, Found)> {
        let first = self.before.is_empty();
        let since = match self.furthest() {
            Some(before) => before.start,
            None if self.phase(self.at) == Phase::Optimizer => self.steps.steps.get(self.step?)?.range.start,
            None => return None,
        };
        let created = |scene: &Self, block: &Block| {
            let step = scene.steps.step_at(block.allocated).and_then(|step| scene.steps.steps.get(step as usize));
            scene.phase(block.allocated) == Phase::Optimizer && step.is_some_and(|step| first || step.first_effects())
        };
        let bytes = self.live_from(since, created);
        let asked = self.needed - self.allocated;
        let (grown, sentence) = if first {
            let sentence = format!(
                "The optimizer was creating its state in its first step: {} had come, {} more were asked for. Later steps do not \
                 add to it.",
                size(bytes),
                size(asked)
            );
            (bytes.saturating_add(asked), sentence)
        } else {
            let sentence = format!(
                "The optimizer's first step had added {} of state that stays; it does not grow again after that.",
                size(bytes)
            );
            (bytes, sentence)
        };
        Some((grown, Found { growth: Growth::StateGrowth, sentence, stack: None }))
    }

    /// A step that needs more above where it began than any before it, by how much more than the usual one.
    fn larger_step(&self) -> Option<(u64, Found)> {
        let floor =
            self.history.value_at(self.lane, Metric::Allocated, self.steps.steps.get(self.step?)?.range.start)?;
        let excess = self.needed.saturating_sub(floor);
        let mut earlier: Vec<u64> = self.before.iter().map(Before::excess).collect();
        earlier.sort_unstable();
        let most = *earlier.last()?;
        if excess <= most.saturating_add(most / MATTERS) {
            return None;
        }
        let usual = earlier[earlier.len() / 2];
        let sentence = format!(
            "The step's input is larger than any before: it needed at least {} above where it began, the largest until then {}.",
            size(excess),
            size(most)
        );
        Some((excess - usual, Found { growth: Growth::LongerInput, sentence, stack: None }))
    }

    /// Bytes in use that came after a position and are of a kind.
    fn live_from(&self, since: Position, of_kind: impl Fn(&Self, &Block) -> bool) -> u64 {
        let newer = self.live.iter().filter(|block| !block.at_start && block.allocated > since);
        newer.filter(|block| of_kind(self, block)).map(|block| block.bytes).sum()
    }
}
