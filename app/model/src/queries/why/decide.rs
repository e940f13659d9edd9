//! The decision tree: questions in a fixed order, each answered with its numbers, until one decides.

use super::facts::{Facts, Served};
use super::words::size;
use super::{Answer, Cause, PathNode};

/// Other processes are worth blaming from this part (one in so many) of the card on.
const OTHERS_MATTER: u64 = 20;
/// Memory outside the framework is: every process has a context and libraries.
const OUTSIDE_MATTERS: u64 = 10;

/// What the tree says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) cause: Option<Cause>,
    pub(super) sentence: String,
    pub(super) path: Vec<PathNode>,
}

/// A question's answer, and the verdict if it decides.
struct Asked {
    node: PathNode,
    verdict: Option<(Option<Cause>, String)>,
}

impl Asked {
    fn new(question: &'static str, answer: Answer, words: String, bytes: Option<u64>) -> Self {
        Self { node: PathNode { question, answer, words, bytes }, verdict: None }
    }

    fn deciding(self, cause: Cause, sentence: String) -> Self {
        Self { verdict: Some((Some(cause), sentence)), ..self }
    }
}

/// A question; `None` where it does not arise.
type Question = fn(&Facts) -> Option<Asked>;

/// In the order they are asked. The last one always decides.
const QUESTIONS: [Question; 12] = [
    served,
    larger_than_card,
    spilled,
    beyond_range,
    memory_fraction,
    other_processes,
    non_framework,
    private_pool,
    other_stream,
    overlooked,
    pieces,
    full,
];

/// Walks the tree.
pub(super) fn decide(facts: &Facts) -> Decision {
    let mut path = Vec::new();
    for question in QUESTIONS {
        let Some(asked) = question(facts) else { continue };
        path.push(asked.node);
        if let Some((cause, sentence)) = asked.verdict {
            return Decision { cause, sentence, path };
        }
    }
    Decision { cause: Some(Cause::Unknown), sentence: String::new(), path }
}

fn text(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "an unknown amount".to_owned(), size)
}

fn served(facts: &Facts) -> Option<Asked> {
    if !facts.hypothetical {
        return None;
    }
    let question = "Would it be served?";
    let (request, free) = (text(facts.request), text(facts.device_free));
    let (words, bytes, sentence) = match facts.served {
        None => {
            return Some(Asked::new(
                question,
                Answer::No,
                format!("no free block takes {request}, and the driver has {free} even with the cache emptied"),
                facts.device_free,
            ));
        }
        Some(Served::FromCache) => (
            format!("a free block of the cache takes the {request}; the largest has {}", text(facts.largest)),
            facts.largest,
            format!("{request} would be served from the cache."),
        ),
        Some(Served::ByDriver) => (
            format!("no free block takes {request}, but a new segment of {} does", text(facts.segment)),
            facts.segment,
            format!("{request} would be served by a new segment of {}.", text(facts.segment)),
        ),
        Some(Served::AfterEmptying) => (
            format!("once cached segments have gone back, the driver has {free}"),
            facts.device_free,
            format!("{request} would be served after the allocator has emptied its cache, which takes time."),
        ),
    };
    let asked = Asked::new(question, Answer::Yes, words, bytes);
    Some(Asked { verdict: Some((None, sentence)), ..asked })
}

fn larger_than_card(facts: &Facts) -> Option<Asked> {
    let question = "Is the single request larger than the card?";
    if facts.absurd {
        let words = "it is larger than an exbibyte".to_owned();
        let sentence =
            "The size asked for is larger than any memory: a size went wrong before it reached the allocator.";
        return Some(
            Asked::new(question, Answer::Yes, words, None).deciding(Cause::LargerThanCard, sentence.to_owned()),
        );
    }
    let segment = facts.segment?;
    if let Some(card) = facts.card {
        if segment > card {
            let words = format!("{} of {}", size(segment), size(card));
            let sentence =
                format!("The single request of {} is larger than the whole card of {}.", size(segment), size(card));
            return Some(
                Asked::new(question, Answer::Yes, words, Some(card)).deciding(Cause::LargerThanCard, sentence),
            );
        }
        return Some(Asked::new(question, Answer::No, format!("{} of {}", size(segment), size(card)), Some(card)));
    }
    let (Some(free), Some(reserved)) = (facts.device_free, facts.reserved) else {
        return Some(Asked::new(question, Answer::Unknown, "the card's size is not known".to_owned(), None));
    };
    let all = reserved.saturating_add(free);
    let words =
        format!("{}; this process held {} and the driver had {} free", size(segment), size(reserved), size(free));
    if segment <= all {
        return Some(Asked::new(question, Answer::No, words, Some(all)));
    }
    let sentence = format!(
        "The single request of {} is larger than all that this process held and the driver had free together, {}: even an \
         empty cache could not have served it.",
        size(segment),
        size(all)
    );
    Some(Asked::new(question, Answer::Yes, words, Some(all)).deciding(Cause::LargerThanCard, sentence))
}

