//! The table for people: a line a setting, best first.

use std::fmt::Write;

use vramscope_trace::Dictionary;

use super::predict::{Recorded, Row};
use crate::stacks;
use crate::widgets::bytes;

/// The table, ending in a line break.
pub(super) fn of(recorded: &Recorded<'_>, rows: &[Row], dictionary: &Dictionary) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_table(recorded, rows, dictionary, &mut out);
    out
}

fn write_table(recorded: &Recorded<'_>, rows: &[Row], dictionary: &Dictionary, out: &mut String) -> std::fmt::Result {
    let with_capacity = rows.iter().any(|row| row.min_capacity_bytes.is_some());
    let settings = recorded.requests.settings.conf.as_deref().filter(|text| !text.is_empty());
    writeln!(out, "recorded under {}", settings.unwrap_or("PyTorch's default settings"))?;
    if let Some(capacity) = rows.first().and_then(|row| row.capacity_bytes) {
        writeln!(out, "the allocator may reserve {}", bytes::text(capacity))?;
    }
    let wide = rows.iter().map(|row| name(row).len()).max().unwrap_or(0).max(8);
    write!(
        out,
        "\n{:<wide$}  {:>13}  {:>13}  {:>8}  {:>7}",
        "settings", "peak reserved", "allocated", "segments", "retries"
    )?;
    if with_capacity {
        write!(out, "  {:>13}", "fits on")?;
    }
    writeln!(out)?;
    for row in rows {
        let segments = row.segment_allocs;
        write!(
            out,
            "{:<wide$}  {:>13}  {:>13}  {segments:>8}  {:>7}",
            name(row),
            bytes::text(row.peak_reserved_bytes),
            bytes::text(row.peak_allocated_bytes),
            row.retries,
        )?;
        if with_capacity {
            write!(out, "  {:>13}", bytes::maybe(row.min_capacity_bytes))?;
        }
        writeln!(out, "{}", remark(row, dictionary))?;
    }
    Ok(())
}

fn name(row: &Row) -> &str {
    if row.conf.is_empty() { "(defaults)" } else { &row.conf }
}

/// What has to be said about a row: that it fails, or that its figure is not certain.
fn remark(row: &Row, dictionary: &Dictionary) -> String {
    let mut out = String::new();
    if let Some(oom) = &row.oom {
        let step = oom.step.map_or(String::new(), |step| format!(" in step {step}"));
        let phase = oom.phase.map_or(String::new(), |phase| format!(", {phase}"));
        let _ = write!(out, "  out of memory{step}{phase}: asked for {}", bytes::text(oom.requested_bytes));
        if stacks::telling_frame(dictionary, oom.stack).is_some() {
            let _ = write!(out, " by {}", stacks::title(dictionary, oom.stack));
        }
    } else if row.depends_on_addresses {
        let [low, high] = row.peak_reserved_range_bytes;
        let _ = write!(out, "  {} to {}, by where the driver places segments", bytes::text(low), bytes::text(high));
    }
    out
}
