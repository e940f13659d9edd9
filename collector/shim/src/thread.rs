//! What each thread keeps: its lane, its number, and whether it is inside a hook right now.

use core::cell::Cell;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use libc::c_void;
use vramscope_wire::{Api, Kind, Meta, Record, UNKNOWN_DEVICE, text_records};

use crate::{cuda, ring, settings};

/// Lane of a thread that has none yet.
const NO_LANE: u32 = u32::MAX;

struct Thread {
    lane: Cell<u32>,
    number: Cell<u32>,
    /// Device of the thread's last event.
    device: Cell<u8>,
    /// A record is being written; a signal handler that allocates must not write into it.
    writing: Cell<bool>,
    /// A driver call is under way; what it calls in turn is part of it.
    calling: Cell<bool>,
    /// Depth of NVTX ranges.
    depth: Cell<i32>,
}

thread_local! {
    // Constant and without a destructor: using it allocates nothing and works while the thread ends.
    static THREAD: Thread = const {
        Thread {
            lane: Cell::new(NO_LANE),
            number: Cell::new(0),
            device: Cell::new(UNKNOWN_DEVICE),
            writing: Cell::new(false),
            calling: Cell::new(false),
            depth: Cell::new(0),
        }
    };
}

static KEY: AtomicU32 = AtomicU32::new(0);
static HAS_KEY: AtomicBool = AtomicBool::new(false);

/// Asks to be told when threads end and when the process forks.
pub(crate) fn prepare() {
    let mut key = 0;
    // SAFETY: the functions given are valid for the life of the process: the library is never unloaded.
    unsafe {
        if libc::pthread_key_create(&raw mut key, Some(thread_ends)) == 0 {
            KEY.store(key, Ordering::Relaxed);
            HAS_KEY.store(true, Ordering::Relaxed);
        }
        libc::pthread_atfork(None, None, Some(forked));
    }
}

/// Only the thread that forked goes on in the child, and the ring is the parent's.
unsafe extern "C" fn forked() {
    ring::forget();
    cuda::forget_devices();
    THREAD.with(|thread| {
        thread.lane.set(NO_LANE);
        thread.number.set(0);
        thread.writing.set(false);
        note_lane(None);
    });
}

unsafe extern "C" fn thread_ends(_value: *mut c_void) {
    THREAD.with(|thread| {
        let lane = thread.lane.replace(NO_LANE);
        if let Some(ring) = ring::current().filter(|_| lane != NO_LANE) {
            ring.release(lane);
        }
    });
}

/// Makes the thread's end give the lane back. The key is among the first of the process, for which this allocates nothing.
fn note_lane(lane: Option<u32>) {
    if HAS_KEY.load(Ordering::Relaxed) {
        let value: *const c_void = lane.map_or(ptr::null(), |lane| ptr::without_provenance(lane as usize + 1));
        // SAFETY: the key was created and never deleted; the value is not dereferenced.
        unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), value) };
    }
}

/// Remembers the device of this thread's last event, for what comes without one.
#[inline]
pub(crate) fn set_device(device: u8) {
    THREAD.with(|thread| thread.device.set(device));
}

/// Device of this thread's last event.
pub(crate) fn device() -> u8 {
    THREAD.with(|thread| thread.device.get())
}

/// Changes the depth of this thread's NVTX ranges and returns what it was before.
pub(crate) fn deepen(by: i32) -> i32 {
    THREAD.with(|thread| thread.depth.replace(thread.depth.get().saturating_add(by).max(0)))
}

/// A driver call of this thread, from just before to just after the real one.
pub(crate) struct Call(());

impl Call {
    /// `None` if nothing is to be written: the shim is off, or this call is part of another.
    #[inline]
    pub(crate) fn enter() -> Option<Self> {
        if !settings::active() {
            return None;
        }
        THREAD.with(|thread| !thread.calling.replace(true)).then_some(Self(()))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        THREAD.with(|thread| thread.calling.set(false));
    }
}

/// Writes one event of the calling thread, now.
#[inline]
pub(crate) fn emit(kind: Kind, api: Api, device: u8, flags: u8, numbers: [u64; 4]) {
    write(|thread| {
        let meta = Meta { kind, device, api, flags, thread };
        ([Record::new(meta, ring::clock(libc::CLOCK_MONOTONIC), numbers)], 1)
    });
}

/// Writes an event with a text, now.
pub(crate) fn emit_text(kind: Kind, api: Api, id: u64, text: &[u8]) {
    let device = device();
    write(|thread| {
        let meta = Meta { kind, device, api, flags: 0, thread };
        text_records(meta, ring::clock(libc::CLOCK_MONOTONIC), id, text)
    });
}

#[inline]
fn write<const N: usize>(records: impl FnOnce(u32) -> ([Record; N], usize)) {
    THREAD.with(|thread| {
        if thread.writing.replace(true) {
            if let Some(ring) = ring::current() {
                ring.count_dropped(1);
            }
            return;
        }
        let ready = thread.lane.get() != NO_LANE || claim(thread);
        if let Some(ring) = ring::current() {
            if ready {
                let (records, count) = records(thread.number.get());
                ring.write(thread.lane.get(), records.get(..count).unwrap_or(&records));
            } else {
                ring.count_dropped(1);
            }
        }
        thread.writing.set(false);
    });
}

#[cold]
fn claim(thread: &Thread) -> bool {
    let Some(ring) = ring::current_or_new() else { return false };
    // SAFETY: gettid cannot fail.
    let number = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    thread.number.set(number);
    let Some(lane) = ring.claim(number) else { return false };
    thread.lane.set(lane);
    note_lane(Some(lane));
    true
}
