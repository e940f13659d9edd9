//! Lists what is alive from time to time, so that the state at any position is near a list.
//!
//! A checkpoint is due after `max(1024, 2 × live)` events, where live counts blocks, mapped ranges and lanes. So lists hold
//! at most one entry for every two events (two bytes an event, measured: one byte more than with 4 × live, for a sixth less
//! time a seek). When one is due depends on the events alone, never on batches or on who looks.

use std::sync::OnceLock;

use crate::store::{Checkpoint, Store};

use super::lane::LaneFold;

/// The fewest events between two checkpoints.
const FEWEST: u64 = 1024;
/// Events for every live thing.
const EVENTS_PER_LIVE: u64 = 2;

/// When the next checkpoint is due.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    /// Where the newest one is.
    newest: u32,
    /// Live blocks and mapped ranges of all lanes.
    pub(crate) live: u64,
}

impl Checkpoints {
    /// Writes a checkpoint at the end of the events if one is due.
    #[inline]
    pub(crate) fn write_if_due(&mut self, store: &mut Store, lanes: &[LaneFold]) {
        let since = u64::from(store.events.len() - self.newest);
        if since >= FEWEST && since >= EVENTS_PER_LIVE * (self.live + lanes.len() as u64) {
            self.newest = store.events.len();
            write(store, lanes);
        }
    }
}

fn write(store: &mut Store, lanes: &[LaneFold]) {
    let (mut blocks, mut segments, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    for lane in lanes {
        blocks.extend(lane.live.ids().map(|id| id.0));
        for (start, end, segment) in lane.runs.iter() {
            if lane.expandable.contains_key(&segment) {
                runs.push((segment, start, end));
            } else {
                segments.push(segment.0);
            }
        }
    }
    segments.sort_unstable();
    let point = Checkpoint {
        at: store.events.len(),
        blocks: blocks.into(),
        segments: segments.into(),
        runs: runs.into(),
        next_block: store.blocks.len(),
        next_segment: store.segments.len(),
        next_op: store.ops.len(),
    };
    let cell: &OnceLock<Checkpoint> = store.checkpoints.push();
    // A fresh cell is empty, so this cannot be refused.
    let _ = cell.set(point);
}
