"""Themis against fixed orders of dimensions: a 1 GB all-reduce on four platforms.

    python examples/themis.py

The platforms are those of Rashidi et al., "Themis" (ISCA 2022): the number behind a name is the bandwidth of an NPU in each dimension,
in GB/s (2^30 bytes/s). Every dimension has 500 ns links, the algorithm of its topology (ring, direct, halving-doubling), and 64 chunks.
"""

from __future__ import annotations

from typing import Any

import astra_sim

BYTES = 10**9
LATENCY_NS = 500
ORDERS = {"ascending": "ascending", "round robin": "round_robin", "Themis": "offline_greedy", "Themis, flexible": "offline_greedy_flex"}


def dimension(topology: str, size: int, bandwidth: float) -> dict[str, Any]:
    """A dimension whose NPUs have so much bandwidth in all."""
    links = {"ring": 2, "fully_connected": size - 1, "switch": 1}[topology]
    return {
        "topology": topology,
        "size": size,
        "links": links,
        "link_bandwidth_gib_per_s": bandwidth / links,
        "link_latency_ns": LATENCY_NS,
    }


PLATFORMS = {
    "W-1D 350": [dimension("switch", 512, 350)],
    "W-1D 500": [dimension("switch", 512, 500)],
    "W-1D 600": [dimension("switch", 512, 600)],
    "W-2D 250_250": [dimension("switch", 32, 250), dimension("switch", 16, 250)],
    "Conv-3D 200_100_50": [dimension("ring", 16, 200), dimension("fully_connected", 8, 100), dimension("switch", 4, 50)],
    "Conv-4D 250_200_100_50": [
        dimension("ring", 2, 250),
        dimension("fully_connected", 8, 200),
        dimension("ring", 8, 100),
        dimension("switch", 4, 50),
    ],
}


def finish_us(platform: list[dict[str, Any]], order: str) -> float:
    """How long the all-reduce takes, in microseconds."""
    result = astra_sim.simulate(
        workload={"plugin": "collective", "bytes": BYTES},
        platform={"dimensions": platform},
        set=["system.splits=64", "system.active_chunks_per_dimension=1", f"system.inter_dimension_scheduling={order}"],
    )
    return result.finish_ns / 1000


def main() -> None:
    """Print times and speed-ups over the ascending order, as a table in Markdown."""
    print("| platform | " + " | ".join(f"{name} (us)" for name in ORDERS) + " | speed-up of Themis |")
    print("|---|" + "---:|" * (len(ORDERS) + 1))
    for name, platform in PLATFORMS.items():
        times = {title: finish_us(platform, order) for title, order in ORDERS.items()}
        best = min(times["Themis"], times["Themis, flexible"])
        cells = " | ".join(f"{time:.1f}" for time in times.values())
        print(f"| {name} | {cells} | {times['ascending'] / best:.2f} |")


if __name__ == "__main__":
    main()
