//! The whole file, once read: which list is which device's trace, the final segments, the settings.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use vramscope_trace::{AllocatorSettings, DictionaryChunk, Interner, NameId, PoolOwner, Problem, ProblemKind};

use super::error::{ReadError, quoted};
use super::keys;
use super::machine::Machine;
use super::rows::{Action, AnnotationRow, BlockRow, BlockState, CHUNK_ROWS, EntryChunk, EntryRow, SegmentRow};
use super::value::{RowKind, Value};

/// How many settings are kept; PyTorch writes about a dozen.
const MOST_SETTINGS: usize = 256;

/// How many devices are kept: a longer list is no machine's, and would only cost memory.
const MOST_DEVICES: usize = u16::MAX as usize;

/// Every entry of the file, by row number.
pub(super) struct Entries {
    chunks: Vec<EntryChunk>,
}

impl Entries {
    pub(super) fn get(&self, row: u32) -> &EntryRow {
        &self.chunks[row as usize / CHUNK_ROWS].rows[row as usize % CHUNK_ROWS]
    }

    /// The dictionary up to the last entry; what came later is still with the interner.
    pub(super) fn dictionary(&self) -> Vec<Arc<DictionaryChunk>> {
        self.chunks.iter().flat_map(|chunk| chunk.dictionary.iter().cloned()).collect()
    }
}

/// Which entries belong to one device, in order.
#[derive(Clone, Debug)]
pub(super) enum RowList {
    /// Rows that follow one another: how every ordinary file reads.
    Range { first: u32, count: u32 },
    /// Rows in an order of the file's own.
    Explicit(Vec<u32>),
}

impl RowList {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Range { count, .. } => *count as usize,
            Self::Explicit(rows) => rows.len(),
        }
    }

    pub(super) fn row(&self, index: usize) -> u32 {
        match self {
            Self::Range { first, .. } => first + index as u32,
            Self::Explicit(rows) => rows[index],
        }
    }
}

/// A final segment with the blocks that tile it.
#[derive(Clone, Debug)]
pub(super) struct FinalSegment {
    pub row: SegmentRow,
    pub blocks: Vec<FinalBlock>,
}

/// A block of a final segment, its address known.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinalBlock {
    pub address: u64,
    pub row: BlockRow,
}

/// What the file says.
pub(super) struct Document {
    pub entries: Entries,
    /// A trace a device ordinal; empty lists for devices without events.
    pub traces: Vec<RowList>,
    /// Final segments, by device and address.
    pub segments: Vec<FinalSegment>,
    pub settings: Option<AllocatorSettings>,
    pub annotations: Vec<AnnotationRow>,
    pub pools: Vec<PoolOwner>,
    pub interner: Interner,
    pub problems: Vec<Problem>,
    pub host_bytes: Option<u64>,
    pub host_entries: u64,
    /// The offset at which the file ends in the middle; then `segments` describe a later moment than the last entry.
    pub torn: Option<u64>,
}

impl Document {
    /// How many entries the devices have together.
    pub(super) fn entry_count(&self) -> usize {
        self.traces.iter().map(RowList::len).sum()
    }
}

/// Makes sense of what the machine has read. `top` is the file's one value; `None` if the file ends before it was complete.
///
/// # Errors
/// If it is no memory snapshot, with what it looks like.
pub(super) fn build(mut machine: Machine, top: Option<Value>, torn: Option<u64>) -> Result<Document, ReadError> {
    machine.close_entries();
    machine.stop_streaming();
    let mut parts = match top {
        Some(top) => find_parts(&mut machine, top)?,
        None => salvage(&mut machine, torn.unwrap_or(0))?,
    };
    let segments = final_segments(&mut machine, &parts.segments);
    let settings = parts.settings.map(|settings| read_settings(&machine, settings));
    let annotations = match parts.annotations {
        Some(rows) => rows.iter().map(|&row| machine.annotations[row as usize]).collect(),
        None => std::mem::take(&mut machine.annotations),
    };
    let count = machine.entries();
    parts.traces.iter_mut().for_each(|list| sort_out(list, count));
    Ok(Document {
        entries: Entries { chunks: machine.entry_chunks },
        traces: parts.traces,
        segments,
        settings,
        annotations,
        pools: machine.pools,
        interner: machine.interner,
        problems: machine.problems,
        host_bytes: parts.host_bytes,
        host_entries: parts.host_entries,
        torn,
    })
}

/// Turns an explicit list back into a range where it is one.
fn sort_out(list: &mut RowList, count: usize) {
    if let RowList::Explicit(rows) = list {
        rows.retain(|&row| (row as usize) < count);
        if let Some(&first) = rows.first()
            && rows.iter().enumerate().all(|(index, &row)| row as usize == first as usize + index)
        {
            *list = RowList::Range { first, count: rows.len() as u32 };
        }
    }
}

