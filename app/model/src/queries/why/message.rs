//! Reads the text of out-of-memory errors, as every version and backend of PyTorch has written them, out of logs and tracebacks.
//!
//! Sizes in messages have two decimals, so bytes read from them are as exact as that. A size of 2⁶⁴ − 1 bytes (often written
//! 17179869184.00 GiB) means "not known" and is read as such.

/// Which wording a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageFormat {
    /// Figures in parentheses: up to PyTorch 2.0.
    Parentheses,
    /// Figures in sentences: from PyTorch 2.1 on, Intel's GPUs included.
    Sentences,
    /// The list of the `cudaMallocAsync` backend.
    MallocAsync,
    /// Turned down by the memory fraction before the driver was asked: from PyTorch 2.12 on.
    Rejected,
    /// A size beyond an exbibyte.
    Absurd,
    /// The driver's own words, without figures.
    Bare,
}

impl MessageFormat {
    /// Its name in text and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parentheses => "parentheses",
            Self::Sentences => "sentences",
            Self::MallocAsync => "cuda_malloc_async",
            Self::Rejected => "rejected",
            Self::Absurd => "absurd",
            Self::Bare => "bare",
        }
    }
}

/// A process that a message lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUse {
    /// Its PID, perhaps of another namespace.
    pub pid: u64,
    /// What it holds; `None` = unknown.
    pub bytes: Option<u64>,
}

/// What a message says. Bytes; `None` = not said, or said to be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomMessage {
    /// Its wording.
    pub format: MessageFormat,
    /// "CUDA", "HIP" or "XPU".
    pub backend: &'static str,
    /// The device's ordinal.
    pub device: Option<u32>,
    /// What was asked of the driver (of the allocator, where it did not get that far).
    pub requested: Option<u64>,
    /// The card's memory.
    pub card: Option<u64>,
    /// What the driver had free.
    pub free: Option<u64>,
    /// The memory fraction's limit.
    pub allowed: Option<u64>,
    /// In use through PyTorch, as written: since 2.4 it includes what private pools hold free.
    pub allocated: Option<u64>,
    /// Held by private pools.
    pub private_pools: Option<u64>,
    /// Reserved by PyTorch but not in use.
    pub unallocated: Option<u64>,
    /// Reserved by PyTorch: as written, or the sum of what is in use and what is not.
    pub reserved: Option<u64>,
    /// All that this process holds, libraries and context included.
    pub this_process: Option<u64>,
    /// Other processes that are listed (perhaps this one, under a PID of another namespace).
    pub processes: Vec<ProcessUse>,
    /// The address range of expandable segments was too short.
    pub beyond_range: bool,
}

/// How far a message reaches at most, in bytes after its first words.
const REACH: usize = 6000;

/// Every message in a text, in order. A message without figures counts only where there is none with figures.
pub fn messages(text: &str) -> Vec<OomMessage> {
    let text = plain(text);
    let mut starts: Vec<usize> = STARTS.iter().flat_map(|start| text.match_indices(start)).map(|(at, _)| at).collect();
    starts.sort_unstable();
    let mut found: Vec<OomMessage> = Vec::new();
    for (index, &at) in starts.iter().enumerate() {
        let next = starts.get(index + 1).copied().unwrap_or(text.len());
        found.extend(read(&text[..at], &text[at..floor(&text, next.min(at + REACH))]));
    }
    if found.is_empty() && BARE.iter().any(|words| text.contains(words)) {
        found.push(OomMessage::new(MessageFormat::Bare, backend(&text)));
    }
    found
}

/// How messages with figures begin.
const STARTS: [&str; 3] = ["Tried to allocate ", "Allocation on device ", "Allocation was preemptively rejected"];
/// What stands for them where there are no figures.
const BARE: [&str; 5] = [
    "CUDA error: out of memory",
    "CUDA out of memory",
    "HIP out of memory",
    "XPU out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
];

