//! What the fake driver was told to do, and how often each function was called.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::c_int;

/// The script of this process.
pub(crate) struct Script {
    pub(crate) devices: c_int,
    pub(crate) memory: u64,
    /// Function, number of the call (`None` = every one), answer.
    failures: Vec<(String, Option<u64>, c_int)>,
    missing: Vec<String>,
    calls: Mutex<HashMap<&'static str, u64>>,
}

/// The script, read from the environment at first use.
pub(crate) fn get() -> &'static Script {
    static SCRIPT: OnceLock<Script> = OnceLock::new();
    SCRIPT.get_or_init(|| Script::parse(&std::env::var("VRAMSCOPE_FAKE_CUDA").unwrap_or_default()))
}

pub(crate) fn is_device(device: c_int) -> bool {
    (0..get().devices).contains(&device)
}

impl Script {
    fn parse(text: &str) -> Self {
        let mut script =
            Self { devices: 1, memory: 80 << 30, failures: Vec::new(), missing: Vec::new(), calls: Mutex::default() };
        for (key, value) in text.split_whitespace().filter_map(|word| word.split_once('=')) {
            match key {
                "devices" => script.devices = value.parse().unwrap_or(1),
                "memory" => script.memory = value.parse().unwrap_or(80 << 30),
                "missing" => script.missing.push(value.to_owned()),
                "fail" => script.failures.extend(failure(value)),
                _ => {}
            }
        }
        script
    }

    pub(crate) fn is_missing(&self, function: &str) -> bool {
        self.missing.iter().any(|missing| missing == function)
    }

    /// Counts a call; the answer it is to give without doing anything, if the script says so.
    pub(crate) fn failure(&self, function: &'static str) -> Option<c_int> {
        if self.failures.is_empty() {
            return None;
        }
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let count = calls.entry(function).or_default();
        *count += 1;
        let this = *count;
        self.failures
            .iter()
            .find(|(name, number, _)| name == function && number.is_none_or(|number| number == this))
            .map(|&(_, _, answer)| answer)
    }
}

fn failure(text: &str) -> Option<(String, Option<u64>, c_int)> {
    let (function, rest) = text.split_once('@')?;
    let (number, answer) = rest.split_once(':')?;
    let number = if number == "*" { None } else { Some(number.parse().ok()?) };
    Some((function.to_owned(), number, answer.parse().ok()?))
}
