"""The record of a run: moments of NPU 0, and totals of all NPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from astra_sim._boundary import FIGURES, call, function_name, shown
from astra_sim.engine.interface import CONTROL_BYTES, Engine, EngineType, LinkKind, PhaseStepRecords
from astra_sim.errors import PluginError
from astra_sim.graph import Figure, NpuProgram, Operation, ProgramTimes, Receive, Send, counts_by_platform, peer_of
from astra_sim.rows import Rows
from astra_sim.run.described_plans import PlannedPhase
from astra_sim.run.finished import FinishedRun
from astra_sim.run.npu_durations import NpuDurations
from astra_sim.run.npu_times import NpuTimes, times_of_npus
from astra_sim.run.routes import RunRoutes
from astra_sim.run.symmetry import ScopeSelection
from astra_sim.system import PhasePlan

if TYPE_CHECKING:
    from astra_sim.run.critical_path import CriticalPath


class PhaseRecord(NamedTuple):
    """A phase of a chunk on NPU 0: its chunk, when it was queued, started and ended (picoseconds), and its messages.

    `dimensions` are those in which it counts (`graph.accounting_dimensions`).
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
    """The phases of all chunks on NPU 0, in the order in which they were issued. `records` are their numbers among the planned ones."""

    records: PhaseStepRecords
    planned: Sequence[PlannedPhase]

    def __iter__(self) -> Iterator[PhaseRecord]:
        for task, step, queued, started, ended, delay_sum, received in self.records:
            planned = self.planned[step]
            if planned.cost is not None:
                delay_sum, received = planned.cost.delay_sum, planned.cost.received
            place = planned.chunk, planned.phase, planned.plan, tuple(planned.sent)
            yield PhaseRecord(task, *place, queued, started, ended, delay_sum, received)


class Sends(NamedTuple):
    """The messages that operations of an NPU send: number of the operation and when it began (picoseconds).

    `sent` has for each kind of operation the dimensions in which a message counts (`graph.accounting_dimensions`), with its bytes.
    """

    operation: Sequence[int]
    begun_ps: Sequence[int]
    sent: Sequence[Mapping[int, int]]


class NpuRecord(NamedTuple):
    """The record of an NPU: when its operations were ready and ended (picoseconds), the phases of its chunks, its messages.

    It is the first of `npus` NPUs that run the same program; if others of them have a record, too, of those that it represents.
    """

    npu: int
    npus: int
    operations: Sequence[Operation]
    begin_ps: Sequence[int]
    end_ps: Sequence[int]
    phases: PhaseRecords
    sends: Sends


class CarriedMessage(NamedTuple):
    """A message of a collective that has arrived: its ends, its bytes, when it was sent and arrived (picoseconds), and its phase.

    `chunk` and `phase` are those of the collective `operation`, which has this `number` in the receiver's program, and `sent_by` in
    the sender's; -1 if that is another program.
    """

    source: int
    destination: int
    bytes: int
    begin_ps: int
    end_ps: int
    operation: Operation
    number: int
    sent_by: int
    chunk: int
    phase: int


@attrs.define(slots=True)
class RunRecord:
    """The record of NPU 0: begin and end of every operation of the graph and of every phase, and totals of the run.

    `rows` are its operations in columns, after those of its program those of its composites (`composites`).

    An operation that is a collective begins when it is issued. `npu_end_ps` is when each simulated NPU had done its last operation. All
    these moments include `start_ps`, when the workload starts: the network's answer to `begin`. `observed` is that of the NPUs that
    have a timeline (`timeline_npus`), that of NPU 0 first; of NPU 0 alone if no timelines were asked for. `planned` are the phases
    that any NPU has planned; those of collectives in composites come last. `npu_times` are those of every simulated NPU, `path` is the
    critical path, and `carried` are the messages of collectives that observed NPUs send or receive, if they were asked for.
    `durations` are the compute times, if they differ between NPUs; all operations in this record have them. `engine` is what
    ran.
    """

    start_ps: int
    finish_ps: int
    rows: Rows[Operation]
    npu_end_ps: list[int]
    payload: list[int]
    messages: int
    simulated_npus: int
    events: int
    figures: Mapping[str, Any]
    observed: list[NpuRecord]
    planned: Sequence[PlannedPhase]
    npu_times: list[NpuTimes] | None = None
    path: CriticalPath | None = None
    carried: list[CarriedMessage] | None = None
    durations: NpuDurations | None = None
    every_npu_reason: str = ""
    engine: EngineType = attrs.field(kw_only=True)

    @property
    def begin_ps(self) -> Sequence[int]:
        """When the operations of NPU 0 were ready, or issued."""
        return self.observed[0].begin_ps

    @property
    def end_ps(self) -> Sequence[int]:
        """When they ended."""
        return self.observed[0].end_ps

    @property
    def phases(self) -> PhaseRecords:
        """The phases of the chunks of NPU 0."""
        return self.observed[0].phases

    @property
    def sends(self) -> Sends:
        """The messages that operations of NPU 0 send."""
        return self.observed[0].sends


