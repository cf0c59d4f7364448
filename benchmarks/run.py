"""Measures astra on this machine: python3 dev.py bench.

Every figure is the median of several runs, with the smallest beside it. Ratios compare what was measured in this one run.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import astra_sim
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
RING = "plugin:ring?size={}&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
TORUS = "plugin:torus?sizes={}&link_bandwidth_gib_per_s=50&link_latency_ns=500"
ALL_REDUCE = f"plugin:collective?collective=all_reduce&bytes={64 << 20}"


def timed(action: Callable[[], object], runs: int) -> tuple[float, float]:
    """Median and minimum seconds of `runs` runs, after one that does not count."""
    action()
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), min(seconds)


def process(*arguments: str) -> Callable[[], object]:
    """A run of this Python with arguments."""
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=ROOT)


def main() -> None:
    """Measure everything and print one table."""
    table = Table(title=f"astra on {platform.machine()}, Python {platform.python_version()}", title_justify="left")
    for name in ("what", "median", "best", "beside it"):
        table.add_column(name, justify="left" if name in ("what", "beside it") else "right")

    def add(what: str, seconds: tuple[float, float], beside: str = "") -> None:
        table.add_row(what, *(f"{value * 1e3:.2f} ms" for value in seconds), beside)

    vgg16 = str(ROOT / "examples" / "vgg16_dgx2_pod.toml")
    add("simulate VGG-16 on the DGX-2 pod, 256 NPUs", timed(lambda: astra_sim.simulate(vgg16), 30))

    def collective(spec: str, symmetry: bool = True) -> astra_sim.Result:
        return astra_sim.simulate(workload=ALL_REDUCE, platform=spec, symmetry=symmetry, set=["system.splits=4", "system.all_reduce=ring"])

    add("all-reduce of 64 MiB, ring of 1024 NPUs, 4 chunks", timed(lambda: collective(RING.format(1024)), 30))
    first = 0.0
    for sizes in ("4,4,4", "16,16,16", "32,32,32", "64,64,64", "128,128,64"):
        spec = TORUS.format(sizes)
        seconds = timed(lambda spec=spec: collective(spec), 20)
        first = first or seconds[0]
        npus = collective(spec).npus
        add(f"the same on a torus of {sizes.replace(',', ' x ')} = {npus} NPUs", seconds, f"{seconds[0] / first:.2f} x 64 NPUs")

    for npus in (64, 128):
        spec = RING.format(npus)
        short, full = timed(lambda spec=spec: collective(spec), 10), timed(lambda spec=spec: collective(spec, False), 3)
        messages = collective(spec).messages
        beside = f"{messages / full[0]:,.0f} messages/s; {full[0] / short[0]:,.0f} x with symmetry"
        add(f"ring of {npus} NPUs without symmetry, {messages} messages", full, beside)

    bare = timed(process("-c", "pass"), 15)
    add("python -c pass", bare)
    for what, arguments in (("import astra_sim", ("-c", "import astra_sim")), ("astra --help", ("-m", "astra_sim", "--help"))):
        seconds = timed(process(*arguments), 15)
        add(what, seconds, f"{seconds[0] / bare[0]:.1f} x python -c pass")
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
