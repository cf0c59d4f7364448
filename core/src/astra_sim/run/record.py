"""What is kept of a run: moments of NPU 0, and totals of all NPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from astra_sim._boundary import call
from astra_sim.engine import CONTROL_BYTES, Engine, PhaseStepRecords
from astra_sim.graph import ExecutionGraph, NpuProgram, Operation, ProgramTimes, Receive, Send, peer_of
from astra_sim.rows import Rows, column
from astra_sim.run.collectives import CollectiveLowering
from astra_sim.run.described_plans import PlannedPhase
from astra_sim.run.inputs import RunInputs
from astra_sim.run.npu_times import NpuTimes, times_of_npus
from astra_sim.run.routes import Routes
from astra_sim.run.symmetry import Choice
from astra_sim.system import PhasePlan

if TYPE_CHECKING:
    from astra_sim.run.critical_path import CriticalPath


class PhaseRecord(NamedTuple):
    """A phase of a chunk on NPU 0: where it belongs, when it was queued, started and ended (picoseconds), and its messages.

    `dimensions` are those of the program in which it counts.
    """

    operation: int
    chunk: int
    phase: int
    plan: PhasePlan
    dimensions: tuple[int, ...]
    queued_ps: int
    started_ps: int
    ended_ps: int
    delay_sum: int
    received: int


@attrs.frozen(eq=False, repr=False)
class PhaseRecords:
    """The phases of all chunks on NPU 0, in the order in which they were issued. `records` say which of the planned ones each is."""

    records: PhaseStepRecords
    planned: Sequence[PlannedPhase]

    def __iter__(self) -> Iterator[PhaseRecord]:
        for task, step, queued, started, ended, delay_sum, received in self.records:
            planned = self.planned[step]
            if planned.cost is not None:
                delay_sum, received = planned.cost.delay_sum, planned.cost.received
            place = planned.chunk, planned.phase, planned.plan, tuple(planned.sent)
            yield PhaseRecord(task, *place, queued, started, ended, delay_sum, received)


@attrs.frozen(eq=False, repr=False)
class Sends:
    """The messages that operations of an NPU send: number of the operation and when it began (picoseconds).

    `sent` says for each kind of operation the dimensions of the program in which a message counts, with its bytes.
    """

    operation: Sequence[int]
    begun_ps: Sequence[int]
    sent: Sequence[Mapping[int, int]]


@attrs.frozen(eq=False, repr=False)
class NpuRecord:
    """What happened on an NPU: when its operations were ready and ended (picoseconds), the phases of its chunks, its messages.

    It is the first of `npus` NPUs that run the same program.
    """

    npu: int
    npus: int
    operations: Sequence[Operation]
    begin_ps: Sequence[int]
    end_ps: Sequence[int]
    phases: PhaseRecords
    sends: Sends


@attrs.define(slots=True)
class RunRecord:
    """What happened on NPU 0: begin and end of every operation of the graph and of every phase, and totals of the run.

    `rows` are its operations in columns.

    An operation that is a collective begins when it is issued. `npu_end_ps` is when each simulated NPU had done its last operation. All
    these moments include `start_ps`, when the workload starts: what the network answers to `begin`. `observed` is that of the first NPU
    of each program, that of NPU 0 first; of NPU 0 alone where no timelines were asked for. `npu_times` are those of every
    simulated NPU and `path` is the critical path, where they were asked for.
    """

    start_ps: int
    finish_ps: int
    rows: Rows[Operation]
    begin_ps: Sequence[int]
    end_ps: Sequence[int]
    phases: PhaseRecords
    sends: Sends
    npu_end_ps: list[int]
    payload: list[int]
    messages: int
    simulated_npus: int
    events: int
    figures: Mapping[str, Any]
    observed: list[NpuRecord]
    npu_times: list[NpuTimes] | None = None
    path: CriticalPath | None = None


def observe(engine: Engine, programs: Sequence[NpuProgram]) -> list[NpuProgram]:
    """Let an engine keep the moments of the first NPU of each program, before it has them.

    Returns these programs. Of programs that are the same object the first NPU is that of the first of them.
    """
    first = {id(program.operations): program for program in reversed(programs)}
    observed = [program for program in programs if first[id(program.operations)] is program]
    for program in observed:
        engine.observe(program.npus[0])
    return observed


def make_record(
    inputs: RunInputs,
    choice: Choice,
    operations: Sequence[Operation],
    collectives: CollectiveLowering,
    engine: Engine,
    start_ps: int,
    observed: Sequence[NpuProgram] = (),
    timelines: bool = False,
    every_npu: Sequence[NpuProgram] = (),
) -> RunRecord:
    """The record of an engine that has finished, in which NPU 0 has run `operations`, and which has observed the first NPU of programs.

    With `timelines` it holds what happened on these NPUs. `every_npu` are the programs of which it has observed all NPUs.
    """
    npus = inputs.platform.npus
    payload, planned_messages = _moved(inputs, operations, collectives, engine)
    others = [program for program in observed if timelines and program.npus[0]]
    first, *rest = _npu_records(inputs, [NpuProgram(operations, [0]), *others], collectives, engine, start_ps)
    return RunRecord(
        start_ps,
        start_ps + engine.now,
        inputs.rows(operations),
        first.begin_ps,
        first.end_ps,
        first.phases,
        first.sends,
        _ends(choice, engine, start_ps),
        payload,
        choice.messages(planned_messages, engine.messages),
        choice.simulated(npus),
        engine.events,
        _figures(inputs.graph, engine, observed, start_ps),
        [first, *rest],
        times_of_npus(engine, choice, every_npu, npus, partial(_later, by=start_ps)) if every_npu else None,
    )


def _npu_records(
    inputs: RunInputs, programs: Sequence[NpuProgram], collectives: CollectiveLowering, engine: Engine, start_ps: int
) -> list[NpuRecord]:
    """The records of the first NPUs of programs."""
    npus: Counter[int] = Counter()
    for program in inputs.graph.programs(inputs.platform.npus):
        npus[id(program.operations)] += len(program.npus)
    records = []
    for program in programs:
        npu, operations = program.npus[0], program.operations
        begin, end = (_later(times, start_ps) for times in engine.times(npu))
        phases = PhaseRecords(_phases_later(engine.phase_steps(npu), start_ps), collectives.planned)
        sends = _sends(inputs, npu, operations, engine, start_ps)
        records.append(NpuRecord(npu, npus[id(operations)], operations, begin, end, phases, sends))
    return records


def _figures(graph: ExecutionGraph, engine: Engine, observed: Sequence[NpuProgram], start_ps: int) -> Mapping[str, Any]:
    """The figures that the workload has of its own."""
    if graph.figures is None:
        return {}
    times = []
    for program in observed:
        ready, ended = engine.times(program.npus[0])
        sends, begun = engine.sends(program.npus[0])
        times.append(ProgramTimes(program, _later(ready, start_ps), _later(ended, start_ps), sends, _later(begun, start_ps)))
    figures: Mapping[str, Any] = call("figures of the workload", graph.figures, times, start_ps + engine.now)
    return figures


def _moved(inputs: RunInputs, operations: Sequence[Operation], collectives: CollectiveLowering, engine: Engine) -> tuple[list[int], int]:
    """Bytes that NPU 0 sends in each physical dimension, and the messages of all NPUs that collectives have planned.

    With the rendezvous protocol NPU 0 also sends the requests for what it receives.
    """
    payload, messages = [0] * len(inputs.platform.dimensions), 0
    for traffic, uses in zip(collectives.traffic, engine.uses(), strict=True):
        messages += traffic.messages * uses
        for dimension, size in enumerate(traffic.payload):
            payload[dimension] += size * uses
    rows = inputs.rows(operations)
    counts = Counter(rows.kind_of)
    for number, kind in enumerate(rows.kinds):
        if isinstance(kind, Send) or (isinstance(kind, Receive) and inputs.system.rendezvous):
            dimension = inputs.network.route(0, peer_of(kind, 0, inputs.platform.npus)).dimension
            payload[dimension] += counts[number] * (kind.bytes if isinstance(kind, Send) else CONTROL_BYTES)
    return payload, messages


def _sends(inputs: RunInputs, npu: int, operations: Sequence[Operation], engine: Engine, start_ps: int) -> Sends:
    """The messages that operations of an NPU send."""
    routes = Routes(inputs.network)
    sent: list[Mapping[int, int]] = []
    for kind in inputs.rows(operations).kinds:
        number = None
        if isinstance(kind, Send):
            number = routes.charged(peer_of(kind, npu, inputs.platform.npus), inputs.graph.dimensions, npu)
        sent.append({number: kind.bytes} if isinstance(kind, Send) and number is not None else {})
    tasks, begun = engine.sends(npu)
    return Sends(tasks, _later(begun, start_ps), sent)


def _ends(choice: Choice, engine: Engine, start_ps: int) -> list[int]:
    """When each NPU ended, or the one that stands for all."""
    times = [start_ps + max(time, 0) for time in engine.ended_at()]
    for one in choice.classes:
        for npu in one.members:
            times[npu] = times[one.representative]
    return times


def _phases_later(records: PhaseStepRecords, by: int) -> PhaseStepRecords:
    """Records of the engine, which counts from the start of the workload, as so much later ones (picoseconds)."""
    return attrs.evolve(
        records,
        queued_at=_later(records.queued_at, by),
        started_at=_later(records.started_at, by),
        ended_at=_later(records.ended_at, by),
    )


def _later(times: Sequence[int], by: int) -> Sequence[int]:
    """Moments as so much later ones (picoseconds)."""
    return column((time + by for time in times), "q") if by else times
