//! NVTX ranges: NVIDIA's annotation library loads the file that `NVTX_INJECTION64_PATH` names and asks it to fill in its functions.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

use libc::{c_char, c_int, c_uint, c_void};
use vramscope_wire::{Api, Kind};

use crate::{ring, settings, thread};

type ExportTable = unsafe extern "C" fn(c_uint) -> *const Callbacks;
/// Places where the annotation library keeps its function pointers.
type FunctionTable = *const *mut *const ();

/// `NvtxExportTableCallbacks`.
#[repr(C)]
pub(crate) struct Callbacks {
    bytes: usize,
    table: Option<unsafe extern "C" fn(c_uint, *mut FunctionTable, *mut c_uint) -> c_int>,
}

/// `nvtxEventAttributes_t`, as far as its text.
#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    colour_kind: i32,
    colour: u32,
    payload_kind: i32,
    reserved: i32,
    payload: u64,
    text_kind: i32,
    text: *const c_char,
}

const EXPORT_CALLBACKS: c_uint = 1;
const MODULE_CORE: c_uint = 1;
const MODULE_DOMAINS: c_uint = 5;
const TEXT_ASCII: i32 = 1;
const TEXT_REGISTERED: i32 = 3;

/// Fills in the functions of NVTX; the annotation library calls this once. Answers 1 if ranges will be written.
///
/// # Safety
/// Called by the annotation library alone.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn InitializeInjectionNvtx2(export: Option<ExportTable>) -> c_int {
    let Some(export) = export.filter(|_| settings::active()) else { return 0 };
    // SAFETY: the annotation library gives its own function and tables, which live as long as the process.
    unsafe {
        let Some(callbacks) = export(EXPORT_CALLBACKS).as_ref() else { return 0 };
        let Some(get) = callbacks.table.filter(|_| callbacks.bytes >= size_of::<Callbacks>()) else { return 0 };
        let core = [
            (1, mark as *const ()),
            (2, mark_ascii as *const ()),
            (4, range_start as *const ()),
            (5, range_start_ascii as *const ()),
            (7, range_end as *const ()),
            (8, range_push as *const ()),
            (9, range_push_ascii as *const ()),
            (11, range_pop as *const ()),
        ];
        let domains = [
            (1, domain_mark as *const ()),
            (2, domain_range_start as *const ()),
            (3, domain_range_end as *const ()),
            (4, domain_range_push as *const ()),
            (5, domain_range_pop as *const ()),
            (10, domain_register as *const ()),
        ];
        fill(get, MODULE_CORE, &core);
        fill(get, MODULE_DOMAINS, &domains);
    }
    1
}

/// # Safety
/// `get` is the annotation library's own.
unsafe fn fill(
    get: unsafe extern "C" fn(c_uint, *mut FunctionTable, *mut c_uint) -> c_int,
    module: c_uint,
    functions: &[(usize, *const ())],
) {
    let (mut table, mut size): (FunctionTable, c_uint) = (core::ptr::null(), 0);
    // SAFETY: the pointers are to locals; the table that comes back has `size` places, each null or a place to write to.
    unsafe {
        if get(module, &raw mut table, &raw mut size) == 0 || table.is_null() {
            return;
        }
        for &(index, function) in functions {
            if index < size as usize && !(*table.add(index)).is_null() {
                **table.add(index) = function;
            }
        }
    }
}

/// The number of a range that is not bound to a thread.
fn new_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Writes an annotation. Without a ring there is nothing yet that it could annotate.
fn emit(kind: Kind, id: u64, text: &[u8]) {
    if ring::current().is_some() {
        thread::emit_text(kind, Api::Nvtx, id, text);
    }
}

/// # Safety
/// `text` is null or ends with a zero byte.
unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: as this function's own contract.
    if text.is_null() { &[] } else { unsafe { CStr::from_ptr(text) }.to_bytes() }
}

