//! What was there before the first entry: histories often begin in the middle, because recording began late or a ring was full.
//!
//! The state at the start is the final state with every entry undone from the last to the first. Blocks freed during the trace
//! come back without their block size; it is the rounded request, and the gap behind them where such a gap could not exist as a
//! free piece. Where a later allocation shows that more belonged to such a block, it is given that.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use vramscope_trace::{AllocatorSettings, PoolOwner, SizeClass, StackId};

use super::document::{Document, FinalSegment, RowList};
use super::emit::Emitter;
use super::error::ReadError;
use super::placement::{Live, Placed, Placer, Run};
use super::rows::{Action, BlockState, EntryRow, odd};

/// A run of addresses mapped at the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartRun {
    pub address: u64,
    pub bytes: u64,
    pub expandable: bool,
    pub stream: Option<u64>,
    pub class: SizeClass,
    pub owner: PoolOwner,
    pub stack: StackId,
}

/// A block live at the start.
#[derive(Clone, Copy, Debug)]
pub(super) struct StartBlock {
    pub address: u64,
    pub bytes: u64,
    pub requested: Option<u64>,
    pub stack: StackId,
    pub stream: Option<u64>,
    pub pending: bool,
    /// Whether the file tells its size; otherwise it is deduced.
    known: bool,
}

/// One device's trace with its start and its sizes.
#[derive(Clone, Debug)]
pub(super) struct DeviceTrace {
    pub device: u16,
    pub rows: RowList,
    pub runs: Vec<StartRun>,
    pub blocks: Vec<StartBlock>,
    /// Block sizes of the allocations, by their number among the device's allocations.
    pub sizes: Vec<u64>,
    /// Pools of ordinary segments that live to the end, by the index of the entry that made them.
    pub segment_pools: FxHashMap<u32, (PoolOwner, Option<SizeClass>)>,
    /// Whether `free_requested` alone frees (recorded with `skip_actions`).
    pub requests_free: bool,
    /// Frees of addresses that are in no segment.
    pub unknown_frees: u64,
    /// The state after the last entry.
    pub end: Placer,
}

/// Rebuilds the start of a device's history and sizes its blocks.
///
/// # Errors
/// When someone asked to stop.
pub(super) fn rebuild(
    document: &Document,
    device: u16,
    rows: &RowList,
    finals: &[FinalSegment],
    emitter: &Emitter<'_>,
) -> Result<DeviceTrace, ReadError> {
    let requests_free = super::document::requests_free(document, rows, finals);
    let mut undo = Undo::from_end(finals, document.torn.is_some() && rows.len() > 0);
    for index in (0..rows.len()).rev() {
        undo.entry(index as u32, document.entries.get(rows.row(index)), requests_free);
    }
    let mut trace = DeviceTrace {
        device,
        rows: rows.clone(),
        runs: undo.start_runs(finals),
        blocks: Vec::new(),
        sizes: Vec::new(),
        segment_pools: undo.segment_pools,
        requests_free,
        unknown_frees: 0,
        end: Placer::new(rules(document)),
    };
    let (inside, outside): (Vec<_>, Vec<_>) = {
        let placed = |block: &StartBlock| {
            let after = trace.runs.partition_point(|run| run.address <= block.address);
            block.known || after.checked_sub(1).is_some_and(|index| trace.runs[index].holds(block.address))
        };
        undo.blocks.into_values().partition(placed)
    };
    trace.unknown_frees = outside.len() as u64;
    trace.blocks = inside;
    if emitter.is_cancelled() {
        return Err(ReadError::Cancelled);
    }
    let placer = start_placer(document, &mut trace);
    walk_through(document, &mut trace, placer, &undo.known_sizes);
    Ok(trace)
}

/// The settings that decide how blocks are placed; without the texts, so that copies cost nothing.
fn rules(document: &Document) -> AllocatorSettings {
    let told = document.settings.as_ref();
    AllocatorSettings {
        max_split_size: told.and_then(|told| told.max_split_size),
        expandable_segments: told.is_some_and(|told| told.expandable_segments),
        roundup_power2_divisions: told.map(|told| told.roundup_power2_divisions).unwrap_or_default(),
        ..AllocatorSettings::default()
    }
}

impl StartRun {
    fn holds(&self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.bytes
    }
}

