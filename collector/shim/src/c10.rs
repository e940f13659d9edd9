//! Blocks of PyTorch's caching allocator, through the two functions with which it reports to a profiler.
//!
//! libc10_cuda calls `c10::reportMemoryUsageToProfiler` for every block it hands out or takes back, through its procedure linkage
//! table, and a preloaded definition wins. Each hook here writes its record and then *jumps* to the original, with the caller's
//! arguments and return address in place: the shim is not on the stack while PyTorch's own code runs, so exceptions pass.

use core::arch::naked_asm;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::c_void;
use vramscope_wire::{Api, Kind};

use crate::{resolve, settings, thread};

/// Device type CUDA (and ROCm builds) in the low byte of a `c10::Device`; the next byte is the index.
const CUDA: u8 = 1;

const USAGE_1: &core::ffi::CStr = c"_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE";
const USAGE_2: &core::ffi::CStr = c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
const OOM_1: &core::ffi::CStr = c"_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE";
const OOM_2: &core::ffi::CStr = c"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE";

/// Jumps to where `$record` says, after calling it with the five integer arguments.
macro_rules! record_and_jump {
    ($record:path) => {
        naked_asm!(
            "push rdi", "push rsi", "push rdx", "push rcx", "push r8",
            "call {record}",
            "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
            "jmp rax",
            record = sym $record,
        )
    };
}

/// `c10::reportMemoryUsageToProfiler` of PyTorch 1.13.
///
/// # Safety
/// Called by PyTorch alone.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE() {
    record_and_jump!(usage_1)
}

/// `c10::reportMemoryUsageToProfiler` of PyTorch 2.
///
/// # Safety
/// Called by PyTorch alone.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE() {
    record_and_jump!(usage_2)
}

/// `c10::reportOutOfMemoryToProfiler` of PyTorch 1.13.
///
/// # Safety
/// Called by PyTorch alone.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE() {
    record_and_jump!(oom_1)
}

/// `c10::reportOutOfMemoryToProfiler` of PyTorch 2.
///
/// # Safety
/// Called by PyTorch alone.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE() {
    record_and_jump!(oom_2)
}

extern "C" fn usage_1(address: u64, bytes: i64, allocated: u64, reserved: u64, device: u32) -> *mut c_void {
    static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    usage(address, bytes, [allocated, reserved], device);
    original(&ORIGINAL, USAGE_1)
}

extern "C" fn usage_2(address: u64, bytes: i64, allocated: u64, reserved: u64, device: u32) -> *mut c_void {
    static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    usage(address, bytes, [allocated, reserved], device);
    original(&ORIGINAL, USAGE_2)
}

extern "C" fn oom_1(bytes: i64, allocated: u64, reserved: u64, device: u32) -> *mut c_void {
    static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    out_of_memory(bytes, [allocated, reserved], device);
    original(&ORIGINAL, OOM_1)
}

extern "C" fn oom_2(bytes: i64, allocated: u64, reserved: u64, device: u32) -> *mut c_void {
    static ORIGINAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    out_of_memory(bytes, [allocated, reserved], device);
    original(&ORIGINAL, OOM_2)
}

#[inline]
fn usage(address: u64, bytes: i64, [allocated, reserved]: [u64; 2], device: u32) {
    let [kind, index, ..] = device.to_le_bytes();
    if kind != CUDA || !settings::active() {
        return;
    }
    let what = if bytes < 0 { Kind::BlockFree } else { Kind::BlockAlloc };
    thread::set_device(index);
    thread::emit(what, Api::C10, index, 0, [address, bytes.unsigned_abs(), allocated, reserved]);
}

fn out_of_memory(bytes: i64, [allocated, reserved]: [u64; 2], device: u32) {
    let [kind, index, ..] = device.to_le_bytes();
    if kind == CUDA && settings::active() {
        thread::set_device(index);
        thread::emit(Kind::OutOfMemory, Api::C10, index, 0, [0, bytes.unsigned_abs(), allocated, reserved]);
    }
}

/// PyTorch's own function. It cannot be found by `RTLD_NEXT`: Python loads PyTorch's libraries with a scope of their own.
#[inline]
fn original(known: &AtomicPtr<c_void>, name: &core::ffi::CStr) -> *mut c_void {
    let known_address = known.load(Ordering::Relaxed);
    if !known_address.is_null() {
        return known_address;
    }
    let found = resolve::in_loaded(c"libc10.so", name);
    // Looked for once: a function that does nothing stands in for one that is not there.
    let found = if found.is_null() { nothing as *mut c_void } else { found };
    known.store(found, Ordering::Relaxed);
    found
}

extern "C" fn nothing() {}
