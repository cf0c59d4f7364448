"""Runs and engines: python3 dev.py bench engine.

Every figure is the median of several runs, with the smallest beside it. Ratios compare what was measured in this one run.
"""

from __future__ import annotations

import itertools
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import astra_sim
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
RING = "plugin:ring?size={}&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
SWITCH = "plugin:switch?size={}&link_bandwidth_gib_per_s=50&link_latency_ns=500"
CONNECTED = "plugin:fully_connected?size={}&links={}&link_bandwidth_gib_per_s=50&link_latency_ns=500"
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


# Runs one collective in which every message is simulated, and prints what it took as JSON.
MESSAGE_BY_MESSAGE = """
import json, resource, sys, time
import astra_sim
collective, algorithm, npus, splits, engine = sys.argv[1:]
begin = time.perf_counter()
result = astra_sim.simulate(
    workload=f"plugin:collective?collective={collective}&bytes={64 << 20}",
    platform=f"plugin:ring?size={npus}&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500",
    symmetry=False, engine=engine, set=[f"system.splits={splits}", f"system.{collective}={algorithm}"],
)
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
print(json.dumps([seconds, result.messages, peak]))
"""


def message_by_message(collective: str, algorithm: str, npus: int, splits: int, engine: str = "compiled") -> tuple[float, int, float]:
    """Seconds (the best of three processes), messages, and peak memory in MB of a run without symmetry."""
    runs = []
    for _ in range(3):
        arguments = [sys.executable, "-c", MESSAGE_BY_MESSAGE, collective, algorithm, str(npus), str(splits), engine]
        runs.append(json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout))
    seconds, messages, peak = min(runs)
    return seconds, messages, peak


def without_symmetry(collective: str, algorithm: str, npus: int, engine: str = "compiled") -> Callable[[], object]:
    """A collective of 64 MiB on a ring in which every message is simulated."""
    arguments: dict[str, Any] = {
        "workload": f"plugin:collective?collective={collective}&bytes={64 << 20}",
        "platform": RING.format(npus),
        "set": ["system.splits=1", f"system.{collective}={algorithm}"],
    }
    return lambda: astra_sim.simulate(**arguments, symmetry=False, engine=engine)


def with_congestion(collective: str, algorithm: str, platform: str) -> Callable[[], object]:
    """A collective of 64 MiB on links that carry one message after another."""
    return lambda: astra_sim.simulate(
        workload=f"plugin:collective?collective={collective}&bytes={64 << 20}",
        platform=platform,
        network="plugin:analytical?congestion=aware",
        set=["system.splits=1", f"system.{collective}={algorithm}"],
    )


def vgg16(**changes: Any) -> astra_sim.Result:
    """VGG-16 on the DGX-2 pod: a run of a few milliseconds."""
    return astra_sim.simulate(ROOT / "examples" / "vgg16_dgx2_pod.toml", **changes)


def elsewhere() -> Callable[[], object]:
    """VGG-16 on a platform that no run had before: another latency of the first dimension each time."""
    latencies = (500 + number / 64 for number in itertools.count())
    return lambda: vgg16(set=[f"platform.dimensions.0.link_latency_ns={next(latencies)}"])


def written() -> Callable[[], object]:
    """VGG-16, and what `--output` writes about it, each time into a new folder."""
    folder = tempfile.TemporaryDirectory(prefix="astra-bench-")
    numbers = itertools.count()

    def run() -> None:
        astra_sim.write_reports(vgg16(), Path(folder.name, str(next(numbers))))

    return run


CASES: dict[str, Callable[[], object]] = {
    "VGG-16 on the DGX-2 pod": vgg16,
    "VGG-16, another platform in every run": elsewhere(),
    "all-reduce, torus of 16 x 16 x 16": lambda: simulate_all_reduce(TORUS.format("16,16,16")),
    "all-reduce, ring, 1024 NPUs": without_symmetry("all_reduce", "ring", 1024),
    "all-to-all, direct, 512 NPUs": without_symmetry("all_to_all", "direct", 512),
    "all-reduce, halving-doubling, 4096 NPUs": without_symmetry("all_reduce", "halving_doubling", 4096),
    "all-reduce, double binary tree, 4096 NPUs": without_symmetry("all_reduce", "double_binary_tree", 4096),
    "all-reduce, double binary tree, 16384 NPUs, symmetry": lambda: astra_sim.simulate(
        workload=ALL_REDUCE, platform=RING.format(16384), set=["system.splits=1", "system.all_reduce=double_binary_tree"]
    ),
    "all-reduce, ring, 1024 NPUs, congestion": with_congestion("all_reduce", "ring", RING.format(1024)),
    "all-to-all, direct, 512 NPUs on a switch, congestion": with_congestion("all_to_all", "direct", SWITCH.format(512)),
    "all-to-all, direct, 512 NPUs fully connected, congestion": with_congestion("all_to_all", "direct", CONNECTED.format(512, 511)),
    "all-reduce, ring, 64 NPUs, Python engine": without_symmetry("all_reduce", "ring", 64, "python"),
}
"""What `dev.py bench engine --against REVISION` compares."""


