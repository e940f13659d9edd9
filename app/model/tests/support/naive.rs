//! A slow, obvious allocator bookkeeper to compare the real one with: one entry for every
//! unit of a small address space. Its own figures are in units.

use std::collections::BTreeMap;

use super::UNIT;
use vramscope_trace::{DeviceId, Event, EventKind, Pool, ProcessId, StreamId};

const SPACE: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NaiveBlock {
    pub(crate) id: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) requested: Option<u64>,
    pub(crate) pending: bool,
    segment: Option<u32>,
}

#[derive(Clone, Debug)]
struct NaiveSegment {
    expandable: bool,
    key: (Option<StreamId>, Option<Pool>),
    /// The range it ever had.
    start: u64,
    end: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct NaiveLane {
    pub(crate) blocks: Vec<NaiveBlock>,
    segments: BTreeMap<u32, NaiveSegment>,
    /// Which segment each unit is mapped into.
    bytes: Vec<Option<u32>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Naive {
    pub(crate) lanes: Vec<((ProcessId, DeviceId), NaiveLane)>,
    next_block: u32,
    next_segment: u32,
}

impl NaiveLane {
    fn new() -> Self {
        Self { blocks: Vec::new(), segments: BTreeMap::new(), bytes: vec![None; SPACE] }
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.bytes.iter().flatten().count() as u64
    }

    pub(crate) fn allocated(&self) -> u64 {
        self.blocks.iter().filter(|block| !block.pending).map(|block| block.end - block.start).sum()
    }

    pub(crate) fn pending(&self) -> u64 {
        self.blocks.iter().filter(|block| block.pending).map(|block| block.end - block.start).sum()
    }

    pub(crate) fn requested(&self) -> u64 {
        self.blocks.iter().filter(|block| !block.pending).filter_map(|block| block.requested).sum::<u64>() / UNIT
    }

    /// Mapped ranges by segment.
    pub(crate) fn mapped(&self) -> BTreeMap<u32, Vec<(u64, u64)>> {
        let mut found = BTreeMap::<u32, Vec<(u64, u64)>>::new();
        for (address, owner) in self.bytes.iter().enumerate() {
            let Some(owner) = owner else { continue };
            let ranges = found.entry(*owner).or_default();
            match ranges.last_mut() {
                Some(last) if last.1 == address as u64 => last.1 += 1,
                _ => ranges.push((address as u64, address as u64 + 1)),
            }
        }
        found
    }

    /// Whether a block lies inside its segment's mapped bytes now.
    pub(crate) fn is_placed(&self, block: &NaiveBlock) -> Option<u32> {
        let segment = block.segment?;
        let last = block.end.max(block.start + 1);
        (block.start..last).all(|at| self.bytes[at as usize] == Some(segment)).then_some(segment)
    }

    fn clear(&mut self, start: u64, end: u64) {
        for at in start..end {
            let Some(owner) = self.bytes[at as usize] else { continue };
            if self.segments[&owner].expandable {
                self.bytes[at as usize] = None;
            } else {
                self.bytes.iter_mut().filter(|byte| **byte == Some(owner)).for_each(|byte| *byte = None);
            }
        }
        self.segments.retain(|id, _| self.bytes.contains(&Some(*id)));
    }

    fn free(&mut self, address: u64) {
        if let Some(block) = self.blocks.iter_mut().find(|block| block.start == address) {
            block.pending = true;
        }
    }

    fn map(&mut self, start: u64, end: u64, key: (Option<StreamId>, Option<Pool>), next_segment: &mut u32) {
        if start == end {
            return;
        }
        self.clear(start, end);
        let alike = || self.segments.iter().filter(|(_, segment)| segment.expandable && segment.key == key);
        let below =
            alike().filter(|(_, segment)| segment.start <= start).max_by_key(|(id, segment)| (segment.start, **id));
        let above =
            alike().filter(|(_, segment)| segment.start > start).min_by_key(|(id, segment)| (segment.start, **id));
        let touches = |(_, segment): &(&u32, &NaiveSegment)| segment.start <= end && start <= segment.end;
        let found = below.filter(touches).or(above.filter(touches)).map(|(id, _)| *id);
        let id = found.unwrap_or_else(|| {
            *next_segment += 1;
            self.segments.insert(*next_segment - 1, NaiveSegment { expandable: true, key, start, end });
            *next_segment - 1
        });
        let segment = self.segments.get_mut(&id).expect("it was found or made above");
        segment.start = segment.start.min(start);
        segment.end = segment.end.max(end);
        self.bytes[start as usize..end as usize].fill(Some(id));
    }

    fn give_back(&mut self, address: u64, bytes: u64) {
        let Some(owner) = self.bytes[address as usize] else { return };
        if self.segments[&owner].expandable {
            self.clear(address, address + bytes);
        } else if self.segments[&owner].start == address {
            self.clear(address, address + 1);
        }
    }
}

impl Naive {
    /// Applies an event; only events that an allocator tells make a lane.
    pub(crate) fn apply(&mut self, event: &Event) {
        let key = (event.process, event.device);
        let at = match (self.lanes.iter().position(|(known, _)| *known == key), event.kind) {
            (
                _,
                EventKind::AnnotationBegin { .. }
                | EventKind::AnnotationEnd { .. }
                | EventKind::Mark { .. }
                | EventKind::CounterSample { .. }
                | EventKind::LostEvents { .. },
            ) => return,
            (Some(at), _) => at,
            (None, _) => {
                self.lanes.push((key, NaiveLane::new()));
                self.lanes.len() - 1
            }
        };
        let lane = &mut self.lanes[at].1;
        let unit = |bytes: u64| bytes / UNIT;
        match event.kind {
            EventKind::BlockAlloc { address, bytes, requested, .. } => {
                let (start, end) = (unit(address), unit(address + bytes));
                lane.blocks.retain(|block| {
                    let shares_bytes = block.start < end && block.end > start;
                    let point_inside = block.start < start && start < block.end;
                    !(shares_bytes || point_inside || block.start == start)
                });
                let mut block =
                    NaiveBlock { id: self.next_block, start, end, requested, pending: false, segment: None };
                block.segment = lane.bytes[start as usize];
                block.segment = lane.is_placed(&block);
                self.next_block += 1;
                lane.blocks.push(block);
                lane.blocks.sort_by_key(|block| block.start);
            }
            EventKind::FreeRequested { address, .. } => lane.free(unit(address)),
            EventKind::FreeCompleted { address } => lane.blocks.retain(|block| block.start != unit(address)),
            EventKind::SegmentAlloc { address, bytes, .. } if bytes > 0 => {
                let (start, end) = (unit(address), unit(address + bytes));
                lane.clear(start, end);
                let segment = NaiveSegment { expandable: false, key: (None, None), start, end };
                lane.segments.insert(self.next_segment, segment);
                lane.bytes[start as usize..end as usize].fill(Some(self.next_segment));
                self.next_segment += 1;
            }
            EventKind::SegmentMap { address, bytes, pool, .. } => {
                lane.map(unit(address), unit(address + bytes), (event.stream, pool), &mut self.next_segment);
            }
            EventKind::SegmentFree { address, bytes } => lane.give_back(unit(address), unit(bytes)),
            EventKind::SegmentUnmap { address, bytes } => lane.clear(unit(address), unit(address + bytes)),
            _ => {}
        }
    }
}
