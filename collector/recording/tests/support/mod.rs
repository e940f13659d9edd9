//! What the tests share: everything a source said, events made of few bytes, and a small story with a bit of everything.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

use vramscope_recording::{Reader, Writer};
use vramscope_trace::{
    AllocatorSettings, Batch, Counter, DeviceId, Dictionary, Event, EventKind, Frame, FrameId, Interner, NameId,
    Origin, Pool, PoolOwner, Problem, ProblemKind, ProcessId, RunInfo, SizeClass, SourceMessage, StackId, StreamId,
    TimeNs,
};

/// Everything a source said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Said {
    pub(crate) events: Vec<Event>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) info: Option<RunInfo>,
    /// Names, frames, stacks.
    pub(crate) names: Vec<String>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) stacks: Vec<Vec<FrameId>>,
    pub(crate) failure: Option<String>,
}

impl Said {
    /// Takes messages to the end.
    pub(crate) fn of(messages: impl IntoIterator<Item = SourceMessage>) -> Self {
        let mut said = Self::default();
        let mut dictionary = Dictionary::default();
        let mut ended = false;
        for message in messages {
            assert!(!ended, "something comes after the end");
            match message {
                SourceMessage::Batch(batch) => {
                    for chunk in batch.dictionary {
                        assert!(dictionary.push(chunk));
                    }
                    said.events.extend(batch.events);
                    for problem in batch.problems {
                        Problem::note(&mut said.problems, problem.kind, problem.count, || problem.example);
                    }
                }
                SourceMessage::Info(info) => said.info = Some((*info).clone()),
                SourceMessage::Reset => said = Self::default(),
                SourceMessage::Done => ended = true,
                SourceMessage::Failed(sentence) => {
                    ended = true;
                    said.failure = Some(sentence);
                }
            }
        }
        assert!(ended, "the source does not end");
        let (names, frames, stacks) = dictionary.counts();
        said.names = (0..names).map(|id| dictionary.name(NameId(id)).to_owned()).collect();
        said.frames = (0..frames).map(|id| dictionary.frame(FrameId(id)).unwrap()).collect();
        said.stacks = (0..stacks).map(|id| dictionary.stack(StackId(id)).to_vec()).collect();
        said
    }

    /// Reads a recording.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut reader = Reader::new(bytes);
        Self::of(std::iter::from_fn(|| reader.next_message()))
    }
}

/// A recording of batches, flushed after each.
pub(crate) fn recorded(batches: &[Batch], info: Option<&RunInfo>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for batch in batches {
        writer.batch(batch).unwrap();
        writer.flush().unwrap();
    }
    if let Some(info) = info {
        writer.info(info).unwrap();
    }
    writer.finish().unwrap()
}

/// Where each message of a recording begins, and where the last ends.
pub(crate) fn borders(bytes: &[u8]) -> Vec<usize> {
    let mut borders = vec![0];
    let mut at = 0;
    while bytes.len() - at > 8 {
        let header = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        let message = arrow_ipc::root_as_message(&bytes[at + 8..at + 8 + header]).unwrap();
        at += 8 + header + message.bodyLength() as usize;
        borders.push(at);
    }
    borders
}

pub(crate) fn event(kind: EventKind) -> Event {
    Event {
        time: Some(TimeNs(1_700_000_000_123_456_789)),
        process: ProcessId(0),
        device: DeviceId(0),
        stream: Some(StreamId(0)),
        origin: Origin::Snapshot,
        kind,
    }
}

