//! Where events come from.

pub mod nvml;
pub(crate) mod recording;
pub mod shim;
pub mod torch_snapshot;
