//! The ring file of this process: made at the first event, mapped, shared with whoever reads it.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use libc::{c_char, c_int, c_void};
use vramscope_wire::{Header, Layout, Record, write_records};

use crate::settings;

const LONGEST_PATH: usize = 1024;

/// A mapped ring file. Lives in a page of its own and is never taken down: other threads may be using it until the process ends.
pub(crate) struct Ring {
    words: &'static [AtomicU64],
    layout: Layout,
    path: [u8; LONGEST_PATH],
}

static CURRENT: AtomicPtr<Ring> = AtomicPtr::new(ptr::null_mut());

/// The ring, if one was made.
#[inline]
pub(crate) fn current() -> Option<&'static Ring> {
    // SAFETY: CURRENT is null or points to a Ring that was complete before it was stored and is never freed.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// After a fork, in the child: the ring is the parent's.
pub(crate) fn forget() {
    CURRENT.store(ptr::null_mut(), Ordering::Release);
}

/// The ring; makes it if there is none. Threads that come here together each make a file, and all but one take theirs away again:
/// nobody waits.
#[cold]
pub(crate) fn current_or_new() -> Option<&'static Ring> {
    if let Some(ring) = current() {
        return Some(ring);
    }
    let made = make();
    match CURRENT.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) if made.is_null() => {
            settings::set_active(false);
            None
        }
        Ok(_) => {
            let ring = current()?;
            ring.announce();
            Some(ring)
        }
        Err(_) => {
            // SAFETY: what `make` returned is null or a complete Ring that only this thread knows.
            if let Some(mine) = unsafe { made.as_ref() } {
                mine.discard();
            }
            current()
        }
    }
}

impl Ring {
    /// Writes records to a lane that belongs to the calling thread.
    #[inline]
    pub(crate) fn write(&self, lane: u32, records: &[Record]) {
        write_records(self.words, self.layout, lane, records);
    }

