//! Numbers in sentences: binary units with two decimals, plurals, lists.

const UNITS: [&str; 7] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A byte count with two decimals and a binary unit; whole bytes below 1 KiB.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} {}", if bytes == 1 { "byte" } else { "bytes" });
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

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn units_are_binary_and_never_read_1024() {
        assert_eq!([size(0), size(1), size(1023)], ["0 bytes", "1 byte", "1023 bytes"]);
        assert_eq!(size(81_352_720_384), "75.77 GiB");
        assert_eq!(size((1 << 30) - (1 << 10)), "1.00 GiB");
        assert_eq!(size(u64::MAX), "16.00 EiB");
    }
}
