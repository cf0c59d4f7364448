"""System layers are composed of rules: what each of them says, and that the rules of one are no business of the other."""

from __future__ import annotations

from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import CollectiveProvider, hookimpl
from astra_sim.graph import Compute, Pass
from astra_sim.layers import LayeredProgram
from astra_sim.schedule import Collective, Request, Schedule
from astra_sim.setup.plugins import Plugins
from astra_sim.units import scaled_float32
from astra_sim_devkit.testing.bench import bench_context, pairwise
from astra_sim_devkit.testing.programs import LAYERS
from astra_sim_systems import astra1, astra2
from astra_sim_systems.queues import QueueSlot, SlotRule, all_slots

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.REDUCE_SCATTER


def test_neither_system_layer_is_made_of_the_other() -> None:
    assert not issubclass(astra2.Astra2System, astra1.Astra1System)
    assert not issubclass(astra1.Astra1System, astra2.Astra2System)
    assert vars(astra1).keys().isdisjoint({"Astra2System", "astra2"})
    assert vars(astra2).keys().isdisjoint({"Astra1System", "astra1"})


@pytest.mark.parametrize(
    ("size", "splits", "first", "second"),
    [
        (100, 4, [25] * 4, [25] * 4),
        (103, 4, [25, 25, 25, 25, 3], [25] * 5),
        (16, 4, [4] * 4, [8] * 4),  # at least a byte for each of 8 NPUs
    ],
)
def test_chunks(size: int, splits: int, first: list[int], second: list[int]) -> None:
    assert astra1.chunk_sizes(ALL_REDUCE, size, splits, 8) == first
    assert astra2.chunk_sizes(ALL_REDUCE, size, splits, 8) == second


def test_chunks_of_an_all_gather_may_be_small() -> None:
    assert astra2.chunk_sizes(ALL_GATHER, 16, 4, 8) == [4] * 4


UP, DOWN = 1, -1


@pytest.mark.parametrize(
    ("rule", "collective", "kind", "directions", "slots"),
    [
        (all_slots, ALL_REDUCE, ALL_GATHER, [UP], [(0, UP)]),
        (all_slots, ALL_REDUCE, ALL_GATHER, [UP, UP, DOWN], [(0, UP), (1, UP), (2, DOWN)]),
        (astra2.halves, ALL_REDUCE, ALL_GATHER, [UP], [(0, DOWN)]),
        (astra2.halves, ALL_REDUCE, REDUCE_SCATTER, [UP], [(0, UP)]),
        (astra2.halves, ALL_GATHER, ALL_GATHER, [UP], [(0, UP)]),
        (astra2.halves, ALL_REDUCE, REDUCE_SCATTER, [UP, UP, DOWN, DOWN], [(0, UP), (1, UP)]),
        (astra2.halves, ALL_REDUCE, ALL_GATHER, [UP, UP, DOWN], [(1, UP), (2, DOWN)]),
        (astra2.halves, REDUCE_SCATTER, REDUCE_SCATTER, [UP, DOWN], [(0, UP), (1, DOWN)]),
    ],
)
def test_queues_of_a_phase(
    rule: SlotRule, collective: Collective, kind: Collective, directions: list[int], slots: list[tuple[int, int]]
) -> None:
    assert list(rule(collective, kind, directions)) == [QueueSlot(*slot) for slot in slots]


# -- Endpoint delays ---------------------------------------------------------------------------------------------------


def like_recorded(request: Request) -> Schedule:
    return pairwise(request)


def offering(**declared: Any) -> Plugins:
    plugins = Plugins()
    hook = staticmethod(hookimpl(lambda: [CollectiveProvider("mine", "Pairs", like_recorded, **declared)], specname="astra_collectives"))
    plugins.register(type("Mine", (), {"astra_collectives": hook})(), "mine")
    return plugins


def finish(plugins: Plugins, system: str, endpoint_ns: int) -> float:
    return astra_sim.simulate(
        workload="plugin:collective?bytes=4096",
        platform="plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100",
        system=f"plugin:{system}?all_reduce=mine&endpoint_delay_ns={endpoint_ns}",
        plugins=plugins,
    ).finish_ns


@pytest.mark.parametrize(
    ("system", "declared", "charged"),
    [
        ("astra1", {}, True),
        ("astra1", {"carries_delays": True}, True),
        ("astra2", {}, True),
        ("astra2", {"scales": False}, True),
        ("astra2", {"carries_delays": True}, False),
    ],
)
def test_an_algorithm_of_any_name_may_carry_its_delays_itself(system: str, declared: dict[str, Any], charged: bool) -> None:
    plugins = offering(**declared)
    assert (finish(plugins, system, 1000) > finish(plugins, system, 0)) == charged


def test_traces_declare_that_they_carry_their_delays() -> None:
    offered = Plugins().components("collective")
    assert {name for name, provider in offered.items() if provider.carries_delays} == {"chakra", "one_chakra"}


# -- Scaling -----------------------------------------------------------------------------------------------------------


def durations(**arguments: Any) -> list[int]:
    """Computing times of a program (picoseconds) at 3 times the compute scale."""
    context = bench_context()
    context = attrs.evolve(context, run=attrs.evolve(context.run, compute_scale=3.0))
    layer = attrs.evolve(LAYERS[0], forward=attrs.evolve(LAYERS[0].forward, compute_ns=16777217.0))
    program = LayeredProgram([layer], context, "test", **arguments)
    program.compute(0, Pass.FORWARD)
    program.idle(7)
    return [operation.duration_ps for operation in program.build().operations if isinstance(operation, Compute)]


def test_the_rule_for_scaling_is_that_of_the_workload() -> None:
    assert durations() == [50331651_000, 7]
    assert durations(scale=scaled_float32) == [50331648_000, 7]  # 24 bits are kept
    assert durations(scale=lambda value, factor: 5) == [5000, 7]


def test_sizes_are_scaled_by_the_same_rule() -> None:
    program = LayeredProgram(LAYERS, bench_context(), "test", scale=lambda value, factor: 12345)
    program.communicate(0, Pass.FORWARD, program.all_dimensions())
    assert [getattr(operation, "bytes", None) for operation in program.build().operations] == [12345]
