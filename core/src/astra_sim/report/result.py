"""The result of a run: figures of the whole, of layers and of dimensions, as NPU 0 sees them."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs

from astra_sim._boundary import call
from astra_sim.engine.columns import Spans
from astra_sim.engine.interface import PhaseStepRecord, PhaseStepRecords
from astra_sim.errors import InputError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, Figure, Pass, Wait, accounting_dimensions
from astra_sim.report.amounts import to_ns
from astra_sim.report.audit import Finding, audit
from astra_sim.report.details import (
    Details,
    Interval,
    PathInterval,
    RunDetails,
    RunTimeline,
    Timeline,
)
from astra_sim.report.frames import choose, frame_of, write_rows
from astra_sim.report.labels import computes, group_names
from astra_sim.report.units import units_of
from astra_sim.results import run_row, tables_of
from astra_sim.rows import packed, view
from astra_sim.run.record import RunRecord
from astra_sim.schedule import Collective
from astra_sim.setup.components import Components
from astra_sim.setup.inputs import relative_to
from astra_sim.setup.mismatches import Mismatch
from astra_sim.setup.provenance import Origin, Provenance
from astra_sim.units import PS_PER_NS

if TYPE_CHECKING:
    from astra_sim.report.attribution import Attribution
    from astra_sim.report.spool import SpooledPart
    from astra_sim.report.unit_times import OperationTimes, UnitTimes


NPU_TABLES = ("operations", "npu_times", "groups", "links")
"""Tables of the time of all NPUs, as they are called in JSON."""

_NPU_0_ALONE = "this run has kept the times of NPU 0 alone; expected simulate(..., npu_times=True)"


@attrs.define
class PassFigures:
    """Times of one pass of a layer, in nanoseconds: computing, collectives from issue to end, and waiting for them."""

    compute_ns: float = 0
    total_comm_ns: float = 0
    exposed_comm_ns: float = 0


@attrs.define
class LayerFigures:
    """Times of a layer, and the mean delays of the chunks of its collectives, phase by phase (nanoseconds).

    `queueing_delay_ns[0]` is that before the first phase is queued; `[i]` is the time in the queue of phase i. `network_delay_ns[i]` is
    that of a message in phase i + 1. Every collective of the layer counts in every mean: a phase that it does not have has no delay.
    """

    name: str
    forward: PassFigures
    input_gradient: PassFigures
    weight_gradient: PassFigures
    queueing_delay_ns: list[float]
    network_delay_ns: list[float]

    def of(self, training_pass: Pass) -> PassFigures:
        """The figures of one pass."""
        figures: PassFigures = getattr(self, training_pass.value)
        return figures


@attrs.define
class DimensionFigures:
    """A dimension of the platform, or one as collectives see it if the workload's are not parallelisms (`graph.accounting_dimensions`).

    `utilisation` is the share of the run in which at least one chunk is queued or running, `bytes` the bytes that NPU 0 sends in its
    phases. A message between two NPUs counts as a chunk of one phase. Traffic outside the ranks of a dimension, that is a chunk of a group
    or such a message, counts in the dimensions that its messages take from NPU 0, or to it.
    """

    topology: str
    size: int
    utilisation: float
    average_chunk_latency_ns: float | None
    bytes: int


@attrs.define
class ChosenAlgorithm:
    """The algorithm of a collective in a dimension, as NPU 0 saw it first with `bytes`.

    `reason` is "" if the algorithm was chosen by name, else "auto: " and the comparison.
    """

    dimension: int
    collective: str
    algorithm: str
    bytes: int
    reason: str


@attrs.define
class RunFigures:
    """The figures of a run, of its layers and of its dimensions. Times in nanoseconds, as NPU 0 sees them.

    `exposed_comm_ns` is all the time in which NPU 0 does not compute, as ASTRA-sim counts it: also that in which it accesses memory or is
    idle. `Result.attribution` divides it further.

    `messages` counts those of all NPUs of the platform, whether each was simulated or represented by another. `earliest_finish_ns` is when
    the first NPU had finished, `finish_ns` when all had. `figures` are those that the workload adds, by name; each is an attribute of the
    `Result`, too. `shown` has those that tables show, with their titles and units. `explanation` names the causes of the run's time, if
    it was requested (`astra_sim.records.Explanation`), else it is None; `algorithms` are those of collectives. `compute` has the
    compute model's facts about itself (a device, a stack), and in `workload_options` the options that the workload took from it;
    `mismatches` are parts of the experiment that were not made for each other.
    """

    run_name: str
    finish_ns: float
    earliest_finish_ns: float
    compute_ns: float
    exposed_comm_ns: float
    npus: int
    simulated_npus: int
    messages: int
    events: int
    wall_s: float
    network: dict[str, Any]
    layers: list[LayerFigures]
    dimensions: list[DimensionFigures]
    figures: dict[str, Any]
    shown: dict[str, Figure]
    explanation: Any = attrs.field(default=None, repr=False)
    algorithms: list[ChosenAlgorithm] = attrs.field(factory=list)
    compute: dict[str, Any] = attrs.field(factory=dict)
    mismatches: list[Mismatch] = attrs.field(factory=list)
    every_npu_reason: str = ""

    def row(self) -> dict[str, Any]:
        """The single figures: the row of the table `run`. It costs much less than all tables."""
        apart = ("figures", "shown", "explanation", "layers", "dimensions", "audit", "mismatches")
        figures = {name: getattr(self, name) for name in _names(RunFigures) if name not in apart}
        return run_row(figures | self.figures)


@attrs.define
class Result(RunFigures):
    """The answer of a run: its figures, and all that is worked out of it on request.

    The provenance is the experiment with the versions of the software, and the details are timelines, the critical path and tables.
    """

    _provenance: Provenance | SpooledPart | None = attrs.field(repr=False, eq=False, kw_only=True)
    _busy: Sequence[Spans] = attrs.field(repr=False, eq=list, kw_only=True)
    _details: Details | RunDetails | SpooledPart = attrs.field(repr=False, eq=False, kw_only=True)

    def to_dict(self, every: bool = False) -> dict[str, Any]:
        """Everything but the timeline, ready for JSON. The workload's own figures are beside the others.

        Tables of all NPUs, if the run has kept them, have few rows, or `every` one (`npu_tables`).

        `experiment` is the experiment that ran, which `astra run` and `load_experiment` read again, `versions` of the software, `inputs`
        the files that its options name, with digests; `units` those of figures. Values that differ each time are apart: `wall_s`, and
        `invocation`, which is not in it.
        """
        table = self.document(every)
        del table["invocation"]
        return table | {"experiment": self.experiment, "versions": self.versions, "inputs": self.inputs}

    def document(self, every: bool = False, folder: str | None = None) -> dict[str, Any]:
        """The same with `invocation`, to be written, with the paths of inputs relative to `folder`, if one is given.

        Its experiment may be shared with other results, and must not be changed.
        """
        table, origin = _figures(self, every), _origin(self)
        apart = {"units": units_of(table), **origin._asdict(), "experiment": _experiment(self, origin)}
        return table | (apart if folder is None else relative_to(folder, apart))

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """The files that options of the experiment name: `option`, `path`, number of `files`, `bytes`, and `sha256` of their content."""
        return copy.deepcopy(_origin(self).inputs)

    @property
    def invocation(self) -> dict[str, Any]:
        """The `command` line, the working `directory`, `host` and `date` (UTC) of the run."""
        return dict(_origin(self).invocation)

    @property
    def audit(self) -> list[Finding]:
        """Parts of the result that are faster than the wires allow."""
        return list(self._details.findings)

    @property
    def experiment(self) -> dict[str, Any]:
        """The experiment as it was run, with all options, in tables as an experiment file has them; {} of a run that was built by hand."""
        return copy.deepcopy(_experiment(self, _origin(self)))

    @property
    def versions(self) -> dict[str, Any]:
        """The versions of `astra`, `python` and the distributions of `plugins`, and which `engine` ran.

        `sources` has digests of distributions whose source may change under the same version: editable installations, folders.
        """
        return copy.deepcopy(_origin(self).versions)

    def __getattr__(self, name: str) -> Any:
        """A figure of the workload, or a table of all NPUs."""
        if not name.startswith("_") and name != "figures" and name in self.figures:
            return self.figures[name]
        if name in NPU_TABLES and (tables := self._details.npu_tables(every=False)) is not None:
            return tables.get(name, [])
        raise AttributeError(f"a result has no {name!r}")

    @property
    def busy_ns(self) -> list[list[tuple[float, float]]]:
        """For each dimension when chunks are queued or running: begin and end of each time."""
        return [[(to_ns(begin), to_ns(end)) for begin, end in zip(busy.begins, busy.ends, strict=True)] for busy in self._busy]

    @property
    def npu_finish_ns(self) -> list[float]:
        """When each NPU had finished."""
        times: list[float] = [to_ns(time) for time in self._details.npu_end_ps]
        return times * self.npus if len(times) == 1 else times

    @property
    def has_npu_tables(self) -> bool:
        """Whether the run has kept the times of all NPUs, so that there are tables of them."""
        return self._details.has_npu_tables

    def npu_tables(self, every: bool = True) -> dict[str, list[dict[str, Any]]]:
        """Tables of the time of all NPUs: `operations`, `npu_times`, `groups`, and `links` if the network knows them.

        Not `every`: rows whose names differ only in numbers become one row, and at most 100 rows. Raises InputError if the run was not
        asked for them (`simulate(..., npu_times=True)`).
        """
        tables = self._details.npu_tables(every)
        if tables is None:
            raise InputError(_NPU_0_ALONE)
        return tables

    @property
    def attribution(self) -> Attribution | None:
        """The time of NPU 0 by use: compute, exposed communication by layer, memory, idle (`docs/architecture.md`).

        None if NPU 0 has more than 50,000 operations, or receives messages in a run that has not kept the times of all NPUs.
        """
        return self._details.attribution

    def unit_times(self) -> list[UnitTimes]:
        """The busy time of each unit of all NPUs: accelerator, CPU, communication, memory; NPUs that do the same share an entry.

        Raises InputError if the run was not asked for the times of all NPUs (`simulate(..., npu_times=True)`).
        """
        times = self._details.unit_times
        if times is None:
            raise InputError(_NPU_0_ALONE)
        return times

    def operation_times(self) -> list[OperationTimes]:
        """When all NPUs did each operation, with the source of each row in the file of the program; NPUs that do the same share an entry.

        Raises InputError if the run was not asked for the times of all NPUs (`simulate(..., npu_times=True)`), or this is a copy of
        its result: copies do not have them.
        """
        times = self._details.operation_times
        if times is None:
            raise InputError("a copy of a result has no times of operations" if self.has_npu_tables else _NPU_0_ALONE)
        return times

    def network_reports(self) -> dict[str, str]:
        """Files that the network writes about its last run, by name."""
        return self._details.network_reports()

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """The figures as rows of plain Python, for each table: `run`, `layers`, `phases`, `dimensions`, `audit`, `timeline`, and others.

        Units are in the names of columns. A list of tables among the figures of the network or the workload is a table, too.
        """
        return tables_of(_figures(self, every=True)) | {"timeline": [attrs.asdict(interval) for interval in self.timeline()]}

    def frame(self, table: str, library: str = "pandas") -> Any:
        """One of `tables` as a DataFrame of pandas or polars. Raises InputError if there is no such table, or the library is missing."""
        return frame_of(choose(self.tables(), table), library)

    def write_table(self, table: str, path: str | os.PathLike[str]) -> None:
        """Write one of `tables` in the format of the path's ending: *.csv, *.json or *.parquet.

        Raises InputError if there is no such table, for another ending, and for Parquet without pyarrow; RunError if it cannot be written.
        """
        write_rows(choose(self.tables(), table), path)

    def copied(self) -> Result:
        """The same result with figures of its own, which a report may change; values computed on request are shared."""
        import pickle

        fields = pickle.loads(pickle.dumps({name: getattr(self, name) for name in _names(RunFigures)}, pickle.HIGHEST_PROTOCOL))
        return attrs.evolve(self, **fields)

    def spooled(self, path: str) -> Result:
        """The same result in a file, which must stay: only its figures are in memory. Raises RunError."""
        from astra_sim.report.spool import Spool

        spool = Spool(path)
        figures = attrs.evolve(self, provenance=None, busy=(), details=Details((), {}, (), []))
        spool.write(figures, self._provenance, self._busy, self._details)
        return spool.result()

    def timeline(self) -> Iterator[Interval]:
        """Operations on NPU 0 in the order of the program, phases of its chunks, and its messages."""
        return iter(self._details.timelines[0])

    def timelines(self) -> Sequence[Timeline | RunTimeline]:
        """The timelines of the NPUs that were observed, by number but NPU 0 first.

        That is NPU 0; with `simulate(..., timelines=True)` the first of each program; of a run that was explained each that was simulated,
        but for more than 64 the first of each program and those on the critical path.
        """
        return self._details.timelines

    def critical_path(self) -> Iterator[PathInterval]:
        """The critical path in time, from the start of the run to its end.

        Raises InputError if the run has not kept it (`simulate(..., explain=True)`, or `timelines="path"`).
        """
        path = self._details.path
        if path is None:
            raise InputError("this run has not kept its critical path; expected simulate(..., timelines='path'), or explain=True")
        return iter(path)

    @property
    def has_critical_path(self) -> bool:
        """Whether the run has kept its critical path."""
        return self._details.path is not None


def _figures(result: Result, every: bool = False) -> dict[str, Any]:
    """All figures, in plain Python; tables of all NPUs with `every` row, or a few."""
    apart = ("figures", "shown", "explanation")
    table = {name: _plain(getattr(result, name)) for name in _names(RunFigures) if name not in apart}
    table["audit"] = [_plain(finding) | {"message": finding.message} for finding in result.audit]
    table |= result.figures
    if result.explanation is not None:
        table["explanation"] = result.explanation.to_dict()
    table |= result._details.npu_tables(every) or {}
    return table


def _origin(result: Result) -> Origin:
    """The provenance of a result; empty of a run that was built by hand."""
    return Origin({}, {}, [], {}) if result._provenance is None else result._provenance.origin


def _experiment(result: Result, origin: Origin) -> dict[str, Any]:
    """The experiment of a result under the name of the run."""
    return origin.experiment | {"name": result.run_name} if origin.experiment else {}


@functools.cache
def _names(cls: Any) -> tuple[str, ...]:
    """The names of the fields of a class; () of one that has none."""
    return tuple(field.name for field in attrs.fields(cls)) if attrs.has(cls) else ()


_SINGLE = frozenset((int, float, str, bool))


def _plain(value: Any) -> Any:
    """A copy of figures as tables and lists: the result of `attrs.asdict`, in a fifth of its time."""
    kind: Any = type(value)
    if kind in _SINGLE:
        return value
    if kind in (list, tuple):
        return kind([each if type(each) in _SINGLE else _plain(each) for each in value])
    if kind is dict:
        return {key: each if type(each) in _SINGLE else _plain(each) for key, each in value.items()}
    names = _names(kind)
    table = {name: each if type(each := getattr(value, name)) in _SINGLE else _plain(each) for name in names}
    return table if names else value


def make_result(name: str, components: Components, run: RunRecord, wall_s: float) -> Result:
    """The result of a run: its figures are added up from the run record. Raises PluginError if a plugin has changed the platform."""
    for platform in filter(None, (components.platform, components.stated)):
        platform.check_unchanged()
    graph = components.graph
    layers = _layers(graph, run)
    rows = run.rows
    durations = [kind.duration_ps if isinstance(kind, Compute) and computes(kind) else -1 for kind in rows.kinds]
    compute_ps, computing_ps = run.engine.computing(rows, durations, run.end_ps)
    dimensions, busy = _dimensions(components, run)
    network = {
        "plugin": components.names["network"],
        "payload_bytes": sum(run.payload),
        "payload_bytes_per_dimension": run.payload,
        **call(f"network {type(components.network).__name__}: statistics", components.network.statistics),
    }
    return Result(
        run_name=name,
        finish_ns=to_ns(run.finish_ps),
        earliest_finish_ns=to_ns(min(run.npu_end_ps)),
        compute_ns=to_ns(compute_ps),
        exposed_comm_ns=to_ns(run.finish_ps - computing_ps),
        npus=components.platform.npus,
        simulated_npus=run.simulated_npus,
        messages=run.messages,
        events=run.events,
        wall_s=wall_s,
        network=network,
        layers=layers,
        dimensions=dimensions,
        figures={name: figure.value if isinstance(figure, Figure) else figure for name, figure in run.figures.items()},
        shown={name: figure for name, figure in run.figures.items() if isinstance(figure, Figure) and figure.value is not None},
        provenance=components.provenance,
        busy=busy,
        details=RunDetails(
            graph,
            run,
            components.network,
            lambda: audit(components, run, busy, [each.bytes for each in dimensions], network),
            group_names(components),
        ),
        algorithms=_algorithms(run),
        compute=_compute_figures(components),
        mismatches=list(components.mismatches),
        every_npu_reason=run.every_npu_reason,
    )


def add_account(result: Result, name: str, figures: Mapping[str, Any]) -> None:
    """Add the figures of an account to a result, under its name. Those that are a `Figure` are shown in tables."""
    result.figures[name] = {key: value.value if isinstance(value, Figure) else value for key, value in figures.items()}
    result.shown |= {f"{name}.{key}": value for key, value in figures.items() if isinstance(value, Figure)}


def _compute_figures(components: Components) -> dict[str, Any]:
    """The compute model's facts about itself, and the options that the workload took from it."""
    compute = components.compute
    result = call(f"compute {type(compute).__name__}: statistics", compute.statistics)
    taken = {"workload_options": dict(components.taken)} if components.taken else {}
    return {"plugin": components.names.get("compute", type(compute).__name__), **result, **taken}


