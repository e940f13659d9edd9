//! Turns entries into events and sends them in batches.

use std::sync::Arc;

use crossbeam_channel::Sender;
use vramscope_trace::{
    Batch, DeviceId, DictionaryChunk, Event, EventKind, Origin, Pool, Problem, ProcessId, Progress, SourceMessage,
    StackId, StreamId, TimeNs,
};

use super::error::ReadError;
use super::rows::{Action, AnnotationRow, EntryRow, NO_TIME, odd};
use super::start::{StartBlock, StartRun};

/// Events a batch: large enough that the channel costs nothing, small enough to stay in a core's cache.
const BATCH: usize = 1024;

/// Collects events and sends them on. Fails only when nobody listens any more, or someone asked to stop.
pub(super) struct Emitter<'a> {
    out: &'a Sender<SourceMessage>,
    progress: &'a Progress,
    batch: Batch,
    sent: bool,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(out: &'a Sender<SourceMessage>, progress: &'a Progress) -> Self {
        Self { out, progress, batch: Batch::default(), sent: false }
    }

    /// Whether someone asked to stop.
    pub(super) fn is_cancelled(&self) -> bool {
        self.progress.is_cancelled()
    }

    pub(super) fn dictionary(&mut self, chunks: Vec<Arc<DictionaryChunk>>) {
        self.batch.dictionary.extend(chunks);
    }

    pub(super) fn problems(&mut self, problems: Vec<Problem>) {
        self.batch.problems.extend(problems);
    }

    #[inline]
    pub(super) fn event(&mut self, event: Event) -> Result<(), ReadError> {
        if self.batch.events.capacity() == 0 {
            self.batch.events.reserve(BATCH);
        }
        self.batch.events.push(event);
        if self.batch.events.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> Result<(), ReadError> {
        let batch = std::mem::take(&mut self.batch);
        if batch.events.is_empty() && batch.dictionary.is_empty() && batch.problems.is_empty() {
            return Ok(());
        }
        self.sent = true;
        self.message(SourceMessage::Batch(batch))
    }

    /// Drops what waits and tells the other side to forget what was sent.
    pub(super) fn reset(&mut self) -> Result<(), ReadError> {
        self.batch = Batch::default();
        if std::mem::take(&mut self.sent) {
            self.message(SourceMessage::Reset)?;
        }
        Ok(())
    }

    pub(super) fn message(&self, message: SourceMessage) -> Result<(), ReadError> {
        if self.is_cancelled() {
            return Err(ReadError::Cancelled);
        }
        self.out.send(message).map_err(|_| ReadError::Cancelled)
    }
}

fn at(device: u16, time: i64, stream: Option<u64>, origin: Origin, kind: EventKind) -> Event {
    Event {
        time: (time != NO_TIME).then(|| TimeNs::from_micros(time)),
        process: ProcessId(0),
        device: DeviceId(device),
        stream: stream.map(StreamId),
        origin,
        kind,
    }
}

/// A run of the start as an event.
pub(super) fn start_run(device: u16, time: i64, run: &StartRun) -> Event {
    let pool = Some(Pool { owner: run.owner, class: run.class });
    let (address, bytes, stack, at_start) = (run.address, run.bytes, run.stack, true);
    let kind = if run.expandable {
        EventKind::SegmentMap { address, bytes, pool, stack, at_start }
    } else {
        EventKind::SegmentAlloc { address, bytes, pool, stack, at_start }
    };
    at(device, time, run.stream, Origin::Snapshot, kind)
}

/// A block of the start as one event, or two if it was already freed and waiting.
pub(super) fn start_block(device: u16, time: i64, block: &StartBlock) -> (Event, Option<Event>) {
    let kind = EventKind::BlockAlloc {
        address: block.address,
        bytes: block.bytes,
        requested: block.requested,
        stack: block.stack,
        at_start: true,
    };
    let freed = EventKind::FreeRequested { address: block.address, stack: StackId::NONE, at_start: true };
    (
        at(device, time, block.stream, Origin::Snapshot, kind),
        block.pending.then(|| at(device, time, block.stream, Origin::Snapshot, freed)),
    )
}

/// What an entry needs to become an event beyond itself.
pub(super) struct Context {
    pub device: u16,
    /// Block size of an allocation.
    pub bytes: u64,
    /// Pool of a segment.
    pub pool: Option<Pool>,
    /// Whether `free_requested` alone frees.
    pub requests_free: bool,
}

/// An entry as exactly one event; the second is the completion of a free that the file tells in one entry.
pub(super) fn entry(row: &EntryRow, context: &Context) -> (Event, Option<Event>) {
    let (address, bytes, stack) = (row.address, row.size, row.stack);
    let stream = (row.has_stream && row.odd & odd::STREAM == 0).then_some(row.stream);
    let mut second = None;
    let kind = if row.odd & (odd::ADDRESS | odd::SIZE) != 0 {
        EventKind::Other { name: row.action_name, address, bytes }
    } else {
        match row.action {
            Action::Alloc => {
                EventKind::BlockAlloc { address, bytes: context.bytes, requested: Some(bytes), stack, at_start: false }
            }
            Action::Free => EventKind::FreeCompleted { address },
            Action::FreeRequested => {
                if context.requests_free {
                    second = Some(EventKind::FreeCompleted { address });
                }
                EventKind::FreeRequested { address, stack, at_start: false }
            }
            Action::FreeCompleted => EventKind::FreeCompleted { address },
            Action::SegmentAlloc => {
                EventKind::SegmentAlloc { address, bytes, pool: context.pool, stack, at_start: false }
            }
            Action::SegmentFree => EventKind::SegmentFree { address, bytes },
            Action::SegmentMap => EventKind::SegmentMap { address, bytes, pool: context.pool, stack, at_start: false },
            Action::SegmentUnmap => EventKind::SegmentUnmap { address, bytes },
            Action::Oom => {
                EventKind::OutOfMemory { requested: bytes, device_free: row.has_address.then_some(row.address), stack }
            }
            Action::UserDefined | Action::Note | Action::Unknown => {
                EventKind::Other { name: row.action_name, address, bytes }
            }
        }
    };
    let event = |kind| at(context.device, row.time, stream, Origin::Snapshot, kind);
    (event(kind), second.map(event))
}

/// An annotation record as an event.
pub(super) fn annotation(row: &AnnotationRow) -> Event {
    let kind = if row.begins {
        EventKind::AnnotationBegin { name: row.name }
    } else {
        EventKind::AnnotationEnd { name: row.name }
    };
    at(row.device, row.time, None, Origin::Annotation, kind)
}
