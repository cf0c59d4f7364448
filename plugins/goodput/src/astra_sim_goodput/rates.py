"""Rates at which components interrupt a job, of published fleets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from astra_sim.errors import InputError, suggestion

_LLAMA3_GPU_HOURS = 16384 * 54 * 24
_LLAMA3 = {
    "faulty GPU": 148,
    "GPU HBM3 memory": 72,
    "software bug": 54,
    "network switch or cable": 35,
    "host maintenance": 32,
    "GPU SRAM memory": 19,
    "GPU system processor": 17,
    "NIC": 7,
    "NCCL watchdog timeouts": 7,
    "silent data corruption": 6,
    "GPU thermal interface and sensor": 6,
    "SSD": 3,
    "power supply": 3,
    "server chassis": 2,
    "IO expansion board": 2,
    "dependency": 2,
    "CPU": 2,
    "system memory": 2,
}
_REVISITED = "Revisiting Reliability, arXiv 2410.21680, failures in 1000 node-days of 8 A100"


@attrs.frozen
class PublishedFleet:
    """A published fleet: its source, and interruptions in a GPU-hour by component."""

    source: str
    rates: dict[str, float]


FLEETS = {
    "llama3": PublishedFleet(
        "Llama 3 herd, arXiv 2407.21783, table 5: 419 unexpected interruptions of 16 384 H100 in 54 days",
        {name: count / _LLAMA3_GPU_HOURS for name, count in _LLAMA3.items()},
    ),
    "rsc1": PublishedFleet(f"{_REVISITED}: 6.5", {"node": 6.5 / 1000 / 24 / 8}),
    "rsc2": PublishedFleet(f"{_REVISITED}: 2.34", {"node": 2.34 / 1000 / 24 / 8}),
}
"""By name. Jobs of 1024 GPUs on RSC-1 are interrupted 3.7 times as often as its rate predicts."""


def rates_of(rates: str | Mapping[str, Any], where: str) -> dict[str, float]:
    """Interruptions in a GPU-hour by component: of a fleet by name, or from a table. Raises InputError, naming `where`."""
    if isinstance(rates, str):
        if rates not in FLEETS:
            raise InputError(f"{where}: rates is {rates!r}; {suggestion(rates, list(FLEETS))}")
        return dict(FLEETS[rates].rates)
    result: dict[str, float] = {}
    for name, rate in rates.items():
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < 1e3:
            raise InputError(f"{where}: rates: {name} is {rate!r:.80}; expected interruptions in a GPU-hour, from 0 to below 1000")
        result[str(name)] = float(rate)
    if not result:
        raise InputError(f"{where}: rates is empty; expected interruptions in a GPU-hour by component")
    return result