fn spilled(facts: &Facts) -> Option<Asked> {
    let card = facts.card?;
    let used = facts.allocated.max(facts.reserved).filter(|used| *used > card)?;
    let words = format!("{} are held on a card of {}", size(used), size(card));
    let sentence = format!(
        "{} are held on a card of {}: the driver has spilled {} to system memory, so its figures do not tell which limit was hit.",
        size(used),
        size(card),
        size(used - card)
    );
    let asked = Asked::new("Has memory been spilled to the system?", Answer::Yes, words, Some(used - card));
    Some(asked.deciding(Cause::Unknown, sentence))
}

fn beyond_range(facts: &Facts) -> Option<Asked> {
    if !facts.beyond_range {
        return None;
    }
    let question = "Is the address range of expandable segments too short?";
    let sentence = format!(
        "The address range reserved for expandable segments has no room for {} more; the memory itself may be there.",
        text(facts.segment)
    );
    let asked = Asked::new(question, Answer::Yes, "the allocator says so".to_owned(), facts.segment);
    Some(asked.deciding(Cause::Unknown, sentence))
}

fn memory_fraction(facts: &Facts) -> Option<Asked> {
    let question = "Is a memory fraction the limit?";
    let segment = text(facts.segment);
    let reserved = text(facts.reserved);
    let wanted = facts.reserved.zip(facts.segment).map(|(reserved, segment)| reserved.saturating_add(segment));
    let over = facts.allowed.zip(wanted).is_some_and(|(allowed, wanted)| wanted > allowed);
    let limit = facts.allowed.map_or_else(String::new, |allowed| format!(" of {}", size(allowed)));
    let yes = |words: String, why: String| {
        let sentence = format!("The program's own memory limit{limit} is the cause: {why}.");
        Some(Asked::new(question, Answer::Yes, words, wanted).deciding(Cause::MemoryFraction, sentence))
    };
    if facts.rejected {
        return yes(
            "the allocator turned the request down before asking the driver".to_owned(),
            format!("{segment} more would pass it, and the allocator did not even ask the driver"),
        );
    }
    if facts.hypothetical {
        return if over {
            yes(
                format!("{reserved} are reserved, {segment} more would pass it"),
                format!("{reserved} are reserved, and {segment} more would pass it"),
            )
        } else {
            Some(Asked::new(question, Answer::Unknown, "no failure of this recording shows one".to_owned(), None))
        };
    }
    let inside = facts
        .free_inside
        .filter(|free| *free > 0)
        .map_or_else(String::new, |free| format!(", {} of it free in pieces", size(free)));
    match facts.device_free {
        Some(free) if facts.segment.is_some_and(|segment| free >= segment) && !facts.unlimited => yes(
            format!("the driver had {} free, enough for {segment}; reserved {reserved}", size(free)),
            format!(
                "{reserved} were reserved{inside}, and {segment} more would have passed it, though the driver had {} free",
                size(free)
            ),
        ),
        Some(free) => {
            let words = if facts.unlimited && free >= facts.segment.unwrap_or(0) {
                format!("none is set, although the driver had {} free", size(free))
            } else {
                format!("the driver itself had only {} free of the {segment} asked for", size(free))
            };
            Some(Asked::new(question, Answer::No, words, Some(free)))
        }
        None if over => yes(
            format!("{reserved} are reserved, {segment} more would pass it"),
            format!("{reserved} were reserved{inside}, and {segment} more would have passed it"),
        ),
        None => Some(Asked::new(question, Answer::Unknown, "what the driver had free is not known".to_owned(), None)),
    }
}

