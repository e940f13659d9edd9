//! What travels from a source to the ingest thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{DictionaryChunk, Event, Problem, RunInfo};

/// A few thousand events of one source, with the names they use for the first time.
///
/// The dictionary chunk must be read before the events: they may refer to it.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Names, frames and stacks that no earlier batch brought, in order.
    pub dictionary: Vec<Arc<DictionaryChunk>>,
    /// Events in order.
    pub events: Vec<Event>,
    /// What the source found odd since its last batch.
    pub problems: Vec<Problem>,
}

/// What a source says.
#[derive(Clone, Debug)]
pub enum SourceMessage {
    /// More events.
    Batch(Batch),
    /// Forget everything this source has said: it learned that its first reading was wrong, and starts again.
    Reset,
    /// Facts about the run as a whole; the last one counts.
    Info(Arc<RunInfo>),
    /// The source has ended well.
    Done,
    /// The source cannot go on; one sentence says what and where. What it said before stays good.
    Failed(String),
}

/// How far a source has come, shared between the thread that works and the one that watches.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// Sets how much there is to do, in bytes; 0 = unknown.
    pub fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Sets how much is done, in bytes.
    pub fn set_done(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// Done and total in bytes; total 0 = unknown.
    pub fn get(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// The part that is done, 0 to 1; `None` while the total is unknown.
    pub fn fraction(&self) -> Option<f32> {
        let (done, total) = self.get();
        (total > 0).then(|| (done as f64 / total as f64).min(1.0) as f32)
    }

    /// Asks the source to stop soon.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether someone asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}
