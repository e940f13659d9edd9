//! Turns what one process's lanes say into events: which driver memory is the framework's, which is somebody else's.
//!
//! PyTorch's allocator takes memory from the driver and, in the same call, hands out a block of it. So a driver allocation is a
//! *segment* of the framework if a block inside it follows, and otherwise memory *outside* it (a library's, a communicator's), told
//! as a sum. In a process without such an allocator, and for stream-ordered allocations, which such an allocator never makes, the
//! driver is the allocator: each allocation is a segment with one block.
//!
//! What a record does not tell stays unknown: requested sizes, streams, pools and stacks of blocks. The end of a wait for other
//! streams is not told either, so a block counts as free as soon as its free is requested.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use rustc_hash::FxHashMap;
use vramscope_trace::{
    Counter, DeviceId, Event, EventKind, Interner, Origin, Problem, ProblemKind, ProcessId, StackId, StreamId, TimeNs,
};
use vramscope_wire::{Api, Kind, Meta, Record, Text, UNKNOWN_DEVICE, flags};

use super::dump::uuid;
use super::ring_file::{Said, Spoken};

/// Error code of the driver for "out of memory".
const DRIVER_OUT_OF_MEMORY: u64 = 2;

/// Memory the driver gave to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Grant {
    bytes: u64,
    device: u16,
    stream: Option<StreamId>,
    /// Physical memory mapped to a range, rather than an allocation as a whole.
    mapped: bool,
    owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Not known yet: the next record of the thread tells.
    Open { thread: u32 },
    /// The framework's allocator.
    Framework,
    /// The program itself: the grant is a block.
    Program,
    /// Somebody else in a process with a framework.
    Outside,
}

#[derive(Clone, Debug, Default)]
struct Device {
    reserved: Option<u64>,
    outside: u64,
}

/// What one process has said so far.
#[derive(Debug)]
pub(super) struct Translator {
    process: ProcessId,
    grants: BTreeMap<u64, Grant>,
    open_grants: usize,
    physical: FxHashMap<u64, (u64, u16)>,
    host: FxHashMap<u64, u64>,
    host_bytes: u64,
    devices: BTreeMap<u16, Device>,
    names: Vec<(u16, String)>,
    /// Texts that ranges name by number.
    registered: FxHashMap<u64, String>,
    /// Open ranges of each thread, hook and NVTX apart, innermost last.
    ranges: FxHashMap<(u32, Api), Vec<String>>,
    /// Open ranges that are not bound to a thread.
    loose_ranges: FxHashMap<u64, String>,
    /// Device memory that was free when a driver call of the thread last failed.
    free_at_failure: FxHashMap<u32, u64>,
    /// What each thread freed last, in case the driver refuses.
    freed: FxHashMap<u32, Vec<(u64, Grant)>>,
    problems: Vec<Problem>,
    last_ns: i64,
}

/// Where the events of one record go.
struct Out<'a> {
    events: &'a mut Vec<Event>,
    names: &'a mut Interner,
    time: TimeNs,
    process: ProcessId,
}

impl Out<'_> {
    fn say(&mut self, device: u16, stream: Option<StreamId>, origin: Origin, kind: EventKind) {
        let (time, process) = (Some(self.time), self.process);
        self.events.push(Event { time, process, device: DeviceId(device), stream, origin, kind });
    }

    fn shim(&mut self, device: u16, kind: EventKind) {
        self.say(device, None, Origin::Shim, kind);
    }

    fn count(&mut self, device: u16, counter: Counter, value: u64) {
        self.shim(device, EventKind::CounterSample { counter, value });
    }

    fn grant(&mut self, address: u64, grant: &Grant) {
        let (bytes, pool, stack, at_start) = (grant.bytes, None, StackId::NONE, false);
        let kind = if grant.mapped {
            EventKind::SegmentMap { address, bytes, pool, stack, at_start }
        } else {
            EventKind::SegmentAlloc { address, bytes, pool, stack, at_start }
        };
        self.say(grant.device, grant.stream, Origin::Shim, kind);
        if grant.owner == Owner::Program {
            let kind = EventKind::BlockAlloc { address, bytes, requested: None, stack, at_start };
            self.say(grant.device, grant.stream, Origin::Shim, kind);
        }
    }

    fn revoke(&mut self, address: u64, grant: &Grant) {
        let bytes = grant.bytes;
        if grant.owner == Owner::Program {
            self.free_block(grant.device, grant.stream, address);
        }
        let kind = if grant.mapped {
            EventKind::SegmentUnmap { address, bytes }
        } else {
            EventKind::SegmentFree { address, bytes }
        };
        self.say(grant.device, grant.stream, Origin::Shim, kind);
    }

    fn free_block(&mut self, device: u16, stream: Option<StreamId>, address: u64) {
        let requested = EventKind::FreeRequested { address, stack: StackId::NONE, at_start: false };
        self.say(device, stream, Origin::Shim, requested);
        self.say(device, stream, Origin::Shim, EventKind::FreeCompleted { address });
    }
}

