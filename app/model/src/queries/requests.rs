//! What a lane's program asked of its allocator, read back from what the allocator did.

use rustc_hash::FxHashMap;
use vramscope_trace::{
    Action, AllocatorSettings, DriverPlace, EventKind, PoolOwner, Request, Requests, SizeClass, StackId, StartBlock,
    StartRun, StartState, TimeNs,
};

use crate::{BlockId, EventSeq, EventView, History, LaneId, Metric, SegmentId, Subject};

/// The requests of a lane; `None` for an unknown lane, or if `cancel` says so.
///
/// `capacity` is the most bytes the allocator was allowed to reserve, where that is known. It tells an emptying of the cache by
/// the program from one that the allocator resorted to: the latter comes when a segment would exceed the capacity (unknown: the
/// most that was ever reserved), or before a failure.
pub fn requests(history: &History, lane: LaneId, capacity: Option<u64>, cancel: &dyn Fn() -> bool) -> Option<Requests> {
    let facts = history.lanes().get(usize::from(lane.0))?;
    let settings = history.info().and_then(|info| info.settings.clone()).unwrap_or_default();
    let peak = history.peak(lane, Metric::Reserved).map_or(0, |peak| peak.bytes);
    let mut reader = Reader {
        history,
        lane,
        ceiling: capacity.unwrap_or(peak),
        settings: settings.clone(),
        numbers: FxHashMap::default(),
        next_number: 0,
        released: None,
        held_back: Vec::new(),
        named_places: 0,
        given_back: 0,
        expandable_seen: FxHashMap::default(),
        found: Requests { process: facts.process, device: facts.device, settings, capacity, ..Requests::default() },
    };
    reader.read_start();
    for seq in history.recording_start().0..history.end().0 {
        if seq % 4096 == 0 && cancel() {
            return None;
        }
        reader.read_event(EventSeq(seq));
    }
    reader.end_release(None);
    Some(reader.found)
}

/// A run of segments and pages that went back to the driver.
struct Release {
    /// Reserved bytes before it.
    reserved: u64,
    /// Its first event.
    first: EventSeq,
    time: Option<TimeNs>,
    /// Private pools that lost memory in it: their owners are gone.
    retired: Vec<PoolOwner>,
    /// Where in the list the completions of frees that came just before it begin.
    completions: usize,
}

struct Reader<'a> {
    history: &'a History,
    lane: LaneId,
    /// A segment beyond this makes the allocator empty its cache.
    ceiling: u64,
    settings: AllocatorSettings,
    /// Numbers of allocations by their blocks.
    numbers: FxHashMap<BlockId, u32>,
    next_number: u32,
    released: Option<Release>,
    /// Completions that the allocator waited for to make room: they come after the request that it needed the room for.
    held_back: Vec<Request>,
    /// How many places know the request that needed them.
    named_places: usize,
    /// How many ordinary segments have gone back to the driver.
    given_back: u32,
    expandable_seen: FxHashMap<SegmentId, ()>,
    found: Requests,
}

