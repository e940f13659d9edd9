//! How long each allocation lives, and ways to choose some of them.

use std::ops::Range;

use vramscope_trace::{Action, PoolOwner, Requests, StackId, StreamId};

/// An allocation from its request to its free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Its number.
    pub number: u32,
    /// What the tensor needs.
    pub bytes: u64,
    /// Its stream.
    pub stream: StreamId,
    /// The owner of its pool.
    pub owner: PoolOwner,
    /// Stack of the allocation.
    pub stack: StackId,
    /// The recorded event that made it; `None` = it was there at the start.
    pub made: Option<u32>,
    /// The recorded event that asked for its free; `None` = it lives to the end.
    pub freed: Option<u32>,
}

/// The life of every allocation, by its number. One that failed has none: it ends where it begins.
pub fn lifetimes(requests: &Requests) -> Vec<Lifetime> {
    let mut lives: Vec<Lifetime> = Vec::with_capacity(requests.allocations());
    for block in &requests.start.blocks {
        lives.push(Lifetime {
            number: lives.len() as u32,
            bytes: block.requested,
            stream: block.stream,
            owner: block.owner,
            stack: block.stack,
            made: None,
            freed: block.pending.then_some(0),
        });
    }
    for request in &requests.list {
        match request.action {
            Action::Alloc { bytes, stream, owner, stack, failed } => lives.push(Lifetime {
                number: lives.len() as u32,
                bytes,
                stream,
                owner,
                stack,
                made: Some(request.event),
                freed: failed.then_some(request.event),
            }),
            Action::FreeRequested { allocation, .. } => {
                if let Some(life) = lives.get_mut(allocation as usize) {
                    life.freed.get_or_insert(request.event);
                }
            }
            _ => {}
        }
    }
    lives
}

/// Some of the allocations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    chosen: Vec<bool>,
}

impl Selection {
    /// Those that a rule chooses.
    pub fn of(requests: &Requests, rule: impl FnMut(&Lifetime) -> bool) -> Self {
        Self { chosen: lifetimes(requests).iter().map(rule).collect() }
    }

    /// Those of one call stack.
    pub fn of_stack(requests: &Requests, stack: StackId) -> Self {
        Self::of(requests, |life| life.stack == stack)
    }

    /// Those made by events of some spans and freed by events of others: what a forward pass saves for its backward pass. Spans
    /// must be sorted and apart.
    pub fn made_and_freed(requests: &Requests, made: &[Range<u32>], freed: &[Range<u32>]) -> Self {
        Self::of(requests, |life| {
            life.made.is_some_and(|event| within(made, event)) && life.freed.is_some_and(|event| within(freed, event))
        })
    }

    /// Those made by events of some spans that live to the end, or beyond event `until`: the states an optimizer makes in its
    /// first step. Spans must be sorted and apart.
    pub fn made_to_last(requests: &Requests, made: &[Range<u32>], until: u32) -> Self {
        Self::of(requests, |life| {
            life.made.is_some_and(|event| within(made, event)) && life.freed.is_none_or(|event| event > until)
        })
    }

    /// Whether an allocation is chosen.
    pub fn holds(&self, number: u32) -> bool {
        self.chosen.get(number as usize).copied().unwrap_or(false)
    }

    /// How many are chosen.
    pub fn count(&self) -> usize {
        self.chosen.iter().filter(|chosen| **chosen).count()
    }
}

fn within(spans: &[Range<u32>], event: u32) -> bool {
    let after = spans.partition_point(|span| span.start <= event);
    after.checked_sub(1).is_some_and(|index| event < spans[index].end)
}
