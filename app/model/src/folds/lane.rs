//! One lane as it is now: live blocks, mapped ranges, totals, and the series they leave behind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustc_hash::{FxHashMap, FxHashSet};
use vramscope_trace::{Event, EventKind, Pool, Problem, ProblemKind, StackId, StreamId};

use crate::forest::Series;
use crate::store::{Form, NONE, Store, UNKNOWN};
use crate::{BlockId, Lane, Metric, Position, SegmentId, Subject};

use super::live::LiveMap;
use super::runs::RunMap;
use super::segments::Expandable;

/// What a lane's fold may touch while it takes one event.
pub(crate) struct Step<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) problems: &'a mut Vec<Problem>,
    pub(crate) streams: &'a mut StreamIndex,
    pub(crate) known: &'a mut KnownAddresses,
    pub(crate) event: &'a Event,
    pub(crate) seq: u32,
    /// False while events only state what was so before recording began.
    pub(crate) recording: bool,
}

impl Step<'_> {
    /// The position after this event.
    pub(crate) fn after(&self) -> u32 {
        self.seq + 1
    }

    /// Counts a problem; `words` says what this event does.
    #[cold]
    pub(crate) fn problem(&mut self, kind: ProblemKind, words: impl FnOnce() -> String) {
        let seq = self.seq;
        Problem::note(self.problems, kind, 1, || format!("event {seq}: {}", words()));
    }
}

/// Numbers streams in order of appearance.
#[derive(Debug, Default)]
pub(crate) struct StreamIndex {
    indices: FxHashMap<StreamId, u32>,
    newest: Option<(StreamId, u32)>,
}

impl StreamIndex {
    /// The number of a stream; [`NONE`] for an unknown one.
    #[inline]
    fn of(&mut self, stream: Option<StreamId>, store: &mut Store) -> u32 {
        let Some(stream) = stream else { return NONE };
        if let Some((known, index)) = self.newest
            && known == stream
        {
            return index;
        }
        let next = store.streams.len() as u32;
        let index = *self.indices.entry(stream).or_insert_with(|| {
            Arc::make_mut(&mut store.streams).push(stream);
            next
        });
        self.newest = Some((stream, index));
        index
    }
}

/// Tells a second free from a free of something never seen. Reads the blocks only when the first such free comes, and each
/// block once.
#[derive(Debug, Default)]
pub(crate) struct KnownAddresses {
    addresses: FxHashSet<(u16, u64)>,
    read: u32,
}

impl KnownAddresses {
    fn contains(&mut self, store: &Store, lane: u16, address: u64) -> bool {
        self.addresses
            .extend(store.blocks.iter_from(self.read).map(|row| (row.lane.load(Relaxed), row.address.load(Relaxed))));
        self.read = store.blocks.len();
        self.addresses.contains(&(lane, address))
    }
}

/// One lane as it is now.
#[derive(Debug)]
pub(crate) struct LaneFold {
    pub(crate) facts: Lane,
    pub(crate) live: LiveMap,
    pub(crate) runs: RunMap,
    pub(crate) expandable: FxHashMap<SegmentId, Expandable>,
    /// Expandable segments by stream, pool and lowest byte.
    pub(crate) by_place: BTreeSet<(Option<StreamId>, Option<Pool>, u64, SegmentId)>,
    pub(crate) reserved: u64,
    allocated: u64,
    requested: u128,
    pending: u64,
    pub(crate) series: [Series; 4],
    /// A free that the very next event may complete: the position after it, and its address. It is no change of the pending
    /// series unless something else comes first.
    passing: Option<(u32, u64)>,
    /// Whether it ever had a segment: if not, blocks without one are nothing odd (some sources tell only blocks).
    pub(crate) had_segments: bool,
    latest: i64,
}

impl LaneFold {
    pub(crate) fn new(facts: Lane) -> Self {
        Self {
            facts,
            live: LiveMap::default(),
            runs: RunMap::default(),
            expandable: FxHashMap::default(),
            by_place: BTreeSet::new(),
            reserved: 0,
            allocated: 0,
            requested: 0,
            pending: 0,
            series: Default::default(),
            passing: None,
            had_segments: false,
            latest: i64::MIN,
        }
    }