def _algorithms(run: RunRecord) -> list[ChosenAlgorithm]:
    """The algorithms of all phases, each once for a dimension and kind of collective."""
    chosen_algorithms: dict[tuple[int, Collective, str], ChosenAlgorithm] = {}
    for phase in run.planned:
        plan = phase.plan
        key = plan.dimension, plan.collective, plan.algorithm
        if plan.algorithm and key not in chosen_algorithms:
            chosen_algorithms[key] = ChosenAlgorithm(plan.dimension, plan.collective.value, plan.algorithm, plan.bytes, plan.reason)
    return list(chosen_algorithms.values())


def _layers(graph: ExecutionGraph, run: RunRecord) -> list[LayerFigures]:
    """The times of each layer on NPU 0 by training pass."""
    if not graph.layers:
        return []
    sums = [{p: [0, 0, 0] for p in Pass} for _ in graph.layers]
    times, begin_ps, end_ps = run.rows.times, run.begin_ps, run.end_ps
    active = set(run.phases.records.task)  # collectives for which there was something to do
    rows = run.rows
    operations = chain(graph.operations, (rows.kinds[kind] for kind in rows.kind_of[len(graph.operations) :]))  # of composites, too
    for index, operation in enumerate(operations):
        if not 0 <= operation.layer < len(sums) or not isinstance(operation, (Compute, Communicate, Wait)):
            continue
        entry = sums[operation.layer][operation.training_pass]
        spent = end_ps[index] - begin_ps[index]
        if isinstance(operation, Compute):
            entry[0] += operation.duration_ps if times is None or times[index] < 0 else times[index]
        elif isinstance(operation, Wait):
            arrived = max((end_ps[other] for other in operation.after), default=run.start_ps)
            ended = [end_ps[other] for other in operation.pending]
            entry[2] += max(0, (min if operation.until_first else max)(ended) - arrived)
        elif index in active:
            entry[1] += spent
            entry[2] += spent if operation.blocking else 0
    delays = _delays(graph, run)
    figures = [[PassFigures(*map(to_ns, entry[p])) for p in Pass] for entry in sums]
    return [LayerFigures(name, *passes, *delay) for name, passes, delay in zip(graph.layers, figures, delays, strict=True)]  # type: ignore[call-arg, arg-type]


