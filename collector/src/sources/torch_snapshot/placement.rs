//! Block sizes, exactly: a trace tells what was requested, the allocator's rules and the neighbours tell what was handed out.
//!
//! Every block is placed at its recorded address. It takes the rounded request, and the whole free piece it lies in when the
//! rest would be too small to split off ([`AllocatorSettings::splits`]).

use std::collections::BTreeMap;

use vramscope_trace::AllocatorSettings;

/// A mapped run of addresses: a segment, or a contiguous part of an expandable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub end: u64,
    pub expandable: bool,
}

/// A block in use, or freed and waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub end: u64,
    pub pending: bool,
    /// For a block of the start state whose size was not told: its number there.
    pub guessed: Option<u32>,
}

/// What placing an allocation showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// The block has this many bytes.
    Exactly(u64),
    /// No known segment holds the address; the block has its rounded request.
    Nowhere(u64),
    /// It lies over a block still in use at this address; that one is taken for freed.
    Over { bytes: u64, other: u64 },
    /// It does not begin a free piece. If the block before was a guess, that one must own the bytes between.
    Inside { bytes: u64, gap: u64, guessed: Option<u32> },
}

impl Placed {
    pub(super) fn bytes(self) -> u64 {
        match self {
            Self::Exactly(bytes) | Self::Nowhere(bytes) | Self::Over { bytes, .. } | Self::Inside { bytes, .. } => {
                bytes
            }
        }
    }
}

/// The mapped runs and live blocks of one device while its trace is walked.
#[derive(Clone, Debug, Default)]
pub(super) struct Placer {
    pub settings: AllocatorSettings,
    pub runs: BTreeMap<u64, Run>,
    pub live: BTreeMap<u64, Live>,
    /// The run that was asked for last: allocations come in bursts.
    last_run: (u64, u64, bool),
}

