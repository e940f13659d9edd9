//! From one label an operation to phases and steps.

use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use vramscope_trace::StackId;

use super::ops::Ops;
use super::{Evidence, Label, Phase, PhaseSpan, Step, StepSource, Steps};
use crate::{History, LaneId, Position};

/// A forward pass feeds a backward pass if this part (one in so many) of what it allocates is still there when the next
/// backward pass begins. Below it, it is validation.
const FEEDS: u64 = 100;

/// Operations of one phase.
#[derive(Clone, Debug)]
struct Run {
    phase: Phase,
    ops: Range<usize>,
    step: Option<u32>,
}

/// A step as a range of runs.
#[derive(Clone, Debug, Default)]
struct Draft {
    runs: Range<usize>,
    micro_steps: u32,
    /// Whether the recording begins inside it.
    headless: bool,
    /// Whether its update was seen: it is whole.
    updated: bool,
}

/// Phases and steps of a lane.
pub(super) fn assemble(history: &History, lane: LaneId, ops: &Ops, mut evidence: Evidence) -> Steps {
    mark_validation(ops, &mut evidence.labels);
    let mut runs = runs_of(&resolve(&evidence.labels));
    let starts = evidence.starts.take().or_else(|| turns(ops, &evidence.labels));
    let drafts = match &starts {
        Some(starts) => told_steps(&mut runs, starts),
        None => cut(&runs),
    };
    for (number, draft) in drafts.iter().enumerate() {
        for run in &mut runs[draft.runs.clone()] {
            run.step = Some(number as u32);
        }
    }
    let bounds = Bounds { ops, end: history.end(), start: history.recording_start() };
    let mut steps: Vec<Step> = drafts.iter().map(|draft| step_of(&bounds, &runs, draft)).collect();
    for oom in history.ooms().iter().filter(|oom| oom.lane == lane) {
        let next = steps.partition_point(|step| step.range.start <= oom.at);
        if let Some(step) = next.checked_sub(1).and_then(|index| steps.get_mut(index)) {
            let follows = oom.at <= step.range.end || next == drafts.len() && step.partial;
            if follows {
                step.out_of_memory = true;
                step.partial = drafts[next - 1].headless;
            }
        }
    }
    let confidence = if steps.is_empty() { evidence.confidence / 2.0 } else { evidence.confidence };
    let source = if steps.is_empty() && runs.iter().all(|run| run.phase == Phase::Other) {
        StepSource::None
    } else {
        evidence.source
    };
    Steps { source, confidence, steps, phases: spans(&bounds, &runs) }
}

/// Where the turns of a loop without learning begin: each time the stack of the first module call comes again. `None` where
/// there is learning, or no forward pass.
fn turns(ops: &Ops, labels: &[Label]) -> Option<Vec<usize>> {
    let learning = |label: &Label| matches!(label, Label::Is(Phase::Backward | Phase::Optimizer | Phase::ZeroGrad, _));
    if labels.iter().any(learning) {
        return None;
    }
    let first = labels.iter().position(|label| matches!(label, Label::Is(Phase::Forward | Phase::Validation, _)))?;
    let stack = ops.stack(first);
    let again = |op: &usize| stack != StackId::NONE && ops.stack(*op) == stack;
    let calls: Vec<usize> = [first].into_iter().chain((first + 1..ops.len()).filter(again)).collect();
    let gaps = calls.iter().zip(calls.iter().skip(1).copied().chain([ops.len()])).map(|(call, next)| next - call);
    // One stack may stand for several calls in a row: only a call far from the last begins a turn.
    let far = gaps.max().unwrap_or(0) / 4;
    let lead = labels[..first].iter().rev().take_while(|label| **label == Label::Open).count();
    let mut starts = vec![first];
    for pair in calls.windows(2) {
        if pair[1] - pair[0] > far {
            starts.push(pair[1]);
        }
    }
    starts[0] -= lead;
    Some(starts)
}

/// Turns forward passes whose results no backward pass uses into validation.
fn mark_validation(ops: &Ops, labels: &mut [Label]) {
    let mut next_backward = usize::MAX;
    // By call site: bytes allocated, and bytes of them that live until the next backward pass.
    let mut sites = FxHashMap::<u32, (u64, u64)>::default();
    for op in (0..ops.len()).rev() {
        match labels[op] {
            Label::Is(Phase::Backward, _) => next_backward = op,
            Label::Is(Phase::Forward, site) if site != 0 && next_backward != usize::MAX && ops.ops[op].allocates => {
                let life = ops.life(op);
                let (all, used) = sites.entry(site).or_default();
                *all += life.bytes;
                *used += if life.death as usize >= next_backward { life.bytes } else { 0 };
            }
            _ => {}
        }
    }
    let idle: FxHashSet<u32> =
        sites.into_iter().filter(|(_, (all, used))| *all > 0 && used * FEEDS < *all).map(|(site, _)| site).collect();
    if idle.is_empty() {
        return;
    }
    for label in labels {
        if let Label::Is(phase @ Phase::Forward, site) = label
            && idle.contains(site)
        {
            *phase = Phase::Validation;
        }
    }
}

