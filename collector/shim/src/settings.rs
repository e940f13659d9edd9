//! What the environment says, read once when the library is loaded.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use vramscope_wire::Layout;

/// Lanes of a ring file: how many threads of a process may have events at the same time.
const LANES: u32 = 64;
/// Default size of a lane: 2^16 records are 4 MiB, or 65 ms at a million events a second.
const LOG2_RECORDS: u32 = 16;

static ACTIVE: AtomicBool = AtomicBool::new(false);
static LOG2: AtomicU32 = AtomicU32::new(LOG2_RECORDS);

/// Reads the settings; `false` if the shim is to stay out of the way.
pub(crate) fn read() -> bool {
    let active = variable(c"VRAMSCOPE_RING_DIR").is_some_and(|folder| !folder.is_empty());
    if let Some(wanted) = number(c"VRAMSCOPE_LANE_LOG2") {
        LOG2.store(wanted, Ordering::Relaxed);
    }
    ACTIVE.store(active && layout().is_some(), Ordering::Relaxed);
    active
}

/// Whether events are written.
#[inline]
pub(crate) fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// Whether events are to be written from now on.
pub(crate) fn set_active(active: bool) {
    ACTIVE.store(active, Ordering::Relaxed);
}

/// Shape of the ring file.
pub(crate) fn layout() -> Option<Layout> {
    Layout::new(LANES, LOG2.load(Ordering::Relaxed))
}

/// The folder for ring files.
pub(crate) fn folder() -> Option<&'static [u8]> {
    variable(c"VRAMSCOPE_RING_DIR")
}

/// The rank that a launcher gave this process.
pub(crate) fn rank() -> Option<u32> {
    [c"RANK", c"OMPI_COMM_WORLD_RANK", c"PMIX_RANK", c"PMI_RANK", c"SLURM_PROCID"].into_iter().find_map(number)
}

fn number(name: &CStr) -> Option<u32> {
    core::str::from_utf8(variable(name)?).ok()?.parse().ok()
}

fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the name ends with a zero byte. The value stays valid unless the program changes this very variable meanwhile.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv returns a text that ends with a zero byte.
    Some(unsafe { CStr::from_ptr(value) }.to_bytes())
}
