//! Which driver memory is the framework's: cases that a real allocator makes, record by record.

use vramscope_trace::{Event, EventKind, Interner, ProcessId};
use vramscope_wire::{Api, Kind, Meta, Record, flags};

use super::ring_file::{Said, Spoken};
use super::translate::Translator;

const MIB: u64 = 1 << 20;

/// Feeds records of one process and keeps what comes out.
struct Job {
    translator: Translator,
    names: Interner,
    events: Vec<Event>,
    time: i64,
}

impl Job {
    fn new() -> Self {
        Self { translator: Translator::new(ProcessId(7)), names: Interner::new(), events: Vec::new(), time: 0 }
    }

    fn say(&mut self, thread: u32, kind: Kind, numbers: [u64; 4]) {
        let (api, flags) = match kind {
            Kind::BlockAlloc | Kind::BlockFree => (Api::C10, 0),
            Kind::Map | Kind::Unmap | Kind::PhysicalCreate | Kind::PhysicalRelease => (Api::Virtual, flags::FRAMEWORK),
            _ => (Api::MemAlloc, flags::FRAMEWORK),
        };
        self.time += 1;
        let record = Record::new(Meta { kind, device: 1, api, flags, thread }, 0, numbers);
        let spoken = Spoken { unix_ns: self.time, lane: 0, said: Said::Record(record) };
        self.translator.push(&spoken, &mut self.names, &mut self.events);
    }

    /// What came out since the last call: label, address, bytes; counters as name and value.
    fn heard(&mut self) -> Vec<String> {
        let line = |event: Event| match event.kind {
            EventKind::SegmentMap { address, bytes, .. }
            | EventKind::SegmentUnmap { address, bytes }
            | EventKind::SegmentAlloc { address, bytes, .. }
            | EventKind::SegmentFree { address, bytes }
            | EventKind::BlockAlloc { address, bytes, .. } => {
                format!("{} {} {}", event.kind.label(), address / MIB, bytes / MIB)
            }
            EventKind::CounterSample { counter, value } => format!("{counter:?} {}", value / MIB),
            _ => event.kind.label().to_owned(),
        };
        self.events.drain(..).map(line).collect()
    }
}

#[test]
fn mapped_pages_are_the_frameworks_once_a_block_lies_in_them() {
    let mut job = Job::new();
    for page in 0..3 {
        job.say(1, Kind::PhysicalCreate, [page + 1, 20 * MIB, 0, 0]);
        job.say(1, Kind::Map, [(100 + 20 * page) * MIB, 20 * MIB, page + 1, 0]);
    }
    assert_eq!(job.heard(), [""; 0], "not known yet whose they are");
    job.say(1, Kind::BlockAlloc, [100 * MIB, 50 * MIB, 50 * MIB, 60 * MIB]);
    assert_eq!(
        job.heard(),
        [
            "segment map 100 20",
            "segment map 120 20",
            "segment map 140 20",
            "FrameworkReserved 60",
            "block alloc 100 50"
        ]
    );
    job.say(1, Kind::BlockFree, [100 * MIB, 50 * MIB, 0, 60 * MIB]);
    job.say(1, Kind::Unmap, [120 * MIB, 40 * MIB, 0, 0]);
    job.say(1, Kind::PhysicalRelease, [2, 0, 0, 0]);
    assert_eq!(job.heard(), ["free requested", "free completed", "segment unmap 120 20", "segment unmap 140 20"]);
    assert_eq!(job.translator.take_problems(), []);
}

#[test]
fn another_threads_blocks_do_not_decide_about_an_allocation() {
    let mut job = Job::new();
    job.say(1, Kind::DeviceAlloc, [100 * MIB, 8 * MIB, 0, 0]);
    job.say(2, Kind::DeviceAlloc, [200 * MIB, 20 * MIB, 0, 0]);
    job.say(2, Kind::BlockAlloc, [200 * MIB, 4 * MIB, 4 * MIB, 20 * MIB]);
    assert_eq!(job.heard(), ["segment alloc 200 20", "FrameworkReserved 20", "block alloc 200 4"]);
    job.say(1, Kind::BlockAlloc, [204 * MIB, 4 * MIB, 8 * MIB, 20 * MIB]);
    assert_eq!(job.heard(), ["OutsideFramework 8", "block alloc 204 4"], "thread 1 went on elsewhere");
    job.say(1, Kind::DeviceFree, [100 * MIB, 0, 0, 0]);
    assert_eq!(job.heard(), ["OutsideFramework 0"]);
}

#[test]
fn a_free_that_the_driver_refused_did_not_happen() {
    let mut job = Job::new();
    job.say(1, Kind::DeviceAlloc, [100 * MIB, 20 * MIB, 0, 0]);
    job.say(1, Kind::BlockAlloc, [100 * MIB, 4 * MIB, 4 * MIB, 20 * MIB]);
    job.heard();
    job.say(1, Kind::DeviceFree, [100 * MIB, 0, 0, 0]);
    job.say(1, Kind::CallFailed, [100 * MIB, 0, 0, 1]);
    assert_eq!(job.heard(), ["segment free 100 20", "segment alloc 100 20"]);
}

#[test]
fn pinned_host_memory_is_a_sum() {
    let mut job = Job::new();
    job.say(1, Kind::HostAlloc, [MIB, 4 * MIB, 0, 0]);
    job.say(1, Kind::HostAlloc, [9 * MIB, 2 * MIB, 0, 0]);
    job.say(1, Kind::HostFree, [MIB, 0, 0, 0]);
    job.say(1, Kind::HostFree, [77 * MIB, 0, 0, 0]);
    assert_eq!(job.heard(), ["HostPinned 4", "HostPinned 6", "HostPinned 2", "HostPinned 2"]);
}
