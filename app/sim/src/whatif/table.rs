//! The settings that are worth a try, and which of them did best.

use std::cmp::Ordering;

use super::Prediction;
use crate::conf;
use crate::policy::{Policy, Torch};

/// Settings texts worth a try, PyTorch's defaults first.
const SETTINGS: &[&str] = &[
    "",
    "expandable_segments:True",
    "roundup_power2_divisions:1",
    "roundup_power2_divisions:2",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:8",
    "roundup_power2_divisions:16",
    "max_split_size_mb:64",
    "max_split_size_mb:128",
    "max_split_size_mb:256",
    "max_split_size_mb:512",
    "expandable_segments:True,roundup_power2_divisions:4",
    "expandable_segments:True,roundup_power2_divisions:8",
    "max_split_size_mb:256,roundup_power2_divisions:4",
];

/// Settings that do something only under a cap.
const UNDER_A_CAP: &[&str] = &["garbage_collection_threshold:0.6", "garbage_collection_threshold:0.8"];

/// Every setting worth a try that a version of PyTorch has, with `recorded` among them. Garbage collection is there only under a
/// capacity, without which it does nothing.
pub fn useful_settings(torch: Torch, capacity: Option<u64>, recorded: Option<&str>) -> Vec<(String, Policy)> {
    let under_a_cap = if capacity.is_some() { UNDER_A_CAP } else { &[] };
    let recorded = recorded.map(str::trim).filter(|text| !SETTINGS.contains(text) && !under_a_cap.contains(text));
    let texts = SETTINGS.iter().chain(under_a_cap).copied().chain(recorded);
    texts.filter_map(|text| Some((text.to_owned(), conf::parse(text, torch, capacity).ok()?))).collect()
}

/// Orders what two settings led to, the better one first: to survive, with less reserved, with fewer retries; or to fail later.
pub fn rank(one: &Prediction, other: &Prediction) -> Ordering {
    let key = |prediction: &Prediction| {
        let totals = &prediction.outcome.totals;
        match prediction.outcome.failure {
            None => (false, totals.peak_reserved, totals.retries),
            Some(failure) => (true, u64::MAX - failure.request.map_or(0, |request| request as u64), totals.retries),
        }
    };
    key(one).cmp(&key(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_version() {
        let newest = useful_settings(Torch::NEWEST, Some(1 << 30), Some("max_split_size_mb:33"));
        assert_eq!(newest.len(), SETTINGS.len() + UNDER_A_CAP.len() + 1);
        let oldest = useful_settings(Torch::OLDEST, None, Some(""));
        assert!(oldest.iter().all(|(text, _)| !text.contains("expandable") && !text.contains("garbage")));
        assert_eq!(oldest[0].0, "");
    }
}
