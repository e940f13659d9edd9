//! Histories of a small caching allocator of our own: what the reader makes of them must equal the allocator's counters.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod pickling;
mod replay;

use std::collections::BTreeMap;

use pickling::*;
use proptest::prelude::*;
use replay::Replay;

/// What a block of the allocator is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Free,
    InUse { requested: u64 },
    Waiting { requested: u64 },
}

/// Allocated, pending and reserved bytes.
type Counters = (u64, u64, u64);

/// A caching allocator as plain as can be: first fit by address, in segments of 2 MiB for small requests and at least 20 MiB
/// for others.
#[derive(Debug, Default)]
struct Allocator {
    /// Size of each segment by address.
    segments: BTreeMap<u64, u64>,
    /// Size and state of each block by address; the blocks of a segment tile it.
    blocks: BTreeMap<u64, (u64, State)>,
    next_segment: u64,
    /// Action, address and size.
    entries: Vec<(&'static str, u64, u64)>,
    /// The counters after each entry.
    counters: Vec<Counters>,
}

impl Allocator {
    fn say(&mut self, action: &'static str, address: u64, size: u64) {
        self.entries.push((action, address, size));
        let sum = |wanted: fn(&State) -> bool| {
            self.blocks.values().filter(|(_, state)| wanted(state)).map(|(size, _)| size).sum::<u64>()
        };
        let allocated = sum(|state| matches!(state, State::InUse { .. }));
        let pending = sum(|state| matches!(state, State::Waiting { .. }));
        self.counters.push((allocated, pending, self.segments.values().sum()));
    }

    fn segment_of(&self, address: u64) -> (u64, u64) {
        self.segments.range(..=address).next_back().map(|(&start, &size)| (start, size)).unwrap()
    }

    fn alloc(&mut self, requested: u64) {
        let size = requested.div_ceil(512).max(1) * 512;
        let small = size <= MIB;
        let fits = |&(&address, &(free, state)): &(&u64, &(u64, State))| {
            state == State::Free && free >= size && (self.segment_of(address).1 == 2 * MIB) == small
        };
        let address = self.blocks.iter().find(fits).map(|(&address, _)| address);
        let address = address.unwrap_or_else(|| {
            let bytes = if small { 2 * MIB } else { size.div_ceil(2 * MIB).max(10) * 2 * MIB };
            // Now and then right behind the last one.
            let address = BASE + self.next_segment;
            self.next_segment += bytes + if self.next_segment.is_multiple_of(3) { 0 } else { 64 * MIB };
            self.segments.insert(address, bytes);
            self.blocks.insert(address, (bytes, State::Free));
            self.say("segment_alloc", address, bytes);
            address
        });
        let (free, _) = self.blocks[&address];
        let rest = free - size;
        let taken = if rest >= 512 && (small || rest > MIB) { size } else { free };
        self.blocks.insert(address, (taken, State::InUse { requested }));
        if taken < free {
            self.blocks.insert(address + taken, (free - taken, State::Free));
        }
        self.say("alloc", address, requested);
    }

    /// The address of the n-th block that `wanted` holds for, counted around.
    fn nth(&self, n: usize, wanted: impl Fn(State) -> bool) -> Option<u64> {
        let found: Vec<u64> = self.blocks.iter().filter(|(_, block)| wanted(block.1)).map(|(&at, _)| at).collect();
        (!found.is_empty()).then(|| found[n % found.len()])
    }

    fn request_free(&mut self, n: usize) -> Option<u64> {
        let address = self.nth(n, |state| matches!(state, State::InUse { .. }))?;
        let block = self.blocks.get_mut(&address).unwrap();
        let State::InUse { requested } = block.1 else { unreachable!() };
        block.1 = State::Waiting { requested };
        self.say("free_requested", address, requested);
        Some(address)
    }

    fn complete_free(&mut self, address: u64) {
        let (mut size, state) = self.blocks[&address];
        let State::Waiting { requested } = state else { return };
        let (segment, bytes) = self.segment_of(address);
        let mut start = address;
        let after = self.blocks.get(&(address + size)).copied();
        if let Some((next, State::Free)) = after
            && address + size < segment + bytes
        {
            self.blocks.remove(&(address + size));
            size += next;
        }
        if let Some((&before, &(length, State::Free))) = self.blocks.range(..address).next_back()
            && before >= segment
        {
            self.blocks.remove(&address);
            start = before;
            size += length;
        }
        self.blocks.insert(start, (size, State::Free));
        self.say("free_completed", address, requested);
    }