_Waits = list[tuple[list[int], list[float]]]
"""Of each phase of a collective the waits of its chunks, and the mean delays of their messages."""


def _delays(graph: ExecutionGraph, run: RunRecord) -> list[tuple[list[float], list[float]]]:
    """Per layer, the mean queueing and network delay of each phase: first over a collective's chunks, then over all collectives.

    A phase that a collective does not have counts as one without delay. So the means of a layer's phases add up to the mean over its
    collectives of their total waits.
    """
    by_operation: dict[int, _Waits] = {}
    places = [phase.phase for phase in run.phases.planned]
    costs = [phase.cost for phase in run.phases.planned]
    known = [cost.delay_sum / cost.received if cost is not None and cost.received else 0.0 for cost in costs]
    for task, step, queued, started, _, delay_sum, received in run.phases.records:
        phases, place = by_operation.setdefault(task, []), places[step]
        if place == len(phases):
            phases.append(([], []))
        waits, delays = phases[place]
        waits.append(started - queued)
        delays.append(known[step] if costs[step] is not None or not received else delay_sum / received)
    by_layer: dict[int, list[_Waits]] = {}
    rows = run.rows
    for operation, phases in by_operation.items():
        kind = rows.kinds[rows.kind_of[operation]]
        assert isinstance(kind, Communicate)
        by_layer.setdefault(kind.layer, []).append(phases)
    result: list[tuple[list[float], list[float]]] = []
    for layer in range(len(graph.layers)):
        collectives = by_layer.get(layer, [])
        count = max((len(phases) for phases in collectives), default=0)
        queueing = [0.0] * (count + 1 if collectives else 0)
        network = [0.0] * count
        for phases in collectives:
            for number, (waits, delays) in enumerate(phases):
                queueing[number + 1] += sum(waits) / len(waits) / PS_PER_NS
                network[number] += sum(delays) / len(delays) / PS_PER_NS
        divisor = max(1, len(collectives))
        result.append(([v / divisor for v in queueing], [v / divisor for v in network]))
    return result


