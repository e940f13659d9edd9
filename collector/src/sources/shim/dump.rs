//! What a ring holds, as text: for golden files and for looking into a ring by hand.

use std::fmt::Write;

use vramscope_wire::{Kind, Record, Text, UNKNOWN_DEVICE, flags};

use super::ring_file::{RingFile, Said, Spoken};

/// Everything a ring holds, a line each, in the order of time. Threads and host addresses are numbered as they appear, times are
/// left out: two runs of the same program dump the same text.
pub fn dump(ring: &mut RingFile) -> String {
    let mut spoken = Vec::new();
    let whole = ring.drain(&mut spoken);
    spoken.sort_by_key(|item| item.unix_ns);
    let mut names = Names::default();
    let mut text = String::new();
    for item in &spoken {
        line(&mut text, &mut names, item);
    }
    let dropped = ring.take_dropped();
    if dropped > 0 {
        text.push_str(&format!("dropped {dropped}\n"));
    }
    if !whole {
        text.push_str("the file is shorter than it says\n");
    }
    text
}

#[derive(Default)]
struct Names {
    threads: Vec<u32>,
    host: Vec<u64>,
}

fn number<T: PartialEq>(list: &mut Vec<T>, item: T) -> usize {
    list.iter().position(|known| *known == item).unwrap_or_else(|| {
        list.push(item);
        list.len() - 1
    })
}

fn line(text: &mut String, names: &mut Names, item: &Spoken) {
    match &item.said {
        Said::Record(record) => record_line(text, names, record),
        Said::Text(said) => text_line(text, names, said),
        Said::Lost(count) => text.push_str(&format!("lost {count}\n")),
        Said::Damaged => text.push_str("damaged\n"),
    }
}

fn record_line(text: &mut String, names: &mut Names, record: &Record) {
    let Some(meta) = record.meta() else {
        text.push_str("unknown record\n");
        return;
    };
    let thread = number(&mut names.threads, meta.thread);
    let [a, b, c, d] = record.numbers();
    let _ = write!(text, "t{thread} {} {}", meta.kind.label(), meta.api.label());
    if meta.device != UNKNOWN_DEVICE {
        let _ = write!(text, " gpu{}", meta.device);
    }
    let _ = match meta.kind {
        Kind::BlockAlloc | Kind::BlockFree => write!(text, " {a:#x} {b} allocated {c} reserved {d}"),
        Kind::OutOfMemory => write!(text, " wanted {b} allocated {c} reserved {d}"),
        Kind::DeviceAlloc => write!(text, " {a:#x} {b} stream {c}"),
        Kind::DeviceFree => write!(text, " {a:#x} stream {c}"),
        Kind::PhysicalCreate => write!(text, " handle {a} {b}"),
        Kind::PhysicalRelease => write!(text, " handle {a}"),
        Kind::Map => write!(text, " {a:#x} {b} handle {c} offset {d}"),
        Kind::Unmap => write!(text, " {a:#x} {b}"),
        Kind::HostAlloc => write!(text, " h{} {b}", number(&mut names.host, a)),
        Kind::HostFree => write!(text, " h{}", number(&mut names.host, a)),
        Kind::CallFailed => write!(text, " of {a:#x} wanted {b} free {c} error {d}"),
        Kind::Device => write!(text, " {} {c}", uuid(a, b)),
        Kind::Mark | Kind::RangeBegin | Kind::RangeEnd | Kind::Name | Kind::MoreText => Ok(()),
    };
    if meta.flags & flags::FRAMEWORK != 0 {
        text.push_str(" framework");
    }
    text.push('\n');
}

fn text_line(text: &mut String, names: &mut Names, said: &Text) {
    let thread = number(&mut names.threads, said.meta.thread);
    let bytes = String::from_utf8_lossy(said.bytes());
    let cut = if said.is_cut() { " cut" } else { "" };
    let _ = write!(text, "t{thread} {} {} {}{cut} {bytes:?}", said.meta.kind.label(), said.meta.api.label(), said.id);
    text.push('\n');
}

/// A device's UUID as NVIDIA writes it.
pub(super) fn uuid(low: u64, high: u64) -> String {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&low.to_ne_bytes());
    bytes[8..].copy_from_slice(&high.to_ne_bytes());
    let mut text = String::from("GPU-");
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}
