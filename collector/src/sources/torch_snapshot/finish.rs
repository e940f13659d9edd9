//! Says the rest once the whole file is known: everything again if it was no plain history, then annotations, facts and problems.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use vramscope_trace::{AllocatorSettings, Pool, PoolOwner, Problem, ProblemKind, RunInfo, SizeClass, SourceMessage};

use super::document::{self, Document, FinalSegment, RowList};
use super::emit::{self, Context, Emitter};
use super::error::{ReadError, quoted};
use super::placement::Placer;
use super::rows::{Action, BlockState, EntryRow, NO_TIME};
use super::start::{self, DeviceTrace};
use super::streaming::StreamedSoFar;

/// Completes a source: on return everything has been said but [`SourceMessage::Done`].
pub(super) fn run(
    mut document: Document,
    format: String,
    streamed: &StreamedSoFar,
    emitter: &mut Emitter<'_>,
) -> Result<(), ReadError> {
    let mut problems = std::mem::take(&mut document.problems);
    let mut truncated = Vec::new();
    if holds(&document, streamed) {
        // The final segments of a torn file describe a later moment than its last entry.
        if document.torn.is_none()
            && let Some(problem) = end_disagrees(&streamed.placer, &document.segments.iter().collect::<Vec<_>>())
        {
            Problem::note(&mut problems, problem.kind, problem.count, || problem.example);
        }
        emitter.dictionary(document.interner.take_chunks());
    } else {
        emitter.reset()?;
        emitter.dictionary(document.entries.dictionary());
        emitter.dictionary(document.interner.take_chunks());
        let traces = rebuild_all(&document, emitter)?;
        for trace in &traces {
            check_device(&document, trace, &mut problems, &mut truncated);
        }
        say_again(&document, traces, emitter)?;
    }
    for row in &document.annotations {
        emitter.event(emit::annotation(row))?;
    }
    whole_file_problems(&document, &mut problems);
    emitter.problems(problems);
    emitter.flush()?;
    emitter.message(SourceMessage::Info(Arc::new(info(&document, format, truncated))))
}

/// Whether the streamed events are what the whole file says.
fn holds(document: &Document, streamed: &StreamedSoFar) -> bool {
    let Some(count) = streamed.entries else { return false };
    let plain = AllocatorSettings::default();
    let settings = document.settings.as_ref().unwrap_or(&plain);
    let default_settings = settings.max_split_size.is_none()
        && !settings.expandable_segments
        && settings.roundup_power2_divisions == plain.roundup_power2_divisions;
    let one_trace = document.traces.iter().enumerate().all(|(device, rows)| match rows {
        RowList::Range { first: 0, count: rows } if device == usize::from(streamed.device) => *rows as usize == count,
        rows => rows.len() == 0,
    });
    let traced = document.entry_count() == count && count > 0;
    // Blocks that no entry mentions were there before: the history is not whole.
    let ghosts = document
        .segments
        .iter()
        .flat_map(|segment| &segment.blocks)
        .any(|block| block.row.state != BlockState::Inactive && !streamed.placer.live.contains_key(&block.address))
        || document.segments.iter().any(|segment| !streamed.placer.runs.contains_key(&segment.row.address));
    default_settings
        && one_trace
        && traced
        && (document.torn.is_some() || !ghosts && streamed.segments_known == document.segments.len())
}

fn finals_of(document: &Document, device: u16) -> &[FinalSegment] {
    let from = document.segments.partition_point(|segment| segment.row.device < device);
    let to = document.segments.partition_point(|segment| segment.row.device <= device);
    &document.segments[from..to]
}

/// One rebuilt trace for each device that has events or segments.
fn rebuild_all(document: &Document, emitter: &Emitter<'_>) -> Result<Vec<DeviceTrace>, ReadError> {
    let mut devices: Vec<u16> = document.segments.iter().map(|segment| segment.row.device).collect();
    devices.extend((0..document.traces.len()).filter(|&d| document.traces[d].len() > 0).map(|d| d as u16));
    devices.sort_unstable();
    devices.dedup();
    let nothing = RowList::Range { first: 0, count: 0 };
    devices
        .into_iter()
        .map(|device| {
            let rows = document.traces.get(usize::from(device)).unwrap_or(&nothing);
            start::rebuild(document, device, rows, finals_of(document, device), emitter)
        })
        .collect()
}

