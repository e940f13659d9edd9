#!/bin/bash
# Runs every program of cases.py on the GPU under the shim, prints the table of check.py and the costs. Usage, on the GPU machine:
#   run.sh KIT OUT [rounds of the cost comparison [cost: leave the programs out]]
# KIT holds libvramscope_shim.so, rings, job, libcuda.so.1 and libc10.so (the stand-ins) as `pack.sh` puts them there.
set -u
here=$(cd "$(dirname "$0")" && pwd)
kit=$(cd "$1" && pwd); out=$2; rounds=${3:-70}; only=${4:-all}
shim=$kit/libvramscope_shim.so; rings=$kit/rings
mkdir -p "$out"; out=$(cd "$out" && pwd)
work=$(mktemp -d /dev/shm/vramscope-gpu.XXXXXX); mkdir "$work/hook"
cp "$kit/vramscope_hook.py" "$work/hook/sitecustomize.py"
export PYTHONUNBUFFERED=1 CUBLAS_WORKSPACE_CONFIG=:4096:8
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
python3 -c 'import torch; print("torch", torch.__version__)'
uname -r; nproc

under() { # NAME [VARIABLE=VALUE ...] -- COMMAND: with shim and hook
    local name=$1; shift; mkdir -p "$work/$name"
    local set=(); while [ "$1" != -- ]; do set+=("$1"); shift; done; shift
    timeout 150 env "${set[@]}" LD_PRELOAD="$shim" VRAMSCOPE_RING_DIR="$work/$name" NVTX_INJECTION64_PATH="$shim" \
        PYTHONPATH="$work/hook:${PYTHONPATH:-}" "$@" >"$work/$name.log" 2>&1
}
case_() { local name=$1; shift; under "$name" "$@" -- python3 "$here/cases.py" "$name" "$work/$name.json"; }
plain() { timeout 150 python3 "$here/cases.py" "$1" "$work/$1.json" >"$work/$1.log" 2>&1; }

start=$SECONDS

programs() {
    case_ default & plain plain & case_ expandable PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True &
    case_ streams & case_ workers & case_ killed & case_ cpu & case_ spawn &
    wait
    case_ compiled TORCHINDUCTOR_CACHE_DIR="$work/c1" & TORCHINDUCTOR_CACHE_DIR=$work/c2 plain compiled_plain &
    TORCHINDUCTOR_CACHE_DIR=$work/c3 plain compiled_again &
    case_ malloc_async PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync & case_ jax & case_ cupy &
    under rank -- python3 -m torch.distributed.run --nproc-per-node 2 --master-port 29517 "$here/cases.py" rank "$work/rank.json" &
    case_ asked & asked=$!
    while kill -0 $asked 2>/dev/null; do sleep 1; "$rings" --ask "$work/asked" 2>/dev/null; done
    wait
    case_ oom
    echo "cases took $((SECONDS - start)) s"
    python3 "$here/check.py" "$work" "$rings" 2>&1 | tee "$out/table.txt"
    for log in "$work"/*.log; do
        if [ -s "$log" ]; then echo "--- $(basename "$log")"; tail -n 12 "$log" | cut -c1-300; fi
    done
}

[ "$only" = cost ] || programs

echo "--- ns an event (a stand-in for libc10 calls the hook as fast as it can: without the shim, with it asleep, with it)"
export LD_LIBRARY_PATH=$kit:${LD_LIBRARY_PATH:-}
for threads in 1 2 8; do
    "$kit/job" bench $threads 5000000 0
    LD_PRELOAD=$shim "$kit/job" bench $threads 5000000 0
    mkdir -p "$work/bench$threads"
    LD_PRELOAD=$shim VRAMSCOPE_RING_DIR=$work/bench$threads "$kit/job" bench $threads 5000000 0
    rm -r "$work/bench$threads"
done
mkdir "$work/paced"; "$rings" --follow "$work/paced" 20 & reader=$!
LD_PRELOAD=$shim VRAMSCOPE_RING_DIR=$work/paced "$kit/job" bench 1 5000000 1000000; wait $reader
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH#"$kit":}
echo "--- step cost after $((SECONDS - start)) s"
mkdir "$work/cost"; timeout 300 python3 "$here/cost.py" "$rounds" "$shim" "$work/hook" "$work/cost" 2>&1 | tee "$out/cost.txt"
[ "$only" = cost ] || "$rings" --dump "$(ls "$work"/default/*.ring | head -1)" | gzip >"$out/default-dump.txt.gz"
echo "all took $((SECONDS - start)) s"
rm -r "$work"
