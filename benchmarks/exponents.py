"""What grows with what: python3 dev.py bench exponents.

Each case runs at sizes over a decade, every run in a process of its own, and the exponent of its CPU time (or memory) is fitted to them,
less what a run of next to nothing takes. An exponent above LIMIT means that a run costs more than its work: the benchmark fails. It
fails, too, if a run is not at its end after LIMIT_S seconds, or ends with an error; the other cases are measured all the same.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import astra_sim
from astra_sim.graph import Communicate, ExecutionGraph, NpuProgram, Pass
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective

from devtools.figures import FigureTable, Row, main

ROOT = Path(__file__).resolve().parents[1]
LIMIT, LIMIT_S = 1.15, 300.0
ROUNDS = 1
LINKS = "link_bandwidth_gib_per_s=50&link_latency_ns=500"
RING = f"plugin:ring?size={{}}&links=2&{LINKS}"
SWITCH = f"plugin:switch?size={{}}&{LINKS}"
TORUS = f"plugin:torus?sizes={{}}&{LINKS}"

MEASURE = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
import astra_sim
from benchmarks.exponents import RUNS, RING
case = next(each for each in RUNS if each.name == sys.argv[2])
given = case.arguments(int(sys.argv[3]))
astra_sim.simulate(workload="plugin:collective?bytes=64", platform=RING.format(4))
before = resource.getrusage(resource.RUSAGE_SELF)
astra_sim.simulate(**given)
after = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss - before.ru_maxrss]))
"""
"""CPU seconds and kilobytes of a run, beyond those of one of next to nothing."""


class Case(NamedTuple):
    """A run at some sizes; `work` is what its cost may grow with, for a size (itself, unless it is something else)."""

    name: str
    arguments: Callable[[int], dict[str, Any]]
    sizes: Sequence[int]
    work: Callable[[int], float] = float


def collective(kind: str, algorithm: str, platform: str, size: int = 1 << 26, **further: Any) -> dict[str, Any]:
    """Arguments of `simulate` for one collective, in one chunk."""
    workload = f"plugin:collective?collective={kind}&bytes={size}"
    return {"workload": workload, "platform": platform, "set": ["system.splits=1", f"system.{kind}={algorithm}"], **further}


def chunks(splits: int) -> dict[str, Any]:
    """VGG-16 on TPUs, each collective in a number of chunks."""
    return {"experiment": str(ROOT / "examples" / "vgg16_tpu_v2.toml"), "set": [f"system.splits={splits}"]}


def layers(count: int) -> dict[str, Any]:
    """Data-parallel training of a number of layers."""
    computing = {"compute_ns": 1000}
    passes = {"forward": computing, "input_gradient": computing}
    gradient = {**computing, "collective": "all_reduce", "collective_bytes": 65536}
    return {
        "workload": {"loop": "data", "layers": [{"name": f"layer{each}", **passes, "weight_gradient": gradient} for each in range(count)]},
        "platform": RING.format(16),
    }


def sizes(count: int) -> dict[str, Any]:
    """Collectives one after another, each of its own size, so that each is planned by itself."""
    operations = [
        Communicate((number - 1,) if number else (), Collective.ALL_REDUCE, 4096 + 16 * number, (0,), 0, Pass.FORWARD, blocking=True)
        for number in range(count)
    ]
    return {"workload": ExecutionGraph(operations, (LogicalDimension(16, 1, 0),), ("layer",)), "platform": RING.format(16)}


def groups(count: int) -> dict[str, Any]:
    """An all-reduce in each of a number of groups of four NPUs, of which each runs a program of its own."""
    members = [tuple(range(number, 4 * count, count)) for number in range(count)]
    programs = [NpuProgram([Communicate((), Collective.ALL_REDUCE, 65536, (), 0, Pass.FORWARD, group=group)], group) for group in members]
    graph = ExecutionGraph(programs[0].operations, (LogicalDimension(4 * count, 1, 0),), ("layer",), others=tuple(programs[1:]))
    return {"workload": graph, "platform": RING.format(4 * count)}


def passes(count: int) -> dict[str, Any]:
    """A number of iterations of 32 layers."""
    return {**layers(32), "passes": count}


def every(npus: int) -> dict[str, Any]:
    """A ring all-reduce of which every message is simulated."""
    return collective("all_reduce", "ring", RING.format(npus), symmetry=False)


def all_at_once(npus: int) -> dict[str, Any]:
    """All messages of an all-to-all at once, on links that carry one after another."""
    return collective("all_to_all", "direct", SWITCH.format(npus), symmetry=False, network="plugin:analytical?congestion=aware")


def packets(size: int) -> dict[str, Any]:
    """An all-to-all of a number of bytes through the packet network, whose messages wait for each other."""
    return collective("all_to_all", "direct", TORUS.format("4,4"), size, network="plugin:packet", symmetry=False)


