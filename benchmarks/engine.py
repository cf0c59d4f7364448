"""Runs and engines: python3 dev.py bench engine.

All figures are CPU time. Ratios compare what was measured in this one run.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
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
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Peer
from astra_sim_network_analytical.topologies import Ring

from devtools.figures import FigureTable, Row, main

ROOT = Path(__file__).resolve().parents[1]
RING = "plugin:ring?size={}&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
SWITCH = "plugin:switch?size={}&link_bandwidth_gib_per_s=50&link_latency_ns=500"
CONNECTED = "plugin:fully_connected?size={}&links={}&link_bandwidth_gib_per_s=50&link_latency_ns=500"
TORUS = "plugin:torus?sizes={}&link_bandwidth_gib_per_s=50&link_latency_ns=500"
ALL_REDUCE = f"plugin:collective?collective=all_reduce&bytes={64 << 20}"


class UnevenRing(Ring):
    """A ring on which the next NPU of each is another number of hops away, as if at random."""

    def hops(self, source: int, destination: int) -> int:
        """From 500 000 to 1 500 000."""
        return 500_000 + source * 2_654_435_761 % 1_000_003

    def is_symmetric(self, peer: Peer) -> bool:
        """Never."""
        return False


class UnlikeTimes(RouteDelayNetwork):
    """Messages take a picosecond for each hop; so on that ring no two ranks are in step."""

    def __init__(self, npus: int) -> None:
        super().__init__(Platform((Dimension(UnevenRing(npus, 2), npus, 2, 50.0, 500.0),)))

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        """A picosecond for each hop."""
        return hops


def without_symmetry(
    collective: str, algorithm: str, npus: int, splits: int = 1, engine: str = "compiled", unlike: bool = False
) -> Callable[[], astra_sim.Result]:
    """A collective of 64 MiB on a ring in which every message is simulated; `unlike`: those of each NPU take another time."""
    ring: dict[str, Any] = {"network": UnlikeTimes(npus)} if unlike else {"platform": RING.format(npus)}
    return lambda: astra_sim.simulate(
        workload=f"plugin:collective?collective={collective}&bytes={64 << 20}",
        symmetry=False,
        engine=engine,
        set=[f"system.splits={splits}", f"system.{collective}={algorithm}"],
        **ring,
    )


# Runs one collective in which every message is simulated, and prints what it took as JSON.
MESSAGE_BY_MESSAGE = """
import json, resource, runpy, sys, time
path, arguments = sys.argv[1:]
run = runpy.run_path(path)["without_symmetry"](*json.loads(arguments))
begin = time.process_time()
result = run()
seconds = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 if sys.platform == "darwin" else 1024)
print(json.dumps([seconds, result.messages, peak]))
"""


def message_by_message(*arguments: Any) -> tuple[float, int, float]:
    """CPU seconds (the best of three processes), messages, and peak memory in MB of a run of `without_symmetry`."""
    runs = []
    for _ in range(3):
        command = [sys.executable, "-c", MESSAGE_BY_MESSAGE, __file__, json.dumps(arguments)]
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout))
    seconds, messages, peak = min(runs)
    return seconds, messages, peak


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
    "all-reduce, ring, 1024 NPUs, ranks that differ in time": without_symmetry("all_reduce", "ring", 1024, unlike=True),
    "all-to-all, direct, 512 NPUs": without_symmetry("all_to_all", "direct", 512),
    "all-reduce, halving-doubling, 4096 NPUs": without_symmetry("all_reduce", "halving_doubling", 4096),
    "all-reduce, double binary tree, 4096 NPUs": without_symmetry("all_reduce", "double_binary_tree", 4096),
    "all-reduce, double binary tree, 16384 NPUs, symmetry": lambda: astra_sim.simulate(
        workload=ALL_REDUCE, platform=RING.format(16384), set=["system.splits=1", "system.all_reduce=double_binary_tree"]
    ),
    "all-reduce, ring, 1024 NPUs, congestion": with_congestion("all_reduce", "ring", RING.format(1024)),
    "all-to-all, direct, 512 NPUs on a switch, congestion": with_congestion("all_to_all", "direct", SWITCH.format(512)),
    "all-to-all, direct, 512 NPUs fully connected, congestion": with_congestion("all_to_all", "direct", CONNECTED.format(512, 511)),
    "all-reduce, ring, 64 NPUs, Python engine": without_symmetry("all_reduce", "ring", 64, engine="python"),
}
"""What `dev.py bench engine --against REVISION` compares."""


def simulate_all_reduce(spec: str) -> astra_sim.Result:
    """An all-reduce of 64 MiB in four chunks on a platform, with symmetry."""
    return astra_sim.simulate(workload=ALL_REDUCE, platform=spec, set=["system.splits=4", "system.all_reduce=ring"])


def cpu_ms(action: Callable[[], object], runs: int) -> float:
    """The median CPU time of some runs in milliseconds, after one that does not count."""
    action()
    taken = []
    for _ in range(runs):
        begin = time.process_time()
        action()
        taken.append(time.process_time() - begin)
    return statistics.median(taken) * 1e3


TORI = {sizes: math.prod(map(int, sizes.split(","))) for sizes in ("4,4,4", "16,16,16", "32,32,32", "64,64,64", "128,128,64")}


@functools.cache
def torus_ms(sizes: str) -> float:
    """What an all-reduce on a torus takes."""
    return cpu_ms(lambda: simulate_all_reduce(TORUS.format(sizes)), 40)


def _vgg16() -> list[str]:
    return [f"{cpu_ms(vgg16, 60):.2f}", ""]


def _beside(action: Callable[[], object]) -> list[str]:
    taken = cpu_ms(action, 40)
    return [f"{taken:.2f}", f"{taken / cpu_ms(vgg16, 40):.2f} times the run"]


def _torus(sizes: str) -> list[str]:
    return [f"{torus_ms(sizes):.2f}", f"{torus_ms(sizes) / torus_ms('4,4,4'):.2f} times 64 NPUs"]


IN_PROCESS = FigureTable(
    "in-process",
    ("what", "CPU ms, median", "beside it"),
    [
        Row(["`simulate` VGG-16 on the DGX-2 pod, 256 NPUs, from its files"], _vgg16),
        Row(["the same on another platform in every run"], lambda: _beside(elsewhere())),
        Row(["the same with result.json and CSV files"], lambda: _beside(written())),
        Row(
            ["all-reduce of 64 MiB on a ring of 1024 NPUs, 4 chunks"],
            lambda: [f"{cpu_ms(lambda: simulate_all_reduce(RING.format(1024)), 40):.2f}", ""],
        ),
        *(
            Row([f"the same on a torus of {sizes.replace(',', ' x ')} = {npus} NPUs"], partial(_torus, sizes))
            for sizes, npus in TORI.items()
        ),
    ],
)


def _message_row(*arguments: Any) -> list[str]:
    seconds, messages, peak = message_by_message(*arguments)
    return [f"{messages:,}", f"{seconds:.2f}", f"{messages / seconds / 1e6:.2f} million", f"{peak:.0f} MB"]


MESSAGES = FigureTable(
    "messages",
    ("collective of 64 MiB on a ring", "messages", "CPU s", "messages/s", "peak memory"),
    [
        Row([label], partial(_message_row, *arguments))
        for label, arguments in {
            "all-reduce, ring, 1024 NPUs, 4 chunks": ("all_reduce", "ring", 1024, 4),
            "all-reduce, ring, 4096 NPUs": ("all_reduce", "ring", 4096, 1),
            "all-reduce, ring, 2048 NPUs, the messages of each take another time": ("all_reduce", "ring", 2048, 1, "compiled", True),
            "all-to-all, direct, 1024 NPUs, all messages at once": ("all_to_all", "direct", 1024, 1),
            "all-reduce, halving-doubling, 4096 NPUs, 4 chunks": ("all_reduce", "halving_doubling", 4096, 4),
            "all-reduce, double binary tree, 4096 NPUs, 4 chunks": ("all_reduce", "double_binary_tree", 4096, 4),
            "all-reduce, ring, 128 NPUs, 4 chunks": ("all_reduce", "ring", 128, 4),
            "the same on the Python engine": ("all_reduce", "ring", 128, 4, "python"),
        }.items()
    ],
)

WITH_CONGESTION = """
import json, resource, sys
import astra_sim
collective, algorithm, splits, platform, small = sys.argv[1:]
def run(platform):
    return astra_sim.simulate(
        workload=f"plugin:collective?collective={collective}&bytes={64 << 20}", platform=platform,
        network="plugin:analytical?congestion=aware", set=[f"system.splits={splits}", f"system.{collective}={algorithm}"],
    )
