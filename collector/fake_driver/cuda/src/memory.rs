//! Memory of the fake devices: addresses, physical handles and pinned host memory.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{c_int, c_uint, c_ulonglong, c_void, code, script};

/// Where device addresses begin, and the unit in which they are handed out.
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
const GRAIN: u64 = 2 << 20;

#[derive(Default)]
struct Memory {
    /// Bytes handed out so far in each address range.
    reached: u64,
    /// Freed addresses by size in grains, the newest last.
    free: HashMap<u64, Vec<u64>>,
    /// Address to bytes and device; device memory only.
    live: BTreeMap<u64, (u64, c_int)>,
    /// Handle to bytes and device.
    physical: HashMap<u64, (u64, c_int)>,
    last_handle: u64,
    used: HashMap<c_int, u64>,
}

static MEMORY: Mutex<Option<Memory>> = Mutex::new(None);

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
}

pub(crate) fn device() -> c_int {
    DEVICE.get()
}

pub(crate) fn set_device(device: c_int) {
    DEVICE.set(device);
}

fn with<R>(work: impl FnOnce(&mut Memory) -> R) -> R {
    let mut memory: MutexGuard<'_, Option<Memory>> = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    work(memory.get_or_insert_default())
}

impl Memory {
    fn take(&mut self, bytes: u64, device: c_int) -> Result<(), c_int> {
        let used = self.used.entry(device).or_default();
        if used.saturating_add(bytes) > script::get().memory {
            return Err(code::OUT_OF_MEMORY);
        }
        *used += bytes;
        Ok(())
    }

    fn give_back(&mut self, bytes: u64, device: c_int) {
        let used = self.used.entry(device).or_default();
        *used = used.saturating_sub(bytes);
    }

    fn address(&mut self, bytes: u64) -> u64 {
        let grains = bytes.div_ceil(GRAIN).max(1);
        if let Some(address) = self.free.get_mut(&grains).and_then(Vec::pop) {
            return address;
        }
        let address = FIRST_ADDRESS + self.reached;
        self.reached += grains * GRAIN;
        address
    }
}

fn alloc(function: &'static str, out: *mut u64, bytes: u64) -> c_int {
    if let Some(answer) = script::get().failure(function) {
        return answer;
    }
    if out.is_null() || bytes == 0 {
        return code::INVALID_VALUE;
    }
    let device = device();
    let result = with(|memory| {
        memory.take(bytes, device)?;
        let address = memory.address(bytes);
        memory.live.insert(address, (bytes, device));
        Ok(address)
    });
    match result {
        Ok(address) => {
            // SAFETY: the caller of the driver gives a place for the address.
            unsafe { *out = address };
            code::SUCCESS
        }
        Err(answer) => answer,
    }
}

fn free(function: &'static str, address: u64) -> c_int {
    if let Some(answer) = script::get().failure(function) {
        return answer;
    }
    with(|memory| {
        let Some((bytes, device)) = memory.live.remove(&address) else { return code::INVALID_VALUE };
        memory.give_back(bytes, device);
        memory.free.entry(bytes.div_ceil(GRAIN)).or_default().push(address);
        code::SUCCESS
    })
}

/// Allocates device memory.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemAlloc_v2(out: *mut u64, bytes: usize) -> c_int {
    alloc("cuMemAlloc_v2", out, bytes as u64)
}

/// Allocates device memory in rows.
///
/// # Safety
/// `pitch` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocPitch_v2(
    out: *mut u64,
    pitch: *mut usize,
    width: usize,
    height: usize,
    _element: c_uint,
) -> c_int {
    let row = width.next_multiple_of(512);
    // SAFETY: as this function's own contract.
    unsafe { *pitch = row };
    // A real driver calls itself here too; the shim must count this once.
    alloc("cuMemAllocPitch_v2", out, (row * height) as u64)
}

/// Allocates memory that both sides see.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemAllocManaged(out: *mut u64, bytes: usize, _how: c_uint) -> c_int {
    alloc("cuMemAllocManaged", out, bytes as u64)
}

/// Allocates in the order of a stream.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemAllocAsync(out: *mut u64, bytes: usize, _stream: *mut c_void) -> c_int {
    alloc("cuMemAllocAsync", out, bytes as u64)
}

/// The same for per-thread default streams.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemAllocAsync_ptsz(out: *mut u64, bytes: usize, _stream: *mut c_void) -> c_int {
    alloc("cuMemAllocAsync_ptsz", out, bytes as u64)
}

