//! Questions computed on demand: pure functions of a history or of a snapshot of it.

pub(crate) mod block_list;
pub(crate) mod block_map;
pub(crate) mod dump;
pub(crate) mod fit;
pub(crate) mod forecast;
pub(crate) mod fragmentation;
pub(crate) mod holders;
pub(crate) mod leaks;
pub(crate) mod pinning;
pub(crate) mod requests;
pub(crate) mod snapshot;
pub(crate) mod steps;
pub(crate) mod why;
