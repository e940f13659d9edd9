//! `vramscope explain`: what an out-of-memory message means. Reads it out of any text: a log, a traceback, a chat.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use vramscope_model::{Capacity, CapacitySource, MessageFigures, OomMessage, explain, messages};

use super::complain;
use super::why::{CapacityFields, WhyFields};
use crate::widgets::bytes;

/// How many characters the bar has.
const BAR: u64 = 60;

/// What to explain.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  vramscope explain train.log\n  python train.py 2>&1 | vramscope explain\n  vramscope explain train.log --json | jq .why.cause"
)]
pub(super) struct ExplainArguments {
    /// A text with a message in it; stdin if left out or `-`
    file: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// What a message says and means. Bytes; `null` = not told.
#[derive(Serialize)]
struct Explanation {
    /// How many messages the text has; this is the last.
    messages: usize,
    format: &'static str,
    backend: &'static str,
    device: Option<u32>,
    requested_bytes: Option<u64>,
    card_bytes: Option<u64>,
    free_bytes: Option<u64>,
    allowed_bytes: Option<u64>,
    allocated_bytes: Option<u64>,
    private_pools_bytes: Option<u64>,
    reserved_unallocated_bytes: Option<u64>,
    reserved_bytes: Option<u64>,
    process_bytes: Option<u64>,
    non_framework_bytes: Option<u64>,
    other_processes_bytes: Option<u64>,
    unaccounted_bytes: Option<u64>,
    processes: Vec<Process>,
    capacity: CapacityFields,
    why: WhyFields,
}

/// A process that the message lists.
#[derive(Serialize)]
struct Process {
    pid: u64,
    bytes: Option<u64>,
    /// Whether it must be the process that wrote the message, under the PID of another namespace.
    own: bool,
}

/// Reads a text and writes what its last message means to stdout.
pub(super) fn run(arguments: &ExplainArguments) -> Result<(), String> {
    let text = read(arguments)?;
    let found = messages(&String::from_utf8_lossy(&text));
    let message = found.last().ok_or("the text has no out-of-memory message of PyTorch in it")?;
    let explanation = Explanation::of(message, found.len());
    let out = if arguments.json {
        let encoded = serde_json::to_string_pretty(&explanation);
        encoded.map_err(|error| format!("the answer cannot be written as JSON: {error}"))? + "\n"
    } else {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = explanation.write(message, &mut out);
        out
    };
    match io::stdout().lock().write_all(out.as_bytes()) {
        // Someone who pipes into `head` has seen enough.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("the answer cannot be written: {error}"))
        }
        _ => Ok(()),
    }
}

fn read(arguments: &ExplainArguments) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    match arguments.file.as_ref().filter(|file| file.as_os_str() != "-") {
        Some(file) => {
            text = std::fs::read(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
        }
        None => {
            if io::stdin().is_terminal() {
                complain("paste the message, then press Ctrl-D");
            }
            io::stdin().lock().read_to_end(&mut text).map_err(|error| format!("stdin cannot be read: {error}"))?;
        }
    }
    Ok(text)
}

impl Explanation {
    fn of(message: &OomMessage, messages: usize) -> Self {
        let figures = message.figures();
        let capacity = match (message.allowed, message.card) {
            (Some(allowed), _) => {
                Capacity { bytes: Some(allowed), source: CapacitySource::MemoryFraction, ..Capacity::default() }
            }
            (None, Some(card)) => Capacity { bytes: Some(card), source: CapacitySource::Card, ..Capacity::default() },
            (None, None) => Capacity::default(),
        };
        let process = |process: &vramscope_model::ProcessUse| Process {
            pid: process.pid,
            bytes: process.bytes,
            own: figures.own_pid == Some(process.pid),
        };
        Self {
            messages,
            format: message.format.name(),
            backend: message.backend,
            device: message.device,
            requested_bytes: message.requested,
            card_bytes: message.card,
            free_bytes: message.free,
            allowed_bytes: message.allowed,
            allocated_bytes: message.allocated,
            private_pools_bytes: message.private_pools,
            reserved_unallocated_bytes: message.unallocated,
            reserved_bytes: message.reserved,
            process_bytes: figures.this_process,
            non_framework_bytes: figures.non_framework,
            other_processes_bytes: figures.other_processes,
            unaccounted_bytes: figures.unaccounted,
            processes: message.processes.iter().map(process).collect(),
            capacity: capacity.into(),
            why: WhyFields::of_message(explain(message)),
        }
    }

