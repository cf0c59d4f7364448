"""Networks without contention whose delays depend on the two NPUs of a message, not on its route alone."""

from __future__ import annotations

from typing import Any

import astra_sim
import pytest
from astra_sim.errors import PluginError
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Platform
from astra_sim_devkit.testing.deliveries import check_delays
from support import figures
from support.components import RING, components_of
from support.networks import Replayed

ALGORITHMS = ["ring", "direct", "direct?window=2", "halving_doubling", "double_binary_tree"]
WORKLOAD = "plugin:collective?bytes=1000000"


class Pairs(RouteDelayNetwork):
    """Each pair of NPUs has a latency of its own, and so has each direction."""

    delays_by_pair = True

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        raise AssertionError("it is not asked")

    def pair_delay(self, source: int, destination: int, size: int) -> int:
        return 1000 * (1 + source * 7919 % 13 + destination * 104729 % 17) + size


class Alike(RouteDelayNetwork):
    """A network of delays by route, asked by pair or not."""

    def __init__(self, platform: Platform, delays_by_pair: bool) -> None:
        super().__init__(platform)
        self.delays_by_pair = delays_by_pair

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        return 1000 * hops + size


def run(network: Any, algorithm: str, **options: Any) -> astra_sim.Result:
    choice = ["system.splits=3", f"system.all_reduce={algorithm}"]
    return astra_sim.simulate(workload=WORKLOAD, network=network, set=choice, passes=2, **options)


def platform() -> Platform:
    return components_of(workload=WORKLOAD, platform=RING.replace("size=4", "size=8")).platform


@pytest.mark.parametrize("rendezvous", [False, True])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_figure_is_the_same_on_both_engines_and_as_messages_by_themselves(algorithm: str, rendezvous: bool) -> None:
    runs = [("python", True), ("python", False), ("compiled", True), ("compiled", False)]
    result = [run(Pairs(platform()), algorithm, rendezvous=rendezvous, engine=engine, symmetry=on) for engine, on in runs]
    first = figures(result[0])
    assert all(figures(each) == first for each in result)
    assert result[0].simulated_npus == 8
    replayed = figures(run(Replayed(Pairs(platform())), algorithm, rendezvous=rendezvous))
    for name in ("network", "audit"):
        del first[name], replayed[name]
    assert replayed == first


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_pairs_whose_delays_are_those_of_routes_change_nothing(algorithm: str) -> None:
    by_route, by_pair = (run(Alike(platform(), each), algorithm) for each in (False, True))
    assert (by_route.simulated_npus, by_pair.simulated_npus) == (1, 8)
    assert figures(by_route) == figures(by_pair)


def test_such_a_run_is_explained_and_keeps_the_contract() -> None:
    result = run(Pairs(platform()), "direct", explain="path")
    assert result.explanation is not None
    assert sum(row.ps for row in result.explanation.path) == round(result.finish_ns * 1000)
    assert result.explanation.totals()["kind"]["latency"] > 0
    check_delays(Pairs(platform()))


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_what_is_no_time_names_the_network_and_the_pair(engine: str) -> None:
    class Wrong(Pairs):
        def pair_delay(self, source: int, destination: int, size: int) -> int:
            return -1

    with pytest.raises(PluginError, match=r"network Wrong: the delay of .* bytes from NPU . to NPU . is -1; expected a time"):
        run(Wrong(platform()), "ring", engine=engine)
