//! A history as exact text: the facts a golden file or a law compares.

use std::fmt::{self, Write};

use vramscope_trace::{EventKind, TimeNs};

use crate::{EventSeq, EventView, History, Lane, LaneId, Metric, Position, SegmentId, Subject};

use super::block_map::{GapKind, MapItem, MapWhat, block_map};
use super::snapshot::{BlockState, LaneState};

/// Everything a history knows: a line an event with the lane's figures after it, then problems, annotations, failures and
/// the state at the end. Equal text means equal histories.
pub fn dump(history: &History) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(history, &mut text);
    text
}

fn write_all(history: &History, out: &mut String) -> fmt::Result {
    let (names, frames, stacks) = history.dictionary().counts();
    writeln!(out, "events {} from {}", history.end().0, history.recording_start().0)?;
    writeln!(out, "dictionary {names} names {frames} frames {stacks} stacks")?;
    writeln!(out, "time axis {:?}", history.time_axis())?;
    for seq in 0..history.end().0 {
        if let Some(event) = history.event(EventSeq(seq)) {
            write_event(history, event, out)?;
        }
    }
    for problem in history.problems() {
        writeln!(out, "problem {} x{}: {}", problem.kind, problem.count, problem.example)?;
    }
    for span in history.annotations() {
        let (begin, end) = (time(span.begin), time(span.end));
        writeln!(out, "span {:?} {begin} to {end} depth {}", history.dictionary().name(span.name), span.depth)?;
    }
    for mark in history.marks() {
        writeln!(out, "mark {:?} {}", history.dictionary().name(mark.name), time(mark.time))?;
    }
    for oom in history.ooms() {
        writeln!(out, "out of memory at {} lane {}: {} bytes", oom.at.0, oom.lane.0, oom.requested)?;
    }
    for lost in history.lost() {
        writeln!(out, "lost {} at {}", lost.count, lost.seq.0)?;
    }
    let end = history.snapshot_at(history.end());
    for (lane, state) in history.lanes().iter().zip(&end.lanes) {
        write_lane(history, lane, state, out)?;
    }
    Ok(())
}

fn time(time: Option<TimeNs>) -> String {
    time.map_or_else(|| "-".to_owned(), |time| time.0.to_string())
}

/// A lane's figures at a position: reserved, allocated, requested, pending.
fn figures(history: &History, lane: LaneId, at: Position) -> String {
    let figure = |metric| history.value_at(lane, metric, at).map_or_else(|| "?".to_owned(), |value| value.to_string());
    Metric::ALL.map(figure).join(" ")
}

fn write_event(history: &History, view: EventView, out: &mut String) -> fmt::Result {
    let EventView { seq, event, lane, subject } = view;
    write!(out, "{} t={} p{} d{} ", seq.0, time(event.time), event.process.0, event.device.0)?;
    if let Some(stream) = event.stream {
        write!(out, "s{} ", stream.0)?;
    }
    write!(out, "{:?} {}", event.origin, view.label())?;
    if event.kind.at_start() {
        out.push_str(" at start");
    }
    if let Some(address) = view.address() {
        write!(out, " {address:#x}")?;
    }
    if let Some(bytes) = view.bytes() {
        write!(out, " {bytes}")?;
    }
    match event.kind {
        EventKind::SegmentAlloc { pool, stack, .. } | EventKind::SegmentMap { pool, stack, .. } => {
            write!(out, " pool {} stack {}", pool.map_or_else(|| "?".to_owned(), |pool| pool.to_string()), stack.0)?;
        }
        EventKind::BlockAlloc { requested, stack, .. } => write!(out, " requested {requested:?} stack {}", stack.0)?,
        EventKind::FreeRequested { stack, .. } => write!(out, " stack {}", stack.0)?,
        EventKind::OutOfMemory { device_free, stack, .. } => write!(out, " free {device_free:?} stack {}", stack.0)?,
        EventKind::AnnotationBegin { name }
        | EventKind::AnnotationEnd { name }
        | EventKind::Mark { name }
        | EventKind::Other { name, .. } => write!(out, " {:?}", history.dictionary().name(name))?,
        EventKind::CounterSample { counter, value } => write!(out, " {counter:?} {value}")?,
        EventKind::LostEvents { count } => write!(out, " {count}")?,
        EventKind::SegmentFree { .. } | EventKind::SegmentUnmap { .. } | EventKind::FreeCompleted { .. } => {}
    }
    match subject {
        Subject::Block(id) => write!(out, " -> block {}", id.0)?,
        Subject::Segment(id) => write!(out, " -> segment {}", id.0)?,
        Subject::Oom(_) | Subject::Name(_) | Subject::None => {}
    }
    if let Some(lane) = lane {
        write!(out, " = {}", figures(history, lane, seq.after()))?;
    }
    out.push('\n');
    Ok(())
}

fn write_lane(history: &History, lane: &Lane, state: &LaneState, out: &mut String) -> fmt::Result {
    let figures = figures(history, lane.id, history.end());
    writeln!(
        out,
        "lane {} p{} d{}: {} entries, {} to {}, {figures}",
        lane.id.0, lane.process.0, lane.device.0, lane.entries, lane.first.0, lane.last.0
    )?;
    for metric in Metric::ALL {
        if let Some(peak) = history.peak(lane.id, metric) {
            writeln!(out, "  peak {metric:?} {} at {}", peak.bytes, peak.at.0)?;
        }
    }
    for segment in &state.segments {
        write_segment_line(history, segment.segment, out)?;
        for item in block_map(segment).items {
            match item.what {
                MapWhat::Block { index } => write_block(history, &segment.blocks[index], out)?,
                MapWhat::Gap(GapKind::Releasable) => write_free("releasable", &item, out)?,
                MapWhat::Gap(GapKind::Pinned) => write_free("pinned", &item, out)?,
                MapWhat::Unmapped => write_free("unmapped", &item, out)?,
            }
        }
    }
    if !state.loose.is_empty() {
        writeln!(out, "  in no known segment")?;
    }
    state.loose.iter().try_for_each(|block| write_block(history, block, out))
}

fn write_segment_line(history: &History, id: SegmentId, out: &mut String) -> fmt::Result {
    let Some(segment) = history.segment(id) else { return Ok(()) };
    let kind = if segment.expandable { "expandable" } else { "ordinary" };
    let pool = segment.pool.map_or_else(|| "pool ?".to_owned(), |pool| format!("pool {pool}"));
    let stream = segment.stream.map_or_else(|| "stream ?".to_owned(), |stream| stream.to_string());
    writeln!(
        out,
        "  segment {} {:#x} {} {kind} {pool} {stream} from {}",
        id.0, segment.address, segment.bytes, segment.created.0
    )
}

fn write_free(what: &str, item: &MapItem, out: &mut String) -> fmt::Result {
    writeln!(out, "    {:#x} {what} {}", item.range.start, item.range.end - item.range.start)
}

fn write_block(history: &History, block: &BlockState, out: &mut String) -> fmt::Result {
    let Some(facts) = history.block(block.id) else { return Ok(()) };
    let state = if block.pending { "pending" } else { "block" };
    writeln!(
        out,
        "    {:#x} {state} {} of {} requested {:?} stack {} from {}",
        block.address, block.id.0, block.bytes, block.requested, facts.stack.0, facts.allocated.0
    )
}
