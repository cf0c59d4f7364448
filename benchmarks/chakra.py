"""Measures the traces of astra-sim-chakra: python3 dev.py bench chakra.

Writes traces of a million nodes, computing and collectives, and times reading, writing, feeding and simulating them, each in a process of
its own. ASTRA-sim 2.x is not part of it: its figure is that of its own runs on a machine of the same kind, messages per second of CPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import astra_sim
from astra_sim_chakra import Node, NodeType, load_trace, write_nodes
from rich.console import Console
from rich.table import Table

ASTRA_SIM_2_MESSAGES_PER_S = 1.0e6

READING = """
import json, resource, sys, time
from astra_sim_chakra import Feeder, load_ranks, load_trace, write_trace
what, path = sys.argv[1:]
trace = load_trace(path) if what in ("write", "feed") else None
begin = time.perf_counter()
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
seconds = time.perf_counter() - begin
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
begin = time.perf_counter()
components = build(Experiment(sections={
    "workload": {"plugin": "chakra", "prefix": prefix},
    "platform": {"plugin": "torus", "sizes": [npus // 2, 2], "link_bandwidth_gib_per_s": 50, "link_latency_ns": 500},
    "system": {"plugin": "astra2", "all_reduce": "ring"},
}, run={"symmetry": symmetry}), shared_plugins())
ready = time.perf_counter()
result = run_components(components, "run", begin)
end = time.perf_counter()
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
    found = []
    for _ in range(runs):
        done = subprocess.run([sys.executable, "-c", script, *map(str, arguments)], check=True, capture_output=True, text=True)
        found.append(json.loads(done.stdout))
    return [min(numbers) for numbers in zip(*found, strict=True)]


def table_of(title: str, *names: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in names:
        table.add_column(name, justify="left" if name == names[0] else "right")
    return table


def reading(folder: Path, count: int) -> Table:
    """Reading, writing and feeding one trace."""
    table = table_of(f"A trace of {count:,} nodes", "what", "seconds", "nodes/s", "peak memory")
    plain, packed = folder / "plain.0.et", folder / "packed.0.et"
    write_nodes(plain, nodes(count, 2))
    write_nodes(packed, nodes(count, 2), compress=True)
    for rank in range(1, 4):
        (folder / f"plain.{rank}.et").symlink_to(plain)
    rows = [
        (f"read ({plain.stat().st_size / 1e6:.0f} MB)", "read", plain, 3),
        (f"read, gzip ({packed.stat().st_size / 1e6:.0f} MB)", "read", packed, 3),
        ("read 4 equal ranks", "ranks", plain, 3),
        ("read, reader in Python", "python", plain, 1),
        ("write", "write", plain, 1),
        ("feed", "feed", plain, 1),
    ]
    for label, what, path, runs in rows:
        seconds, peak = measured(READING, what, path, runs=runs)
        table.add_row(label, f"{seconds:.2f}", f"{count / seconds:,.0f}", f"{peak:.0f} MB")
    return table


def simulating(folder: Path, count: int) -> Table:
    """Simulating traces on a torus: getting ready (reading, and making the graph), and the run with its figures."""
    names = ("trace", "NPUs", "simulated", "ready", "run", "messages", "million/s", "times 2.x", "peak memory")
    table = table_of(f"{count:,} nodes simulated", *names)
    kinds = {"every 2nd a collective": (2, True), "every 10th": (10, True), "every 10th, all computing times different": (10, False)}
    cases = [("every 2nd a collective", 4), ("every 10th", 8), ("every 10th", 16), ("every 10th", 64)]
    cases.append(("every 10th, all computing times different", 8))
    for place, (label, npus) in enumerate(cases):
        first = folder / f"case{place}.0.et"
        write_nodes(first, nodes(count, *kinds[label]))
        for rank in range(1, npus):
            (folder / f"case{place}.{rank}.et").symlink_to(first)
        for scope in ("one", "all") if npus <= 16 else ("one",):
            ready, run, messages, peak = measured(SIMULATING, folder / f"case{place}", npus, scope, runs=2)
            rate = messages / run
            factor = f"{rate / ASTRA_SIM_2_MESSAGES_PER_S:.1f}"
            row = (
                label,
                f"{npus}",
                scope,
                f"{ready:.2f} s",
                f"{run:.2f} s",
                f"{messages:,.0f}",
                f"{rate / 1e6:.1f}",
                factor,
                f"{peak:.0f} MB",
            )
            table.add_row(*row)
    return table


def write_and_read(count: int) -> None:
    """A trace of so many nodes, to a file and back."""
    with tempfile.TemporaryDirectory() as folder:
        write_nodes(Path(folder) / "trace.0.et", nodes(count, 2))
        load_trace(Path(folder) / "trace.0.et")


def simulate(count: int, each: int) -> None:
    """Four NPUs with a trace of so many nodes, on a torus, without symmetry."""
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


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    console = Console(width=140)
    with tempfile.TemporaryDirectory() as folder:
        console.print(reading(Path(folder), count))
        console.print(simulating(Path(folder), count))


if __name__ == "__main__":
    main()
