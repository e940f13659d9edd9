//! Recordings of one job side by side: which of them differs from the others.

/// For each peak, whether it is more than a tenth away from the median of all. Of two, neither is the odd one.
pub fn odd(peaks: &[u64]) -> Vec<bool> {
    let mut sorted = peaks.to_vec();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    peaks.iter().map(|peak| peaks.len() > 2 && peak.abs_diff(median) > median / 10).collect()
}

#[cfg(test)]
mod tests {
    use super::odd;

    #[test]
    fn one_that_needs_more_than_the_others_is_odd() {
        assert_eq!(odd(&[20, 20, 40, 20]), [false, false, true, false]);
        assert_eq!(odd(&[100, 105, 95, 109]), [false; 4]);
        assert_eq!(odd(&[100, 100, 50]), [false, false, true]);
        assert_eq!(odd(&[1, 1000]), [false; 2], "neither of two is the odd one");
        assert_eq!(odd(&[0, 0, 7]), [false, false, true]);
        assert!(odd(&[]).is_empty());
    }
}