    /// Live blocks and mapped ranges.
    pub(crate) fn live_things(&self) -> u64 {
        (self.live.len() + self.runs.len()) as u64
    }

    /// Takes a memory event; tells how its row is to be written.
    #[inline]
    pub(crate) fn apply(&mut self, step: &mut Step<'_>) -> (Form, Subject) {
        self.check_clock(step);
        if let Some((at, freed)) = self.passing.take()
            && !matches!(step.event.kind, EventKind::FreeCompleted { address } if address == freed)
        {
            self.note(Metric::Pending, at, self.pending);
        }
        let outcome = match step.event.kind {
            EventKind::BlockAlloc { address, bytes, requested, stack, .. } => {
                self.allocate(step, address, bytes, requested, stack)
            }
            EventKind::FreeRequested { address, stack, .. } => self.request_free(step, address, stack),
            EventKind::FreeCompleted { address } => self.complete_free(step, address),
            _ => (Form::Extra, self.apply_segment_event(step)),
        };
        self.record(step.after());
        if !step.recording {
            self.series.iter_mut().for_each(|series| series.restart_peak(step.after()));
        }
        self.facts.last = Position(step.after());
        self.facts.entries += u64::from(!step.event.kind.at_start());
        outcome
    }

    #[inline]
    fn check_clock(&mut self, step: &mut Step<'_>) {
        let Some(time) = step.event.time else { return };
        if time.0 < self.latest && !step.event.kind.at_start() {
            let back = self.latest.abs_diff(time.0) / 1000;
            step.problem(ProblemKind::ClockStep, || format!("its time is {back} \u{b5}s before the one before it"));
        }
        self.latest = time.0;
    }

    /// Adds change points for what this event changed.
    #[inline]
    fn record(&mut self, after: u32) {
        self.note(Metric::Reserved, after, self.reserved);
        self.note(Metric::Allocated, after, self.allocated);
        if self.facts.requested_known {
            self.note(Metric::Requested, after, u64::try_from(self.requested).unwrap_or(u64::MAX));
        }
        if self.passing.is_none() {
            self.note(Metric::Pending, after, self.pending);
        }
    }

    /// Adds a change point if the value is a new one.
    #[inline]
    fn note(&mut self, metric: Metric, at: u32, value: u64) {
        let series = &mut self.series[metric as usize];
        if series.last() != value {
            series.push(at, value);
        }
    }

    fn allocate(
        &mut self,
        step: &mut Step<'_>,
        address: u64,
        told: u64,
        requested: Option<u64>,
        stack: StackId,
    ) -> (Form, Subject) {
        let bytes = told.min(u64::MAX - address);
        if bytes < told {
            step.problem(ProblemKind::SizesDisagree, || {
                format!("block {address:#x} of {told} bytes reaches beyond the address space")
            });
        }
        let end = address + bytes;
        let id = BlockId(step.store.blocks.len());
        while let Err((start, older)) = self.live.insert(address, end, id) {
            step.problem(ProblemKind::Overlap, || {
                format!("block {address:#x} of {bytes} bytes lies over block {start:#x}, which is still live")
            });
            self.end_block(step, start, older);
        }
        if requested.is_some_and(|requested| requested > bytes) {
            step.problem(ProblemKind::SizesDisagree, || {
                format!("block {address:#x} of {bytes} bytes was asked for as {} bytes", requested.unwrap_or(0))
            });
        }
        let segment = self.segment_of(step, address, end);
        let stream = step.streams.of(step.event.stream, step.store);
        let after = step.after();
        let row = step.store.blocks.push();
        row.address.store(address, Relaxed);
        row.bytes.store(bytes, Relaxed);
        row.requested.store(requested.unwrap_or(UNKNOWN), Relaxed);
        row.segment.store(segment.map_or(NONE, |id| id.0), Relaxed);
        row.stack.store(stack.0, Relaxed);
        row.stream.store(stream, Relaxed);
        row.allocated.store(after, Relaxed);
        row.lane.store(self.facts.id.0, Relaxed);
        self.allocated += bytes;
        let asked = row.requested();
        self.requested += u128::from(asked.unwrap_or(0));
        self.facts.requested_known &= asked.is_some();
        let exact = bytes == told && asked == requested;
        (if exact { Form::BlockAlloc } else { Form::Extra }, Subject::Block(id))
    }