#[derive(Default)]
struct Parts {
    traces: Vec<RowList>,
    segments: Vec<u32>,
    annotations: Option<Vec<u32>>,
    settings: Option<Value>,
    host_bytes: Option<u64>,
    host_entries: u64,
}

fn find_parts(machine: &mut Machine, top: Value) -> Result<Parts, ReadError> {
    let mut parts = Parts::default();
    match top {
        Value::List(list) => {
            // memory_snapshot() alone: the bare list of segments.
            parts.segments = rows_of(machine, list, RowKind::Segment);
            if parts.segments.len() != machine.list_len(list) {
                return Err(not_a_snapshot(machine, top));
            }
        }
        Value::Dict(_) => {
            // Of equal keys the last one counts.
            let mut last: FxHashMap<NameId, Value> = FxHashMap::default();
            last.extend(machine.pairs(top).filter_map(|(key, value)| match key {
                Value::Name(key) => Some((key, value)),
                _ => None,
            }));
            let is_list = |key: NameId| matches!(last.get(&key), Some(Value::List(_)));
            if !is_list(keys::SEGMENTS) && !is_list(keys::DEVICE_TRACES) {
                return Err(not_a_snapshot(machine, top));
            }
            let mut pairs: Vec<(NameId, Value)> = last.into_iter().collect();
            pairs.sort_unstable_by_key(|&(key, _)| key);
            for (key, value) in pairs {
                top_level_key(machine, &mut parts, key, value);
            }
        }
        _ => return Err(not_a_snapshot(machine, top)),
    }
    Ok(parts)
}

fn top_level_key(machine: &mut Machine, parts: &mut Parts, key: NameId, value: Value) {
    match (key, value) {
        (keys::SEGMENTS, Value::List(list)) => parts.segments = rows_of(machine, list, RowKind::Segment),
        (keys::DEVICE_TRACES, Value::List(list)) => parts.traces = traces_of(machine, list),
        (keys::ALLOCATOR_SETTINGS, Value::Dict(_)) => parts.settings = Some(value),
        (keys::EXTERNAL_ANNOTATIONS, Value::List(list)) => {
            parts.annotations = Some(rows_of(machine, list, RowKind::Annotation));
        }
        (keys::HOST_SEGMENTS, Value::List(list)) => parts.host_bytes = Some(host_bytes(machine, list)),
        (keys::HOST_TRACES, Value::List(list)) => {
            let nested = traces_of(machine, list);
            let flat = rows_of(machine, list, RowKind::Entry).len();
            parts.host_entries = (nested.iter().map(RowList::len).sum::<usize>() + flat) as u64;
        }
        (_, _) => {
            let text = quoted(machine.interner.text(key), 80);
            machine.note(ProblemKind::UnknownKey, || format!("top level: key \u{201c}{text}\u{201d}"));
        }
    }
}

/// A torn file never got to its top level: every segment that was read belongs to it.
fn salvage(machine: &mut Machine, offset: u64) -> Result<Parts, ReadError> {
    if machine.entries() == 0 && machine.segments.is_empty() {
        return Err(ReadError::torn(offset));
    }
    let traces = torn_traces(machine);
    Ok(Parts { traces, segments: (0..machine.segments.len() as u32).collect(), ..Parts::default() })
}

/// The traces of a torn file: those already in their list, and what waits on the stack to be put there.
fn torn_traces(machine: &mut Machine) -> Vec<RowList> {
    let top = machine.stack.first().map(|&word| machine.decode(word));
    if let Some(Value::List(list)) = top.and_then(|top| machine.lookup(top, keys::DEVICE_TRACES)) {
        return traces_of(machine, list);
    }
    let Some(at) = machine.stack.iter().position(|word| word.as_name() == Some(keys::DEVICE_TRACES)) else {
        return Vec::new();
    };
    let words = machine.stack[at + 1..].to_vec();
    let Some(outer) = words.first().and_then(|word| word.as_list()) else { return Vec::new() };
    let mut traces = Traces::default();
    traces.extend(machine, outer);
    let last_mark = machine.marks.iter().max().copied().unwrap_or(0);
    let mut batched = false;
    for (index, &word) in words.iter().enumerate().skip(1) {
        if word.as_list().is_some() {
            // Items of a batch are complete when they get there; others wait for what may still be set in them.
            batched = last_mark > at + 1 + index;
            traces.push(machine, Some(machine.decode(word)));
        } else if let Some(row) = machine.row_of(word, RowKind::Entry)
            && let Some(RowList::Explicit(rows)) = traces.lists.last_mut()
            && batched
            && words.get(index + 1).is_none_or(|next| next.as_name().is_none())
        {
            rows.push(row);
        } else {
            break;
        }
    }
    traces.lists
}

