//! Finding the original functions, and getting between a program and the driver functions it looks up by name.
//!
//! The CUDA runtime opens libcuda for itself and asks `dlsym` for `cuGetProcAddress`, and that for everything else, so definitions
//! of our own are never asked. Therefore `dlsym` itself is wrapped. The wrapper answers for names in the hook table and jumps to
//! the real one for everything else, so that `RTLD_NEXT` still means "after the caller".

use core::arch::naked_asm;
use core::ffi::CStr;
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use libc::{c_char, c_int, c_void};

use crate::{cuda, settings};

static REAL_DLSYM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Looks up the C library's own `dlsym`.
pub(crate) fn find_dlsym() {
    for version in [c"GLIBC_2.34", c"GLIBC_2.2.5"] {
        // SAFETY: both texts end with a zero byte.
        let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        if !found.is_null() {
            REAL_DLSYM.store(found, Ordering::Relaxed);
            return;
        }
    }
}

fn real_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
    let real = REAL_DLSYM.load(Ordering::Relaxed);
    if real.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: it is the C library's dlsym, and the arguments are a caller's of dlsym or literals.
    unsafe { mem::transmute::<*mut c_void, Dlsym>(real)(handle, name) }
}

/// A function in a library that is loaded already, whatever scope it was loaded into; null if there is none.
pub(crate) fn in_loaded(library: &CStr, name: &CStr) -> *mut c_void {
    // SAFETY: RTLD_NOLOAD loads nothing and runs no code of the library.
    let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if handle.is_null() { ptr::null_mut() } else { real_dlsym(handle, name.as_ptr()) }
}

/// A driver function that is not ours; null if there is none.
pub(crate) fn driver_function(name: &CStr) -> *mut c_void {
    let next = real_dlsym(libc::RTLD_NEXT, name.as_ptr());
    if next.is_null() { in_loaded(c"libcuda.so.1", name) } else { next }
}

/// The wrapper around `dlsym`.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        "push rdi", "push rsi", "sub rsp, 8",
        "call {lookup}",
        "add rsp, 8", "pop rsi", "pop rdi",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "mov rax, qword ptr [rip + {real}]",
        "test rax, rax",
        "jz 3f",
        "jmp rax",
        "3:", "ret",
        lookup = sym lookup,
        real = sym REAL_DLSYM,
    )
}

/// The hook for a name, or null if the real `dlsym` is to answer.
extern "C" fn lookup(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    if REAL_DLSYM.load(Ordering::Relaxed).is_null() {
        find_dlsym();
    }
    if !settings::active() || handle == libc::RTLD_NEXT || name.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: dlsym's caller gives a text that ends with a zero byte.
    let Some(hook) = cuda::by_symbol(unsafe { CStr::from_ptr(name) }) else { return ptr::null_mut() };
    let real = real_dlsym(handle, name);
    if real.is_null() {
        return ptr::null_mut();
    }
    hook.stand_in_for(real)
}

/// Whether PyTorch's allocator library is loaded. Costs a look at a counter as long as no library is added.
pub(crate) fn framework_loaded() -> bool {
    static LOADED: AtomicBool = AtomicBool::new(false);
    if !LOADED.load(Ordering::Relaxed) {
        // SAFETY: the function given is valid and looks at its arguments only during the call.
        let found = unsafe { libc::dl_iterate_phdr(Some(looks_like_framework), ptr::null_mut()) };
        LOADED.store(found == FOUND, Ordering::Relaxed);
    }
    LOADED.load(Ordering::Relaxed)
}

const FOUND: c_int = 1;
const NOTHING_NEW: c_int = 2;

unsafe extern "C" fn looks_like_framework(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    static SEEN: AtomicU64 = AtomicU64::new(0);
    // SAFETY: the loader gives a valid record; names end with a zero byte.
    let (adds, path) = unsafe { ((*info).dlpi_adds, (*info).dlpi_name) };
    if path.is_null() {
        return 0;
    }
    // SAFETY: see above.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if path.is_empty() {
        // The program itself, which comes first.
        return if SEEN.swap(adds, Ordering::Relaxed) == adds { NOTHING_NEW } else { 0 };
    }
    if path.rsplit(|&byte| byte == b'/').next() == Some(b"libc10.so") { FOUND } else { 0 }
}