def simulate_all_reduce(spec: str) -> astra_sim.Result:
    """An all-reduce of 64 MiB in four chunks on a platform, with symmetry."""
    return astra_sim.simulate(workload=ALL_REDUCE, platform=spec, set=["system.splits=4", "system.all_reduce=ring"])


def print_engines() -> None:
    """The compiled engine, message by message, and the Python engine beside it."""
    table = Table(title="Without symmetry: every NPU and every message", title_justify="left")
    for name in ("collective of 64 MiB on a ring", "messages", "seconds", "messages/s", "peak memory"):
        table.add_column(name, justify="left" if name.startswith("collective") else "right")

    def add(what: str, figures: tuple[float, int, float]) -> float:
        seconds, messages, peak = figures
        table.add_row(what, f"{messages:,}", f"{seconds:.2f}", f"{messages / seconds:,.0f}", f"{peak:.0f} MB")
        return messages / seconds

    add("all-reduce, ring, 1024 NPUs, 4 chunks", message_by_message("all_reduce", "ring", 1024, 4))
    add("all-reduce, ring, 4096 NPUs", message_by_message("all_reduce", "ring", 4096, 1))
    add("all-to-all, direct, 1024 NPUs", message_by_message("all_to_all", "direct", 1024, 1))
    add("all-reduce, halving-doubling, 4096 NPUs, 4 chunks", message_by_message("all_reduce", "halving_doubling", 4096, 4))
    add("all-reduce, double binary tree, 4096 NPUs, 4 chunks", message_by_message("all_reduce", "double_binary_tree", 4096, 4))
    fast = add("all-reduce, ring, 128 NPUs, 4 chunks", message_by_message("all_reduce", "ring", 128, 4))
    slow = add("the same on the Python engine", message_by_message("all_reduce", "ring", 128, 4, "python"))
    console = Console(width=150)
    console.print(table)
    console.print(f"The compiled engine moves {fast / slow:.0f} times the messages of the Python engine per second.")


def main() -> None:
    """Measure everything and print tables."""
    table = Table(title=f"astra on {platform.machine()}, Python {platform.python_version()}", title_justify="left")
    for name in ("what", "median", "best", "beside it"):
        table.add_column(name, justify="left" if name in ("what", "beside it") else "right")

    def add(what: str, seconds: tuple[float, float], beside: str = "") -> None:
        table.add_row(what, *(f"{value * 1e3:.2f} ms" for value in seconds), beside)

    alone = timed(vgg16, 30)
    add("simulate VGG-16 on the DGX-2 pod, 256 NPUs", alone)
    add("the same on another platform in every run", timed(elsewhere(), 30))
    seconds = timed(written(), 30)
    add("the same with result.json and CSV files", seconds, f"{seconds[0] / alone[0]:.2f} x the run")

    add("all-reduce of 64 MiB, ring of 1024 NPUs, 4 chunks", timed(lambda: simulate_all_reduce(RING.format(1024)), 30))
    first = 0.0
    for sizes in ("4,4,4", "16,16,16", "32,32,32", "64,64,64", "128,128,64"):
        spec = TORUS.format(sizes)
        seconds = timed(partial(simulate_all_reduce, spec), 20)
        first = first or seconds[0]
        npus = simulate_all_reduce(spec).npus
        add(f"the same on a torus of {sizes.replace(',', ' x ')} = {npus} NPUs", seconds, f"{seconds[0] / first:.2f} x 64 NPUs")

    bare = timed(process("-c", "pass"), 15)
    add("python -c pass", bare)
    for what, arguments in (("import astra_sim", ("-c", "import astra_sim")), ("astra --help", ("-m", "astra_sim", "--help"))):
        seconds = timed(process(*arguments), 15)
        add(what, seconds, f"{seconds[0] / bare[0]:.1f} x python -c pass")
    Console(width=150).print(table)
    print_engines()


if __name__ == "__main__":
    main()
