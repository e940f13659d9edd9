//! Other sizes of tensors: by one factor, or by what two recordings of the same program tell.

use vramscope_trace::{Action, Requests};

/// How sizes change.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Every size times this.
    Factor(f64),
    /// For each allocation, by its number: bytes = fixed + slope × the wanted batch size (or length).
    Lines {
        /// Fixed and slope.
        lines: Vec<(f64, f64)>,
        /// The batch size or length to predict for.
        at: f64,
    },
}

impl Scale {
    /// The size of an allocation that was recorded with `bytes`; at least 1.
    pub(super) fn bytes(&self, number: u32, bytes: u64) -> u64 {
        let scaled = match self {
            Self::Factor(factor) => bytes as f64 * factor,
            Self::Lines { lines, at } => match lines.get(number as usize) {
                Some((fixed, slope)) => fixed + slope * at,
                None => return bytes,
            },
        };
        (scaled.round() as u64).max(1)
    }

    pub(super) fn assumes(&self) -> &'static str {
        match self {
            Self::Factor(_) => {
                "Every chosen tensor grows in proportion: true of activations under another batch size, and of most under \
                 another length; attention scores grow with the square of the length."
            }
            Self::Lines { .. } => {
                "Every tensor's size is a straight line through its sizes in the two recordings; both runs ask for the same \
                 tensors in the same order."
            }
        }
    }
}

/// A line through the sizes that each allocation has in two recordings of the same program with different batch sizes (or
/// lengths), for the numbers of the first. `None` if the programs do not ask for the same tensors in the same order, up to the end
/// of the shorter recording, or if both sizes are the same.
pub fn fit_sizes(first: (&Requests, f64), second: (&Requests, f64), at: f64) -> Option<Scale> {
    let ((first, one), (second, other)) = (first, second);
    if first.start.blocks.len() != second.start.blocks.len() || one == other {
        return None;
    }
    let mut lines: Vec<(f64, f64)> = Vec::with_capacity(first.allocations());
    let mut add = |left: u64, right: u64| {
        let slope = (right as f64 - left as f64) / (other - one);
        lines.push((left as f64 - slope * one, slope));
    };
    for (left, right) in first.start.blocks.iter().zip(&second.start.blocks) {
        add(left.requested, right.requested);
    }
    let asked = |requests: &Requests| {
        let sizes = requests.list.iter().filter_map(|request| match request.action {
            Action::Alloc { bytes, stream, owner, .. } => Some((bytes, stream, owner)),
            _ => None,
        });
        sizes.collect::<Vec<_>>()
    };
    let (left, right) = (asked(first), asked(second));
    for (&(left, ..), &(right, ..)) in left.iter().zip(&right) {
        add(left, right);
    }
    let same = left.iter().zip(&right).all(|(left, right)| (left.1, left.2) == (right.1, right.2));
    same.then_some(Scale::Lines { lines, at })
}