/// The text of an event. A registered one is its number alone, written as `#n`; its record of kind `Name` has the text.
///
/// # Safety
/// `event` is null or valid.
unsafe fn with_text(event: *const Attributes, then: impl FnOnce(&[u8])) {
    // SAFETY: as this function's own contract; the kind says what the union holds.
    unsafe {
        match event.as_ref() {
            Some(event) if event.text_kind == TEXT_ASCII => then(bytes(event.text)),
            Some(event) if event.text_kind == TEXT_REGISTERED => {
                let mut text = [b'#'; 21];
                let (mut number, mut first) = (event.text.addr(), text.len());
                while first > 1 {
                    first -= 1;
                    text[first] = b'0' + (number % 10) as u8;
                    number /= 10;
                    if number == 0 {
                        break;
                    }
                }
                text[first - 1] = b'#';
                then(&text[first - 1..]);
            }
            _ => then(&[]),
        }
    }
}

unsafe extern "C" fn mark(event: *const Attributes) {
    // SAFETY: NVTX's caller gives a valid event.
    unsafe { with_text(event, |text| emit(Kind::Mark, 0, text)) }
}

unsafe extern "C" fn mark_ascii(text: *const c_char) {
    // SAFETY: NVTX's caller gives a text that ends with a zero byte.
    emit(Kind::Mark, 0, unsafe { bytes(text) });
}

unsafe extern "C" fn range_start(event: *const Attributes) -> u64 {
    let id = new_id();
    // SAFETY: NVTX's caller gives a valid event.
    unsafe { with_text(event, |text| emit(Kind::RangeBegin, id, text)) }
    id
}

unsafe extern "C" fn range_start_ascii(text: *const c_char) -> u64 {
    let id = new_id();
    // SAFETY: NVTX's caller gives a text that ends with a zero byte.
    emit(Kind::RangeBegin, id, unsafe { bytes(text) });
    id
}

unsafe extern "C" fn range_end(id: u64) {
    emit(Kind::RangeEnd, id, &[]);
}

unsafe extern "C" fn range_push(event: *const Attributes) -> c_int {
    // SAFETY: NVTX's caller gives a valid event.
    unsafe { with_text(event, |text| emit(Kind::RangeBegin, 0, text)) }
    thread::deepen(1)
}

unsafe extern "C" fn range_push_ascii(text: *const c_char) -> c_int {
    // SAFETY: NVTX's caller gives a text that ends with a zero byte.
    emit(Kind::RangeBegin, 0, unsafe { bytes(text) });
    thread::deepen(1)
}

unsafe extern "C" fn range_pop() -> c_int {
    emit(Kind::RangeEnd, 0, &[]);
    thread::deepen(-1) - 1
}

unsafe extern "C" fn domain_mark(_domain: *const c_void, event: *const Attributes) {
    // SAFETY: NVTX's caller gives a valid event.
    unsafe { mark(event) }
}

unsafe extern "C" fn domain_range_start(_domain: *const c_void, event: *const Attributes) -> u64 {
    // SAFETY: NVTX's caller gives a valid event.
    unsafe { range_start(event) }
}

unsafe extern "C" fn domain_range_end(_domain: *const c_void, id: u64) {
    emit(Kind::RangeEnd, id, &[]);
}

unsafe extern "C" fn domain_range_push(_domain: *const c_void, event: *const Attributes) -> c_int {
    // SAFETY: NVTX's caller gives a valid event.
    unsafe { range_push(event) }
}

unsafe extern "C" fn domain_range_pop(_domain: *const c_void) -> c_int {
    // SAFETY: nothing is passed on.
    unsafe { range_pop() }
}

/// Gives a text a number. The number stands where NVTX expects a pointer it never looks into.
unsafe extern "C" fn domain_register(_domain: *const c_void, text: *const c_char) -> *const c_void {
    let id = new_id();
    // SAFETY: NVTX's caller gives a text that ends with a zero byte.
    emit(Kind::Name, id, unsafe { bytes(text) });
    core::ptr::without_provenance(id as usize)
}
