"""One run, from its inputs to its record."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple

from astra_sim._boundary import call, of_user, picoseconds
from astra_sim.compute import NpuPs
from astra_sim.engine.interface import Engine, EngineType, UnlikeCollectivesError
from astra_sim.errors import InputError, PluginError, RunError, warn
from astra_sim.graph import ExecutionGraph, NpuProgram
from astra_sim.limits import MAX_SIMULATED_NPUS
from astra_sim.memory import Memory
from astra_sim.network import EventNetwork, Network, RefiningNetwork
from astra_sim.run.alone import AloneRuns
from astra_sim.run.collectives import CollectiveLowering, NotSymmetricError
from astra_sim.run.communicators import Communicators
from astra_sim.run.composites import Composites
from astra_sim.run.deadlock import check_finished
from astra_sim.run.describe import OperationNames
from astra_sim.run.finished import FinishedRun
from astra_sim.run.inputs import RunInputs
from astra_sim.run.lowering import TaskLowering
from astra_sim.run.npu_durations import NpuDurations
from astra_sim.run.npu_times import observe_every_npu
from astra_sim.run.record import RunRecord, carried_by, make_record, observe, timeline_npus
from astra_sim.run.symmetry import ScheduleSymmetry, Scope, ScopeSelection, choose, every_npu
from astra_sim.system import System, SystemSession

EVENTS_PER_REPORT = 100_000

TimelineKind = bool | Literal["path", "messages"]
"""Whether there are timelines of the first NPU of each program, with the critical path, and with every message of these NPUs."""

Progress = Callable[[int, int], None]
"""Called with (simulated picoseconds, events) repeatedly. Its method `ended`, if any, is called before with (ended tasks, all tasks)."""


class Explain(NamedTuple):
    """Keep the critical path of a run. `empty_network` makes a network like the run's; None if that cannot be."""

    empty_network: Callable[[], Network | None] = lambda: None


def simulate_graph(
    graph: ExecutionGraph,
    system: System,
    network: Network,
    memory: Memory,
    engine: EngineType,
    symmetry: bool = True,
    progress: Progress | None = None,
    explain: Explain | None = None,
    timelines: TimelineKind = False,
    npu_times: bool = False,
    npu_ps: NpuPs | None = None,
) -> RunRecord:
    """Simulate a graph on the platform of the network, as little of it as gives the same answer (`docs/architecture.md`).

    Without `symmetry` every NPU and every message is simulated. With `timelines` the record has the timeline of the first NPU of each
    program ("path": and the critical path; "messages": and every message of theirs), with `explain` the critical path and the timelines of
    all that were simulated, with `npu_times` the moments of these. `npu_ps` is the compute time of each NPU; None: the same on all,
    at all times. Raises DeadlockError if the run cannot finish.
    """
    # A network that refines decides by itself which parts are simulated, on which networks, and returns one record (`auto`).
    if isinstance(network, RefiningNetwork):
        simulate = partial(simulate_graph, system=system, memory=memory, engine=engine, symmetry=symmetry, npu_ps=npu_ps)
        final = partial(simulate, progress=progress, explain=explain, timelines=timelines, npu_times=npu_times)
        simulations = _Simulations(graph, symmetry and npu_ps is None, simulate, final)
        return call(f"network {type(network).__name__}: refine", network.refine, simulations)  # type: ignore[no-any-return]
    if isinstance(network, EventNetwork):
        call(f"network {type(network).__name__}: symmetry", setattr, network, "symmetry", symmetry)
    # Composites first: their collectives run alone on the same network, which can have one run at a time.
    composites = Composites(graph, AloneRuns(simulate_graph, system, network, memory, engine), _keeps_path(explain, timelines), explain)
    inputs = RunInputs(graph=graph, system=system, network=network, memory=memory, composites=composites, engine=engine, npu_ps=npu_ps)
    schedules = ScheduleSymmetry(network, system.rendezvous)
    run = partial(_run, schedules=schedules, progress=progress, explain=explain, timelines=timelines, npu_times=npu_times)
    npus = inputs.platform.npus
    try:
        choice = choose(inputs, schedules) if symmetry else every_npu("symmetry is off")
        if choice.scope is not Scope.ALL_NPUS:
            # Which schedules there are may depend on when collectives are issued: then it shows in the run that NPUs are not alike.
            with contextlib.suppress(NotSymmetricError):
                return run(inputs=inputs, choice=choice)
            choice = every_npu("the system plans other collectives during the run")
        if npus > MAX_SIMULATED_NPUS:
            raise InputError(f"{npus} NPUs cannot be simulated one by one, which this run needs; at most {MAX_SIMULATED_NPUS} can")
        return run(inputs=inputs, choice=choice)
    except MemoryError:
        raise RunError(f"memory ran out: the run has {npus} NPUs on network {type(network).__name__}; expected more memory") from None


