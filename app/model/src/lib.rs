//! The core of vramscope: what happened to GPU memory, and the questions asked of it.
//!
//! [`Ingest`] takes batches of events, one at a time, and hands out [`History`] values: immutable, cheaply cloned views of
//! everything up to their end. All questions are asked of a history. Those about one instant go through a [`Snapshot`], the
//! allocator's whole state. Nothing here reads files, opens sockets, starts threads, looks at a clock or draws.
//!
//! States are named by [`Position`]: the number of events applied. Problems in the data never stop anything; they are
//! counted and the first of each kind is described ([`History::problems`]).

mod chunk;
mod facts;
mod folds;
mod forest;
mod history;
mod ids;
mod ingest;
mod queries;
mod store;

pub use facts::{Block, EventView, Lane, Lost, Mark, Oom, Peak, Segment, Span, Subject, TimeAxis};
pub use forest::{Column, SeriesView};
pub use history::{History, Storage};
pub use ids::{BlockId, EventSeq, LaneId, Metric, Position, SegmentId, Work};
pub use ingest::Ingest;
pub use queries::block_list::BlockList;
pub use queries::block_map::{BlockMap, GapKind, MapItem, MapWhat, block_map};
pub use queries::dump::dump;
pub use queries::fit::{Elsewhere, Fit, fit};
pub use queries::forecast::{Forecast, ForecastCause, Forecaster, StepFacts, step_facts};
pub use queries::fragmentation::{Fragmentation, PoolFigures, fragmentation};
pub use queries::holders::{Holder, Holders, holders};
pub use queries::leaks::{Beat, Leaks, Suspect, Workspace, leaks};
pub use queries::pinning::{Pin, pinning};
pub use queries::requests::requests;
pub use queries::snapshot::{BlockState, LaneState, MappedRanges, SegmentState, Snapshot};
pub use queries::steps::{Phase, PhaseSpan, Step, StepSource, Steps, steps};
pub use queries::why::{
    Advice, Answer, Asked, Capacity, CapacitySource, Cause, Growth, Holding, MessageFigures, MessageFormat, OomMessage,
    PathNode, ProcessUse, Why, explain, messages, why,
};