run(small)
before = resource.getrusage(resource.RUSAGE_SELF)
result = run(platform)
after = resource.getrusage(resource.RUSAGE_SELF)
seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
print(json.dumps([seconds, result.messages, 1024 * (after.ru_maxrss - before.ru_maxrss)]))
"""
"""CPU seconds, messages, and bytes of memory, beyond those of a run of four NPUs."""


def _congestion_row(collective: str, algorithm: str, splits: int, platform: str, small: str) -> list[str]:
    arguments = [sys.executable, "-c", WITH_CONGESTION, collective, algorithm, str(splits), platform, small]
    runs = [json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout) for _ in range(3)]
    seconds, messages, size = min(runs)
    return [f"{messages:,}", f"{seconds:.2f}", f"{messages / seconds / 1e6:.1f} million", f"{size / messages:,.0f}"]


CONGESTION = FigureTable(
    "congestion",
    ("collective of 64 MiB", "messages", "CPU s", "messages/s", "bytes a message"),
    [
        Row([label], partial(_congestion_row, *arguments))
        for label, arguments in {
            "all-reduce, ring, ring of 1024 NPUs": ("all_reduce", "ring", 1, RING.format(1024), RING.format(4)),
            "the same in 4 chunks": ("all_reduce", "ring", 4, RING.format(1024), RING.format(4)),
            "all-to-all, direct, switch of 1024 NPUs, all messages at once": (
                "all_to_all", "direct", 1, SWITCH.format(1024), SWITCH.format(4),
            ),
            "all-to-all, direct, 1024 NPUs fully connected": (
                "all_to_all", "direct", 1, CONNECTED.format(1024, 1023), CONNECTED.format(4, 3),
            ),
            "all-reduce, direct, 512 NPUs fully connected": (
                "all_reduce", "direct", 1, CONNECTED.format(512, 511), CONNECTED.format(4, 3),
            ),
        }.items()
    ],
)  # fmt: skip

TABLES = (IN_PROCESS, MESSAGES, CONGESTION)

if __name__ == "__main__":
    sys.exit(main(TABLES))
