//! Counts for people: digits in groups of three.

/// A count with a thin space between groups of three digits.
pub fn text(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count with its noun: `1 event`, `12 345 events`.
pub fn of(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", text(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    #[test]
    fn digits_come_in_groups_of_three() {
        assert_eq!(super::text(0), "0");
        assert_eq!(super::text(999), "999");
        assert_eq!(super::text(1000), "1\u{202f}000");
        assert_eq!(super::text(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(super::of(1, "event", "events"), "1 event");
        assert_eq!(super::of(2, "event", "events"), "2 events");
    }
}