/// An event of any kind, with extreme numbers, out of a few bytes.
pub(crate) fn any_event(bytes: [u8; 8], names: u32, stacks: u32) -> Event {
    let [kind, a, b, c, d, e, f, g] = bytes;
    let number = |byte: u8| [0, 1, 512, 0x7f00_0000_0000, u64::MAX, u64::MAX - 1, 1 << 63, u64::from(byte) << 9];
    let (address, bytes) = (number(b)[usize::from(a % 8)], number(d)[usize::from(c % 8)]);
    let stack = StackId(u32::from(e) % stacks.max(1));
    let name = NameId(u32::from(e) % names.max(1));
    let owner = [PoolOwner(0, 0), PoolOwner(3, 0), PoolOwner(0, u32::MAX), PoolOwner(1, 1)][usize::from(f % 4)];
    let class = if f & 4 == 0 { SizeClass::Small } else { SizeClass::Large };
    let pool = (f & 8 == 0).then_some(Pool { owner, class });
    let at_start = f & 16 != 0;
    let counter = [Counter::DeviceTotal, Counter::DeviceUsed, Counter::ProcessUsed][usize::from(f % 3)];
    let kind = match kind % 14 {
        0 => EventKind::SegmentAlloc { address, bytes, pool, stack, at_start },
        1 => EventKind::SegmentFree { address, bytes },
        2 => EventKind::SegmentMap { address, bytes, pool, stack, at_start },
        3 => EventKind::SegmentUnmap { address, bytes },
        4 => EventKind::BlockAlloc { address, bytes, requested: (f & 32 == 0).then_some(bytes / 2), stack, at_start },
        5 => EventKind::FreeRequested { address, stack, at_start },
        6 => EventKind::FreeCompleted { address },
        7 => EventKind::OutOfMemory { requested: bytes, device_free: (f & 32 == 0).then_some(address), stack },
        8 => EventKind::AnnotationBegin { name },
        9 => EventKind::AnnotationEnd { name },
        10 => EventKind::Mark { name },
        11 => EventKind::CounterSample { counter, value: address },
        12 => EventKind::LostEvents { count: bytes },
        _ => EventKind::Other { name, address, bytes },
    };
    let origins = [Origin::Shim, Origin::Snapshot, Origin::Nvml, Origin::Simulator, Origin::Annotation];
    Event {
        time: [None, Some(TimeNs(i64::MIN)), Some(TimeNs(i64::MAX)), Some(TimeNs(i64::from(g) - 99))]
            [usize::from(g % 4)],
        process: ProcessId([0, 1, u32::MAX][usize::from(g / 4 % 3)]),
        device: DeviceId([0, 1, u16::MAX][usize::from(g / 16 % 3)]),
        stream: [None, Some(StreamId(0)), Some(StreamId(u64::MAX))][usize::from(g / 64 % 3)],
        origin: origins[usize::from(d % 5)],
        kind,
    }
}

/// Batches with texts and stacks made of `texts`, cut every `cut` events.
pub(crate) fn batches(texts: &[String], events: &[[u8; 8]], cut: usize) -> Vec<Batch> {
    let mut interner = Interner::new();
    let mut batches = Vec::new();
    let mut texts = texts.iter();
    let (mut names, mut stacks) = (1, 1);
    let mut frames = Vec::new();
    for (n, piece) in events.chunks(cut.max(1)).enumerate() {
        for text in texts.by_ref().take(1 + n % 3) {
            let name = interner.name(text);
            names = names.max(name.0 + 1);
            frames.push(interner.frame(Frame { file: name, function: NameId(names / 2), line: n as u32 % 5 }));
            let stack = interner.stack(&frames[frames.len().saturating_sub(4)..]);
            stacks = stacks.max(stack.0 + 1);
        }
        batches.push(Batch {
            dictionary: interner.take_chunks(),
            events: piece.iter().map(|bytes| any_event(*bytes, names, stacks)).collect(),
            problems: Vec::new(),
        });
    }
    batches
}

/// Facts with a value everywhere.
pub(crate) fn full_info() -> RunInfo {
    let mut divisions = [0; 16];
    divisions[3] = 8;
    divisions[15] = u32::MAX;
    RunInfo {
        format: "PyTorch memory snapshot (pickle, gzip)".into(),
        settings: Some(AllocatorSettings {
            conf: Some("expandable_segments:True".into()),
            max_split_size: Some(u64::MAX),
            garbage_collection_threshold: 0.1 + 0.2,
            expandable_segments: true,
            roundup_power2_divisions: divisions,
            all: vec![("a=b".into(), String::new()), (String::new(), "x\n\"y\"".into()), ("a=b".into(), "2".into())],
        }),
        devices_visible: 8,
        truncated_devices: vec![3, 0],
        entries_by_device: vec![(0, 7), (3, u64::MAX)],
        annotations: 2,
        host_bytes: Some(0),
        host_entries: 9,
    }
}

/// A small story: every kind of event once, names beyond ASCII, problems before and behind.
pub(crate) fn story() -> (Vec<Batch>, RunInfo) {
    let texts =
        ["train.py", "forward", "loss \u{2192} \u{1f600}", "a\nb\0c", "std::vector<int, \"x\">"].map(String::from);
    let events: Vec<[u8; 8]> = (0..42u8).map(|n| [1, 1, 5, 1, 3, 1, 7, 11].map(|step| n.wrapping_mul(step))).collect();
    let mut batches = batches(&texts, &events, 14);
    let problem = |kind, example: &str| Problem { kind, count: 3, example: example.to_owned() };
    batches[0].problems.push(problem(ProblemKind::TruncatedHistory, "device 0 begins in the middle"));
    batches[2].problems.push(problem(ProblemKind::NoTimes, "entry 7 has no time"));
    (batches, full_info())
}