/// The largest position up to `at` where a character begins.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// A text in one line: without colours, rank prefixes, quotes of line breaks, and with single blanks.
fn plain(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some(at) = rest.find('\u{1b}') {
        kept.push_str(&rest[..at]);
        let code = &rest[at + 1..];
        let end = code.find(|letter: char| letter.is_ascii_alphabetic()).map_or(code.len(), |end| end + 1);
        rest = &code[end..];
    }
    kept.push_str(rest);
    let kept = kept.replace("\\n", " ").replace("\\r", " ");
    let words = kept.split_whitespace().filter(|word| !is_rank(word));
    let mut line = String::with_capacity(kept.len());
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// `[rank3]:`, as launchers put before each line.
fn is_rank(word: &str) -> bool {
    let number = word.strip_prefix("[rank").and_then(|rest| rest.trim_end_matches(':').strip_suffix(']'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Reads one message; `before` is the text in front of it. `None` if it is none after all.
fn read(before: &str, text: &str) -> Option<OomMessage> {
    let head = before.trim_end();
    let announced = head.ends_with("out of memory.") || head.ends_with("out of memory");
    let backend = backend(&before[floor(before, before.len().saturating_sub(40))..]);
    if text.starts_with("Allocation on device") {
        let message = read_malloc_async(text, backend);
        return text.contains("would exceed allowed memory").then_some(message);
    }
    if text.starts_with("Allocation was preemptively") {
        return Some(read_rejected(text, backend));
    }
    let rest = text.strip_prefix("Tried to allocate ")?;
    if rest.starts_with("more than 1EB") {
        return Some(OomMessage::new(MessageFormat::Absurd, backend));
    }
    // Other programs try to allocate things too: it is PyTorch's only with its announcement or its figures.
    let (requested, _) = leading(rest)?;
    let figures = text.contains("total capac");
    if !announced && !figures {
        return None;
    }
    let format = if text.contains(" total capacity;") { MessageFormat::Parentheses } else { MessageFormat::Sentences };
    let mut message = OomMessage { requested, ..OomMessage::new(format, backend) };
    match format {
        MessageFormat::Parentheses => message.read_parentheses(text),
        _ => message.read_sentences(text),
    }
    Some(message)
}

fn backend(text: &str) -> &'static str {
    ["CUDA", "HIP", "XPU"]
        .into_iter()
        .filter_map(|name| Some((text.rfind(&format!("{name} "))?, name)))
        .max()
        .map_or("CUDA", |(_, name)| name)
}

fn read_malloc_async(text: &str, backend: &'static str) -> OomMessage {
    let mut message = OomMessage::new(MessageFormat::MallocAsync, backend);
    message.device = number_after(text, "Allocation on device ");
    message.allocated = after_colon(text, "Currently allocated");
    message.requested = after_colon(text, "Requested");
    message.card = after_colon(text, "Device limit");
    message.free = after_colon(text, "Free (according to CUDA)");
    message.allowed = after_colon(text, "PyTorch limit (set by user-supplied memory fraction)");
    // The driver's pool is not told: what is in use is all that is known of it.
    message.reserved = message.allocated;
    message
}

fn read_rejected(text: &str, backend: &'static str) -> OomMessage {
    let mut message = OomMessage::new(MessageFormat::Rejected, backend);
    message.read_sentences(text);
    let first = |keys: &[&str]| keys.iter().find_map(|key| after_colon(text, key));
    message.requested = first(&["Requested size", "Requested"]);
    message.allowed = message.allowed.or_else(|| first(&["Allowed", "allowed", "Limit", "limit"]));
    message.allocated = message.allocated.or_else(|| first(&["Allocated", "allocated"]));
    message.reserved = message.reserved.or_else(|| first(&["Reserved", "reserved"]));
    message.card = message.card.or_else(|| first(&["Total capacity", "total capacity", "Total", "total"]));
    message
}

impl OomMessage {
    fn new(format: MessageFormat, backend: &'static str) -> Self {
        Self {
            format,
            backend,
            device: None,
            requested: None,
            card: None,
            free: None,
            allowed: None,
            allocated: None,
            private_pools: None,
            unallocated: None,
            reserved: None,
            this_process: None,
            processes: Vec::new(),
            beyond_range: false,
        }
    }

    /// `(GPU 0; 7.79 GiB total capacity; 5.61 GiB already allocated; 18.06 MiB free; 5.65 GiB reserved in total by PyTorch)`
    fn read_parentheses(&mut self, text: &str) {
        self.device = number_after(text, "(GPU ");
        self.card = before(text, " total capacity");
        self.allocated = before(text, " already allocated");
        self.free = before(text, " free;");
        self.allowed = before(text, " allowed");
        self.reserved = before(text, " reserved in total");
        if self.reserved.is_none() {
            // The oldest wording: cached is what was reserved and not in use.
            self.unallocated = before(text, " cached");
            self.reserved = self.sum();
        } else {
            self.unallocated = self.reserved.zip(self.allocated).map(|(all, used)| all.saturating_sub(used));
        }
    }

    fn read_sentences(&mut self, text: &str) {
        self.device = number_after(text, "GPU ");
        // Early releases of 2.1 wrote "capacty".
        self.card = ["total capacity of ", "total capacty of "].iter().find_map(|key| after(text, key));
        self.free = before(text, " is free").or_else(|| before(text, " free."));
        self.allowed = before(text, " allowed;");
        self.allocated = before(text, " is allocated by PyTorch");
        self.private_pools = before(text, " allocated in private pools");
        self.unallocated = before(text, " is reserved by PyTorch but unallocated");
        self.reserved = self.sum();
        self.this_process = after(text, "this process has ");
        self.processes = processes(text);
        self.beyond_range = text.split(". ").any(|sentence| {
            let lower = sentence.to_ascii_lowercase();
            lower.contains("expandable") && lower.contains("reserve") && !lower.contains("unallocated")
        });
    }

    fn sum(&self) -> Option<u64> {
        Some(self.allocated?.saturating_add(self.unallocated?))
    }
}

/// `Process 1615 has 670.00 MiB memory in use.`, any number of times.
fn processes(text: &str) -> Vec<ProcessUse> {
    let read = |rest: &str| {
        let (pid, rest) = rest.split_once(" has ")?;
        let (bytes, rest) = leading(rest)?;
        rest.trim_start().starts_with("memory in use").then_some(ProcessUse { pid: pid.parse().ok()?, bytes })
    };
    text.match_indices("Process ").filter_map(|(at, key)| read(&text[at + key.len()..])).collect()
}

/// A size at the beginning of a text, and what follows it. An inner `None` is a size that means "not known".
fn leading(text: &str) -> Option<(Option<u64>, &str)> {
    let text = text.trim_start();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let value: f64 = text[..end].trim_end_matches('.').parse().ok()?;
    let rest = text[end..].trim_start();
    let units = [("bytes", 0), ("byte", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("B", 0)];
    // Some logs and translations leave the i out; PyTorch's units are binary all the same.
    let short = [("KB", 10), ("MB", 20), ("GB", 30), ("TB", 40)];
    let (unit, exponent) = units.into_iter().chain(short).find(|(unit, _)| rest.starts_with(unit))?;
    let bytes = value * f64::from(exponent).exp2();
    // From here on it can only be all ones: no device has that much.
    let known = bytes < 9e18;
    Some((known.then_some(bytes.round() as u64), &rest[unit.len()..]))
}

/// The size right after a key.
fn after(text: &str, key: &str) -> Option<u64> {
    leading(&text[text.find(key)? + key.len()..])?.0
}

/// The size after a key and a colon.
fn after_colon(text: &str, key: &str) -> Option<u64> {
    text.match_indices(key).find_map(|(at, key)| leading(text[at + key.len()..].trim_start().strip_prefix(':')?)?.0)
}

/// The size right before a key.
fn before(text: &str, key: &str) -> Option<u64> {
    text.match_indices(key).find_map(|(at, _)| {
        let unit = text[..at].rfind(' ')?;
        let value = text[..unit].rfind(|letter: char| !letter.is_ascii_digit() && letter != '.').map_or(0, |at| at + 1);
        let (bytes, rest) = leading(text.get(value..at)?)?;
        rest.is_empty().then_some(bytes)?
    })
}

/// The whole number right after a key.
fn number_after(text: &str, key: &str) -> Option<u32> {
    let rest = &text[text.find(key)? + key.len()..];
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests;
