//! A slow, obvious replay of events, to hold readers against.

#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::path::Path;

use vramscope_trace::{
    Batch, Dictionary, Event, EventKind, Problem, ProblemKind, Progress, RunInfo, SourceMessage, StackId,
};

/// Reads a file and gives everything that was said after the last reset.
pub(crate) fn read(path: &Path) -> Vec<SourceMessage> {
    collect(|progress, out| vramscope_collector::read_file(path, progress, out))
}

/// Reads bytes and gives everything that was said after the last reset.
pub(crate) fn read_bytes(bytes: &[u8]) -> Vec<SourceMessage> {
    collect(|progress, out| vramscope_collector::read_bytes(bytes, progress, out))
}

fn collect(read: impl FnOnce(&Progress, &crossbeam_channel::Sender<SourceMessage>) + Send) -> Vec<SourceMessage> {
    let (out, messages) = crossbeam_channel::bounded(16);
    std::thread::scope(|scope| {
        scope.spawn(move || read(&Progress::default(), &out));
        let mut kept = Vec::new();
        for message in messages {
            if matches!(message, SourceMessage::Reset) {
                kept.clear();
            } else {
                kept.push(message);
            }
        }
        kept
    })
}

/// State of one device while its events are replayed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Device {
    pub(crate) segments: BTreeMap<u64, u64>,
    /// Address to block size, requested size, whether it waits for another stream.
    pub(crate) blocks: BTreeMap<u64, (u64, Option<u64>, bool)>,
    pub(crate) allocated: u64,
    pub(crate) reserved: u64,
    pub(crate) pending: u64,
    pub(crate) peak_allocated: u64,
    pub(crate) peak_reserved: u64,
    pub(crate) base: u64,
    pub(crate) entries: u64,
    /// Time in Unix µs, allocated and reserved after each event.
    pub(crate) curve: Vec<(i64, u64, u64)>,
}

/// All devices of a run.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) devices: BTreeMap<u16, Device>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) info: Option<RunInfo>,
    pub(crate) failed: Option<String>,
    pub(crate) events: Vec<Event>,
    pub(crate) dictionary: Dictionary,
}

impl Replay {
    /// Of bytes in memory.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self::of(&read_bytes(bytes))
    }

    /// Of everything said after the last reset. The last message, and only that, must be an end.
    pub(crate) fn of(messages: &[SourceMessage]) -> Self {
        let is_end = |message: &SourceMessage| matches!(message, SourceMessage::Done | SourceMessage::Failed(_));
        assert!(messages.last().is_some_and(is_end) && messages.iter().filter(|message| is_end(message)).count() == 1);
        let mut replay = Self::default();
        for message in messages {
            match message {
                SourceMessage::Batch(batch) => replay.batch(batch),
                SourceMessage::Info(info) => replay.info = Some((**info).clone()),
                SourceMessage::Failed(sentence) => replay.failed = Some(sentence.clone()),
                SourceMessage::Reset | SourceMessage::Done => {}
            }
        }
        replay
    }

    pub(crate) fn peaks(&self, device: u16) -> (u64, u64) {
        self.devices.get(&device).map_or((0, 0), |d| (d.peak_allocated, d.peak_reserved))
    }

    /// Allocated and reserved just before a time; `None` where an event shares its microsecond.
    pub(crate) fn before(&self, device: u16, time: i64) -> Option<(u64, u64)> {
        let curve = &self.devices.get(&device)?.curve;
        let after = curve.partition_point(|&(at, _, _)| at < time);
        if curve.get(after).is_some_and(|&(at, _, _)| at <= time + 1) {
            return None;
        }
        after.checked_sub(1).map(|index| (curve[index].1, curve[index].2))
    }

    /// The kinds of problems, sorted.
    pub(crate) fn kinds(&self) -> Vec<ProblemKind> {
        let mut kinds: Vec<ProblemKind> = self.problems.iter().map(|problem| problem.kind).collect();
        kinds.sort_unstable();
        kinds
    }

    /// The one problem of a kind; fails if there is none.
    pub(crate) fn problem(&self, kind: ProblemKind) -> &Problem {
        let found = self.problems.iter().find(|problem| problem.kind == kind);
        found.unwrap_or_else(|| panic!("no {kind} among {:?}", self.problems))
    }

    /// Every event in words, names and stacks spelled out: equal for equal files, whatever order their names came in.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |event: &Event| {
            let stack: Vec<String> = self.stack(stack_of(event)).iter().map(|frame| format!("{frame:?}")).collect();
            let name = match event.kind {
                EventKind::AnnotationBegin { name }
                | EventKind::AnnotationEnd { name }
                | EventKind::Other { name, .. } => self.dictionary.name(name),
                _ => "",
            };
            let mut words = format!("{event:?}");
            for id in ["StackId(", "NameId("] {
                while let Some(at) = words.find(id) {
                    let end = at + words[at..].find(')').unwrap() + 1;
                    words.replace_range(at..end, "_");
                }
            }
            format!("{words} {name} {}", stack.join(" < "))
        };
        self.events.iter().map(line).collect()
    }

    /// File, line and function of each frame of a stack, innermost first.
    pub(crate) fn stack(&self, id: StackId) -> Vec<(String, u32, String)> {
        let frames = self.dictionary.stack(id).iter().map(|&frame| self.dictionary.frame(frame).unwrap());
        let text = |name| self.dictionary.name(name).to_owned();
        frames.map(|frame| (text(frame.file), frame.line, text(frame.function))).collect()
    }

    /// The device that exactly one has events on.
    pub(crate) fn device(&self) -> &Device {
        assert_eq!(self.devices.len(), 1, "{:?}", self.devices.keys());
        self.devices.values().next().unwrap()
    }

    fn batch(&mut self, batch: &Batch) {
        for chunk in &batch.dictionary {
            assert!(self.dictionary.push(chunk.clone()), "a dictionary chunk does not continue the last one");
        }
        self.problems.extend(batch.problems.iter().cloned());
        for event in &batch.events {
            self.events.push(*event);
            self.devices.entry(event.device.0).or_default().event(event);
        }
    }
}

