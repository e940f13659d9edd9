//! Byte counts for people: binary units with the i, three or four digits, the exact count on hover; and the way back.

use egui::{Response, RichText, Ui};

use crate::theme::Theme;
use crate::widgets::{copy, number};

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A byte count with two decimals and a binary unit: `75.77 GiB`; whole bytes below 1 KiB.
pub fn text(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut exponent = (63 - bytes.leading_zeros()) / 10;
    let mut value = bytes as f64 / f64::from(exponent * 10).exp2();
    if value >= 1023.995 {
        // Two decimals would read 1024.00: the next unit says it better.
        exponent += 1;
        value /= 1024.0;
    }
    format!("{value:.2} {}", UNITS[exponent as usize])
}

/// A byte count for axis labels: no decimals that are zero.
pub fn short(bytes: u64) -> String {
    let text = text(bytes);
    match text.split_once(' ') {
        Some((value, unit)) if value.contains('.') => {
            format!("{} {unit}", value.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// A byte count that may be unknown; unknown is a dash, never 0.
pub fn maybe(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "\u{2013}".to_owned(), text)
}

/// A difference with its sign: `+1.50 MiB`, `−20 B`, `±0 B`.
pub fn signed(from: u64, to: u64) -> String {
    match to.cmp(&from) {
        std::cmp::Ordering::Greater => format!("+{}", text(to - from)),
        std::cmp::Ordering::Less => format!("\u{2212}{}", text(from - to)),
        std::cmp::Ordering::Equal => "\u{b1}0 B".to_owned(),
    }
}

/// The exact count: `81,352,720,384 bytes`, the digits parted by thin spaces.
pub fn exact(bytes: u64) -> String {
    format!("{} {}", number::text(bytes), if bytes == 1 { "byte" } else { "bytes" })
}

/// A label with a byte count and the exact count on hover.
pub fn label(ui: &mut Ui, theme: &Theme, bytes: u64) -> Response {
    styled(ui, theme.number(text(bytes)), bytes)
}

/// Like [`label`], with a look of its own. A right click offers both forms for copying.
pub fn styled(ui: &mut Ui, text: RichText, bytes: u64) -> Response {
    let shown = text.text().to_owned();
    let response = ui.label(text).on_hover_text(exact(bytes));
    copy::menu(&response, &[&shown, &bytes.to_string()]);
    response
}

/// Reads what a person types for a size: `24 GiB`, `24g`, `23.65 GiB`, `80 GB` (decimal), `1024`.
///
/// The error is a sentence with an example.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (value, unit) = text.split_at(split);
    let sentence = || format!("\u{201c}{text}\u{201d} is not a size: write it like 24 GiB or 80 GB");
    let value: f64 = value.parse().map_err(|_| sentence())?;
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" | "bytes" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(sentence()),
    };
    let bytes = (value * factor).round();
    if bytes < 1.0 || bytes > (1u64 << 60) as f64 { Err(sentence()) } else { Ok(bytes as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_binary_and_never_read_1024() {
        assert_eq!(text(0), "0 B");
        assert_eq!(text(1023), "1023 B");
        assert_eq!(text(1024), "1.00 KiB");
        assert_eq!(text(81_352_720_384), "75.77 GiB");
        assert_eq!(text((1 << 20) - 1), "1.00 MiB");
        assert_eq!(text((1 << 30) - (1 << 10)), "1.00 GiB");
        assert_eq!(text(u64::MAX), "16.00 EiB");
        assert_eq!(short(2 << 30), "2 GiB");
        assert_eq!(short(3 << 29), "1.5 GiB");
        assert_eq!(short(100 << 20), "100 MiB");
        assert_eq!(short(0), "0 B");
        assert_eq!(maybe(None), "–");
    }

    #[test]
    fn differences_carry_their_sign() {
        assert_eq!(signed(0, 3 << 19), "+1.50 MiB");
        assert_eq!(signed(20, 0), "−20 B");
        assert_eq!(signed(7, 7), "±0 B");
        assert_eq!(exact(1), "1 byte");
    }

    #[test]
    fn sizes_can_be_typed() {
        assert_eq!(parse("24 GiB"), Ok(24 << 30));
        assert_eq!(parse(" 24g "), Ok(24 << 30));
        assert_eq!(parse("1.5MiB"), Ok(3 << 19));
        assert_eq!(parse("80 GB"), Ok(80_000_000_000));
        assert_eq!(parse("4096"), Ok(4096));
        for wrong in ["", "GiB", "24 apples", "0", "-3 GiB", "1.2.3 MiB", "9e99", "99999999999999 TiB"] {
            assert!(parse(wrong).is_err_and(|sentence| sentence.contains("24 GiB")), "{wrong}");
        }
        for bytes in [1 << 10, 5 << 20, 24 << 30] {
            assert_eq!(parse(&text(bytes)), Ok(bytes));
        }
    }
}