    /// The segment that holds a new block.
    #[inline]
    fn segment_of(&self, step: &mut Step<'_>, address: u64, end: u64) -> Option<SegmentId> {
        match self.runs.at(address) {
            Some((_, run_end, segment)) if end <= run_end => Some(segment),
            Some((_, run_end, _)) => {
                step.problem(ProblemKind::SizesDisagree, || {
                    format!("block {address:#x} reaches {} bytes beyond its segment", end - run_end)
                });
                None
            }
            None if self.had_segments => {
                step.problem(ProblemKind::UnknownAddress, || format!("block {address:#x} is in no known segment"));
                None
            }
            None => None,
        }
    }

    fn request_free(&mut self, step: &mut Step<'_>, address: u64, stack: StackId) -> (Form, Subject) {
        let after = step.after();
        let Some(id) = self.live.find(address) else { return self.free_nothing(step, address) };
        let Some(row) = step.store.blocks.get(id.0) else { return (Form::Extra, Subject::None) };
        if row.free_requested.load(Relaxed) != NONE {
            step.problem(ProblemKind::DoubleFree, || format!("block {address:#x} was already freed"));
            return (Form::Extra, Subject::Block(id));
        }
        row.free_requested.store(after, Relaxed);
        row.free_stack.store(stack.0, Relaxed);
        let bytes = row.bytes.load(Relaxed);
        self.allocated -= bytes;
        self.requested -= u128::from(row.requested().unwrap_or(0));
        self.pending += bytes;
        self.passing = (!step.event.kind.at_start()).then_some((after, address));
        (self.form_of_free(step, id, Form::FreeRequested), Subject::Block(id))
    }

    fn complete_free(&mut self, step: &mut Step<'_>, address: u64) -> (Form, Subject) {
        let Some(id) = self.live.find(address) else { return self.free_nothing(step, address) };
        self.end_block(step, address, id);
        (self.form_of_free(step, id, Form::FreeCompleted), Subject::Block(id))
    }

    /// A free can be rebuilt from its block if it names the same stream.
    #[inline]
    fn form_of_free(&self, step: &mut Step<'_>, id: BlockId, form: Form) -> Form {
        let stream = step.streams.of(step.event.stream, step.store);
        let same = step.store.blocks.get(id.0).is_some_and(|row| row.stream.load(Relaxed) == stream);
        if same { form } else { Form::Extra }
    }

    /// Ends a live block for good.
    #[inline]
    fn end_block(&mut self, step: &mut Step<'_>, address: u64, id: BlockId) {
        let after = step.after();
        self.live.remove(address);
        let Some(row) = step.store.blocks.get(id.0) else { return };
        let bytes = row.bytes.load(Relaxed);
        if row.free_requested.load(Relaxed) == NONE {
            row.free_requested.store(after, Relaxed);
            self.allocated -= bytes;
            self.requested -= u128::from(row.requested().unwrap_or(0));
        } else {
            self.pending -= bytes;
        }
        row.free_completed.store(after, Relaxed);
    }

    #[cold]
    fn free_nothing(&mut self, step: &mut Step<'_>, address: u64) -> (Form, Subject) {
        if step.known.contains(step.store, self.facts.id.0, address) {
            step.problem(ProblemKind::DoubleFree, || format!("block {address:#x} was already freed"));
        } else {
            step.problem(ProblemKind::UnknownAddress, || {
                format!("free of {address:#x}, which is the start of no known block")
            });
        }
        (Form::Extra, Subject::None)
    }
}