/// Complaints about one device, and whether its history begins in the middle.
fn check_device(document: &Document, trace: &DeviceTrace, problems: &mut Vec<Problem>, truncated: &mut Vec<u16>) {
    let device = trace.device;
    let finals: Vec<&FinalSegment> = finals_of(document, device).iter().collect();
    if document.torn.is_none()
        && let Some(problem) = end_disagrees(&trace.end, &finals)
    {
        Problem::note(problems, problem.kind, problem.count, || problem.example);
    }
    if trace.rows.len() > 0 && (!trace.blocks.is_empty() || trace.unknown_frees > 0) {
        truncated.push(device);
        let bytes: u64 = trace.blocks.iter().fold(0, |sum, block| sum.saturating_add(block.bytes));
        let blocks = trace.blocks.len();
        Problem::note(problems, ProblemKind::TruncatedHistory, 1, || {
            let entries = trace.rows.len();
            if blocks == 0 {
                format!(
                    "device {device}: {entries} entries free blocks that were allocated before; earlier events were dropped"
                )
            } else {
                format!(
                    "device {device}: {blocks} blocks ({bytes} bytes) were allocated before the first of {entries} entries"
                )
            }
        });
    }
}

/// Whether the state after the last entry is the file's own final state; the first difference in words.
fn end_disagrees(end: &Placer, finals: &[&FinalSegment]) -> Option<Problem> {
    let mut differences = 0u64;
    let mut example = None;
    let mut differ = |words: String| {
        differences += 1;
        example.get_or_insert(words);
    };
    let mut blocks = 0;
    for segment in finals {
        let row = &segment.row;
        let run = end.runs.range(..=row.address).next_back().map(|(_, run)| run);
        if run.is_none_or(|run| run.end < row.address.saturating_add(row.total)) {
            differ(format!("the events do not lead to segment {:#x} of {} bytes", row.address, row.total));
        }
        for block in segment.blocks.iter().filter(|block| block.row.state != BlockState::Inactive) {
            blocks += 1;
            match end.live.get(&block.address) {
                Some(live) if live.end - block.address == block.row.size => {}
                Some(live) => differ(format!(
                    "block {:#x} has {} bytes in the final state, {} by the events",
                    block.address,
                    block.row.size,
                    live.end - block.address
                )),
                None => {
                    differ(format!("block {:#x} is in use in the final state, but not by the events", block.address));
                }
            }
        }
    }
    if end.live.len() > blocks {
        differ(format!("{} more blocks are in use by the events than in the final state", end.live.len() - blocks));
    }
    example.map(|example| Problem { kind: ProblemKind::SizesDisagree, count: differences, example })
}

/// Says every event of every device, in the order of time.
fn say_again(document: &Document, traces: Vec<DeviceTrace>, emitter: &mut Emitter<'_>) -> Result<(), ReadError> {
    let first_time = traces
        .iter()
        .filter(|trace| trace.rows.len() > 0)
        .map(|trace| document.entries.get(trace.rows.row(0)).time)
        .min()
        .unwrap_or(NO_TIME);
    for trace in &traces {
        for run in &trace.runs {
            emitter.event(emit::start_run(trace.device, first_time, run))?;
        }
        for block in &trace.blocks {
            let (event, freed) = emit::start_block(trace.device, first_time, block);
            emitter.event(event)?;
            if let Some(freed) = freed {
                emitter.event(freed)?;
            }
        }
    }
    let mut cursors: Vec<Cursor> = traces.into_iter().map(Cursor::new).collect();
    // The earliest first, and of equal times the first device. A time that goes back keeps its place in line.
    let mut line: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    line.extend(
        cursors.iter_mut().enumerate().filter_map(|(n, cursor)| Some(Reverse((cursor.next_time(document)?, n)))),
    );
    while let Some(Reverse((_, number))) = line.pop() {
        let cursor = &mut cursors[number];
        loop {
            cursor.say(document, emitter)?;
            let Some(time) = cursor.next_time(document) else { break };
            if line.peek().is_some_and(|&Reverse(other)| other < (time, number)) {
                line.push(Reverse((time, number)));
                break;
            }
        }
    }
    Ok(())
}

