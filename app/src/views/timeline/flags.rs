//! What stands at single places of the timeline: failed allocations, named instants, lost events, each put where its time or its
//! event lies, and what was allocated before recording began.

use vramscope_model::{Block, BlockId, Column, History, Lane, LaneId, Position};
use vramscope_trace::{NameId, TimeNs};

use crate::axis::Axis;

/// Something that happened at a place, or between two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flag<T> {
    /// Where it begins on the axis.
    pub low: f64,
    /// Where it ends; the same for an instant.
    pub high: f64,
    /// What it was.
    pub what: T,
}

/// Failed allocations of a lane, by the bytes they asked for.
pub(super) fn ooms(history: &History, axis: &Axis, lane: LaneId) -> Vec<Flag<u64>> {
    let ooms = history.ooms().into_iter().filter(|oom| oom.lane == lane);
    sorted(ooms.map(|oom| instant(axis.place_of(oom.seq.after()), oom.requested)).collect())
}

/// Named instants that a lane's process told for its device. They may be told late: their times place them.
pub(super) fn marks(history: &History, axis: &Axis, lane: &Lane) -> Vec<Flag<NameId>> {
    let marks = history.marks().into_iter().filter(|mark| (mark.process, mark.device) == (lane.process, lane.device));
    let place =
        |time: Option<TimeNs>, after| time.map_or_else(|| axis.place_of(after), |time| axis.place_of_time(time));
    sorted(marks.map(|mark| instant(place(mark.time, mark.seq.after()), mark.name)).collect())
}

/// Where a source dropped events, and how many: from the event before to when that was told.
pub(super) fn lost(history: &History, axis: &Axis, lane: &Lane) -> Vec<Flag<u64>> {
    let lost = history.lost().into_iter().filter(|lost| (lost.process, lost.device) == (lane.process, lane.device));
    let flag = |lost: vramscope_model::Lost| {
        let low = axis.place_of(lost.seq.before());
        let told = lost.time.map_or(low, |time| axis.place_of_time(time));
        Flag { low, high: axis.place_of(lost.seq.after()).max(told), what: lost.count }
    };
    sorted(lost.map(flag).collect())
}

fn instant<T>(place: f64, what: T) -> Flag<T> {
    Flag { low: place, high: place, what }
}

fn sorted<T>(mut flags: Vec<Flag<T>>) -> Vec<Flag<T>> {
    flags.sort_by(|a, b| a.low.total_cmp(&b.low));
    flags
}

/// What was allocated before recording began, and how it goes: bytes that are left from each position on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Base {
    /// Falling bytes by rising position; empty if nothing was.
    left: Vec<(Position, u64)>,
}

impl Base {
    /// Of one lane. Looks at every block that was there at the start: a job, not part of a frame.
    pub(super) fn of(history: &History, lane: LaneId) -> Self {
        let start = history.recording_start();
        let ids = history.blocks_allocated_in(Position::START..start);
        let blocks = (ids.start.0..ids.end.0).filter_map(|id| history.block(BlockId(id)));
        let mut freed: Vec<Block> = blocks
            .filter(|block| block.lane == lane && block.at_start && block.free_requested.is_none_or(|at| at > start))
            .collect();
        let mut bytes = freed.iter().map(|block| block.bytes).sum::<u64>();
        if bytes == 0 {
            return Self::default();
        }
        freed.retain(|block| block.free_requested.is_some());
        freed.sort_by_key(|block| block.free_requested);
        let mut left = vec![(start, bytes)];
        for block in freed {
            bytes -= block.bytes;
            left.extend(block.free_requested.map(|at| (at, bytes)));
        }
        Self { left }
    }

    /// Bytes at the start of the recording.
    pub(super) fn bytes(&self) -> u64 {
        self.left.first().map_or(0, |&(_, bytes)| bytes)
    }

    /// Bytes that are left at a position.
    pub(super) fn at(&self, position: Position) -> u64 {
        let after = self.left.partition_point(|&(from, _)| from <= position);
        after.checked_sub(1).map_or_else(|| self.bytes(), |index| self.left[index].1)
    }

