//! Why an allocation failed, or would fail: the path through one decision tree, what has grown, who holds the memory, and what
//! can be done about it.
//!
//! The tree is asked in a fixed order: is the request larger than the card, is a memory fraction the limit, do other processes
//! or memory outside the framework hold what is missing, does free space lie in a private pool, with another stream, or in
//! pieces, is the card simply full? A recording, a request that someone types and the text of an error message all become
//! [`Facts`] first, so that one tree answers for all three. What is not known is never guessed: its node says so.

mod advice;
mod capacity;
mod decide;
mod facts;
mod growth;
mod habits;
mod message;
mod verdict;
mod words;

use rustc_hash::FxHashMap;
use vramscope_trace::{PoolOwner, StackId, StreamId};

pub use capacity::{Capacity, CapacitySource};
pub use message::{MessageFormat, OomMessage, ProcessUse, messages};
pub use verdict::{MessageFigures, explain};

use crate::{BlockId, History, LaneId, LaneState, Oom, Phase, Position, Steps, leaks};
use facts::Facts;

/// How many holders are listed.
const HOLDERS: usize = 10;

/// What made an allocation fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The single request is larger than all the memory it could ever have.
    LargerThanCard,
    /// A limit that the program set itself, below what the card has.
    MemoryFraction,
    /// Other processes hold what is missing.
    OtherProcesses,
    /// This process holds it outside its framework's allocator.
    NonFramework,
    /// It lies free in a pool that only its owner may use.
    PrivatePool,
    /// It lies free with another stream.
    OtherStream,
    /// It lies free in pieces.
    Fragmentation,
    /// There is not enough.
    Capacity,
    /// The recording does not tell.
    Unknown,
}

impl Cause {
    /// Its name in text and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::LargerThanCard => "larger_than_card",
            Self::MemoryFraction => "memory_fraction",
            Self::OtherProcesses => "other_processes",
            Self::NonFramework => "non_framework",
            Self::PrivatePool => "private_pool",
            Self::OtherStream => "other_stream",
            Self::Fragmentation => "fragmentation",
            Self::Capacity => "capacity",
            Self::Unknown => "unknown",
        }
    }
}

/// What had grown until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Growth {
    /// Each step left something behind.
    Leak,
    /// The optimizer's state had come.
    StateGrowth,
    /// The step needed more than any before it.
    LongerInput,
    /// Validation, while it ran or by what it left behind.
    Validation,
    /// Nothing.
    None,
}

impl Growth {
    /// Its name in text and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Leak => "leak",
            Self::StateGrowth => "state_growth",
            Self::LongerInput => "longer_input",
            Self::Validation => "validation",
            Self::None => "none",
        }
    }
}

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// An allocation that failed.
    Failure(Oom),
    /// A request that was not made.
    Request {
        /// The state it would meet.
        at: Position,
        /// What it asks for.
        bytes: u64,
        /// The owner of the pool it would come from.
        owner: PoolOwner,
        /// Its stream.
        stream: StreamId,
    },
}

impl Asked {
    /// The state it met or would meet.
    pub fn at(&self) -> Position {
        match self {
            Self::Failure(oom) => oom.at,
            Self::Request { at, .. } => *at,
        }
    }

    /// The stack that asked; [`StackId::NONE`] = unknown, or nobody.
    pub fn stack(&self) -> StackId {
        match self {
            Self::Failure(oom) => oom.stack,
            Self::Request { .. } => StackId::NONE,
        }
    }
}

/// The answer to a question with a yes or a no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// It is so.
    Yes,
    /// It is not so.
    No,
    /// Nothing tells.
    Unknown,
}

/// One question of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathNode {
    /// The question.
    pub question: &'static str,
    /// Its answer.
    pub answer: Answer,
    /// The answer with its numbers, in words.
    pub words: String,
    /// The figure that decides it, in bytes; `None` = unknown.
    pub bytes: Option<u64>,
}

/// Blocks in use that one stack allocated in one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The stack; [`StackId::NONE`] = no stack recorded.
    pub stack: StackId,
    /// The phase.
    pub phase: Phase,
    /// Their bytes.
    pub bytes: u64,
    /// How many.
    pub count: u64,
}