    fn write(&self, message: &OomMessage, out: &mut String) -> std::fmt::Result {
        write!(out, "{} out of memory", self.backend)?;
        if let Some(device) = self.device {
            write!(out, " on GPU {device}")?;
        }
        if let Some(requested) = self.requested_bytes {
            write!(out, ": {} asked for", bytes::text(requested))?;
        }
        if self.messages > 1 {
            write!(out, " (the last of {} messages)", self.messages)?;
        }
        writeln!(out, "\n")?;
        write_bar(message, &message.figures(), out)?;
        if let Some(allowed) = self.allowed_bytes {
            writeln!(out, "  PyTorch may reserve {}, by its own limit\n", bytes::text(allowed))?;
        }
        self.why.write("  ", out)
    }
}

/// A part of the card.
struct Part {
    sign: char,
    name: &'static str,
    bytes: Option<u64>,
}

/// Where the card's memory went, as a bar and its parts.
fn write_bar(message: &OomMessage, figures: &MessageFigures, out: &mut String) -> std::fmt::Result {
    let part = |sign, name, bytes| Part { sign, name, bytes };
    let parts = [
        part('\u{2588}', "in use by PyTorch", figures.in_use),
        part('\u{2593}', "held free by private pools", message.private_pools),
        part('\u{2592}', "reserved by PyTorch, not in use", message.unallocated),
        part('\u{256a}', "this process outside PyTorch", figures.non_framework),
        part('\u{2591}', "other processes", figures.other_processes),
        part('?', "not accounted for", figures.unaccounted.filter(|bytes| *bytes > 0)),
        part('\u{b7}', "free", message.free),
    ];
    let Some(card) = message.card else { return Ok(()) };
    let sum: u64 = parts.iter().filter_map(|part| part.bytes).fold(0, u64::saturating_add);
    let whole = card.max(sum).max(1);
    let mut line = String::new();
    let mut until = 0_u64;
    for part in &parts {
        until = until.saturating_add(part.bytes.unwrap_or(0));
        let end = (u128::from(until) * u128::from(BAR) / u128::from(whole)) as usize;
        let drawn = line.chars().count();
        line.extend(std::iter::repeat_n(part.sign, end.saturating_sub(drawn)));
    }
    let excess = if sum > card { format!(", {} too much", bytes::text(sum - card)) } else { String::new() };
    writeln!(out, "  {line}  of {}{excess}", bytes::text(card))?;
    for part in &parts {
        let unknown = part.sign == '?' || part.sign == '\u{2593}';
        if part.bytes.is_some() || !unknown {
            writeln!(out, "  {} {:<33}{:>12}", part.sign, part.name, bytes::maybe(part.bytes))?;
        }
    }
    if let Some(pid) = figures.own_pid {
        writeln!(out, "  this process is the one listed as {pid}, its number in another namespace")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_shows_every_part_to_scale() {
        let text = "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 60.00 GiB of which 3.00 GiB is free. \
            Including non-PyTorch memory, this process has 27.00 GiB memory in use. Process 5 has 30.00 GiB memory in use. Of the \
            allocated memory 20.00 GiB is allocated by PyTorch, and 5.00 GiB is reserved by PyTorch but unallocated.";
        let message = messages(text).remove(0);
        let mut out = String::new();
        write_bar(&message, &message.figures(), &mut out).unwrap();
        let bar = out.lines().next().unwrap();
        let count = |sign: char| bar.chars().filter(|letter| *letter == sign).count();
        let counts = ['\u{2588}', '\u{2592}', '\u{256a}', '\u{2591}', '\u{b7}'].map(count);
        assert_eq!(counts, [20, 5, 2, 30, 3], "{out}");
        assert!(bar.ends_with("of 60.00 GiB") && !out.contains("private") && !out.contains("not accounted"), "{out}");
    }
}
