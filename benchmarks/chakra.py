"""Measures the traces of astra-sim-chakra: python3 dev.py bench chakra.

Writes a trace of a million nodes, computing and collectives in turn, and times reading, writing and feeding, each in a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from astra_sim_chakra import Node, NodeType, load_trace, write_nodes
from rich.console import Console
from rich.table import Table

MEASURED = """
import json, resource, sys, time
from astra_sim_chakra import Feeder, load_ranks, load_trace, write_trace
what, path = sys.argv[1:]
trace = load_trace(path) if what in ("write", "feed") else None
begin = time.perf_counter()
if what == "read":
    trace = load_trace(path)
elif what == "ranks":
    load_ranks(path.removesuffix(".0.et"))
elif what.startswith("simulate"):
    import astra_sim
    astra_sim.simulate(
        workload=path.removesuffix(".0.et"), platform="plugin:torus?sizes=2,2&link_bandwidth_gib_per_s=50&link_latency_ns=500",
        system="plugin:astra2?all_reduce=ring", symmetry="all" not in what,
    )
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


def nodes(count: int) -> Iterator[Node]:
    """Computing that waits for the collective before the last, and a collective after each."""
    for id in range(0, count, 2):
        name = f"layer{id % 97}"
        waits = (id - 2, id - 3)[: max(0, min(2, id - 1))]
        yield Node(id=id, name=f"{name} forward", type=NodeType.COMP_NODE, duration_ns=12_000, data=waits, is_cpu_op=False, num_ops=10**9)
        yield Node(
            id=id + 1,
            name=f"{name} all_reduce",
            type=NodeType.COMM_COLL_NODE,
            data=(id,),
            is_cpu_op=False,
            comm_type=0,
            comm_size=1 << 20,
            involved_dim=(True, True),
        )


def measured(what: str, path: Path) -> tuple[float, float]:
    """Seconds (the best of three processes, of one for what is slow) and peak memory in MB."""
    runs = []
    for _ in range(3 if what in ("read", "ranks") else 1):
        done = subprocess.run([sys.executable, "-c", MEASURED, what, str(path)], check=True, capture_output=True, text=True)
        runs.append(json.loads(done.stdout))
    return tuple(min(runs))  # type: ignore[return-value]


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    table = Table(title=f"A trace of {count:,} nodes", title_justify="left")
    for name in ("what", "seconds", "nodes/s", "peak memory"):
        table.add_column(name, justify="left" if name == "what" else "right")
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder, "plain.0.et"), Path(folder, "packed.0.et")
        write_nodes(plain, nodes(count))
        write_nodes(packed, nodes(count), compress=True)
        for rank in range(1, 4):
            Path(folder, f"plain.{rank}.et").symlink_to(plain)
        assert len(load_trace(plain)) == count
        rows = [
            (f"read ({plain.stat().st_size / 1e6:.0f} MB)", "read", plain),
            (f"read, gzip ({packed.stat().st_size / 1e6:.0f} MB)", "read", packed),
            ("read 4 equal ranks", "ranks", plain),
            ("read, reader in Python", "python", plain),
            ("simulate, 4 ranks, one for all", "simulate", plain),
            ("simulate, 4 ranks, each", "simulate all", plain),
            ("write", "write", plain),
            ("feed", "feed", plain),
        ]
        for label, what, path in rows:
            seconds, peak = measured(what, path)
            table.add_row(label, f"{seconds:.2f}", f"{count / seconds:,.0f}", f"{peak:.0f} MB")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
