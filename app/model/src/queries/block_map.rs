//! Blocks and gaps of one segment by address. Gaps are derived: whatever is mapped and in no block.

use std::ops::Range;

use vramscope_trace::SizeClass;

use crate::{SegmentId, SegmentState};

/// What a gap would do if the cache were emptied now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GapKind {
    /// It would go back to the driver: a whole free segment, or whole free pages of an expandable one.
    Releasable,
    /// It would stay: free, but held by blocks in the same segment or page.
    Pinned,
}

/// What a stretch of a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapWhat {
    /// A block, in use or pending: its index in the segment's blocks.
    Block {
        /// Index in [`SegmentState::blocks`].
        index: usize,
    },
    /// Free memory.
    Gap(GapKind),
    /// Address space without memory, between two mapped ranges.
    Unmapped,
}

/// A stretch of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapItem {
    /// Its addresses.
    pub range: Range<u64>,
    /// What it is.
    pub what: MapWhat,
}

/// A segment cut into stretches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMap {
    /// The segment.
    pub segment: SegmentId,
    /// Stretches by address, without gap or overlap, from the lowest to the highest mapped byte.
    pub items: Vec<MapItem>,
}

/// Bytes of a page of an expandable segment: 2 MiB for the small pool, 20 MiB for the large one (and where the pool is unknown).
pub(crate) fn page_bytes(segment: &SegmentState) -> u64 {
    match segment.pool.map(|pool| pool.class) {
        Some(SizeClass::Small) => 2 << 20,
        Some(SizeClass::Large) | None => 20 << 20,
    }
}

/// The part of a gap that emptying the cache would give back.
pub(crate) fn releasable_part(segment: &SegmentState, gap: &Range<u64>) -> Option<Range<u64>> {
    if !segment.expandable {
        return segment.mapped.contains(gap).then(|| gap.clone());
    }
    let page = page_bytes(segment);
    let offset = |address: u64| address - segment.address;
    let start = offset(gap.start).checked_next_multiple_of(page)?.checked_add(segment.address)?;
    let end = segment.address + offset(gap.end) / page * page;
    (start < end).then_some(start..end)
}

/// The gaps of a segment by address: mapped stretches without a block. Each ends at a block or at the end of a mapped range.
pub(crate) fn gaps(segment: &SegmentState) -> impl Iterator<Item = Range<u64>> {
    let mut blocks = segment.blocks.iter().peekable();
    segment.mapped.iter().flat_map(move |run| {
        let mut at = run.start;
        let mut found = Vec::new();
        while let Some(block) = blocks.next_if(|block| block.address < run.end) {
            if at < block.address {
                found.push(at..block.address);
            }
            at = block.address + block.bytes;
        }
        if at < run.end {
            found.push(at..run.end);
        }
        found
    })
}

/// Cuts a segment into blocks, gaps and holes.
pub fn block_map(segment: &SegmentState) -> BlockMap {
    let mut items = Vec::with_capacity(segment.blocks.len() * 2 + segment.mapped.len());
    let mut blocks = segment.blocks.iter().enumerate().peekable();
    let mut before: Option<u64> = None;
    for run in &segment.mapped {
        if let Some(before) = before {
            items.push(MapItem { range: before..run.start, what: MapWhat::Unmapped });
        }
        let mut at = run.start;
        while let Some((index, block)) = blocks.next_if(|(_, block)| block.address < run.end) {
            push_gap(&mut items, segment, at..block.address);
            at = block.address + block.bytes;
            items.push(MapItem { range: block.address..at, what: MapWhat::Block { index } });
        }
        push_gap(&mut items, segment, at..run.end);
        before = Some(run.end);
    }
    BlockMap { segment: segment.segment, items }
}

/// Adds a gap: one item, or up to three where pages in its middle are releasable.
fn push_gap(items: &mut Vec<MapItem>, segment: &SegmentState, gap: Range<u64>) {
    let middle = releasable_part(segment, &gap).unwrap_or(gap.end..gap.end);
    let parts = [
        (gap.start..middle.start, GapKind::Pinned),
        (middle.clone(), GapKind::Releasable),
        (middle.end..gap.end, GapKind::Pinned),
    ];
    items.extend(
        parts
            .into_iter()
            .filter(|(range, _)| range.start < range.end)
            .map(|(range, kind)| MapItem { range, what: MapWhat::Gap(kind) }),
    );
}

#[cfg(test)]
mod tests {
    use vramscope_trace::{Pool, PoolOwner};

    use super::*;
    use crate::{BlockId, BlockState};

    const MIB: u64 = 1 << 20;

    fn segment(expandable: bool, mapped: &[(u64, u64)], blocks: &[(u64, u64)]) -> SegmentState {
        let block = |(n, &(address, bytes)): (usize, &(u64, u64))| BlockState {
            id: BlockId(n as u32),
            address,
            bytes,
            requested: None,
            pending: false,
        };
        SegmentState {
            segment: SegmentId(0),
            address: mapped[0].0,
            pool: Some(Pool { owner: PoolOwner::DEFAULT, class: SizeClass::Small }),
            stream: None,
            expandable,
            mapped: mapped.iter().map(|&(start, end)| start..end).collect(),
            blocks: blocks.iter().enumerate().map(block).collect(),
        }
    }

    fn drawn(segment: &SegmentState) -> Vec<(u64, u64, MapWhat)> {
        block_map(segment).items.into_iter().map(|item| (item.range.start, item.range.end, item.what)).collect()
    }

    #[test]
    fn an_ordinary_segment_is_released_whole_or_not_at_all() {
        assert_eq!(drawn(&segment(false, &[(100, 200)], &[])), [(100, 200, MapWhat::Gap(GapKind::Releasable))]);
        assert_eq!(
            drawn(&segment(false, &[(100, 200)], &[(120, 10)])),
            [
                (100, 120, MapWhat::Gap(GapKind::Pinned)),
                (120, 130, MapWhat::Block { index: 0 }),
                (130, 200, MapWhat::Gap(GapKind::Pinned)),
            ]
        );
    }

    #[test]
    fn an_expandable_segment_is_released_page_by_page() {
        let base = 7 * MIB;
        let map = segment(true, &[(base, base + 10 * MIB), (base + 12 * MIB, base + 14 * MIB)], &[(base, MIB)]);
        assert_eq!(
            drawn(&map),
            [
                (base, base + MIB, MapWhat::Block { index: 0 }),
                (base + MIB, base + 2 * MIB, MapWhat::Gap(GapKind::Pinned)),
                (base + 2 * MIB, base + 10 * MIB, MapWhat::Gap(GapKind::Releasable)),
                (base + 10 * MIB, base + 12 * MIB, MapWhat::Unmapped),
                (base + 12 * MIB, base + 14 * MIB, MapWhat::Gap(GapKind::Releasable)),
            ]
        );
        assert_eq!(gaps(&map).collect::<Vec<_>>(), [base + MIB..base + 10 * MIB, base + 12 * MIB..base + 14 * MIB]);
    }
}
