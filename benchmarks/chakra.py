"""Measures the traces of astra-sim-chakra: python3 dev.py bench chakra.

Writes traces of a million nodes, computing and collectives, and times reading, writing, feeding and simulating them, each in a process of
its own. All times are CPU time.
"""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import astra_sim
from astra_sim_chakra import Node, NodeType, load_trace, write_nodes

from devtools.figures import FigureTable, Row, main

READING = """
import json, resource, sys, time
from astra_sim_chakra import Feeder, load_ranks, load_trace, write_trace
what, path = sys.argv[1:]
trace = load_trace(path) if what in ("write", "feed") else None
begin = time.process_time()
if what == "read":
    trace = load_trace(path)
elif what == "ranks":
    load_ranks(path.removesuffix(".0.et"))
elif what == "python":
    load_trace(path, compiled=False)
elif what == "write":
    write_trace(path + ".written", trace)
else:
    feeder = Feeder(trace)
    while not feeder.finished:
        feeder.done(feeder.take())
seconds = time.process_time() - begin
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""

SIMULATING = """
import gc, json, resource, sys, time
from astra_sim.api import run_components
from astra_sim.setup.components import build
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins
prefix, npus, symmetry = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "one"
gc.disable()  # as simulate does
begin = time.process_time()
components = build(Experiment(sections={
    "workload": {"plugin": "chakra", "prefix": prefix},
    "platform": {"plugin": "torus", "sizes": [npus // 2, 2], "link_bandwidth_gib_per_s": 50, "link_latency_ns": 500},
    "system": {"plugin": "astra2", "all_reduce": "ring"},
}, run={"symmetry": symmetry}), shared_plugins())
ready = time.process_time()
result = run_components(components, "run", begin)
end = time.process_time()
print(json.dumps([ready - begin, end - ready, result.messages, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def nodes(count: int, each: int, alike: bool = True) -> Iterator[Node]:
    """Computing in chains, and a collective in every `each` nodes, for which the second chain after it waits."""
    for id in range(count):
        place, name = id % each, f"layer{id % 97}"
        if place == each - 1:
            yield Node(
                id=id,
                name=f"{name} all_reduce",
                type=NodeType.COMM_COLL_NODE,
                data=(id - 1,),
                is_cpu_op=False,
                comm_type=0,
                comm_size=1 << 20,
                involved_dim=(True, True),
            )
            continue
        waits = (id - 1,) if place else tuple(other for other in (id - 2, id - each - 1) if other >= 0)
        duration = 12_000 if alike else 1000 * (12 + id)
        yield Node(id=id, name=f"{name} forward", type=NodeType.COMP_NODE, duration_ns=duration, data=waits, is_cpu_op=False, num_ops=10**9)


def measured(script: str, *arguments: object, runs: int = 1) -> list[float]:
    """What a script prints, each number the least of some processes."""
    result = []
    for _ in range(runs):
        done = subprocess.run([sys.executable, "-c", script, *map(str, arguments)], check=True, capture_output=True, text=True)
        result.append(json.loads(done.stdout))
    return [min(numbers) for numbers in zip(*result, strict=True)]


COUNT = 1_000_000
"""Nodes of a trace."""


@functools.cache
def place() -> Path:
    """A folder for traces, which goes at the end of the process."""
    mkdtemp = tempfile.mkdtemp(prefix="astra-bench-")
    atexit.register(shutil.rmtree, mkdtemp, ignore_errors=True)
    return Path(mkdtemp)


@functools.cache
def traces() -> Path:
    """A folder with a trace of a number of nodes, plain and packed, the plain one for four ranks."""
    folder = place()
    write_nodes(folder / "plain.0.et", nodes(COUNT, 2))
    write_nodes(folder / "packed.0.et", nodes(COUNT, 2), compress=True)
    for rank in range(1, 4):
        (folder / f"plain.{rank}.et").symlink_to(folder / "plain.0.et")
    return folder


def _reading(what: str, file: str, runs: int) -> list[str]:
    path = traces() / file
    seconds, peak = measured(READING, what, path, runs=runs)
    return [f"{path.stat().st_size / 1e6:.0f} MB", f"{seconds:.2f}", f"{COUNT / seconds:,.0f}", f"{peak:.0f} MB"]


FILES = FigureTable(
    "files",
    (f"a trace of {COUNT:,} nodes", "file", "CPU s", "nodes/s", "peak memory"),
    [
        Row(["read"], partial(_reading, "read", "plain.0.et", 3)),
        Row(["read, gzip"], partial(_reading, "read", "packed.0.et", 3)),
        Row(["read 4 equal ranks"], partial(_reading, "ranks", "plain.0.et", 3)),
        Row(["read, reader in Python"], partial(_reading, "python", "plain.0.et", 1)),
        Row(["write"], partial(_reading, "write", "plain.0.et", 1)),
        Row(["feed"], partial(_reading, "feed", "plain.0.et", 1)),
    ],
)

KINDS = {"every 2nd node an all-reduce": (2, True), "every 10th": (10, True), "every 10th, all compute times different": (10, False)}


@functools.cache
def ranks(kind: str, npus: int) -> Path:
    """The prefix of traces for a number of NPUs."""
    prefix = place() / f"{list(KINDS).index(kind)}-{npus}"
    write_nodes(f"{prefix}.0.et", nodes(COUNT, *KINDS[kind]))
    for rank in range(1, npus):
        Path(f"{prefix}.{rank}.et").symlink_to(f"{prefix}.0.et")
    return prefix


def _simulating(kind: str, npus: int, scope: str) -> list[str]:
    ready, run, messages, peak = measured(SIMULATING, ranks(kind, npus), npus, scope, runs=2)
    return [f"{ready:.2f} s", f"{run:.2f} s", f"{messages / 1e6:.1f} million", f"{messages / run / 1e6:.1f} million", f"{peak:.0f} MB"]


RUNS = FigureTable(
    "runs",
    (f"a trace of {COUNT:,} nodes", "NPUs", "simulated", "ready", "run", "messages", "messages/s of the run", "peak memory"),
    [
        Row([kind, str(npus), scope], partial(_simulating, kind, npus, scope))
        for kind, npus in (
            ("every 2nd node an all-reduce", 4),
            ("every 10th", 8),
            ("every 10th", 16),
            ("every 10th", 64),
            ("every 10th, all compute times different", 8),
        )
        for scope in (("one", "every") if npus <= 16 else ("one",))
    ],
)
TABLES = (FILES, RUNS)


def write_and_read(count: int) -> None:
    """A trace of a number of nodes, to a file and back."""
    with tempfile.TemporaryDirectory() as folder:
        write_nodes(Path(folder) / "trace.0.et", nodes(count, 2))
        load_trace(Path(folder) / "trace.0.et")


def simulate(count: int, each: int) -> None:
    """Four NPUs with a trace of a number of nodes, on a torus, without symmetry."""
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(4):
            write_nodes(Path(folder) / f"trace.{rank}.et", nodes(count, each))
        astra_sim.simulate(
            workload={"plugin": "chakra", "prefix": f"{folder}/trace"},
            platform="plugin:torus?sizes=2,2&link_bandwidth_gib_per_s=50&link_latency_ns=500",
            system={"plugin": "astra2", "all_reduce": "ring"},
            symmetry=False,
        )


CASES: dict[str, Callable[[], object]] = {
    "write and read 100 000 nodes": partial(write_and_read, 100_000),
    "10 000 nodes, every 2nd a collective, 4 NPUs": partial(simulate, 10_000, 2),
    "20 000 nodes, every 10th a collective, 4 NPUs": partial(simulate, 20_000, 10),
}
"""What `dev.py bench chakra --against REVISION` compares."""


if __name__ == "__main__":
    sys.exit(main(TABLES))
