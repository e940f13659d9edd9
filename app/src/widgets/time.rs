//! Durations and moments for people: as many digits as the scale at hand needs.

/// A duration in nanoseconds, with three or four digits and a fitting unit: `1.234 s`, `56.7 ms`, `8.90 µs`.
pub fn duration(ns: f64) -> String {
    let size = ns.abs();
    let (value, unit) = match size {
        _ if size >= 3600e9 => return clock(ns),
        _ if size >= 60e9 => return clock(ns),
        _ if size >= 1e9 => (ns / 1e9, "s"),
        _ if size >= 1e6 => (ns / 1e6, "ms"),
        _ if size >= 1e3 => (ns / 1e3, "\u{b5}s"),
        _ => return format!("{ns:.0} ns"),
    };
    match value.abs() {
        shown if shown >= 100.0 => format!("{value:.1} {unit}"),
        shown if shown >= 10.0 => format!("{value:.2} {unit}"),
        _ => format!("{value:.3} {unit}"),
    }
}

/// Minutes and seconds, hours where there are any: `2:03.4`, `1:02:03.4`.
fn clock(ns: f64) -> String {
    let sign = if ns < 0.0 { "\u{2212}" } else { "" };
    let tenths = (ns.abs() / 1e8).round() as u64;
    let (hours, minutes, tenths) = (tenths / 36_000, tenths / 600 % 60, tenths % 600);
    let seconds = format!("{:02}.{}", tenths / 10, tenths % 10);
    if hours > 0 { format!("{sign}{hours}:{minutes:02}:{seconds}") } else { format!("{sign}{minutes}:{seconds}") }
}

/// A moment on an axis whose ticks are `step` nanoseconds apart: no more decimals than the step needs.
pub fn tick(ns: f64, step: f64) -> String {
    let (factor, unit) = match step {
        _ if step >= 60e9 => return clock(ns).trim_end_matches(".0").to_owned(),
        _ if step >= 1e8 => (1e9, "s"),
        _ if step >= 1e5 => (1e6, "ms"),
        _ if step >= 1e2 => (1e3, "\u{b5}s"),
        _ => (1.0, "ns"),
    };
    let decimals = (-(step / factor).log10()).ceil().max(0.0) as usize;
    format!("{:.decimals$} {unit}", ns / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well_at_every_scale() {
        assert_eq!(duration(0.0), "0 ns");
        assert_eq!(duration(890.0), "890 ns");
        assert_eq!(duration(8_900.0), "8.900 µs");
        assert_eq!(duration(56_700_000.0), "56.70 ms");
        assert_eq!(duration(1_234_000_000.0), "1.234 s");
        assert_eq!(duration(123.4e9), "2:03.4");
        assert_eq!(duration(3723.4e9), "1:02:03.4");
        assert_eq!(duration(-2e6), "-2.000 ms");
    }

    #[test]
    fn ticks_need_no_useless_digits() {
        assert_eq!(tick(2e9, 5e8), "2.0 s");
        assert_eq!(tick(2e9, 1e9), "2 s");
        assert_eq!(tick(2.5e6, 5e5), "2.5 ms");
        assert_eq!(tick(1500.0, 500.0), "1.5 µs");
        assert_eq!(tick(120e9, 60e9), "2:00");
    }
}