class _Simulations(NamedTuple):
    """See `astra_sim.network.Simulations`."""

    graph: ExecutionGraph
    alike: bool
    simulate: Callable[..., RunRecord]
    simulate_at_last: Callable[..., RunRecord]

    def run(self, graph: ExecutionGraph, network: Network) -> RunRecord:
        return self.simulate(graph=graph, network=network)

    def final(self, graph: ExecutionGraph, network: Network) -> RunRecord:
        return self.simulate_at_last(graph=graph, network=network)


def _keeps_path(explain: Explain | None, timelines: TimelineKind) -> bool:
    """Whether the record has the critical path."""
    return explain is not None or timelines in ("path", "messages")


def _run(
    inputs: RunInputs,
    choice: ScopeSelection,
    schedules: ScheduleSymmetry,
    progress: Progress | None,
    explain: Explain | None,
    timelines: TimelineKind,
    npu_times: bool,
) -> RunRecord:
    """Lower the graph, run the engine to its end, and record the run."""
    system, network = inputs.system, inputs.network
    session = inputs.session()
    start_ps = _begin(network)
    npus = choice.npu_numbers(inputs.platform.npus)
    engine = inputs.engine(npus, network, system.endpoint_ps, inputs.reduce_ps, system.rendezvous, system.bus)
    keeps_path = _keeps_path(explain, timelines)
    if keeps_path:
        engine.record.keep_causes(timelines == "messages")
    programs = choice.programs(inputs.graph, inputs.platform.npus)
    communicators = Communicators(inputs.graph.dimensions, choice, programs, inputs.platform.npus)
    names = OperationNames(inputs.graph, programs)
    collectives = CollectiveLowering(inputs, session, choice, schedules, programs, communicators, names, engine)

    engine.add_queues([(queue.slots, queue.order) for queue in session.queues])
    engine.set_traffic_classes(*_traffic_classes(system, session, network))
    if inputs.uses_remote_memory():
        engine.add_ports(inputs.memory_ports(npus))
    if inputs.has_overheads:
        _check_overheads(inputs)
        engine.set_overheads(inputs.overhead_ps, inputs.system.overhead_on_compute)
    tasks = TaskLowering(inputs, session, communicators)
    observed = observe(engine, programs) if timelines or keeps_path or inputs.graph.figures is not None else []
    if npu_times or explain is not None:
        observe_every_npu(engine, programs)
    durations = None
    if inputs.npu_ps is not None:
        durations = NpuDurations(inputs, inputs.npu_ps, programs, start_ps)
        engine.set_compute_times(durations.ps)
    count = 0
    for number, program in enumerate(programs):
        lowered = tasks.lower(number, program.operations)
        engine.add_program(lowered, program.npus, partial(collectives.issue, number), tasks.agreement(lowered))
        count += len(lowered) * len(program.npus)

    tell = None if progress is None else partial(_tell, progress, engine, count)
    try:
        with _watching(network, tell):
            while engine.run(EVENTS_PER_REPORT):
                if tell is not None:
                    tell(start_ps + engine.now)
    except UnlikeCollectivesError as error:
        raise InputError(_unlike(error, programs, names)) from None
    except MemoryError:
        raise RunError(_out_of_memory(inputs, choice, engine)) from None
    check_finished(inputs, programs, names, engine, start_ps)
    finished = FinishedRun(inputs, choice, programs, collectives, engine, start_ps, durations)
    path = None
    if keeps_path:
        from astra_sim.run.critical_path import make_path

        empty = explain.empty_network() if explain is not None and isinstance(network, EventNetwork) else None
        path = make_path(finished, session, empty)
    shown = timeline_npus(programs, observed if timelines or keeps_path else (), path if explain is not None else None, choice)
    record = make_record(finished, observed, shown, npu_times)
    record.path = path
    if timelines == "messages":
        record.carried = carried_by(finished, {each.npu for each in record.observed})
    return record