/// The state at the start, with the sizes as far as it tells them; stores them in the trace's blocks.
fn start_placer(document: &Document, trace: &mut DeviceTrace) -> Placer {
    let mut placer = Placer::new(rules(document));
    for run in &trace.runs {
        if run.expandable {
            placer.map(run.address, run.bytes);
        } else {
            placer.segment_alloc(run.address, run.bytes);
        }
    }
    let mut runs = placer.runs.iter().peekable();
    let mut current: Option<(u64, Run)> = None;
    for index in 0..trace.blocks.len() {
        let next = trace.blocks.get(index + 1).map(|block| block.address);
        let block = &mut trace.blocks[index];
        while let Some((&start, &run)) = runs.next_if(|(start, _)| **start <= block.address) {
            current = Some((start, run));
        }
        if !block.known {
            let requested = block.requested.unwrap_or(0);
            let rounded = placer.settings.round(requested);
            block.bytes = rounded;
            if let Some((_, run)) = current.filter(|(_, run)| run.end > block.address) {
                let limit = next.map_or(run.end, |next| next.min(run.end));
                let expandable = run.expandable || placer.settings.expandable_segments;
                let rest = (limit - block.address).saturating_sub(rounded);
                // Without splitting limits here: an oversize block is only known by what follows it.
                let could_stand_alone = AllocatorSettings { max_split_size: None, ..placer.settings.clone() }
                    .splits(rounded, rest, expandable);
                if rest > 0 && !could_stand_alone {
                    block.bytes = limit - block.address;
                }
            }
        }
        placer.live.insert(
            block.address,
            Live {
                end: block.address.saturating_add(block.bytes),
                pending: block.pending,
                guessed: (!block.known).then_some(index as u32),
            },
        );
    }
    placer
}

/// Places every allocation. One that does not begin a free piece, a little behind a block of the start, shows that this block owns
/// the bytes between: none was placed there before, so nothing before this entry was placed wrongly.
fn walk_through(document: &Document, trace: &mut DeviceTrace, mut placer: Placer, known_sizes: &FxHashMap<u32, u64>) {
    for index in 0..trace.rows.len() {
        let entry = document.entries.get(trace.rows.row(index));
        let placed = apply(&mut placer, entry, known_sizes.get(&(index as u32)).copied(), trace.requests_free);
        let Some(placed) = placed else { continue };
        trace.sizes.push(placed.bytes());
        if let Placed::Inside { gap, guessed: Some(block), .. } = placed
            && gap <= AllocatorSettings::SMALL_REQUEST
        {
            let block = &mut trace.blocks[block as usize];
            block.bytes = entry.address - block.address;
            if let Some(live) = placer.live.get_mut(&block.address) {
                live.end = entry.address;
            }
        }
    }
    trace.end = placer;
}

/// Applies one entry to a placer; what an allocation showed, for allocations.
pub(super) fn apply(placer: &mut Placer, entry: &EntryRow, known: Option<u64>, requests_free: bool) -> Option<Placed> {
    if entry.odd & (odd::ADDRESS | odd::SIZE) != 0 {
        return None;
    }
    match entry.action {
        Action::Alloc => return Some(placer.alloc(entry.address, entry.size, known)),
        Action::FreeRequested if !requests_free => {
            placer.free_requested(entry.address);
        }
        Action::Free | Action::FreeRequested | Action::FreeCompleted => {
            placer.free_completed(entry.address);
        }
        Action::SegmentAlloc => {
            placer.segment_alloc(entry.address, entry.size);
        }
        Action::SegmentFree => {
            placer.segment_free(entry.address, entry.size);
        }
        Action::SegmentMap => placer.map(entry.address, entry.size),
        Action::SegmentUnmap => {
            placer.unmap(entry.address, entry.size);
        }
        Action::Oom | Action::UserDefined | Action::Note | Action::Unknown => {}
    }
    None
}

/// The final state, undone entry by entry. Addresses are the file's own choice, so they are never hashed: with a known hash
/// function a file could choose those that all meet in one place.
struct Undo {
    blocks: BTreeMap<u64, StartBlock>,
    runs: Placer,
    /// Streams of segments that come back by undoing, by address: the final segments do not list them.
    streams: BTreeMap<u64, Option<u64>>,
    finals: BTreeMap<u64, (u64, PoolOwner, Option<SizeClass>)>,
    segment_pools: FxHashMap<u32, (PoolOwner, Option<SizeClass>)>,
    known_sizes: FxHashMap<u32, u64>,
}

