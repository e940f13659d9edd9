//! What must hold for every input, and a short description of what happened.

use std::collections::BTreeMap;
use std::io::Read;

use crossbeam_channel::unbounded;
use vramscope_trace::{Dictionary, Event, EventKind, Problem, Progress, RunInfo, SourceMessage};

use crate::{Bytes, Random};

/// Everything a reader said after its last reset.
#[derive(Debug, PartialEq)]
pub struct Said {
    /// Events in order.
    pub events: Vec<Event>,
    /// Problems in order.
    pub problems: Vec<Problem>,
    /// Facts about the run, each time they were said.
    pub infos: Vec<RunInfo>,
    /// How many names, frames and stacks there are.
    pub dictionary: (u32, u32, u32),
    /// The sentence of a failure; `None` if the source ended well.
    pub failure: Option<String>,
    /// How often it began again.
    pub resets: u32,
}

/// Reads a stream and keeps what is said.
pub(crate) fn listen<'a>(source: impl Read + Send + 'a, bytes: u64) -> Said {
    let (out, messages) = unbounded();
    vramscope_collector::read_stream(source, bytes, &Progress::default(), &out);
    drop(out);
    let mut said = nothing_said();
    let mut dictionary = Dictionary::default();
    let mut ended = 0;
    for message in messages {
        assert_eq!(ended, 0, "something was said after the end");
        match message {
            SourceMessage::Batch(batch) => {
                for chunk in batch.dictionary {
                    assert!(dictionary.push(chunk), "a dictionary chunk does not continue the last one");
                }
                said.events.extend(batch.events);
                said.problems.extend(batch.problems);
            }
            SourceMessage::Reset => {
                said = Said { resets: said.resets + 1, ..nothing_said() };
                dictionary = Dictionary::default();
            }
            SourceMessage::Info(info) => said.infos.push((*info).clone()),
            SourceMessage::Done => ended += 1,
            SourceMessage::Failed(sentence) => {
                ended += 1;
                said.failure = Some(sentence);
            }
        }
    }
    assert_eq!(ended, 1, "a source ends exactly once");
    said.dictionary = dictionary.counts();
    names_are_known(&said);
    said
}

fn nothing_said() -> Said {
    Said {
        events: Vec::new(),
        problems: Vec::new(),
        infos: Vec::new(),
        dictionary: (0, 0, 0),
        failure: None,
        resets: 0,
    }
}

/// Reads `data` at once and in pieces, holds the two and the promises against each other, and describes what happened.
pub(crate) fn check(data: &[u8]) -> String {
    let bytes = data.len() as u64;
    let whole = listen(data, bytes);
    let seed = data.iter().fold(bytes, |seed, &byte| seed.rotate_left(5) ^ u64::from(byte));
    let most = 1 + Random::new(seed).below(1 + data.len().min(64) + data.len() / 256);
    let pieces = listen(Bytes::new(data, most, seed), bytes);
    assert!(same(&whole, &pieces), "what is said depends on how the input is cut into reads of up to {most} bytes");
    keeps_promises(&whole);
    signature(&whole)
}

/// Equality by what is written: a number that is none (NaN) equals itself.
pub(crate) fn same(one: &Said, other: &Said) -> bool {
    let settings = |said: &Said| format!("{:?}", said.infos);
    (&one.events, &one.problems, one.dictionary, &one.failure, one.resets)
        == (&other.events, &other.problems, other.dictionary, &other.failure, other.resets)
        && settings(one) == settings(other)
}

/// Every name and stack was told before it was used.
fn names_are_known(said: &Said) {
    let (names, _, stacks) = said.dictionary;
    for event in &said.events {
        let (name, stack) = match event.kind {
            EventKind::SegmentAlloc { stack, .. }
            | EventKind::SegmentMap { stack, .. }
            | EventKind::BlockAlloc { stack, .. }
            | EventKind::FreeRequested { stack, .. }
            | EventKind::OutOfMemory { stack, .. } => (0, stack.0),
            EventKind::AnnotationBegin { name } | EventKind::AnnotationEnd { name } | EventKind::Other { name, .. } => {
                (name.0, 0)
            }
            _ => (0, 0),
        };
        assert!(name < names.max(1) && stack < stacks.max(1), "{:?} names what was never told", event.kind);
    }
}