def _traffic_classes(system: System, session: SystemSession, network: Network) -> tuple[int, list[int]]:
    """The classes of messages in no queue, and of those of each queue. A network without classes gets none, with a warning."""
    of_queues = [queue.traffic_class for queue in session.queues]
    if network.has_traffic_classes or all(each < 0 for each in (system.send_class, *of_queues)):
        return system.send_class, of_queues
    warn("the system asks for traffic classes, and this network has none: they change nothing")
    return -1, []


def _check_overheads(inputs: RunInputs) -> None:
    """Raise InputError if operations are simulated as one: they cannot wait for each other's messages."""
    if inputs.composites.any:
        raise InputError(
            "the system has an overhead of messages, which operations that are simulated as one would not wait for;"
            " expected single ones (workload llm: detail=layer)"
        )


def _begin(network: Network) -> int:
    """Begin a run on a network; returns its start in picoseconds. Raises PluginError if that is no time."""
    if not isinstance(network, EventNetwork):
        return 0
    what = f"network {type(network).__name__}: begin"
    return picoseconds(call(what, network.begin), what)


@of_user
def _tell(progress: Progress, engine: Engine, tasks: int, time: int) -> None:
    """Tell how far a run is at a time in picoseconds; a `progress` that has a method `ended` hears how many of the tasks have ended."""
    ended: Callable[[int, int], None] | None = getattr(progress, "ended", None)
    if ended is not None:
        ended(engine.ended, tasks)
    progress(time, engine.events)


@contextlib.contextmanager
def _watching(network: Network, tell: Callable[[int], None] | None) -> Iterator[None]:
    """Let `tell` hear from a network, too, that simulates for long between two events of the engine."""
    if tell is None or not isinstance(network, EventNetwork):
        yield
        return
    raised: list[BaseException] = []

    def tell_of_network(time: int) -> None:
        try:
            tell(time)
        except BaseException as error:
            raised.append(error)
            raise

    on_progress, what = network.on_progress, f"network {type(network).__name__}: on_progress"
    call(what, on_progress, tell_of_network)
    try:
        yield
    except PluginError:
        if raised:  # for which the network is not to blame
            raise raised[0] from None
        raise
    finally:
        call(what, on_progress, None)


def _out_of_memory(inputs: RunInputs, choice: ScopeSelection, engine: Engine) -> str:
    """Describe the state of the simulation when memory ran out."""
    npus = inputs.platform.npus
    return (
        f"memory ran out: {choice.simulated(npus)} of {npus} NPUs are simulated on network {type(inputs.network).__name__},"
        f" and {engine.messages} messages had been sent; expected more memory"
    )


def _unlike(error: UnlikeCollectivesError, programs: Sequence[NpuProgram], names: OperationNames) -> str:
    """Describe why NPUs share a collective that is not the same for them."""
    (program, index), (first, first_index) = error.issued, error.first
    return (
        f"NPU {programs[program].npus[0]}: {names(index, program)} is collective number {error.ordinal} of its group,"
        f" but that of NPU {programs[first].npus[0]} is {names(first_index, first)}"
    )