/// Allocates from a pool in the order of a stream.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemAllocFromPoolAsync(
    out: *mut u64,
    bytes: usize,
    _pool: *mut c_void,
    _stream: *mut c_void,
) -> c_int {
    alloc("cuMemAllocFromPoolAsync", out, bytes as u64)
}

/// Frees device memory.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> c_int {
    free("cuMemFree_v2", address)
}

/// Frees in the order of a stream.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync(address: u64, _stream: *mut c_void) -> c_int {
    free("cuMemFreeAsync", address)
}

/// The same for per-thread default streams.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeAsync_ptsz(address: u64, _stream: *mut c_void) -> c_int {
    free("cuMemFreeAsync_ptsz", address)
}

/// Free and total bytes of the current device.
///
/// # Safety
/// Both places may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    let used = with(|memory| memory.used.get(&device()).copied().unwrap_or(0));
    // SAFETY: as this function's own contract.
    unsafe {
        *total = script::get().memory as usize;
        *free = (script::get().memory - used) as usize;
    }
    code::SUCCESS
}

/// Creates physical memory on the device that the properties name.
///
/// # Safety
/// `out` may be written; `properties` has four ints at least: kind, handle kinds, location kind, location.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemCreate(
    out: *mut u64,
    bytes: usize,
    properties: *const [c_int; 4],
    _how: c_ulonglong,
) -> c_int {
    if let Some(answer) = script::get().failure("cuMemCreate") {
        return answer;
    }
    // SAFETY: as this function's own contract.
    let device = unsafe { (*properties)[3] };
    let result = with(|memory| {
        memory.take(bytes as u64, device)?;
        memory.last_handle += 1;
        memory.physical.insert(memory.last_handle, (bytes as u64, device));
        Ok(memory.last_handle)
    });
    match result {
        Ok(handle) => {
            // SAFETY: as this function's own contract.
            unsafe { *out = handle };
            code::SUCCESS
        }
        Err(answer) => answer,
    }
}

/// Gives up a handle of physical memory.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemRelease(handle: u64) -> c_int {
    if let Some(answer) = script::get().failure("cuMemRelease") {
        return answer;
    }
    with(|memory| {
        let Some((bytes, device)) = memory.physical.remove(&handle) else { return code::INVALID_VALUE };
        memory.give_back(bytes, device);
        code::SUCCESS
    })
}

/// Maps physical memory.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemMap(_address: u64, _bytes: usize, _offset: usize, handle: u64, _how: c_ulonglong) -> c_int {
    if let Some(answer) = script::get().failure("cuMemMap") {
        return answer;
    }
    if with(|memory| memory.physical.contains_key(&handle)) { code::SUCCESS } else { code::INVALID_VALUE }
}

/// Unmaps addresses.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemUnmap(_address: u64, _bytes: usize) -> c_int {
    script::get().failure("cuMemUnmap").unwrap_or(code::SUCCESS)
}

/// Reserves addresses.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAddressReserve(
    out: *mut u64,
    bytes: usize,
    _alignment: usize,
    _wanted: u64,
    _how: c_ulonglong,
) -> c_int {
    let address = with(|memory| memory.address(bytes as u64));
    // SAFETY: as this function's own contract.
    unsafe { *out = address };
    code::SUCCESS
}

/// Pins host memory of its own.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(out: *mut *mut c_void, bytes: usize, _how: c_uint) -> c_int {
    if let Some(answer) = script::get().failure("cuMemHostAlloc") {
        return answer;
    }
    let memory = vec![0u64; bytes.div_ceil(8) + 1].into_boxed_slice();
    // The size stands before what the caller gets. Programs under test pin little, and what they never free is theirs to leak.
    let memory = Box::leak(memory);
    // SAFETY: as this function's own contract.
    unsafe { *out = (&raw mut memory[1]).cast() };
    code::SUCCESS
}

/// The older form of the same.
///
/// # Safety
/// `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocHost_v2(out: *mut *mut c_void, bytes: usize) -> c_int {
    // SAFETY: as this function's own contract.
    unsafe { cuMemHostAlloc(out, bytes, 0) }
}

/// Unpins host memory. The memory itself stays: a demo's life is short.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemFreeHost(_address: *mut c_void) -> c_int {
    script::get().failure("cuMemFreeHost").unwrap_or(code::SUCCESS)
}

/// Pins host memory of the caller.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostRegister_v2(_address: *mut c_void, _bytes: usize, _how: c_uint) -> c_int {
    script::get().failure("cuMemHostRegister_v2").unwrap_or(code::SUCCESS)
}

/// Unpins host memory of the caller.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostUnregister(_address: *mut c_void) -> c_int {
    script::get().failure("cuMemHostUnregister").unwrap_or(code::SUCCESS)
}