impl Reader<'_> {
    fn read_start(&mut self) {
        let snapshot = self.history.snapshot_at(self.history.recording_start());
        let Some(state) = snapshot.lanes.into_iter().find(|state| state.lane == self.lane) else { return };
        let StartState { runs, blocks } = &mut self.found.start;
        for segment in &state.segments {
            let facts = self.history.segment(segment.segment);
            let stream = segment.stream.unwrap_or_default();
            for range in &segment.mapped {
                let bytes = range.end - range.start;
                let class = if bytes > AllocatorSettings::SMALL_SEGMENT { SizeClass::Large } else { SizeClass::Small };
                let unknown = vramscope_trace::Pool { owner: PoolOwner::DEFAULT, class };
                runs.push(StartRun {
                    address: range.start,
                    bytes,
                    pool: segment.pool.unwrap_or(unknown),
                    stream,
                    expandable: segment.expandable,
                    stack: facts.map_or(StackId::NONE, |facts| facts.stack),
                });
            }
            if segment.expandable {
                self.expandable_seen.insert(segment.segment, ());
            }
            for block in &segment.blocks {
                let facts = self.history.block(block.id);
                self.numbers.insert(block.id, blocks.len() as u32);
                blocks.push(StartBlock {
                    address: block.address,
                    bytes: block.bytes,
                    requested: block.requested.unwrap_or(block.bytes),
                    stream,
                    owner: segment.pool.map_or(PoolOwner::DEFAULT, |pool| pool.owner),
                    stack: facts.map_or(StackId::NONE, |facts| facts.stack),
                    pending: block.pending,
                });
            }
        }
        self.next_number = blocks.len() as u32;
    }

    fn read_event(&mut self, seq: EventSeq) {
        let Some(view) = self.history.event(seq) else { return };
        if view.lane != Some(self.lane) || view.event.kind.at_start() {
            return;
        }
        match view.event.kind {
            EventKind::SegmentFree { .. } | EventKind::SegmentUnmap { .. } => return self.read_release(&view),
            EventKind::SegmentAlloc { bytes, .. } | EventKind::SegmentMap { bytes, .. } => {
                self.end_release(Some(bytes));
            }
            EventKind::OutOfMemory { .. } => self.end_release(Some(u64::MAX)),
            _ => self.end_release(None),
        }
        let time = view.event.time;
        let stream = view.event.stream.unwrap_or_default();
        let action = match (view.event.kind, view.subject) {
            (EventKind::BlockAlloc { bytes, requested, stack, .. }, Subject::Block(block)) => {
                self.numbers.insert(block, self.next_number);
                self.next_number += 1;
                let pool = self.history.block(block).and_then(|block| block.pool);
                let owner = pool.map_or(PoolOwner::DEFAULT, |pool| pool.owner);
                Action::Alloc { bytes: requested.unwrap_or(bytes), stream, owner, stack, failed: false }
            }
            (EventKind::OutOfMemory { requested, stack, .. }, _) => {
                self.next_number += 1;
                Action::Alloc { bytes: requested, stream, owner: PoolOwner::DEFAULT, stack, failed: true }
            }
            (EventKind::FreeRequested { stack, .. }, Subject::Block(block)) => match self.numbers.get(&block) {
                Some(&allocation) => Action::FreeRequested { allocation, stack },
                None => return,
            },
            (EventKind::FreeCompleted { .. }, Subject::Block(block)) => {
                let Some(&allocation) = self.numbers.get(&block) else { return };
                // Some sources tell only the completion.
                let requested = self.history.block(block).and_then(|block| block.free_requested);
                if requested == Some(seq.after()) {
                    self.push(seq, time, Action::FreeRequested { allocation, stack: StackId::NONE });
                }
                Action::FreeCompleted { allocation }
            }
            (EventKind::SegmentAlloc { address, bytes, .. }, _) => {
                return self.push_place(seq, address, bytes, false);
            }
            (EventKind::SegmentMap { address, bytes, .. }, Subject::Segment(segment)) => {
                if self.expandable_seen.insert(segment, ()).is_none() {
                    self.push_place(seq, address, bytes, true);
                }
                return;
            }
            _ => return,
        };
        self.push(seq, time, action);
        if matches!(action, Action::Alloc { .. }) {
            // What came from the driver just before was for this request.
            let unnamed = std::mem::replace(&mut self.named_places, self.found.places.len());
            self.found.places[unnamed..].iter_mut().for_each(|place| place.event = seq.0);
            self.found.list.append(&mut self.held_back);
        }
    }

    fn push(&mut self, seq: EventSeq, time: Option<TimeNs>, action: Action) {
        self.found.list.push(Request { time, event: seq.0, action });
    }

    /// Notes where the driver placed memory. Its request is the next one.
    fn push_place(&mut self, seq: EventSeq, address: u64, bytes: u64, expandable: bool) {
        let given_back = self.given_back;
        self.found.places.push(DriverPlace { event: seq.0, given_back, address, bytes, expandable });
    }

    fn read_release(&mut self, view: &EventView) {
        self.given_back += u32::from(matches!(view.event.kind, EventKind::SegmentFree { .. }));
        let release = self.released.get_or_insert_with(|| Release {
            reserved: self.history.value_at(self.lane, Metric::Reserved, view.seq.before()).unwrap_or(0),
            first: view.seq,
            time: view.event.time,
            retired: Vec::new(),
            completions: late_completions(&self.found.list),
        });
        let Subject::Segment(segment) = view.subject else { return };
        let owner = self.history.segment(segment).and_then(|segment| segment.pool).map(|pool| pool.owner);
        if let Some(owner) = owner.filter(|owner| owner.is_private() && !release.retired.contains(owner)) {
            release.retired.push(owner);
        }
    }

    /// What followed a release tells who wanted it: memory of `then` bytes, a failure (all bytes), or anything else.
    fn end_release(&mut self, then: Option<u64>) {
        let Some(release) = self.released.take() else { return };
        for owner in release.retired {
            self.push(release.first, release.time, Action::RetirePool { owner });
        }
        let collects = self.settings.garbage_collection_threshold > 0.0;
        let resorted = then.is_some_and(|bytes| collects || release.reserved.saturating_add(bytes) > self.ceiling);
        if !resorted {
            self.push(release.first, release.time, Action::EmptyCache);
        } else if !collects {
            self.held_back = self.found.list.split_off(release.completions);
        }
    }
}

/// Where the completions at the end of a list begin. One that follows its own request is an ordinary free.
fn late_completions(list: &[Request]) -> usize {
    let mut from = list.len();
    while let Some(Request { action: Action::FreeCompleted { allocation }, .. }) =
        from.checked_sub(1).map(|at| list[at])
    {
        let before = from.checked_sub(2).map(|at| list[at].action);
        if matches!(before, Some(Action::FreeRequested { allocation: freed, .. }) if freed == allocation) {
            break;
        }
        from -= 1;
    }
    from
}
