//! One row of a recording, and the event it tells.

use vramscope_trace::{
    Counter, DeviceId, Event, EventKind, NameId, Origin, Pool, PoolOwner, ProcessId, SizeClass, StackId, StreamId,
    TimeNs,
};

use crate::schema::Kind;

/// One row. What is unknown or has no meaning for its kind is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row<'a> {
    pub(crate) kind: Kind,
    pub(crate) time: Option<i64>,
    pub(crate) process: Option<u32>,
    pub(crate) device: Option<u16>,
    pub(crate) stream: Option<u64>,
    pub(crate) origin: Option<Origin>,
    pub(crate) address: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) requested: Option<u64>,
    pub(crate) stack: Option<u32>,
    pub(crate) at_start: Option<bool>,
    pub(crate) pool: Option<SizeClass>,
    pub(crate) pool_graph: Option<u32>,
    pub(crate) pool_user: Option<u32>,
    pub(crate) device_free: Option<u64>,
    pub(crate) name: Option<u32>,
    pub(crate) counter: Option<Counter>,
    pub(crate) value: Option<u64>,
    pub(crate) id: Option<u32>,
    pub(crate) text: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) file: Option<u32>,
    pub(crate) function: Option<u32>,
    pub(crate) line: Option<u32>,
    pub(crate) frames: Option<&'a [u32]>,
}

/// What the numbers of names and stacks of a file mean to the one who reads it.
pub(crate) trait Ids {
    fn name(&mut self, id: u32) -> NameId;
    fn stack(&mut self, id: u32) -> StackId;
}

fn stack_id(stack: StackId) -> Option<u32> {
    (stack != StackId::NONE).then_some(stack.0)
}

impl Row<'static> {
    /// The row of an event.
    pub(crate) fn of(event: &Event) -> Self {
        let place = Self {
            time: event.time.map(|time| time.0),
            process: Some(event.process.0).filter(|process| *process != 0),
            device: Some(event.device.0),
            stream: event.stream.map(|stream| stream.0),
            origin: Some(event.origin),
            ..Self::default()
        };
        let run = |kind, address, bytes, pool: Option<Pool>, stack, at_start| Self {
            kind,
            address: Some(address),
            bytes: Some(bytes),
            pool: pool.map(|pool| pool.class),
            pool_graph: pool.map(|pool| pool.owner.0),
            pool_user: pool.map(|pool| pool.owner.1),
            stack: stack_id(stack),
            at_start: Some(at_start),
            ..place
        };
        let gone = |kind, address, bytes| Self { kind, address: Some(address), bytes: Some(bytes), ..place };
        let named = |kind, name: NameId| Self { kind, name: Some(name.0), ..place };
        match event.kind {
            EventKind::SegmentAlloc { address, bytes, pool, stack, at_start } => {
                run(Kind::SegmentAlloc, address, bytes, pool, stack, at_start)
            }
            EventKind::SegmentMap { address, bytes, pool, stack, at_start } => {
                run(Kind::SegmentMap, address, bytes, pool, stack, at_start)
            }
            EventKind::SegmentFree { address, bytes } => gone(Kind::SegmentFree, address, bytes),
            EventKind::SegmentUnmap { address, bytes } => gone(Kind::SegmentUnmap, address, bytes),
            EventKind::BlockAlloc { address, bytes, requested, stack, at_start } => {
                Self { requested, ..run(Kind::BlockAlloc, address, bytes, None, stack, at_start) }
            }
            EventKind::FreeRequested { address, stack, at_start } => {
                Self { bytes: None, ..run(Kind::FreeRequested, address, 0, None, stack, at_start) }
            }
            EventKind::FreeCompleted { address } => Self { bytes: None, ..gone(Kind::FreeCompleted, address, 0) },
            EventKind::OutOfMemory { requested, device_free, stack } => {
                let (requested, stack) = (Some(requested), stack_id(stack));
                Self { kind: Kind::OutOfMemory, requested, device_free, stack, ..place }
            }
            EventKind::AnnotationBegin { name } => named(Kind::AnnotationBegin, name),
            EventKind::AnnotationEnd { name } => named(Kind::AnnotationEnd, name),
            EventKind::Mark { name } => named(Kind::Mark, name),
            EventKind::CounterSample { counter, value } => {
                Self { kind: Kind::CounterSample, counter: Some(counter), value: Some(value), ..place }
            }
            EventKind::LostEvents { count } => Self { kind: Kind::LostEvents, value: Some(count), ..place },
            EventKind::Other { name, address, bytes } => {
                let some = |number: u64| Some(number).filter(|number| *number != 0);
                Self { address: some(address), bytes: some(bytes), ..named(Kind::Other, name) }
            }
        }
    }
}