/// What is neither this process's segments nor free, where that is known.
fn unaccounted(facts: &Facts) -> Option<u64> {
    Some(facts.card?.saturating_sub(facts.device_free?).saturating_sub(facts.reserved?)).filter(|_| !facts.hypothetical)
}

fn other_processes(facts: &Facts) -> Option<Asked> {
    let question = "Do other processes hold what is missing?";
    let Some(others) = facts.other_processes else {
        let (words, bytes) = match unaccounted(facts) {
            Some(bytes) => (
                format!(
                    "{} are held by other processes, the context and libraries; how much by whom is not known",
                    size(bytes)
                ),
                Some(bytes),
            ),
            None => ("what other processes held is not known".to_owned(), None),
        };
        return Some(Asked::new(question, Answer::Unknown, words, bytes));
    };
    let Some(shortage) = facts.shortage() else {
        return Some(Asked::new(question, Answer::Unknown, format!("they hold {}", size(others)), Some(others)));
    };
    let words = format!("they hold {}, missing are {}", size(others), size(shortage));
    if others < shortage || others < facts.card.unwrap_or(0) / OTHERS_MATTER {
        return Some(Asked::new(question, Answer::No, words, Some(others)));
    }
    let sentence = format!("Other processes hold {} of the card; {} were missing.", size(others), size(shortage));
    Some(Asked::new(question, Answer::Yes, words, Some(others)).deciding(Cause::OtherProcesses, sentence))
}

fn non_framework(facts: &Facts) -> Option<Asked> {
    let question = "Does memory outside the framework hold it?";
    let Some(outside) = facts.non_framework else {
        let words = "what this process held outside its allocator is not known".to_owned();
        return Some(Asked::new(question, Answer::Unknown, words, None));
    };
    let Some(shortage) = facts.shortage() else {
        return Some(Asked::new(question, Answer::Unknown, format!("it holds {}", size(outside)), Some(outside)));
    };
    let words = format!("context, libraries and communicators hold {}, missing are {}", size(outside), size(shortage));
    let least = facts.card.or(facts.reserved).unwrap_or(0) / OUTSIDE_MATTERS;
    if outside < shortage || outside < least {
        return Some(Asked::new(question, Answer::No, words, Some(outside)));
    }
    let sentence = format!(
        "This process holds {} outside its allocator (context, libraries, communicators); {} were missing.",
        size(outside),
        size(shortage)
    );
    Some(Asked::new(question, Answer::Yes, words, Some(outside)).deciding(Cause::NonFramework, sentence))
}

/// Whether free space that a request may not use would have been enough, together with what the driver had.
fn enough(facts: &Facts, free: u64) -> bool {
    let Some(segment) = facts.segment else { return false };
    free > 0 && free.saturating_add(facts.device_free.unwrap_or(0)) >= segment
}

fn private_pool(facts: &Facts) -> Option<Asked> {
    let question = "Is the free space in a private pool?";
    let Some(free) = facts.private_free else {
        let words = "how much private pools hold free is not known".to_owned();
        return Some(Asked::new(question, Answer::Unknown, words, None));
    };
    let segment = text(facts.segment);
    let words = format!("{} are free in private pools, asked were {segment}", size(free));
    if !enough(facts, free) {
        return Some(Asked::new(question, Answer::No, words, Some(free)));
    }
    let sentence = format!(
        "{} lie free in a private pool (a CUDA graph's or a MemPool's) that only its owner may use, while {segment} were asked for elsewhere.",
        size(free)
    );
    Some(Asked::new(question, Answer::Yes, words, Some(free)).deciding(Cause::PrivatePool, sentence))
}

fn other_stream(facts: &Facts) -> Option<Asked> {
    let question = "Is the free space owned by another stream?";
    let Some(free) = facts.other_stream_free else {
        let words = "how much other streams hold free is not known".to_owned();
        return Some(Asked::new(question, Answer::Unknown, words, None));
    };
    let segment = text(facts.segment);
    let words = format!("{} are free with other streams, asked were {segment}", size(free));
    if !enough(facts, free) {
        return Some(Asked::new(question, Answer::No, words, Some(free)));
    }
    let sentence =
        format!("{} lie free in segments of another stream, which the {segment} asked for may not use.", size(free));
    Some(Asked::new(question, Answer::Yes, words, Some(free)).deciding(Cause::OtherStream, sentence))
}

