//! How fast large recordings open: `cargo bench -p vramscope`. Prints each figure beside a baseline measured in the same run.
//!
//! Needs `python3` (it makes the files and is the baseline) and the recordings in `../shared`; with `Xvfb` and its libraries
//! installed, opening is measured in a real window, otherwise up to the first picture painted off-screen.
#![allow(clippy::print_stdout, reason = "what a benchmark is for")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vramscope_model::{History, Ingest, Position};
use vramscope_trace::{Progress, SourceMessage};

/// A file to measure on, as `make_snapshot.py` makes it.
struct Case {
    name: &'static str,
    recording: &'static str,
    entries: u32,
    copies: u32,
}

const CASES: [Case; 4] = [
    Case { name: "light 30 k", recording: "varlen_default", entries: 30_000, copies: 1 },
    Case { name: "light 300 k", recording: "varlen_default", entries: 300_000, copies: 1 },
    Case { name: "light 2.7 M", recording: "varlen_default", entries: 2_700_000, copies: 1 },
    Case { name: "heavy 2.7 M", recording: "gpt_no_set_to_none", entries: 2_700_000, copies: 52 },
];

/// Measured runs of each thing; the median counts.
const RUNS: usize = 5;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let shared = root.join("../shared");
    if !shared.is_dir() {
        println!("skipped: the recordings in {} are not here", shared.display());
        return;
    }
    let folder = root.join("target/bench");
    if let Err(error) = std::fs::create_dir_all(&folder) {
        println!("skipped: {} cannot be made: {error}", folder.display());
        return;
    }
    let display = Display::start();
    println!("opening to interactive is measured {}", display.how());
    println!(
        "{:<12} {:>9} {:>8} | {:>9} {:>8} {:>7} | {:>9} {:>9} | {:>8} {:>8} | {:>9} {:>9}",
        "file",
        "entries",
        "MB",
        "pickle",
        "parse",
        "times",
        "ingest",
        "events/s",
        "open",
        "peak/MB",
        "seek µs",
        "times"
    );
    let mut opens = Vec::new();
    for case in &CASES {
        match measure(case, &shared, &folder, &display) {
            Ok(seconds) => opens.push(seconds),
            Err(sentence) => println!("{:<12} {sentence}", case.name),
        }
    }
    if let [_, small, large, _] = opens[..] {
        println!(
            "from 300 k to 2.7 M entries parsing and ingesting takes {:.1} times as long (9 = linear)",
            large / small
        );
    }
}

/// Prints one line; returns the seconds that reading and ingesting take.
fn measure(case: &Case, shared: &Path, folder: &Path, display: &Display) -> Result<f64, String> {
    let file = make(case, shared, folder)?;
    let bytes = std::fs::metadata(&file).map_err(|error| error.to_string())?.len();
    let megabytes = bytes as f64 / 1e6;
    let python = python_seconds(&file)?;
    let parse = median(|| time(|| read(&file, |_| {})));
    let mut history = None;
    let both = median(|| {
        let begin = Instant::now();
        history = Some(load(&file));
        begin.elapsed().as_secs_f64()
    });
    let history = history.ok_or("nothing was read")?;
    let ingest = ingest_seconds(&file);
    let (open, peak) = open_seconds(&file, display)?;
    let (seek, replay) = seeks(&history);
    println!(
        "{:<12} {:>9} {megabytes:>8.1} | {python:>8.3}s {parse:>7.3}s {:>6.1}x | {ingest:>8.3}s {:>8.1}M | {open:>7.3}s {peak:>8.0} | {:>9.1} {:>8.0}x",
        case.name,
        history.end().0,
        python / parse,
        f64::from(history.end().0) / ingest / 1e6,
        seek * 1e6,
        replay / seek
    );
    Ok(both)
}

fn make(case: &Case, shared: &Path, folder: &Path) -> Result<PathBuf, String> {
    let file = folder.join(format!("{}.pickle", case.name.replace([' ', '.'], "_")));
    if file.is_file() {
        return Ok(file);
    }
    let recording = shared.join("corpus").join(case.recording);
    let unfinished = file.with_extension("unfinished");
    let status = Command::new("python3")
        .arg(shared.join("tools/make_snapshot.py"))
        .args([recording.with_extension("pickle.gz"), recording.with_extension("json")])
        .args(["--entries", &case.entries.to_string(), "--copies", &case.copies.to_string(), "-o"])
        .arg(&unfinished)
        .stdout(Stdio::null())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("skipped: python3 could not make the file".into());
    }
    std::fs::rename(&unfinished, &file).map_err(|error| error.to_string())?;
    Ok(file)
}

