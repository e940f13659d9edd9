//! Sizes blocks and makes events while the file is still being read.
//!
//! This works for a whole history of one device under default settings. The first sign of anything else ends it.

use crossbeam_channel::Receiver;
use vramscope_trace::{AllocatorSettings, Pool, PoolOwner};

use super::emit::{self, Context, Emitter};
use super::error::ReadError;
use super::machine::Streamed;
use super::placement::{Placed, Placer};
use super::rows::{Action, EntryRow, SegmentRow, odd};
use super::start::class_of_segment;

/// What the first pass came to.
pub(super) struct StreamedSoFar {
    /// How many entries were made into events; `None` if the assumptions did not hold.
    pub entries: Option<usize>,
    /// The state after them.
    pub placer: Placer,
    /// How many final segments were known when the first entry came.
    pub segments_known: usize,
    /// The device of those segments.
    pub device: u16,
}

/// Takes entries until the reader has no more.
pub(super) fn run(received: &Receiver<Streamed>, emitter: &mut Emitter<'_>) -> Result<StreamedSoFar, ReadError> {
    let mut so_far = StreamedSoFar {
        entries: Some(0),
        placer: Placer::new(AllocatorSettings::default()),
        segments_known: 0,
        device: 0,
    };
    for message in received {
        match message {
            Streamed::Segments(segments) => {
                so_far.segments_known = segments.len();
                so_far.device = segments.first().map_or(0, |segment| segment.device);
                if !segments.iter().all(|segment| is_plain(segment, so_far.device)) {
                    so_far.entries = None;
                }
            }
            Streamed::Entries(chunk) => {
                if so_far.entries.is_none() {
                    continue;
                }
                emitter.dictionary(chunk.dictionary);
                for row in chunk.rows.iter() {
                    if let Some(context) = plain_step(&mut so_far.placer, row, so_far.device) {
                        emitter.event(emit::entry(row, &context).0)?;
                    } else {
                        so_far.entries = None;
                        break;
                    }
                }
                so_far.entries = so_far.entries.map(|entries| entries + chunk.rows.len());
            }
        }
    }
    Ok(so_far)
}

fn is_plain(segment: &SegmentRow, device: u16) -> bool {
    segment.device == device && segment.owner == PoolOwner::DEFAULT && !segment.expandable
}

/// Applies an entry if it is what a whole history of one device under default settings would say here.
fn plain_step(placer: &mut Placer, row: &EntryRow, device: u16) -> Option<Context> {
    let mut context = Context { device, bytes: 0, pool: None, requests_free: false };
    if row.odd & (odd::ADDRESS | odd::SIZE) != 0 || row.pool != 0 {
        return None;
    }
    let holds = match row.action {
        Action::Alloc => match placer.alloc(row.address, row.size, None) {
            Placed::Exactly(bytes) => {
                context.bytes = bytes;
                true
            }
            _ => false,
        },
        Action::FreeRequested => placer.free_requested(row.address),
        Action::FreeCompleted => placer.live.remove(&row.address).is_some_and(|live| live.pending),
        Action::SegmentAlloc => {
            let class = class_of_segment(row.size, false);
            context.pool = Some(Pool { owner: PoolOwner::DEFAULT, class });
            placer.segment_alloc(row.address, row.size)
        }
        Action::SegmentFree => placer.segment_free(row.address, row.size),
        Action::Oom | Action::Note => true,
        Action::Free | Action::SegmentMap | Action::SegmentUnmap | Action::UserDefined | Action::Unknown => false,
    };
    holds.then_some(context)
}
