//! The contents of a history as tables for other programs: events, blocks, segments, and call stacks with what they hold.

use std::io::{self, Write};

use vramscope_model::{EventSeq, History, LaneId, Metric, Position, SegmentId, Subject, holders};
use vramscope_recording::{Cell, CellType, Format, TableWriter};
use vramscope_trace::{Dictionary, EventKind, Pool, PoolOwner, SizeClass, StackId, StreamId};

use crate::stacks;

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Every event, in order.
    Events,
    /// Every block and its life.
    Blocks,
    /// Every segment and its life.
    Segments,
    /// Every call stack that allocated, by device: what it allocated in all, and what of it was in use at the peak and at the end.
    Stacks,
}

type Columns = &'static [(&'static str, CellType)];

const EVENTS: Columns = &[
    ("event", CellType::Number),
    ("time", CellType::Time),
    ("process", CellType::Number),
    ("device", CellType::Number),
    ("stream", CellType::Number),
    ("origin", CellType::Text),
    ("kind", CellType::Text),
    ("at_start", CellType::Flag),
    ("address", CellType::Number),
    ("bytes", CellType::Number),
    ("requested_bytes", CellType::Number),
    ("block", CellType::Number),
    ("segment", CellType::Number),
    ("name", CellType::Text),
    ("stack", CellType::Number),
    ("site", CellType::Text),
];

const BLOCKS: Columns = &[
    ("block", CellType::Number),
    ("process", CellType::Number),
    ("device", CellType::Number),
    ("segment", CellType::Number),
    ("pool", CellType::Text),
    ("stream", CellType::Number),
    ("address", CellType::Number),
    ("bytes", CellType::Number),
    ("requested_bytes", CellType::Number),
    ("at_start", CellType::Flag),
    ("allocated_event", CellType::Number),
    ("allocated", CellType::Time),
    ("free_requested_event", CellType::Number),
    ("free_requested", CellType::Time),
    ("free_completed_event", CellType::Number),
    ("free_completed", CellType::Time),
    ("stack", CellType::Number),
    ("site", CellType::Text),
];

const SEGMENTS: Columns = &[
    ("segment", CellType::Number),
    ("process", CellType::Number),
    ("device", CellType::Number),
    ("pool", CellType::Text),
    ("stream", CellType::Number),
    ("address", CellType::Number),
    ("bytes", CellType::Number),
    ("expandable", CellType::Flag),
    ("at_start", CellType::Flag),
    ("created_event", CellType::Number),
    ("created", CellType::Time),
    ("freed_event", CellType::Number),
    ("freed", CellType::Time),
    ("stack", CellType::Number),
    ("site", CellType::Text),
];

const STACKS: Columns = &[
    ("process", CellType::Number),
    ("device", CellType::Number),
    ("stack", CellType::Number),
    ("allocations", CellType::Number),
    ("allocated_bytes", CellType::Number),
    ("peak_count", CellType::Number),
    ("peak_bytes", CellType::Number),
    ("end_count", CellType::Number),
    ("end_bytes", CellType::Number),
    ("site", CellType::Text),
    ("frames", CellType::Text),
];

/// Writes the rows of a table.
type Fill<W> = fn(&Source<'_>, &mut TableWriter<W>) -> io::Result<()>;

/// Writes a table.
///
/// # Errors
/// When `out` does not take it.
pub fn write<W: Write>(history: &History, contents: Contents, format: Format, out: W) -> io::Result<W> {
    let (columns, fill): (_, Fill<W>) = match contents {
        Contents::Events => (EVENTS, events),
        Contents::Blocks => (BLOCKS, blocks),
        Contents::Segments => (SEGMENTS, segments),
        Contents::Stacks => (STACKS, call_stacks),
    };
    let mut table = TableWriter::new(out, format, columns)?;
    let dictionary = history.dictionary();
    let titles = (0..dictionary.counts().2).map(|id| stacks::title(dictionary, StackId(id))).collect();
    fill(&Source { history, dictionary, titles }, &mut table)?;
    table.finish()
}

/// A history with what its rows share.
struct Source<'a> {
    history: &'a History,
    dictionary: &'a Dictionary,
    /// By stack.
    titles: Vec<String>,
}

