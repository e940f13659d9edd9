"""Compares what the shim saw with what each program of cases.py says of itself, and prints a table. `check.py FOLDER RINGS`: FOLDER has
CASE.json and CASE/ (its rings) for each case, RINGS is the reader. Exit code = number of rows that do not hold."""

import collections
import glob
import json
import os
import re
import subprocess
import sys

FOLDER, RINGS = sys.argv[1], sys.argv[2]
bad = 0


def row(letter, case, what, holds, detail=""):
    global bad
    bad += not holds
    print("%-4s %-14s %-58s %-4s %s" % (letter, case, what, "ok" if holds else "BAD", detail))


class Events:
    """The events of one case, up to the mark that the case made before it asked PyTorch."""

    def __init__(self, case, cut=True):
        text = subprocess.run([RINGS, os.path.join(FOLDER, case)], capture_output=True, text=True, check=True).stdout
        lines = [json.loads(line) for line in text.splitlines()]
        self.processes = [line for line in lines if line["kind"] == "process"]
        self.problems = [line for line in lines if line["kind"] == "problem"]
        self.all = [line for line in lines if "t" in line]
        self.events = self.all
        if cut:
            ended = [i for i, line in enumerate(self.all) if line["kind"] == "mark" and line["name"] == "case ends"]
            self.events = self.all[: ended[0]] if ended else self.all

    def of(self, *kinds):
        return [event for event in self.events if event["kind"] in kinds]

    def counter(self, name, device=0):
        values = [e["value"] for e in self.events if e["kind"] == "counter sample" and e["counter"] == name and e["device"] == device]
        return values[-1] if values else None

    def live(self):
        blocks, freed_bytes, double = {}, 0, 0
        for e in self.events:
            if e["kind"] == "block alloc":
                double += e["address"] in blocks
                blocks[e["address"]] = e["bytes"]
            elif e["kind"] == "free requested":
                freed_bytes += blocks.pop(e["address"], 0)
        return blocks, freed_bytes, double

    def segments(self):
        mapped = {}
        for e in self.events:
            if e["kind"] in ("segment alloc", "segment map"):
                mapped[e["address"]] = e["bytes"]
            elif e["kind"] in ("segment free", "segment unmap"):
                mapped.pop(e["address"], None)
        return mapped

    def spans(self):
        opened, closed = collections.defaultdict(list), []
        for e in self.events:
            if e["kind"] == "annotation begin":
                opened[e["name"]].append(e["t"])
            elif e["kind"] == "annotation end" and opened[e["name"]]:
                closed.append((e["name"], opened[e["name"]].pop(), e["t"]))
        return closed


def read(case):
    try:
        with open(os.path.join(FOLDER, case + ".json")) as file:
            return json.load(file)
    except OSError:
        row("-", case, "the program ran to its end", False)
        return None


def runs(pairs):
    """Merges adjoining ranges."""
    merged = []
    for start, size in sorted(pairs):
        if merged and merged[-1][0] + merged[-1][1] == start:
            merged[-1][1] += size
        else:
            merged.append([start, size])
    return merged


