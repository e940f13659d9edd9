//! Makes new inputs out of known ones: at the level of opcodes or tokens, of bytes, and of whole files.

use std::ops::Range;

use crate::{Random, json_tokens, opcodes, recordings};

/// Words that make a difference to the reader.
const WORDS: &[&str] = &[
    "segments",
    "device_traces",
    "allocator_settings",
    "external_annotations",
    "host_segments",
    "host_traces",
    "action",
    "addr",
    "device_free",
    "size",
    "stream",
    "time_us",
    "pool_id",
    "frames",
    "device",
    "address",
    "total_size",
    "allocated_size",
    "segment_type",
    "segment_pool_id",
    "is_expandable",
    "blocks",
    "state",
    "history",
    "real_size",
    "requested_size",
    "filename",
    "line",
    "name",
    "stage",
    "PYTORCH_CUDA_ALLOC_CONF",
    "max_split_size",
    "expandable_segments",
    "roundup_power2_divisions",
    "active_allocated",
    "active_pending_free",
    "active_awaiting_free",
    "inactive",
    "small",
    "large",
    "START",
    "END",
    "alloc",
    "free",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "annotate",
    "user_defined",
    "workspace_snapshot",
    "1",
    "1024",
    "other",
];

/// The syntax whose structure a mutation keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    Pickle,
    Json,
    Recording,
}

impl Syntax {
    /// How an input is cut into pieces.
    fn split(self) -> fn(&[u8]) -> Vec<Range<usize>> {
        match self {
            Self::Pickle => opcodes::split,
            Self::Json => json_tokens::split,
            Self::Recording => recordings::split,
        }
    }
}

/// Changes inputs of one target.
#[derive(Clone, Debug)]
pub struct Mutator {
    target: String,
    /// The most bytes an input may grow to.
    most: usize,
}

impl Mutator {
    /// For a target by its name in [`crate::TARGETS`]; inputs stay below `most` bytes.
    pub fn new(target: &str, most: usize) -> Self {
        Self { target: target.to_owned(), most }
    }

    /// A changed `input`; parts may come from `other`.
    pub fn mutate(&self, input: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
        // A wrapped input begins with the byte that chooses its wrapper.
        let (head, body) =
            if self.target == "wrapped" && !input.is_empty() { input.split_at(1) } else { input.split_at(0) };
        let other = if head.is_empty() { other } else { other.get(1..).unwrap_or(&[]) };
        let mut head = head.to_vec();
        if !head.is_empty() && random.one_in(8) {
            head[0] = random.below(8) as u8;
        }
        let mut body = body.to_vec();
        for _ in 0..1 + random.below(4) {
            body = self.once(&body, other, random);
        }
        head.append(&mut body);
        head.truncate(self.most);
        head
    }

    /// `input` with some of it repeated until it has the most bytes it may: what costs more memory or time than it should shows.
    pub fn swell(&self, input: &[u8], random: &mut Random) -> Vec<u8> {
        let (head, body) =
            if self.target == "wrapped" && !input.is_empty() { input.split_at(1) } else { input.split_at(0) };
        let split = self.syntax(body).split();
        let span = span(&split(body), random);
        let times = self.most.saturating_sub(input.len()) / span.len().max(1);
        [head, &body[..span.start], &body[span.clone()].repeat(times), &body[span.start..]].concat()
    }

    fn syntax(&self, body: &[u8]) -> Syntax {
        match self.target.as_str() {
            "pickle" => Syntax::Pickle,
            "json" => Syntax::Json,
            "recording" => Syntax::Recording,
            _ if body.first() == Some(&0x80) => Syntax::Pickle,
            _ => Syntax::Json,
        }
    }

    fn once(&self, body: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
        let syntax = self.syntax(body);
        let split = syntax.split();
        if body.is_empty() {
            return other.to_vec();
        }
        if random.one_in(10) {
            return bytes(body, random);
        }
        let tokens = split(body);
        let span = span(&tokens, random);
        match random.below(9) {
            0 => cut(body, &span, &[]),
            1 => cut(body, &(span.start..span.start), &body[span.clone()]),
            2 => {
                // Many times the same: what costs more than it should shows here.
                let doublings = if random.one_in(30) { 14 } else { 5 };
                let times =
                    (1usize << random.below(doublings)).min(self.most.saturating_sub(body.len()) / span.len().max(1));
                cut(body, &(span.start..span.start), &body[span.clone()].repeat(times))
            }
            3 => {
                let from = self::span(&tokens, random);
                cut(body, &(span.start..span.start), &body[from])
            }
            4 => {
                let theirs = split(other);
                let from = self::span(&theirs, random);
                let replaced = if random.one_in(2) { span } else { span.start..span.start };
                cut(body, &replaced, &other[from])
            }
            5 | 6 => {
                let piece = piece(syntax, random);
                let one = tokens[random.below(tokens.len())].clone();
                let replaced = if random.one_in(2) { one } else { one.start..one.start };
                cut(body, &replaced, &piece)
            }
            7 => {
                let one = tokens[random.below(tokens.len())].clone();
                let inside = bytes(&body[one.clone()], random);
                cut(body, &one, &inside)
            }
            _ => body[..span.start].to_vec(),
        }
    }
}

/// Some consecutive tokens.
fn span(tokens: &[Range<usize>], random: &mut Random) -> Range<usize> {
    if tokens.is_empty() {
        return 0..0;
    }
    let first = random.below(tokens.len());
    let longest = if random.one_in(4) { tokens.len() } else { 12 };
    let last = (first + random.below(longest)).min(tokens.len() - 1);
    tokens[first].start..tokens[last].end
}

/// `body` with `range` replaced.
fn cut(body: &[u8], range: &Range<usize>, new: &[u8]) -> Vec<u8> {
    [&body[..range.start], new, &body[range.end..]].concat()
}

fn piece(syntax: Syntax, random: &mut Random) -> Vec<u8> {
    match (syntax, random.one_in(2)) {
        (Syntax::Pickle, true) => opcodes::text(random.pick(WORDS)),
        (Syntax::Pickle, false) => random.pick(opcodes::PIECES).to_vec(),
        (Syntax::Json, true) => json_tokens::text(random.pick(WORDS)),
        (Syntax::Json, false) => random.pick(json_tokens::PIECES).to_vec(),
        (Syntax::Recording, true) => vec![[0, 0xff][random.below(2)]; 8],
        (Syntax::Recording, false) => (random.any() >> random.below(64)).to_le_bytes().to_vec(),
    }
}

/// Changes bytes without regard to what they mean.
fn bytes(body: &[u8], random: &mut Random) -> Vec<u8> {
    let mut body = body.to_vec();
    if body.is_empty() {
        return body;
    }
    for _ in 0..1 + random.below(3) {
        let at = random.below(body.len());
        match random.below(4) {
            0 => body[at] ^= 1 << random.below(8),
            1 => body[at] = random.any() as u8,
            2 => body.insert(at, random.any() as u8),
            _ => body[at] = body[at].wrapping_add(random.pick(&[1, 255])),
        }
    }
    body
}
