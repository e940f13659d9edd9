//! What `cuGetProcAddress` finds: names without their version, the oldest driver that has them, and the per-thread variants.

use std::ffi::CStr;

use crate::memory::{
    cuMemAddressReserve, cuMemAlloc_v2, cuMemAllocAsync, cuMemAllocAsync_ptsz, cuMemAllocFromPoolAsync,
    cuMemAllocHost_v2, cuMemAllocManaged, cuMemAllocPitch_v2, cuMemCreate, cuMemFree_v2, cuMemFreeAsync,
    cuMemFreeAsync_ptsz, cuMemFreeHost, cuMemGetInfo_v2, cuMemHostAlloc, cuMemHostRegister_v2, cuMemHostUnregister,
    cuMemMap, cuMemRelease, cuMemUnmap,
};
use crate::trivial::{cuCtxGetDevice, cuCtxSetCurrent, cuDevicePrimaryCtxRetain};
use crate::{c_int, cuDeviceGet, cuGetProcAddress, cuGetProcAddress_v2, cuInit, script};

/// A function: name, oldest version, per-thread variant, address.
type Row = (&'static CStr, c_int, bool, *const ());

fn rows() -> [Row; 26] {
    [
        (c"cuInit", 2000, false, cuInit as *const ()),
        (c"cuDeviceGet", 2000, false, cuDeviceGet as *const ()),
        (c"cuCtxGetDevice", 2000, false, cuCtxGetDevice as *const ()),
        (c"cuCtxSetCurrent", 4000, false, cuCtxSetCurrent as *const ()),
        (c"cuDevicePrimaryCtxRetain", 7000, false, cuDevicePrimaryCtxRetain as *const ()),
        (c"cuMemGetInfo", 3020, false, cuMemGetInfo_v2 as *const ()),
        (c"cuMemAlloc", 3020, false, cuMemAlloc_v2 as *const ()),
        (c"cuMemAllocPitch", 3020, false, cuMemAllocPitch_v2 as *const ()),
        (c"cuMemAllocManaged", 6000, false, cuMemAllocManaged as *const ()),
        (c"cuMemAllocAsync", 11020, false, cuMemAllocAsync as *const ()),
        (c"cuMemAllocAsync", 11020, true, cuMemAllocAsync_ptsz as *const ()),
        (c"cuMemAllocFromPoolAsync", 11020, false, cuMemAllocFromPoolAsync as *const ()),
        (c"cuMemFree", 3020, false, cuMemFree_v2 as *const ()),
        (c"cuMemFreeAsync", 11020, false, cuMemFreeAsync as *const ()),
        (c"cuMemFreeAsync", 11020, true, cuMemFreeAsync_ptsz as *const ()),
        (c"cuMemCreate", 10020, false, cuMemCreate as *const ()),
        (c"cuMemRelease", 10020, false, cuMemRelease as *const ()),
        (c"cuMemMap", 10020, false, cuMemMap as *const ()),
        (c"cuMemUnmap", 10020, false, cuMemUnmap as *const ()),
        (c"cuMemAddressReserve", 10020, false, cuMemAddressReserve as *const ()),
        (c"cuMemHostAlloc", 2020, false, cuMemHostAlloc as *const ()),
        (c"cuMemAllocHost", 3020, false, cuMemAllocHost_v2 as *const ()),
        (c"cuMemFreeHost", 2000, false, cuMemFreeHost as *const ()),
        (c"cuMemHostRegister", 6050, false, cuMemHostRegister_v2 as *const ()),
        (c"cuMemHostUnregister", 4000, false, cuMemHostUnregister as *const ()),
        (c"cuGetProcAddress", 11030, false, cuGetProcAddress as *const ()),
    ]
}

/// The function, or null.
pub(crate) fn find(name: &CStr, version: c_int, per_thread: bool) -> *const () {
    if script::get().is_missing(&name.to_string_lossy()) {
        return core::ptr::null();
    }
    if name == c"cuGetProcAddress" && version >= 12000 {
        return cuGetProcAddress_v2 as *const ();
    }
    let rows = rows();
    let row = |wanted: bool| {
        rows.iter().find(|&&(known, since, of_thread, _)| known == name && version >= since && of_thread == wanted)
    };
    let found = if per_thread { row(true).or_else(|| row(false)) } else { row(false) };
    found.map_or(core::ptr::null(), |&(_, _, _, address)| address)
}
