"""What must hold for every system."""

from __future__ import annotations

import copy
import math
from typing import Any

import astra_sim
from astra_sim.network import RouteDelayNetwork
from astra_sim.setup.components import build
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.layered_experiments import COLLECTIVES, algorithms, dimensions, experiments
from support.networks import Replayed

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]


class Counting(Replayed):
    """Counts what is sent and what arrives."""

    def __init__(self, inner: RouteDelayNetwork) -> None:
        super().__init__(inner)
        self.sent: dict[int, tuple[int, int, int]] = {}
        self.arrived: list[int] = []

    def inject(self, time: int, messages: Any) -> None:
        self.sent.update({message.number: (message.source, message.destination, message.bytes) for message in messages})
        super().inject(time, messages)

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        delivery = super().advance(until)
        if delivery is not None:
            self.arrived += delivery[1]
        return delivery


def _run_counting(experiment: dict[str, Any]) -> tuple[astra_sim.Result, Counting]:
    result = Experiment(sections={k: v for k, v in experiment.items() if isinstance(v, dict)})
    inner = build(result, shared_plugins()).network
    assert isinstance(inner, RouteDelayNetwork)
    network = Counting(inner)
    arguments = {key: value for key, value in experiment.items() if key not in ("platform", "network")}
    return astra_sim.simulate(**arguments, network=network), network


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(experiment=experiments())
def test_every_byte_that_is_sent_arrives_once(experiment: dict[str, Any]) -> None:
    result, network = _run_counting(experiment)
    assert sorted(network.arrived) == sorted(network.sent)
    assert result.messages == len(network.sent)
    assert result.network["payload_bytes"] == sum(size for source, _, size in network.sent.values() if source == 0)


@st.composite
def single_collectives(draw: st.DrawFn) -> dict[str, Any]:
    platform = draw(st.lists(dimensions(), min_size=1, max_size=3).filter(lambda ds: math.prod(d["size"] for d in ds) <= 40))
    sizes = [dimension["size"] for dimension in platform]
    collective = draw(st.sampled_from(COLLECTIVES))
    return {
        "workload": {"plugin": "collective", "collective": collective, "bytes": draw(st.integers(64, 5_000_000))},
        "platform": {"dimensions": platform},
        "system": {name: draw(algorithms(sizes, name)) if name == collective else "ring" for name in COLLECTIVES}
        | {"endpoint_delay_ns": draw(st.sampled_from((0, 10))), "splits": draw(st.integers(1, 6))},
    }


@settings(max_examples=100, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(experiment=single_collectives(), factors=st.lists(st.sampled_from((1, 1.5, 2, 8)), min_size=3, max_size=3))
def test_more_bandwidth_never_makes_a_collective_slower(experiment: dict[str, Any], factors: list[float]) -> None:
    faster = copy.deepcopy(experiment)
    for dimension, factor in zip(faster["platform"]["dimensions"], factors, strict=False):
        dimension["link_bandwidth_gib_per_s"] *= factor
    try:
        before = astra_sim.simulate(**experiment)
    except astra_sim.ScheduleError:
        return  # one_* algorithms may not serve the number of NPUs
    assert astra_sim.simulate(**faster).finish_ns <= before.finish_ns
