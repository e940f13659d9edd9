#!/bin/bash
# Puts what run.sh needs on the GPU machine into one folder: pack.sh FOLDER [TARGET]. TARGET = cargo's target folder.
set -eu
here=$(cd "$(dirname "$0")" && pwd); root=$(cd "$here/../../.." && pwd)
folder=$1; target=${2:-$root/target}; export CARGO_TARGET_DIR=$target
mkdir -p "$folder"
cargo build --release --manifest-path "$root/collector/shim/Cargo.toml"
cargo build --release --manifest-path "$root/Cargo.toml" -p vramscope-collector --example rings
cargo build --release --manifest-path "$root/Cargo.toml" -p vramscope-fake-c10 -p vramscope-fake-cuda
cp "$target/release/libvramscope_shim.so" "$target/release/examples/rings" "$root/assets/vramscope_hook.py" "$folder"
cp "$target/release/libfake_cuda.so" "$folder/libcuda.so.1"; cp "$target/release/libfake_c10.so" "$folder/libc10.so"
cc -O2 -o "$folder/job" "$root/collector/tests/shim/programs/job.c" -ldl -lpthread
