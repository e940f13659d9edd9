//! The real limit of a run: how much its allocator may reserve, and how that is known.

use vramscope_trace::AllocatorSettings;

use crate::{History, LaneId, Metric, Oom};

/// How a capacity is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CapacitySource {
    /// Nothing tells it.
    #[default]
    Unknown,
    /// The user said how large the card is.
    User,
    /// The card's own size, as the driver's counters or a message tell it.
    Card,
    /// At a failure: what the process held and what the driver then had free.
    Driver,
    /// An allocation failed although the driver had room: a memory fraction is in force.
    MemoryFraction,
}

impl CapacitySource {
    /// Its name in text and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::User => "user",
            Self::Card => "card",
            Self::Driver => "driver",
            Self::MemoryFraction => "memory_fraction",
        }
    }
}

/// How much a lane's allocator may reserve, and what shares the card with it. Bytes; `None` = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// What may be reserved. Of a memory fraction it is the most that was reserved under it: the fraction is not lower.
    pub bytes: Option<u64>,
    /// The limit is lower than this, where it is only known to lie between `bytes` and this.
    pub below: Option<u64>,
    /// How that is known.
    pub source: CapacitySource,
    /// The card's memory (or its slice's).
    pub card: Option<u64>,
    /// What other processes hold of the card.
    pub other_processes: Option<u64>,
    /// What this process holds outside its framework's segments: context, libraries, communicators.
    pub non_framework: Option<u64>,
}

impl Capacity {
    /// A card of so many bytes that the user names.
    pub fn of_card(bytes: u64) -> Self {
        Self { bytes: Some(bytes), source: CapacitySource::User, card: Some(bytes), ..Self::default() }
    }

    /// What a lane's own failures prove: the last one counts. Unknown if none failed or the file does not tell what the
    /// driver had free.
    pub fn from_failures(history: &History, lane: LaneId) -> Self {
        let failures = history.ooms();
        let proofs = failures.iter().rev().filter(|oom| oom.lane == lane);
        proofs.filter_map(|oom| Self::from_failure(history, oom)).next().unwrap_or_default()
    }

    fn from_failure(history: &History, oom: &Oom) -> Option<Self> {
        let free = oom.device_free?;
        let reserved = history.value_at(oom.lane, Metric::Reserved, oom.at).unwrap_or(0);
        let segment = AllocatorSettings::segment_bytes(oom.requested);
        if free < segment {
            let bytes = Some(reserved.saturating_add(free));
            return Some(Self { bytes, source: CapacitySource::Driver, ..Self::default() });
        }
        let most = history.peak(oom.lane, Metric::Reserved).map_or(reserved, |peak| peak.bytes);
        Some(Self {
            bytes: Some(most),
            below: Some(reserved.saturating_add(segment)).filter(|below| *below > most),
            source: CapacitySource::MemoryFraction,
            ..Self::default()
        })
    }
}
