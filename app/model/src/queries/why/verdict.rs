//! What follows from a message: the figures it does not state itself, and why the allocation failed.

use super::facts::Facts;
use super::habits::Habits;
use super::{Growth, MessageFormat, OomMessage, Why, advice, decide};
use crate::Phase;

/// Sums of a message's figures that differ by less may be the same: each figure has two decimals.
const TELLS: u64 = 16 << 20;

/// Figures that follow from those of a message. Bytes; `None` = they do not follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFigures {
    /// All that this process holds: as written, or the listed process that must be it.
    pub this_process: Option<u64>,
    /// The PID under which the list has this process, where it is not named as such.
    pub own_pid: Option<u64>,
    /// What it holds outside PyTorch's segments.
    pub non_framework: Option<u64>,
    /// What other processes hold; 0 only where the list is there and has no other.
    pub other_processes: Option<u64>,
    /// In use, without what private pools hold free.
    pub in_use: Option<u64>,
    /// What of the card none of the other figures accounts for.
    pub unaccounted: Option<u64>,
}

impl OomMessage {
    /// What follows from its figures.
    pub fn figures(&self) -> MessageFigures {
        let listed: Option<u64> = self
            .processes
            .iter()
            .map(|process| process.bytes)
            .try_fold(0_u64, |sum, bytes| Some(sum.saturating_add(bytes?)));
        let own = if self.this_process.is_some() { None } else { self.own_process(listed) };
        let this_process = self.this_process.or(own.map(|(_, bytes)| bytes));
        let told = self.this_process.is_some() || own.is_some() || !self.processes.is_empty();
        let other_processes = listed.filter(|_| told).map(|listed| listed - own.map_or(0, |(_, bytes)| bytes));
        let non_framework = this_process.zip(self.reserved).map(|(all, ours)| all.saturating_sub(ours));
        let held = this_process.or(self.reserved);
        let accounted = held.zip(self.free).map(|(held, free)| held.saturating_add(free));
        let accounted = accounted.map(|sum| sum.saturating_add(other_processes.unwrap_or(0)));
        MessageFigures {
            this_process,
            own_pid: own.map(|(pid, _)| pid),
            non_framework,
            other_processes,
            in_use: self.allocated.map(|used| used.saturating_sub(self.private_pools.unwrap_or(0))),
            unaccounted: self.card.zip(accounted).map(|(card, accounted)| card.saturating_sub(accounted)),
        }
    }

    /// In a container this process is listed under a PID it does not know, as any other. It is there if the list and what
    /// PyTorch reserved are together more than what is not free; it is the smallest process that can hold what is reserved.
    fn own_process(&self, listed: Option<u64>) -> Option<(u64, u64)> {
        let (reserved, used) = (self.reserved?, self.card?.checked_sub(self.free?)?);
        if listed?.saturating_add(reserved) <= used.saturating_add(TELLS) {
            return None;
        }
        let fits = self.processes.iter().filter_map(|process| Some((process.pid, process.bytes?)));
        fits.filter(|(_, bytes)| bytes.saturating_add(TELLS) >= reserved).min_by_key(|(_, bytes)| *bytes)
    }

    fn facts(&self) -> Facts {
        let figures = self.figures();
        // Some releases never state the limit, so its absence says something only in the one wording that always does.
        let unlimited = self.format == MessageFormat::MallocAsync && self.allowed.is_none();
        Facts {
            request: self.requested,
            segment: self.requested,
            absurd: self.format == MessageFormat::Absurd,
            rejected: self.format == MessageFormat::Rejected,
            beyond_range: self.beyond_range,
            card: self.card,
            allowed: self.allowed,
            unlimited,
            device_free: self.free,
            reserved: self.reserved,
            allocated: self.allocated,
            other_processes: figures.other_processes,
            non_framework: figures.non_framework,
            free_inside: self.unallocated,
            private_free: self.private_pools,
            ..Facts::default()
        }
    }
}

/// Why the allocation that a message reports failed. What had grown until then, a message cannot tell.
pub fn explain(message: &OomMessage) -> Why {
    let facts = message.facts();
    let decision = decide::decide(&facts);
    let sentence = match message.format {
        MessageFormat::Bare => {
            "The driver itself refused memory to something outside PyTorch's allocator (a context, a library, a \
                                communicator), and the message has no figures."
                .to_owned()
        }
        _ => decision.sentence,
    };
    Why {
        cause: decision.cause,
        growth: Growth::None,
        sentence,
        path: decision.path,
        holders: Vec::new(),
        advice: advice::choose(decision.cause, Growth::None, Phase::Other, &facts, &Habits::default()),
        grown_by: None,
        pinned_by: Vec::new(),
    }
}
