//! Marks and spans that the Python hook states through the exported function.

use libc::c_int;
use vramscope_wire::{Api, Kind, TEXT_BYTES};

use crate::{ring, settings, thread};

/// Writes a mark or one end of a span.
///
/// # Safety
/// `name` must be readable for `length` bytes.
pub(crate) unsafe fn mark(kind: c_int, name: *const u8, length: usize) {
    let kind = match kind {
        0 => Kind::Mark,
        1 => Kind::RangeBegin,
        2 => Kind::RangeEnd,
        _ => return,
    };
    // Only a process that uses the GPU has a ring: one that merely imports PyTorch should leave nothing behind.
    if !settings::active() || name.is_null() || ring::current().is_none() {
        return;
    }
    // One byte more than fits tells the record that the text was cut.
    // SAFETY: the caller vouches for `length` bytes.
    let text = unsafe { core::slice::from_raw_parts(name, length.min(TEXT_BYTES + 1)) };
    thread::emit_text(kind, Api::Hook, 0, text);
}
