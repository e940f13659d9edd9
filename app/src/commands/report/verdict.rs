//! The limit of a recorded run, and why the run died where it did.

use std::cmp::Reverse;

use vramscope_model::{Asked, Capacity, History, steps, why};

use crate::commands::why::{CapacityFields, WhyFields};

/// The limit, and why the last allocation that failed did so; `None` if none failed. `card` is the card's size, if the user
/// names it.
pub(super) fn of(history: &History, card: Option<u64>) -> (CapacityFields, Option<WhyFields>) {
    let failure = history.ooms().last().copied();
    let busiest = || history.lanes().iter().max_by_key(|lane| (lane.entries, Reverse(lane.id))).map(|lane| lane.id);
    let Some(lane) = failure.map(|failure| failure.lane).or_else(busiest) else {
        return (card.map_or_else(Capacity::default, Capacity::of_card).into(), None);
    };
    let capacity = card.map_or_else(|| Capacity::from_failures(history, lane), Capacity::of_card);
    let answer = failure.and_then(|failure| {
        let steps = steps(history, lane, &|| false)?;
        why(history, lane, &Asked::Failure(failure), &capacity, &steps, &|| false)
    });
    (capacity.into(), answer.map(|answer| WhyFields::of_recording(answer, history)))
}
