//! The steps of a training run, and what it was doing in each: forward, backward, optimizer and the rest.
//!
//! Best evidence first. Marks and annotations say it; stacks show it (module calls, the backward engine, optimizers); the
//! order of allocations and frees alone betrays it (what a forward pass saves, the backward pass frees in turn; gradients
//! and optimizer temporaries go in long rows). All evidence ends in one [`Label`] an operation; one place turns labels into
//! phases and steps.

mod assemble;
mod ops;
mod pattern;
mod stacks;
mod told;

use std::ops::Range;

use crate::{History, LaneId, Position};
use ops::Ops;

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Brings the next batch.
    Data,
    /// Runs the model.
    Forward,
    /// Between the model's output and the backward pass.
    Loss,
    /// Computes gradients, recomputation included.
    Backward,
    /// Updates parameters.
    Optimizer,
    /// Drops or clears gradients.
    ZeroGrad,
    /// Runs the model without learning from it.
    Validation,
    /// Brings the model to the device.
    Load,
    /// Saves the model.
    Checkpoint,
    /// Something else, or unknown.
    Other,
}

impl Phase {
    /// Every phase, in the order of a run.
    pub const ALL: [Self; 10] = [
        Self::Load,
        Self::Data,
        Self::Forward,
        Self::Loss,
        Self::Backward,
        Self::Optimizer,
        Self::ZeroGrad,
        Self::Validation,
        Self::Checkpoint,
        Self::Other,
    ];

    /// Its name in text and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Forward => "forward",
            Self::Loss => "loss",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::ZeroGrad => "zero_grad",
            Self::Validation => "validation",
            Self::Load => "load",
            Self::Checkpoint => "checkpoint",
            Self::Other => "other",
        }
    }
}

/// How steps and phases are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepSource {
    /// The job marked them.
    Marks,
    /// Annotations name them.
    Annotations,
    /// Seen in call stacks.
    Stacks,
    /// Seen in the order of allocations and frees.
    Periodicity,
    /// There are none to be seen.
    None,
}

impl StepSource {
    /// Its name in text and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Marks => "marks",
            Self::Annotations => "annotations",
            Self::Stacks => "stacks",
            Self::Periodicity => "periodicity",
            Self::None => "none",
        }
    }
}

/// One training iteration (or, in a loop without learning, one turn of it).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The states it goes through, from its first event's before to its last event's after.
    pub range: Range<Position>,
    /// How many forward and backward passes feed its update: more than one when gradients accumulate. 0 = none seen.
    pub micro_steps: u32,
    /// Whether an allocation that failed ended it.
    pub out_of_memory: bool,
    /// Whether the recording begins or ends inside it.
    pub partial: bool,
    /// Bytes allocated in its optimizer phase that outlive the step: optimizer state, in a first step.
    pub state_bytes: u64,
}

impl Step {
    /// Whether it did what later steps do not repeat, such as creating the optimizer's state.
    pub fn first_effects(&self) -> bool {
        self.state_bytes > 0
    }
}

/// A stretch of one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseSpan {
    /// What the job was doing.
    pub phase: Phase,
    /// The states it goes through; the next span begins where it ends.
    pub range: Range<Position>,
    /// The step it belongs to: an index of [`Steps::steps`].
    pub step: Option<u32>,
}

/// The steps and phases of one lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// How they are known.
    pub source: StepSource,
    /// How sure that is, 0 to 1.
    pub confidence: f32,
    /// In order, apart from each other.
    pub steps: Vec<Step>,
    /// In order; they tile the recording from the lane's first operation to its end.
    pub phases: Vec<PhaseSpan>,
}

impl Steps {
    /// Nothing is known.
    fn unknown(history: &History) -> Self {
        let range = history.recording_start()..history.end();
        let phases = vec![PhaseSpan { phase: Phase::Other, range, step: None }];
        Self { source: StepSource::None, confidence: 0.0, steps: Vec::new(), phases }
    }

    /// The span that a position lies in: the one whose events lead to that state.
    pub fn phase_at(&self, at: Position) -> Option<&PhaseSpan> {
        let index = self.phases.partition_point(|span| span.range.end < at);
        self.phases.get(index).filter(|span| span.range.start < at)
    }

    /// The index of the step that a position lies in.
    pub fn step_at(&self, at: Position) -> Option<u32> {
        let index = self.steps.partition_point(|step| step.range.end < at);
        self.steps.get(index).filter(|step| step.range.start < at).map(|_| index as u32)
    }
}

/// What one operation tells about the phase it happened in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    /// Nothing by itself: what is around it decides.
    Open,
    /// A phase; for forward, where the model was called from (0 = unknown).
    Is(Phase, u32),
}

/// Labels of all operations, and how sure they are.
struct Evidence {
    source: StepSource,
    labels: Vec<Label>,
    /// Operations at which a step begins, where that was told.
    starts: Option<Vec<usize>>,
    confidence: f32,
}

/// The steps and phases of a lane, from the best evidence there is. `None` when cancelled or for an unknown lane.
/// Costs O(events of the lane), sorted once.
pub fn steps(history: &History, lane: LaneId, cancel: &dyn Fn() -> bool) -> Option<Steps> {
    history.lanes().get(usize::from(lane.0))?;
    let ops = Ops::read(history, lane, cancel)?;
    if ops.len() == 0 {
        return Some(Steps::unknown(history));
    }
    let stacks = stacks::evidence(history, &ops, cancel)?;
    let evidence = match told::evidence(history, lane, &ops, stacks.as_ref()) {
        Some(told) => Some(told),
        None => match stacks {
            Some(stacks) => Some(stacks),
            None => pattern::evidence(&ops, cancel)?,
        },
    };
    let Some(evidence) = evidence else { return Some(Steps::unknown(history)) };
    Some(assemble::assemble(history, lane, &ops, evidence))
}
