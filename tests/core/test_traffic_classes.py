"""Traffic classes: the system says which one messages ask for, and networks that have classes treat messages by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.errors import InputWarning
from astra_sim.graph import Communicate, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send
from astra_sim.network import EventNetwork, Message
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective, rank
from support.platforms import LINK, platform_of

SQUARE = f"torus?sizes=2,2&{LINK}"


class Recorder(EventNetwork):
    """Every message takes a nanosecond; keeps which class messages between two NPUs have asked for."""

    has_traffic_classes = True

    def __init__(self) -> None:
        super().__init__(platform_of(SQUARE))
        self.classes: dict[tuple[int, int], set[int]] = {}
        self._under_way: list[tuple[int, int]] = []

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        for message in messages:
            self.classes.setdefault((message.source, message.destination), set()).add(message.traffic_class)
            self._under_way.append((time + 1000, message.number))

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        if not self._under_way or (until is not None and self._under_way[0][0] > until):
            return None
        time = self._under_way[0][0]
        numbers = [number for at, number in self._under_way if at == time]
        self._under_way = self._under_way[len(numbers) :]
        return time, numbers


def graph() -> ExecutionGraph:
    """An all-reduce over two dimensions, and then a message from NPU 0 to NPU 3 across both."""
    dimensions = LogicalDimension(2, 1, 0), LogicalDimension(2, 2, 1)
    reduce = Communicate((), Collective.ALL_REDUCE, 4096, (0, 1), 0, Pass.FORWARD)
    others = [
        NpuProgram(tuple[Operation, ...]((reduce, *more)), npus) for more, npus in (((), (1, 2)), ((Receive((0,), rank(0), 64, 1),), (3,)))
    ]
    return ExecutionGraph((reduce, Send((0,), rank(3), 64, 1)), dimensions, (), None, tuple(others))


@pytest.mark.parametrize("rendezvous", [False, True])
@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_messages_ask_for_the_class_of_their_dimension_and_sends_for_their_own(engine: str, rendezvous: bool) -> None:
    seen = []
    for system in (
        {"traffic_classes": [3, 5], "send_traffic_class": 2},
        {"traffic_classes": [4]},
        {"traffic_classes": [0, 1]},
        {},
    ):
        network = Recorder()
        astra_sim.simulate(workload=graph(), network=network, system={"plugin": "astra2", **system}, engine=engine, rendezvous=rendezvous)
        classes = network.classes
        assert classes[0, 1] == classes[3, 2]
        assert classes[0, 2] == classes[3, 1]
        seen.append([*classes[0, 1], *classes[0, 2], *classes[0, 3]])
        if rendezvous:
            assert classes[3, 0] == classes[0, 3]
    assert seen == [[3, 5, 2], [4, 4, -1], [-1, 1, -1], [-1, -1, -1]]


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_class_is_a_queue_of_its_own_on_roce(engine: str) -> None:
    """A message between two NPUs takes turns with a collective of another class, and waits behind it in the same one."""

    def finish_of(send_class: int) -> float:
        reduce = Communicate((), Collective.ALL_TO_ALL, 3_000_000, (0,), 0, Pass.FORWARD)
        others = (NpuProgram((reduce, Receive((), rank(0), 1_000_000, 1)), (1,)), NpuProgram((reduce,), (2,)))
        whole = ExecutionGraph((reduce, Send((), rank(1), 1_000_000, 1)), (LogicalDimension(3, 1, 0),), (), None, others)
        system = {"plugin": "astra2", "traffic_classes": [3], "send_traffic_class": send_class, "one_at_a_time": False}
        network = "plugin:roce?windows=false&congestion_control=dcqcn&ecn_kmin=100:1&ecn_kmax=100:2&ecn_pmax=100:1"
        result = astra_sim.simulate(workload=whole, platform=f"plugin:switch?size=3&{LINK}", network=network, system=system, engine=engine)
        return float(result.finish_ns)

    assert finish_of(0) == finish_of(3)  # the class that roce chooses
    assert finish_of(5) != finish_of(3)


def test_a_network_without_classes_says_so() -> None:
    arguments: dict[str, Any] = {"workload": "plugin:collective?bytes=4096", "platform": f"plugin:{SQUARE}", "network": "plugin:flow"}
    plain = astra_sim.simulate(**arguments)
    with pytest.warns(InputWarning, match="asks for traffic classes, and this network has none: they change nothing"):
        asked = astra_sim.simulate(**arguments, system="plugin:astra2?traffic_classes=3")
    assert asked.finish_ns == astra_sim.simulate(**arguments, system="plugin:astra2").finish_ns
    assert plain.finish_ns > 0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("traffic_classes=1,2,3", r"traffic_classes is \[1, 2, 3\], 3 classes; expected one for all, or one for each of the 2 dimensions"),
        ("traffic_classes=8", "traffic_classes"),
        ("send_traffic_class=-1", "send_traffic_class"),
    ],
)
def test_classes_that_cannot_be(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        astra_sim.simulate(
            workload="plugin:collective?bytes=4096", platform=f"plugin:{SQUARE}", network="plugin:roce", system=f"plugin:astra2?{spec}"
        )