impl Undo {
    fn from_end(finals: &[FinalSegment], torn: bool) -> Self {
        let mut undo = Self {
            blocks: BTreeMap::new(),
            runs: Placer::default(),
            streams: BTreeMap::new(),
            finals: BTreeMap::new(),
            segment_pools: FxHashMap::default(),
            known_sizes: FxHashMap::default(),
        };
        // The segments of a torn file describe its missing end; undoing what is there from them would be wrong.
        for segment in finals.iter().filter(|_| !torn) {
            let row = &segment.row;
            if row.expandable {
                undo.runs.map(row.address, row.total);
            } else {
                undo.runs.segment_alloc(row.address, row.total);
            }
            undo.finals.insert(row.address, (row.total, row.owner, row.class));
            for block in segment.blocks.iter().filter(|block| block.row.state != BlockState::Inactive) {
                undo.blocks.insert(
                    block.address,
                    StartBlock {
                        address: block.address,
                        bytes: block.row.size,
                        requested: block.row.requested,
                        stack: block.row.stack,
                        stream: row.stream,
                        pending: block.row.state == BlockState::Pending,
                        known: true,
                    },
                );
            }
        }
        undo
    }

    fn entry(&mut self, index: u32, entry: &EntryRow, requests_free: bool) {
        if entry.odd & (odd::ADDRESS | odd::SIZE) != 0 {
            return;
        }
        let address = entry.address;
        match entry.action {
            Action::Alloc => {
                if let Some(block) = self.blocks.remove(&address)
                    && block.known
                {
                    self.known_sizes.insert(index, block.bytes);
                }
            }
            Action::FreeRequested if !requests_free => {
                if let Some(block) = self.blocks.get_mut(&address) {
                    block.pending = false;
                }
            }
            Action::Free | Action::FreeCompleted | Action::FreeRequested => {
                self.blocks.insert(
                    address,
                    StartBlock {
                        address,
                        bytes: 0,
                        requested: Some(entry.size),
                        // The stack of a free tells who freed, not who allocated.
                        stack: StackId::NONE,
                        stream: entry.has_stream.then_some(entry.stream),
                        // Until the request for this free turns up.
                        pending: entry.action == Action::FreeCompleted,
                        known: false,
                    },
                );
            }
            Action::SegmentAlloc => {
                self.runs.runs.remove(&address);
                // Undone from the end, the first one met is the one that lives to the end.
                if let Some((total, owner, class)) = self.finals.remove(&address)
                    && total == entry.size
                {
                    self.segment_pools.insert(index, (owner, class));
                }
            }
            Action::SegmentFree => {
                self.finals.remove(&address);
                self.runs.segment_alloc(address, entry.size);
                self.streams.insert(address, entry.has_stream.then_some(entry.stream));
            }
            Action::SegmentMap => {
                self.runs.unmap(address, entry.size);
            }
            Action::SegmentUnmap => self.runs.map(address, entry.size),
            Action::Oom | Action::UserDefined | Action::Note | Action::Unknown => {}
        }
    }

    /// The runs that are left, with what the final segments or the entries say about them.
    fn start_runs(&self, finals: &[FinalSegment]) -> Vec<StartRun> {
        let describe = |(&address, run): (&u64, &Run)| {
            let at = finals.partition_point(|segment| segment.row.address <= address);
            let near = at.checked_sub(1).map(|index| &finals[index].row);
            let known = near.filter(|row| row.expandable == run.expandable && address - row.address < row.total);
            let bytes = run.end - address;
            StartRun {
                address,
                bytes,
                expandable: run.expandable,
                stream: known.map_or_else(|| self.streams.get(&address).copied().flatten(), |row| row.stream),
                class: known.and_then(|row| row.class).unwrap_or_else(|| class_of_segment(bytes, run.expandable)),
                owner: known.map(|row| row.owner).unwrap_or_default(),
                stack: known.map(|row| row.stack).unwrap_or_default(),
            }
        };
        self.runs.runs.iter().map(describe).collect()
    }
}

/// The pool class of a segment of which only the size is known.
pub(super) fn class_of_segment(bytes: u64, expandable: bool) -> SizeClass {
    let large = if expandable {
        bytes.is_multiple_of(AllocatorSettings::LARGE_SEGMENT)
    } else {
        bytes > AllocatorSettings::SMALL_SEGMENT
    };
    if large { SizeClass::Large } else { SizeClass::Small }
}

/// Whether an `alloc` entry was sized (its numbers make sense).
pub(super) fn counts_as_allocation(entry: &EntryRow) -> bool {
    entry.odd & (odd::ADDRESS | odd::SIZE) == 0
}
