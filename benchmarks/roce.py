"""Measures the network roce on this machine: python3 dev.py bench roce.

Ring all-reduces of 16 MiB and all-to-alls of 4 MiB through the engine, in CPU seconds of one core, and the megabytes by
which the peak of the process grows. In an all-to-all each NPU sends to all others at once. ASTRA-sim's ns-3 back end took
9.4 seconds for the first ring, 1.8 million events a second, on a machine of the same kind.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import astra_sim
from rich.console import Console
from rich.table import Table

LINK = "100Gbps 0.001ms 0"


def topology(npus: int, leaves: int, spines: int) -> str:
    """A star, or a leaf-spine fabric, in the format of the ns-3 back end."""
    links = [(npu, npus + npu * leaves // npus) for npu in range(npus)]
    links += [(npus + leaf, npus + leaves + spine) for leaf in range(leaves) for spine in range(spines)]
    ids = " ".join(str(npus + switch) for switch in range(leaves + spines))
    return f"{npus + leaves + spines} {leaves + spines} {len(links)}\n{ids}\n" + "".join(f"{a} {b} {LINK}\n" for a, b in links)


def run(npus: int, leaves: int, spines: int, collective: str, megabytes: int, algorithm: str, options: str) -> int:
    """Events of the network in a collective."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "topology.txt"
        path.write_text(topology(npus, leaves, spines))
        result = astra_sim.simulate(
            platform=str(path),
            network=f"plugin:roce?{options}",
            workload=f"plugin:collective?collective={collective}&bytes={megabytes << 20}",
            set=[f"system.{collective}={algorithm}", "system.endpoint_delay_ns=0", "system.splits=1"],
        )
    events: int = result.network["events"]
    return events


def ring(npus: int, leaves: int, spines: int) -> int:
    """Events in a ring all-reduce."""
    return run(npus, leaves, spines, "all_reduce", 16, "ring", "preset=reference")


def all_to_all(options: str) -> int:
    """Events in an all-to-all of 128 NPUs, all messages at once."""
    return run(128, 8, 8, "all_to_all", 4, "direct", options)


def peak_mb() -> float:
    """Most memory that the process has had so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


CASES: dict[str, Callable[[], object]] = {
    "ring, 64 NPUs at one switch": partial(ring, 64, 1, 0),
    "ring, 128 NPUs, 8 leaves, 8 spines": partial(ring, 128, 8, 8),
    "ring, 512 NPUs, 32 leaves, 16 spines": partial(ring, 512, 32, 16),
    "all-to-all, 128 NPUs, 8 leaves, 8 spines": partial(all_to_all, "preset=reference"),
    "all-to-all, HPCC, preset default": partial(all_to_all, "congestion_control=hpcc"),
    "all-to-all, sprayed, preset default": partial(all_to_all, "load_balancing=spray_random"),
}
"""What `dev.py bench roce --against REVISION` compares."""


def main() -> None:
    """Print a table."""
    table = Table("case", "million events", "CPU seconds", "million events a second", "MB more")
    ring(4, 1, 0)  # imports
    for name, case in CASES.items():
        before, begin = peak_mb(), time.process_time()
        events = case()
        seconds = time.process_time() - begin
        assert isinstance(events, int)
        table.add_row(name, f"{events / 1e6:.1f}", f"{seconds:.2f}", f"{events / seconds / 1e6:.1f}", f"{peak_mb() - before:.1f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