fn rows_of(machine: &Machine, list: u32, kind: RowKind) -> Vec<u32> {
    (0..machine.list_len(list)).filter_map(|index| machine.row_at(list, kind, index)).collect()
}

/// The trace of each device.
fn traces_of(machine: &mut Machine, list: u32) -> Vec<RowList> {
    let mut traces = Traces::default();
    traces.extend(machine, list);
    traces.lists
}

/// Traces while they are collected.
#[derive(Default)]
struct Traces {
    lists: Vec<RowList>,
    /// Lists that were taken: one list shared by many devices would be counted over and over.
    taken: FxHashSet<u32>,
}

impl Traces {
    fn extend(&mut self, machine: &mut Machine, list: u32) {
        for index in 0..machine.list_len(list).min(MOST_DEVICES) {
            self.push(machine, machine.item(list, index));
        }
    }

    /// Adds the next device's trace. Anything but a list of entries counts as empty.
    fn push(&mut self, machine: &mut Machine, value: Option<Value>) {
        let device = self.lists.len();
        if device >= MOST_DEVICES {
            return;
        }
        let mut rows = Vec::new();
        if let Some(Value::List(trace)) = value
            && machine.list_len(trace) > 0
        {
            if self.taken.insert(trace) {
                rows = rows_of(machine, trace, RowKind::Entry);
            } else {
                machine.note(ProblemKind::UnknownKey, || format!("device {device}: its trace is another device's"));
            }
        }
        self.lists.push(RowList::Explicit(rows));
    }
}

/// Final segments by device and address, with block addresses filled in, and complaints about what does not add up.
fn final_segments(machine: &mut Machine, rows: &[u32]) -> Vec<FinalSegment> {
    let mut segments: Vec<FinalSegment> = Vec::with_capacity(rows.len());
    let mut seen = vec![false; machine.segments.len()];
    let mut blocks_left = machine.blocks.len();
    for &row in rows {
        if std::mem::replace(&mut seen[row as usize], true) {
            machine.note(ProblemKind::Overlap, || format!("segment record {row} is listed twice"));
            continue;
        }
        let mut row = machine.segments[row as usize];
        // Blocks that several segments share would be counted over and over.
        if row.blocks as usize > blocks_left {
            row.blocks = 0;
        }
        blocks_left -= row.blocks as usize;
        let mut next = row.address;
        let mut sum = 0u64;
        let mut blocks = Vec::with_capacity(row.blocks as usize);
        for block in &machine.blocks[row.first_block as usize..(row.first_block + row.blocks) as usize] {
            let address = block.address.unwrap_or(next);
            next = address.saturating_add(block.size);
            sum = sum.saturating_add(block.size);
            blocks.push(FinalBlock { address, row: *block });
        }
        blocks.sort_by_key(|block| block.address);
        if sum != row.total {
            let total = row.total;
            machine.note(ProblemKind::SizesDisagree, || {
                format!("segment {:#x}: its blocks add up to {sum} bytes, the segment says {total}", row.address)
            });
        }
        segments.push(FinalSegment { row, blocks });
    }
    segments.sort_by_key(|segment| (segment.row.device, segment.row.address));
    let mut kept: Vec<FinalSegment> = Vec::with_capacity(segments.len());
    for segment in segments {
        let overlaps = kept.last().is_some_and(|last| {
            last.row.device == segment.row.device
                && last.row.address.saturating_add(last.row.total) > segment.row.address
        });
        if overlaps {
            machine.note(ProblemKind::Overlap, || {
                format!("segment {:#x} lies over the one before it and is left out", segment.row.address)
            });
        } else {
            kept.push(segment);
        }
    }
    kept
}

fn host_bytes(machine: &Machine, list: u32) -> u64 {
    let mut bytes = 0u64;
    for index in 0..machine.list_len(list) {
        let known = if let Some(row) = machine.row_at(list, RowKind::Segment, index) {
            Some(machine.segments[row as usize].total)
        } else {
            machine.item(list, index).and_then(|item| {
                let size = machine.lookup(item, keys::SIZE).or_else(|| machine.lookup(item, keys::ALLOCATED_SIZE));
                size.and_then(Value::unsigned)
            })
        };
        bytes = bytes.saturating_add(known.unwrap_or(0));
    }
    bytes
}