    /// Counts events that could not be written.
    pub(crate) fn count_dropped(&self, count: u64) {
        if let Some(dropped) = self.words.get(Layout::DROPPED) {
            dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn snapshots_asked(&self) -> u64 {
        self.words.get(Layout::SNAPSHOTS_ASKED).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    pub(crate) fn set_rank(&self, rank: u32) {
        if let Some(word) = self.words.get(Layout::SHAPE) {
            word.store(Header::shape(self.layout, Some(rank)), Ordering::Relaxed);
        }
    }

    /// Finds a lane for thread `thread` (not 0) and makes sure that writing to it cannot fail.
    pub(crate) fn claim(&self, thread: u32) -> Option<u32> {
        let lane = (0..self.layout.lanes()).find(|&lane| {
            self.words.get(self.layout.owner(lane)).is_some_and(|owner| {
                owner.compare_exchange(0, u64::from(thread), Ordering::AcqRel, Ordering::Relaxed).is_ok()
            })
        })?;
        if self.reserve(lane) {
            return Some(lane);
        }
        self.release(lane);
        None
    }

    /// Gives a lane back, with everything written to it.
    pub(crate) fn release(&self, lane: u32) {
        if let Some(owner) = self.words.get(self.layout.owner(lane)) {
            owner.store(0, Ordering::Release);
        }
    }

    /// Takes the memory of a lane now: on a full file system a store to it would kill the program.
    fn reserve(&self, lane: u32) -> bool {
        // SAFETY: the path ends with a zero byte. The descriptor is closed at once, so the program never sees it.
        unsafe {
            let file = libc::open(self.path.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC);
            if file < 0 {
                return false;
            }
            let start = self.layout.first_record(lane) as i64 * 8;
            let result = libc::posix_fallocate(file, start, self.layout.lane_bytes() as i64);
            libc::close(file);
            result == 0
        }
    }

    /// From now on readers accept the file.
    fn announce(&self) {
        let header = header(self.layout);
        for (word, value) in self.words.iter().zip(header.words()).skip(1) {
            word.store(value, Ordering::Relaxed);
        }
        if let Some(magic) = self.words.first() {
            magic.store(vramscope_wire::MAGIC, Ordering::Release);
        }
    }

    fn discard(&self) {
        // SAFETY: the path ends with a zero byte; the mapping belongs to this Ring, which nobody else knows.
        unsafe {
            libc::unlink(self.path.as_ptr().cast());
            libc::munmap(self.words.as_ptr().cast_mut().cast(), self.layout.file_bytes() as usize);
        }
    }
}

fn header(layout: Layout) -> Header {
    let mut name = [0; 16];
    // SAFETY: PR_GET_NAME writes at most 16 bytes; getpid and getppid cannot fail.
    let (pid, parent) = unsafe {
        libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr());
        (libc::getpid(), libc::getppid())
    };
    Header {
        layout,
        pid: pid as u32,
        parent: parent as u32,
        rank: settings::rank(),
        unix_ns: clock(libc::CLOCK_REALTIME),
        monotonic_ns: clock(libc::CLOCK_MONOTONIC),
        name,
    }
}

/// Time in ns.
#[inline]
pub(crate) fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local of the right type. On Linux this is a call into the vDSO, no system call.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Makes and maps a file nobody else has; null if that fails.
fn make() -> *mut Ring {
    let (Some(layout), Some(folder)) = (settings::layout(), settings::folder()) else { return ptr::null_mut() };
    let mut path = [0; LONGEST_PATH];
    let Some(file) = create(folder, &mut path) else { return ptr::null_mut() };
    let words = map_file(file, layout);
    // SAFETY: the descriptor is ours; a mapping outlives it.
    unsafe { libc::close(file) };
    let Some(words) = words else {
        // SAFETY: the path ends with a zero byte.
        unsafe { libc::unlink(path.as_ptr().cast()) };
        return ptr::null_mut();
    };
    // SAFETY: a fresh private mapping, larger than a Ring and aligned to a page.
    let home = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size_of::<Ring>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if home == libc::MAP_FAILED {
        return ptr::null_mut();
    }
    let home: *mut Ring = home.cast();
    // SAFETY: `home` is valid for a Ring and nobody else knows it.
    unsafe { home.write(Ring { words, layout, path }) };
    home
}

/// Creates `FOLDER/PID-N.ring` with the first free N: a process that replaced itself by exec has the number of the one before.
fn create(folder: &[u8], path: &mut [u8; LONGEST_PATH]) -> Option<c_int> {
    for attempt in 0..1000 {
        let mut text = Path { bytes: path, length: 0 };
        text.add(folder)?;
        text.add(b"/")?;
        // SAFETY: getpid cannot fail.
        text.add_number(unsafe { libc::getpid() } as u32)?;
        text.add(b"-")?;
        text.add_number(attempt)?;
        text.add(b".ring\0")?;
        // SAFETY: the path ends with a zero byte.
        let file = unsafe {
            let name: *const c_char = path.as_ptr().cast();
            libc::open(name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC, 0o600)
        };
        if file >= 0 {
            return Some(file);
        }
        // SAFETY: errno of this thread.
        if unsafe { *libc::__errno_location() } != libc::EEXIST {
            return None;
        }
    }
    None
}

fn map_file(file: c_int, layout: Layout) -> Option<&'static [AtomicU64]> {
    let bytes = layout.file_bytes() as usize;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // Growing a file past the limit would kill the program with SIGXFSZ.
    // SAFETY: the pointer is to a local.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } != 0 || limit.rlim_cur < bytes as u64 {
        return None;
    }
    // SAFETY: plain calls on a descriptor of ours. The mapping is page-aligned, as long as the file, and never taken down while
    // anyone holds the slice; its head is backed by storage here, each lane before its first use.
    unsafe {
        if libc::ftruncate(file, bytes as i64) != 0 || libc::posix_fallocate(file, 0, layout.head_bytes() as i64) != 0 {
            return None;
        }
        let start = libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file, 0);
        if start == libc::MAP_FAILED {
            return None;
        }
        // A core dump should hold the job's memory, not ours.
        libc::madvise(start, bytes, libc::MADV_DONTDUMP);
        Some(core::slice::from_raw_parts(start.cast::<c_void>().cast(), bytes / 8))
    }
}

/// Puts a path together without allocating.
struct Path<'a> {
    bytes: &'a mut [u8; LONGEST_PATH],
    length: usize,
}

impl Path<'_> {
    fn add(&mut self, part: &[u8]) -> Option<()> {
        let end = self.length + part.len();
        self.bytes.get_mut(self.length..end)?.copy_from_slice(part);
        self.length = end;
        Some(())
    }

    fn add_number(&mut self, mut number: u32) -> Option<()> {
        let mut digits = [b'0'; 10];
        let mut first = digits.len();
        loop {
            first -= 1;
            digits[first] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.add(&digits[first..])
    }
}
