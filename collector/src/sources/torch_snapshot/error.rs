//! Why a file could not be read, as sentences without a subject: "ends in the middle at byte 17".

use std::{fmt, io};

use vramscope_trace::Progress;

/// A text of the file as a sentence may quote it: cut to `most` characters, without any that could change a terminal's mind.
pub(super) fn quoted(text: &str, most: usize) -> String {
    text.chars().take(most).map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

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

    /// A stream could not be read at `offset`.
    pub(super) fn from_io(error: &io::Error, offset: u64, progress: &Progress) -> Self {
        match error.kind() {
            _ if progress.is_cancelled() => Self::Cancelled,
            // A packed stream that breaks off is a torn file: what came before is good.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                Self::Torn(offset)
            }
            io::ErrorKind::FileTooLarge => Self::Failed(error.to_string()),
            _ => Self::Failed(format!("cannot be read: {error}")),
        }
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