/// A phase for every operation: open ones take theirs from what is around them.
fn resolve(labels: &[Label]) -> Vec<Phase> {
    let modules = labels.iter().any(|label| matches!(label, Label::Is(Phase::Forward, _)));
    let mut phases = Vec::with_capacity(labels.len());
    let mut before = None;
    let mut op = 0;
    while op < labels.len() {
        if let Label::Is(phase, _) = labels[op] {
            before = Some(phase);
            phases.push(phase);
            op += 1;
            continue;
        }
        let length = labels[op..].iter().take_while(|label| **label == Label::Open).count();
        let after = labels.get(op + length).and_then(|label| match label {
            Label::Is(phase, _) => Some(*phase),
            Label::Open => None,
        });
        let phase = between(before, after, modules);
        phases.extend(std::iter::repeat_n(phase, length));
        op += length;
    }
    phases
}

/// What happens between two phases, in operations that say nothing themselves. `modules` tells whether module calls are
/// visible anywhere: where they are not, what comes before a backward pass is the forward pass.
fn between(before: Option<Phase>, after: Option<Phase>, modules: bool) -> Phase {
    use Phase::{Backward, Data, Forward, Load, Loss, Optimizer, Other, Validation, ZeroGrad};
    match (before, after) {
        (Some(same), Some(other)) if same == other && same != Phase::Checkpoint => same,
        (Some(Forward | Loss), Some(Validation)) => Other,
        (Some(Forward), Some(Data)) => Other,
        (Some(Forward | Loss), _) => Loss,
        (Some(Optimizer | ZeroGrad), Some(Optimizer | ZeroGrad)) => Optimizer,
        (Some(ZeroGrad), Some(Backward)) if modules => Loss,
        (_, Some(Backward)) => Forward,
        (Some(Backward), Some(Optimizer | ZeroGrad) | None) => Backward,
        (Some(Load), Some(Load)) => Load,
        (_, Some(Forward | Data)) => Data,
        _ => Other,
    }
}

fn runs_of(phases: &[Phase]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (op, &phase) in phases.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if run.phase == phase => run.ops.end = op + 1,
            _ => runs.push(Run { phase, ops: op..op + 1, step: None }),
        }
    }
    runs
}

/// Steps whose beginnings were told: runs are split there.
fn told_steps(runs: &mut Vec<Run>, starts: &[usize]) -> Vec<Draft> {
    let mut split = Vec::with_capacity(runs.len() + starts.len());
    let mut first = Vec::with_capacity(starts.len());
    let mut next = starts.iter().copied().peekable();
    for run in runs.drain(..) {
        let mut rest = run;
        while let Some(start) = next.next_if(|start| *start < rest.ops.end) {
            if start > rest.ops.start {
                split.push(Run { ops: rest.ops.start..start, ..rest.clone() });
                rest.ops.start = start;
            }
            first.push(split.len());
        }
        split.push(rest);
    }
    *runs = split;
    let ends = first.iter().skip(1).copied().chain([runs.len()]).collect::<Vec<_>>();
    let drafts = first.iter().zip(ends).filter(|(start, end)| **start < *end);
    drafts
        .map(|(&start, end)| {
            let passes = runs[start..end].iter().filter(|run| run.phase == Phase::Backward).count() as u32;
            Draft { runs: start..end, micro_steps: passes, headless: false, updated: true }
        })
        .collect()
}

/// What is known of the step that is being read.
#[derive(Default)]
struct Open {
    draft: Draft,
    forward: bool,
    backward: bool,
    /// The first run after the last backward pass.
    turn: Option<usize>,
}

impl Open {
    fn at(run: usize, phase: Phase) -> Self {
        let headless = run == 0 && matches!(phase, Phase::Backward | Phase::Optimizer | Phase::Loss);
        Self { draft: Draft { runs: run..run, headless, ..Draft::default() }, ..Self::default() }
    }