/// Something to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What to do.
    pub title: String,
    /// How much less memory it would take; `None` = not computed.
    pub effect_bytes: Option<u64>,
    /// Its price.
    pub cost: &'static str,
    /// Where that stands.
    pub source: &'static str,
    /// The allocator setting it is, as `PYTORCH_CUDA_ALLOC_CONF` spells it.
    pub setting: Option<&'static str>,
}

/// Why a request failed or would fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// The cause; `None` = it would not fail.
    pub cause: Option<Cause>,
    /// What had grown until then.
    pub growth: Growth,
    /// Both in plain words.
    pub sentence: String,
    /// The questions in order, up to the one that decides.
    pub path: Vec<PathNode>,
    /// Who holds the memory, most first.
    pub holders: Vec<Holding>,
    /// What can be done, best first; nothing that is done already.
    pub advice: Vec<Advice>,
    /// The stack behind the growth: of the blocks that pile up.
    pub grown_by: Option<StackId>,
    /// The blocks that keep most free memory in pieces, most first, where that is the cause.
    pub pinned_by: Vec<BlockId>,
}

/// Why a request failed or would fail, in a lane whose steps are known (or not). `None` when cancelled or for an unknown lane.
/// Costs O(blocks of the history).
pub fn why(
    history: &History,
    lane: LaneId,
    asked: &Asked,
    capacity: &Capacity,
    steps: &Steps,
    cancel: &dyn Fn() -> bool,
) -> Option<Why> {
    let state = history.snapshot_at(asked.at()).lanes.into_iter().find(|state| state.lane == lane)?;
    let settings = history.info().and_then(|info| info.settings.clone()).unwrap_or_default();
    let facts = Facts::of_state(&state, asked, capacity, &settings);
    let decision = decide::decide(&facts);
    let leaks = leaks(history, lane, steps, cancel)?;
    let growth = match decision.cause {
        Some(Cause::LargerThanCard) | None => growth::Found::NOTHING,
        Some(_) => growth::find(history, &state, asked.at(), &facts, steps, &leaks),
    };
    let phase = steps.phase_at(asked.at()).map_or(Phase::Other, |span| span.phase);
    let habits = habits::Habits::seen(history, &settings, asked.stack());
    let pinned_by = match decision.cause {
        Some(Cause::Fragmentation) => crate::pinning(&state, HOLDERS).iter().map(|pin| pin.block).collect(),
        _ => Vec::new(),
    };
    Some(Why {
        cause: decision.cause,
        growth: growth.growth,
        sentence: [decision.sentence, growth.sentence].join(" ").trim_end().to_owned(),
        path: decision.path,
        holders: holdings(history, &state, steps),
        advice: advice::choose(decision.cause, growth.growth, phase, &facts, &habits),
        grown_by: growth.stack,
        pinned_by,
    })
}

/// Who holds a lane's memory, by stack and the phase it was allocated in, most first.
fn holdings(history: &History, state: &LaneState, steps: &Steps) -> Vec<Holding> {
    let mut groups = FxHashMap::<(StackId, Phase), (u64, u64)>::default();
    for block in live_blocks(history, state) {
        let phase = steps.phase_at(block.allocated).map_or(Phase::Other, |span| span.phase);
        let (bytes, count) = groups.entry((block.stack, phase)).or_default();
        *bytes += block.bytes;
        *count += 1;
    }
    let mut held: Vec<Holding> =
        groups.into_iter().map(|((stack, phase), (bytes, count))| Holding { stack, phase, bytes, count }).collect();
    held.sort_unstable_by_key(|held| (std::cmp::Reverse(held.bytes), held.stack, held.phase));
    held.truncate(HOLDERS);
    held
}

/// The blocks in use of a lane's state, with their lives.
fn live_blocks<'a>(history: &'a History, state: &'a LaneState) -> impl Iterator<Item = crate::Block> + 'a {
    let blocks = state.segments.iter().flat_map(|segment| &segment.blocks).chain(&state.loose);
    blocks.filter(|block| !block.pending).filter_map(|block| history.block(block.id))
}