/// Runs a command under Python's clock: wall seconds and peak memory in MB.
fn run_measured(command: &[String]) -> Result<(f64, f64), String> {
    const SCRIPT: &str = "import subprocess,sys,time,resource\n\
        t=time.perf_counter(); r=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL)\n\
        t=time.perf_counter()-t; print(t,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1000,r.returncode)";
    let output = Command::new("python3").arg("-c").arg(SCRIPT).args(command.iter()).output();
    let output = output.map_err(|error| format!("skipped: python3 cannot be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [seconds, megabytes, 0.0] => Ok((seconds, megabytes)),
        _ => Err(format!("{} failed", command.join(" "))),
    }
}

fn python_seconds(file: &Path) -> Result<f64, String> {
    let script = "import pickle,sys,time; f=open(sys.argv[1],'rb'); t=time.perf_counter(); pickle.load(f); print(time.perf_counter()-t)";
    let output = Command::new("python3").args(["-c", script]).arg(file).output();
    let output = output.map_err(|error| format!("skipped: python3 cannot be run: {error}"))?;
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .map_err(|_| "skipped: python3 could not load the file".into())
}

fn open_seconds(file: &Path, display: &Display) -> Result<(f64, f64), String> {
    let mut seconds = Vec::new();
    let mut most = 0.0f64;
    for _ in 0..RUNS {
        let (wall, peak) = run_measured(&display.command(file))?;
        seconds.push(wall);
        most = most.max(peak);
    }
    seconds.sort_by(f64::total_cmp);
    Ok((seconds[RUNS / 2], most))
}

fn read(file: &Path, mut take: impl FnMut(SourceMessage)) {
    let (out, messages) = crossbeam_channel::bounded(16);
    std::thread::scope(|scope| {
        scope.spawn(move || vramscope_collector::read_file(file, &Progress::default(), &out));
        messages.into_iter().for_each(&mut take);
    });
}

fn load(file: &Path) -> History {
    let mut ingest = Ingest::new();
    read(file, |message| match message {
        SourceMessage::Batch(batch) => ingest.push(batch),
        SourceMessage::Reset => ingest = Ingest::new(),
        SourceMessage::Info(info) => ingest.set_info(info),
        SourceMessage::Done | SourceMessage::Failed(_) => {}
    });
    ingest.history()
}

/// Seconds to ingest what was read before.
fn ingest_seconds(file: &Path) -> f64 {
    let mut batches = Vec::new();
    read(file, |message| match message {
        SourceMessage::Batch(batch) => batches.push(batch),
        SourceMessage::Reset => batches.clear(),
        _ => {}
    });
    median(|| {
        let batches = batches.clone();
        let mut ingest = Ingest::new();
        time(|| batches.into_iter().for_each(|batch| ingest.push(batch)))
    })
}

/// Seconds of a seek to a random instant (median), and of replaying everything from the start to the middle instead.
fn seeks(history: &History) -> (f64, f64) {
    let end = history.end().0;
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut seconds: Vec<f64> = (0..400)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = Position(((u64::from(end) * (state >> 33)) >> 31) as u32);
            time(|| drop(std::hint::black_box(history.snapshot_at(at))))
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    let middle = end / 2;
    let replay = time(|| {
        let mut live = std::collections::BTreeMap::new();
        for block in (0..history.blocks()).filter_map(|id| history.block(vramscope_model::BlockId(id))) {
            if block.allocated.0 <= middle && block.free_completed.is_none_or(|freed| freed.0 > middle) {
                live.insert(block.address, block);
            }
        }
        std::hint::black_box(&live);
    });
    (seconds[seconds.len() / 2], replay)
}

fn time(run: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    run();
    begin.elapsed().as_secs_f64()
}

fn median(mut run: impl FnMut() -> f64) -> f64 {
    let mut seconds: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    seconds.sort_by(f64::total_cmp);
    seconds[RUNS / 2]
}

/// A display to open windows on, if there is one.
struct Display {
    server: Option<Child>,
    number: String,
    binary: Arc<str>,
}

impl Display {
    fn start() -> Self {
        let number = format!(":{}", 300 + std::process::id() % 600);
        let server = Command::new("Xvfb")
            .args([&number, "-screen", "0", "1280x800x24", "-nolisten", "tcp"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok();
        if server.is_some() {
            std::thread::sleep(Duration::from_secs(1));
        }
        Self { server, number, binary: env!("CARGO_BIN_EXE_vramscope").into() }
    }

    fn how(&self) -> &'static str {
        match self.server {
            Some(_) => "from process start to the first complete frame of a real window, and the end of the process",
            None => "from process start to the picture of the whole window, written (no Xvfb here)",
        }
    }

    fn command(&self, file: &Path) -> Vec<String> {
        let file = file.display().to_string();
        match self.server {
            Some(_) => vec![
                "env".into(),
                format!("DISPLAY={}", self.number),
                self.binary.to_string(),
                "open".into(),
                file,
                "--quit-when-ready".into(),
            ],
            None => vec![self.binary.to_string(), "open".into(), file, "--png".into(), "/dev/null".into()],
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            // Both fail only if it is gone already.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