impl Placer {
    pub(super) fn new(settings: AllocatorSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// A segment came. False if it lies over another.
    pub(super) fn segment_alloc(&mut self, address: u64, bytes: u64) -> bool {
        let end = address.saturating_add(bytes);
        let free = self.runs.range(..end).next_back().is_none_or(|(_, run)| run.end <= address);
        self.runs.insert(address, Run { end, expandable: false });
        self.last_run = (0, 0, false);
        free
    }

    /// A segment went. False if none began there with that size.
    pub(super) fn segment_free(&mut self, address: u64, bytes: u64) -> bool {
        self.last_run = (0, 0, false);
        self.runs.remove(&address).is_some_and(|run| run.end == address.saturating_add(bytes))
    }

    /// A range was mapped; runs that touch become one.
    pub(super) fn map(&mut self, address: u64, bytes: u64) {
        let (mut start, mut end) = (address, address.saturating_add(bytes));
        if let Some((&before, &run)) = self.runs.range(..=start).next_back()
            && run.expandable
            && run.end >= start
        {
            start = before;
            end = end.max(run.end);
        }
        while let Some((&after, &run)) = self.runs.range(start..=end).next() {
            if !run.expandable {
                break;
            }
            end = end.max(run.end);
            self.runs.remove(&after);
        }
        self.runs.insert(start, Run { end, expandable: true });
        self.last_run = (0, 0, false);
    }

    /// A range was unmapped. False if parts of it were not mapped.
    pub(super) fn unmap(&mut self, address: u64, bytes: u64) -> bool {
        let end = address.saturating_add(bytes);
        let Some((&start, &run)) = self.runs.range(..=address).next_back() else { return false };
        if run.end < end || !run.expandable {
            return false;
        }
        self.runs.remove(&start);
        if start < address {
            self.runs.insert(start, Run { end: address, expandable: true });
        }
        if end < run.end {
            self.runs.insert(end, Run { end: run.end, expandable: true });
        }
        self.last_run = (0, 0, false);
        true
    }

    fn run_at(&mut self, address: u64) -> Option<(u64, Run)> {
        let (start, end, expandable) = self.last_run;
        if (start..end).contains(&address) {
            return Some((start, Run { end, expandable }));
        }
        let (&start, &run) = self.runs.range(..=address).next_back()?;
        (run.end > address).then(|| {
            self.last_run = (start, run.end, run.expandable);
            (start, run)
        })
    }

    /// Places an allocation of `requested` bytes; `known` is its block size where the file tells it.
    pub(super) fn alloc(&mut self, address: u64, requested: u64, known: Option<u64>) -> Placed {
        let rounded = self.settings.round(requested);
        let run = self.run_at(address);
        let before = self.live.range(..=address).next_back().map(|(&start, &live)| (start, live));
        let over = before.filter(|(_, live)| live.end > address).map(|(start, _)| start);
        let Some((run_start, run)) = run else {
            let bytes = known.unwrap_or(rounded);
            self.insert(address, bytes);
            return match over {
                Some(other) => self.replace(address, bytes, other),
                None => Placed::Nowhere(bytes),
            };
        };
        let after = self.live.range(address.saturating_add(1)..).next().map_or(run.end, |(&next, _)| next.min(run.end));
        let gap = after - address;
        let bytes = known.unwrap_or_else(|| {
            let keeps_rest = gap > rounded && !self.settings.splits(rounded, gap - rounded, self.expands(run));
            if keeps_rest { gap } else { rounded }
        });
        self.insert(address, bytes);
        if let Some(other) = over {
            return self.replace(address, bytes, other);
        }
        if bytes > gap {
            return if after < run.end { Placed::Over { bytes, other: after } } else { Placed::Nowhere(bytes) };
        }
        let gap_start = before.map_or(run_start, |(_, live)| live.end.max(run_start));
        if gap_start == address {
            Placed::Exactly(bytes)
        } else {
            let guessed = before.filter(|(_, live)| live.end == gap_start).and_then(|(_, live)| live.guessed);
            Placed::Inside { bytes, gap: address - gap_start, guessed }
        }
    }

    /// Whether the rules of expandable segments hold for blocks in `run`.
    fn expands(&self, run: Run) -> bool {
        run.expandable || self.settings.expandable_segments
    }

    fn insert(&mut self, address: u64, bytes: u64) {
        self.live.insert(address, Live { end: address.saturating_add(bytes), pending: false, guessed: None });
    }

    fn replace(&mut self, address: u64, bytes: u64, other: u64) -> Placed {
        if other != address {
            self.live.remove(&other);
        }
        Placed::Over { bytes, other }
    }

    /// A free was asked for. False if no block begins there, or it is freed already.
    pub(super) fn free_requested(&mut self, address: u64) -> bool {
        match self.live.get_mut(&address) {
            Some(live) => !std::mem::replace(&mut live.pending, true),
            None => false,
        }
    }

    /// A block went back to its pool. False if no block begins there.
    pub(super) fn free_completed(&mut self, address: u64) -> bool {
        self.live.remove(&address).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn blocks_take_what_is_too_small_to_split() {
        let mut placer = Placer::new(AllocatorSettings::default());
        placer.segment_alloc(0x1000_0000, 20 * MIB);
        assert_eq!(placer.alloc(0x1000_0000, 19 * MIB, None), Placed::Exactly(20 * MIB), "1 MiB is not split off");
        assert!(placer.free_requested(0x1000_0000) && placer.free_completed(0x1000_0000));
        assert_eq!(placer.alloc(0x1000_0000, 18 * MIB, None), Placed::Exactly(18 * MIB));
        assert_eq!(placer.alloc(0x1000_0000 + 18 * MIB, 3, None), Placed::Exactly(512));
        assert_eq!(
            placer.alloc(0x1000_0000 + 19 * MIB, 3, None),
            Placed::Inside { bytes: 512, gap: MIB - 512, guessed: None }
        );
        assert_eq!(placer.alloc(0x9000_0000, 513, None), Placed::Nowhere(1024));
        assert_eq!(placer.alloc(0x1000_0000, 3 * MIB, None), Placed::Over { bytes: 3 * MIB, other: 0x1000_0000 });
    }

    #[test]
    fn runs_join_and_split() {
        let mut placer = Placer::new(AllocatorSettings::default());
        placer.map(0, 20);
        placer.map(40, 20);
        assert_eq!(placer.runs.len(), 2);
        placer.map(20, 20);
        assert_eq!(placer.runs.iter().map(|(&start, run)| (start, run.end)).collect::<Vec<_>>(), [(0, 60)]);
        assert!(placer.unmap(20, 20));
        assert!(!placer.unmap(20, 20));
        assert_eq!(placer.runs.iter().map(|(&start, run)| (start, run.end)).collect::<Vec<_>>(), [(0, 20), (40, 60)]);
        assert!(placer.segment_alloc(100, 50) && !placer.segment_alloc(120, 50));
    }
}
