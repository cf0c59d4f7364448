"""Why a run takes as long as it does: its critical path by kind, layer, dimension and group, the effect of changes, and lower bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import attrs
from astra_sim.commands import Screen
from astra_sim.fabric.graph import stripes_over_directions
from astra_sim.graph import Communicate, Composite, Compute, ExecutionGraph, Operation, Receive, Send, Unit, operation_rows
from astra_sim.platform import Dimension, Group, LogicalDimension, Platform
from astra_sim.records import CompositeTimes, ExplainedRun, SegmentKind, SegmentOrigin, link_bandwidth
from astra_sim.units import PS_PER_NS

Method = Literal["path", "unrounded path", "estimate", "re-runs", "re-runs, 10 %", "re-runs, kink"]
"""The method that computed a sensitivity.

From the critical path; from it, if messages take whole nanoseconds, as if they did not; from it, though messages wait for each other,
as if there were no other waits; from runs with 1 % more and 1 % less, or 10 % if 1 % changes too little to be seen. At a kink more and
less do not agree, and their mean is given.
"""

SEND = "send"
"""The name among collectives of messages between two NPUs."""

_Key = TypeVar("_Key", bound=Hashable)


def in_ns(picoseconds: int) -> int | float:
    """Picoseconds as nanoseconds; whole if they are whole."""
    whole, rest = divmod(picoseconds, PS_PER_NS)
    return picoseconds / PS_PER_NS if rest else whole


@attrs.frozen
class PathRow:
    """The share of the critical path of one kind: picoseconds, and in nanoseconds `ns`.

    `layer` is the name of a layer, or of an operation that belongs to none. `dimension` is the platform's. `group` is the parallelism
    (tp, dp, pp) or communicator group, if it has a name, and "point-to-point" for messages without one.
    """

    kind: str
    layer: str
    training_pass: str
    collective: str
    dimension: int | None
    group: str
    ps: int

    @property
    def ns(self) -> int | float:
        """Nanoseconds."""
        return in_ns(self.ps)


@attrs.frozen
class Range:
    """By how many percent a parameter may change and its sensitivity stays true: the same chain of events is the longest.

    If `low_ends` or `high_ends` is not set, it may change by more: beyond half and double it was not looked.
    """

    low_percent: float
    high_percent: float
    low_ends: bool
    high_ends: bool


@attrs.frozen
class Sensitivity:
    """The sensitivity of the run's time to a parameter: `derivative_ns` is d time / d ln parameter in nanoseconds.

    So p percent more of it change the time by about p / 100 of that. `percent` is the effect of 1 % more, in percent of the time. The
    `parameter` is bandwidth, latency, endpoint delay (the system's, not one that a phase has of its own), compute speed or layer compute.
    `range` is how far that holds: d time / d parameter, for a bandwidth or speed d time / d (1 / parameter), stays the same within a
    thousandth. None: it was not asked for, or is not known.
    """

    parameter: str
    dimension: int | None
    layer: str | None
    derivative_ns: float
    percent: float
    method: Method
    range: Range | None = None


BOTH_WAYS = "both_ways"
"""The suffix of a dimension whose messages have the bandwidth of the links of both directions."""


@attrs.frozen
class MakespanBound:
    """A time that no schedule goes below: `compute` of the busiest NPU, or the `wire` of a dimension.

    The wire bound is the bytes that NPU 0 sends in the dimension over the bandwidth of all its links there, or if that is longer, those of
    all NPUs in collectives there, on every link that it crosses, over the bandwidth of all links.
    """

    kind: str
    dimension: int | None
    ns: float


@attrs.frozen
class PathExplanation:
    """Why a run takes `finish_ns`. The `path` has its largest row first, and its picoseconds add up to `finish_ps`.

    `network_error` is that of a network that reports the error bound of its result, such as `auto`.
    """

    run_name: str
    npus: int
    finish_ps: int
    dimensions: tuple[str, ...]
    path: tuple[PathRow, ...]
    sensitivities: tuple[Sensitivity, ...]
    bounds: tuple[MakespanBound, ...]
    network_error: Mapping[str, Any] | None = None

    @property
    def finish_ns(self) -> int | float:
        """The time of the run in nanoseconds."""
        return in_ns(self.finish_ps)

    def by(self, key: Callable[[PathRow], _Key]) -> dict[_Key, int]:
        """Picoseconds of the path by a key of its rows, the largest first."""
        return _largest_first((key(row), row.ps) for row in self.path)

    def totals(self) -> dict[str, dict[Any, int | float]]:
        """Nanoseconds of the path by kind, layer, collective, dimension and group; parts without time are left out."""
        names = ("kind", "layer", "collective", "dimension", "group")
        sums = {name: self.by(lambda row, name=name: getattr(row, name)) for name in names}  # type: ignore[misc]
        return {name: {key: in_ns(ps) for key, ps in result.items() if key not in ("", None)} for name, result in sums.items()}

    def largest_bound(self) -> MakespanBound | None:
        """The highest of the lower bounds; None if all are 0."""
        largest = max(self.bounds, key=lambda bound: bound.ns, default=None)
        return largest if largest is not None and largest.ns > 0 else None

    @property
    def compute_of_others_ns(self) -> float:
        """Compute on the path beyond that of the busiest NPU: that of others, while it waits. A pipeline fills and drains so long."""
        compute = sum(row.ps for row in self.path if row.kind == SegmentKind.COMPUTE) / PS_PER_NS
        return max(0.0, compute - sum(bound.ns for bound in self.bounds if bound.kind == "compute"))

    def show(self, screen: Screen) -> None:
        """Print the parts of the run."""
        from astra_sim_explain.explanation_text import print_explanation

        print_explanation(self, screen)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        path = [{**attrs.asdict(row, filter=lambda field, _: field.name != "ps"), "ns": row.ns} for row in self.path]
        totals = {name: [{name: key, "ns": ns} for key, ns in shares.items()] for name, shares in self.totals().items()}
        return {
            "run_name": self.run_name,
            "finish_ns": self.finish_ns,
            "npus": self.npus,
            "dimensions": list(self.dimensions),
            "path": path,
            "totals": totals,
            "sensitivities": [attrs.asdict(each) for each in self.sensitivities],
            "bounds": [attrs.asdict(each) for each in self.bounds],
            "compute_of_others_ns": self.compute_of_others_ns,
            **({} if self.network_error is None else {"network_error": dict(self.network_error)}),
        }


def explain(run: ExplainedRun, others: Iterable[Sensitivity]) -> PathExplanation:
    """The explanation of a run, with the sensitivities that the path tells and `others`."""
    platform, finish_ps = run.components.platform, run.record.finish_ps
    rows = _rows(run)
    result = [*of_path(run), *others]
    order = {name: number for number, name in enumerate(("compute speed", "endpoint delay", "bandwidth", "latency", "layer compute"))}
    result.sort(key=lambda each: (order[each.parameter], each.dimension or 0))
    return PathExplanation(
        run.name,
        platform.npus,
        finish_ps,
        tuple(_dimension_name(d) for d in platform.dimensions),
        tuple(rows),
        tuple(result),
        tuple(_bounds(run)),
        run.record.figures.get("network_error"),
    )


def _dimension_name(dimension: Dimension) -> str:
    """The topology and size of a dimension, and whether its messages have the bandwidth of both directions."""
    both_ways = f", {BOTH_WAYS}" if stripes_over_directions(dimension) else ""
    return f"{dimension.topology.name} of {dimension.size}{both_ways}"


def _rows(run: ExplainedRun) -> list[PathRow]:
    """The segments of the path that differ in time alone as one row, the largest first."""
    of_origin: dict[tuple[SegmentKind, SegmentOrigin, int | None], int] = defaultdict(int)
    for segment in run.path.segments:
        of_origin[segment.kind, segment.origin, segment.dimension] += segment.ps
    known: dict[tuple[int, LogicalDimension | Group | None], tuple[str, str, str, str]] = {}
    rows: dict[tuple[str, tuple[str, str, str, str], int | None], int] = defaultdict(int)
    for (kind, origin, dimension), ps in of_origin.items():
        key = id(origin.operation), origin.ranks
        if key not in known:
            known[key] = _words(run, origin)
        rows[kind.value, known[key], dimension] += ps
    path_rows = []
    for (name, (layer, training_pass, collective, group), dimension), ps in sorted(rows.items(), key=lambda item: -item[1]):
        if ps:
            path_rows.append(PathRow(name, layer, training_pass, collective, dimension, group, ps))
    return path_rows


def _words(run: ExplainedRun, origin: SegmentOrigin) -> tuple[str, str, str, str]:
    """The layer, training pass, collective and group of a segment's origin; "" if it has none."""
    operation = origin.operation
    if operation is None:
        return "", "", "", ""
    layer = run.components.graph.layer_of(operation)
    training_pass = operation.training_pass.value if isinstance(operation, (Compute, Communicate)) and operation.layer >= 0 else ""
    group = run.group_of(operation, origin.ranks)
    if isinstance(operation, (Send, Receive)):
        return layer, training_pass, SEND, group
    return layer, training_pass, operation.collective.value if isinstance(operation, Communicate) else "", group


def _largest_first(terms: Iterable[tuple[_Key, int]]) -> dict[_Key, int]:
    sums: dict[_Key, int] = defaultdict(int)
    for key, value in terms:
        sums[key] += value
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


# -- sensitivities -----------------------------------------------------------------------------------------------------


def sensitivity(
    parameter: str, derivative_ps: float, finish_ps: int, method: Method, dimension: int | None = None, layer: str | None = None
) -> Sensitivity:
    """A sensitivity from d time / d ln parameter in picoseconds."""
    percent = derivative_ps / finish_ps if finish_ps else 0.0
    return Sensitivity(parameter, dimension, layer, derivative_ps / PS_PER_NS + 0.0, percent + 0.0, method)


def of_path(run: ExplainedRun) -> list[Sensitivity]:
    """The sensitivities from the path: all if it is exact, without the links if prices or plans depend on them."""
    path, finish_ps, graph = run.path, run.record.finish_ps, run.components.graph
    dimensions = len(run.components.platform.dimensions)
    plain: Method = "path" if path.exact else "estimate"
    spent: dict[SegmentKind, int] = defaultdict(int)
    layers: dict[str, int] = defaultdict(int)
    latency, bandwidth = [0.0] * dimensions, [0.0] * dimensions
    for segment in path.segments:
        spent[segment.kind] += 0 if segment.kind is SegmentKind.ENDPOINT and segment.origin.own_endpoint else segment.ps
        if segment.kind is SegmentKind.COMPUTE and segment.origin.operation is not None:
            layers[graph.layer_of(segment.origin.operation)] += segment.ps
        if segment.dimension is not None:
            latency[segment.dimension] += segment.latency_ps
            bandwidth[segment.dimension] += segment.bandwidth_ps
    sensitivities = [
        sensitivity("layer compute", ps, finish_ps, plain, layer=layer)
        for layer, ps in sorted(layers.items(), key=lambda item: -item[1])
        if layer
    ]
    if path.exact:
        sensitivities.append(sensitivity("compute speed", -spent[SegmentKind.COMPUTE], finish_ps, "path"))
        sensitivities.append(sensitivity("endpoint delay", spent[SegmentKind.ENDPOINT], finish_ps, "path"))
    if path.exact and not spent[SegmentKind.COLLECTIVE] and not path.cut_by_bandwidth:
        method: Method = "unrounded path" if path.rounded else "path"
        for number in range(len(latency)):
            sensitivities.append(sensitivity("bandwidth", -bandwidth[number], finish_ps, method, number))
            sensitivities.append(sensitivity("latency", latency[number], finish_ps, method, number))
    return sensitivities


# -- bounds ------------------------------------------------------------------------------------------------------------


def _bounds(run: ExplainedRun) -> list[MakespanBound]:
    """The compute bound, and the wire bound of every dimension."""
    components, record = run.components, run.record
    programs = None if record.durations is None else record.durations.all_rows()
    compute = in_ns(compute_bound_ps(components.graph, components.platform.npus, components.system.one_at_a_time, programs))
    wires = wire_bounds(components.platform, record.payload, run.link_bytes())
    return [MakespanBound("compute", None, float(compute)), *wires]


def wire_bounds(platform: Platform, payload: Sequence[int], on_links: Sequence[float] = ()) -> list[MakespanBound]:
    """The bytes that NPU 0 sends in each dimension, over the bandwidth of all its links there.

    `on_links`: the bytes of all NPUs there on every link that they cross, divided by their number. Over the bandwidth of all links of the
    dimension, divided likewise, it is the bound if that is longer.
    """
    bounds = []
    for number, (dimension, size) in enumerate(zip(platform.dimensions, payload, strict=True)):
        listed = link_bandwidth(dimension)
        # Links that a topology lists may be wider than one link of an NPU.
        bandwidth = max(dimension.link_bandwidth * max(dimension.topology.links_per_npu(), 1), listed.of_npu)
        bound = size / bandwidth
        if on_links and listed.of_fabric:
            bound = max(bound, on_links[number] / listed.of_fabric)
        bounds.append(MakespanBound("wire", number, bound))
    return bounds


def compute_bound_ps(graph: ExecutionGraph, npus: int, one_at_a_time: bool, programs: Sequence[Sequence[Operation]] | None = None) -> int:
    """The time of the program with most compute without communication: its longest chain, or all of it if an NPU does one at a time.

    `programs`: instead of the graph's, if computing took other times on other NPUs.
    """
    longest = 0
    programs = [program.operations for program in graph.programs(npus)] if programs is None else programs
    for operations in {id(operations): operations for operations in programs}.values():
        longest = max(longest, _chain_ps(operations), _serial_ps(operations) if one_at_a_time else 0)
    return longest


def _chain_ps(operations: Sequence[Operation]) -> int:
    """The longest chain of compute in a program."""
    durations = _durations(operations, longest=True)
    after = operation_rows(operations).after
    ends: list[int] = []
    begin = 0
    for duration, end in zip(durations, after.end, strict=True):
        ready = 0
        for other in after.rows[begin:end]:
            ready = max(ready, ends[other])
        ends.append(ready + duration)
        begin = end
    return max(ends, default=0)


def _serial_ps(operations: Sequence[Operation]) -> int:
    """The compute of a program on its accelerator."""
    return sum(_durations(operations, (Unit.ACCELERATOR,)))


def _durations(operations: Sequence[Operation], units: tuple[Unit, ...] = (Unit.ACCELERATOR, Unit.CPU), longest: bool = False) -> list[int]:
    """The compute time of each operation in picoseconds; of a composite the sum of its operations, or the `longest` chain of them."""
    rows = operation_rows(operations)
    chains = CompositeTimes(lambda collective: 0)
    computes = [isinstance(kind, Compute) and not kind.idle and kind.unit in units for kind in rows.kinds]
    durations = [kind.duration_ps if isinstance(kind, Compute) and counts else 0 for kind, counts in zip(rows.kinds, computes, strict=True)]
    for number, kind in enumerate(rows.kinds):
        if isinstance(kind, Composite):
            durations[number] = chains.of(kind).ps if longest else sum(_durations(kind.operations, units))
    if rows.times is None:
        return [durations[kind] for kind in rows.kind_of]
    return [durations[kind] if time < 0 or not computes[kind] else time for kind, time in zip(rows.kind_of, rows.times, strict=True)]
