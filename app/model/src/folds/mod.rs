//! What ingest keeps up to date with every event: each fold only ever grows, and costs O(1) amortized an event.

pub(crate) mod checkpoints;
pub(crate) mod clock;
pub(crate) mod lane;
pub(crate) mod live;
pub(crate) mod runs;
pub(crate) mod segments;
pub(crate) mod spans;
