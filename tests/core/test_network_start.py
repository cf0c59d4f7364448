"""A network that says when its workload starts: that counts in all times of the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim.network import EventNetwork
from astra_sim_reports_astra1.utilisation import dimension_utilization
from support import figures
from support.components import RING, components_of
from support.networks import OneWire

START_PS = 13_000
START_NS = 13

LAYERS = """DATA
2
first -1 100 NONE 0 50 NONE 0 70 ALLREDUCE 40000 10
second -1 200 NONE 0 60 NONE 0 80 ALLREDUCE 80000 10
"""


class Late(OneWire):
    """A wire on which the workload starts later than at zero."""

    def begin(self) -> int:
        return START_PS


class Early(OneWire):
    """The same wire, on which it starts at zero."""


def run(kind: type[OneWire], workload: str, engine: str) -> astra_sim.Result:
    platform = components_of(workload="plugin:collective?bytes=1", platform=RING).platform
    return astra_sim.simulate(workload=workload, network=kind(platform), set=["system.splits=2"], passes=2, engine=engine)


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("layers", [True, False])
def test_every_moment_has_the_start_and_no_duration_has_it(tmp_path: Path, engine: str, layers: bool) -> None:
    workload = "plugin:collective?bytes=40000"  # it is waited for from the start on
    if layers:
        workload = str(tmp_path / "layers.txt")
        Path(workload).write_text(LAYERS)
    early, late = (run(kind, workload, engine) for kind in (Early, Late))
    assert late.finish_ns == early.finish_ns + START_NS
    assert late.earliest_finish_ns == early.earliest_finish_ns + START_NS
    assert [moved(interval, START_NS) for interval in early.timeline()] == list(late.timeline())
    assert late.busy_ns == [[(begin + START_NS, end + START_NS) for begin, end in busy] for busy in early.busy_ns]
    assert late.npu_finish_ns == [time + START_NS for time in early.npu_finish_ns]
    # Times of layers and chunks are durations; the time before the start is exposed, as ASTRA-sim 1.0 has it.
    assert figures(late)["layers"] == figures(early)["layers"]
    assert late.exposed_comm_ns == early.exposed_comm_ns + START_NS


def moved(interval: Any, by_ns: float) -> Any:
    """An interval that begins and ends later by a time."""
    return attrs.evolve(interval, begin_ns=interval.begin_ns + by_ns, end_ns=interval.end_ns + by_ns)


def test_the_first_window_of_the_utilisation_begins_before_the_start() -> None:
    result = run(Late, "plugin:collective?bytes=40000000", "auto")
    first = "".join(dimension_utilization(result)).splitlines()[1].split(",")
    assert float(first[1]) == pytest.approx(100 * (1 - START_NS / 10_000))


def test_an_error_says_when_on_the_same_clock() -> None:
    class Silent(EventNetwork):
        """Delivers nothing."""

        def begin(self) -> int:
            return START_PS

        def inject(self, time: int, messages: Any) -> None:
            pass

        def advance(self, until: int | None) -> None:
            return None

    platform = components_of(workload="plugin:collective?bytes=1", platform=RING).platform
    # The endpoint delay, 10 ns, after the start.
    with pytest.raises(astra_sim.DeadlockError, match="at 23 ns nothing is left"):
        astra_sim.simulate(workload="plugin:collective?bytes=4000", network=Silent(platform))
