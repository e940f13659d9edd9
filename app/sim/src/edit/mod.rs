//! The same run with something changed in what it asks for. Every change says what it assumes.
//!
//! A change makes new [`Requests`], which [`crate::predict`] answers like recorded ones. Event numbers stay those of the
//! recording. Changed requests lose the recorded places of segments where they no longer fit.

mod copies;
mod ideal;
mod lifetimes;
mod sizes;
#[cfg(test)]
mod tests;

pub use ideal::defragmented_bytes;
pub use lifetimes::{Lifetime, Selection, lifetimes};
pub use sizes::{Scale, fit_sizes};

use vramscope_trace::{Action, Request, Requests, StackId, StreamId};

use copies::copy;

/// Changed requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Edited {
    /// What is asked for now.
    pub requests: Requests,
    /// How many allocations are affected.
    pub changed: usize,
    /// What has to be true for the answer to be: one sentence for people.
    pub assumes: &'static str,
}

/// The chosen allocations are never made.
pub fn without(requests: &Requests, chosen: &Selection) -> Edited {
    let copies = |number| if chosen.holds(number) { 0 } else { 1 };
    Edited {
        requests: copy(requests, copies, |_, bytes| bytes),
        changed: chosen.count(),
        assumes: "The program does the same without these tensors: nothing else is computed, kept or allocated in their place.",
    }
}

/// The chosen allocations are freed right before the first request at or after event `at`, if they would live longer. Those made
/// only later are left alone.
pub fn freed_at(requests: &Requests, chosen: &Selection, at: u32) -> Edited {
    let lives = lifetimes(requests);
    let early = Selection::of(requests, |life| {
        chosen.holds(life.number) && life.made.is_none_or(|made| made < at) && life.freed.is_none_or(|freed| freed > at)
    });
    let mut list = Vec::with_capacity(requests.list.len() + early.count());
    let mut waiting: Vec<u32> = lives.iter().map(|life| life.number).filter(|&number| early.holds(number)).collect();
    for request in &requests.list {
        if request.event >= at {
            for allocation in waiting.drain(..) {
                list.extend(free(allocation, request));
            }
        }
        let frees = match request.action {
            Action::FreeRequested { allocation, .. } | Action::FreeCompleted { allocation } => Some(allocation),
            _ => None,
        };
        if frees.is_none_or(|number| !early.holds(number)) {
            list.push(*request);
        }
    }
    Edited {
        requests: Requests { list, ..requests.clone() },
        changed: early.count(),
        assumes: "Nothing needs these tensors after that moment, and no other stream still works on them.",
    }
}

/// Each chosen allocation is made `times` over: 0 = never, 1 = as recorded, 2 = with a second one of its size beside it. For
/// optimizer states: plain SGD keeps none, momentum one, Adam two for each parameter.
pub fn repeated(requests: &Requests, chosen: &Selection, times: u32) -> Edited {
    let copies = |number| if chosen.holds(number) { times } else { 1 };
    Edited {
        requests: copy(requests, copies, |_, bytes| bytes),
        changed: chosen.count(),
        assumes: "Copies live exactly as long as the recorded tensor; temporaries of the computation that uses them stay as they are.",
    }
}

/// The chosen allocations ask for other sizes.
pub fn resized(requests: &Requests, chosen: &Selection, scale: &Scale) -> Edited {
    let sizes = |number, bytes| if chosen.holds(number) { scale.bytes(number, bytes) } else { bytes };
    Edited { requests: copy(requests, |_| 1, sizes), changed: chosen.count(), assumes: scale.assumes() }
}

/// The chosen allocations are made on another stream.
pub fn on_stream(requests: &Requests, chosen: &Selection, stream: StreamId) -> Edited {
    let mut edited = requests.clone();
    let mut number = edited.start.blocks.len() as u32;
    for request in &mut edited.list {
        if let Action::Alloc { stream: was, .. } = &mut request.action {
            if chosen.holds(number) {
                *was = stream;
            }
            number += 1;
        }
    }
    Edited {
        requests: edited,
        changed: chosen.count(),
        assumes: "Streams change only where memory comes from: no free has to wait longer, and none gets done sooner.",
    }
}

fn free(allocation: u32, at: &Request) -> [Request; 2] {
    let stack = StackId::NONE;
    [Action::FreeRequested { allocation, stack }, Action::FreeCompleted { allocation }]
        .map(|action| Request { action, ..*at })
}
