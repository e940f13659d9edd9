//! The CUDA driver's memory functions: one table of hooks, and what each of them writes.
//!
//! A free is written before the real call and an allocation after it: the moment an address is free, another thread may get it.

use core::ffi::CStr;
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use libc::{c_char, c_int, c_uint, c_void};
use vramscope_wire::{Api, Kind, UNKNOWN_DEVICE, flags};

use crate::resolve;
use crate::thread::{self, Call};

/// `CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND`: what a hook answers when there is no driver behind it.
const NO_DRIVER: c_int = 302;
/// Flag of `cuGetProcAddress`: the variant for per-thread default streams is wanted.
const PER_THREAD: u64 = 2;

/// A driver function and what stands in for it.
pub(crate) struct Hook {
    /// Its name as a symbol of libcuda.
    symbol: &'static CStr,
    /// Its name for `cuGetProcAddress`.
    query: &'static CStr,
    /// Oldest driver version that means this variant by that name.
    since: c_int,
    per_thread: bool,
    hook: *const (),
    original: AtomicPtr<c_void>,
}

// SAFETY: the one field that is not Sync by itself is the address of a function.
unsafe impl Sync for Hook {}

impl Hook {
    /// Takes note of the original, unless it is the hook itself, and gives the address to hand out in its place.
    pub(crate) fn stand_in_for(&self, real: *mut c_void) -> *mut c_void {
        if real.cast_const().cast() != self.hook {
            self.original.store(real, Ordering::Relaxed);
        }
        self.hook.cast_mut().cast()
    }

    #[inline]
    fn original(&self) -> *mut c_void {
        let known = self.original.load(Ordering::Relaxed);
        if known.is_null() { self.find() } else { known }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let found = resolve::driver_function(self.symbol);
        self.original.store(found, Ordering::Relaxed);
        found
    }
}

/// The hook for a symbol of libcuda.
pub(crate) fn by_symbol(name: &CStr) -> Option<&'static Hook> {
    name.to_bytes().starts_with(b"cu").then(|| HOOKS.iter().find(|hook| hook.symbol == name)).flatten()
}

/// The hook for what `cuGetProcAddress` is asked.
fn by_query(name: &CStr, version: c_int, asked: u64) -> Option<&'static Hook> {
    let per_thread = asked & PER_THREAD != 0;
    HOOKS
        .iter()
        .filter(|hook| hook.query == name && version >= hook.since)
        .filter(|hook| hook.per_thread == per_thread || !has_per_thread(name))
        .max_by_key(|hook| hook.since)
}

fn has_per_thread(query: &CStr) -> bool {
    HOOKS.iter().any(|hook| hook.per_thread && hook.query == query)
}

/// Makes the exported functions and the table. Each line: symbol, name for `cuGetProcAddress`, oldest version, per-thread variant,
/// arguments, and what to do with the real call.
macro_rules! hooks {
    ($($symbol:ident, $text:literal, $query:literal, $since:literal, $per_thread:literal,
       ($($argument:ident: $kind:ty),*) => $body:expr;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(usize)]
        enum Index { $($symbol,)* }

        $(
            #[doc = concat!("Stands in for the driver's `", stringify!($symbol), "`.")]
            ///
            /// # Safety
            /// As the driver's.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub(crate) unsafe extern "C" fn $symbol($($argument: $kind),*) -> c_int {
                let address = HOOKS[Index::$symbol as usize].original();
                if address.is_null() {
                    return NO_DRIVER;
                }
                let real = move || {
                    // SAFETY: it is the driver's function of this name, whose type is this one, and gets the caller's arguments.
                    unsafe { mem::transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> c_int>(address)($($argument),*) }
                };
                ($body)(real)
            }
        )*

        static HOOKS: [Hook; [$($text),*].len()] = [$(
            Hook {
                symbol: $text,
                query: $query,
                since: $since,
                per_thread: $per_thread,
                hook: $symbol as *const (),
                original: AtomicPtr::new(ptr::null_mut()),
            },
        )*];
    };
}

type Stream = u64;