/// Where one device's trace has come to.
struct Cursor {
    trace: DeviceTrace,
    index: usize,
    allocations: usize,
    latest: i64,
}

impl Cursor {
    fn new(trace: DeviceTrace) -> Self {
        Self { trace, index: 0, allocations: 0, latest: NO_TIME }
    }

    /// The latest time so far, the next entry's included; `None` at the end.
    fn next_time(&mut self, document: &Document) -> Option<i64> {
        if self.index >= self.trace.rows.len() {
            return None;
        }
        self.latest = self.latest.max(document.entries.get(self.trace.rows.row(self.index)).time);
        Some(self.latest)
    }

    fn say(&mut self, document: &Document, emitter: &mut Emitter<'_>) -> Result<(), ReadError> {
        let row = document.entries.get(self.trace.rows.row(self.index));
        let mut bytes = 0;
        if row.action == Action::Alloc && start::counts_as_allocation(row) {
            bytes = self.trace.sizes.get(self.allocations).copied().unwrap_or(0);
            self.allocations += 1;
        }
        let context = Context {
            device: self.trace.device,
            bytes,
            pool: self.pool(document, row),
            requests_free: self.trace.requests_free,
        };
        self.index += 1;
        let (event, second) = emit::entry(row, &context);
        emitter.event(event)?;
        second.map_or(Ok(()), |second| emitter.event(second))
    }

    /// The pool of a segment: as the entry says, as the final segment says, or by its size.
    fn pool(&self, document: &Document, row: &EntryRow) -> Option<Pool> {
        let expandable = match row.action {
            Action::SegmentAlloc => false,
            Action::SegmentMap => true,
            _ => return None,
        };
        let (owner, class): (PoolOwner, Option<SizeClass>) = if expandable {
            let finals = finals_of(document, self.trace.device);
            let after = finals.partition_point(|segment| segment.row.address <= row.address);
            let near = after.checked_sub(1).map(|index| &finals[index].row);
            near.filter(|near| near.expandable && row.address - near.address < near.total)
                .map_or((PoolOwner::DEFAULT, None), |near| (near.owner, near.class))
        } else {
            self.trace.segment_pools.get(&(self.index as u32)).copied().unwrap_or_default()
        };
        let told = usize::from(row.pool).checked_sub(1).and_then(|index| document.pools.get(index)).copied();
        Some(Pool {
            owner: told.unwrap_or(owner),
            class: class.unwrap_or_else(|| start::class_of_segment(row.size, expandable)),
        })
    }
}

/// Complaints that concern the file as a whole.
fn whole_file_problems(document: &Document, problems: &mut Vec<Problem>) {
    let entries = document.entry_count();
    if let Some(offset) = document.torn {
        Problem::note(problems, ProblemKind::TornFile, 1, || {
            format!("the file ends at byte {offset}, after {entries} entries and {} segments", document.segments.len())
        });
    }
    if entries == 0 && document.torn.is_none() {
        Problem::note(problems, ProblemKind::NoHistory, 1, || {
            format!("{} segments and no events", document.segments.len())
        });
    } else if entries > 0 && !document::has_stacks(document) {
        Problem::note(problems, ProblemKind::NoStacks, 1, || format!("none of {entries} entries has a call stack"));
    }
    for trace in &document.traces {
        for index in 0..trace.len() {
            let row = document.entries.get(trace.row(index));
            if row.action == Action::Unknown {
                let name = quoted(document.interner.text(row.action_name), 80);
                Problem::note(problems, ProblemKind::UnknownAction, 1, || {
                    format!("entry {index}: action \u{201c}{name}\u{201d}")
                });
            }
        }
    }
}

fn info(document: &Document, format: String, truncated_devices: Vec<u16>) -> RunInfo {
    RunInfo {
        format,
        settings: document.settings.clone(),
        devices_visible: document.traces.len() as u16,
        truncated_devices,
        entries_by_device: document
            .traces
            .iter()
            .enumerate()
            .filter(|(_, rows)| rows.len() > 0)
            .map(|(device, rows)| (device as u16, rows.len() as u64))
            .collect(),
        annotations: document.annotations.len() as u64,
        host_bytes: document.host_bytes,
        host_entries: document.host_entries,
    }
}