    fn empty_cache(&mut self) {
        for (address, bytes) in self.segments.clone() {
            if self.blocks[&address] == (bytes, State::Free) {
                self.segments.remove(&address);
                self.blocks.remove(&address);
                self.say("segment_free", address, bytes);
            }
        }
    }

    /// The file that is written at the end, without the first `lost` entries.
    fn file(&self, lost: usize) -> Node {
        let tile = |(&address, &(size, state)): (&u64, &(u64, State))| match state {
            State::Free => block(address, size, "inactive"),
            State::InUse { requested } => block(address, size, "active_allocated").with("requested_size", requested),
            State::Waiting { requested } => {
                block(address, size, "active_pending_free").with("requested_size", requested)
            }
        };
        let segments = self.segments.iter().map(|(&address, &bytes)| {
            segment(address, bytes, self.blocks.range(address..address + bytes).map(tile).collect())
        });
        let entries = self.entries[lost..].iter().map(|&(action, address, size)| entry(action, address, size));
        snapshot(segments.collect(), vec![trace(entries.collect())])
    }
}

fn history() -> impl Strategy<Value = Allocator> {
    let size = prop_oneof![1..3000u64, 1..MIB, 1..(30 * MIB), (17 * MIB)..(20 * MIB)];
    prop::collection::vec((0..12u8, any::<usize>(), size), 1..120).prop_map(|steps| {
        let mut allocator = Allocator::default();
        for (kind, n, size) in steps {
            match kind {
                0..=5 => allocator.alloc(size),
                6..=8 => {
                    let freed = allocator.request_free(n);
                    freed.into_iter().for_each(|address| allocator.complete_free(address));
                }
                9 => drop(allocator.request_free(n)),
                10 => {
                    let waiting = allocator.nth(n, |state| matches!(state, State::Waiting { .. }));
                    waiting.into_iter().for_each(|address| allocator.complete_free(address));
                }
                _ => allocator.empty_cache(),
            }
        }
        allocator
    })
}

/// The counters after each entry by the events, and before the first.
fn counters_of(replay: &Replay) -> (Counters, Vec<Counters>) {
    let mut device = replay::Device::default();
    let mut before = (0, 0, 0);
    let mut after = Vec::new();
    for event in &replay.events {
        device.event(event);
        let counters = (device.allocated, device.pending, device.reserved);
        if event.kind.at_start() { before = counters } else { after.push(counters) }
    }
    (before, after)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_whole_history_is_exact(allocator in history(), style in prop::sample::select(&STYLES[..])) {
        let replay = Replay::of_bytes(&pickle(&allocator.file(0), style));
        prop_assert_eq!(counters_of(&replay), ((0, 0, 0), allocator.counters.clone()));
        prop_assert!(allocator.entries.is_empty() || replay.problems.is_empty(), "{:?}", replay.problems);
    }

    #[test]
    fn a_history_that_lost_its_beginning_ends_exactly(allocator in history(), lost in any::<prop::sample::Index>()) {
        let lost = lost.index(allocator.entries.len().max(1)).min(allocator.entries.len());
        let replay = Replay::of_bytes(&pickle(&allocator.file(lost), Style::Python(4)));
        let (before, after) = counters_of(&replay);
        let truth = &allocator.counters[lost..];
        prop_assert_eq!(after.len(), truth.len());
        prop_assert_eq!(after.last(), truth.last());
        let mut both: Vec<(Counters, Counters)> = after.into_iter().zip(truth.iter().copied()).collect();
        if let Some(&start) = lost.checked_sub(1).and_then(|last| allocator.counters.get(last)) {
            both.push((before, start));
        }
        for (told, truth) in both {
            // What a block took beyond its request may be unknowable: bytes are missed, never made up.
            prop_assert_eq!(told.2, truth.2, "reserved");
            prop_assert!(told.0 <= truth.0 && told.1 <= truth.1, "{:?} of {:?}", told, truth);
        }
    }
}
