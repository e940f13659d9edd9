//! Memory figures by NVML's first memory call, for drivers that lack the second (before version 510).

use nvml_wrapper::error::{NvmlError, nvml_try};
use nvml_wrapper::{Device, Nvml};

/// What the first memory call tells, in bytes. Used includes what the driver keeps for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryV1 {
    /// Memory of the device.
    pub total: u64,
    /// Bytes nobody uses.
    pub free: u64,
    /// Bytes in use, the driver's own included.
    pub used: u64,
}

/// Asks for the memory of a device of this `nvml`.
///
/// # Errors
/// As the library answers; [`NvmlError::FailedToLoadSymbol`] if it has no such function.
pub fn memory_info(nvml: &Nvml, device: &Device<'_>) -> Result<MemoryV1, NvmlError> {
    let function = nvml.lib().nvmlDeviceGetMemoryInfo.as_ref();
    let function = function.map_err(|error| NvmlError::FailedToLoadSymbol(error.to_string()))?;
    // SAFETY: the function is the library's own of that name; the handle comes from the same library, which `device` keeps
    // initialized; an all-zero record of three numbers is valid.
    unsafe {
        let mut memory = core::mem::zeroed();
        nvml_try(function(device.handle(), &raw mut memory))?;
        Ok(MemoryV1 { total: memory.total, free: memory.free, used: memory.used })
    }
}