    /// Adds a run of a pass.
    fn pass(&mut self, index: usize, phase: Phase) {
        if phase == Phase::Backward {
            self.draft.micro_steps += u32::from(!self.backward || self.turn.is_some());
            (self.backward, self.turn) = (true, None);
        } else {
            self.forward |= phase != Phase::Data;
            if self.backward && self.turn.is_none() {
                self.turn = Some(index);
            }
        }
    }

    fn close(mut self, end: usize) -> Option<Draft> {
        self.draft.runs.end = end;
        let content = self.forward || self.backward || self.draft.updated;
        content.then_some(self.draft)
    }
}

/// Steps from the order of phases: a step ends with the update; without visible updates, with the gradients' release;
/// without that, with the backward pass.
fn cut(runs: &[Run]) -> Vec<Draft> {
    let has = |phase: Phase| runs.iter().any(|run| run.phase == phase);
    let (updates, releases) = (has(Phase::Optimizer), has(Phase::ZeroGrad));
    if !updates && !releases && !has(Phase::Backward) {
        return Vec::new();
    }
    let mut drafts = Vec::new();
    let mut open: Option<Open> = None;
    for (index, run) in runs.iter().enumerate() {
        match run.phase {
            Phase::Load | Phase::Checkpoint | Phase::Validation | Phase::Other => {
                if open.as_ref().is_some_and(|open| open.draft.updated) {
                    drafts.extend(open.take().and_then(|open| open.close(index)));
                }
            }
            Phase::Data | Phase::Forward | Phase::Loss | Phase::Backward => {
                let ended = open.as_ref().is_some_and(|open| {
                    open.draft.updated || !updates && !releases && open.backward && run.phase != Phase::Backward
                });
                if ended {
                    drafts.extend(open.take().and_then(|mut open| {
                        open.draft.updated = true;
                        open.close(index)
                    }));
                }
                open.get_or_insert_with(|| Open::at(index, run.phase)).pass(index, run.phase);
            }
            Phase::Optimizer => {
                open.get_or_insert_with(|| Open::at(index, run.phase)).draft.updated = true;
            }
            Phase::ZeroGrad if !updates => {
                if let Some(current) = open.as_mut().filter(|open| open.backward) {
                    current.draft.updated = true;
                    if let Some(turn) = current.turn {
                        // Gradients are dropped in the middle of a step: the one before ended with its backward pass.
                        drafts.extend(open.take().and_then(|open| open.close(turn)));
                        open = Some(Open { forward: true, ..Open::at(turn, Phase::Forward) });
                    }
                }
            }
            Phase::ZeroGrad => {}
        }
    }
    drafts.extend(open.and_then(|open| open.close(runs.len())));
    drafts
}

/// Turns operations into positions.
struct Bounds<'a> {
    ops: &'a Ops,
    start: Position,
    end: Position,
}

impl Bounds<'_> {
    /// The border before an operation: after everything that belongs to the one before it, so that what the allocator
    /// does to serve an allocation lies in the same phase.
    fn before(&self, op: usize) -> Position {
        if op == 0 {
            return self.start;
        }
        let last = &self.ops.ops[op - 1];
        let after = Position(last.at + u32::from(!last.allocates));
        after.min(self.ops.before(op, self.end))
    }
}

fn step_of(bounds: &Bounds<'_>, runs: &[Run], draft: &Draft) -> Step {
    let ops = runs[draft.runs.start].ops.start..runs[draft.runs.end - 1].ops.end;
    let updates = runs[draft.runs.clone()].iter().filter(|run| run.phase == Phase::Optimizer);
    let states = updates.flat_map(|run| bounds.ops.born_in(run.ops.clone()));
    Step {
        range: bounds.before(ops.start)..bounds.before(ops.end),
        micro_steps: draft.micro_steps,
        out_of_memory: false,
        partial: draft.headless || !draft.updated,
        state_bytes: states.filter(|life| life.death as usize >= ops.end).map(|life| life.bytes).sum(),
    }
}

fn spans(bounds: &Bounds<'_>, runs: &[Run]) -> Vec<PhaseSpan> {
    let mut spans: Vec<PhaseSpan> = Vec::with_capacity(runs.len());
    for run in runs {
        let range = bounds.before(run.ops.start)..bounds.before(run.ops.end);
        match spans.last_mut() {
            Some(last) if last.phase == run.phase && last.step == run.step => last.range.end = range.end,
            _ => spans.push(PhaseSpan { phase: run.phase, range, step: run.step }),
        }
    }
    if let Some(last) = spans.last_mut() {
        last.range.end = bounds.end;
    }
    spans
}