def _dimensions(components: Components, run: RunRecord) -> tuple[list[DimensionFigures], list[Spans]]:
    """The figures of each dimension and when it was in use, from the phases and messages of NPU 0."""
    dimensions = accounting_dimensions(components.graph, components.platform)
    sent = [*(phase.sent for phase in run.phases.planned), *run.sends.sent]
    counts, uses = run.engine.uses_of(_with_sends(components.graph, run), [tuple(each) for each in sent], len(dimensions))
    number, total = [0] * len(dimensions), [0] * len(dimensions)
    for each, count in zip(sent, counts, strict=True):
        for dimension, size in each.items():
            number[dimension] += count
            total[dimension] += count * size
    figures = []
    for index, (logical, use) in enumerate(zip(dimensions, uses, strict=True)):
        topology = components.platform.dimensions[logical.physical].topology.name if logical.physical is not None else "all"
        utilisation = use.spans.covered / run.finish_ps if run.finish_ps else 0.0
        latency = use.spent / number[index] / PS_PER_NS if number[index] else None
        figures.append(DimensionFigures(topology, logical.size, utilisation, latency, total[index]))
    return figures, [use.spans for use in uses]


def _with_sends(graph: ExecutionGraph, run: RunRecord) -> PhaseStepRecords:
    """The phases of chunks on NPU 0, and after them the messages of its operations, as phase steps numbered by kind of operation."""
    records, sends = run.phases.records, run.sends
    if not len(sends.operation):
        return records
    kind_of, first = run.rows.kind_of, len(run.phases.planned)
    ended = map(run.end_ps.__getitem__, sends.operation)
    nothing, begun = bytes(8 * len(sends.operation)), packed(sends.begun_ps, "q")
    more = (
        packed(sends.operation, "q"),
        packed((first + kind_of[operation] for operation in sends.operation), "q"),
        begun,
        begun,
        packed(ended, "q"),
        nothing,
        nothing,
    )
    columns = (getattr(records, name) for name in PhaseStepRecord._fields)
    return PhaseStepRecords(*(view(packed(column, "q") + each, "q") for column, each in zip(columns, more, strict=True)))