def observe(engine: Engine, programs: Sequence[NpuProgram]) -> list[NpuProgram]:
    """Let an engine keep the moments of the first NPU of each program, before it has them.

    Returns these programs. Of programs that are the same object the first NPU is that of the first of them.
    """
    # Reversed, because the last entry of a key remains: it is to be the first program.
    first = {id(program.operations): program for program in reversed(programs)}
    observed = [program for program in programs if first[id(program.operations)] is program]
    for program in observed:
        engine.record.observe(program.npus[0])
    return observed


def carried_by(run: FinishedRun, npus: Collection[int]) -> list[CarriedMessage]:
    """The messages of collectives that some NPUs send or receive, in the order of their arrival."""
    carried_messages = []
    program_of = {npu: program.operations for program in run.programs for npu in program.npus}
    for link in run.engine.record.carried():
        if link.kind is LinkKind.MESSAGE and link.step >= 0 and (link.npu in npus or link.to in npus):
            phase = run.collectives.planned[link.step]
            times = run.start_ps + link.begin, run.start_ps + link.end
            operations = program_of.get(link.to, program_of[link.npu])  # if one NPU represents all, also for this one
            sent_by = link.task if program_of[link.npu] is operations else -1
            operation = operations[link.task]
            carried_messages.append(
                CarriedMessage(link.npu, link.to, link.bytes, *times, operation, link.task, sent_by, phase.chunk, phase.phase)
            )
    return carried_messages


MOST_TIMELINES = 64
"""NPUs that have a timeline in a run that is explained; if it has more programs, the first NPU of each."""
MOST_OPERATIONS = 1_000_000
"""Operations of these NPUs, beyond those of the first of each program."""


def timeline_npus(
    programs: Sequence[NpuProgram], observed: Sequence[NpuProgram], path: CriticalPath | None, choice: ScopeSelection
) -> list[tuple[NpuProgram, int]]:
    """The NPUs that have a timeline beside NPU 0: each as a program of its own, with how many NPUs it represents.

    They are the first of each program that was `observed`. With a `path` they are all that were simulated, unless these are too many: then
    those on the path, and others by number, up to MOST_TIMELINES and MOST_OPERATIONS.
    """
    firsts = [(program, program.npus[0]) for program in observed]
    if path is None:
        return [(NpuProgram(program.operations, (npu,)), 0) for program, npu in firsts if npu]
    chosen = {npu for _, npu in firsts} | {0}
    on_path = dict.fromkeys(part.npu for part in path.segments)
    others = sorted(
        ((npu, program) for program in programs for npu in program.npus if npu not in chosen),
        key=lambda each: (each[0] not in on_path, each[0]),
    )
    left, room = MOST_OPERATIONS, max(0, MOST_TIMELINES - len(chosen))
    result = [(npu, program) for program, npu in firsts if npu]
    for npu, program in others[:room]:
        left -= len(program.operations)
        if left < 0:
            break
        result.append((npu, program))
    return [(NpuProgram(program.operations, (npu,)), choice.stands_for(npu)) for npu, program in sorted(result, key=lambda each: each[0])]


def make_record(
    run: FinishedRun, observed: Sequence[NpuProgram] = (), shown: Sequence[tuple[NpuProgram, int]] = (), npu_times: bool = False
) -> RunRecord:
    """The record of a run whose engine has `observed` the first NPU of programs.

    It holds the record of NPU 0, and of those that are `shown` (`timeline_npus`). `npu_times`: the engine has observed all NPUs.
    """
    inputs, choice, engine, durations = run.inputs, run.choice, run.engine, run.durations
    payload, planned_messages = _moved(run)
    more_payload, more_messages = _moved_by_composites(run)
    alone = any(count for _, count in shown)
    own = NpuProgram(run.operations, (0,)), choice.stands_for(0) if alone else 0
    return RunRecord(
        start_ps=run.start_ps,
        finish_ps=run.start_ps + engine.now,
        rows=inputs.expanded(run.operations).rows if durations is None else durations.rows(0),
        npu_end_ps=_ends(run),
        payload=list(map(add, payload, more_payload)),
        messages=choice.messages(planned_messages, engine.messages) + more_messages,
        simulated_npus=choice.simulated(inputs.platform.npus),
        events=engine.events,
        figures=_figures(run, observed),
        observed=_npu_records(run, [own, *shown]),
        planned=[*run.collectives.planned, *inputs.composites.planned()],
        npu_times=times_of_npus(run) if npu_times else None,
        durations=durations,
        every_npu_reason=choice.reason,
        engine=inputs.engine,
    )