hooks! {
    cuMemAlloc_v2, c"cuMemAlloc_v2", c"cuMemAlloc", 3020, false, (out: *mut u64, bytes: usize) =>
        |real| alloc(Api::MemAlloc, out, bytes as u64, 0, real);
    cuMemAllocPitch_v2, c"cuMemAllocPitch_v2", c"cuMemAllocPitch", 3020, false,
        (out: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint) => |real| alloc_pitch(out, pitch, width, height, real);
    cuMemAllocManaged, c"cuMemAllocManaged", c"cuMemAllocManaged", 6000, false, (out: *mut u64, bytes: usize, how: c_uint) =>
        |real| alloc(Api::Managed, out, bytes as u64, 0, real);
    cuMemAllocAsync, c"cuMemAllocAsync", c"cuMemAllocAsync", 11020, false, (out: *mut u64, bytes: usize, stream: Stream) =>
        |real| alloc(Api::Async, out, bytes as u64, stream, real);
    cuMemAllocAsync_ptsz, c"cuMemAllocAsync_ptsz", c"cuMemAllocAsync", 11020, true, (out: *mut u64, bytes: usize, stream: Stream) =>
        |real| alloc(Api::Async, out, bytes as u64, stream, real);
    cuMemAllocFromPoolAsync, c"cuMemAllocFromPoolAsync", c"cuMemAllocFromPoolAsync", 11020, false,
        (out: *mut u64, bytes: usize, pool: *mut c_void, stream: Stream) => |real| alloc(Api::FromPool, out, bytes as u64, stream, real);
    cuMemAllocFromPoolAsync_ptsz, c"cuMemAllocFromPoolAsync_ptsz", c"cuMemAllocFromPoolAsync", 11020, true,
        (out: *mut u64, bytes: usize, pool: *mut c_void, stream: Stream) => |real| alloc(Api::FromPool, out, bytes as u64, stream, real);
    cuMemFree_v2, c"cuMemFree_v2", c"cuMemFree", 3020, false, (address: u64) =>
        |real| release(Kind::DeviceFree, Api::MemAlloc, [address, 0, 0, 0], real);
    cuMemFreeAsync, c"cuMemFreeAsync", c"cuMemFreeAsync", 11020, false, (address: u64, stream: Stream) =>
        |real| release(Kind::DeviceFree, Api::Async, [address, 0, stream, 0], real);
    cuMemFreeAsync_ptsz, c"cuMemFreeAsync_ptsz", c"cuMemFreeAsync", 11020, true, (address: u64, stream: Stream) =>
        |real| release(Kind::DeviceFree, Api::Async, [address, 0, stream, 0], real);
    cuMemCreate, c"cuMemCreate", c"cuMemCreate", 10020, false,
        (out: *mut u64, bytes: usize, place: *const AllocationProperties, how: u64) => |real| create(out, bytes as u64, place, real);
    cuMemRelease, c"cuMemRelease", c"cuMemRelease", 10020, false, (handle: u64) =>
        |real| release(Kind::PhysicalRelease, Api::Virtual, [handle, 0, 0, 0], real);
    cuMemMap, c"cuMemMap", c"cuMemMap", 10020, false, (address: u64, bytes: usize, offset: usize, handle: u64, how: u64) =>
        |real| map([address, bytes as u64, handle, offset as u64], real);
    cuMemUnmap, c"cuMemUnmap", c"cuMemUnmap", 10020, false, (address: u64, bytes: usize) =>
        |real| release(Kind::Unmap, Api::Virtual, [address, bytes as u64, 0, 0], real);
    cuMemAllocHost_v2, c"cuMemAllocHost_v2", c"cuMemAllocHost", 3020, false, (out: *mut u64, bytes: usize) =>
        |real| pin(Api::Host, out, bytes as u64, real);
    cuMemHostAlloc, c"cuMemHostAlloc", c"cuMemHostAlloc", 2020, false, (out: *mut u64, bytes: usize, how: c_uint) =>
        |real| pin(Api::Host, out, bytes as u64, real);
    cuMemFreeHost, c"cuMemFreeHost", c"cuMemFreeHost", 2000, false, (address: u64) =>
        |real| release(Kind::HostFree, Api::Host, [address, 0, 0, 0], real);
    cuMemHostRegister_v2, c"cuMemHostRegister_v2", c"cuMemHostRegister", 6050, false, (address: u64, bytes: usize, how: c_uint) =>
        |real| pin(Api::Register, &raw const address, bytes as u64, real);
    cuMemHostUnregister, c"cuMemHostUnregister", c"cuMemHostUnregister", 4000, false, (address: u64) =>
        |real| release(Kind::HostFree, Api::Register, [address, 0, 0, 0], real);
    cuGetProcAddress, c"cuGetProcAddress", c"cuGetProcAddress", 11030, false,
        (name: *const c_char, out: *mut *mut c_void, version: c_int, asked: u64) => |real| ask(name, out, version, asked, real);
    cuGetProcAddress_v2, c"cuGetProcAddress_v2", c"cuGetProcAddress", 12000, false,
        (name: *const c_char, out: *mut *mut c_void, version: c_int, asked: u64, status: *mut c_int) => |real| ask(name, out, version, asked, real);
}

