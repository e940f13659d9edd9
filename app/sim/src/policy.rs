//! What the simulator is told to be: which PyTorch, under which settings, with how much memory.

use vramscope_trace::{AllocatorSettings, PoolOwner, Requests, SizeClass};

/// A version of PyTorch. What it changes is listed in [`crate::conf`] (options) and [`Policy`] (behaviour).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Torch {
    /// Major version.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
}

impl Torch {
    /// The oldest version this simulator knows.
    pub const OLDEST: Self = Self::v2(0);
    /// The newest version this simulator knows.
    pub const NEWEST: Self = Self::v2(15);

    /// Version 2.`minor`.
    pub const fn v2(minor: u16) -> Self {
        Self { major: 2, minor }
    }

    /// Reads "2.11", "2.11.0" or "2.11.0+cu130".
    ///
    /// # Errors
    /// A sentence, if it is no version or none that this simulator knows.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.trim().split(['.', '+', '-']);
        let mut number = || parts.next().and_then(|part| part.parse::<u16>().ok());
        let (Some(major), Some(minor)) = (number(), number()) else {
            return Err(format!("\u{201c}{text}\u{201d} is no PyTorch version (an example: 2.11)"));
        };
        let version = Self { major, minor };
        if version < Self::OLDEST || version > Self::NEWEST {
            return Err(format!("PyTorch {major}.{minor} is not simulated, only 2.0 to 2.15"));
        }
        Ok(version)
    }
}

/// What keeps the allocator from reserving more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// Nothing: the driver always has more.
    #[default]
    None,
    /// A cap set by the program (`set_per_process_memory_fraction`), in bytes. Garbage collection works only with one.
    Fraction(u64),
    /// What the device has left for this allocator, in bytes.
    Device(u64),
}

impl Limit {
    /// The most bytes that can be reserved.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Fraction(bytes) | Self::Device(bytes) => Some(bytes),
        }
    }
}

/// What is special about a private pool. A recording does not tell; the default is an ordinary pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolTraits {
    /// The pool's owner.
    pub owner: PoolOwner,
    /// Its blocks are never split (2.10 and later).
    pub no_split: bool,
    /// Its cached blocks may serve the default pool when all else fails (2.8 and later).
    pub use_on_oom: bool,
    /// It has an allocator of its own, so that expandable segments are off in it (2.8 and later).
    pub own_allocator: bool,
}

/// Everything the allocator's behaviour depends on beside the requests.
///
/// | version | what it changes |
/// | --- | --- |
/// | 2.6 | `max_non_split_rounding_mb` (20 MiB before) |
/// | 2.8 | [`PoolTraits::use_on_oom`]; no expandable segments in pools with their own allocator |
/// | 2.10 | a memory fraction of 1 is no cap; [`PoolTraits::no_split`] |
/// | 2.11 | `large_segment_size_mb` |
/// | 2.12 | `throw_on_cudamalloc_oom` |
/// | 2.15 | `expandable_segments_reserve` |
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// The version of PyTorch.
    pub torch: Torch,
    /// Rounding, splitting, garbage collection, expandable segments.
    pub settings: AllocatorSettings,
    /// How much larger than an oversize request its block may be, in bytes.
    pub max_non_split_rounding: u64,
    /// Size of a segment for requests from 1 to 10 MiB, and of a page of large expandable segments.
    pub large_segment: u64,
    /// A request beyond the cap fails at once, without emptying caches first.
    pub throw_at_cap: bool,
    /// Address space of one expandable segment in bytes; `None` = more than is ever needed.
    pub reservation: Option<u64>,
    /// What keeps it from reserving more.
    pub limit: Limit,
    /// Private pools that are not ordinary.
    pub pools: Vec<PoolTraits>,
}

impl Policy {
    /// PyTorch's defaults, without a limit.
    pub fn new(torch: Torch) -> Self {
        Self {
            torch,
            settings: AllocatorSettings::default(),
            max_non_split_rounding: 20 << 20,
            large_segment: AllocatorSettings::LARGE_SEGMENT,
            throw_at_cap: false,
            reservation: None,
            limit: Limit::None,
            pools: Vec::new(),
        }
    }

    /// The settings a recording was made under, as far as it tells them, with its cap. Options that change the allocator
    /// but are not among a snapshot's settings are taken from its settings text.
    pub fn recorded(requests: &Requests, torch: Torch) -> Self {
        let text = requests.settings.conf.as_deref().unwrap_or("");
        // A text that this version does not understand still leaves the settings that are told apart.
        let mut policy = crate::conf::parse(text, torch, requests.capacity).unwrap_or_else(|_| Self::new(torch));
        policy.settings = requests.settings.clone();
        policy.limit = requests.capacity.map_or(Limit::None, Limit::Fraction);
        policy
    }

    /// The same policy with another limit.
    #[must_use]
    pub fn with_limit(&self, limit: Limit) -> Self {
        Self { limit, ..self.clone() }
    }

    /// What is special about a pool.
    pub fn traits(&self, owner: PoolOwner) -> PoolTraits {
        let plain = PoolTraits { owner, no_split: false, use_on_oom: false, own_allocator: false };
        self.pools.iter().find(|traits| traits.owner == owner).copied().unwrap_or(plain)
    }

    /// Whether both lay out memory alike, so that a state made by one could have been made by the other.
    pub fn lays_out_as(&self, other: &Self) -> bool {
        self.settings.expandable_segments == other.settings.expandable_segments
            && self.settings.max_split_size == other.settings.max_split_size
            && self.settings.roundup_power2_divisions == other.settings.roundup_power2_divisions
            && self.max_non_split_rounding == other.max_non_split_rounding
            && self.large_segment == other.large_segment
    }

    /// The cap that garbage collection goes by; `None` if it is off.
    pub(crate) fn collects_at(&self) -> Option<u64> {
        match self.limit {
            Limit::Fraction(cap) if self.settings.garbage_collection_threshold > 0.0 => {
                Some((self.settings.garbage_collection_threshold * cap as f64) as u64)
            }
            _ => None,
        }
    }

    /// What is asked of the driver for a rounded request, for an ordinary segment.
    pub(crate) fn segment_bytes(&self, rounded: u64) -> u64 {
        match AllocatorSettings::segment_bytes(rounded) {
            AllocatorSettings::LARGE_SEGMENT if rounded < 10 << 20 => self.large_segment,
            bytes => bytes,
        }
    }

    /// The page of expandable segments of a pool class.
    pub(crate) fn page(&self, class: SizeClass) -> u64 {
        match class {
            SizeClass::Small => AllocatorSettings::SMALL_SEGMENT,
            SizeClass::Large => self.large_segment,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_people_write_them() {
        assert_eq!(Torch::parse("2.11.0+cu130"), Ok(Torch::v2(11)));
        assert_eq!(Torch::parse("2.0"), Ok(Torch::OLDEST));
        for wrong in ["1.13", "2.16", "two", "2", ""] {
            assert!(Torch::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_segments_for_middling_requests_change_their_size() {
        let policy = Policy { large_segment: 64 << 20, ..Policy::new(Torch::NEWEST) };
        assert_eq!(policy.segment_bytes(512), 2 << 20);
        assert_eq!(policy.segment_bytes(2 << 20), 64 << 20);
        assert_eq!(policy.segment_bytes(19 << 20), 20 << 20);
        assert_eq!(policy.page(SizeClass::Large), 64 << 20);
    }
}
