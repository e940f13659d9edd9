//! Gives the library the name inside that programs look for; the file keeps another, so that nobody loads it by accident.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