fn device_of(meta: Meta) -> u16 {
    if meta.device == UNKNOWN_DEVICE { 0 } else { u16::from(meta.device) }
}

impl Translator {
    pub(super) fn new(process: ProcessId) -> Self {
        Self {
            process,
            grants: BTreeMap::new(),
            open_grants: 0,
            physical: FxHashMap::default(),
            host: FxHashMap::default(),
            host_bytes: 0,
            devices: BTreeMap::new(),
            names: Vec::new(),
            registered: FxHashMap::default(),
            ranges: FxHashMap::default(),
            loose_ranges: FxHashMap::default(),
            free_at_failure: FxHashMap::default(),
            freed: FxHashMap::default(),
            problems: Vec::new(),
            last_ns: 0,
        }
    }

    /// UUIDs of the devices this process uses, by its ordinals.
    pub(super) fn devices(&self) -> &[(u16, String)] {
        &self.names
    }

    pub(super) fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    /// Takes the next thing in order of time.
    pub(super) fn push(&mut self, item: &Spoken, names: &mut Interner, events: &mut Vec<Event>) {
        self.last_ns = item.unix_ns;
        let mut out = Out { events, names, time: TimeNs(item.unix_ns), process: self.process };
        match &item.said {
            Said::Record(record) => match record.meta() {
                Some(meta) => self.record(meta, record, &mut out),
                None => self.note(ProblemKind::UnknownAction, || format!("a record of kind {}", record.0[0] as u8)),
            },
            Said::Text(text) => self.text(text, &mut out),
            &Said::Lost(count) => {
                out.shim(0, EventKind::LostEvents { count });
                Problem::note(&mut self.problems, ProblemKind::LostEvents, count, || {
                    format!("process {} was faster than it could be read", self.process.0)
                });
            }
            Said::Damaged => self.note(ProblemKind::TornFile, || "a lane's counter went backwards".to_owned()),
        }
    }

    /// The job has ended: what is still open is nobody's.
    pub(super) fn finish(&mut self, names: &mut Interner, events: &mut Vec<Event>) {
        let mut out = Out { events, names, time: TimeNs(self.last_ns), process: self.process };
        self.close_open(None, &mut out);
    }

    fn note(&mut self, kind: ProblemKind, example: impl FnOnce() -> String) {
        Problem::note(&mut self.problems, kind, 1, example);
    }

