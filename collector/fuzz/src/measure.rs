//! Watches one execution: its time, its memory, and whether it ends at all.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vramscope_collector::sources::torch_snapshot::{MEMORY_FACTOR, MEMORY_FLOOR};
use vramscope_fuzz::{Target, drain, grown_by};

/// Time any input may take, and what each of its KiB may take on top: far above what is ever needed, so that only work that grows
/// faster than the input is found.
const TIME: Duration = Duration::from_secs(5);
const TIME_PER_KIB: Duration = Duration::from_millis(20);

/// Inputs from here on are read once more with nobody keeping what is said, to see what memory the reader itself takes.
const MEASURED_BYTES: usize = 64 << 10;

/// Runs targets and keeps an eye on them.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    slowest: Duration,
    most_memory: u64,
    findings: PathBuf,
}

struct Shared {
    input: Mutex<Vec<u8>>,
    /// Milliseconds since the start at which the running input must be done; 0 = none runs.
    deadline: AtomicU64,
    begin: Instant,
}

impl Watch {
    /// Starts the thread that notices inputs which never end. They are left in `findings`.
    pub(crate) fn new(findings: &Path) -> Self {
        let shared = Arc::new(Shared { input: Mutex::default(), deadline: AtomicU64::new(0), begin: Instant::now() });
        let (seen, folder) = (Arc::clone(&shared), findings.to_owned());
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let deadline = seen.deadline.load(Ordering::Acquire);
                if deadline > 0 && seen.begin.elapsed().as_millis() as u64 > deadline {
                    let input = seen.input.lock().map(|input| input.clone()).unwrap_or_default();
                    report(&folder, &input, "takes too long");
                    std::process::exit(1);
                }
            }
        });
        Self { shared, slowest: Duration::ZERO, most_memory: 0, findings: findings.to_owned() }
    }

    /// Runs `target`; ends the process if the input breaks a promise.
    pub(crate) fn run(&mut self, target: Target, input: &[u8]) -> String {
        if let Ok(mut kept) = self.shared.input.lock() {
            kept.clear();
            kept.extend_from_slice(input);
        }
        let begin = Instant::now();
        let allowed = TIME + TIME_PER_KIB * (input.len() as u32 >> 10);
        let deadline = (self.shared.begin.elapsed() + allowed).as_millis() as u64;
        self.shared.deadline.store(deadline, Ordering::Release);
        let outcome = std::panic::catch_unwind(|| target(input));
        self.slowest = self.slowest.max(begin.elapsed());
        if input.len() >= MEASURED_BYTES && outcome.is_ok() {
            self.memory(input);
        }
        self.shared.deadline.store(0, Ordering::Release);
        outcome.unwrap_or_else(|_| {
            report(&self.findings, input, "breaks a promise");
            std::process::exit(1)
        })
    }

    fn memory(&mut self, input: &[u8]) {
        let grown = grown_by(|| drop(drain(input)));
        self.most_memory = self.most_memory.max(grown);
        if grown > MEMORY_FLOOR + MEMORY_FACTOR * input.len() as u64 {
            report(&self.findings, input, &format!("takes {grown} bytes of memory"));
            std::process::exit(1);
        }
    }

    pub(crate) fn slowest(&self) -> Duration {
        self.slowest
    }

    pub(crate) fn most_memory(&self) -> u64 {
        self.most_memory
    }
}

#[expect(clippy::print_stdout, reason = "a command line tool")]
fn report(folder: &Path, input: &[u8], what: &str) {
    let path = folder.join(format!("{:016x}", hash(input)));
    let saved = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, input));
    println!("FINDING: {} {what} ({} bytes, {saved:?})", path.display(), input.len());
}

/// Reads one file. Says how it ended and what time and memory it took, and whether that is within the promise.
pub(crate) fn file(path: &Path) -> (String, bool) {
    let input = std::fs::read(path).unwrap_or_default();
    let begin = Instant::now();
    let mut end = String::new();
    let grown = grown_by(|| end = drain(&input));
    let promised = MEMORY_FLOOR + MEMORY_FACTOR * input.len() as u64;
    let each = grown as f64 / input.len().max(1) as f64;
    let seconds = begin.elapsed().as_secs_f64();
    (format!("{} bytes, {seconds:.2} s, {} MiB ({each:.0} a byte): {end}", input.len(), grown >> 20), grown <= promised)
}

/// A short name for an input.
pub(crate) fn hash(input: &[u8]) -> u64 {
    // FNV-1a.
    input.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
