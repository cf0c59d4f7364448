"""The effect of a change of the machine, if the critical path does not give it: two more runs, with more and with less of a parameter."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

import attrs
from astra_sim.graph import Composite, Compute, ExecutionGraph, NpuProgram, Operation, Unit
from astra_sim.platform import Platform, scaled_in
from astra_sim.records import ExplainedRun, SegmentKind
from astra_sim.rows import Rows, column
from astra_sim.system import System

from astra_sim_explain.explanation import Method, PathExplanation, Sensitivity, explain, sensitivity
from astra_sim_explain.options import ExplainOptions

Varied = Callable[[float, bool], ExplainedRun | None]
"""A run with a parameter times a factor; True: with its critical path. None if the parameter cannot be changed."""


def explain_run(options: ExplainOptions, run: ExplainedRun) -> PathExplanation:
    """The explanation of a run: the explainer `critical_path`."""
    explanation = explain(run, rerun_sensitivities(run) if options.reruns else ())
    if not options.ranges:
        return explanation
    from astra_sim_explain.ranges import with_ranges

    run.stage("runs for ranges")
    return with_ranges(explanation, run)


def varied(run: ExplainedRun, parameter: str, dimension: int | None = None, layer: str | None = None) -> Varied:
    """The run with another value of a parameter, by a factor."""
    match parameter:
        case "bandwidth" if dimension is not None:
            return lambda factor, path: with_links(run, dimension, factor, 1.0, path)
        case "latency" if dimension is not None:
            return lambda factor, path: with_links(run, dimension, 1.0, factor, path)
        case "endpoint delay":
            return lambda factor, path: with_endpoint(run, factor, path)
        case "layer compute":
            return lambda factor, path: with_compute(run, factor, layer, path)
    return lambda factor, path: with_compute(run, 1 / factor, None, path)


def rerun_sensitivities(run: ExplainedRun) -> Iterator[Sensitivity]:
    """The sensitivities that the path does not tell exactly, by re-runs. Those that no re-run can tell are left out."""
    path, finish_ps = run.path, run.record.finish_ps
    collectives = any(segment.kind is SegmentKind.COLLECTIVE and segment.ps for segment in path.segments)
    parameters: list[tuple[str, int | None]] = []
    if not path.exact:
        parameters += [("compute speed", None), ("endpoint delay", None)]
    if not path.exact or collectives or path.cut_by_bandwidth:
        for number in range(len(run.components.platform.dimensions)):
            if number not in run.components.network.measured_dimensions:
                parameters += [("bandwidth", number), ("latency", number)]
    for parameter, dimension in parameters:
        run.stage(f"runs with other {parameter}{'' if dimension is None else f' of dimension {dimension}'}")
        on_path = any(segment.dimension == dimension for segment in path.segments)
        derivative = _derivative(varied(run, parameter, dimension), finish_ps, on_path and dimension is not None)
        if derivative is not None:
            yield sensitivity(parameter, derivative[0], finish_ps, derivative[1], dimension)


def _derivative(run: Varied, finish_ps: int, counts: bool) -> tuple[float, Method] | None:
    """d time / d ln parameter in picoseconds, and how it was found; None if the parameter cannot be changed.

    Networks with a clock have steps: if 1 % is less than one, as it is if nothing changes though the parameter `counts`, 10 %
    tell more.
    """
    derivative, differs = 0.0, False
    methods: tuple[tuple[float, Method], ...] = ((0.01, "re-runs"), (0.1, "re-runs, 10 %"))
    for step, method in methods:
        more, less = run(1 + step, False), run(1 - step, False)
        if more is None or less is None:
            return None
        times = more.record.finish_ps, less.record.finish_ps
        above, below = (times[0] - finish_ps) / math.log(1 + step), (times[1] - finish_ps) / math.log(1 - step)
        differs = abs(above - below) > 0.5 * max(abs(above), abs(below))
        derivative = (times[0] - times[1]) / math.log((1 + step) / (1 - step))
        if not differs and (derivative or not counts):
            return derivative, method
    return derivative, "re-runs, kink" if differs else "re-runs"


def with_compute(run: ExplainedRun, factor: float, layer: str | None = None, path: bool = False) -> ExplainedRun | None:
    """The run in which compute, of all or of a layer, takes `factor` of its time."""
    return run.again(graph=scaled_compute(run.components.graph, factor, layer), keep_path=path)


def with_endpoint(run: ExplainedRun, factor: float, path: bool = False) -> ExplainedRun | None:
    """The run with `factor` times the endpoint delay; with a bus that is another thing."""
    system: System = copy.copy(run.components.system)
    if system.bus is not None:
        return None
    system.endpoint_ps = round(system.endpoint_ps * factor)
    return run.again(system=system, keep_path=path)


def with_links(run: ExplainedRun, dimension: int, bandwidth: float, latency: float, path: bool = False) -> ExplainedRun | None:
    """The run with other links in a dimension."""
    stated = run.components.platform if run.components.stated is None else run.components.stated
    platform = scaled_platform(stated, dimension, bandwidth, latency)
    return None if platform is None else run.again(platform=platform, keep_path=path)


def scaled_platform(platform: Platform, dimension: int, bandwidth: float, latency: float) -> Platform | None:
    """The platform with links of `bandwidth` and `latency` times those of a dimension.

    None if its topology has links of its own and does not tell how they scale, or which of them are those of a logical dimension.
    """
    dimension_links = platform.dimensions[dimension]
    topology = dimension_links.topology.scaled(bandwidth, latency)
    if topology is None:
        return None
    changed = attrs.evolve(
        dimension_links,
        topology=topology,
        link_bandwidth=dimension_links.link_bandwidth * bandwidth,
        link_latency_ns=dimension_links.link_latency_ns * latency,
        nic_latency_ns=dimension_links.nic_latency_ns * latency,
        router_latency_ns=dimension_links.router_latency_ns * latency,
    )
    dimensions = (*platform.dimensions[:dimension], changed, *platform.dimensions[dimension + 1 :])
    physical = scaled_in(platform.physical, dimension, bandwidth, latency)
    if platform.physical is not None and physical is None:
        return None
    return Platform(dimensions, platform.name, platform.device, physical)


def scaled_compute(graph: ExecutionGraph, factor: float, layer: str | None = None) -> ExecutionGraph:
    """The graph with computing of `factor` of its time, all or that of a layer, or of operations of a name that belong to none."""
    others = tuple(NpuProgram(_scaled(program.operations, factor, graph, layer), program.npus) for program in graph.others)
    return attrs.evolve(graph, operations=_scaled(graph.operations, factor, graph, layer), others=others)


def _scaled(operations: Sequence[Operation], factor: float, graph: ExecutionGraph, layer: str | None) -> Sequence[Operation]:
    """The operations of a graph, of a layer or all, which take as many times as long."""
    composites: dict[int, Composite] = {}

    def change(operation: Operation) -> Operation:
        assert isinstance(operation, Compute)
        return attrs.evolve(operation, duration_ps=round(operation.duration_ps * factor))

    def changed_within(composite: Composite) -> Composite:
        if id(composite) not in composites:
            scaled = _scaled(composite.operations, factor, graph, layer)
            previous = None if composite.previous is None else changed_within(composite.previous)
            composites[id(composite)] = attrs.evolve(composite, operations=scaled, previous=previous)
        return composites[id(composite)]

    if not isinstance(operations, Rows):
        wanted = (_computes(each) and layer in (None, graph.layer_of(each)) for each in operations)
        result = (change(each) if yes else each for each, yes in zip(operations, wanted, strict=True))
        return tuple(changed_within(each) if isinstance(each, Composite) else each for each in result)
    # The kinds of rows have no names: if some rows of a kind change and others do not, they have times of their own.
    kinds = [changed_within(kind) if isinstance(kind, Composite) else kind for kind in operations.kinds]
    changed = [_computes(kind) for kind in kinds]
    if layer is not None and operations.name is None and operations.times is None:  # kinds have the names of their rows
        changed, layer = [yes and graph.layer_of(kind) == layer for kind, yes in zip(kinds, changed, strict=True)], None
    if layer is None:
        kinds = [change(kind) if yes else kind for kind, yes in zip(kinds, changed, strict=True)]
    times: list[int] = []
    own = repeat(-1) if operations.times is None else operations.times
    for number, time, name in zip(operations.kind_of, own, graph.layers_of(operations), strict=False):
        if changed[number] and (time > 0 if layer is None else layer == name):
            kind = kinds[number]
            assert isinstance(kind, Compute)
            time = round(factor * (kind.duration_ps if time < 0 else time))
        times.append(time)
    return attrs.evolve(operations, kinds=kinds, times=column(times, "q"))


def _computes(operation: Operation) -> bool:
    """Whether an operation is computing that takes some time."""
    if not isinstance(operation, Compute) or operation.idle or operation.unit not in (Unit.ACCELERATOR, Unit.CPU):
        return False
    return operation.duration_ps > 0
