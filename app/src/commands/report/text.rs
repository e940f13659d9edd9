//! The report for people: what the peak was, what was in it, what is left, what failed, what is odd.

use std::fmt::Write;

use super::facts::{Device, Oom, Report, Site};
use crate::ranks;
use crate::widgets::{bytes, number};

/// How many holders are listed.
const HOLDERS: usize = 6;

/// A recording's report, ending in a line break.
pub(super) fn of(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_report(report, &mut out);
    out
}

fn write_report(report: &Report, out: &mut String) -> std::fmt::Result {
    writeln!(out, "{}", report.file)?;
    let format = report.format.as_deref().unwrap_or("unknown format");
    write!(out, "  {format}, {}", number::of(report.entries, "event", "events"))?;
    if report.annotations > 0 {
        write!(out, ", {}", number::of(report.annotations, "annotation", "annotations"))?;
    }
    writeln!(out)?;
    if let Some(settings) = report.allocator_settings.as_deref().filter(|settings| !settings.is_empty()) {
        writeln!(out, "  allocator settings: {settings}")?;
    }
    for device in &report.devices {
        write_device(device, report, out)?;
    }
    if let Some(why) = &report.why {
        writeln!(out, "\nwhy it ran out of memory")?;
        why.write("  ", out)?;
    }
    if !report.devices_without_events.is_empty() {
        let ordinals: Vec<String> = report.devices_without_events.iter().map(u16::to_string).collect();
        writeln!(out, "\nno events on device {}", ordinals.join(", "))?;
    }
    if let Some(host) = report.host_bytes {
        writeln!(out, "\npinned host memory, apart from all figures above: {}", bytes::text(host))?;
    }
    if !report.problems.is_empty() {
        writeln!(out, "\nproblems in the file")?;
        for problem in &report.problems {
            let times =
                if problem.count > 1 { format!(" (\u{d7}{})", number::text(problem.count)) } else { String::new() };
            writeln!(out, "  {}{times}: {}", problem.kind, problem.explanation)?;
            writeln!(out, "    first: {}", problem.example)?;
        }
    }
    Ok(())
}

fn write_device(device: &Device, report: &Report, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\ndevice {}", device.device)?;
    let mut line = |name: &str, value: u64, note: &str| {
        let note = if note.is_empty() { String::new() } else { format!("   {note}") };
        writeln!(out, "  {name:<22}{:>12}{note}", bytes::text(value))
    };
    if report.entries > 0 {
        line("peak allocated", device.peak_allocated_bytes, "")?;
        line("peak reserved", device.peak_reserved_bytes, "")?;
    }
    if device.base_bytes > 0 && report.entries > 0 {
        line("before recording", device.base_bytes, "allocated before the first event")?;
    }
    line("allocated at the end", device.allocated_bytes, &number::of(device.blocks, "block", "blocks"))?;
    line("reserved at the end", device.reserved_bytes, &number::of(device.segments, "segment", "segments"))?;
    line("  releasable", device.releasable_bytes, "free, empty_cache() would return it")?;
    line("  pinned", device.pinned_free_bytes, "free, but held by blocks in the same segments")?;
    if device.pending_bytes > 0 {
        line("  pending", device.pending_bytes, "freed, waiting for another stream")?;
    }
    line("largest free piece", device.largest_free_bytes, "")?;
    if let Some(rounding) = device.rounding_bytes {
        line("rounding", rounding, "handed out beyond what was asked for")?;
    }
    for oom in &device.ooms {
        write_oom(oom, out)?;
    }
    let (title, holders) = if report.entries > 0 {
        ("held most at the peak", &device.peak_sites)
    } else {
        ("holds most", &device.end_sites)
    };
    write_holders(title, holders, out)
}

fn write_oom(oom: &Oom, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n  out of memory: asked for {}", bytes::text(oom.size_bytes))?;
    writeln!(
        out,
        "    then {} were allocated of {} reserved; {} were free inside, the largest piece {}",
        bytes::text(oom.allocated_bytes),
        bytes::text(oom.reserved_bytes),
        bytes::text(oom.free_bytes),
        bytes::text(oom.largest_free_bytes)
    )?;
    match oom.device_free_bytes {
        Some(free) => writeln!(out, "    the driver had {} free", bytes::text(free))?,
        None => writeln!(out, "    how much the driver had free is not in the file")?,
    }
    if let Some(frame) = oom.stack.first() {
        writeln!(out, "    in {frame}")?;
    }
    Ok(())
}

fn write_holders(title: &str, holders: &[Site], out: &mut String) -> std::fmt::Result {
    if holders.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n  {title}")?;
    for holder in holders.iter().take(HOLDERS) {
        let count = number::of(holder.count, "block", "blocks");
        writeln!(out, "    {:>12}  {count:<14}{}", bytes::text(holder.bytes), holder.title)?;
    }
    Ok(())
}

/// Several recordings side by side: each one's peak, and the odd one out. `None` for a single recording.
pub(super) fn comparison(reports: &[Report]) -> Option<String> {
    if reports.len() < 2 {
        return None;
    }
    let peak = |report: &Report| {
        let peaks = report.devices.iter().map(|device| (device.peak_allocated_bytes, device.peak_reserved_bytes));
        peaks.max().unwrap_or((0, 0))
    };
    let odd = ranks::odd(&reports.iter().map(|report| peak(report).0).collect::<Vec<_>>());
    let mut out = String::from("side by side\n");
    let _ = writeln!(out, "  {:<6}{:>14}{:>14}  file", "rank", "allocated", "reserved");
    for (report, odd) in reports.iter().zip(odd) {
        let (allocated, reserved) = peak(report);
        let rank = report.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
        let _ = writeln!(
            out,
            "  {rank:<6}{:>14}{:>14}  {}{}",
            bytes::text(allocated),
            bytes::text(reserved),
            report.file,
            if odd { "   <- differs from the others" } else { "" }
        );
    }
    Some(out)
}