impl Row<'_> {
    /// The event of a row.
    ///
    /// # Errors
    /// The name of the column that should have a value but has none. Rows that tell no event lack their `kind`.
    #[inline]
    pub(crate) fn event(&self, ids: &mut impl Ids) -> Result<Event, &'static str> {
        Ok(Event {
            time: self.time.map(TimeNs),
            process: ProcessId(self.process.unwrap_or(0)),
            device: DeviceId(self.device.ok_or("device")?),
            stream: self.stream.map(StreamId),
            origin: self.origin.ok_or("origin")?,
            kind: self.event_kind(ids)?,
        })
    }

    #[inline]
    fn event_kind(&self, ids: &mut impl Ids) -> Result<EventKind, &'static str> {
        let address = || self.address.ok_or("address");
        let bytes = || self.bytes.ok_or("bytes");
        let stack = self.stack.map_or(StackId::NONE, |id| ids.stack(id));
        let mut name = || self.name.map(|id| ids.name(id)).ok_or("name");
        let at_start = self.at_start == Some(true);
        let owner = PoolOwner(self.pool_graph.unwrap_or(0), self.pool_user.unwrap_or(0));
        let pool = self.pool.map(|class| Pool { owner, class });
        Ok(match self.kind {
            Kind::SegmentAlloc => {
                EventKind::SegmentAlloc { address: address()?, bytes: bytes()?, pool, stack, at_start }
            }
            Kind::SegmentFree => EventKind::SegmentFree { address: address()?, bytes: bytes()? },
            Kind::SegmentMap => EventKind::SegmentMap { address: address()?, bytes: bytes()?, pool, stack, at_start },
            Kind::SegmentUnmap => EventKind::SegmentUnmap { address: address()?, bytes: bytes()? },
            Kind::BlockAlloc => EventKind::BlockAlloc {
                address: address()?,
                bytes: bytes()?,
                requested: self.requested,
                stack,
                at_start,
            },
            Kind::FreeRequested => EventKind::FreeRequested { address: address()?, stack, at_start },
            Kind::FreeCompleted => EventKind::FreeCompleted { address: address()? },
            Kind::OutOfMemory => EventKind::OutOfMemory {
                requested: self.requested.ok_or("requested")?,
                device_free: self.device_free,
                stack,
            },
            Kind::AnnotationBegin => EventKind::AnnotationBegin { name: name()? },
            Kind::AnnotationEnd => EventKind::AnnotationEnd { name: name()? },
            Kind::Mark => EventKind::Mark { name: name()? },
            Kind::CounterSample => {
                EventKind::CounterSample { counter: self.counter.ok_or("counter")?, value: self.value.ok_or("value")? }
            }
            Kind::LostEvents => EventKind::LostEvents { count: self.value.ok_or("value")? },
            Kind::Other => {
                EventKind::Other { name: name()?, address: self.address.unwrap_or(0), bytes: self.bytes.unwrap_or(0) }
            }
            Kind::Name | Kind::Frame | Kind::Stack | Kind::Problem | Kind::Run => return Err("kind"),
        })
    }
}
