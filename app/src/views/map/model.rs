//! What the map shows: segments in groups that share no memory, each cut into blocks, free pieces and holes.

use std::cmp::Reverse;
use std::ops::Range;

use rustc_hash::FxHashMap;
use vramscope_model::{BlockId, BlockMap, BlockState, GapKind, LaneState, MapWhat, SegmentId, SegmentState, block_map};
use vramscope_trace::{Pool, SizeClass, StreamId};

/// A hole in an expandable segment is drawn no longer than this part of the longest segment.
const LONGEST_HOLE: u64 = 48;

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A block, in use or pending.
    Block { id: BlockId, pending: bool },
    /// Free memory.
    Gap(GapKind),
    /// Address space without memory.
    Hole,
}

/// A stretch of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Where it begins in its row: bytes, with holes shortened.
    pub start: u64,
    /// How long it is drawn: its bytes, less for a hole.
    pub length: u64,
    /// First byte.
    pub address: u64,
    /// What it is.
    pub what: What,
}

impl Piece {
    /// Where it ends in its row.
    pub(super) fn end(&self) -> u64 {
        self.start + self.length
    }

    /// Bytes of memory in the stretch of it from `low` to `high` of its row.
    pub(super) fn bytes_in(&self, low: u64, high: u64) -> u64 {
        match self.what {
            What::Hole => 0,
            _ => self.end().min(high).saturating_sub(self.start.max(low)),
        }
    }
}

/// A segment, or a block that is in no known segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub segment: Option<SegmentId>,
    pub expandable: bool,
    /// Bytes of memory.
    pub bytes: u64,
    /// Length as drawn: bytes and shortened holes.
    pub length: u64,
    /// Its stretches, by address: they tile it.
    pub pieces: Range<usize>,
}

/// Segments of one pool and stream: free memory of one group never serves another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub pool: Option<Pool>,
    pub stream: Option<StreamId>,
    /// Whether its rows are blocks in no known segment.
    pub loose: bool,
    pub rows: Range<usize>,
    pub reserved: u64,
    pub allocated: u64,
    pub pending: u64,
    pub pinned: u64,
    pub releasable: u64,
}

/// The map of one lane at one instant.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub groups: Vec<Group>,
    /// By group, then largest first.
    pub rows: Vec<Row>,
    pub pieces: Vec<Piece>,
    /// The longest row.
    pub longest: u64,
    by_segment: FxHashMap<SegmentId, usize>,
}

impl Model {
    /// The row of a segment.
    pub(super) fn row_of(&self, segment: SegmentId) -> Option<usize> {
        self.by_segment.get(&segment).copied()
    }

    /// The pieces of a row.
    pub(super) fn pieces_of(&self, row: usize) -> &[Piece] {
        &self.pieces[self.rows[row].pieces.clone()]
    }

    /// The piece at a place of a row: its index in [`Self::pieces`].
    pub(super) fn piece_at(&self, row: usize, place: u64) -> Option<usize> {
        let range = self.rows.get(row)?.pieces.clone();
        let found = range.start + self.pieces[range.clone()].partition_point(|piece| piece.end() <= place);
        (found < range.end).then_some(found)
    }

    /// Bytes in use and pending, and bytes of memory in all.
    pub(super) fn totals(&self) -> (u64, u64) {
        let used = self.groups.iter().map(|group| group.allocated + group.pending).sum();
        (used, self.rows.iter().map(|row| row.bytes).sum())
    }

    fn push(&mut self, segment: Option<&SegmentState>, pieces: impl Iterator<Item = Piece>) {
        let first = self.pieces.len();
        self.pieces.extend(pieces);
        let pieces = first..self.pieces.len();
        let of_row = &self.pieces[first..];
        let length = of_row.last().map_or(0, Piece::end);
        let bytes = of_row.iter().map(|piece| piece.bytes_in(0, u64::MAX)).sum();
        let (id, expandable) = segment.map_or((None, false), |segment| (Some(segment.segment), segment.expandable));
        if let Some(id) = id {
            self.by_segment.insert(id, self.rows.len());
        }
        self.longest = self.longest.max(length);
        self.rows.push(Row { segment: id, expandable, bytes, length, pieces });
    }
}

/// Groups in the order they are shown: shared pools before private ones, large before small, blocks in no segment last.
type GroupKey = (bool, Option<vramscope_trace::PoolOwner>, Option<StreamId>, Reverse<Option<SizeClass>>);

fn key(segment: &SegmentState) -> GroupKey {
    let owner = segment.pool.map(|pool| pool.owner);
    let private = owner.is_some_and(vramscope_trace::PoolOwner::is_private);
    (private, owner, segment.stream, Reverse(segment.pool.map(|pool| pool.class)))
}

/// Makes the map of a lane. Costs what is live.
pub(super) fn build(lane: &LaneState) -> Model {
    let mut order: Vec<&SegmentState> = lane.segments.iter().collect();
    order.sort_by_key(|segment| (key(segment), Reverse(segment.mapped_bytes()), segment.segment));
    let longest = order.iter().map(|segment| segment.mapped_bytes()).max().unwrap_or(0);
    let longest_hole = (longest / LONGEST_HOLE).max(1 << 20);
    let mut model = Model::default();
    for same in order.chunk_by(|a, b| key(a) == key(b)) {
        let first = model.rows.len();
        for segment in same {
            let map = block_map(segment);
            model.push(Some(segment), pieces(segment, &map, longest_hole));
        }
        let group = Group { pool: same[0].pool, stream: same[0].stream, ..Group::default() };
        model.finish(group, first);
    }
    if !lane.loose.is_empty() {
        let first = model.rows.len();
        let mut loose: Vec<&BlockState> = lane.loose.iter().collect();
        loose.sort_by_key(|block| (Reverse(block.bytes), block.id));
        for block in loose {
            let what = What::Block { id: block.id, pending: block.pending };
            let piece = Piece { start: 0, length: block.bytes, address: block.address, what };
            model.push(None, std::iter::once(piece));
        }
        model.finish(Group { loose: true, ..Group::default() }, first);
    }
    model
}

fn pieces<'a>(segment: &'a SegmentState, map: &'a BlockMap, longest_hole: u64) -> impl Iterator<Item = Piece> + 'a {
    let mut start = 0;
    map.items.iter().map(move |item| {
        let bytes = item.range.end - item.range.start;
        let (what, length) = match item.what {
            MapWhat::Block { index } => {
                let block = &segment.blocks[index];
                (What::Block { id: block.id, pending: block.pending }, bytes)
            }
            MapWhat::Gap(kind) => (What::Gap(kind), bytes),
            MapWhat::Unmapped => (What::Hole, bytes.min(longest_hole)),
        };
        start += length;
        Piece { start: start - length, length, address: item.range.start, what }
    })
}

impl Model {
    /// Ends a group whose rows begin at `first`: adds up its figures.
    fn finish(&mut self, mut group: Group, first: usize) {
        group.rows = first..self.rows.len();
        let pieces = self.rows[first].pieces.start..self.pieces.len();
        for piece in &self.pieces[pieces] {
            let sum = match piece.what {
                What::Block { pending: false, .. } => &mut group.allocated,
                What::Block { pending: true, .. } => &mut group.pending,
                What::Gap(GapKind::Pinned) => &mut group.pinned,
                What::Gap(GapKind::Releasable) => &mut group.releasable,
                What::Hole => continue,
            };
            *sum += piece.length;
        }
        group.reserved = group.allocated + group.pending + group.pinned + group.releasable;
        self.groups.push(group);
    }
}
