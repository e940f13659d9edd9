//! Runs a stream of requests through the allocator.

use vramscope_trace::{Action, Event, PoolOwner, Requests, StackId, StreamId, TimeNs};

use crate::allocator::{Allocator, Ask, Totals};
use crate::blocks::BlockRef;
use crate::places::Addresses;
use crate::policy::Policy;

/// What a replay does at a request that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtFailure {
    /// It ends: what the program would have done next is unknown.
    #[default]
    Stop,
    /// It goes on with the recorded requests; frees of what was not handed out are left out.
    GoOn,
}

/// An allocation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The request's index in [`Requests::list`]; `None` = a block of the start found no room.
    pub request: Option<usize>,
    /// The recorded event that shows the request.
    pub event: u32,
    /// When the recording has it.
    pub time: Option<TimeNs>,
    /// What the tensor needs, in bytes.
    pub requested: u64,
    /// The same as the allocator rounds it.
    pub rounded: u64,
    /// The stream it was for.
    pub stream: StreamId,
    /// The owner of the pool it had to come from.
    pub owner: PoolOwner,
    /// Stack of the call.
    pub stack: StackId,
    /// The sums at that moment.
    pub totals: Totals,
}

/// What came of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The sums at its end.
    pub totals: Totals,
    /// The first allocation that failed.
    pub failure: Option<Failure>,
}

/// Replays `requests` under `policy` and tells every event to `sink`.
///
/// A start state is taken over where it has segments and `policy` lays memory out as the recording did; otherwise its blocks are
/// laid out anew. A
/// request that failed in the recording and now succeeds gives its memory back at once, because what the program would have
/// done with it is not known.
pub fn replay(
    requests: &Requests,
    policy: &Policy,
    addresses: Addresses,
    at_failure: AtFailure,
    sink: impl FnMut(Event),
) -> Outcome {
    let mut allocator = Allocator::new(policy.clone(), addresses, &requests.places, sink);
    allocator.set_place(requests.process, requests.device);
    allocator.set_time(requests.list.first().and_then(|request| request.time));
    let recorded = Policy::recorded(requests, policy.torch);
    let mut failure = None;
    let mut blocks: Vec<Option<BlockRef>> = Vec::with_capacity(requests.allocations());
    let has_a_layout = requests.start.blocks.is_empty() || !requests.start.runs.is_empty();
    if has_a_layout && policy.lays_out_as(&recorded) {
        blocks.extend(allocator.adopt(&requests.start));
    } else {
        match allocator.lay_out(&requests.start) {
            Ok(laid_out) => blocks.extend(laid_out),
            Err((number, rounded)) => failure = start_failure(requests, number, rounded, allocator.totals()),
        }
    }
    if failure.is_none() {
        failure = run(&mut allocator, requests, &mut blocks, at_failure);
    }
    Outcome { totals: *allocator.totals(), failure }
}

fn run<S: FnMut(Event)>(
    allocator: &mut Allocator<'_, S>,
    requests: &Requests,
    blocks: &mut Vec<Option<BlockRef>>,
    at_failure: AtFailure,
) -> Option<Failure> {
    let mut first = None;
    for (index, request) in requests.list.iter().enumerate() {
        allocator.set_time(request.time);
        allocator.set_event(request.event);
        match request.action {
            Action::Alloc { bytes, stream, owner, stack, failed } => {
                match allocator.alloc(&Ask { bytes, stream, owner, stack }) {
                    Ok(block) if failed => {
                        allocator.request_free(block, StackId::NONE);
                        allocator.complete_free(block);
                        blocks.push(None);
                    }
                    Ok(block) => blocks.push(Some(block)),
                    Err(rounded) => {
                        first.get_or_insert(Failure {
                            request: Some(index),
                            event: request.event,
                            time: request.time,
                            requested: bytes,
                            rounded,
                            stream,
                            owner,
                            stack,
                            totals: *allocator.totals(),
                        });
                        blocks.push(None);
                        if at_failure == AtFailure::Stop {
                            return first;
                        }
                    }
                }
            }
            Action::FreeRequested { allocation, stack } => {
                if let Some(Some(block)) = blocks.get(allocation as usize) {
                    allocator.request_free(*block, stack);
                }
            }
            Action::FreeCompleted { allocation } => {
                if let Some(block) = blocks.get_mut(allocation as usize).and_then(Option::take) {
                    allocator.complete_free(block);
                }
            }
            Action::EmptyCache => allocator.empty_cache(),
            Action::RetirePool { owner } => allocator.retire_pool(owner),
        }
    }
    first
}

fn start_failure(requests: &Requests, number: usize, rounded: u64, totals: &Totals) -> Option<Failure> {
    let block = requests.start.blocks.get(number)?;
    Some(Failure {
        request: None,
        event: requests.list.first().map_or(0, |request| request.event),
        time: requests.list.first().and_then(|request| request.time),
        requested: block.requested,
        rounded,
        stream: block.stream,
        owner: block.owner,
        stack: block.stack,
        totals: *totals,
    })
}