    /// Over the columns between neighbouring edges, exactly: it only falls. Empty if there is nothing.
    pub(super) fn columns(&self, edges: &[Position]) -> Vec<Column> {
        if self.left.is_empty() {
            return Vec::new();
        }
        let column = |ends: &[Position]| {
            let (first, last) = (self.at(ends[0]), self.at(ends[1]));
            Column { first, min: last, max: first, last, peak_at: ends[0] }
        };
        edges.windows(2).map(column).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::AxisKind;
    use proptest::prelude::*;
    use vramscope_model::{Ingest, Metric};
    use vramscope_trace::{Batch, DeviceId, Event, EventKind, Origin, ProcessId, StackId};

    fn event(time: i64, device: u16, kind: EventKind) -> Event {
        let (process, device) = (ProcessId(0), DeviceId(device));
        Event { time: Some(TimeNs(time)), process, device, stream: None, origin: Origin::Shim, kind }
    }

    fn alloc(address: u64, bytes: u64, at_start: bool) -> EventKind {
        EventKind::BlockAlloc { address, bytes, requested: Some(bytes), stack: StackId::NONE, at_start }
    }

    fn free(address: u64) -> [EventKind; 2] {
        let (stack, at_start) = (StackId::NONE, false);
        [EventKind::FreeRequested { address, stack, at_start }, EventKind::FreeCompleted { address }]
    }

    fn history(events: Vec<Event>) -> History {
        let mut ingest = Ingest::new();
        ingest.push(Batch { events, ..Batch::default() });
        ingest.history()
    }

    #[test]
    fn flags_lie_where_their_times_are_and_only_on_their_device() {
        let name = NameId(0);
        let history = history(vec![
            event(1000, 0, alloc(4096, 512, false)),
            event(1000, 1, alloc(4096, 512, false)),
            event(5000, 0, EventKind::LostEvents { count: 7 }),
            event(6000, 1, EventKind::LostEvents { count: 9 }),
            event(9000, 0, alloc(8192, 512, false)),
            event(3000, 0, EventKind::Mark { name }),
            event(2000, 1, EventKind::Mark { name }),
        ]);
        let lane = &history.lanes()[0];
        let axis = Axis::new(&history, AxisKind::Time);
        assert_eq!(lost(&history, &axis, lane), [Flag { low: 0.0, high: 4000.0, what: 7 }]);
        assert_eq!(marks(&history, &axis, lane), [Flag { low: 2000.0, high: 2000.0, what: name }]);
        let axis = Axis::new(&history, AxisKind::Events);
        assert_eq!(lost(&history, &axis, lane), [Flag { low: 2.0, high: 3.0, what: 7 }]);
    }

    #[test]
    fn case_5_blocks_without_an_event_are_the_base() {
        let history = history(vec![event(0, 0, alloc(4096, 300, true)), event(1000, 0, alloc(8192, 100, false))]);
        let base = Base::of(&history, history.lanes()[0].id);
        assert_eq!((base.bytes(), base.at(Position(2))), (300, 300));
        assert_eq!(history.value_at(history.lanes()[0].id, Metric::Allocated, Position(2)), Some(400));
        let columns = base.columns(&[Position(1), Position(1), Position(2)]);
        assert!(columns.len() == 2 && columns.iter().all(|column| (column.min, column.max) == (300, 300)));
    }

    #[test]
    fn without_a_base_there_is_no_layer() {
        let history = history(vec![event(1000, 0, alloc(8192, 100, false))]);
        let base = Base::of(&history, history.lanes()[0].id);
        assert_eq!(base, Base::default());
        assert!(base.columns(&[Position(0), Position(1)]).is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// At every position the base is what is left of the blocks that were there at the start, counted one by one.
        #[test]
        fn the_base_falls_exactly_with_its_blocks(
            sizes in prop::collection::vec(1u64..1000, 1..12),
            frees in prop::collection::vec((0usize..12, 0usize..3), 0..12),
        ) {
            let address = |index: usize| (index as u64 + 1) << 20;
            let start = sizes.iter().enumerate().map(|(index, &bytes)| alloc(address(index), bytes, true));
            let mut kinds: Vec<EventKind> = start.collect();
            let mut gone = vec![false; sizes.len()];
            for (step, &(index, fresh)) in frees.iter().enumerate() {
                kinds.extend((0..fresh).map(|new| alloc(address(100 + 10 * step + new), 64, false)));
                if index < sizes.len() && !std::mem::replace(&mut gone[index], true) {
                    kinds.extend(free(address(index)));
                }
            }
            let count = kinds.len() as u32;
            let history = history(kinds.into_iter().zip(0..).map(|(kind, time)| event(time, 0, kind)).collect());
            let base = Base::of(&history, history.lanes()[0].id);
            for position in (history.recording_start().0..=count).map(Position) {
                let allocated = history.value_at(history.lanes()[0].id, Metric::Allocated, position).unwrap();
                let fresh: u64 = (0..history.blocks())
                    .filter_map(|id| history.block(BlockId(id)))
                    .filter(|block| !block.at_start && block.allocated <= position)
                    .map(|block| block.bytes)
                    .sum();
                prop_assert_eq!(base.at(position) + fresh, allocated, "at {:?}", position);
            }
        }
    }
}