def routers(side: int) -> dict[str, Any]:
    """A small all-reduce on a torus of packet routers: mostly their tables."""
    return collective("all_reduce", "ring", TORUS.format(f"{side},{side}"), 64 * side, network="plugin:packet", symmetry=False)


def links_of_their_own(npus: int) -> dict[str, Any]:
    """The same between NPUs that are fully connected: each message has a link of its own."""
    platform = f"plugin:fully_connected?size={npus}&links={npus - 1}&{LINKS}"
    return collective("all_to_all", "direct", platform, symmetry=False, network="plugin:analytical?congestion=aware")


PAIRS: Callable[[int], float] = lambda npus: npus * (npus - 1.0)  # noqa: E731
RUNS = (
    Case("chunks of VGG-16 on TPUs", chunks, (200, 600, 2000)),
    Case("direct all-to-all, symmetry: NPUs", lambda n: collective("all_to_all", "direct", SWITCH.format(n)), (65536, 262144, 1048576)),
    Case(
        "direct all-to-all on a ring, symmetry: NPUs",
        lambda n: collective("all_to_all", "direct", RING.format(n)),
        (65536, 262144, 1048576),
    ),
    Case("direct all-reduce, symmetry: NPUs", lambda n: collective("all_reduce", "direct", SWITCH.format(n)), (65536, 262144, 1048576)),
    Case(
        "direct reduce-scatter, one message at a time, symmetry: NPUs",
        lambda n: collective("reduce_scatter", "direct?window=1", SWITCH.format(n)),
        (16384, 65536, 163840),
    ),
    Case(
        "double binary tree, symmetry: NPUs",
        lambda n: collective("all_reduce", "double_binary_tree", RING.format(n)),
        (16384, 65536, 262144),
    ),
    Case("layers", layers, (300, 1000, 3000)),
    Case("collectives, each of its own size", sizes, (1000, 3000, 10000)),
    Case("groups of four NPUs, each with its own program", groups, (400, 1200, 4000)),
    Case("passes", passes, (10, 30, 100)),
    Case("NPUs, ring without symmetry: messages", every, (512, 1024, 1728), lambda n: 2 * PAIRS(n)),
    Case("NPUs, direct on links with congestion: messages", all_at_once, (256, 512, 1024), PAIRS),
    Case("NPUs, direct, fully connected, congestion: messages", links_of_their_own, (256, 512, 1024), PAIRS),
    Case("bytes of an all-to-all on the packet network", packets, (1 << 20, 1 << 22, 10 << 20)),
    Case("routers of the packet network: messages", routers, (16, 32, 64), lambda side: side**3.0),
)


def measured(case: Case, size: int) -> tuple[float, float]:
    """CPU seconds and megabytes of a run: medians of some processes. Raises SubprocessError if one does not end as it should."""
    command = [sys.executable, "-c", MEASURE, str(ROOT), case.name, str(size)]
    figures = [
        json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S).stdout) for _ in range(ROUNDS)
    ]
    seconds, kilobytes = (statistics.median(each) for each in zip(*figures, strict=True))
    return seconds, kilobytes / 1024


def exponent(work: Sequence[float], cost: Sequence[float]) -> float:
    """The slope of the straight line through the logarithms, by least squares."""
    across, up = ([math.log(max(value, 1e-9)) for value in values] for values in (work, cost))
    return statistics.linear_regression(across, up).slope


def smallest(case: Case) -> object:
    """The result of the smallest run of a case."""
    return astra_sim.simulate(**case.arguments(case.sizes[0]))


CASES: dict[str, Callable[[], object]] = {case.name: partial(smallest, case) for case in RUNS}
"""What `dev.py bench exponents --against REVISION` compares: the smallest size of each."""


failed: list[str] = []
"""Why the benchmark fails."""


def _row(case: Case) -> list[str]:
    try:
        figures = [measured(case, size) for size in case.sizes]
    except subprocess.SubprocessError as error:
        reason = f"no end in {LIMIT_S:g} s" if isinstance(error, subprocess.TimeoutExpired) else "ended with an error"
        failed.append(f"{case.name}: {reason}")
        return [reason, "", ""]
    seconds = [each for each, _ in figures]
    result = exponent([case.work(size) for size in case.sizes], seconds)
    if result > LIMIT:
        failed.append(f"{case.name}: an exponent of {result:.2f}, above {LIMIT}")
    return [f"{seconds[0]:.3f} to {seconds[-1]:.3f}", f"{figures[-1][1]:.0f}", f"{result:.2f}"]


GROWTH = FigureTable(
    "growth",
    ("what grows", "sizes", "CPU s", "MB at the largest", "exponent"),
    [Row([case.name, f"{case.sizes[0]:,} to {case.sizes[-1]:,}"], partial(_row, case)) for case in RUNS],
)
TABLES = (GROWTH,)

if __name__ == "__main__":
    status = main(TABLES)
    for reason in failed:
        print(reason, file=sys.stderr)
    sys.exit(status or int(bool(failed)))