impl Source<'_> {
    /// Process and device of a lane.
    fn place(&self, lane: LaneId) -> [Cell<'_>; 2] {
        let lane = self.history.lanes().get(usize::from(lane.0));
        let process = lane.map(|lane| lane.process.0).filter(|process| *process != 0);
        [Cell::number(process), Cell::number(lane.map(|lane| lane.device.0))]
    }

    /// The event that led to a position, and its time.
    fn moment(&self, at: Option<Position>) -> [Cell<'_>; 2] {
        let event = at.and_then(Position::last_event);
        let time = event.and_then(|seq| self.history.event(seq)?.event.time);
        [Cell::number(event.map(|seq| seq.0)), time.map_or(Cell::Unknown, |time| Cell::Time(time.0))]
    }

    /// A stack's number and its telling frame.
    fn stack(&self, stack: StackId) -> [Cell<'_>; 2] {
        if stack == StackId::NONE {
            return [Cell::Unknown; 2];
        }
        let title = self.titles.get(stack.0 as usize);
        [Cell::Number(stack.0.into()), title.map_or(Cell::Unknown, |title| Cell::Text(title))]
    }
}

fn stream(stream: Option<StreamId>) -> Cell<'static> {
    Cell::number(stream.map(|stream| stream.0))
}

fn pool(pool: Option<Pool>) -> Cell<'static> {
    Cell::Text(match pool {
        None => return Cell::Unknown,
        Some(Pool { owner: PoolOwner::DEFAULT, class: SizeClass::Small }) => "small",
        Some(Pool { owner: PoolOwner::DEFAULT, class: SizeClass::Large }) => "large",
        Some(Pool { class: SizeClass::Small, .. }) => "private small",
        Some(Pool { class: SizeClass::Large, .. }) => "private large",
    })
}

fn events<W: Write>(source: &Source<'_>, table: &mut TableWriter<W>) -> io::Result<()> {
    for seq in 0..source.history.end().0 {
        let Some(view) = source.history.event(EventSeq(seq)) else { continue };
        let event = view.event;
        let (block, segment) = match view.subject {
            Subject::Block(id) => (Some(id.0), None),
            Subject::Segment(id) => (None, Some(id.0)),
            _ => (None, None),
        };
        let (requested, stack, name) = match event.kind {
            EventKind::BlockAlloc { requested, stack, .. } => (requested, stack, None),
            EventKind::OutOfMemory { requested, stack, .. } => (Some(requested), stack, None),
            EventKind::SegmentAlloc { stack, .. }
            | EventKind::SegmentMap { stack, .. }
            | EventKind::FreeRequested { stack, .. } => (None, stack, None),
            EventKind::AnnotationBegin { name }
            | EventKind::AnnotationEnd { name }
            | EventKind::Mark { name }
            | EventKind::Other { name, .. } => (None, StackId::NONE, Some(name)),
            _ => (None, StackId::NONE, None),
        };
        let bytes = if matches!(event.kind, EventKind::OutOfMemory { .. }) { None } else { view.bytes() };
        let origin = format!("{:?}", event.origin).to_lowercase();
        let [stack, site] = source.stack(stack);
        table.row(&[
            Cell::Number(seq.into()),
            event.time.map_or(Cell::Unknown, |time| Cell::Time(time.0)),
            Cell::number(Some(event.process.0).filter(|process| *process != 0)),
            Cell::Number(event.device.0.into()),
            stream(event.stream),
            Cell::Text(&origin),
            Cell::Text(view.label()),
            Cell::Flag(event.kind.at_start()),
            Cell::number(view.address()),
            Cell::number(bytes),
            Cell::number(requested),
            Cell::number(block),
            Cell::number(segment),
            name.map_or(Cell::Unknown, |name| Cell::Text(source.dictionary.name(name))),
            stack,
            site,
        ])?;
    }
    Ok(())
}

