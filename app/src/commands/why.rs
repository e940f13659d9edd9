//! Why an allocation failed, as fields for programs and as lines for people: what `report` and `explain` have in common.

use std::fmt::Write;

use serde::Serialize;
use vramscope_model::{Answer, Capacity, History, Why};
use vramscope_trace::Dictionary;

use crate::stacks;
use crate::widgets::{bytes, number};

/// How many holders the text lists.
const HOLDERS: usize = 5;
/// How many blocks that keep free memory in pieces are listed.
const PINS: usize = 5;

/// The limit of a run. Bytes; `null` = unknown.
#[derive(Debug, Serialize)]
pub(super) struct CapacityFields {
    /// What may be reserved. Under a memory fraction: the most that was.
    bytes: Option<u64>,
    /// The limit is lower than this, where it is not known exactly.
    below_bytes: Option<u64>,
    source: &'static str,
}

impl From<Capacity> for CapacityFields {
    fn from(capacity: Capacity) -> Self {
        Self { bytes: capacity.bytes, below_bytes: capacity.below, source: capacity.source.name() }
    }
}

/// Why an allocation failed.
#[derive(Debug, Serialize)]
pub(super) struct WhyFields {
    cause: Option<&'static str>,
    /// `null` where nothing tells, as in a message.
    growth: Option<&'static str>,
    sentence: String,
    path: Vec<Node>,
    holders: Vec<Holder>,
    /// Frames of the blocks that pile up, innermost first; empty = none do, or no stack recorded.
    grown_by: Vec<String>,
    /// Blocks that keep free memory in pieces, where that is the cause.
    pinned_by: Vec<Pin>,
    advice: Vec<Remedy>,
    #[serde(skip)]
    grown_title: Option<String>,
}

/// A question on the way.
#[derive(Debug, Serialize)]
struct Node {
    question: &'static str,
    answer: String,
    bytes: Option<u64>,
}

/// Blocks of one call stack and phase.
#[derive(Debug, Serialize)]
struct Holder {
    bytes: u64,
    count: u64,
    phase: &'static str,
    stack: Vec<String>,
    #[serde(skip)]
    title: String,
}

/// A block that pins others' free space.
#[derive(Debug, Serialize)]
struct Pin {
    bytes: u64,
    address: u64,
    stack: Vec<String>,
    #[serde(skip)]
    title: String,
}

/// Something to do about it.
#[derive(Debug, Serialize)]
struct Remedy {
    title: String,
    effect_bytes: Option<u64>,
    cost: &'static str,
    source: &'static str,
    setting: Option<&'static str>,
}

impl WhyFields {
    /// Of a failure in a recording.
    pub(super) fn of_recording(why: Why, history: &History) -> Self {
        let dictionary = history.dictionary();
        let growth = Some(why.growth.name());
        Self { growth, ..Self::new(why, dictionary, Some(history)) }
    }

    /// Of a failure that only a message tells of.
    pub(super) fn of_message(why: Why) -> Self {
        Self::new(why, &Dictionary::default(), None)
    }

    fn new(why: Why, dictionary: &Dictionary, history: Option<&History>) -> Self {
        let holder = |held: &vramscope_model::Holding| Holder {
            bytes: held.bytes,
            count: held.count,
            phase: held.phase.name(),
            stack: stacks::frames(dictionary, held.stack),
            title: stacks::title(dictionary, held.stack),
        };
        let blocks = why.pinned_by.iter().filter_map(|id| history?.block(*id));
        let pin = |block: vramscope_model::Block| Pin {
            bytes: block.bytes,
            address: block.address,
            stack: stacks::frames(dictionary, block.stack),
            title: stacks::title(dictionary, block.stack),
        };
        Self {
            cause: why.cause.map(vramscope_model::Cause::name),
            growth: None,
            holders: why.holders.iter().map(holder).collect(),
            grown_by: why.grown_by.map_or_else(Vec::new, |stack| stacks::frames(dictionary, stack)),
            grown_title: why.grown_by.map(|stack| stacks::title(dictionary, stack)),
            pinned_by: blocks.take(PINS).map(pin).collect(),
            path: why.path.into_iter().map(Node::from).collect(),
            advice: why.advice.into_iter().map(Remedy::from).collect(),
            sentence: why.sentence,
        }
    }

    /// Adds it as text, each line indented by `margin`.
    pub(super) fn write(&self, margin: &str, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{margin}{}", self.sentence)?;
        if let Some(title) = &self.grown_title {
            writeln!(out, "{margin}what piles up is allocated in {title}")?;
        }
        writeln!(out, "\n{margin}how that follows")?;
        for node in &self.path {
            writeln!(out, "{margin}  {:<58}{}", node.question, node.answer)?;
        }
        if !self.holders.is_empty() {
            writeln!(out, "\n{margin}who holds most")?;
        }
        for held in self.holders.iter().take(HOLDERS) {
            let count = number::of(held.count, "block", "blocks");
            writeln!(out, "{margin}  {:>12}  {count:<14}{:<11}{}", bytes::text(held.bytes), held.phase, held.title)?;
        }
        if !self.pinned_by.is_empty() {
            writeln!(out, "\n{margin}what keeps free memory in pieces")?;
        }
        for pin in &self.pinned_by {
            writeln!(out, "{margin}  {:>12}  at {:#x}  {}", bytes::text(pin.bytes), pin.address, pin.title)?;
        }
        if !self.advice.is_empty() {
            writeln!(out, "\n{margin}what can help")?;
        }
        for (number, advice) in (1..).zip(&self.advice) {
            writeln!(out, "{margin}  {number}. {}", advice.title)?;
            writeln!(out, "{margin}     costs: {}", advice.cost)?;
            writeln!(out, "{margin}     see {}", advice.source)?;
        }
        Ok(())
    }
}

impl From<vramscope_model::PathNode> for Node {
    fn from(node: vramscope_model::PathNode) -> Self {
        let answer = match node.answer {
            Answer::Yes => "yes",
            Answer::No => "no",
            Answer::Unknown => "not known",
        };
        Self { question: node.question, answer: format!("{answer}: {}", node.words), bytes: node.bytes }
    }
}

impl From<vramscope_model::Advice> for Remedy {
    fn from(advice: vramscope_model::Advice) -> Self {
        Self {
            title: advice.title,
            effect_bytes: advice.effect_bytes,
            cost: advice.cost,
            source: advice.source,
            setting: advice.setting,
        }
    }
}
