"""What endpoints do on a shared bus, in exact figures: ASTRA-sim 1.0's LogGP model, on both engines."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from astra_sim.engine.interface import COLLECTIVE, BusOptions, PhaseStep, Task
from astra_sim.engine.orders import Job
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Collective, Request, Schedule, Step, lower, shift
from astra_sim.setup.engines import find_engine
from astra_sim_network_analytical.topologies import Ring

BUS = BusOptions(L=2, o=3, g=5, G=0.5, reduction_delay=4)
SIZE = 201


class Instant(RouteDelayNetwork):
    """Messages take no time."""

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        return 0


def end_ps(engine: str, bus: BusOptions = BUS, starts: int = 1, **step: Any) -> int:
    """When a phase of one step ends on two NPUs."""
    platform = Platform((Dimension(Ring(2, 2), 2, 1, 1.0, 1.0),))
    machine = find_engine(engine)(2, Instant(platform), memory_ps=lambda size: 0, bus=bus)
    schedule = Schedule.shared(Request(Collective.ALL_GATHER, 2, SIZE), [Step(shift(1), shift(-1), SIZE, **step)], starts=starts)
    phase = machine.add_phase(machine.add_schedule(lower(schedule), machine.add_groups([range(2)])))
    machine.add_program([Task(COLLECTIVE, 0)], range(2), lambda task, now: [[PhaseStep(Job(0, "", 0, 0), phase=phase)]])
    machine.run()
    return machine.now


@pytest.fixture(params=["python", "compiled"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_what_a_rank_computes_is_not_reduced_by_the_bus(engine: str) -> None:
    assert end_ps(engine, compute_ps=777) == end_ps(engine) + 777


def test_what_is_charged_to_memory_is_reduced_by_the_bus(engine: str) -> None:
    # It goes through the inner bus to memory and back (each two overheads, the latency and its bytes), and is reduced: 4 ns per 100 bytes,
    # and 50 ns.
    inner = int(3 + 200 * 0.0038 + 2 + 3)
    assert end_ps(engine, memory_bytes=SIZE) == end_ps(engine) + (2 * inner + 2 * 4 + 50) * 1000


def test_the_inner_bus_has_a_gap_per_byte_of_its_own(engine: str) -> None:
    # What the rank has from the start is read through it; the message is written and, to be reduced, goes there and back.
    slower = end_ps(engine, attrs.evolve(BUS, memory_gap_per_byte=0.5), memory_bytes=SIZE)
    assert slower == end_ps(engine, memory_bytes=SIZE) + 4 * 100 * 1000


def test_a_reduction_has_an_overhead(engine: str) -> None:
    assert end_ps(engine, attrs.evolve(BUS, reduction_overhead=90), memory_bytes=SIZE) == end_ps(engine, memory_bytes=SIZE) + 40 * 1000


@pytest.mark.parametrize("burst", [0, 1, 8])
def test_both_engines_let_the_other_side_go_first_after_as_many_transfers(burst: int) -> None:
    bus = attrs.evolve(BUS, burst=burst)
    many: dict[str, Any] = {"starts": 24, "times": 24, "memory_bytes": SIZE}
    assert end_ps("compiled", bus, **many) == end_ps("python", bus, **many)


def test_a_side_sends_as_many_transfers_in_a_row_as_the_options_say(engine: str) -> None:
    many: dict[str, Any] = {"starts": 24, "times": 24, "memory_bytes": SIZE}
    assert len({end_ps(engine, attrs.evolve(BUS, burst=burst), **many) for burst in (0, 8)}) == 2
