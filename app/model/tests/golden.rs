//! One story with a bit of everything, dumped as text: a change of any rule shows here.

mod support;

use support::{LARGE, SMALL, alloc, event, free, freed, history, map, reserve};
use vramscope_model::dump;
use vramscope_trace::{Counter, DeviceId, Event, EventKind, NameId, Origin, StackId, StreamId};

const MIB: u64 = 1 << 20;

/// Before recording: two segments, a block in use and one pending.
fn before() -> Vec<Event> {
    let start = |kind| Event { time: None, ..event(0, kind) };
    let segment = |address, bytes, pool| EventKind::SegmentAlloc {
        address,
        bytes,
        pool: Some(pool),
        stack: StackId::NONE,
        at_start: true,
    };
    let block = |address, bytes| EventKind::BlockAlloc {
        address,
        bytes,
        requested: Some(bytes - 12),
        stack: StackId(3),
        at_start: true,
    };
    vec![
        start(segment(0x1000_0000, 20 * MIB, LARGE)),
        start(segment(0x2000_0000, 2 * MIB, SMALL)),
        start(block(0x1000_0000, 4 * MIB)),
        start(block(0x2000_0000, 1024)),
        start(EventKind::FreeRequested { address: 0x2000_0000, stack: StackId(9), at_start: true }),
    ]
}

/// An ordinary run on the default stream and on another, with an expandable segment on a second device.
fn run() -> Vec<Event> {
    let other = |micros, kind| Event { stream: Some(StreamId(7)), ..event(micros, kind) };
    let second = |micros, kind| Event { device: DeviceId(1), ..event(micros, kind) };
    vec![
        event(100, alloc(0x1040_0000, 6 * MIB)),
        event(101, alloc(0x2000_0400, 512)),
        event(101, freed(0x2000_0000)),
        other(102, reserve(0x3000_0000, 20 * MIB)),
        other(103, alloc(0x3000_0000, 2 * MIB)),
        second(104, map(0x8000_0000, 40 * MIB)),
        second(105, alloc(0x8000_0000, MIB)),
        event(106, free(0x1040_0000)),
        event(106, freed(0x1040_0000)),
        other(107, free(0x3000_0000)),
        event(108, EventKind::OutOfMemory { requested: 99 * MIB, device_free: Some(5), stack: StackId(4) }),
        other(109, freed(0x3000_0000)),
        other(110, EventKind::SegmentFree { address: 0x3000_0000, bytes: 20 * MIB }),
        second(111, EventKind::SegmentUnmap { address: 0x8000_0000 + 20 * MIB, bytes: 20 * MIB }),
        event(112, EventKind::Other { name: NameId(4), address: 0x77, bytes: 8 }),
        event(113, EventKind::CounterSample { counter: Counter::DeviceUsed, value: 123 }),
    ]
}

/// What should not happen, and what is told late.
fn odd() -> Vec<Event> {
    let note = |micros, kind| Event { stream: None, origin: Origin::Annotation, ..event(micros, kind) };
    vec![
        event(114, free(0x999)),
        event(115, freed(0x1040_0000)),
        event(116, alloc(0x1000_0000, MIB)),
        event(117, alloc(0x1100_0000, 8 * MIB)),
        event(117, EventKind::LostEvents { count: 3 }),
        note(100, EventKind::AnnotationBegin { name: NameId(1) }),
        note(105, EventKind::AnnotationBegin { name: NameId(2) }),
        note(109, EventKind::AnnotationEnd { name: NameId(2) }),
        note(110, EventKind::Mark { name: NameId(3) }),
    ]
}

#[test]
fn a_story() {
    let events = [before(), run(), odd()].concat();
    insta::assert_snapshot!(dump(&history(&events)));
}