    fn record(&mut self, meta: Meta, record: &Record, out: &mut Out<'_>) {
        let [a, b, c, d] = record.numbers();
        let device = device_of(meta);
        let framework = meta.flags & flags::FRAMEWORK != 0;
        match meta.kind {
            Kind::BlockAlloc => {
                if self.open_grants > 0 {
                    self.claim(a, b, out);
                    self.close_open(Some(meta.thread), out);
                }
                self.reserved(device, d, out);
                let (requested, stack, at_start) = (None, StackId::NONE, false);
                out.shim(device, EventKind::BlockAlloc { address: a, bytes: b, requested, stack, at_start });
            }
            Kind::BlockFree => {
                self.close_open(Some(meta.thread), out);
                out.free_block(device, None, a);
                self.reserved(device, d, out);
            }
            Kind::OutOfMemory => {
                self.reserved(device, d, out);
                out.count(device, Counter::FrameworkAllocated, c);
                let device_free = self.free_at_failure.remove(&meta.thread);
                out.shim(device, EventKind::OutOfMemory { requested: b, device_free, stack: StackId::NONE });
            }
            Kind::DeviceAlloc => {
                let pooled = matches!(meta.api, Api::Async | Api::FromPool);
                let owner = if framework && !pooled { Owner::Open { thread: meta.thread } } else { Owner::Program };
                let stream = pooled.then_some(StreamId(c));
                self.granted(a, Grant { bytes: b, device, stream, mapped: false, owner }, out);
            }
            Kind::DeviceFree => {
                let freed = self.take_range(a, 1, out);
                self.freed.insert(meta.thread, freed);
            }
            Kind::PhysicalCreate => {
                self.physical.insert(a, (b, device));
            }
            Kind::PhysicalRelease => {
                self.physical.remove(&a);
            }
            Kind::Map => {
                let device = self.physical.get(&c).map_or(device, |&(_, device)| device);
                let owner = if framework { Owner::Open { thread: meta.thread } } else { Owner::Program };
                self.granted(a, Grant { bytes: b, device, stream: None, mapped: true, owner }, out);
            }
            Kind::Unmap => {
                let freed = self.take_range(a, b, out);
                self.freed.insert(meta.thread, freed);
            }
            Kind::HostAlloc => {
                self.host_bytes = self.host_bytes.saturating_add(b) - self.host.insert(a, b).unwrap_or(0).min(b);
                out.count(device, Counter::HostPinned, self.host_bytes);
            }
            Kind::HostFree => {
                let bytes = self.host.remove(&a).unwrap_or(0);
                self.host_bytes = self.host_bytes.saturating_sub(bytes);
                out.count(device, Counter::HostPinned, self.host_bytes);
            }
            Kind::CallFailed => self.failed(meta, [a, b, c, d], out),
            Kind::Device => self.device(device, uuid(a, b), c, out),
            Kind::Mark | Kind::RangeBegin | Kind::RangeEnd | Kind::Name | Kind::MoreText => {}
        }
    }

    fn device(&mut self, device: u16, uuid: String, total: u64, out: &mut Out<'_>) {
        let name = out.names.name(&format!("device {uuid}"));
        out.shim(device, EventKind::Other { name, address: 0, bytes: total });
        if total > 0 {
            out.count(device, Counter::DeviceTotal, total);
        }
        self.names.push((device, uuid));
    }

    fn failed(&mut self, meta: Meta, [subject, bytes, free, error]: [u64; 4], out: &mut Out<'_>) {
        let device = device_of(meta);
        if subject != 0 {
            // The free that this thread announced just before did not happen.
            for (address, grant) in self.freed.remove(&meta.thread).unwrap_or_default() {
                self.granted(address, grant, out);
            }
            return;
        }
        let device_free = (free > 0).then_some(free);
        if error == DRIVER_OUT_OF_MEMORY && meta.flags & flags::FRAMEWORK == 0 {
            out.shim(device, EventKind::OutOfMemory { requested: bytes, device_free, stack: StackId::NONE });
            return;
        }
        if let Some(free) = device_free.filter(|_| error == DRIVER_OUT_OF_MEMORY) {
            // The framework may empty its cache and try again; if it gives up, it says so itself.
            self.free_at_failure.insert(meta.thread, free);
        }
        let name = out.names.name(&format!("driver refused ({}, error {error})", meta.api.label()));
        out.shim(device, EventKind::Other { name, address: 0, bytes });
    }

    fn reserved(&mut self, device: u16, bytes: u64, out: &mut Out<'_>) {
        let known = self.devices.entry(device).or_default();
        if known.reserved != Some(bytes) {
            known.reserved = Some(bytes);
            out.count(device, Counter::FrameworkReserved, bytes);
        }
    }

    fn granted(&mut self, address: u64, grant: Grant, out: &mut Out<'_>) {
        let overlap = self.take_range(address, grant.bytes, out);
        if !overlap.is_empty() {
            self.note(ProblemKind::Overlap, || format!("the driver gave {address:#x} twice"));
        }
        match grant.owner {
            Owner::Open { .. } => self.open_grants += 1,
            Owner::Outside => self.outside(grant.device, grant.bytes as i64, out),
            Owner::Framework | Owner::Program => out.grant(address, &grant),
        }
        self.grants.insert(address, grant);
    }

