//! Phases and steps that the job itself told: marks and annotations.

use vramscope_trace::TimeNs;

use super::ops::Ops;
use super::{Evidence, Label, Phase, StepSource};
use crate::{EventSeq, History, LaneId, Position};

/// Something told: a phase or a step, from a position to another.
struct Told {
    what: What,
    from: Position,
    to: Position,
    depth: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Phase(Phase),
    /// Told again within a step, its number stays the same.
    Step(u64),
}

/// Labels from marks, else from annotations; operations that neither covers keep what their stacks say. `None` if neither
/// names a phase or a step.
pub(super) fn evidence(history: &History, lane: LaneId, ops: &Ops, stacks: Option<&Evidence>) -> Option<Evidence> {
    let marks = marks(history, lane);
    let (source, confidence, told) = if marks.is_empty() {
        (StepSource::Annotations, 0.98, annotations(history, lane))
    } else {
        (StepSource::Marks, 1.0, marks)
    };
    if told.is_empty() {
        return None;
    }
    let mut labels = stacks.map_or_else(|| vec![Label::Open; ops.len()], |stacks| stacks.labels.clone());
    let index = |at: Position| ops.ops.partition_point(|op| op.at <= at.0);
    let mut spans: Vec<(usize, u32, usize, Phase)> = told
        .iter()
        .filter_map(|told| match told.what {
            What::Phase(phase) => Some((index(told.from), told.depth, index(told.to), phase)),
            What::Step(_) => None,
        })
        .collect();
    spans.sort_by_key(|(from, depth, ..)| (*from, *depth));
    // The innermost span that is open says what an operation belongs to.
    let mut open: Vec<(usize, Phase)> = Vec::new();
    let mut next = spans.into_iter().peekable();
    for (op, label) in labels.iter_mut().enumerate() {
        while let Some((_, _, to, phase)) = next.next_if(|(from, ..)| *from <= op) {
            open.push((to, phase));
        }
        while open.pop_if(|(to, _)| *to <= op).is_some() {}
        if let Some((_, phase)) = open.last() {
            *label = Label::Is(*phase, 0);
        }
    }
    let mut starts: Vec<(u64, usize)> = told
        .iter()
        .filter_map(|told| match told.what {
            What::Step(number) => Some((number, index(told.from))),
            What::Phase(_) => None,
        })
        .collect();
    starts.dedup_by_key(|(number, _)| *number);
    let starts: Vec<usize> = starts.into_iter().map(|(_, op)| op).collect();
    Some(Evidence { source, labels, starts: (!starts.is_empty()).then_some(starts), confidence })
}

/// Marks of the lane's process. One lasts until the next; those that name neither a phase nor a step end the last.
fn marks(history: &History, lane: LaneId) -> Vec<Told> {
    let Some(facts) = history.lanes().get(usize::from(lane.0)) else { return Vec::new() };
    let mut marks: Vec<(Position, Vec<What>)> = history
        .marks()
        .iter()
        .filter(|mark| mark.process == facts.process)
        .map(|mark| {
            (place(history, mark.time, mark.seq.before()), meanings(history.dictionary().name(mark.name), true))
        })
        .collect();
    marks.sort_by_key(|(at, _)| *at);
    let mut told = Vec::new();
    for (index, (from, whats)) in marks.iter().enumerate() {
        let to = marks.get(index + 1).map_or(history.end(), |(at, _)| *at);
        told.extend(whats.iter().map(|&what| Told { what, from: *from, to, depth: 0 }));
    }
    told
}

/// Annotated spans of the lane's process that name a phase or a step.
fn annotations(history: &History, lane: LaneId) -> Vec<Told> {
    let Some(facts) = history.lanes().get(usize::from(lane.0)) else { return Vec::new() };
    let mut told = Vec::new();
    for span in history.annotations().iter().filter(|span| span.process == facts.process) {
        let Some(begin) = span.begin_event else { continue };
        let from = place(history, span.begin, begin.before());
        let to = span.end_event.map_or(history.end(), |end| place(history, span.end, EventSeq::before(end)));
        let whats = meanings(history.dictionary().name(span.name), false);
        told.extend(whats.into_iter().map(|what| Told { what, from, to, depth: span.depth }));
    }
    told.sort_by_key(|told| told.from);
    told
}

/// Where something was told: by its time, where it has one (it may be told late), else by its event.
fn place(history: &History, time: Option<TimeNs>, told: Position) -> Position {
    match time {
        Some(time) if history.time_at(history.end()).is_some() => history.position_at(time),
        _ => told,
    }
}

/// What a name means. Words are parted by anything but letters; a number after "step" starts one.
fn meanings(name: &str, mark: bool) -> Vec<What> {
    let lower = name.to_lowercase();
    let squeezed: String = lower.chars().filter(char::is_ascii_alphabetic).collect();
    let words: Vec<&str> =
        lower.split(|letter: char| !letter.is_ascii_alphabetic()).filter(|word| !word.is_empty()).collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let number = lower
        .split(|letter: char| !letter.is_ascii_digit())
        .find(|digits| !digits.is_empty())
        .and_then(|digits| digits.parse().ok());
    if squeezed.contains("optimizerstep") || squeezed.contains("zerograd") {
        let phase = if squeezed.contains("zerograd") { Phase::ZeroGrad } else { Phase::Optimizer };
        return vec![What::Phase(phase)];
    }
    let mut whats = Vec::new();
    let steps = ["step", "profilerstep", "iteration", "iter"];
    if let Some(number) = number.filter(|_| has(&steps)) {
        whats.push(What::Step(number));
    }
    let named: [(&[&str], Phase); 9] = [
        (&["optimizer", "optim", "update"], Phase::Optimizer),
        (&["validation", "validate", "valid", "val", "eval", "evaluate", "evaluation"], Phase::Validation),
        (&["backward", "bwd", "backprop"], Phase::Backward),
        (&["loss", "criterion"], Phase::Loss),
        (&["forward", "fwd"], Phase::Forward),
        (&["data", "dataloader", "batch", "fetch"], Phase::Data),
        (&["checkpoint", "save"], Phase::Checkpoint),
        (&["load"], Phase::Load),
        (&["after", "end", "other", "idle"], Phase::Other),
    ];
    // "after_backward" is not the backward pass.
    let phase = if mark && words.first().is_some_and(|word| matches!(*word, "after" | "end")) {
        Some(Phase::Other)
    } else {
        named.iter().find(|(list, _)| has(list)).map(|(_, phase)| *phase)
    };
    whats.extend(phase.map(What::Phase));
    whats
}
