//! Where the script is: `script.txt` beside this copy of the library, or what `VRAMSCOPE_FAKE_NVML` names.

use core::ffi::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::path::{Path, PathBuf};

/// The loader's record about an address, as `dladdr` fills it in.
#[repr(C)]
struct Found {
    file: *const c_char,
    base: *const c_void,
    symbol: *const c_char,
    address: *const c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
}

fn own_path() -> Option<PathBuf> {
    let nothing: *const c_void = core::ptr::null();
    let mut found = Found { file: nothing.cast(), base: nothing, symbol: nothing.cast(), address: nothing };
    // SAFETY: the address is this function's; what comes back is a text that ends with a zero byte.
    unsafe {
        if dladdr(own_path as *const c_void, &raw mut found) == 0 || found.file.is_null() {
            return None;
        }
        Some(Path::new(&*CStr::from_ptr(found.file).to_string_lossy()).to_owned())
    }
}

/// The script; without one, a single GPU at rest.
pub(crate) fn script_text() -> String {
    let named = std::env::var_os("VRAMSCOPE_FAKE_NVML").map(PathBuf::from);
    let beside = || own_path().map(|path| path.with_file_name("script.txt"));
    named.or_else(beside).and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_else(|| {
        "order a\ngpu a name vramscope fake GPU\ngpu a uuid GPU-66616b65-2d67-7075-2d75-7569642d2d00\n\
         gpu a total 85899345920\ngpu a reserved 1073741824\ngpu a used 536870912\ngpu a free 84289183744\n\
         gpu a busy 7\ngpu a temperature 41\ngpu a power 72000\n"
            .to_owned()
    })
}
