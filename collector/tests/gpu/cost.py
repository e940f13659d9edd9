"""What the shim costs a host-bound training step. `cost.py ROUNDS SHIM HOOK_FOLDER RING_FOLDER` keeps several processes of each kind
alive, lets one after the other run a few steps, and compares neighbours in time. `cost.py --worker KIND` is one of the processes."""

import os
import random
import statistics
import subprocess
import sys
import time

KINDS = ("base", "shim", "hook", "history")
COPIES = 3
STEPS = 2


def worker(kind):
    import ctypes

    import torch

    torch.manual_seed(1)
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.a, self.b, self.norm = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), nn.LayerNorm(width)

        def forward(self, x):
            return x + self.b(nn.functional.dropout(nn.functional.gelu(self.a(self.norm(x))), 0.1))

    model = nn.Sequential(*[Layer(64) for _ in range(40)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(32, 64, device="cuda")
    if kind == "history":
        torch.cuda.memory._record_memory_history(max_entries=100_000)

    def steps(count):
        start = time.perf_counter()
        for _ in range(count):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / count

    steps(20)
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    steps(1)
    print("events %d" % (2 * (torch.cuda.memory_stats()["allocation.all.allocated"] - before)), flush=True)
    for line in sys.stdin:
        if line.startswith("toggle"):
            # The same process with writing on and off, in turns.
            write = ctypes.PyDLL(None).vramscope_write
            pairs = []
            for _ in range(int(line.split()[1])):
                times = {}
                for on in random.sample((0, 1), 2):
                    write(on)
                    times[on] = steps(1)
                pairs.append(times[1] / times[0] - 1)
            write(1)
            print(" ".join("%.6f" % pair for pair in pairs), flush=True)
        else:
            print("%.9f" % steps(STEPS), flush=True)


def median_interval(values, level=0.95, rounds=4000):
    """Median and its bootstrap interval."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(rounds))
    cut = int(rounds * (1 - level) / 2)
    return statistics.median(values), medians[cut], medians[-cut - 1]


def show(what, values):
    middle, low, high = (100 * x for x in median_interval(values))
    print("%-44s %+6.2f %%  [%+.2f, %+.2f]  %d pairs" % (what, middle, low, high, len(values)), flush=True)


def main(rounds, shim, hook, rings):
    workers = []
    for copy in range(COPIES):
        for kind in KINDS:
            env = dict(os.environ)
            if kind in ("shim", "hook"):
                folder = os.path.join(rings, "%s%d" % (kind, copy))
                os.makedirs(folder)
                env.update(LD_PRELOAD=shim, VRAMSCOPE_RING_DIR=folder)
            if kind == "hook":
                env.update(PYTHONPATH=hook + os.pathsep + env.get("PYTHONPATH", ""))
            child = subprocess.Popen([sys.executable, __file__, "--worker", kind], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            workers.append((kind, copy, child))
    events = [int(child.stdout.readline().split()[1]) for _, _, child in workers]
    print("events a step: %s" % sorted(set(events)))

    def ask(child, text):
        child.stdin.write(text + "\n")
        child.stdin.flush()
        return child.stdout.readline()

    times = {kind: [] for kind in KINDS}
    pairs = {kind: [] for kind in KINDS[1:]}
    rng = random.Random(1)
    start = time.time()
    for done in range(rounds):
        if time.time() - start > 150:
            print("stopped after %d of %d rounds" % (done, rounds))
            break
        for copy in range(COPIES):
            mine = [(kind, child) for kind, at, child in workers if at == copy]
            rng.shuffle(mine)
            took = {kind: float(ask(child, "go")) for kind, child in mine}
            for kind in KINDS:
                times[kind].append(took[kind])
            for kind in pairs:
                pairs[kind].append(took[kind] / took["base"] - 1)
    for kind in KINDS:
        print("%-10s median step %.3f ms" % (kind, 1e3 * statistics.median(times[kind])))
    names = {"shim": "shim", "hook": "shim + Python hook", "history": "PyTorch's _record_memory_history"}
    for kind in pairs:
        show("%s against none" % names[kind], pairs[kind])
        for copy in range(COPIES):
            show("   process pair %d" % copy, pairs[kind][copy::COPIES])
    same = [float(x) for kind, _, child in workers if kind == "shim" for x in ask(child, "toggle 150").split()]
    show("shim writing against not, in one process", same)
    for _, _, child in workers:
        child.stdin.close()
        child.wait()


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        worker(sys.argv[2])
    else:
        main(int(sys.argv[1]), *sys.argv[2:5])
