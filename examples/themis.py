"""Wafer-scale against conventional platforms, and Themis: a 1 GB all-reduce among 512 NPUs.

    python examples/themis.py

Each conventional or two-dimensional platform stands against a wafer-scale one of a single dimension (W-1D) that has the same bandwidth
in all for an NPU. The claims of the study, which this prints and checks (exit status 1 where one does not hold):

1. With dimensions in ascending order, W-1D is faster: on several dimensions some links are idle while others work.
2. Themis makes every platform of several dimensions faster, and changes nothing on one.
3. With Themis, the platforms of several dimensions come closer to W-1D, and none is faster (by more than 1 part in 1000).

The settings: the platforms of Rashidi et al., "Themis" (ISCA 2022); the number behind a name is the bandwidth of an NPU in each dimension,
in GB/s (2^30 bytes/s). Links have a latency of 500 ns, endpoints need 10 ns for a message, every dimension has the algorithm of its
topology (ring, direct, halving-doubling), and runs one of 16 chunks at a time. The last table shows what the number of chunks does: W-1D
pays 18 us of latency for every chunk, so with 64 of them Conv-4D overtakes it, and claims 1 and 3 do not hold.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import astra_sim

BYTES = 10**9
LATENCY_NS = 500
CHUNKS = 16
ORDERS = {"ascending": "ascending", "round robin": "round_robin", "Themis": "offline_greedy", "Themis, flexible": "offline_greedy_flex"}


def dimension(topology: str, size: int, bandwidth: float) -> dict[str, Any]:
    """A dimension whose NPUs have so much bandwidth in all. On a ring a message has all of it, as in ASTRA-sim 1.0."""
    links = {"ring": 2, "fully_connected": size - 1, "switch": 1}[topology]
    return {
        **({"both_ways": True} if topology == "ring" else {}),
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


RIVALS = {"W-1D 350": "Conv-3D 200_100_50", "W-1D 500": "W-2D 250_250", "W-1D 600": "Conv-4D 250_200_100_50"}
"""Platforms whose NPUs have the same bandwidth in all: of one dimension, and of several."""

AS_FAST = 0.999
"""Two times are the same where their ratio is not less than this."""


def finish_us(platform: str, order: str, chunks: int = CHUNKS) -> float:
    """How long the all-reduce takes, in microseconds."""
    result = astra_sim.simulate(
        workload={"plugin": "collective", "bytes": BYTES},
        platform={"dimensions": PLATFORMS[platform]},
        set=[f"system.splits={chunks}", "system.active_chunks_per_dimension=1", f"system.inter_dimension_scheduling={ORDERS[order]}"],
    )
    return result.finish_ns / 1000


def with_themis(times: dict[str, float]) -> float:
    """The time of the faster of the two variants."""
    return min(times["Themis"], times["Themis, flexible"])


def broken_claims(times: dict[str, dict[str, float]]) -> Iterator[str]:
    """The claims that do not hold, in words."""
    for wafer, rival in RIVALS.items():
        if times[wafer]["ascending"] >= times[rival]["ascending"]:
            yield f"1: {wafer} is not faster than {rival} in ascending order"
        if with_themis(times[rival]) >= times[rival]["ascending"]:
            yield f"2: Themis does not make {rival} faster"
        if not AS_FAST <= with_themis(times[wafer]) / times[wafer]["ascending"] <= 1 / AS_FAST:
            yield f"2: Themis changes {wafer}"
        if with_themis(times[rival]) < AS_FAST * with_themis(times[wafer]):
            yield f"3: {rival} is faster than {wafer} with Themis"


def print_times(times: dict[str, dict[str, float]]) -> None:
    """Times and speed-ups over the ascending order."""
    print("| platform | " + " | ".join(f"{name} (us)" for name in ORDERS) + " | speed-up of Themis |")
    print("|---|" + "---:|" * (len(ORDERS) + 1))
    for name, found in times.items():
        cells = " | ".join(f"{time:.1f}" for time in found.values())
        print(f"| {name} | {cells} | {found['ascending'] / with_themis(found):.2f} |")


def print_rivals(times: dict[str, dict[str, float]]) -> None:
    """How much longer platforms of several dimensions take than those of one."""
    print("\n| time of several dimensions over that of one | ascending | Themis |")
    print("|---|---:|---:|")
    for wafer, rival in RIVALS.items():
        ascending = times[rival]["ascending"] / times[wafer]["ascending"]
        print(f"| {rival} over {wafer} | {ascending:.2f} | {with_themis(times[rival]) / with_themis(times[wafer]):.2f} |")


def print_chunks() -> None:
    """The widest platforms with other numbers of chunks."""
    wafer, rival = "W-1D 600", RIVALS["W-1D 600"]
    print(f"\n| chunks | {wafer}, ascending (us) | {rival}, ascending (us) | {rival}, Themis (us) |")
    print("|---:|---:|---:|---:|")
    for chunks in (8, 16, 32, 64):
        themis = with_themis({order: finish_us(rival, order, chunks) for order in ORDERS})
        ascending = (finish_us(name, "ascending", chunks) for name in (wafer, rival))
        print(f"| {chunks} | " + " | ".join(f"{time:.1f}" for time in (*ascending, themis)) + " |")


def main() -> None:
    """Print the tables in Markdown; exits with status 1 where a claim does not hold."""
    times = {platform: {order: finish_us(platform, order) for order in ORDERS} for platform in PLATFORMS}
    print_times(times)
    print_rivals(times)
    print_chunks()
    broken = list(broken_claims(times))
    if broken:
        sys.exit("\n".join(f"Claim {claim}" for claim in broken))
    print("\nAll three claims hold.")


if __name__ == "__main__":
    main()
