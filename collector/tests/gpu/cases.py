"""Programs that use a real GPU in the ways issue C lists. `cases.py CASE REPORT` runs one and writes what it knows about itself:
PyTorch's own counters, its snapshot, the times of its phases. `check.py` compares that with what the shim saw."""

import ctypes
import hashlib
import json
import os
import signal
import sys
import time

CASE, REPORT = sys.argv[1], sys.argv[2]
report = {"case": CASE, "pid": os.getpid(), "phases": []}


def mark(text):
    """A mark of our own through the shim's exported function, if it is there."""
    try:
        ctypes.PyDLL(None).vramscope_mark(0, text.encode(), ctypes.c_size_t(len(text)))
    except AttributeError:
        pass


class phase:
    """Notes when a phase began and ended."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.begin = time.time_ns()

    def __exit__(self, *_):
        report["phases"].append([self.name, self.begin, time.time_ns()])


def nvml(index=0):
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    info = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    mine = [p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle) if p.pid == os.getpid()]
    every = [[p.pid, p.usedGpuMemory] for p in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
    return {"total": info.total, "reserved": info.reserved, "free": info.free, "used": info.used,
            "mine": mine[0] if mine else None, "processes": every, "uuid": pynvml.nvmlDeviceGetUUID(handle)}


def write():
    with open(REPORT + ".part", "w") as file:
        json.dump(report, file)
    os.replace(REPORT + ".part", REPORT)


def end(torch):
    """What PyTorch says of itself, at the moment that the mark names."""
    torch.cuda.synchronize()
    mark("case ends")
    stats = torch.cuda.memory_stats()
    report["stats"] = {key: stats[key] for key in stats if ".all." in key or key.startswith("num_")}
    report["segments"] = [
        {"device": s["device"], "address": s["address"], "size": s["total_size"], "expandable": s.get("is_expandable", False),
         "blocks": [[b["address"], b["size"], b["state"]] for b in s["blocks"]]}
        for s in torch.cuda.memory._snapshot()["segments"]
    ]
    report["torch"] = torch.__version__
    report["nvml"] = nvml()
    write()


def model_of(torch, inplace=True, width=256, layers=6):
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 4, batch_first=True)
            self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.ReLU(inplace=inplace), nn.Linear(4 * width, width))

        def forward(self, x):
            y = self.norm(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.mlp(x)

    return nn.Sequential(nn.Embedding(1000, width), *[Layer() for _ in range(layers)], nn.Linear(width, 1000)).cuda()


def train(torch, steps=6, compiled=False, workers=0, streams=False, kill_at=None, loader=True, device=0):
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = model_of(torch)
    called = torch.compile(model) if compiled else model
    loss_of = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randint(0, 1000, (steps * 8, 33), generator=torch.Generator().manual_seed(2))
    batches = iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data), batch_size=8, num_workers=workers, pin_memory=True))
    side = [torch.cuda.Stream() for _ in range(3)] if streams else []
    losses = []
    torch.cuda.nvtx.range_push("training")
    for step in range(steps):
        with phase("data"):
            (rows,) = next(batches)
        rows = rows.cuda(non_blocking=True)
        for stream in side:
            with torch.cuda.stream(stream):
                noise = torch.randn(256, 1024, device="cuda")
                noise.mul_(2)
            noise.record_stream(torch.cuda.current_stream())
            del noise
        with phase("forward"):
            scores = called(rows[:, :-1])
        with phase("loss"):
            loss = loss_of(scores.flatten(0, 1), rows[:, 1:].flatten())
        with phase("backward"):
            loss.backward()
        with phase("optimizer"):
            optimizer.step()
        with phase("zero_grad"):
            optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if kill_at == step:
            write()
            os.kill(os.getpid(), signal.SIGKILL)
    torch.cuda.nvtx.range_pop()
    with torch.no_grad():
        model.eval()
        with phase("validation"):
            called(data[:8, :-1].cuda())
    report["losses"] = losses
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    report["digest"] = digest.hexdigest()
    return model


def run_train(**how):
    import torch

    if how.get("compiled"):
        import torch._dynamo.utils as utils

        kept = train(torch, **how)
        report["graph_breaks"] = sum(utils.counters["graph_break"].values())
        report["graphs"] = utils.counters["stats"]["unique_graphs"]
    else:
        kept = train(torch, **how)
    end(torch)
    del kept


def run_oom():
    import torch

    keep = [torch.empty(1 << 20, device="cuda")]
    for bytes_wanted, fraction in ((400 << 30, None), (30 << 30, 0.1)):
        if fraction:
            torch.cuda.set_per_process_memory_fraction(fraction)
        before = time.time_ns()
        try:
            keep.append(torch.empty(bytes_wanted, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError as error:
            report.setdefault("ooms", []).append(
                {"wanted": bytes_wanted, "begin": before, "end": time.time_ns(), "message": str(error),
                 "allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()})
    end(torch)


def run_asked():
    import torch

    deadline = time.time() + 25
    model = model_of(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    folder = os.environ["VRAMSCOPE_RING_DIR"]
    while time.time() < deadline and not any(name.endswith(".pickle") for name in os.listdir(folder)):
        model(torch.randint(0, 1000, (4, 16), device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.02)
    report["snapshots"] = [name for name in os.listdir(folder) if name.endswith(".pickle")]
    end(torch)


def run_async():
    import torch

    kept = [torch.ones(1 << 20, device="cuda") * i for i in range(5)]
    torch.cuda.synchronize()
    mark("case ends")
    report["expected"] = torch.cuda.memory_allocated()
    report["nvml"] = nvml()
    write()
    del kept


def run_jax():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import jax.numpy as jnp

    kept = [jnp.ones((1024, 1024)) * i for i in range(5)]
    for item in kept:
        item.block_until_ready()
    stats = jax.local_devices()[0].memory_stats() or {}
    report["expected"] = stats.get("bytes_in_use", 5 << 22)
    mark("case ends")
    report["nvml"] = nvml()
    write()


def run_cupy():
    import cupy

    kept = [cupy.ones((1024, 1024), dtype=cupy.float32) * i for i in range(5)]
    cupy.cuda.Device().synchronize()
    report["expected"] = cupy.get_default_memory_pool().total_bytes()
    mark("case ends")
    report["nvml"] = nvml()
    write()
    del kept


def run_cpu():
    """PyTorch without the GPU, and a child that is no Python: neither leaves a ring."""
    import subprocess

    import torch

    torch.nn.Linear(8, 8)(torch.ones(2, 8)).sum().backward()
    subprocess.run(["ls", "/"], stdout=subprocess.DEVNULL, check=True)
    write()


def run_rank():
    import torch
    import torch.distributed as distributed

    distributed.init_process_group("gloo")
    report["rank"] = distributed.get_rank()
    globals()["REPORT"] = "%s.%d" % (REPORT, report["rank"])
    kept = train(torch, steps=3)
    distributed.barrier()
    end(torch)
    del kept


def spawned(index):
    import torch

    kept = torch.ones((index + 1) << 20, device="cuda")
    torch.cuda.synchronize()
    del kept


def run_spawn():
    import torch.multiprocessing as processes

    processes.spawn(spawned, nprocs=2)
    write()


CASES = {
    "default": run_train,
    "plain": run_train,
    "expandable": run_train,
    "streams": lambda: run_train(streams=True),
    "compiled": lambda: run_train(compiled=True),
    "compiled_plain": lambda: run_train(compiled=True),
    "compiled_again": lambda: run_train(compiled=True),
    "workers": lambda: run_train(workers=2),
    "killed": lambda: run_train(kill_at=3),
    "oom": run_oom,
    "asked": run_asked,
    "malloc_async": run_async,
    "jax": run_jax,
    "cupy": run_cupy,
    "cpu": run_cpu,
    "rank": run_rank,
    "spawn": run_spawn,
}

if __name__ == "__main__":
    CASES[CASE]()