fn read_settings(machine: &Machine, dict: Value) -> AllocatorSettings {
    let mut settings = AllocatorSettings::default();
    for (key, value) in machine.pairs(dict).take(MOST_SETTINGS) {
        let Value::Name(key) = key else { continue };
        match (key, value) {
            (keys::CONF, Value::Name(text)) => settings.conf = Some(quoted(machine.interner.text(text), 4096)),
            // -1 and, in early builds, 2^64 - 1 stand for unlimited.
            (keys::MAX_SPLIT_SIZE, Value::Int(bytes)) => settings.max_split_size = u64::try_from(bytes).ok(),
            (keys::GC_THRESHOLD, Value::Float(part)) => settings.garbage_collection_threshold = part,
            (keys::EXPANDABLE_SEGMENTS, Value::Bool(on)) => settings.expandable_segments = on,
            (keys::ROUNDUP_DIVISIONS, Value::Dict(_)) => {
                for (interval, divisions) in machine.pairs(value).take(64) {
                    let Value::Name(interval) = interval else { continue };
                    let mebibytes = machine.interner.text(interval).parse::<u64>().unwrap_or(0);
                    let divisions = divisions.unsigned().and_then(|d| u32::try_from(d).ok()).unwrap_or(0);
                    if mebibytes.is_power_of_two() && mebibytes.ilog2() < 16 && divisions <= 1 << 20 {
                        settings.roundup_power2_divisions[mebibytes.ilog2() as usize] = divisions;
                    }
                }
            }
            _ => {}
        }
        settings.all.push((quoted(machine.interner.text(key), 256), show(machine, value)));
    }
    settings
}

fn show(machine: &Machine, value: Value) -> String {
    match value {
        Value::Bool(yes) => if yes { "True" } else { "False" }.to_owned(),
        Value::Int(number) => number.to_string(),
        Value::Big(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Name(name) => quoted(machine.interner.text(name), 4096),
        Value::None => "None".to_owned(),
        Value::Dict(_) => {
            let pairs = machine.pairs(value).take(64);
            pairs
                .filter_map(|(key, value)| match (key, value.unsigned()) {
                    (Value::Name(key), Some(number)) => {
                        Some(format!("{}:{number}", quoted(machine.interner.text(key), 64)))
                    }
                    _ => None,
                })
                .collect::<Vec<_>>()
                .join(", ")
        }
        _ => "\u{2026}".to_owned(),
    }
}

/// A sentence that names what the file looks like instead.
fn not_a_snapshot(machine: &Machine, top: Value) -> ReadError {
    let looks = match top {
        Value::List(list) => match machine.item(list, 0) {
            Some(Value::List(inner)) if machine.list_len(inner) == 4 => {
                "looks like a PyTorch memory timeline (raw JSON), which this version cannot open yet"
            }
            Some(Value::List(_)) => "looks like a PyTorch memory timeline (JSON), which this version cannot open yet",
            _ => "is a list of other things, not of memory segments",
        }
        .to_owned(),
        Value::Dict(_) => {
            let names: Vec<String> = machine
                .pairs(top)
                .take(6)
                .filter_map(|(key, _)| match key {
                    Value::Name(name) => Some(quoted(machine.interner.text(name), 80)),
                    _ => None,
                })
                .collect();
            if names.is_empty() {
                "holds an empty dictionary".to_owned()
            } else {
                let names = names.join(", ");
                format!("holds a dictionary of other things ({names})")
            }
        }
        _ => "holds a single value".to_owned(),
    };
    ReadError::Failed(format!("{looks}; a memory snapshot is what torch.cuda.memory._dump_snapshot() writes"))
}

/// Whether any entry carries a call stack.
pub(super) fn has_stacks(document: &Document) -> bool {
    let none = vramscope_trace::StackId::NONE;
    document
        .traces
        .iter()
        .any(|trace| (0..trace.len()).any(|index| document.entries.get(trace.row(index)).stack != none))
        || document
            .segments
            .iter()
            .flat_map(|segment| &segment.blocks)
            .any(|block| block.row.state != BlockState::Inactive && block.row.stack != none)
}

/// Whether a device's `free_requested` alone frees: recorded with `skip_actions`, a trace has no completions. One without any may
/// also be short: then each block that was freed is still waiting in the final segments.
pub(super) fn requests_free(document: &Document, trace: &RowList, finals: &[FinalSegment]) -> bool {
    let mut requested = BTreeSet::new();
    for index in 0..trace.len() {
        let entry = document.entries.get(trace.row(index));
        match entry.action {
            Action::FreeCompleted => return false,
            Action::FreeRequested => {
                requested.insert(entry.address);
            }
            Action::Alloc if requested.contains(&entry.address) => return true,
            _ => {}
        }
    }
    let blocks = finals.iter().flat_map(|segment| &segment.blocks);
    for block in blocks.filter(|block| block.row.state == BlockState::Pending) {
        requested.remove(&block.address);
    }
    // The final segments of a torn file are those of another moment.
    !requested.is_empty() && document.torn.is_none()
}
