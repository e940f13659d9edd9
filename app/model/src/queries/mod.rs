//! Questions computed on demand: pure functions of a history or of a snapshot of it.

pub(crate) mod block_map;
pub(crate) mod dump;
pub(crate) mod fit;
pub(crate) mod fragmentation;
pub(crate) mod holders;
pub(crate) mod pinning;
pub(crate) mod snapshot;
