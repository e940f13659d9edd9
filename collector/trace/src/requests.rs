//! What a program asked of its allocator, apart from what the allocator made of it: the input of every what-if.
//!
//! Allocations are numbered: first those of the start state in the order of [`StartState::blocks`], then one for each
//! [`Action::Alloc`] in order. Frees name their allocation by that number.

use crate::{AllocatorSettings, DeviceId, Pool, PoolOwner, ProcessId, StackId, StreamId, TimeNs};

/// The requests of one process on one device, in order, with the state they started from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requests {
    /// The process that asked.
    pub process: ProcessId,
    /// The device it asked for memory of.
    pub device: DeviceId,
    /// The allocator settings that were in force.
    pub settings: AllocatorSettings,
    /// The most bytes the allocator was allowed to reserve; `None` = unknown.
    pub capacity: Option<u64>,
    /// What there was before the first request.
    pub start: StartState,
    /// What was asked for.
    pub list: Vec<Request>,
    /// Where the driver placed memory, in order: ordinary segments, and the first page of each expandable one. A hint for
    /// replaying the same settings.
    pub places: Vec<DriverPlace>,
}

/// The allocator's state before the first request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartState {
    /// Memory from the driver, by address.
    pub runs: Vec<StartRun>,
    /// Allocations that were live or pending, by address. Their numbers are their indices.
    pub blocks: Vec<StartBlock>,
}

/// A segment of the start, or one mapped run of an expandable segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartRun {
    /// First byte.
    pub address: u64,
    /// Length.
    pub bytes: u64,
    /// The pool it serves.
    pub pool: Pool,
    /// The stream it serves.
    pub stream: StreamId,
    /// Whether it is a part of an expandable segment.
    pub expandable: bool,
    /// Stack of the call that needed it.
    pub stack: StackId,
}

/// An allocation of the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartBlock {
    /// First byte.
    pub address: u64,
    /// What it takes from its segment.
    pub bytes: u64,
    /// What was asked for (the block size where that is unknown).
    pub requested: u64,
    /// Its stream.
    pub stream: StreamId,
    /// The owner of its pool.
    pub owner: PoolOwner,
    /// Stack of the allocation.
    pub stack: StackId,
    /// Whether it had been freed and still waited for another stream.
    pub pending: bool,
}

/// One thing asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When; `None` where the source has no clock.
    pub time: Option<TimeNs>,
    /// The recorded event that shows it, by its number.
    pub event: u32,
    /// What.
    pub action: Action,
}

/// What a program can ask of its allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Memory.
    Alloc {
        /// What the tensor needs.
        bytes: u64,
        /// The stream it is for.
        stream: StreamId,
        /// The owner of the pool it has to come from.
        owner: PoolOwner,
        /// Stack of the call.
        stack: StackId,
        /// True if it failed in the recording. What the program would have done with the memory is then unknown.
        failed: bool,
    },
    /// The program gave an allocation up.
    FreeRequested {
        /// Its number.
        allocation: u32,
        /// Stack of the call.
        stack: StackId,
    },
    /// No stream uses a given-up allocation any more. Does nothing if the allocator has waited for that already.
    FreeCompleted {
        /// Its number.
        allocation: u32,
    },
    /// `torch.cuda.empty_cache()`.
    EmptyCache,
    /// The owner of a private pool is gone: its cached memory can be given back from now on.
    RetirePool {
        /// The owner.
        owner: PoolOwner,
    },
}

/// Where the driver placed memory that it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverPlace {
    /// The event of the request that needed it, as in [`Request::event`]. Places are sorted by it.
    pub event: u32,
    /// How many ordinary segments had gone back to the driver by then.
    pub given_back: u32,
    /// First byte.
    pub address: u64,
    /// Length: of the segment, or of the first mapped range of an expandable one.
    pub bytes: u64,
    /// Whether it began an expandable segment.
    pub expandable: bool,
}

impl Requests {
    /// How many allocations have numbers.
    pub fn allocations(&self) -> usize {
        let asked = self.list.iter().filter(|request| matches!(request.action, Action::Alloc { .. })).count();
        self.start.blocks.len() + asked
    }
}
