//! Contexts, streams, events and copies: everything succeeds at once, because nothing runs.

use crate::{c_char, c_int, c_uint, c_void, code, memory, script};

/// Makes functions that succeed and do nothing.
macro_rules! succeeds {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "`: succeeds and does nothing.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: $kind),*) -> c_int {
            code::SUCCESS
        }
    )*};
}

succeeds! {
    cuCtxSynchronize();
    cuDevicePrimaryCtxRelease_v2(_device: c_int);
    cuCtxDestroy_v2(_context: *mut c_void);
    cuStreamSynchronize(_stream: *mut c_void);
    cuStreamDestroy_v2(_stream: *mut c_void);
    cuStreamWaitEvent(_stream: *mut c_void, _event: *mut c_void, _how: c_uint);
    cuEventRecord(_event: *mut c_void, _stream: *mut c_void);
    cuEventSynchronize(_event: *mut c_void);
    cuEventDestroy_v2(_event: *mut c_void);
    cuMemsetD8Async(_address: u64, _value: u8, _count: usize, _stream: *mut c_void);
    cuMemcpyHtoDAsync_v2(_to: u64, _from: *const c_void, _bytes: usize, _stream: *mut c_void);
    cuMemcpyDtoHAsync_v2(_to: *mut c_void, _from: u64, _bytes: usize, _stream: *mut c_void);
    cuMemcpyDtoDAsync_v2(_to: u64, _from: u64, _bytes: usize, _stream: *mut c_void);
    cuMemSetAccess(_address: u64, _bytes: usize, _access: *const c_void, _count: usize);
    cuMemAddressFree(_address: u64, _bytes: usize);
}

/// Writes something that is not null where a handle is expected.
unsafe fn handle(out: *mut *mut c_void, number: usize) -> c_int {
    // SAFETY: the callers' contracts say that `out` may be written.
    unsafe { *out = core::ptr::without_provenance_mut(number) };
    code::SUCCESS
}

/// The one context of a device; its handle is the device's number + 1.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(out: *mut *mut c_void, device: c_int) -> c_int {
    if !script::is_device(device) {
        return code::INVALID_DEVICE;
    }
    // SAFETY: as this function's own contract.
    unsafe { handle(out, device as usize + 1) }
}

/// Makes a context current.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> c_int {
    match context.addr().checked_sub(1) {
        Some(device) if script::is_device(device as c_int) => memory::set_device(device as c_int),
        Some(_) => return code::INVALID_CONTEXT,
        None => {}
    }
    code::SUCCESS
}

/// The current context.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(out: *mut *mut c_void) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { handle(out, memory::device() as usize + 1) }
}

/// The current context's device.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(out: *mut c_int) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { *out = memory::device() };
    code::SUCCESS
}

/// A new stream.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(out: *mut *mut c_void, _how: c_uint) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { handle(out, 16) }
}

/// A new event.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(out: *mut *mut c_void, _how: c_uint) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { handle(out, 32) }
}

/// The unit of physical memory: 2 MiB.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetAllocationGranularity(
    out: *mut usize,
    _properties: *const c_void,
    _which: c_uint,
) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { *out = 2 << 20 };
    code::SUCCESS
}

/// The name of an answer.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(answer: c_int, out: *mut *const c_char) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { *out = text(answer).as_ptr() };
    code::SUCCESS
}

/// The meaning of an answer.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(answer: c_int, out: *mut *const c_char) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { *out = text(answer).as_ptr() };
    code::SUCCESS
}

fn text(answer: c_int) -> &'static core::ffi::CStr {
    match answer {
        code::SUCCESS => c"CUDA_SUCCESS",
        code::OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        code::INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        code::NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
        _ => c"CUDA_ERROR_UNKNOWN",
    }
}