    fn outside(&mut self, device: u16, by: i64, out: &mut Out<'_>) {
        let known = self.devices.entry(device).or_default();
        known.outside = known.outside.saturating_add_signed(by);
        out.count(device, Counter::OutsideFramework, known.outside);
    }

    /// Addresses of grants that overlap a range, lowest first.
    fn overlapping(&self, address: u64, bytes: u64) -> Vec<u64> {
        let end = address.saturating_add(bytes.max(1));
        let mut found: Vec<u64> = self
            .grants
            .range(..end)
            .rev()
            .take_while(|&(&start, grant)| start.saturating_add(grant.bytes.max(1)) > address)
            .map(|(&start, _)| start)
            .collect();
        found.reverse();
        found
    }

    /// A block was handed out: what it lies in is the framework's.
    fn claim(&mut self, address: u64, bytes: u64, out: &mut Out<'_>) {
        for start in self.overlapping(address, bytes) {
            if let Entry::Occupied(mut entry) = self.grants.entry(start)
                && matches!(entry.get().owner, Owner::Open { .. })
            {
                entry.get_mut().owner = Owner::Framework;
                self.open_grants -= 1;
                out.grant(start, entry.get());
            }
        }
    }

    /// Grants of a thread (or of all) that no block followed are outside the framework.
    fn close_open(&mut self, of: Option<u32>, out: &mut Out<'_>) {
        if self.open_grants == 0 {
            return;
        }
        let mut sums: BTreeMap<u16, u64> = BTreeMap::new();
        for grant in self.grants.values_mut() {
            if let Owner::Open { thread } = grant.owner
                && of.is_none_or(|wanted| wanted == thread)
            {
                grant.owner = Owner::Outside;
                self.open_grants -= 1;
                *sums.entry(grant.device).or_default() += grant.bytes;
            }
        }
        for (device, bytes) in sums {
            self.outside(device, bytes as i64, out);
        }
    }

    /// Takes back what the driver gave inside a range.
    fn take_range(&mut self, address: u64, bytes: u64, out: &mut Out<'_>) -> Vec<(u64, Grant)> {
        let mut taken = Vec::new();
        for start in self.overlapping(address, bytes) {
            let Some(grant) = self.grants.remove(&start) else { continue };
            match grant.owner {
                Owner::Open { .. } => self.open_grants -= 1,
                Owner::Outside => self.outside(grant.device, -(grant.bytes as i64), out),
                Owner::Framework | Owner::Program => out.revoke(start, &grant),
            }
            taken.push((start, grant));
        }
        taken
    }

    fn text(&mut self, text: &Text, out: &mut Out<'_>) {
        let device = device_of(text.meta);
        let mut words = String::from_utf8_lossy(text.bytes()).into_owned();
        if text.is_cut() {
            words.push('\u{2026}');
        }
        if let Some(known) =
            words.strip_prefix('#').and_then(|id| id.parse().ok()).and_then(|id: u64| self.registered.get(&id))
        {
            words.clone_from(known);
        }
        let key = (text.meta.thread, text.meta.api);
        let kind = match text.meta.kind {
            Kind::Name => {
                self.registered.insert(text.id, words);
                return;
            }
            Kind::RangeBegin => {
                let name = out.names.name(&words);
                if text.id == 0 {
                    self.ranges.entry(key).or_default().push(words);
                } else {
                    self.loose_ranges.insert(text.id, words);
                }
                EventKind::AnnotationBegin { name }
            }
            Kind::RangeEnd => {
                let begun = if text.id == 0 {
                    self.ranges.get_mut(&key).and_then(Vec::pop)
                } else {
                    self.loose_ranges.remove(&text.id)
                };
                // A range that began before there was a ring.
                let Some(begun) = begun else { return };
                EventKind::AnnotationEnd { name: out.names.name(&begun) }
            }
            _ => EventKind::Mark { name: out.names.name(&words) },
        };
        out.say(device, None, Origin::Annotation, kind);
    }
}
