//! What NVML says of one GPU or slice, field by field: a field that fails takes no other with it.

use nvml_wrapper::enum_wrappers::device::TemperatureSensor;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use vramscope_trace::TimeNs;

use super::host::{Host, Whose};

/// Why a field has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// This device, driver or system does not tell it.
    NotSupported,
    /// The call failed; in NVML's words.
    Failed(String),
}

/// Memory of a device in bytes, by how it is known. Used and free need not add up to the total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// By NVML's second memory call, which tells what the driver keeps for itself apart.
    Apart {
        /// All of it.
        total: u64,
        /// Kept by the driver.
        reserved: u64,
        /// Used by processes.
        used: u64,
        /// Used by nobody.
        free: u64,
    },
    /// By NVML's first memory call, all that an old driver has: what the driver keeps counts as used.
    Together {
        /// All of it.
        total: u64,
        /// Used by processes and the driver.
        used: u64,
        /// Used by nobody.
        free: u64,
    },
    /// The device shares the system's memory; these are the system's figures.
    Unified {
        /// Memory of the system.
        total: u64,
        /// What a program could still get.
        available: u64,
    },
    /// Nobody knows.
    Unknown(Missing),
}

/// A process on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its number, in whatever PID namespace the driver counts.
    pub pid: u32,
    /// Bytes it uses; `None` = the driver does not tell.
    pub used: Option<u64>,
    /// Whose it is, as far as that can be known here.
    pub whose: Whose,
}

/// Whether a device answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It does.
    Answering,
    /// It has not since then; its figures are the last good ones.
    Lost {
        /// When that was first seen.
        since: TimeNs,
    },
}

/// A GPU, or a slice of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// What it is known by; indices change when another one drops out.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// UUID of the GPU it is a slice of; `None` = it is a whole one.
    pub slice_of: Option<String>,
    /// Whether it answers.
    pub state: State,
    /// Its memory.
    pub memory: Memory,
    /// Processes on it.
    pub processes: Result<Vec<GpuProcess>, Missing>,
    /// Percent of time in which it was busy.
    pub busy: Result<u32, Missing>,
    /// Degrees Celsius.
    pub temperature: Result<u32, Missing>,
    /// Milliwatts.
    pub power: Result<u32, Missing>,
}

/// Names of devices that share their memory with the system. An error alone proves nothing: a lost card gives errors too.
const UNIFIED: [&str; 8] = ["GB10", "Thor", "Orin", "Xavier", "Tegra", "Jetson", "DIGITS", "N1X"];

/// Field of a device that is gone for good, not merely silent about one thing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GpuIsLost;

impl Gpu {
    pub(super) fn new(uuid: String, name: String, slice_of: Option<String>) -> Self {
        let unknown = || Missing::NotSupported;
        Self {
            uuid,
            name,
            slice_of,
            state: State::Answering,
            memory: Memory::Unknown(unknown()),
            processes: Err(unknown()),
            busy: Err(unknown()),
            temperature: Err(unknown()),
            power: Err(unknown()),
        }
    }

    /// Sum of what its processes are known to use; `None` if none of them tells.
    pub fn process_bytes(&self) -> Option<u64> {
        let list = self.processes.as_ref().ok()?;
        list.iter().filter_map(|process| process.used).reduce(u64::saturating_add)
    }

    /// Bytes of its memory; `None` = unknown.
    pub fn total(&self) -> Option<u64> {
        match self.memory {
            Memory::Apart { total, .. } | Memory::Together { total, .. } | Memory::Unified { total, .. } => Some(total),
            Memory::Unknown(_) => None,
        }
    }

    /// Asks for every field. If the device turns out to be lost, nothing changes.
    pub(super) fn read(&mut self, nvml: &Nvml, host: &Host) -> Result<(), GpuIsLost> {
        let device = nvml.device_by_uuid(self.uuid.as_str());
        let device = match device {
            Ok(device) => device,
            Err(NvmlError::GpuLost | NvmlError::NotFound | NvmlError::InvalidArg) => return Err(GpuIsLost),
            Err(error) => {
                self.memory = Memory::Unknown(Missing::Failed(error.to_string()));
                return Ok(());
            }
        };
        let memory = memory(nvml, &device, &self.name, host)?;
        let processes = field(device.running_compute_processes())?;
        let drawing = field(device.running_graphics_processes())?;
        self.busy = field(device.utilization_rates().map(|rates| rates.gpu))?;
        self.temperature = field(device.temperature(TemperatureSensor::Gpu))?;
        self.power = field(device.power_usage())?;
        self.memory = memory;
        self.processes = processes.map(|mut list| {
            for process in drawing.unwrap_or_default() {
                if list.iter().all(|known| known.pid != process.pid) {
                    list.push(process);
                }
            }
            list.iter()
                .map(|process| GpuProcess {
                    pid: process.pid,
                    used: match process.used_gpu_memory {
                        UsedGpuMemory::Used(bytes) => Some(bytes),
                        UsedGpuMemory::Unavailable => None,
                    },
                    whose: host.whose(process.pid),
                })
                .collect()
        });
        Ok(())
    }
}

fn field<T>(result: Result<T, NvmlError>) -> Result<Result<T, Missing>, GpuIsLost> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(NvmlError::GpuLost) => Err(GpuIsLost),
        Err(error) => Ok(Err(missing(&error))),
    }
}

fn missing(error: &NvmlError) -> Missing {
    match error {
        NvmlError::NotSupported | NvmlError::FunctionNotFound | NvmlError::FailedToLoadSymbol(_) => {
            Missing::NotSupported
        }
        error => Missing::Failed(error.to_string()),
    }
}

fn memory(nvml: &Nvml, device: &Device<'_>, name: &str, host: &Host) -> Result<Memory, GpuIsLost> {
    let second = field(device.memory_info())?;
    if let Ok(memory) = &second
        && memory.total > 0
    {
        let (total, reserved, used, free) = (memory.total, memory.reserved, memory.used, memory.free);
        return Ok(Memory::Apart { total, reserved, used, free });
    }
    let first = field(vramscope_nvml_v1::memory_info(nvml, device))?;
    if let Ok(memory) = first
        && memory.total > 0
    {
        return Ok(Memory::Together { total: memory.total, used: memory.used, free: memory.free });
    }
    if UNIFIED.iter().any(|part| name.contains(part))
        && let Some((total, available)) = host.memory()
    {
        return Ok(Memory::Unified { total, available });
    }
    // Success with 0 of 0 is no figure either.
    Ok(Memory::Unknown(second.err().unwrap_or(Missing::NotSupported)))
}
