//! Imitates PyTorch's libc10.so as far as the shim cares: two functions that report blocks, called through the procedure linkage
//! table as PyTorch's own libraries call them, and two of its own that make such calls.

use core::cell::Cell;
use core::ffi::c_void;
use core::hint::black_box;

thread_local! {
    /// Reports that arrived in this thread, a count for each function. The compiler knows the functions' bodies at their calls, though
    /// the calls leave the library: of equal bodies it would make one, and arguments that nobody looks at it would not pass. A count
    /// shared by threads would cost more than what benchmarks measure with it.
    static REPORTED: [Cell<u64>; 3] = const { [const { Cell::new(0) }; 3] };
}

fn count(function: usize) {
    REPORTED.with(|counts| counts[function].set(counts[function].get() + 1));
}

mod called {
    //! The functions as a caller sees them. Declared, not defined, here: so the call leaves the library and comes back.
    use core::ffi::c_void;

    unsafe extern "C" {
        #[link_name = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"]
        pub(crate) fn usage(address: *mut c_void, bytes: i64, allocated: usize, reserved: usize, device: u16);
        #[link_name = "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE"]
        pub(crate) fn usage_1(address: *mut c_void, bytes: i64, allocated: i64, reserved: i64, device: u16);
        #[link_name = "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"]
        pub(crate) fn out_of_memory(bytes: i64, allocated: usize, reserved: usize, device: u16);
    }
}

/// `c10::reportMemoryUsageToProfiler` of PyTorch 2: counts that it was reached.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(
    address: *mut c_void,
    bytes: i64,
    allocated: usize,
    reserved: usize,
    device: u16,
) {
    black_box((address, bytes, allocated, reserved, device));
    count(0);
}

/// The same of PyTorch 1.13.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(
    address: *mut c_void,
    bytes: i64,
    allocated: i64,
    reserved: i64,
    device: u16,
) {
    black_box((address, bytes, allocated, reserved, device));
    count(1);
}

/// `c10::reportOutOfMemoryToProfiler` of PyTorch 2.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(
    bytes: i64,
    allocated: usize,
    reserved: usize,
    device: u16,
) {
    black_box((bytes, allocated, reserved, device));
    count(2);
}

/// Reports a block of `bytes` (negative: given back) on a device of type `kind` (1 = CUDA) and number `index`.
#[unsafe(no_mangle)]
pub extern "C" fn fake_c10_report(address: u64, bytes: i64, allocated: usize, reserved: usize, kind: u8, index: u8) {
    let device = u16::from_le_bytes([kind, index]);
    // SAFETY: the function only looks at its arguments.
    unsafe { called::usage(core::ptr::without_provenance_mut(address as usize), bytes, allocated, reserved, device) }
}

/// The same as PyTorch 1.13 would.
#[unsafe(no_mangle)]
pub extern "C" fn fake_c10_report_1(address: u64, bytes: i64, allocated: i64, reserved: i64, kind: u8, index: u8) {
    let device = u16::from_le_bytes([kind, index]);
    // SAFETY: the function only looks at its arguments.
    unsafe { called::usage_1(core::ptr::without_provenance_mut(address as usize), bytes, allocated, reserved, device) }
}

/// Reports that `bytes` could not be had.
#[unsafe(no_mangle)]
pub extern "C" fn fake_c10_out_of_memory(bytes: i64, allocated: usize, reserved: usize, index: u8) {
    // SAFETY: the function only looks at its arguments.
    unsafe { called::out_of_memory(bytes, allocated, reserved, u16::from_le_bytes([1, index])) }
}

/// How many reports of this thread reached this library's own functions.
#[unsafe(no_mangle)]
pub extern "C" fn fake_c10_reported() -> u64 {
    REPORTED.with(|counts| counts.iter().map(Cell::get).sum())
}
