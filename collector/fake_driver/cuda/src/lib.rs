//! Imitates the memory side of libcuda.so.1: addresses, sizes and error codes, without a GPU. No kernel ever runs.
//!
//! Addresses are handed out the same way in every run, and a freed one is handed out next for the same size. The variable
//! `VRAMSCOPE_FAKE_CUDA` scripts it, words apart by spaces:
//!
//! | word | meaning |
//! | --- | --- |
//! | `devices=N` | number of devices (1) |
//! | `memory=BYTES` | memory of each (80 GiB) |
//! | `fail=FUNCTION@N:CODE` | the Nth call (from 1) of a function answers CODE and does nothing; `@*` = every call |
//! | `missing=FUNCTION` | `cuGetProcAddress` does not know the function |

mod memory;
mod script;
mod table;
mod trivial;

use std::ffi::CStr;

use libc_types::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// C's types by their usual names.
mod libc_types {
    pub(crate) use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
}

/// Answers of the driver.
mod code {
    use super::c_int;
    pub(crate) const SUCCESS: c_int = 0;
    pub(crate) const INVALID_VALUE: c_int = 1;
    pub(crate) const OUT_OF_MEMORY: c_int = 2;
    pub(crate) const INVALID_DEVICE: c_int = 101;
    pub(crate) const INVALID_CONTEXT: c_int = 201;
    pub(crate) const NOT_FOUND: c_int = 500;
}

/// Version that this driver claims: CUDA 13.0.
const VERSION: c_int = 13000;

/// Looks a function up by name, version and flags.
///
/// # Safety
/// As the driver's: `name` ends with a zero byte and `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    out: *mut *mut c_void,
    version: c_int,
    asked: c_ulonglong,
    status: *mut c_int,
) -> c_int {
    if name.is_null() || out.is_null() {
        return code::INVALID_VALUE;
    }
    // SAFETY: the caller vouches for both.
    unsafe {
        let found = table::find(CStr::from_ptr(name), version, asked & 2 != 0);
        *out = found.cast_mut().cast();
        if let Some(status) = status.as_mut() {
            *status = c_int::from(found.is_null());
        }
        if found.is_null() { code::NOT_FOUND } else { code::SUCCESS }
    }
}

/// The older form of the same.
///
/// # Safety
/// As the driver's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetProcAddress(
    name: *const c_char,
    out: *mut *mut c_void,
    version: c_int,
    asked: c_ulonglong,
) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { cuGetProcAddress_v2(name, out, version, asked, core::ptr::null_mut()) }
}

/// Total memory of a device.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(out: *mut usize, device: c_int) -> c_int {
    if !script::is_device(device) {
        return code::INVALID_DEVICE;
    }
    // SAFETY: as this function's own contract.
    unsafe { *out = script::get().memory as usize };
    code::SUCCESS
}

/// Number of devices.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(out: *mut c_int) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { *out = script::get().devices };
    code::SUCCESS
}

/// A device's handle, which is its number.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(out: *mut c_int, ordinal: c_int) -> c_int {
    if !script::is_device(ordinal) {
        return code::INVALID_DEVICE;
    }
    // SAFETY: as this function's own contract.
    unsafe { *out = ordinal };
    code::SUCCESS
}

/// A device's name.
///
/// # Safety
/// `out` may be written for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(out: *mut c_char, length: c_int, _device: c_int) -> c_int {
    let name = c"vramscope fake GPU".to_bytes_with_nul();
    if (length as usize) < name.len() {
        return code::INVALID_VALUE;
    }
    // SAFETY: as this function's own contract; the length was checked.
    unsafe { core::ptr::copy_nonoverlapping(name.as_ptr(), out.cast(), name.len()) };
    code::SUCCESS
}

/// A device's UUID: 15 bytes that are the same everywhere, then the device's number.
///
/// # Safety
/// `out` may be written for 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(out: *mut [u8; 16], device: c_int) -> c_int {
    let mut uuid = *b"fake-gpu-uuid--\0";
    uuid[15] = device as u8;
    // SAFETY: as this function's own contract.
    unsafe { *out = uuid };
    code::SUCCESS
}

/// The newer form of the same.
///
/// # Safety
/// `out` may be written for 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(out: *mut [u8; 16], device: c_int) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { cuDeviceGetUuid(out, device) }
}

/// A property of a device: every device can do everything.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(out: *mut c_int, attribute: c_int, _device: c_int) -> c_int {
    const MAJOR: c_int = 75;
    const MINOR: c_int = 76;
    // SAFETY: as this function's own contract.
    unsafe {
        *out = match attribute {
            MAJOR => 9,
            MINOR => 0,
            _ => 1,
        };
    }
    code::SUCCESS
}

/// The driver's version.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(out: *mut c_int) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { *out = VERSION };
    code::SUCCESS
}

/// Starts the driver.
#[unsafe(no_mangle)]
pub extern "C" fn cuInit(_flags: c_uint) -> c_int {
    if script::get().devices == 0 { 100 } else { code::SUCCESS }
}
