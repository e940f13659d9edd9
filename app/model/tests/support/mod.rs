//! What the tests share: building events, feeding them in batches, and making odd streams from bytes.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod naive;

use std::sync::Arc;

use vramscope_model::{History, Ingest};
use vramscope_trace::{
    Batch, Counter, DeviceId, DictionaryChunk, Event, EventKind, Interner, NameId, Origin, Pool, PoolOwner, ProcessId,
    SizeClass, StackId, StreamId, TimeNs,
};

pub(crate) const SMALL: Pool = Pool { owner: PoolOwner::DEFAULT, class: SizeClass::Small };
pub(crate) const LARGE: Pool = Pool { owner: PoolOwner::DEFAULT, class: SizeClass::Large };

/// Odd streams place everything at multiples of this, so that pages of expandable segments (2 and 20 MiB) hold few.
pub(crate) const UNIT: u64 = 512 << 10;

/// An event of process 0 and device 0 on the default stream.
pub(crate) fn event(micros: i64, kind: EventKind) -> Event {
    Event {
        time: Some(TimeNs::from_micros(micros)),
        process: ProcessId(0),
        device: DeviceId(0),
        stream: Some(StreamId(0)),
        origin: Origin::Snapshot,
        kind,
    }
}

pub(crate) fn alloc(address: u64, bytes: u64) -> EventKind {
    EventKind::BlockAlloc { address, bytes, requested: Some(bytes), stack: StackId::NONE, at_start: false }
}

pub(crate) fn free(address: u64) -> EventKind {
    EventKind::FreeRequested { address, stack: StackId::NONE, at_start: false }
}

pub(crate) fn freed(address: u64) -> EventKind {
    EventKind::FreeCompleted { address }
}

pub(crate) fn reserve(address: u64, bytes: u64) -> EventKind {
    EventKind::SegmentAlloc { address, bytes, pool: Some(LARGE), stack: StackId::NONE, at_start: false }
}

pub(crate) fn map(address: u64, bytes: u64) -> EventKind {
    EventKind::SegmentMap { address, bytes, pool: Some(LARGE), stack: StackId::NONE, at_start: false }
}

/// Events one microsecond apart, from 1,000 µs on.
pub(crate) fn timed(kinds: impl IntoIterator<Item = EventKind>) -> Vec<Event> {
    (1000..).zip(kinds).map(|(micros, kind)| event(micros, kind)).collect()
}

/// Five names ("", "a" to "d") and a few stacks.
pub(crate) fn names() -> Vec<Arc<DictionaryChunk>> {
    let mut interner = Interner::new();
    for name in ["a", "b", "c", "d"] {
        interner.name(name);
    }
    interner.take_chunks()
}

/// An ingest that knows the names.
pub(crate) fn ingest() -> Ingest {
    let mut ingest = Ingest::new();
    ingest.push(Batch { dictionary: names(), ..Batch::default() });
    ingest
}

/// The history of all events in one batch.
pub(crate) fn history(events: &[Event]) -> History {
    let mut ingest = ingest();
    ingest.push(Batch { events: events.to_vec(), ..Batch::default() });
    ingest.history()
}

/// An event out of a few bytes: any kind, in a small address space, so that streams of them collide in every way.
pub(crate) fn odd_event(bytes: [u8; 6], clock: &mut i64) -> Event {
    let [kind, place, address, size, time, more] = bytes;
    let address = u64::from(address % 96) * UNIT;
    let size = u64::from(size % 12) * UNIT;
    let pool = [Some(SMALL), Some(SMALL), Some(LARGE), None][usize::from(more % 4)];
    let stack = StackId(u32::from(more / 4 % 3));
    let at_start = more > 250;
    *clock += i64::from(time % 4);
    let kind = match kind % 32 {
        0..=9 => EventKind::BlockAlloc {
            address,
            bytes: size,
            requested: Some(size.saturating_sub(u64::from(more % 3) * UNIT)),
            stack,
            at_start,
        },
        10..=15 => EventKind::FreeRequested { address, stack, at_start },
        16..=20 => EventKind::FreeCompleted { address },
        21 => EventKind::SegmentAlloc { address, bytes: size * 4, pool, stack, at_start },
        22 => EventKind::SegmentFree { address, bytes: size * 4 },
        23 => EventKind::SegmentMap {
            address: address / (4 * UNIT) * 4 * UNIT,
            bytes: size / (3 * UNIT) * 4 * UNIT,
            pool,
            stack,
            at_start,
        },
        24 => EventKind::SegmentUnmap { address: address / (4 * UNIT) * 4 * UNIT, bytes: size / (3 * UNIT) * 4 * UNIT },
        25 => EventKind::OutOfMemory { requested: size, device_free: (more > 99).then_some(7), stack },
        26 => EventKind::AnnotationBegin { name: NameId(u32::from(more % 5)) },
        27 => EventKind::AnnotationEnd { name: NameId(u32::from(more % 5)) },
        28 => EventKind::Mark { name: NameId(1) },
        29 => EventKind::CounterSample { counter: Counter::DeviceUsed, value: address },
        30 => EventKind::LostEvents { count: size / UNIT },
        _ => EventKind::Other { name: NameId(2), address, bytes: size },
    };
    Event {
        time: match time {
            0..=9 => None,
            10..=12 => Some(TimeNs(*clock - 5)),
            _ => Some(TimeNs(*clock)),
        },
        process: ProcessId(u32::from(place % 8 == 0)),
        device: DeviceId(u16::from(place % 4 == 1)),
        stream: [Some(StreamId(0)), Some(StreamId(0)), Some(StreamId(7)), None][usize::from(place / 16 % 4)],
        origin: if place > 250 { Origin::Shim } else { Origin::Snapshot },
        kind,
    }
}

/// A stream of odd events. `told` says whether every block tells what was asked for, `on_time` whether the clock behaves.
pub(crate) fn odd_events(bytes: &[[u8; 6]], told: bool, on_time: bool) -> Vec<Event> {
    let mut clock = 0;
    let mut events: Vec<Event> = bytes.iter().map(|bytes| odd_event(*bytes, &mut clock)).collect();
    for (n, event) in events.iter_mut().enumerate() {
        if on_time {
            event.time = Some(TimeNs(n as i64 / 3));
        }
        if let EventKind::BlockAlloc { requested, .. } = &mut event.kind
            && !told
            && n % 16 == 9
        {
            *requested = None;
        }
    }
    events
}

/// `events` events of a job with `live` live blocks: whole 2 MiB segments of 512 slots, and a random slot freed and used
/// again each time.
pub(crate) fn job(live: u64, events: usize) -> Vec<Event> {
    let mut made = Vec::with_capacity(events + 1000);
    let address = |slot: u64| 0x7f00_0000_0000 + slot * 4096;
    for segment in 0..live.div_ceil(512) {
        made.push(event(made.len() as i64, reserve(address(segment * 512), 2 << 20)));
    }
    let alloc = |slot: u64, n: u64| EventKind::BlockAlloc {
        address: address(slot),
        bytes: 512 + n % 7 * 512,
        requested: Some(500 + n % 7 * 512),
        stack: StackId((n % 5000) as u32),
        at_start: false,
    };
    for slot in 0..live {
        made.push(event(made.len() as i64, alloc(slot, slot)));
    }
    let mut random = 1_u64;
    while made.len() < events {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let slot = (random >> 33) % live;
        for kind in [free(address(slot)), freed(address(slot)), alloc(slot, random >> 40)] {
            made.push(event(made.len() as i64, kind));
        }
    }
    made
}
