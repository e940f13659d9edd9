//! The caching allocator's settings, and how they round a request.
//!
//! Source of the rules: `c10/cuda/CUDACachingAllocator` of PyTorch 2.x.

use crate::SizeClass;

/// The allocator settings a recording was made under, as its file states them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocatorSettings {
    /// The settings text (`PYTORCH_CUDA_ALLOC_CONF`); `None` if the file has none.
    pub conf: Option<String>,
    /// `max_split_size` in bytes; `None` = unlimited.
    pub max_split_size: Option<u64>,
    /// `garbage_collection_threshold`; 0 = off.
    pub garbage_collection_threshold: f64,
    /// Whether expandable segments were on at the end.
    pub expandable_segments: bool,
    /// Divisions of each power of two, by interval: index i holds for sizes from 2^(20+i) bytes; 0 = off.
    pub roundup_power2_divisions: [u32; 16],
    /// Every setting of the file as text, in its order.
    pub all: Vec<(String, String)>,
}

impl AllocatorSettings {
    /// The smallest block, and what requests are rounded to: 512 bytes.
    pub const QUANTUM: u64 = 512;
    /// Rounded requests up to this (1 MiB) come from the small pool. A free piece of the large pool is always larger.
    pub const SMALL_REQUEST: u64 = 1 << 20;
    /// Size of a segment of the small pool: 2 MiB.
    pub const SMALL_SEGMENT: u64 = 2 << 20;
    /// Size of a segment for requests from 1 to 10 MiB, and of a page of the large pool under expandable segments: 20 MiB.
    pub const LARGE_SEGMENT: u64 = 20 << 20;

    /// The block size that a request of `bytes` is rounded to, before any slack.
    pub fn round(&self, bytes: u64) -> u64 {
        if bytes < Self::QUANTUM {
            return Self::QUANTUM;
        }
        let interval = bytes.ilog2().saturating_sub(20).min(15);
        let divisions = u64::from(self.roundup_power2_divisions[interval as usize]);
        if divisions > 1 && bytes > Self::QUANTUM * divisions {
            if bytes.is_power_of_two() {
                return bytes;
            }
            let power = 1u64 << bytes.ilog2();
            let step = power / divisions;
            return if step == 0 { power.saturating_mul(2) } else { bytes.div_ceil(step).saturating_mul(step) };
        }
        bytes.div_ceil(Self::QUANTUM).saturating_mul(Self::QUANTUM)
    }

    /// The pool class that serves a request of rounded size.
    pub fn class_of(rounded: u64) -> SizeClass {
        if rounded <= Self::SMALL_REQUEST { SizeClass::Small } else { SizeClass::Large }
    }

    /// What the allocator asks the driver for when no cached block serves a rounded request, for an ordinary segment.
    pub fn segment_bytes(rounded: u64) -> u64 {
        match rounded {
            0..=Self::SMALL_REQUEST => Self::SMALL_SEGMENT,
            _ if rounded < 10 << 20 => Self::LARGE_SEGMENT,
            _ => rounded.checked_next_multiple_of(2 << 20).unwrap_or(u64::MAX),
        }
    }

    /// Whether a free piece of `rest` bytes behind a block of `rounded` bytes is split off; otherwise the block keeps it.
    pub fn splits(&self, rounded: u64, rest: u64, expandable: bool) -> bool {
        if expandable || Self::class_of(rounded) == SizeClass::Small {
            rest >= Self::QUANTUM
        } else {
            rest > Self::SMALL_REQUEST && self.max_split_size.is_none_or(|limit| rounded < limit)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_round_as_pytorch_does() {
        let plain = AllocatorSettings::default();
        for (request, block) in
            [(0, 512), (1, 512), (512, 512), (513, 1024), (1 << 20, 1 << 20), ((1 << 20) + 1, (1 << 20) + 512)]
        {
            assert_eq!(plain.round(request), block, "{request}");
        }
        let four = AllocatorSettings { roundup_power2_divisions: [4; 16], ..plain };
        for (request, block) in [
            (1200, 1536),
            (2048, 2048),
            (2049, 2560),
            (1200 << 20, 1280 << 20),
            (1 << 40, 1 << 40),
            ((1 << 40) + 1, (1 << 40) + (1 << 38)),
        ] {
            assert_eq!(four.round(request), block, "{request}");
        }
        assert_eq!(four.round(u64::MAX), u64::MAX, "saturates");
    }

    #[test]
    fn a_miss_asks_the_driver_for_whole_segments() {
        const MIB: u64 = 1 << 20;
        for (rounded, segment) in
            [(512, 2), (MIB, 2), (MIB + 512, 20), (10 * MIB - 512, 20), (10 * MIB, 10), (11 * MIB, 12)]
        {
            assert_eq!(AllocatorSettings::segment_bytes(rounded), segment * MIB, "{rounded}");
        }
    }

    #[test]
    fn large_blocks_keep_a_rest_of_up_to_one_mebibyte() {
        let plain = AllocatorSettings::default();
        assert!(!plain.splits(2 << 20, 1 << 20, false));
        assert!(plain.splits(2 << 20, (1 << 20) + 1, false));
        assert!(plain.splits(2 << 20, 512, true));
        assert!(plain.splits(512, 512, false));
        assert!(!plain.splits(512, 511, false));
        let limited = AllocatorSettings { max_split_size: Some(64 << 20), ..plain };
        assert!(!limited.splits(64 << 20, 100 << 20, false));
        assert!(limited.splits((64 << 20) - 512, 100 << 20, false));
    }
}
