//! The library that vramscope preloads into a job: it writes what the job does with GPU memory to a ring file, and nothing else.
//!
//! It sees two layers: blocks of PyTorch's caching allocator (`c10.rs`) and allocations of the CUDA driver (`cuda.rs`, found through
//! `resolve.rs`); besides, NVTX ranges (`nvtx.rs`) and marks of the Python hook (`marks.rs`). Everything becomes one fixed-size
//! record in a lane of the calling thread (`ring.rs`, `thread.rs`).
//!
//! Rules that hold everywhere here: a hook never allocates, panics, locks, logs or waits; it may lose an event, and then counts it.
//! Return codes and arguments pass through untouched. Unless `VRAMSCOPE_RING_DIR` is set when the process starts, nothing happens:
//! calls go straight on. The ring file appears with the first event, so a program without CUDA pays for one `getenv`.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("the shim's jumps to the original functions are written for x86-64 Linux");

mod c10;
mod cuda;
mod marks;
mod nvtx;
mod resolve;
mod ring;
mod settings;
mod thread;

use libc::{c_char, c_int};

/// Runs when the library is loaded, before the program's own code.
extern "C" fn start() {
    resolve::find_dlsym();
    if settings::read() {
        thread::prepare();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// Tells whether events of this process are written.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_active() -> c_int {
    c_int::from(settings::active())
}

/// Stops (0) or goes on (1) writing events of this process: for measuring what the shim costs within one process.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_write(on: c_int) {
    if ring::current().is_some() {
        settings::set_active(on != 0);
    }
}

/// Writes a mark (`kind` 0), the beginning (1) or the end (2) of a span, named by `length` bytes at `name`. It counts only in a
/// process that has used the GPU before: marks alone make no ring file.
///
/// # Safety
/// `name` must be readable for `length` bytes.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn vramscope_mark(kind: c_int, name: *const c_char, length: usize) {
    // SAFETY: as this function's own contract.
    unsafe { marks::mark(kind, name.cast(), length) }
}

/// How many snapshots vramscope has asked this process for since it started.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_snapshots_asked() -> u64 {
    ring::current().map_or(0, ring::Ring::snapshots_asked)
}

/// States the rank of this process in a distributed job, once the program knows it.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_rank(rank: u32) {
    if let Some(ring) = ring::current() {
        ring.set_rank(rank);
    }
}
