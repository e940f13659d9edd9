//! What the fake library was told to say, and when.
//!
//! A script is a text of lines, read when the library starts; `#` begins a comment:
//!
//! | line | meaning |
//! | --- | --- |
//! | `order GPU…` | the GPUs by index, by whatever names they go in this script |
//! | `gpu GPU KEY VALUE` | a property of a GPU: `name`, `uuid`, `total`, `reserved`, `used`, `free` (bytes), `busy` (percent), `temperature`, `power` (mW), `mig` (names of its slices, commas between) |
//! | `gpu GPU process PID:BYTES` | a process; `na` for bytes it does not tell |
//! | `gpu GPU lost yes` | every call about it answers 15, GPU is lost |
//!
//! A value `error:N` makes the call answer N. A property that is not there is not supported (3). ` from N` at a line's end lets it
//! hold from the Nth time on that the devices were counted (from 0); the last line that holds counts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::code;

struct Line {
    from: u64,
    gpu: String,
    key: String,
    value: String,
}

pub(crate) struct Script {
    lines: Vec<Line>,
    samples: AtomicU64,
}

/// The script of this copy of the library.
pub(crate) fn get() -> &'static Script {
    static SCRIPT: OnceLock<Script> = OnceLock::new();
    SCRIPT.get_or_init(|| Script::parse(&crate::place::script_text()))
}

impl Script {
    fn parse(text: &str) -> Self {
        let mut lines = Vec::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or("").trim();
            let (line, from) =
                line.rsplit_once(" from ").map_or((line, 0), |(line, n)| (line, n.trim().parse().unwrap_or(0)));
            let mut words = line.split_whitespace();
            let (gpu, key) = match words.next() {
                Some("order") => (String::new(), "order".to_owned()),
                Some("gpu") => match (words.next(), words.next()) {
                    (Some(gpu), Some(key)) => (gpu.to_owned(), key.to_owned()),
                    _ => continue,
                },
                _ => continue,
            };
            let value = words.collect::<Vec<_>>().join(" ");
            lines.push(Line { from, gpu, key, value });
        }
        Self { lines, samples: AtomicU64::new(0) }
    }

    /// The devices are being counted: the next sample begins.
    pub(crate) fn next_sample(&self) {
        self.samples.fetch_add(1, Ordering::Relaxed);
    }

    fn holding<'a, 'k>(
        &'a self,
        gpu: &'k str,
        key: &'k str,
    ) -> impl DoubleEndedIterator<Item = &'a Line> + use<'a, 'k> {
        let sample = self.samples.load(Ordering::Relaxed).saturating_sub(1);
        self.lines.iter().filter(move |line| line.gpu == gpu && line.key == key && line.from <= sample)
    }

    /// Names of the GPUs by index.
    pub(crate) fn order(&self) -> Vec<&str> {
        self.holding("", "order").next_back().map_or(Vec::new(), |line| line.value.split_whitespace().collect())
    }

    /// Every name the script has, which makes handles the same at any time.
    pub(crate) fn gpu_number(&self, gpu: &str) -> Option<usize> {
        self.lines.iter().position(|line| line.gpu == gpu)
    }

    pub(crate) fn gpu_name(&self, number: usize) -> Option<&str> {
        self.lines.get(number).map(|line| line.gpu.as_str())
    }

    /// A property.
    pub(crate) fn text(&self, gpu: &str, key: &str) -> Result<&str, u32> {
        if self.holding(gpu, "lost").next_back().is_some_and(|line| line.value == "yes") {
            return Err(code::GPU_IS_LOST);
        }
        let value = self.holding(gpu, key).next_back().ok_or(code::NOT_SUPPORTED)?.value.as_str();
        value.strip_prefix("error:").map_or(Ok(value), |number| Err(number.parse().unwrap_or(code::UNKNOWN)))
    }

    pub(crate) fn number(&self, gpu: &str, key: &str) -> Result<u64, u32> {
        self.text(gpu, key)?.parse().map_err(|_| code::UNKNOWN)
    }

    /// The processes of a GPU: those of the latest moment at which any were named.
    pub(crate) fn processes(&self, gpu: &str) -> Result<Vec<(u32, Option<u64>)>, u32> {
        match self.text(gpu, "process") {
            Err(code::NOT_SUPPORTED) => return Ok(Vec::new()),
            Err(answer) => return Err(answer),
            Ok(_) => {}
        }
        let latest = self.holding(gpu, "process").map(|line| line.from).max();
        let lines = self.holding(gpu, "process").filter(|line| Some(line.from) == latest);
        Ok(lines
            .filter_map(|line| {
                let (pid, bytes) = line.value.split_once(':')?;
                Some((pid.parse().ok()?, bytes.parse().ok()))
            })
            .collect())
    }

    /// Names of a GPU's slices.
    pub(crate) fn slices(&self, gpu: &str) -> Vec<&str> {
        self.text(gpu, "mig").map_or(Vec::new(), |names| names.split(',').filter(|name| !name.is_empty()).collect())
    }
}
