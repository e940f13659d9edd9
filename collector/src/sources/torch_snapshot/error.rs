//! Why a file could not be read, as sentences without a subject: "ends in the middle at byte 17".

use std::fmt;

/// Why reading stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    /// The stream ends where more was promised, at this offset. What came before is good.
    Torn(u64),
    /// Someone asked to stop.
    Cancelled,
    /// The sentence says what is wrong and where.
    Failed(String),
}

impl ReadError {
    /// The stream ends at `offset` although more was promised.
    pub(super) fn torn(offset: u64) -> Self {
        Self::Torn(offset)
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Torn(offset) => write!(f, "ends in the middle, at byte {offset}"),
            Self::Cancelled => f.write_str("was not read to the end: cancelled"),
            Self::Failed(sentence) => f.write_str(sentence),
        }
    }
}
