"""Components that break their contract: `astra plugins check` says how, and exits with status 1. Runs with them are errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import AstraError, CollectiveProvider, DeadlockError, PluginError, Provider, SchedulerProvider, hookimpl, option
from astra_sim.command.cli import astra
from astra_sim.compute import Compute as ComputeModel
from astra_sim.compute import MissingWork, Work
from astra_sim.context import Context
from astra_sim.engine.orders import Job
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Pass, Receive, Send
from astra_sim.layers import LayeredProgram
from astra_sim.memory import Memory
from astra_sim.network import Message, RouteDelayNetwork
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.schedule import Collective, Peer, RankProgram, Request, Schedule, exchange, rank, receive, send, shift
from astra_sim.setup.plugin_modules import KINDS
from astra_sim.setup.plugins import Plugins, shared_plugins
from astra_sim.system import ChunkPlan, DimensionOrder, PhasePlan, SystemSession
from astra_sim_devkit.testing import bench, check_component
from click.testing import CliRunner
from support.broken_components import Post

Check = Callable[..., tuple[int, str]]
WORDS = "A component of the tests"


@pytest.fixture
def check() -> Iterator[Check]:
    """Runs `astra plugins check KIND:mine` on a component of the test; returns the exit status and what is printed."""
    registered: list[object] = []

    def forget() -> None:
        while registered:
            shared_plugins().unregister(registered.pop())

    def run(kind: str, factory: Any, **fields: Any) -> tuple[int, str]:
        forget()
        cls: Any = {"scheduler": SchedulerProvider, "collective": CollectiveProvider}.get(kind, Provider)
        hook = hookimpl(lambda: [cls("mine", WORDS, factory, **fields)], specname=KINDS[kind])
        plugin = type("Mine", (), {KINDS[kind]: staticmethod(hook)})()
        shared_plugins().register(plugin, "mine")
        registered.append(plugin)
        done = CliRunner().invoke(astra, ["plugins", "check", f"{kind}:mine"])
        return done.exit_code, done.output

    yield run
    forget()


def fails(done: tuple[int, str], *words: str) -> None:
    """The check failed, and its message says why."""
    status, text = done
    assert status == 1, text
    assert "FAILED" in text
    for word in words:
        assert word in text


# -- Networks ----------------------------------------------------------------------------------------------------------


class Loses(Post):
    """Loses every third message."""

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        super().inject(time, [message for message in messages if message.number % 3])


class Repeats(Post):
    """Delivers messages twice."""

    def answer(self, time: int, number: int) -> tuple[int, list[int]]:
        return time, [number, number]


class Invents(Post):
    """Delivers a message that was never sent."""

    def answer(self, time: int, number: int) -> tuple[int, list[int]]:
        return time, [number + 100_000]


class Early(Post):
    """Delivers messages before they are sent."""

    def arrival(self, time: int, message: Message) -> int:
        return time - 500


class Backwards(Post):
    """Delivers messages out of order: each one sooner than the one that was sent before."""

    def arrival(self, time: int, message: Message) -> int:
        return time + 100_000 - message.number


class Stalls(Post):
    """Delivers nothing, for ever."""

    def answer(self, time: int, number: int) -> tuple[int, list[int]]:
        self.due.insert(0, (time, number))
        return time, []


class Late(Post):
    """Does not stop at `until`."""

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        return super().advance(None)


class Remembers(Post):
    """A second run is slower than the first."""

    runs = 0

    def begin(self) -> int:
        self.runs += 1
        return super().begin()

    def arrival(self, time: int, message: Message) -> int:
        return time + 1000 * self.runs


class Shrinks(Post):
    """Larger messages are faster."""

    def arrival(self, time: int, message: Message) -> int:
        return time + 10**7 - message.bytes


def test_a_network_that_keeps_its_contract_passes(check: Check) -> None:
    assert check("network", Post) == (0, "ok     network mine\n")


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (Loses, ("lost 74 of 224 messages", "NPU 2 to NPU 3", "1000 bytes", "sent at 1000 ps")),
        (Repeats, ("message 1 ", "delivered twice")),
        (Invents, ("message 100001", "never sent")),
        (Early, ("message 1 ", "delivered at 500 ps, before it was sent")),
        (Backwards, ("message 2 ", "after a delivery at")),
        (Stalls, ("advance returned", "the numbers of at least one message")),
        (Late, ("advance returned the time 2000",)),
        (Remembers, ("in a second run",)),
        (Shrinks, ("no less for more",)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_network_that_breaks_its_contract_is_told(check: Check, network: type[Post], words: tuple[str, ...]) -> None:
    fails(check("network", network), *words)


class Flat(RouteDelayNetwork):
    """Delays as a function of size."""

    def __init__(self, platform: Platform, delay: Callable[[int], Any]) -> None:
        super().__init__(platform)
        self._delay = delay

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        delay: int = self._delay(size)
        return delay


@pytest.mark.parametrize(
    ("delay", "words"),
    [
        (lambda size: -5, "a time of at least 0"),
        (lambda size: 10**10 - size, "no less for more"),
        (lambda size: "x", "a time of at least 0"),
    ],
    ids=["negative", "shrinks", "text"],
)
def test_delays_that_cannot_be_are_told(check: Check, delay: Callable[[int], Any], words: str) -> None:
    fails(check("network", lambda platform: Flat(platform, delay)), words)


def test_a_delay_that_changes_is_told(check: Check) -> None:
    asked = iter(range(10**6))
    fails(check("network", lambda platform: Flat(platform, lambda size: size + next(asked))), "when asked for again")


ENGINES = pytest.mark.parametrize("engine", ["python", "compiled"])
INPUTS = {
    "workload": "plugin:collective?bytes=4096",
    "platform": "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=25",
    "system": "plugin:astra1",
}


def run(engine: str, **components: Any) -> astra_sim.Result:
    """An all-reduce on a ring of four, with other components."""
    chosen: dict[str, Any] = {"network": "plugin:analytical", **INPUTS, **components}
    plugins = Plugins()
    for kind, given in components.items():
        if kind in KINDS and callable(given):
            hook = hookimpl(lambda kind=kind, given=given: [Provider("mine", WORDS, given)], specname=KINDS[kind])
            plugins.register(type("Mine", (), {KINDS[kind]: staticmethod(hook)})(), "mine")
            chosen[kind] = "plugin:mine"
    return astra_sim.simulate(**chosen, set=[f"run.engine={engine}"], plugins=plugins)


@ENGINES
@pytest.mark.parametrize(
    ("network", "words"),
    [
        (Repeats, "network Repeats: message .* which is not under way: it was never sent, or has arrived before"),
        (Invents, "network Invents: message .* which is not under way"),
        (Early, r"network Early: advance returned the time -?\d+"),
        (Backwards, "network Backwards: advance returned the time"),
    ],
)
def test_a_run_on_such_a_network_is_an_error(engine: str, network: type[Post], words: str) -> None:
    with pytest.raises(PluginError, match=words):
        run(engine, network=network)


@ENGINES
def test_a_run_whose_messages_are_lost_names_the_network_and_who_waits(engine: str) -> None:
    with pytest.raises(DeadlockError, match=r"network Loses lost 4 of 12 messages: .* the run cannot finish") as caught:
        run(engine, network=Loses)
    assert "waits for a message of 512 bytes from NPU" in str(caught.value)
    assert caught.value.exit_status == 1


@ENGINES
def test_a_run_that_begins_at_no_time_is_an_error(engine: str) -> None:
    begins = type("Begins", (Post,), {"begin": lambda self: "x"})
    with pytest.raises(PluginError, match="network Begins: begin is 'x'"):
        run(engine, network=begins)


# -- Collectives -------------------------------------------------------------------------------------------------------


def pairwise(size: Callable[[int], int], pieces: bool = True, output: Callable[[int], int] = lambda bytes: bytes) -> Any:
    """An all-reduce by pairwise exchange whose messages have another size."""

    def make(request: Request) -> Schedule:
        if request.collective is not Collective.ALL_REDUCE:
            raise request.unsupported("mine", "it is for all-reduce")
        n, block = request.ranks, size(request.bytes // request.ranks)
        steps = [exchange(shift(k), block, reduce=True, pieces=[k] if pieces else ()) for k in range(1, n)]
        steps += [exchange(shift(k), block, pieces=[0] if pieces else ()) for k in range(1, n)]
        return Schedule.shared(request, steps, output_bytes=output(request.bytes))

    return make


def one_rank_sends_too_little(request: Request) -> Schedule:
    """Reduces to rank 0 and broadcasts from there, the last message a tenth of what it should be."""
    if request.collective is not Collective.ALL_REDUCE:
        raise request.unsupported("mine", "it is for all-reduce")
    n, everything = request.ranks, range(request.ranks)
    sizes = [request.bytes] * (n - 1) + [request.bytes // 10]
    root = [receive(rank(other), request.bytes, after=0, reduce=True) for other in range(1, n)]
    root += [send(rank(other), sizes[other], after=n, pieces=everything) for other in range(1, n)]
    leaves = [(send(rank(0), request.bytes, pieces=everything), receive(rank(0), sizes[other])) for other in range(1, n)]
    return Schedule.per_rank(request, [RankProgram(tuple(steps)) for steps in (root, *leaves)])


BROKEN_COLLECTIVES = {
    "doubled bytes": (pairwise(lambda block: 2 * block), "sends a piece in a message of 2006 bytes"),
    "zero bytes": (pairwise(lambda block: 0), "sends a piece in a message of 0 bytes"),
    "halved bytes": (pairwise(lambda block: block // 2), "sends a piece in a message of 501 bytes"),
    "no bytes are left": (pairwise(lambda block: block, output=lambda bytes: 0), "output_bytes is 0"),
    "one message of a rank": (one_rank_sends_too_little, "rank 0 sends"),
}


@pytest.mark.parametrize("name", BROKEN_COLLECTIVES)
def test_bytes_that_do_not_fit_the_pieces_are_told(check: Check, name: str) -> None:
    algorithm, words = BROKEN_COLLECTIVES[name]
    fails(check("collective", algorithm), words, "all_reduce", "2 ranks")


def test_a_collective_that_fits_passes(check: Check) -> None:
    assert check("collective", pairwise(lambda block: block))[0] == 0


@pytest.mark.parametrize("name", BROKEN_COLLECTIVES)
def test_a_run_with_such_bytes_is_an_error(name: str) -> None:
    with pytest.raises(AstraError, match="collective 'mine': all_reduce of 4096 bytes on 4 ranks"):
        run_collective(BROKEN_COLLECTIVES[name][0])


def test_a_run_that_sends_too_little_is_an_error_without_pieces_too() -> None:
    with pytest.raises(AstraError, match="every rank sends 3072 bytes; expected at least 4096"):
        run_collective(pairwise(lambda block: block // 2, pieces=False))
    assert run_collective(pairwise(lambda block: block, pieces=False)).finish_ns > 0


def compressed(share: Any) -> Any:
    """An algorithm whose messages have a hundredth of the bytes, and name their pieces so."""

    def make(request: Request) -> Schedule:
        steps = [exchange(shift(k), request.bytes // 100, pieces=[share]) for k in range(1, request.ranks)]
        return Schedule.shared(request, steps)

    return make


def test_data_of_which_only_the_bytes_are_known_counts_for_what_it_stands_for(check: Check) -> None:
    assert run_collective(compressed(("unnamed", 0.01))).finish_ns > 0
    with pytest.raises(AstraError, match="every rank sends 120 bytes; expected at least 4096"):
        run_collective(compressed("unnamed"))
    with pytest.raises(AstraError, match="every rank sends 240 bytes; expected at least 4096"):
        run_collective(compressed(("unnamed", 0.5)))
    with pytest.raises(AstraError, match="expected a share above 0 and at most 1"):
        run_collective(compressed(("unnamed", 0)))
    fails(check("collective", compressed("unnamed")), "expected at least")


def run_collective(algorithm: Any) -> astra_sim.Result:
    plugins = Plugins()
    hook = hookimpl(lambda: [CollectiveProvider("mine", WORDS, algorithm)], specname=KINDS["collective"])
    plugins.register(type("Mine", (), {KINDS["collective"]: staticmethod(hook)})(), "mine")
    inputs: dict[str, Any] = {**INPUTS, "network": "plugin:analytical"}
    return astra_sim.simulate(**inputs, set=["system.all_reduce=mine"], plugins=plugins)


# -- Schedulers --------------------------------------------------------------------------------------------------------


def changes_the_list(jobs: Any, started: int, job: Job) -> int:
    jobs.append(job)
    return started


def by_the_size_of_priorities(jobs: Sequence[Job], started: int, job: Job) -> int:
    return len(jobs) if job.priority > 2 else started


CALLS = iter(range(10**9))

BROKEN_ORDERS = {
    "place 99": (lambda jobs, started, job: 99, "it gave place 99"),
    "before those that run": (lambda jobs, started, job: 0, "it gave place 0"),
    "no place": (lambda jobs, started, job: None, "it gave place None"),
    "by chance": (lambda jobs, started, job: started + next(CALLS) % (len(jobs) - started + 1), "when asked again"),
    "by the size of priorities": (by_the_size_of_priorities, "with other priorities"),
    "changes the list": (changes_the_list, "changed the list"),
    "raises": (lambda jobs, started, job: 1 // 0, "ZeroDivisionError"),
}


@pytest.mark.parametrize("name", BROKEN_ORDERS)
def test_an_order_of_queues_that_breaks_its_contract_is_told(check: Check, name: str) -> None:
    order, words = BROKEN_ORDERS[name]
    fails(check("scheduler", lambda: order, orders="queue"), words)


class Ordered(DimensionOrder):
    """Cuts and orders as a function says."""

    has_memory = False

    def __init__(self, answer: Callable[..., Any], platform: Platform) -> None:
        self._answer = answer

    def chunk(
        self, collective: Collective, rest: int, size: int, dimensions: Sequence[LogicalDimension], usable: Sequence[bool]
    ) -> tuple[int, Sequence[int]]:
        answer: tuple[int, Sequence[int]] = self._answer(rest, size, len(dimensions))
        return answer


BROKEN_DIMENSION_ORDERS = {
    "no bytes": (lambda rest, size, n: (0, range(n)), "a chunk of 0 bytes"),
    "more than there is": (lambda rest, size, n: (size, range(n)), "a chunk of 1048576 bytes"),
    "a dimension twice": (lambda rest, size, n: (min(rest, size), [0] * n), "the order [0, 0]"),
    "a dimension left out": (lambda rest, size, n: (min(rest, size), range(n - 1)), "the order [0]"),
    "a byte at a time": (lambda rest, size, n: (1, range(n)), "more than 800 chunks"),
    "by chance": (lambda rest, size, n: (min(rest, size), [0, 1] if next(CALLS) % 3 else [1, 0]), "it gave"),
}


@pytest.mark.parametrize("name", BROKEN_DIMENSION_ORDERS)
def test_an_order_of_dimensions_that_breaks_its_contract_is_told(check: Check, name: str) -> None:
    answer, words = BROKEN_DIMENSION_ORDERS[name]
    fails(check("scheduler", lambda platform: Ordered(answer, platform), orders="dimensions"), words)


# -- Platforms ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class Line:
    """NPUs in a line."""

    size: int
    symmetric: bool = False
    first_hop: Any = 1
    wires: tuple[tuple[Any, ...], ...] = ()
    name: str = "line"

    def hops(self, source: int, destination: int) -> int:
        hops: int = self.first_hop if {source, destination} == {0, 1} else abs(source - destination)
        return hops

    def is_symmetric(self, peer: Peer) -> bool:
        return self.symmetric

    def links(self) -> list[tuple[Any, ...]]:
        ends = [(npu, npu + 1, 25.0, 10.0) for npu in range(self.size - 1)]
        return list(self.wires) or [*ends, *((b, a, bandwidth, latency) for a, b, bandwidth, latency in ends)]

    def links_per_message(self) -> int:
        return 1

    def links_per_npu(self) -> int:
        return 2


def line(**fields: Any) -> Any:
    """A platform of a line of four."""
    return lambda: [Dimension(Line(4, **fields), 4, 2, 25.0, 10.0)]


def test_a_line_passes_unless_it_says_that_it_is_symmetric(check: Check) -> None:
    assert check("platform", line())[0] == 0


@pytest.mark.parametrize(
    ("platform", "words"),
    [
        (line(symmetric=True), ("is declared symmetric", "hops away from position 0")),
        (line(first_hop=0), ("hops(0, 1) is 0",)),
        (line(first_hop=1.5), ("hops(0, 1) is 1.5",)),
        (line(wires=((0, 1, 25.0, 10.0),)), ("NPU 0 does not reach NPU 2",)),
        (line(wires=((0, 1, 0.0, 10.0),)), ("0.0 bytes/ns",)),
        (line(wires=((0, -1, 1.0, 10.0),)), ("the end -1",)),
        (list, ("not a list of dimensions",)),
        (lambda: [Dimension(Line(4), 0, 2, 25.0, 10.0)], ("size is 0",)),
        (lambda: [Dimension(Line(4), 4, 2, 0.0, 10.0)], ("link_bandwidth is 0.0",)),
        (lambda: [Dimension(Line(4), 4, 2, 25.0, -1.0)], ("link_latency_ns is -1.0",)),
        (lambda: [Dimension("line", 4, 2, 25.0, 1.0)], ("topology is 'line'",)),
    ],
)
def test_a_topology_that_breaks_its_contract_is_told(check: Check, platform: Any, words: tuple[str, ...]) -> None:
    fails(check("platform", platform), *words)


# -- Compute and memory ------------------------------------------------------------------------------------------------


class Constant(ComputeModel):
    """Times as a function of the recorded one."""

    def __init__(self, answer: Callable[[float], Any]) -> None:
        self._answer = answer

    def duration_ns(self, work: Work) -> float:
        if work.recorded_ns is None:
            raise MissingWork("there is no recorded time")
        time: float = self._answer(work.recorded_ns)
        return time


class Ignorant(ComputeModel):
    """Knows nothing."""

    def duration_ns(self, work: Work) -> float:
        raise MissingWork("there is no flux")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: Constant(lambda time: -time - 1), "a time of at least 0"),
        (lambda: Constant(lambda time: 10**6 - time), "no less for more"),
        (lambda: Constant(lambda time: time + next(CALLS)), "when asked for again"),
        (lambda: Constant(lambda time: None), "a time of at least 0"),
        (lambda: Constant(lambda time: 1 // 0), "ZeroDivisionError"),
        (Ignorant, "knows the time of no work: there is no flux"),
        (lambda: 3, "3, which is not a Compute"),
    ],
)
def test_a_compute_model_that_breaks_its_contract_is_told(check: Check, model: Any, words: str) -> None:
    fails(check("compute", model), words)


class Store(Memory):
    """Accesses, ports and capacity as given."""

    def __init__(self, time: Callable[[int], Any] = int, port: Callable[[int], Any] = lambda npu: None, capacity: Any = None) -> None:
        self._time, self._port, self._capacity = time, port, capacity

    def access_ps(self, size: int, write: bool) -> int:
        time: int = self._time(size)
        return time

    def remote_port(self, npu: int) -> int | None:
        port: int | None = self._port(npu)
        return port

    def capacity_bytes(self) -> float | None:
        capacity: float | None = self._capacity
        return capacity


class Remote(Store):
    """Remote memory that gives time back."""

    def remote_access_ps(self, size: int, write: bool) -> int:
        return -size


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: Store(lambda size: -1), "a time of at least 0"),
        (lambda: Store(lambda size: 10**10 - size), "no less for more"),
        (lambda: Store(lambda size: size + next(CALLS)), "when asked for again"),
        (lambda: Store(port=lambda npu: -1), "the remote port of NPU 0 is -1"),
        (lambda: Store(port=lambda npu: next(CALLS)), "when asked for again"),
        (lambda: Store(capacity=-1), "capacity_bytes returned -1"),
        (Remote, "a time of at least 0"),
        (lambda: 3, "3, which is not a Memory"),
    ],
)
def test_a_memory_model_that_breaks_its_contract_is_told(check: Check, model: Any, words: str) -> None:
    fails(check("memory", model), words)


# -- Systems -----------------------------------------------------------------------------------------------------------


class Changed(bench.BenchSystem):
    """The system of the bench, with plans that a function changes."""

    def __init__(self, change: Callable[[list[ChunkPlan]], list[ChunkPlan]], context: Context, repeats: bool = False) -> None:
        self._change = change
        self._repeats = repeats

    def session(self, dimensions: Sequence[LogicalDimension]) -> SystemSession:
        inner = super().session(dimensions)
        plan = inner.issue
        inner.issue = lambda operation, now_ps: self._change(list(plan(operation, now_ps)))  # type: ignore[method-assign]
        inner.repeats = lambda operation: self._repeats  # type: ignore[method-assign]
        return inner


def phases(change: Callable[[tuple[PhasePlan, ...]], Sequence[PhasePlan]]) -> Callable[[list[ChunkPlan]], list[ChunkPlan]]:
    """Change the phases of every chunk."""
    return lambda chunks: [ChunkPlan(chunk.priority, tuple(change(chunk.phases))) for chunk in chunks]


def doubled(plan: PhasePlan) -> PhasePlan:
    """The same phase with twice the bytes."""
    request = Request(plan.collective, plan.logical.size, 2 * plan.bytes)
    return attrs.evolve(plan, bytes=request.bytes, schedule=bench.pairwise(request))


BROKEN_PLANS = {
    "a phase is left out": (phases(lambda given: given[1:] or given), "does not hold the result"),
    "a phase twice": (phases(lambda given: [*given, given[-1]]), "2 times"),
    "doubled bytes": (phases(lambda given: [doubled(plan) for plan in given]), "2097152 bytes in total for a collective of 1048576 bytes"),
    "a chunk twice": (lambda chunks: chunks * 2, "2 chunks of 2097152 bytes"),
    "other bytes later": (phases(lambda given: [*given[:1], *map(doubled, given[1:])]), "goes on with"),
    "no phases": (phases(lambda given: ()), "without phases"),
    "nothing": (lambda chunks: [], "planned nothing"),
    "a queue that is not there": (phases(lambda given: [attrs.evolve(plan, queue=9) for plan in given]), "queue 9; expected 0 to 1"),
    "a dimension that is not there": (phases(lambda given: [attrs.evolve(plan, dimension=9) for plan in given]), "dimension 9"),
}


@pytest.mark.parametrize("name", BROKEN_PLANS)
def test_a_system_whose_plans_do_not_do_the_collective_is_told(check: Check, name: str) -> None:
    change, words = BROKEN_PLANS[name]
    fails(check("system", lambda context: Changed(change, context)), words)


def test_a_system_that_repeats_what_it_plans_anew_is_told(check: Check) -> None:
    change = phases(lambda given: [attrs.evolve(plan, endpoint_ps=None) for plan in given[:: (-1) ** next(CALLS)]])
    fails(check("system", lambda context: Changed(change, context, repeats=True)), "planned alike every time")


def test_a_system_that_keeps_its_contract_passes(check: Check) -> None:
    assert check("system", lambda context: bench.BenchSystem())[0] == 0


@ENGINES
@pytest.mark.parametrize("name", ["doubled bytes", "a chunk twice", "no phases"], ids=lambda name: name)
def test_a_run_with_wrong_bytes_in_its_plan_is_an_error(engine: str, name: str) -> None:
    with pytest.raises(PluginError, match="it planned") as caught:
        run(engine, system=lambda context: Changed(BROKEN_PLANS[name][0], context))
    assert caught.value.exit_status == 2


# -- Workloads and training loops --------------------------------------------------------------------------------------


def graph(*operations: Any, others: Sequence[NpuProgram] = ()) -> Any:
    """A workload of these operations."""
    return lambda context: ExecutionGraph(operations, context.platform.logical_dimensions(), (), others=tuple(others))


def collective(**fields: Any) -> Communicate:
    """An all-reduce."""
    return attrs.evolve(Communicate((), Collective.ALL_REDUCE, 64, (0,), -1, Pass.FORWARD), **fields)


def odd(*operations: Any) -> NpuProgram:
    """A program of half of the NPUs."""
    return NpuProgram(operations, (1, 3, 5, 7))


def another_every_time(context: Context) -> ExecutionGraph:
    return ExecutionGraph([Compute((), next(CALLS) + 1)], context.platform.logical_dimensions(), ())


BROKEN_WORKLOADS = {
    "no graph": (lambda context: 3, "not an ExecutionGraph"),
    "no operations": (graph(), "has no operations"),
    "waits for what comes later": (graph(Compute((1,), 10), Compute((), 10)), "waits for operation 1"),
    "a dimension that is not there": (graph(collective(dimensions=(7,))), "dimension 7 of 2"),
    "negative time": (graph(Compute((), -10)), "duration_ps -10"),
    "negative bytes": (graph(collective(bytes=-10)), "has bytes -10"),
    "a send without a receive": (graph(Send((), shift(1), 64)), "NPU 0 sends 1 messages of 64 bytes with tag 0 to NPU 1, which receives 0"),
    "a receive without a send": (graph(Receive((), shift(1), 64)), "which receives 1"),
    "wait for each other": (
        graph(Receive((), shift(1), 64), Send((0,), shift(-1), 64)),
        "cannot finish",
    ),
    "a group without a member": (graph(collective(group=(1, 3))), "NPU 0, which runs it, is not a member"),
    "unlike collectives": (
        graph(collective(group=(0, 1, 2, 3, 4, 5, 6, 7)), others=[odd(collective(group=(0, 1, 2, 3, 4, 5, 6, 7), bytes=128))]),
        "collective number 1 of its group",
    ),
    "another every time": (another_every_time, "made anew"),
}


@pytest.mark.parametrize("name", BROKEN_WORKLOADS)
def test_a_workload_that_breaks_its_contract_is_told(check: Check, name: str) -> None:
    factory, words = BROKEN_WORKLOADS[name]
    fails(check("workload", factory), words)


def computes(program: LayeredProgram, iterations: int) -> None:
    for _ in range(iterations):
        program.compute(0, Pass.FORWARD)


def by_chance(program: LayeredProgram) -> None:
    layer = next(CALLS) % 2
    for _ in program.iterations():
        program.compute(layer, Pass.FORWARD)


def only_steps(program: LayeredProgram) -> None:
    for _ in program.iterations():
        program.idle(1000)


BROKEN_LOOPS = {
    "nothing": (lambda program: None, "wrote no operation"),
    "only the first iteration": (lambda program: computes(program, 2), "nothing in iteration 1 of 2"),
    "no layer": (only_steps, "none of its operations belongs to one of the 4 layers"),
    "a layer that is not there": (lambda program: program.compute(99, Pass.FORWARD), "IndexError"),
    "by chance": (by_chance, "made anew"),
}


@pytest.mark.parametrize("name", BROKEN_LOOPS)
def test_a_training_loop_that_breaks_its_contract_is_told(check: Check, name: str) -> None:
    loop, words = BROKEN_LOOPS[name]
    fails(check("training_loop", loop), words)


# -- The command -------------------------------------------------------------------------------------------------------


def test_a_component_that_hangs_is_named_and_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(HANGING)
    path = {**os.environ, "PYTHONPATH": str(tmp_path)}
    information = tmp_path / "hanging-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: hanging\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[astra_sim]\nhanging = hanging\n")
    command = [sys.executable, "-m", "astra_sim", "plugins", "check", "hanging", "--timeout"]
    # Compute models come before memory models: the line of the first is there while the second hangs.
    with subprocess.Popen([*command, "600"], env=path, stdout=subprocess.PIPE, text=True) as checking:
        assert checking.stdout is not None
        assert checking.stdout.readline() == "ok     compute well\n"
        checking.send_signal(signal.SIGINT)
        assert "memory" not in checking.stdout.read()
    done = subprocess.run([*command, "1"], env=path, capture_output=True, text=True, check=False)
    lines = [
        "ok     compute well",
        "FAILED memory stuck",
        "       the check of memory stuck has not ended after 1 s (--timeout); expected an end",
    ]
    assert (done.returncode, done.stdout.splitlines()) == (1, [*lines, "ok     report late"])
    done = subprocess.run([*command, "1", "--json"], env=path, capture_output=True, text=True, check=False)
    assert [row["name"] for row in json.loads(done.stdout) if row["problem"] is None] == ["well", "late"]


HANGING = """
import time
from astra_sim import Provider, hookimpl
from astra_sim_devkit.testing.bench import BenchCompute