def training(case):
    report = read(case)
    if report is None or "stats" not in report:
        return
    events, stats = Events(case), report["stats"]
    allocs, frees = events.of("block alloc"), events.of("free requested")
    blocks, freed_bytes, double = events.live()
    row("(a)", case, "block allocs, frees = PyTorch's", (len(allocs), len(frees)) == (stats["allocation.all.allocated"], stats["allocation.all.freed"]),
        "%d, %d" % (len(allocs), len(frees)))
    row("(a)", case, "bytes allocated, freed = PyTorch's",
        (sum(e["bytes"] for e in allocs), freed_bytes) == (stats["allocated_bytes.all.allocated"], stats["allocated_bytes.all.freed"]) and not double,
        "%d, %d" % (sum(e["bytes"] for e in allocs), freed_bytes))
    theirs = {a: size for s in report["segments"] for a, size, state in s["blocks"] if state == "active_allocated"}
    row("(b)", case, "live blocks = PyTorch's snapshot, block for block", blocks == theirs, "%d blocks" % len(theirs))
    mine = runs(events.segments().items())
    snapshot = runs((s["address"], s["size"]) for s in report["segments"])
    row("(b)", case, "segments = PyTorch's snapshot (adjoining ones merged)", mine == snapshot, "%d, theirs %d" % (len(mine), len(snapshot)))
    row("(d)", case, "reserved = PyTorch's, and the segments' sum", events.counter("FrameworkReserved") == stats["reserved_bytes.all.current"] == sum(s for _, s in mine),
        "%s" % events.counter("FrameworkReserved"))
    reconcile(case, report, events)
    row("-", case, "nothing lost, no problems", not any(p["lost"] for p in events.processes) and not events.problems, str(events.problems or ""))
    phases(case, report, events)


def reconcile(case, report, events):
    nvml = report["nvml"]
    known = (events.counter("FrameworkReserved") or 0) + (events.counter("OutsideFramework") or 0)
    if not events.counter("FrameworkReserved"):
        known = sum(events.segments().values())
    mib = lambda n: "?" if n is None else "%d" % (n >> 20)
    rest = None if nvml["mine"] is None else nvml["mine"] - known
    row("(d)", case, "NVML: known <= process <= used, used+free+reserved = total",
        (rest is None or 0 <= rest < 3 << 30) and abs(nvml["used"] + nvml["free"] + nvml["reserved"] - nvml["total"]) < 64 << 20
        and nvml["used"] >= known,
        "known %s process %s used %s reserved %s of %s MiB" % tuple(map(mib, (known, nvml["mine"], nvml["used"], nvml["reserved"], nvml["total"]))))
    uuids = events.processes[0]["devices"] if events.processes else []
    row("(d)", case, "device UUID = NVML's", nvml["uuid"] in uuids, str(uuids))


def phases(case, report, events):
    spans = collections.defaultdict(list)
    for name, begin, end in events.spans():
        spans[name].append((begin, end))
    slack = 300_000
    for name in dict.fromkeys(p[0] for p in report["phases"]):
        wanted = [(b, e) for n, b, e in report["phases"] if n == name]
        got = sorted(spans[name])
        inside = len(got) == len(wanted) and all(b - slack <= x and y <= e + slack for (b, e), (x, y) in zip(wanted, got))
        row("(c)", case, "phase %s = the script's own marks" % name, inside, "%d of %d" % (len(got), len(wanted)))
    steps = [e["name"] for e in events.of("mark") if e["name"].startswith("step ")]
    wanted = sum(p[0] == "optimizer" for p in report["phases"])
    row("(c)", case, "steps", steps == ["step %d" % i for i in range(wanted)], str(len(steps)))
    row("(c)", case, "NVTX range of the script", any(name == "training" for name in spans), "")


def ooms():
    report = read("oom")
    if report is None:
        return
    events = Events("oom")
    seen = events.of("out of memory")
    theirs = report.get("ooms", [])
    for mine, his in zip(seen, theirs):
        free = re.search(r"of which ([\d.]+) GiB is free", his["message"])
        row("(e)", "oom", "size and time", mine["requested"] == his["wanted"] and his["begin"] <= mine["t"] <= his["end"],
            "%d, driver free %s, message says %s GiB free" % (mine["requested"], mine["device_free"], free and free.group(1)))
    row("(e)", "oom", "number of OOMs", len(seen) == len(theirs) == 2, "%d of %d" % (len(seen), len(theirs)))
    if theirs:
        row("(e)", "oom", "totals at failure", (events.counter("FrameworkAllocated"), events.counter("FrameworkReserved"))
            == (theirs[-1]["allocated"], theirs[-1]["reserved"]), "%s, %s" % (events.counter("FrameworkAllocated"), events.counter("FrameworkReserved")))
    files = glob.glob(os.path.join(FOLDER, "oom", "*-oom-*.pickle"))
    row("(e)", "oom", "snapshots saved at OOM", len(files) == 2, str([os.path.basename(f) for f in files]))


