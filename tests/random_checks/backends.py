"""What must hold for experiments holds on every network, with every collective algorithm, however it is run.

The properties are those of `support.experiment_checks`: engines, symmetry, threads, the same once more, bytes, bounds of links, numbers of
NPUs. There are more networks, platforms and algorithms than in `support.random_experiments`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support import experiment_checks
from support.random_experiments import Experiment

IN_TESTS = 24
IN_NIGHTLY = 1500


class OnAnyNetwork(Experiment):
    """An experiment on any network, on more platforms, and with more algorithms."""

    networks = ("unaware", "aware", "packet", "flow", "roce", "roce")

    def _platform(self) -> tuple[list[int], Any]:
        kind = self._random.choice([*["others"] * 6, "clos", "hyperx", "dragonfly_plus", "rail_optimized"])
        links = {"plugin": kind, **self._links()}
        if kind == "clos":
            return [16], {**links, "npus": 16, "ports": 8, "oversubscription": self._random.choice([1, 3])}
        if kind == "hyperx":
            return [12], {**links, "sizes": [2, 3], "npus": 2}
        if kind == "dragonfly_plus":
            return [8], {**links, "leaves": 2, "spines": 2, "npus": 2, "groups": 2}
        if kind == "rail_optimized":
            table = {"servers": 2, "npus_per_server": 4, "nvlink_latency_ns": 500, "nic_latency_ns": self._random.choice([500, 2000])}
            return [4, 2], {"plugin": kind, **table}
        return super()._platform()

    def _network(self) -> dict[str, Any]:
        if self.network != "roce":
            return super()._network()
        control = self._random.choice(["none", "dcqcn", "hpcc", "timely", "swift"])
        return {"plugin": "roce", "congestion_control": control}

    def _algorithms(self, collective: str) -> Any:
        chosen = super()._algorithms(collective)
        if isinstance(chosen, list):
            return [self._random.choice(["ring?directions=2", name]) if name == "ring" else name for name in chosen]
        return chosen


def check(seed: int, folder: Path) -> list[str]:
    """What does not hold for the experiment of a seed."""
    return experiment_checks.check(seed, folder, OnAnyNetwork).violations