/// A function pointer the program asked the driver for: ours in its place, if it is in the table.
fn ask(name: *const c_char, out: *mut *mut c_void, version: c_int, asked: u64, real: impl FnOnce() -> c_int) -> c_int {
    let result = real();
    if result == 0 && !name.is_null() && !out.is_null() && crate::settings::active() {
        // SAFETY: the driver took both pointers and found a function, so the name ends with a zero byte and the result is written.
        unsafe {
            if let Some(hook) = by_query(CStr::from_ptr(name), version, asked)
                && !(*out).is_null()
            {
                *out = hook.stand_in_for(*out);
            }
        }
    }
    result
}

fn alloc(api: Api, out: *const u64, bytes: u64, stream: Stream, real: impl FnOnce() -> c_int) -> c_int {
    let Some(_call) = Call::enter() else { return real() };
    let result = real();
    if result == 0 {
        // SAFETY: the driver says that it has written the address there.
        let address = unsafe { *out };
        emit(Kind::DeviceAlloc, api, device_now(), [address, bytes, stream, 0]);
    } else {
        failed(api, [0, bytes], result);
    }
    result
}

fn alloc_pitch(
    out: *const u64,
    pitch: *const usize,
    width: usize,
    height: usize,
    real: impl FnOnce() -> c_int,
) -> c_int {
    let Some(_call) = Call::enter() else { return real() };
    let result = real();
    if result == 0 {
        // SAFETY: the driver says that it has written the address and the pitch there.
        let (address, pitch) = unsafe { (*out, *pitch) };
        emit(Kind::DeviceAlloc, Api::Pitch, device_now(), [address, (pitch as u64).wrapping_mul(height as u64), 0, 0]);
    } else {
        failed(Api::Pitch, [0, (width as u64).wrapping_mul(height as u64)], result);
    }
    result
}

/// The beginning of the driver's `CUmemAllocationProp`.
#[repr(C)]
pub(crate) struct AllocationProperties {
    kind: c_int,
    handle_kinds: c_int,
    location_kind: c_int,
    location: c_int,
}

fn create(out: *const u64, bytes: u64, place: *const AllocationProperties, real: impl FnOnce() -> c_int) -> c_int {
    const ON_DEVICE: c_int = 1;
    let Some(_call) = Call::enter() else { return real() };
    let result = real();
    if result == 0 {
        // SAFETY: the driver has read the properties and says that it has written the handle.
        let (handle, place) = unsafe { (*out, &*place) };
        let device = if place.location_kind == ON_DEVICE { seen(place.location) } else { UNKNOWN_DEVICE };
        emit(Kind::PhysicalCreate, Api::Virtual, device, [handle, bytes, 0, 0]);
    } else {
        failed(Api::Virtual, [0, bytes], result);
    }
    result
}

fn map(numbers: [u64; 4], real: impl FnOnce() -> c_int) -> c_int {
    let Some(_call) = Call::enter() else { return real() };
    let result = real();
    if result == 0 {
        emit(Kind::Map, Api::Virtual, thread::device(), numbers);
    } else {
        failed(Api::Virtual, [numbers[0], numbers[1]], result);
    }
    result
}

fn pin(api: Api, out: *const u64, bytes: u64, real: impl FnOnce() -> c_int) -> c_int {
    let Some(_call) = Call::enter() else { return real() };
    let result = real();
    if result == 0 {
        // SAFETY: the driver says that it has written the address there; a registered one is the caller's own argument.
        let address = unsafe { *out };
        emit(Kind::HostAlloc, api, UNKNOWN_DEVICE, [address, bytes, 0, 0]);
    } else {
        failed(api, [0, bytes], result);
    }
    result
}