def others():
    for case in ("jax", "cupy", "malloc_async"):
        report = read(case)
        if report is None:
            continue
        events = Events(case)
        held = sum(events.segments().values())
        row("(f)", case, "driver allocations cover what the framework says it uses", held >= report["expected"] > 0 and not events.problems,
            "held %d, framework says %d, %d allocs %s" % (held, report["expected"], len(events.of("block alloc")), events.problems or ""))
        reconcile(case, report, events)


def processes():
    report = read("workers")
    events = Events("workers", cut=False)
    row("(g)", "workers", "one ring: data workers leave none", report is not None and [p["pid"] for p in events.processes] == [report["pid"]], str(len(events.processes)))
    events = Events("rank", cut=False)
    reports = [json.load(open(path)) for path in sorted(glob.glob(os.path.join(FOLDER, "rank.json.[0-9]")))]
    ranks = {p["pid"]: p["rank"] for p in events.processes}
    row("(g)", "rank", "two processes, ranks from the launcher", len(reports) == 2 and ranks == {r["pid"]: r["rank"] for r in reports}, str(ranks))
    for one in reports:
        cut = [e["t"] for e in events.all if e["pid"] == one["pid"] and e["kind"] == "mark" and e["name"] == "case ends"]
        mine = [e for e in events.all if e["pid"] == one["pid"] and cut and e["t"] <= cut[0] and e["kind"] == "block alloc"]
        row("(g)", "rank", "rank %d: block allocs = PyTorch's" % one["rank"], len(mine) == one["stats"]["allocation.all.allocated"], str(len(mine)))
    events = Events("spawn", cut=False)
    row("(g)", "spawn", "two spawned children have rings, their parent none", len(events.processes) == 2, str(len(events.processes)))
    row("-", "cpu", "without CUDA: no ring, no other file", os.listdir(os.path.join(FOLDER, "cpu")) == [], str(os.listdir(os.path.join(FOLDER, "cpu"))))
    killed, report = Events("killed", cut=False), read("killed")
    steps = [e["name"] for e in killed.of("mark") if e["name"].startswith("step ")]
    row("-", "killed", "SIGKILL: the ring holds the last step", report is not None and steps[-1:] == ["step 3"] and not killed.problems, str(steps))
    report = read("asked")
    row("-", "asked", "snapshot on demand", report is not None and len(report["snapshots"]) == 1, str(report and report["snapshots"]))


def same(letter, one, other):
    a, b = read(one), read(other)
    if a is None or b is None:
        return
    row(letter, one, "losses and parameters are bit-identical with and without", (a["losses"], a["digest"]) == (b["losses"], b["digest"]), a["digest"][:16])
    if "graph_breaks" in a:
        keys = ("graph_breaks", "graphs")
        row(letter, one, "graph breaks and graphs as without", [a[k] for k in keys] == [b[k] for k in keys], "%s, %s" % ([a[k] for k in keys], [b[k] for k in keys]))
    count = lambda case: case["stats"]["allocation.all.allocated"]
    # Compiled code times its kernels to choose among them, so its number of allocations varies by itself.
    again = read(other.replace("plain", "again")) if "graph_breaks" in a else b
    free = again is not None and count(again) != count(b)
    row(letter, one, "the job allocates as often as without", free or count(a) == count(b), "%d, %d, without once more %s" % (count(a), count(b), again and count(again)))


print("%-4s %-14s %-58s %-4s %s" % ("", "program", "claim", "", "figures"))
for case in ("default", "expandable", "streams", "workers", "compiled"):
    training(case)
ooms()
others()
processes()
same("(h)", "default", "plain")
same("(h)", "compiled", "compiled_plain")
print("%d rows do not hold" % bad)
sys.exit(min(bad, 100))
