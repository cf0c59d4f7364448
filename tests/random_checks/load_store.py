"""Exchanges of all pairs as loads and stores, on random GPUs: both engines agree, requests are counted, and no link is too fast.

A case is a GPU of random size, a collective, a way to transfer, and sizes. The run takes no less than the bytes that cross a GPU's ports
take at their bandwidth, or a round trip; a run of half of the bytes is no slower.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from random import Random
from typing import Any

import astra_sim

IN_TESTS = 6
IN_NIGHTLY = 150

_SLOWER = 1.02
"""A run of fewer bytes may be slower by this factor: arbiters serve the messages in another order."""


def check(seed: int, folder: Path) -> list[str]:
    """Run the case of a seed."""
    random = Random(seed)
    gpus, workgroups = random.randint(2, 4), random.randint(1, 3)
    columns, rows = random.randint(1, 3), random.randint(1, 3)
    ports, port_gib_per_s, latency = random.randint(1, 6), random.choice((8, 32)), random.choice((100, 1000))
    units = -(-workgroups // (columns * rows))
    platform = (
        f"plugin:gpu_mesh?gpus={gpus}&columns={columns}&rows={rows}&router_compute_units={units}&channels={random.randint(1, 8)}"
        f"&ports={ports}&port_gib_per_s={port_gib_per_s}&port_latency_ns={latency}"
    )
    network = random.choice(("plugin:packet", "plugin:packet", "plugin:analytical?congestion=aware", "plugin:flow"))
    line, per_block = random.choice((64, 128, 256)), random.randint(1, 12)
    options = {
        "collective": random.choice(("all_gather", "reduce_scatter")),
        "transfer": random.choice(("put", "get")),
        "workgroups": workgroups,
        "line_bytes": line,
        "unroll": random.choice((1, 4, 16)),
        "outstanding": random.choice((8, 64)),
    }
    chunk = per_block * line * 2
    size = gpus * workgroups * chunk
    result = _run(platform, network, "compiled", bytes=size, **options)
    other = _run(platform, network, "python", bytes=size, **options)
    half = _run(platform, network, "compiled", bytes=size // 2, **options)
    wrong = []
    if result.finish_ns != other.finish_ns or result.messages != other.messages:
        wrong.append(f"engines differ: {result.finish_ns} and {other.finish_ns} ns, {result.messages} and {other.messages} messages")
    crossing = (gpus - 1) * size / gpus  # into each GPU
    bound = crossing / (ports * port_gib_per_s * 2**30 / 1e9) + latency
    if result.finish_ns < bound * (1 - 1e-9):
        wrong.append(f"{result.finish_ns} ns; the bytes that cross the ports of a GPU take {bound}")
    if half.finish_ns > _SLOWER * result.finish_ns:
        wrong.append(f"{half.finish_ns} ns of half of the bytes, {result.finish_ns} of all")
    lines = result.to_dict()["loads_and_stores"]
    if lines != _lines(options, gpus) * workgroups * 2 * per_block * gpus:
        wrong.append(f"{lines} loads and stores")
    return [f"{options}, {size} bytes on {platform}, {network}: {each}" for each in wrong]


def _lines(options: dict[str, Any], gpus: int) -> int:
    """Loads and stores of a GPU for each line of its chunk."""
    if options["transfer"] == "get":
        return 2 * (gpus - 1) if options["collective"] == "all_gather" else gpus + 1
    return gpus if options["collective"] == "all_gather" else 2 * (gpus - 1) + gpus + 1


def _run(platform: str, network: str, engine: str, **options: Any) -> Any:
    text = "&".join(f"{name}={value}" for name, value in options.items())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return astra_sim.simulate(workload=f"plugin:load_store?{text}", platform=platform, network=network, engine=engine)
