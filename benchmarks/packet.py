"""Measures the packet network on this machine: python3 dev.py bench packet.

Flit hops count routers passed, as the figures of BookSim do, in CPU seconds of one core. `dev.py bench peers` runs other programs.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import astra_sim
import attrs
from astra_sim.network import Message
from astra_sim.platform import Platform
from astra_sim_network_packet.load import LoadMeasurement
from astra_sim_network_packet.network import PacketNetwork
from astra_sim_network_packet.options import PacketOptions
from astra_sim_network_packet.traffic import read_platform, sweep
from astra_sim_platforms.garnet import Torus3dOptions, torus3d

from devtools.figures import FigureTable, Row, main

WIRES = "link_bandwidth_gb_per_s=32"
TRAFFIC = {
    **{f"mesh 8x8, uniform {rate}": (f"plugin:mesh?sizes=8,8&{WIRES}&link_latency_ns=1", rate) for rate in (0.1, 0.2, 0.3, 0.4)},
    "mesh 16x16, uniform 0.1": (f"plugin:mesh?sizes=16,16&{WIRES}&link_latency_ns=1", 0.1),
    "mesh 32x32, uniform 0.05": (f"plugin:mesh?sizes=32,32&{WIRES}&link_latency_ns=1", 0.05),
    "torus 8x8, uniform 0.3": (f"plugin:torus?sizes=8,8&links=2&{WIRES}&link_latency_ns=2", 0.3),
    "torus 4x4x4, uniform 0.3": (f"plugin:torus?sizes=4,4,4&links=2&{WIRES}&link_latency_ns=2", 0.3),
}
"""Uniform traffic: a platform, and flits of each NPU in a cycle."""
RING_BYTES = (1 << 15, 1 << 18, 1 << 24)
"""Messages of a ring all-reduce on Garnet's torus."""
TORI = {"4x4x4": (4, 4, 4), "8x8": (8, 8), "8x8x8": (8, 8, 8)}
"""Tori on which messages go round all rings with the default preset, and every NPU is simulated."""
TORUS_BYTES = 1 << 16
COLLAPSED_TORI = ((2, 2, 2), (4, 4, 4), (8, 8, 8), (16, 16, 16), (32, 32, 32))
WHOLE_TORI = ((2, 2, 2), (4, 4, 4))
"""Tori of an all-reduce in which one NPU represents all, and of the same with every NPU simulated."""


def cpu(action: Callable[[], float]) -> tuple[float, float]:
    """What an action counted, and the fewest CPU seconds of three runs."""
    best, count = float("inf"), 0.0
    for _ in range(3):
        begin = time.process_time()
        count = action()
        best = min(best, time.process_time() - begin)
    return count, best


def in_threads(threads: int) -> dict[str, Any]:
    """The option of a network with a number of threads; none if the measured revision has no threads."""
    return {"threads": threads} if "threads" in {field.name for field in attrs.fields(PacketOptions)} else {}


def random_traffic(platform: str, rate: float, threads: int = 1) -> float:
    """Flit hops of uniform traffic."""
    result = read_platform(platform)
    load = sweep(result, PacketOptions(preset="booksim", **in_threads(threads)), "uniform", [rate], LoadMeasurement(periods=6))[0]
    return load.flit_hops + load.accepted_rate * result.npus * load.cycles


def rings(size: int) -> float:
    """Flits of a ring all-reduce's messages, one after another on all rings of Garnet's torus of 2 x 2 x 2."""
    dimensions = torus3d(
        Torus3dOptions(
            npus=8, packages=4, package_rows=2, local_rings=2, horizontal_rings=2, vertical_rings=2,
            local_link_latency_ns=90, package_link_latency_ns=200,
        )
    )  # fmt: skip
    options = PacketOptions(preset="garnet", flit_bytes=256, packet_bytes=4096, vcs=50, buffers=5000)
    network = PacketNetwork(options, Platform(tuple(dimensions)))
    network.begin()
    partners = {0: 1, 2: 2, 4: 2, 6: 4, 8: 4}
    number, now = 0, 0
    for queue, stride in partners.items():
        messages = [Message(number + npu, npu, npu ^ stride, size, queue) for npu in range(8)]
        network.inject(now, messages)
        number += 8
        while (delivery := network.advance(None)) is not None:
            now = delivery[0]
    flits: float = network.core.statistics()["flits"]
    return flits