fn keeps_promises(said: &Said) {
    for text in said.failure.iter().chain(said.problems.iter().map(|problem| &problem.example)) {
        assert!(!text.contains("internal error"), "the reader panicked inside");
        assert!(!text.is_empty() && text.len() < 4096, "a sentence of {} bytes", text.len());
        assert!(!text.chars().any(char::is_control), "control characters in {text:?}");
    }
    let mut kinds: Vec<_> = said.problems.iter().map(|problem| problem.kind).collect();
    kinds.sort_unstable();
    assert!(kinds.windows(2).all(|pair| pair[0] != pair[1]), "a kind of problem is told twice");
    let is_note =
        |event: &&Event| matches!(event.kind, EventKind::AnnotationBegin { .. } | EventKind::AnnotationEnd { .. });
    let first = said.events.iter().position(|event| !event.kind.at_start()).unwrap_or(said.events.len());
    assert!(!said.events[first..].iter().any(|event| event.kind.at_start()), "a fact about the start comes late");
    if said.failure.is_none() {
        assert_eq!(said.infos.len(), 1, "facts about the run are told once");
        let info = &said.infos[0];
        let notes = said.events.iter().filter(is_note).count() as u64;
        assert_eq!(notes, info.annotations);
        let entries: u64 = info.entries_by_device.iter().map(|&(_, entries)| entries).sum();
        let told = (said.events.len() - first) as u64 - notes;
        assert!(entries <= told && told <= 2 * entries, "{entries} entries became {told} events");
    }
    replays(&said.events);
}

/// Replays events in a slow and obvious way: no sum may fall below zero, and each is what the live blocks add up to.
fn replays(events: &[Event]) {
    let mut blocks: BTreeMap<(u16, u64), (u64, bool)> = BTreeMap::new();
    let mut sums = [0u128; 2];
    let mut reserved = 0u128;
    let take = |sums: &mut [u128; 2], bytes: u64, pending: bool| {
        let sum = &mut sums[usize::from(pending)];
        assert!(*sum >= u128::from(bytes), "more is freed than was in use");
        *sum -= u128::from(bytes);
    };
    for event in events {
        let device = event.device.0;
        match event.kind {
            EventKind::BlockAlloc { address, bytes, .. } => {
                if let Some((old, pending)) = blocks.insert((device, address), (bytes, false)) {
                    take(&mut sums, old, pending);
                }
                sums[0] += u128::from(bytes);
            }
            EventKind::FreeRequested { address, .. } => {
                if let Some((bytes, pending @ false)) = blocks.get_mut(&(device, address)) {
                    *pending = true;
                    take(&mut sums, *bytes, false);
                    sums[1] += u128::from(*bytes);
                }
            }
            EventKind::FreeCompleted { address } => {
                if let Some((bytes, pending)) = blocks.remove(&(device, address)) {
                    take(&mut sums, bytes, pending);
                }
            }
            EventKind::SegmentAlloc { bytes, .. } | EventKind::SegmentMap { bytes, .. } => {
                reserved += u128::from(bytes);
            }
            EventKind::SegmentFree { bytes, .. } | EventKind::SegmentUnmap { bytes, .. } => {
                reserved = reserved.saturating_sub(u128::from(bytes));
            }
            _ => {}
        }
    }
    let live: u128 = blocks.values().map(|&(bytes, _)| u128::from(bytes)).sum();
    assert_eq!(live, sums[0] + sums[1], "live blocks add up to something else");
    assert!(reserved <= u128::from(u64::MAX) * events.len() as u128);
}

/// What happened, coarsely: two inputs with the same signature taught the same.
pub fn signature(said: &Said) -> String {
    let mut text: String = said.failure.as_deref().unwrap_or("done").chars().take_while(|&c| c != '(').collect();
    text.retain(|c| !c.is_ascii_digit());
    text.truncate(text.floor_char_boundary(120));
    for problem in &said.problems {
        text.push('|');
        text.push_str(problem.kind.name());
        text.extend(problem.example.chars().filter(char::is_ascii_lowercase).take(6));
    }
    let mut counts: BTreeMap<(&str, bool), u32> = BTreeMap::new();
    for event in &said.events {
        *counts.entry((event.kind.label(), event.kind.at_start())).or_default() += 1;
    }
    for ((label, at_start), count) in counts {
        text.push_str(&format!("|{label}{}{}", if at_start { "*" } else { "" }, count.ilog2().min(1)));
    }
    let devices: std::collections::BTreeSet<u16> = said.events.iter().map(|event| event.device.0).collect();
    text.push_str(&format!("|{}d{}r", devices.len().min(2), said.resets));
    text
}
