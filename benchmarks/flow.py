"""Measures the flow network on this machine: python3 dev.py bench flow.

CPU seconds of one core, and the memory that a run adds to what the process had before. Each case is run once, in a process of its own.
All-to-alls send all messages at once, on a fat tree.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from functools import partial
from typing import Any

import astra_sim

from devtools.figures import FigureTable, Row, main

WIRES = "link_bandwidth_gb_per_s=25&link_latency_ns=500"
MIB = 1 << 20


def memory_mb() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(platform: str, workload: str, system: str, options: str) -> tuple[float, int, int, float, float]:
    """Simulated microseconds, messages, how often rates were computed, CPU seconds and MB."""
    sections: dict[str, Any] = {"workload": f"plugin:collective?{workload}", "system": f"plugin:{system}"}
    sections["network"] = f"plugin:flow{options}"
    # Imports do not count.
    astra_sim.simulate(**sections, platform=f"plugin:switch?size=2&{WIRES}")
    before, begin = memory_mb(), time.process_time()
    result = astra_sim.simulate(**sections, platform=f"plugin:{platform}")
    return result.finish_ns / 1e3, result.messages, int(result.network["rate_updates"]), time.process_time() - begin, memory_mb() - before


def all_to_all(arity: int, levels: int, options: str = "") -> partial[tuple[float, int, int, float, float]]:
    """All messages at once, on a fat tree."""
    tree = f"fat_tree?arity={arity}&levels={levels}&{WIRES}"
    return partial(measure, tree, f"collective=all_to_all&bytes={16 * MIB}", "astra1?all_to_all=direct", options)


CASES = {
    **{
        f"ring all-reduce, {npus} NPUs": partial(
            measure, f"ring?size={npus}&links=2&{WIRES}", f"collective=all_reduce&bytes={64 * MIB}", "astra1", ""
        )
        for npus in (1024, 4096)
    },
    "all-to-all, 64 NPUs, routing=hash": all_to_all(8, 2, "?routing=hash"),
    "all-to-all, 256 NPUs, routing=hash": all_to_all(4, 4, "?routing=hash"),
    "all-to-all, 256 NPUs, routing=hash&tolerance=0": all_to_all(4, 4, "?routing=hash&tolerance=0"),
    "all-to-all, 256 NPUs, routing=split": all_to_all(4, 4, "?routing=split"),
    "all-to-all, 512 NPUs, routing=hash": all_to_all(8, 3, "?routing=hash"),
    "all-to-all, 512 NPUs, routing=hash&tolerance=0.01": all_to_all(8, 3, "?routing=hash&tolerance=0.01"),
    "all-to-all, 512 NPUs": all_to_all(8, 3),
}


def _row(case: partial[tuple[float, int, int, float, float]]) -> list[str]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        microseconds, messages, updates, seconds, memory = pool.apply(case)
    return [f"{microseconds:.1f} us", f"{messages:,}", f"{updates:,}", f"{seconds:.2f}", f"{messages / seconds / 1e6:.3f}", f"{memory:.0f}"]


MESSAGES = FigureTable(
    "messages",
    ("case", "simulated", "messages", "rates computed", "CPU s", "million messages/s", "MB"),
    [Row([name], partial(_row, case)) for name, case in CASES.items()],
)
TABLES = (MESSAGES,)

if __name__ == "__main__":
    sys.exit(main(TABLES))