def torus_rings(sizes: tuple[int, ...], threads: int = 1) -> float:
    """Flits of messages that go round every ring of a torus as a ring all-reduce's do: each NPU passes on what has come.

    Every dimension is at work at the same time, with the default preset, and every NPU is simulated.
    """
    text = ",".join(map(str, sizes))
    network = PacketNetwork(
        PacketOptions(exact="every-npu", **in_threads(threads)),
        read_platform(f"plugin:torus?sizes={text}&links=2&{WIRES}&link_latency_ns=50"),
    )
    network.begin()
    strides = [math.prod(sizes[:d]) for d in range(len(sizes))]
    number, now = 0, 0
    under_way: dict[int, tuple[int, int, int]] = {}  # message: where it goes, dimension, steps behind it
    begun = [(npu, d, 2 * (sizes[d] - 1)) for npu in range(math.prod(sizes)) for d in range(len(sizes))]
    while begun:
        messages = []
        for npu, d, steps in begun:
            place = npu // strides[d] % sizes[d]
            following = npu + ((place + 1) % sizes[d] - place) * strides[d]
            under_way[number] = (following, d, steps - 1)
            messages.append(Message(number, npu, following, TORUS_BYTES, d))
            number += 1
        network.inject(now, messages)
        begun = []
        while not begun and (delivery := network.advance(None)) is not None:
            now, arrived = delivery
            begun = [step for step in (under_way.pop(message) for message in arrived) if step[2] > 0]
    flits: float = network.core.statistics()["flits"]
    return flits


def all_reduce(sizes: tuple[int, ...], collapsed: bool) -> float:
    """Flit hops of an all-reduce of 64 MiB in four chunks on a torus; `collapsed`: one NPU represents all."""
    result = astra_sim.simulate(
        workload=f"plugin:collective?bytes={64 << 20}",
        platform=f"plugin:torus?sizes={','.join(map(str, sizes))}&link_bandwidth_gb_per_s=16&link_latency_ns=100",
        network="plugin:packet",
        set=[
            "system.splits=4",
            *(f"network.{key}={value}" for key, value in in_threads(1).items()),
            *([] if collapsed else ["network.exact=every-npu"]),
        ],
    )
    hops: float = result.network["flit_hops"]
    return hops


CASES: dict[str, Callable[[], object]] = {
    **{name: partial(random_traffic, *case) for name, case in TRAFFIC.items()},
    **{f"Garnet torus 2x2x2, messages of {size >> 10} KiB": partial(rings, size) for size in RING_BYTES},
    **{f"torus {name}, rings with the default preset": partial(torus_rings, sizes) for name, sizes in TORI.items()},
    "all-reduce, torus of 16 x 16 x 16, one NPU for all": partial(all_reduce, (16, 16, 16), True),
}
"""What `dev.py bench packet --against REVISION` compares."""


def _rate(action: Callable[[], float]) -> list[str]:
    count, seconds = cpu(action)
    return [f"{count / seconds / 1e6:.1f}"]


FLITS = FigureTable(
    "flits",
    ("case", "million a CPU second"),
    [
        *(Row([f"{name}: flit hops"], partial(_rate, partial(random_traffic, *case))) for name, case in TRAFFIC.items()),
        *(Row([f"Garnet's torus 2x2x2, messages of {size >> 10} KiB: flits"], partial(_rate, partial(rings, size))) for size in RING_BYTES),
        *(
            Row([f"torus {name}, rings with the default preset: flits"], partial(_rate, partial(torus_rings, sizes)))
            for name, sizes in TORI.items()
        ),
    ],
)


def _collapsed_row(sizes: tuple[int, ...]) -> list[str]:
    count, seconds = cpu(partial(all_reduce, sizes, True))
    every = f"{cpu(partial(all_reduce, sizes, False))[1]:.2f} s" if sizes in WHOLE_TORI else ""
    return [f"{count / 1e6:,.0f} million", f"{seconds:.2f} s", every]


ONE_NPU = FigureTable(
    "one-npu",
    ("all-reduce of 64 MiB on a torus, 4 chunks", "flit hops", "one NPU for all", "every NPU"),
    [Row([" x ".join(map(str, sizes))], partial(_collapsed_row, sizes)) for sizes in COLLAPSED_TORI],
)
THREADED = {
    "mesh 32x32, uniform 0.05": partial(random_traffic, *TRAFFIC["mesh 32x32, uniform 0.05"]),
    "torus 8x8x8, rings with the default preset": partial(torus_rings, TORI["8x8x8"]),
}


def _thread_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_utime + usage.ru_stime


def _thread_row(name: str) -> list[str]:
    cells = []
    for threads in (1, 2):
        runs = []
        for _ in range(3):
            begun, wall, process = _thread_seconds(), time.perf_counter(), time.process_time()
            THREADED[name](threads=threads)
            runs.append((time.perf_counter() - wall, _thread_seconds() - begun, time.process_time() - process))
        wall_s, first, both = min(runs)
        cells += [f"{seconds:.2f}" for seconds in ((wall_s, both) if threads == 1 else (wall_s, first, both))]
    return cells


THREADS = FigureTable(
    "threads",
    ("case", "one thread: wall s", "CPU s", "two threads: wall s", "CPU s of the first", "CPU s of both"),
    [Row([name], partial(_thread_row, name)) for name in THREADED],
)
TABLES = (FLITS, ONE_NPU, THREADS)

if __name__ == "__main__":
    sys.exit(main(TABLES))
