//! Structured complaints about data: what is odd, how often, and the first place where it was seen.

use std::fmt;

/// What is wrong. The one list of problem kinds; [`ProblemKind::name`] is what reports and scripts see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// An event names an address that nothing is known about.
    UnknownAddress,
    /// A block or segment lies over another that is still in use.
    Overlap,
    /// A block was freed twice.
    DoubleFree,
    /// Two statements about the same bytes differ.
    SizesDisagree,
    /// The clock went backwards, or never moved.
    ClockStep,
    /// An event came after later ones of its kind.
    LateEvent,
    /// The source dropped events.
    LostEvents,
    /// Events before the first one of this file were dropped by the recorder.
    TruncatedHistory,
    /// No events were recorded at all.
    NoHistory,
    /// No call stacks were recorded.
    NoStacks,
    /// No times were recorded.
    NoTimes,
    /// More memory is in use than the device has.
    OverCapacity,
    /// An action of unknown name.
    UnknownAction,
    /// A key of unknown name, or a value that does not fit its key.
    UnknownKey,
    /// An annotation that begins without an end, or ends without a beginning.
    OrphanAnnotation,
    /// The file ends in the middle.
    TornFile,
}

impl ProblemKind {
    /// Every kind, in the order reports list them.
    pub const ALL: [Self; 16] = [
        Self::UnknownAddress,
        Self::Overlap,
        Self::DoubleFree,
        Self::SizesDisagree,
        Self::ClockStep,
        Self::LateEvent,
        Self::LostEvents,
        Self::TruncatedHistory,
        Self::NoHistory,
        Self::NoStacks,
        Self::NoTimes,
        Self::OverCapacity,
        Self::UnknownAction,
        Self::UnknownKey,
        Self::OrphanAnnotation,
        Self::TornFile,
    ];

    /// The stable name programs rely on.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnknownAddress => "unknown_address",
            Self::Overlap => "overlap",
            Self::DoubleFree => "double_free",
            Self::SizesDisagree => "sizes_disagree",
            Self::ClockStep => "clock_step",
            Self::LateEvent => "late_event",
            Self::LostEvents => "lost_events",
            Self::TruncatedHistory => "truncated_history",
            Self::NoHistory => "no_history",
            Self::NoStacks => "no_stacks",
            Self::NoTimes => "no_times",
            Self::OverCapacity => "over_capacity",
            Self::UnknownAction => "unknown_action",
            Self::UnknownKey => "unknown_key",
            Self::OrphanAnnotation => "orphan_annotation",
            Self::TornFile => "torn_file",
        }
    }

    /// One sentence for people: what it means and what still works.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::UnknownAddress => {
                "Events name addresses that are not in any known block or segment; their bytes cannot be placed."
            }
            Self::Overlap => "Blocks lie over others that were still in use; the later one is believed.",
            Self::DoubleFree => "Blocks were freed that were already free; the second free is ignored.",
            Self::SizesDisagree => {
                "Sizes in the file contradict each other; the events are believed, and the difference is stated."
            }
            Self::ClockStep => {
                "Times go backwards or never move, so the axis shows event numbers; the order of events is reliable."
            }
            Self::LateEvent => "Some events arrived after later ones.",
            Self::LostEvents => "The recorder had to drop events; figures after that point may be off.",
            Self::TruncatedHistory => {
                "Earlier events were dropped or never recorded; what was allocated before is shown as one base layer."
            }
            Self::NoHistory => {
                "No events were recorded: only the final state is known. Call torch.cuda.memory._record_memory_history() before the run to get a timeline."
            }
            Self::NoStacks => {
                "No call stacks were recorded; blocks are grouped under \u{201c}no stack recorded\u{201d}."
            }
            Self::NoTimes => "The file has no times, so the axis shows event numbers.",
            Self::OverCapacity => {
                "More memory is in use than the device has; the rest was probably spilled to system memory."
            }
            Self::UnknownAction => {
                "The file has actions this version does not know; they are listed as \u{201c}other\u{201d} and change nothing."
            }
            Self::UnknownKey => "The file has keys or values this version does not know; they were skipped.",
            Self::OrphanAnnotation => {
                "Annotations begin without an end or end without a beginning; they are drawn to the edge of the recording."
            }
            Self::TornFile => "The file ends in the middle; everything up to the tear is shown.",
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One kind of complaint, how often it was seen, and its first case in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub kind: ProblemKind,
    /// How many times.
    pub count: u64,
    /// The first case, in words, with its place.
    pub example: String,
}

impl Problem {
    /// Adds `count` cases of `kind` to `list`, keeping one entry a kind. `example` is called only for the first case.
    pub fn note(list: &mut Vec<Self>, kind: ProblemKind, count: u64, example: impl FnOnce() -> String) {
        if let Some(known) = list.iter_mut().find(|problem| problem.kind == kind) {
            known.count = known.count.saturating_add(count);
        } else {
            let example = example();
            list.push(Self { kind, count, example });
        }
    }
}
