//! Copies requests with some allocations left out, doubled or of other sizes, and numbers them anew.

use std::ops::Range;

use vramscope_trace::{Action, Request, Requests, StartState};

/// The same requests with `copies` of each allocation and other `bytes`, both by the old number of the allocation. Where blocks
/// of the start are affected, the start keeps no layout.
pub(super) fn copy(requests: &Requests, copies: impl Fn(u32) -> u32, bytes: impl Fn(u32, u64) -> u64) -> Requests {
    let mut renamed = Renamed::default();
    let mut start = StartState { runs: requests.start.runs.clone(), blocks: Vec::new() };
    for block in &requests.start.blocks {
        let number = renamed.next_old();
        let (count, requested) = (copies(number), bytes(number, block.requested));
        renamed.add(count);
        if (count, requested) != (1, block.requested) {
            start.runs.clear();
        }
        let copy = vramscope_trace::StartBlock { requested, ..*block };
        start.blocks.extend(std::iter::repeat_n(copy, count as usize));
    }
    let mut list = Vec::with_capacity(requests.list.len());
    for request in &requests.list {
        match request.action {
            Action::Alloc { bytes: was, stream, owner, stack, failed } => {
                let number = renamed.next_old();
                let count = copies(number);
                renamed.add(count);
                let action = Action::Alloc { bytes: bytes(number, was), stream, owner, stack, failed };
                list.extend(std::iter::repeat_n(Request { action, ..*request }, count as usize));
            }
            Action::FreeRequested { allocation, stack } => {
                let frees = renamed.of(allocation).map(|allocation| Action::FreeRequested { allocation, stack });
                list.extend(frees.map(|action| Request { action, ..*request }));
            }
            Action::FreeCompleted { allocation } => {
                let frees = renamed.of(allocation).map(|allocation| Action::FreeCompleted { allocation });
                list.extend(frees.map(|action| Request { action, ..*request }));
            }
            Action::EmptyCache | Action::RetirePool { .. } => list.push(*request),
        }
    }
    Requests { start, list, ..requests.clone() }
}

/// New numbers of allocations, by their old ones.
#[derive(Default)]
struct Renamed {
    /// The first new number of each; those of one old number follow each other.
    firsts: Vec<u32>,
    next: u32,
}

impl Renamed {
    fn next_old(&self) -> u32 {
        self.firsts.len() as u32
    }

    fn add(&mut self, count: u32) {
        self.firsts.push(self.next);
        self.next += count;
    }

    fn of(&self, old: u32) -> Range<u32> {
        let first = self.firsts.get(old as usize).copied();
        let end = self.firsts.get(old as usize + 1).copied().unwrap_or(self.next);
        first.map_or(0..0, |first| first..end)
    }
}
