"""Processors that spend time on messages (LogGP's overhead o): alone, beside computing, and in its way. Times are in nanoseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import astra_sim
import pytest
from astra_sim.engine.interface import COMPUTE, RECEIVE, SEND, LinkKind, Task
from astra_sim.errors import AstraError, InputError
from astra_sim.graph import Communicate, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send, Unit
from astra_sim.graph import Compute as Computing
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.schedule import Collective, shift
from astra_sim.setup.engines import find_engine
from astra_sim_network_analytical.topologies import Ring
from hypothesis import given, settings
from hypothesis import strategies as st

ENGINES = ("python", "compiled")
NS = 1000
LATENCY, PER_BYTE = 500, 2


class Wire(RouteDelayNetwork):
    """L and G of LogGP: each message takes 500 ns and 2 ns for each byte."""

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        return (LATENCY + PER_BYTE * size) * NS


def network(npus: int = 2) -> Wire:
    return Wire(Platform((Dimension(Ring(npus, 2), npus, 1, 1.0, 1.0),)))


def graph(first: Sequence[Operation], second: Sequence[Operation] | None = None, npus: int = 2) -> ExecutionGraph:
    others = () if second is None else (NpuProgram(second, (1,)),)
    return ExecutionGraph(first, (LogicalDimension(npus, 1, 0),), (), None, others)


def run(workload: ExecutionGraph, engine: str, npus: int = 2, **options: Any) -> astra_sim.Result:
    system = {"plugin": "astra1", "endpoint_delay_ns": 0, **options}
    return astra_sim.simulate(workload=workload, network=network(npus), system=system, engine=engine, npu_times=True, explain=True)


def send(size: int = 0, after: tuple[int, ...] = ()) -> Send:
    return Send(after, shift(1), size)


def receive(size: int = 0, after: tuple[int, ...] = ()) -> Receive:
    return Receive(after, shift(1), size)


def compute(ns: int, after: tuple[int, ...] = (), **fields: Any) -> Computing:
    return Computing(after, ns * NS, **fields)


def spent(result: astra_sim.Result) -> dict[str, float]:
    """What the critical path spends, by kind."""
    assert result.explanation is not None
    results: dict[str, float] = {}
    for row in result.explanation.path:
        results[row.kind] = results.get(row.kind, 0) + row.ns
    assert sum(results.values()) == pytest.approx(result.finish_ns)
    return results


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# -- messages alone ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["compute", "network"])
def test_a_message_takes_both_overheads_and_the_network(engine: str, place: str) -> None:
    options: dict[str, Any] = {"send_overhead_ns": 30, "receive_overhead_ns": 70, "overhead_per_byte_ns": 0.5, "overhead_on": place}
    result = run(graph([send(100)], [receive(100)]), engine, **options)
    assert result.finish_ns == (30 + 50) + (LATENCY + 2 * 100) + (70 + 50)
    assert spent(result) == {"overhead": 200, "latency": 500, "bandwidth": 200}


def test_a_round_trip_takes_four_overheads(engine: str) -> None:
    result = run(graph([send(), receive(0, (0,))], [receive(), send(0, (0,))]), engine, send_overhead_ns=30, receive_overhead_ns=30)
    assert result.finish_ns == 2 * (LATENCY + 2 * 30)


@pytest.mark.parametrize(("sending", "receiving", "end"), [(40, 0, 5 * 40), (40, 10, 5 * 40 + 10), (10, 40, 10 + 5 * 40)])
def test_messages_go_through_a_processor_one_after_another(engine: str, sending: int, receiving: int, end: int) -> None:
    result = run(graph([send()] * 5, [receive()] * 5), engine, send_overhead_ns=sending, receive_overhead_ns=receiving)
    assert result.finish_ns == LATENCY + end
    assert result.messages == 5


def test_a_collective_spends_them_on_each_message(engine: str) -> None:
    # A ring of 4: three steps, each of a message of a quarter, of which the next step waits.
    gather = [Communicate((), Collective.ALL_GATHER, 100, (0,), -1, Pass.FORWARD, blocking=True)]
    plain = run(graph(gather, npus=4), engine, 4, all_gather="ring")
    slow = run(graph(gather, npus=4), engine, 4, all_gather="ring", send_overhead_ns=30, receive_overhead_ns=70)
    assert plain.finish_ns == 3 * (LATENCY + 2 * 100)
    assert slow.finish_ns == plain.finish_ns + 3 * (30 + 70)
    assert (plain.simulated_npus, slow.simulated_npus) == (1, 4)
    assert (plain.every_npu_reason, slow.every_npu_reason) == ("", "the system has an overhead of messages")
    assert plain.network["payload_bytes"] == slow.network["payload_bytes"]
    assert (slow.messages, spent(slow)["overhead"]) == (plain.messages, 300)


def test_requests_are_messages(engine: str) -> None:
    workload = graph([send()], [receive()])
    options: dict[str, Any] = {"workload": workload, "network": network(), "engine": engine, "rendezvous": True}
    plain = astra_sim.simulate(**options)
    slow = astra_sim.simulate(**options, system="plugin:astra1?send_overhead_ns=30&receive_overhead_ns=70")
    assert slow.finish_ns == plain.finish_ns + 2 * (30 + 70)


# -- beside computing --------------------------------------------------------------------------------------------------


def test_a_message_waits_for_what_its_sender_computes(engine: str) -> None:
    # The processor computes first, for that is first in the program.
    result = run(graph([compute(1000), send()], [receive()]), engine, send_overhead_ns=30)
    assert result.finish_ns == 1000 + 30 + LATENCY
    assert spent(result) == {"processor": 1000, "overhead": 30, "latency": 500}


def test_computing_waits_for_the_message_that_comes_before(engine: str) -> None:
    result = run(graph([send(), compute(1000)], [receive()]), engine, send_overhead_ns=30)
    assert result.npu_finish_ns == pytest.approx([1030, 530])
    assert result.compute_ns == 1000
    assert spent(result) == {"processor": 30, "compute": 1000}


def test_a_message_waits_for_what_its_receiver_computes_and_delays_what_comes_next(engine: str) -> None:
    # It is there after 530 ns, while NPU 1 does the first operation; its overhead comes before the second one.
    second: list[Operation] = [receive(), compute(800), compute(400, (1,))]
    result = run(graph([send()], second), engine, send_overhead_ns=30, receive_overhead_ns=70)
    assert result.npu_finish_ns == pytest.approx([870, 1270])
    assert spent(result) == {"compute": 1200, "processor": 70}


def test_what_is_asked_of_a_processor_later_comes_later(engine: str) -> None:
    # Both operations are ready at once: the message, there after 500 ns, comes after both.
    result = run(graph([send()], [receive(), compute(400), compute(400)]), engine, receive_overhead_ns=70)
    assert result.npu_finish_ns == pytest.approx([870, 870])


def test_another_processor_leaves_computing_alone(engine: str) -> None:
    workload = graph([send(), compute(1000)], [receive(), compute(800), compute(400, (1,))])
    result = run(workload, engine, send_overhead_ns=30, receive_overhead_ns=70, overhead_on="network")
    assert result.npu_finish_ns == pytest.approx([1000, 1200])
    arrived = run(graph([send()], [receive()]), engine, send_overhead_ns=30, receive_overhead_ns=70, overhead_on="network")
    assert arrived.finish_ns == 600


@pytest.mark.parametrize("fields", [{"idle": True}, {"unit": Unit.CPU}])
def test_what_the_accelerator_does_not_do_waits_for_no_message(engine: str, fields: dict[str, Any]) -> None:
    result = run(graph([send(), compute(1000, **fields)], [receive()]), engine, send_overhead_ns=30)
    assert result.finish_ns == 1000


def test_slow_npus_compute_from_when_their_processor_is_free(engine: str) -> None:
    workload = graph([send(), compute(2000)], [receive()])
    # Twice as slow from 650 ns on: 50 ns of work are done before.
    result = astra_sim.simulate(
        workload=workload,
        network=network(),
        system="plugin:astra1?send_overhead_ns=600",
        engine=engine,
        slow_npus="0:2@650ns-",
        explain=True,
    )
    assert (result.compute_ns, result.finish_ns) == (50 + 2 * 1950, 650 + 2 * 1950)
    assert spent(result) == {"processor": 600, "compute": 3950}


# -- tables ------------------------------------------------------------------------------------------------------------


def test_tables_add_up(engine: str) -> None:
    gather = Communicate((), Collective.ALL_GATHER, 100, (0,), -1, Pass.FORWARD)
    workload = graph([gather, compute(300), compute(300, (1,)), compute(300, (2,))], npus=4)
    plain = run(workload, engine, 4, all_gather="ring")
    slow = run(workload, engine, 4, all_gather="ring", send_overhead_ns=30, receive_overhead_ns=70)
    assert plain.compute_ns == slow.compute_ns == 900
    assert slow.finish_ns > plain.finish_ns
    assert slow.exposed_comm_ns == slow.finish_ns - slow.compute_ns
    for each in slow.unit_times():
        assert each.accelerator_ns == 900
    assert sum(spent(slow).values()) == pytest.approx(slow.finish_ns)


def test_a_timeline_shows_computing_when_its_processor_does_it(engine: str) -> None:
    workload = graph([send(), compute(1000)], [receive()])
    result = astra_sim.simulate(
        workload=workload, network=network(), system="plugin:astra1?send_overhead_ns=30", engine=engine, timelines=True
    )
    spans = {each.name: (each.begin_ns, each.end_ns) for each in result.timelines()[0]}
    assert (30, 1030) in spans.values()
    assert (0, 530) in spans.values()


# -- the hook ----------------------------------------------------------------------------------------------------------


def test_a_system_may_have_a_function_of_its_own(engine: str) -> None:
    result = astra_sim.simulate(
        workload=graph([send(64)], [receive(64)]), network=network(), system=made(lambda size: size**2), engine=engine
    )
    assert result.finish_ns == LATENCY + 2 * 64 + 64**2 / NS


@pytest.mark.parametrize("answer", [-1, "5", None, 1 << 63])
def test_what_is_no_time_is_an_error(engine: str, answer: Any) -> None:
    with pytest.raises(AstraError, match=r"system Astra1System: send_overhead_ps of 64 bytes"):
        astra_sim.simulate(workload=graph([send(64)], [receive(64)]), network=network(), system=made(lambda size: answer), engine=engine)


def made(function: Any) -> Any:
    """A system whose processors take what a function says to send a message."""
    from astra_sim.setup.components import build
    from astra_sim.setup.experiment import Experiment
    from astra_sim.setup.plugins import shared_plugins

    experiment = Experiment()
    experiment.use("platform", "plugin:ring?size=2&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500", shared_plugins())
    experiment.use("workload", "plugin:collective?bytes=1", shared_plugins())
    system = build(experiment, shared_plugins()).system
    system.send_overhead_ps = function
    return system


def test_operations_that_are_simulated_as_one_are_refused() -> None:
    llm = {"plugin": "llm", "model": "gpt3-175b", "tensor_parallel": 2, "global_batch": 2, "detail": "pass", "check_memory": False}
    ring = "plugin:ring?size=2&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
    arguments: dict[str, Any] = {"workload": llm, "platform": ring, "compute": "plugin:gpu?device=h100"}
    with pytest.raises(InputError, match=r"overhead of messages.*detail=layer"):
        astra_sim.simulate(**arguments, system="plugin:astra1?send_overhead_ns=30")
    arguments["workload"] = {**llm, "detail": "layer"}
    plain, slow = (astra_sim.simulate(**arguments, system=f"plugin:astra1?send_overhead_ns={ns}") for ns in (0, 3000))
    assert slow.finish_ns > plain.finish_ns


# -- both engines ------------------------------------------------------------------------------------------------------

_TIMES = st.sampled_from([0, 1, 7, 100])


@settings(max_examples=150, deadline=None)
@given(
    programs=st.lists(st.lists(st.one_of(st.none(), _TIMES), max_size=6), min_size=2, max_size=2),
    sending=_TIMES,
    receiving=_TIMES,
    shares=st.booleans(),
    chained=st.booleans(),
)
def test_engines_agree_and_a_processor_does_one_thing_at_a_time(
    programs: list[list[int | None]], sending: int, receiving: int, shares: bool, chained: bool
) -> None:
    """Two NPUs send each other a message for each None, and compute for the other numbers."""
    answers = []
    messages = [each.count(None) for each in programs]
    for name in ENGINES:
        engine = find_engine(name)(2, network())
        engine.record.keep_causes(True)
        engine.record.observe(1)
        engine.set_overheads(lambda size, receives: receiving if receives else sending, shares)
        for npu, works in enumerate(programs):
            tasks = [Task(RECEIVE, 0, peer=shift(1)) for _ in range(messages[1 - npu])]
            for work in works:
                after = (len(tasks) - 1,) if chained and len(tasks) > messages[1 - npu] else ()
                tasks.append(Task(SEND, 0, after, peer=shift(1)) if work is None else Task(COMPUTE, work, after))
            engine.add_program(tasks, [npu], lambda task, now: [])
        engine.run()
        assert not engine.record.unfinished()
        times = [[list(each) for each in engine.record.times(npu)] for npu in range(2)]
        answers.append((engine.now, engine.events, times, engine.record.carried(), engine.record.critical_path()))
    assert answers[0] == answers[1]
    now, _, _, carried, path = answers[0]
    assert [link.end - link.begin for link in carried] == [LATENCY * NS] * sum(messages)
    assert now >= max(
        receiving * messages[1 - npu] + sending * messages[npu] + (sum(work or 0 for work in works) if shares else 0)
        for npu, works in enumerate(programs)
    )
    assert all(link.bytes == 0 and link.to >= 0 for link in path if link.kind is LinkKind.OVERHEAD)