fn blocks<W: Write>(source: &Source<'_>, table: &mut TableWriter<W>) -> io::Result<()> {
    for id in 0..source.history.blocks() {
        let Some(block) = source.history.block(vramscope_model::BlockId(id)) else { continue };
        let [process, device] = source.place(block.lane);
        let [allocated_event, allocated] = source.moment(Some(block.allocated));
        let [requested_event, free_requested] = source.moment(block.free_requested);
        let [completed_event, free_completed] = source.moment(block.free_completed);
        let [stack, site] = source.stack(block.stack);
        table.row(&[
            Cell::Number(id.into()),
            process,
            device,
            Cell::number(block.segment.map(|segment| segment.0)),
            pool(block.pool),
            stream(block.stream),
            Cell::Number(block.address),
            Cell::Number(block.bytes),
            Cell::number(block.requested),
            Cell::Flag(block.at_start),
            allocated_event,
            allocated,
            requested_event,
            free_requested,
            completed_event,
            free_completed,
            stack,
            site,
        ])?;
    }
    Ok(())
}

fn segments<W: Write>(source: &Source<'_>, table: &mut TableWriter<W>) -> io::Result<()> {
    for id in 0..source.history.segments() {
        let Some(segment) = source.history.segment(SegmentId(id)) else { continue };
        let [process, device] = source.place(segment.lane);
        let [created_event, created] = source.moment(Some(segment.created));
        let [freed_event, freed] = source.moment(segment.freed);
        let [stack, site] = source.stack(segment.stack);
        table.row(&[
            Cell::Number(id.into()),
            process,
            device,
            pool(segment.pool),
            stream(segment.stream),
            Cell::Number(segment.address),
            Cell::Number(segment.bytes),
            Cell::Flag(segment.expandable),
            Cell::Flag(segment.at_start),
            created_event,
            created,
            freed_event,
            freed,
            stack,
            site,
        ])?;
    }
    Ok(())
}

/// Count and bytes of blocks, by stack.
type Held = Vec<(u64, u64)>;

/// What is in use in a lane at a position, by stack.
fn held_at(source: &Source<'_>, lane: LaneId, at: Position) -> Held {
    let mut held = vec![(0, 0); source.titles.len().max(1)];
    let snapshot = source.history.snapshot_at(at);
    if let Some(state) = snapshot.lanes.iter().find(|state| state.lane == lane) {
        for holder in holders(source.history, state, usize::MAX).largest {
            add(&mut held, holder.stack, holder.count, holder.bytes);
        }
    }
    held
}

fn add(held: &mut Held, stack: StackId, count: u64, bytes: u64) {
    if let Some(place) = held.get_mut(stack.0 as usize) {
        place.0 += count;
        place.1 += bytes;
    }
}

fn call_stacks<W: Write>(source: &Source<'_>, table: &mut TableWriter<W>) -> io::Result<()> {
    let history = source.history;
    let mut allocated = vec![vec![(0, 0); source.titles.len().max(1)]; history.lanes().len()];
    for id in 0..history.blocks() {
        let Some(block) = history.block(vramscope_model::BlockId(id)) else { continue };
        if let Some(of_lane) = allocated.get_mut(usize::from(block.lane.0)) {
            add(of_lane, block.stack, 1, block.bytes);
        }
    }
    for (lane, allocated) in history.lanes().iter().zip(&allocated) {
        let peak = history.peak(lane.id, Metric::Allocated).map_or(history.end(), |peak| peak.at);
        let at_peak = held_at(source, lane.id, peak);
        let at_end = held_at(source, lane.id, history.end());
        let [process, device] = source.place(lane.id);
        for (id, ((count, bytes), (at_peak, at_end))) in (0..).zip(allocated.iter().zip(at_peak.iter().zip(&at_end))) {
            if *count == 0 {
                continue;
            }
            let [stack, site] = source.stack(StackId(id));
            let frames: Vec<String> = source
                .dictionary
                .stack(StackId(id))
                .iter()
                .filter_map(|frame| source.dictionary.frame(*frame))
                .map(|frame| stacks::describe_fully(source.dictionary, frame))
                .collect();
            let frames = frames.join("\n");
            table.row(&[
                process,
                device,
                stack,
                Cell::Number(*count),
                Cell::Number(*bytes),
                Cell::Number(at_peak.0),
                Cell::Number(at_peak.1),
                Cell::Number(at_end.0),
                Cell::Number(at_end.1),
                site,
                if id == 0 { Cell::Unknown } else { Cell::Text(&frames) },
            ])?;
        }
    }
    Ok(())
}
