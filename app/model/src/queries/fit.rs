//! Whether a request could be served from cache now, by PyTorch's own rules for rounding and searching.

use vramscope_trace::{AllocatorSettings, PoolOwner, SizeClass, StreamId};

use crate::LaneState;

use super::block_map::gaps;
use super::fragmentation::fragmentation;

/// How much larger than an oversize request its block may be.
const OVERSIZE_SLACK: u64 = 20 << 20;

/// What the cache holds for a request. Bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// The request as the allocator rounds it.
    pub rounded: u64,
    /// Which of the owner's two pools serves it.
    pub class: SizeClass,
    /// Where it would be placed now without asking the driver; `None` = the cache cannot serve it.
    pub from_cache: Option<u64>,
    /// What the allocator would ask the driver for otherwise, for an ordinary segment.
    pub segment_bytes: u64,
    /// The longest contiguous free stretch of that pool and stream.
    pub largest_free_here: u64,
    /// All free bytes of that pool and stream.
    pub free_here: u64,
    /// Free bytes that cannot serve it because they belong to other pools or streams.
    pub free_elsewhere: Vec<Elsewhere>,
}

/// Free memory of another pool or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The pool; `None` = unknown.
    pub pool: Option<vramscope_trace::Pool>,
    /// The stream; `None` = unknown.
    pub stream: Option<StreamId>,
    /// Free bytes.
    pub free: u64,
    /// The longest contiguous free stretch.
    pub largest_free: u64,
}

/// A cached free block.
#[derive(Clone, Copy)]
struct Free {
    bytes: u64,
    address: u64,
    expandable: bool,
    /// Its own bytes and those it could grow by: unlimited at the end of a reservation, whose length is not known.
    could_be: u64,
}

/// Whether a request of `bytes` by an owner on a stream could be served from cache now.
pub fn fit(lane: &LaneState, bytes: u64, owner: PoolOwner, stream: StreamId, settings: &AllocatorSettings) -> Fit {
    let rounded = settings.round(bytes);
    let class = AllocatorSettings::class_of(rounded);
    let here = (Some(vramscope_trace::Pool { owner, class }), Some(stream));
    let mut free = Vec::new();
    for segment in lane.segments.iter().filter(|segment| (segment.pool, segment.stream) == here) {
        free.extend(gaps(segment).map(|gap| {
            let next = segment.mapped.iter().find(|run| run.start >= gap.end).map_or(u64::MAX, |run| run.start);
            let at_run_end = segment.mapped.iter().any(|run| run.end == gap.end);
            let bytes = gap.end - gap.start;
            let could_be = if segment.expandable && at_run_end { next - gap.start } else { bytes };
            Free { bytes, address: gap.start, expandable: segment.expandable, could_be }
        }));
    }
    free.sort_unstable_by_key(|free| (free.bytes, free.address));
    let elsewhere = fragmentation(lane).by_pool.into_iter().filter(|pool| (pool.pool, pool.stream) != here);
    Fit {
        rounded,
        class,
        from_cache: best_fit(&free, rounded, settings).map(|free| free.address),
        segment_bytes: AllocatorSettings::segment_bytes(rounded),
        largest_free_here: free.last().map_or(0, |free| free.bytes),
        free_here: free.iter().map(|free| free.bytes).sum(),
        free_elsewhere: elsewhere
            .map(|pool| Elsewhere {
                pool: pool.pool,
                stream: pool.stream,
                free: pool.releasable + pool.pinned,
                largest_free: pool.largest_free,
            })
            .filter(|elsewhere| elsewhere.free > 0)
            .collect(),
    }
}

/// The block the allocator would take, of those sorted by size and address: the smallest that is large enough, with its
/// exceptions for expandable and oversize blocks. Only one candidate is ever looked at for the latter.
fn best_fit(free: &[Free], rounded: u64, settings: &AllocatorSettings) -> Option<Free> {
    let mut rest = &free[free.partition_point(|free| free.bytes < rounded)..];
    let mut found = *rest.first()?;
    if found.expandable && settings.expandable_segments {
        while let [_, next, ..] = rest
            && found.expandable
            && next.could_be < found.could_be
        {
            rest = &rest[1..];
            found = *next;
        }
    } else if found.expandable {
        found = *rest.iter().find(|free| !free.expandable)?;
    }
    let max_split = settings.max_split_size.unwrap_or(u64::MAX);
    let refused = if rounded < max_split {
        found.bytes >= max_split
    } else {
        found.bytes >= rounded.saturating_add(OVERSIZE_SLACK)
    };
    (!refused).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(bytes: u64, address: u64) -> Free {
        Free { bytes, address, expandable: false, could_be: bytes }
    }

    #[test]
    fn the_smallest_block_that_fits_is_taken_unless_oversize_rules_forbid_it() {
        const MIB: u64 = 1 << 20;
        let list = [free(2 * MIB, 1), free(4 * MIB, 2), free(4 * MIB, 3), free(60 * MIB, 4)];
        let plain = AllocatorSettings::default();
        let taken = |rounded, settings: &AllocatorSettings| best_fit(&list, rounded, settings).map(|free| free.address);
        assert_eq!(taken(3 * MIB, &plain), Some(2));
        assert_eq!(taken(5 * MIB, &plain), Some(4));
        assert_eq!(taken(61 * MIB, &plain), None);
        let split = AllocatorSettings { max_split_size: Some(50 * MIB), ..AllocatorSettings::default() };
        assert_eq!(taken(5 * MIB, &split), None);
        assert_eq!(taken(55 * MIB, &split), Some(4));
        let low = AllocatorSettings { max_split_size: Some(30 * MIB), ..AllocatorSettings::default() };
        assert_eq!(taken(40 * MIB, &low), None);
    }

    #[test]
    fn expandable_blocks_are_passed_over_when_the_mode_is_off_and_the_less_growable_wins_when_on() {
        let grown = |bytes, address, could_be| Free { bytes, address, expandable: true, could_be };
        let list = [grown(100, 1, u64::MAX), grown(120, 2, 120), free(500, 3)];
        let on = AllocatorSettings { expandable_segments: true, ..AllocatorSettings::default() };
        let off = AllocatorSettings::default();
        assert_eq!(best_fit(&list, 90, &on).map(|free| free.address), Some(2));
        assert_eq!(best_fit(&list, 90, &off).map(|free| free.address), Some(3));
        assert_eq!(best_fit(&list[..2], 90, &off).map(|free| free.address), None);
    }
}
