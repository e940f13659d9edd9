//! Imitates libnvidia-ml.so.1 after a script (see `script.rs`): sizes, processes, slices, errors, and GPUs that get lost.

mod place;
mod script;

use core::ffi::{c_char, c_int, c_uint, c_void};
use std::ffi::CStr;

/// Answers of the library.
mod code {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const INVALID_ARGUMENT: u32 = 2;
    pub(crate) const NOT_SUPPORTED: u32 = 3;
    pub(crate) const NOT_FOUND: u32 = 6;
    pub(crate) const INSUFFICIENT_SIZE: u32 = 7;
    pub(crate) const GPU_IS_LOST: u32 = 15;
    pub(crate) const UNKNOWN: u32 = 999;
}

type Handle = *mut c_void;
type Answer = c_uint;

fn handle_of(gpu: &str) -> Option<Handle> {
    script::get().gpu_number(gpu).map(|number| core::ptr::without_provenance_mut(number + 1))
}

fn gpu_of(handle: Handle) -> Option<&'static str> {
    script::get().gpu_name(handle.addr().checked_sub(1)?)
}

fn answer<T>(result: Result<T, u32>, write: impl FnOnce(T)) -> Answer {
    match result {
        Ok(value) => {
            write(value);
            code::SUCCESS
        }
        Err(answer) => answer,
    }
}

fn number(device: Handle, key: &str) -> Result<u64, u32> {
    script::get().number(gpu_of(device).ok_or(code::INVALID_ARGUMENT)?, key)
}

/// Copies a text with its zero byte.
///
/// # Safety
/// `out` may be written for `length` bytes.
unsafe fn put(text: &str, out: *mut c_char, length: c_uint) -> Answer {
    if text.len() >= length as usize {
        return code::INSUFFICIENT_SIZE;
    }
    // SAFETY: as this function's own contract; the length was checked.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr(), out.cast(), text.len());
        *out.add(text.len()) = 0;
    }
    code::SUCCESS
}

