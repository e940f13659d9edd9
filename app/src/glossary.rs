//! What the words on screen mean, one sentence each, in one place.

/// A word with its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The word as it stands on screen.
    pub name: &'static str,
    /// One sentence about it.
    pub meaning: &'static str,
}

const fn term(name: &'static str, meaning: &'static str) -> Term {
    Term { name, meaning }
}

/// Bytes held from the driver.
pub const RESERVED: Term = term(
    "reserved",
    "All memory that PyTorch holds from the driver: allocated, pending, pinned and releasable together.",
);
/// Bytes of blocks in use.
pub const ALLOCATED: Term =
    term("allocated", "Blocks that tensors use now, rounded up as the allocator hands them out.");
/// What the rounding costs.
pub const ROUNDING: Term = term("rounding", "The part of allocated that no tensor asked for: sizes are rounded up.");
/// Bytes that tensors asked for.
pub const REQUESTED: Term = term("requested", "What tensors asked for, before rounding.");
/// Freed, but in use by another stream.
pub const PENDING: Term =
    term("pending", "Freed by the program, but another stream may still use it, so nobody can have it yet.");
/// Free and held back.
pub const PINNED: Term = term(
    "pinned",
    "Free pieces beside blocks in use: only a request that fits into a piece can have it, and the driver cannot take it back.",
);
/// Free and returnable.
pub const RELEASABLE: Term = term(
    "releasable",
    "Free segments without any block in them: emptying the cache would give them back to the driver.",
);
/// A stretch of device memory.
pub const SEGMENTS: Term =
    term("segments", "Stretches of device memory that PyTorch took from the driver and cuts into blocks.");
/// Pieces handed out.
pub const BLOCKS: Term = term("blocks", "Pieces of segments in use or pending.");
/// Memory without a known segment.
pub const LOOSE: Term =
    term("in no known segment", "Blocks whose segment this recording does not tell; reserved leaves them out.");
/// Space without memory.
pub const UNMAPPED: Term = term("unmapped", "Address space without memory behind it, inside an expandable segment.");

/// The heading over the figures.
pub const AT_CURSOR: Term = term(
    "At the cursor",
    "Where the reserved memory goes at this instant. Free memory is split by whether it could be given back.",
);
/// The heading over the request.
pub const NEXT_REQUEST: Term = term(
    "Next request",
    "Could an allocation of this size be served now? A request needs one contiguous free piece of its own pool and stream.",
);
/// The heading over the pinning blocks.
pub const PINNED_BY: Term = term(
    "Pinned by",
    "The blocks that hold back most free memory: what would become releasable if this one block were freed.",
);
/// The heading over the holders.
pub const HOLDS_MOST: Term = term("Holds most", "Blocks in use, by the line of the program that allocated them.");
/// The heading over a block's details.
pub const SELECTED: Term = term("Selected block", "Click a block in the map or in a list; Esc lets it go.");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_meaning_is_a_sentence() {
        for term in [
            RESERVED,
            ALLOCATED,
            ROUNDING,
            REQUESTED,
            PENDING,
            PINNED,
            RELEASABLE,
            SEGMENTS,
            BLOCKS,
            LOOSE,
            UNMAPPED,
            AT_CURSOR,
            NEXT_REQUEST,
            PINNED_BY,
            HOLDS_MOST,
            SELECTED,
        ] {
            assert!(
                term.meaning.starts_with(char::is_uppercase) && term.meaning.ends_with(['.', '?']),
                "{}",
                term.name
            );
        }
    }
}
