//! Where events come from.

pub mod torch_snapshot;