def _npu_records(run: FinishedRun, programs: Sequence[tuple[NpuProgram, int]]) -> list[NpuRecord]:
    """The records of the first NPUs of programs, each with how many it represents; 0: all of its program."""
    inputs, engine = run.inputs, run.engine
    npus: Counter[int] = Counter()
    for program in inputs.graph.programs(inputs.platform.npus):
        npus[id(program.operations)] += len(program.npus)
    records = []
    for program, count in programs:
        npu, operations = program.npus[0], program.operations
        begin, end = map(run.later, engine.record.times(npu))
        expanded = inputs.expanded(operations)
        steps = engine.record.phase_steps(npu)
        moments = {name: run.later(getattr(steps, name)) for name in ("queued_at", "started_at", "ended_at")}
        phases = PhaseRecords(*expanded.phases(attrs.evolve(steps, **moments), run.collectives.planned, end))
        begin, end = expanded.times(begin, end)
        sends = _sends(run, npu, expanded.rows)
        records.append(NpuRecord(npu, count or npus[id(operations)], run.recorded(npu, operations), begin, end, phases, sends))
    return records


def _moved_by_composites(run: FinishedRun) -> tuple[list[int], int]:
    """The communication of composites: bytes that NPU 0 sends in each dimension, and messages of all NPUs."""
    inputs = run.inputs
    npus, dimensions = inputs.platform.npus, len(inputs.platform.dimensions)
    payload, _ = inputs.composites.moved(inputs.rows(run.operations), dimensions)
    messages = 0
    for program in inputs.graph.programs(npus) if inputs.composites.any else ():
        messages += inputs.composites.moved(inputs.rows(program.operations), dimensions)[1] * len(program.npus) // npus
    return payload, messages


def _figures(run: FinishedRun, observed: Sequence[NpuProgram]) -> Mapping[str, Any]:
    """The figures that the workload has of its own."""
    graph, engine = run.inputs.graph, run.engine
    if graph.figures is None:
        return {}
    times = []
    for program in observed:
        ready, ended = engine.record.times(program.npus[0])
        sends, begun = engine.record.sends(program.npus[0])
        moments = run.later(ready), run.later(ended), sends, run.later(begun)
        times.append(ProgramTimes(program, *moments, run.inputs.composites.within))
    what = "figures of the workload" + function_name(graph.figures)
    figures: Mapping[str, Any] = call(what, graph.figures, times, run.start_ps + engine.now)
    if not isinstance(figures, Mapping) or not FIGURES.is_right({name: _value(each) for name, each in figures.items()}, graph):
        raise PluginError(f"{what} are {shown(figures)}; expected {FIGURES.words}")
    return figures


def _value(figure: Any) -> Any:
    """The part of a figure that is ready for JSON."""
    return [figure.value, figure.label, figure.unit, figure.note] if isinstance(figure, Figure) else figure


def _moved(run: FinishedRun) -> tuple[list[int], int]:
    """Bytes that NPU 0 sends in each physical dimension, and the messages of all NPUs that collectives have planned.

    With the rendezvous protocol NPU 0 also sends the requests for its received messages.
    """
    inputs = run.inputs
    payload, messages = [0] * len(inputs.platform.dimensions), 0
    for traffic, uses in zip(run.collectives.traffic, run.engine.record.uses(), strict=True):
        messages += traffic.messages * uses
        for dimension, size in enumerate(traffic.payload):
            payload[dimension] += size * uses
    rows = inputs.rows(run.operations)
    counts = Counter(rows.kind_of)
    for number, kind in enumerate(rows.kinds):
        if isinstance(kind, Send) or (isinstance(kind, Receive) and inputs.system.rendezvous):
            dimension = inputs.network.route(0, peer_of(kind, 0, inputs.platform.npus)).dimension
            payload[dimension] += counts[number] * (kind.bytes if isinstance(kind, Send) else CONTROL_BYTES)
    return payload, messages


def _sends(run: FinishedRun, npu: int, rows: Rows[Operation]) -> Sends:
    """The messages that operations of an NPU send."""
    inputs = run.inputs
    routes = RunRoutes(inputs.network)
    sent: list[Mapping[int, int]] = []
    for kind in rows.kinds:
        number = None
        if isinstance(kind, Send):
            peer = peer_of(kind, npu, inputs.platform.npus)
            if counts_by_platform(inputs.graph):
                number = inputs.network.route(npu, peer).dimension
            else:
                number = routes.charged(peer, inputs.graph.dimensions, npu)
        sent.append({number: kind.bytes} if isinstance(kind, Send) and number is not None else {})
    tasks, begun = run.engine.record.sends(npu)
    return Sends(tasks, run.later(begun), sent)


def _ends(run: FinishedRun) -> list[int]:
    """When each NPU ended, or the one that represents all."""
    times = [run.start_ps + max(time, 0) for time in run.engine.record.ended_at()]
    for one in run.choice.classes:
        for npu in one.members:
            times[npu] = times[one.representative]
    return times