/// Functions that do not need a device.
macro_rules! plain {
    ($($(#[$about:meta])* $name:ident($($argument:ident: $kind:ty),*) => $body:expr;)*) => {$(
        $(#[$about])*
        ///
        /// # Safety
        /// As the real library's: every pointer may be written.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> Answer {
            // SAFETY: as this function's own contract.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )*};
}

plain! {
    /// Starts the library.
    nvmlInit_v2() => code::SUCCESS;
    /// Starts the library.
    nvmlInitWithFlags(_flags: c_uint) => code::SUCCESS;
    /// Ends it.
    nvmlShutdown() => code::SUCCESS;
    /// The driver's version.
    nvmlSystemGetDriverVersion(out: *mut c_char, length: c_uint) => put("580.0.fake", out, length);
    /// The library's version.
    nvmlSystemGetNVMLVersion(out: *mut c_char, length: c_uint) => put("13.580.0.fake", out, length);
    /// CUDA's version.
    nvmlSystemGetCudaDriverVersion_v2(out: *mut c_int) => { *out = 13000; code::SUCCESS };
    /// Number of devices; begins the script's next sample.
    nvmlDeviceGetCount_v2(out: *mut c_uint) => {
        script::get().next_sample();
        *out = script::get().order().len() as c_uint;
        code::SUCCESS
    };
    /// A device by its index.
    nvmlDeviceGetHandleByIndex_v2(index: c_uint, out: *mut Handle) => {
        let gpu = script::get().order().get(index as usize).copied().and_then(handle_of);
        answer(gpu.ok_or(code::INVALID_ARGUMENT), |handle| *out = handle)
    };
    /// A device by its UUID; one that has left the list is not found.
    nvmlDeviceGetHandleByUUID(uuid: *const c_char, out: *mut Handle) => {
        let wanted = CStr::from_ptr(uuid).to_string_lossy();
        let script = script::get();
        let mut names = script.order().into_iter().flat_map(|gpu| [vec![gpu], script.slices(gpu)].concat());
        let gpu = names.find(|gpu| script.text(gpu, "uuid").is_ok_and(|uuid| uuid == wanted)).and_then(handle_of);
        answer(gpu.ok_or(code::NOT_FOUND), |handle| *out = handle)
    };
    /// A device's name.
    nvmlDeviceGetName(device: Handle, out: *mut c_char, length: c_uint) =>
        match gpu_of(device).ok_or(code::INVALID_ARGUMENT).and_then(|gpu| script::get().text(gpu, "name")) {
            Ok(name) => put(name, out, length),
            Err(answer) => answer,
        };
    /// A device's UUID.
    nvmlDeviceGetUUID(device: Handle, out: *mut c_char, length: c_uint) =>
        match gpu_of(device).ok_or(code::INVALID_ARGUMENT).and_then(|gpu| script::get().text(gpu, "uuid")) {
            Ok(uuid) => put(uuid, out, length),
            Err(answer) => answer,
        };
    /// Memory, the old way: what the driver keeps counts as used.
    nvmlDeviceGetMemoryInfo(device: Handle, out: *mut [u64; 3]) => {
        let read = || Ok([number(device, "total")?, number(device, "free")?, number(device, "used")? + number(device, "reserved").unwrap_or(0)]);
        answer(read(), |values| *out = values)
    };
    /// Percent of time the device was busy, and its memory.
    nvmlDeviceGetUtilizationRates(device: Handle, out: *mut [c_uint; 2]) =>
        answer(number(device, "busy"), |busy| *out = [busy as c_uint, 0]);
    /// Degrees Celsius.
    nvmlDeviceGetTemperature(device: Handle, _sensor: c_uint, out: *mut c_uint) =>
        answer(number(device, "temperature"), |degrees| *out = degrees as c_uint);
    /// Milliwatts.
    nvmlDeviceGetPowerUsage(device: Handle, out: *mut c_uint) => answer(number(device, "power"), |power| *out = power as c_uint);
    /// Whether the device is cut into slices.
    nvmlDeviceGetMigMode(device: Handle, current: *mut c_uint, pending: *mut c_uint) => {
        let on = gpu_of(device).is_some_and(|gpu| !script::get().slices(gpu).is_empty());
        (*current, *pending) = (c_uint::from(on), c_uint::from(on));
        if on { code::SUCCESS } else { code::NOT_SUPPORTED }
    };
    /// How many slices it may have.
    nvmlDeviceGetMaxMigDeviceCount(_device: Handle, out: *mut c_uint) => { *out = 7; code::SUCCESS };
    /// A slice by its index.
    nvmlDeviceGetMigDeviceHandleByIndex(device: Handle, index: c_uint, out: *mut Handle) => {
        let slice = gpu_of(device).and_then(|gpu| script::get().slices(gpu).get(index as usize).copied().and_then(handle_of));
        answer(slice.ok_or(code::NOT_FOUND), |handle| *out = handle)
    };
}

/// `nvmlMemory_v2_t`.
#[cfg(not(feature = "old"))]
#[repr(C)]
pub struct MemoryV2 {
    version: c_uint,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

/// Memory, with what the driver keeps told apart.
///
/// # Safety
/// `out` may be read and written.
#[cfg(not(feature = "old"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, out: *mut MemoryV2) -> Answer {
    // SAFETY: as this function's own contract.
    let version = unsafe { (*out).version };
    if version as usize != size_of::<MemoryV2>() | 2 << 24 {
        return code::INVALID_ARGUMENT;
    }
    let read = || {
        Ok(MemoryV2 {
            version,
            total: number(device, "total")?,
            reserved: number(device, "reserved").unwrap_or(0),
            free: number(device, "free")?,
            used: number(device, "used")?,
        })
    };
    // SAFETY: as this function's own contract.
    answer(read(), |memory| unsafe { *out = memory })
}

/// `nvmlProcessInfo_t`.
#[repr(C)]
pub struct Process {
    pid: c_uint,
    used: u64,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// Processes that compute.
///
/// # Safety
/// `count` may be read and written, `out` written for as many records.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Handle,
    count: *mut c_uint,
    out: *mut Process,
) -> Answer {
    let list = match gpu_of(device).ok_or(code::INVALID_ARGUMENT).and_then(|gpu| script::get().processes(gpu)) {
        Ok(list) => list,
        Err(answer) => return answer,
    };
    // SAFETY: as this function's own contract.
    unsafe {
        let room = core::mem::replace(&mut *count, list.len() as c_uint);
        if (room as usize) < list.len() {
            return code::INSUFFICIENT_SIZE;
        }
        for (index, (pid, used)) in list.into_iter().enumerate() {
            let none = c_uint::MAX;
            let process = Process { pid, used: used.unwrap_or(u64::MAX), gpu_instance: none, compute_instance: none };
            out.add(index).write(process);
        }
    }
    code::SUCCESS
}

/// Processes that draw: none.
///
/// # Safety
/// `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    _device: Handle,
    count: *mut c_uint,
    _out: *mut Process,
) -> Answer {
    // SAFETY: as this function's own contract.
    unsafe { *count = 0 };
    code::SUCCESS
}

/// The name of an answer.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlErrorString(answer: Answer) -> *const c_char {
    match answer {
        code::SUCCESS => c"Success",
        code::NOT_SUPPORTED => c"Not Supported",
        code::GPU_IS_LOST => c"GPU is lost",
        _ => c"Unknown Error",
    }
    .as_ptr()
}
