"""Networks of both kinds run the same experiments."""

from __future__ import annotations

from typing import Any

import astra_sim
import pytest
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, Platform
from hypothesis import given, settings
from hypothesis import strategies as st
from support import figures
from support.components import RING, components_of
from support.networks import Lossy, OneWire, Overtaking, PicosecondHops, Replayed, ScatteredRing


@pytest.mark.parametrize("algorithm", ["ring", "direct", "direct?window=2", "halving_doubling", "double_binary_tree"])
@pytest.mark.parametrize("rendezvous", [False, True])
def test_an_event_network_with_the_same_delays_gives_the_same_answer(algorithm: str, rendezvous: bool) -> None:
    experiment: dict[str, Any] = {
        "workload": "plugin:collective?bytes=1000000",
        "platform": RING,
        "set": ["system.splits=3", f"system.all_reduce={algorithm}"],
        "rendezvous": rendezvous,
        "passes": 2,
    }
    analytical = astra_sim.simulate(**experiment)
    inner = components_of(workload=experiment["workload"], platform=RING).network
    assert isinstance(inner, RouteDelayNetwork)
    replayed = astra_sim.simulate(**{**experiment, "platform": None}, network=Replayed(inner))
    expected, got = figures(analytical), figures(replayed)
    for name in ("network", "audit"):  # an audit asks less of networks on which messages may wait
        del expected[name], got[name]
    assert got == expected
    assert replayed.simulated_npus == 4


@pytest.mark.parametrize("algorithm", ["ring", "direct", "direct?window=2", "double_binary_tree"])
def test_messages_that_overtake_each_other_find_their_receives_on_both_engines(algorithm: str) -> None:
    platform = RING.replace("size=4", "size=32")
    inner = components_of(workload="plugin:collective?bytes=1", platform=platform).network
    assert isinstance(inner, RouteDelayNetwork)

    def run(engine: str) -> dict[str, Any]:
        choice = ["system.splits=3", f"system.all_reduce={algorithm}"]
        workload = "plugin:collective?bytes=1000000"
        return figures(astra_sim.simulate(workload=workload, network=Overtaking(inner), engine=engine, passes=2, set=choice))

    assert run("compiled") == run("python")


@settings(max_examples=20)
@given(
    bits=st.integers(1, 45),
    seed=st.integers(0, 2**32),
    npus=st.sampled_from([8, 32]),
    algorithm=st.sampled_from(["ring", "direct", "halving_doubling", "double_binary_tree"]),
    splits=st.integers(1, 3),
    endpoint_ns=st.sampled_from([0, 1, 10]),
)
def test_ranks_that_differ_in_time_are_the_same_on_both_engines(
    bits: int, seed: int, npus: int, algorithm: str, splits: int, endpoint_ns: int
) -> None:
    platform = Platform((Dimension(ScatteredRing(npus, 2, bits=bits, seed=seed), npus, 2, 50.0, 500.0),))

    def run(engine: str) -> dict[str, Any]:
        choice = [f"system.splits={splits}", f"system.all_reduce={algorithm}", f"system.endpoint_delay_ns={endpoint_ns}"]
        network = PicosecondHops(platform)
        workload = "plugin:collective?bytes=1000000"
        return figures(astra_sim.simulate(workload=workload, network=network, engine=engine, symmetry=False, passes=2, set=choice))

    assert run("compiled") == run("python")


def test_messages_on_one_wire_wait_for_each_other() -> None:
    platform = components_of(workload="plugin:collective?bytes=1", platform=RING).platform
    result = astra_sim.simulate(
        workload="plugin:collective?bytes=4000", network=OneWire(platform), set=["system.endpoint_delay_ns=0", "system.all_reduce=ring"]
    )
    # 6 steps, in each of which 4 messages of 1000 bytes take 1000 ps each, one after another; the first NPU may continue before the last.
    assert result.finish_ns == pytest.approx(24, abs=4)
    assert result.messages == 24


def test_a_lost_message_is_an_error_that_names_who_waits() -> None:
    inner = components_of(workload="plugin:collective?bytes=1", platform=RING).network
    assert isinstance(inner, RouteDelayNetwork)
    with pytest.raises(astra_sim.DeadlockError) as caught:
        astra_sim.simulate(workload="plugin:collective?bytes=4000", network=Lossy(inner), set=["system.all_reduce=ring"])
    assert "cannot finish" in str(caught.value)
    assert "waits for a message of 1000 bytes from NPU" in str(caught.value)
    assert "all_reduce" in str(caught.value)
    assert caught.value.exit_status == 1