def stuck():
    time.sleep(3600)

def late(results, folder):
    print("not a result")
    folder.write("late.txt", "late")

@hookimpl
def astra_computes():
    return [Provider("well", "A model", BenchCompute)]

@hookimpl
def astra_memories():
    return [Provider("stuck", "A model", stuck)]

@hookimpl
def astra_reports():
    return [Provider("late", "A report", late)]
"""


@pytest.mark.parametrize("name", ["training-loop:data", "training_loop:data"])
def test_one_component_is_checked_by_its_kind_and_name(name: str) -> None:
    done = CliRunner().invoke(astra, ["plugins", "check", name])
    assert (done.exit_code, done.output) == (0, "ok     training_loop data\n")


@pytest.mark.parametrize("seconds", ["0", "-1", "soon"])
def test_a_timeout_is_a_number_of_seconds(seconds: str) -> None:
    assert CliRunner().invoke(astra, ["plugins", "check", "training-loop:data", "--timeout", seconds]).exit_code == 2


# -- Runs with what the check finds ------------------------------------------------------------------------------------


class Widens(RouteDelayNetwork):
    """Makes the links of the platform wider, so that it is not faster than they are."""

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        object.__setattr__(platform.dimensions[0], "link_bandwidth", 1e9)

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        return 1


@ENGINES
def test_a_run_whose_platform_was_changed_is_an_error_and_the_next_is_right(engine: str) -> None:
    right = run(engine)
    with pytest.raises(PluginError, match=r"changed the platform.*dimension 0: link_bandwidth was 25.0 and is 1000000000.0"):
        run(engine, network=Widens)
    assert run(engine).finish_ns == right.finish_ns


@ENGINES
@pytest.mark.parametrize("symmetry", [True, False])
def test_a_run_whose_system_plans_nothing_is_an_error(engine: str, symmetry: bool) -> None:
    with pytest.raises(PluginError, match="planned nothing for an all_reduce of 4096 bytes"):
        run(engine, system=lambda context: Changed(lambda chunks: [], context), symmetry=symmetry)


def test_a_report_that_changes_results_changes_its_own(tmp_path: Path) -> None:
    def halved(results: list[astra_sim.Result], folder: Any) -> None:
        for result in results:
            result.finish_ns /= 2
            result.network.clear()
            result.dimensions[0].bytes = 0
            result.audit.clear()
        folder.write(f"{folder.author}.txt", f"{results[0].finish_ns}")
        results.clear()

    plugins = Plugins()
    hook = hookimpl(lambda: [Provider(name, WORDS, halved) for name in ("mine", "other")], specname=KINDS["report"])
    plugins.register(type("Mine", (), {KINDS["report"]: staticmethod(hook)})(), "mine")
    result = run("python")
    before = result.to_dict()
    files = astra_sim.write_reports(result, tmp_path, ["mine", "other"], plugins=plugins)
    assert {file.read_text() for file in files[1:]} == {f"{result.finish_ns / 2}"}
    assert result.to_dict() == before


# -- Options -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class Delay:
    """Options of a network."""

    delay_ps: int = option(help="delay of every message", unit="ps")


def delayed(options: Delay, platform: Platform) -> RouteDelayNetwork:
    return Flat(platform, lambda size: options.delay_ps)


def test_the_contract_is_run_with_every_example(check: Check) -> None:
    assert check("network", delayed, options=Delay, examples=[{"delay_ps": 5}])[0] == 0
    done = check("network", delayed, options=Delay, examples=[{"delay_ps": 5}, {"delay_ps": -5}])
    fails(done, "with delay_ps=-5", "a time of at least 0")


def test_a_component_that_cannot_be_tried_is_not_said_to_be_well(check: Check) -> None:
    status, text = check("network", delayed, options=Delay)
    assert status == 0
    assert text.startswith("loads  network mine")
    assert "delay_ps must be given, and it offers no examples" in text


def test_examples_may_write_files(check: Check, tmp_path: Path) -> None:
    def examples(folder: Path) -> list[dict[str, Any]]:
        (folder / "delay").write_text("7")
        (tmp_path / "folder").write_text(str(folder))
        return [{"delay_ps": int((folder / "delay").read_text())}]

    assert check("network", delayed, options=Delay, examples=examples)[0] == 0
    assert not Path((tmp_path / "folder").read_text()).exists()


@pytest.mark.parametrize(
    "examples",
    [3, [3], lambda folder: None, lambda folder: 1 // 0, [{"dealy_ps": 3}]],
    ids=["a number", "a list of numbers", "a function without an answer", "a function that fails", "an unknown option"],
)
def test_examples_that_are_none_are_told(check: Check, examples: Any) -> None:
    fails(check("network", delayed, options=Delay, examples=examples), "mine")


def test_the_reason_is_in_the_answer_of_check_component() -> None:
    provider = Provider("mine", WORDS, delayed, Delay)
    assert "delay_ps" in check_component("network", provider)
    assert check_component("network", attrs.evolve(provider, examples=[{"delay_ps": 1}])) == ""