fn overlooked(facts: &Facts) -> Option<Asked> {
    let request = facts.request?;
    let largest = facts.largest.filter(|largest| *largest >= request)?;
    if facts.hypothetical {
        return None;
    }
    let words = format!("a free block of {} for {}", size(largest), size(request));
    let sentence = format!(
        "A free block of {} was there for the {} asked for, but the allocator did not take it: after waiting for other streams it \
         asks only the driver again, and its splitting limit keeps large blocks for large requests.",
        size(largest),
        size(request)
    );
    let asked = Asked::new("Was there a free block large enough all the same?", Answer::Yes, words, Some(largest));
    Some(asked.deciding(Cause::Fragmentation, sentence))
}

fn pieces(facts: &Facts) -> Option<Asked> {
    let question = "Is the free space in pieces?";
    let Some((free, segment)) = facts.free_inside.zip(facts.segment) else {
        return Some(Asked::new(question, Answer::Unknown, "how much is free inside is not known".to_owned(), None));
    };
    let driver = facts.device_free.unwrap_or(0);
    let gathered = free.saturating_add(driver);
    // The largest piece is not known from a message: then all of the free space must be enough by itself.
    let best = facts.largest.map(|largest| largest.max(driver));
    let in_pieces = match best {
        Some(best) => {
            let scattered = gathered.min(segment).saturating_sub(best);
            let lacking = segment - gathered.min(segment);
            free > 0 && scattered > lacking
        }
        None => free >= segment,
    };
    let count = facts.pieces.map_or_else(String::new, |count| format!(" in {count} pieces"));
    let largest = facts.largest.map_or_else(String::new, |largest| format!(", the largest {}", size(largest)));
    let words = format!("{} are free inside{count}{largest}; asked were {}", size(free), size(segment));
    if !in_pieces {
        return Some(Asked::new(question, Answer::No, words, Some(free)));
    }
    let short = segment.saturating_sub(gathered);
    let together = if facts.device_free.is_some() { " with what the driver had" } else { "" };
    let rest = match short {
        0 => format!("in one piece{together} that would have been {}, enough", size(gathered)),
        short => format!("in one piece{together} that would have been {}, all but {}", size(gathered), size(short)),
    };
    let sentence =
        format!("{} lie free{count}{largest}, and none takes the {} asked for: {rest}.", size(free), size(segment));
    Some(Asked::new(question, Answer::Yes, words, Some(free)).deciding(Cause::Fragmentation, sentence))
}

fn full(facts: &Facts) -> Option<Asked> {
    let question = "Is there simply not enough?";
    let (segment, used) = (text(facts.segment), text(facts.allocated));
    let Some(free) = facts.device_free else {
        let words = "neither the card's size nor what the driver had free is known".to_owned();
        if facts.segment.is_none() && facts.allocated.is_none() {
            let sentence = "There are no figures, so which limit was hit cannot be told.".to_owned();
            return Some(Asked::new(question, Answer::Unknown, words, None).deciding(Cause::Unknown, sentence));
        }
        let sentence = format!(
            "{segment} were asked for while {used} were in use; which limit that passed is not known, since neither the card's size \
             nor what the driver had free is told."
        );
        return Some(Asked::new(question, Answer::Unknown, words, None).deciding(Cause::Unknown, sentence));
    };
    if facts.shortage() == Some(0) {
        let words = format!("the driver had {} free for {segment}", size(free));
        let sentence = format!("The driver refused {segment} although it had {} free; nothing tells why.", size(free));
        return Some(Asked::new(question, Answer::Unknown, words, Some(free)).deciding(Cause::Unknown, sentence));
    }
    let missing = text(facts.shortage());
    let words = format!("{used} are in use, {} free, missing are {missing}", size(free));
    let unknown = unaccounted(facts).filter(|bytes| facts.other_processes.is_none() && *bytes > 0);
    let shared = unknown.map_or_else(String::new, |bytes| {
        format!(" {} of the card are neither this process's segments nor free.", size(bytes))
    });
    let sentence = format!(
        "There is not enough memory: {used} are in use and {} free, {segment} were asked for, {missing} are missing.{shared}",
        size(free)
    );
    Some(Asked::new(question, Answer::Yes, words, Some(free)).deciding(Cause::Capacity, sentence))
}