impl Device {
    /// Applies one event.
    pub(crate) fn event(&mut self, event: &Event) {
        match event.kind {
            EventKind::SegmentAlloc { address, bytes, .. } | EventKind::SegmentMap { address, bytes, .. } => {
                self.segments.insert(address, bytes);
                self.reserved += bytes;
            }
            EventKind::SegmentFree { address, bytes } => {
                self.segments.remove(&address);
                self.reserved = self.reserved.saturating_sub(bytes);
            }
            EventKind::SegmentUnmap { bytes, .. } => self.reserved = self.reserved.saturating_sub(bytes),
            EventKind::BlockAlloc { address, bytes, requested, at_start, .. } => {
                match self.blocks.insert(address, (bytes, requested, false)) {
                    Some((old, _, false)) => self.allocated -= old,
                    Some((old, _, true)) => self.pending -= old,
                    None => {}
                }
                self.allocated += bytes;
                self.base += if at_start { bytes } else { 0 };
            }
            EventKind::FreeRequested { address, at_start, .. } => {
                if let Some((bytes, _, waits @ false)) = self.blocks.get_mut(&address) {
                    *waits = true;
                    self.allocated -= *bytes;
                    self.pending += *bytes;
                    self.base -= if at_start { *bytes } else { 0 };
                }
            }
            EventKind::FreeCompleted { address } => match self.blocks.remove(&address) {
                Some((bytes, _, true)) => self.pending -= bytes,
                Some((bytes, _, false)) => self.allocated -= bytes,
                None => {}
            },
            EventKind::AnnotationBegin { .. } | EventKind::AnnotationEnd { .. } => return,
            _ => {}
        }
        self.entries += u64::from(!event.kind.at_start());
        self.peak_allocated = self.peak_allocated.max(self.allocated);
        self.peak_reserved = self.peak_reserved.max(self.reserved);
        self.curve.push((event.time.map_or(i64::MIN, vramscope_trace::TimeNs::micros), self.allocated, self.reserved));
    }
}

/// The stack an event carries.
pub(crate) fn stack_of(event: &Event) -> StackId {
    match event.kind {
        EventKind::SegmentAlloc { stack, .. }
        | EventKind::SegmentMap { stack, .. }
        | EventKind::BlockAlloc { stack, .. }
        | EventKind::FreeRequested { stack, .. }
        | EventKind::OutOfMemory { stack, .. } => stack,
        _ => StackId::NONE,
    }
}
