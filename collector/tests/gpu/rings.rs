//! Reads the rings of a job: `rings FOLDER` prints its events as JSON lines, `rings --dump FILE` one ring as text,
//! `rings --ask FOLDER` asks the job for snapshots, `rings --follow FOLDER SECONDS` counts the events of a running job.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use vramscope_collector::sources::shim::{RingFile, ShimSource, dump};
use vramscope_trace::{Event, EventKind, Interner};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["--dump", file] => dump_one(Path::new(file)),
        ["--ask", folder] => ask(Path::new(folder)),
        ["--follow", folder, seconds] => follow(Path::new(folder), seconds.parse().unwrap_or(10.0)),
        [folder] => lines(Path::new(folder)),
        _ => Err("usage: rings FOLDER | --dump FILE | --ask FOLDER | --follow FOLDER SECONDS".to_owned()),
    };
    if let Err(sentence) = result {
        let _ = writeln!(std::io::stderr(), "{sentence}");
        std::process::exit(1);
    }
}

fn dump_one(path: &Path) -> Result<(), String> {
    let opened = RingFile::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut ring = opened.ok_or("the ring is not finished")?;
    print(&dump(&mut ring))
}

fn print(text: &str) -> Result<(), String> {
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

fn ask(folder: &Path) -> Result<(), String> {
    let mut source = ShimSource::new(folder);
    source.poll(&mut Interner::new(), &mut Vec::new());
    source.ask_for_snapshots().map_err(|error| error.to_string())
}

/// One JSON line an event, after a line a process; the last line counts the problems.
fn lines(folder: &Path) -> Result<(), String> {
    let (mut source, mut names, mut events) = (ShimSource::new(folder), Interner::new(), Vec::new());
    source.finish(&mut names, &mut events);
    let mut text = String::new();
    for process in source.processes() {
        let rank = process.rank.map_or("null".to_owned(), |rank| rank.to_string());
        text.push_str(&format!(
            "{{\"kind\":\"process\",\"pid\":{},\"parent\":{},\"rank\":{rank},\"lost\":{},\"devices\":{:?}}}\n",
            process.process.0,
            process.parent.0,
            process.lost,
            process.devices.iter().map(|(_, uuid)| uuid).collect::<Vec<_>>()
        ));
    }
    for event in &events {
        text.push_str(&line(event, &names));
    }
    for problem in source.take_problems() {
        text.push_str(&format!(
            "{{\"kind\":\"problem\",\"name\":\"{}\",\"count\":{},\"example\":{:?}}}\n",
            problem.kind, problem.count, problem.example
        ));
    }
    print(&text)
}

fn line(event: &Event, names: &Interner) -> String {
    let time = event.time.map_or(0, |time| time.0);
    let rest = match event.kind {
        EventKind::SegmentAlloc { address, bytes, .. }
        | EventKind::SegmentFree { address, bytes }
        | EventKind::SegmentMap { address, bytes, .. }
        | EventKind::SegmentUnmap { address, bytes }
        | EventKind::BlockAlloc { address, bytes, .. } => format!("\"address\":{address},\"bytes\":{bytes}"),
        EventKind::FreeRequested { address, .. } | EventKind::FreeCompleted { address } => {
            format!("\"address\":{address}")
        }
        EventKind::OutOfMemory { requested, device_free, .. } => {
            let free = device_free.map_or("null".to_owned(), |free| free.to_string());
            format!("\"requested\":{requested},\"device_free\":{free}")
        }
        EventKind::AnnotationBegin { name } | EventKind::AnnotationEnd { name } | EventKind::Mark { name } => {
            format!("\"name\":{:?}", names.text(name))
        }
        EventKind::CounterSample { counter, value } => format!("\"counter\":\"{counter:?}\",\"value\":{value}"),
        EventKind::LostEvents { count } => format!("\"count\":{count}"),
        EventKind::Other { name, address, bytes } => {
            format!("\"name\":{:?},\"address\":{address},\"bytes\":{bytes}", names.text(name))
        }
    };
    let (pid, device, kind) = (event.process.0, event.device.0, event.kind.label());
    format!("{{\"kind\":\"{kind}\",\"t\":{time},\"pid\":{pid},\"device\":{device},{rest}}}\n")
}

/// Follows a running job and prints, as one JSON line, how many events of each kind came and how many were lost.
fn follow(folder: &Path, seconds: f64) -> Result<(), String> {
    let (mut source, mut names) = (ShimSource::new(folder), Interner::new());
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut events = Vec::new();
    let mut seen_alive = false;
    while Instant::now() < end {
        source.poll(&mut names, &mut events);
        count(&mut events, &mut counts);
        let alive = source.processes().any(|process| process.alive);
        if seen_alive && !alive {
            break;
        }
        seen_alive |= alive;
        std::thread::sleep(Duration::from_millis(2));
    }
    source.finish(&mut names, &mut events);
    count(&mut events, &mut counts);
    let lost: u64 = source.processes().map(|process| process.lost).sum();
    let counts: Vec<String> = counts.iter().map(|(kind, count)| format!("\"{kind}\":{count}")).collect();
    print(&format!("{{\"lost\":{lost},{}}}\n", counts.join(",")))
}

fn count(events: &mut Vec<Event>, counts: &mut BTreeMap<&str, u64>) {
    for event in events.drain(..) {
        *counts.entry(event.kind.label()).or_default() += 1;
    }
}