fn release(kind: Kind, api: Api, numbers: [u64; 4], real: impl FnOnce() -> c_int) -> c_int {
    // Freeing nothing is allowed and says nothing.
    let Some(_call) = Call::enter().filter(|_| numbers[0] != 0) else { return real() };
    emit(kind, api, UNKNOWN_DEVICE, numbers);
    let result = real();
    if result != 0 {
        failed(api, [numbers[0], numbers[1]], result);
    }
    result
}

fn emit(kind: Kind, api: Api, device: u8, numbers: [u64; 4]) {
    let framework = if resolve::framework_loaded() { flags::FRAMEWORK } else { 0 };
    thread::emit(kind, api, device, framework, numbers);
}

/// A call that failed, with the device memory that was free then where the call wanted some.
#[cold]
fn failed(api: Api, [subject, bytes]: [u64; 2], result: c_int) {
    const OUT_OF_MEMORY: c_int = 2;
    let mut free: usize = 0;
    if result == OUT_OF_MEMORY && !matches!(api, Api::Host | Api::Register) {
        let mut total: usize = 0;
        let address = MEM_GET_INFO.get();
        if !address.is_null() {
            type MemGetInfo = unsafe extern "C" fn(*mut usize, *mut usize) -> c_int;
            // SAFETY: it is the driver's cuMemGetInfo; the pointers are to locals.
            let asked = unsafe { mem::transmute::<*mut c_void, MemGetInfo>(address)(&raw mut free, &raw mut total) };
            free = if asked == 0 { free } else { 0 };
        }
    }
    emit(Kind::CallFailed, api, thread::device(), [subject, bytes, free as u64, result as u64]);
}

/// A driver function that the shim itself calls, looked up at its first use.
struct Known {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Known {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    fn get(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = resolve::driver_function(self.name);
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

static CTX_GET_DEVICE: Known = Known::new(c"cuCtxGetDevice");
static DEVICE_GET_UUID: Known = Known::new(c"cuDeviceGetUuid");
static DEVICE_TOTAL_MEM: Known = Known::new(c"cuDeviceTotalMem_v2");
static MEM_GET_INFO: Known = Known::new(c"cuMemGetInfo_v2");

/// Device of the calling thread's context.
fn device_now() -> u8 {
    let mut device: c_int = -1;
    let address = CTX_GET_DEVICE.get();
    if !address.is_null() {
        // SAFETY: it is the driver's cuCtxGetDevice; the pointer is to a local.
        unsafe { mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(address)(&raw mut device) };
    }
    seen(device)
}

/// Devices that the ring knows of, a bit each.
static TOLD: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// After a fork, in the child: its ring will know of none.
pub(crate) fn forget_devices() {
    for told in &TOLD {
        told.store(0, Ordering::Relaxed);
    }
}

/// A device of this number has memory in use; the first time, tells which it is.
fn seen(device: c_int) -> u8 {
    let Ok(number) = u8::try_from(device) else { return UNKNOWN_DEVICE };
    thread::set_device(number);
    if let Some(told) = TOLD.get(usize::from(number / 64)) {
        let bit = 1 << (number % 64);
        if told.load(Ordering::Relaxed) & bit == 0 && told.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            tell(device, number);
        }
    }
    number
}

#[cold]
fn tell(device: c_int, number: u8) {
    let (mut uuid, mut total): ([u64; 2], usize) = ([0; 2], 0);
    let (get_uuid, get_total) = (DEVICE_GET_UUID.get(), DEVICE_TOTAL_MEM.get());
    if !get_uuid.is_null() {
        // SAFETY: it is the driver's cuDeviceGetUuid, which writes 16 bytes.
        unsafe {
            mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut [u64; 2], c_int) -> c_int>(get_uuid)(
                &raw mut uuid,
                device,
            )
        };
    }
    if !get_total.is_null() {
        // SAFETY: it is the driver's cuDeviceTotalMem; the pointer is to a local.
        unsafe {
            mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut usize, c_int) -> c_int>(get_total)(
                &raw mut total,
                device,
            )
        };
    }
    emit(Kind::Device, Api::None, number, [uuid[0], uuid[1], total as u64, 0]);
}
