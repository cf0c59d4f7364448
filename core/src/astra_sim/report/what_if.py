"""What a change of the machine brings, where the critical path does not tell: the run once more with more and with less of something."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

import attrs

from astra_sim.graph import Composite, Compute, ExecutionGraph, NpuProgram, Operation
from astra_sim.network import Network
from astra_sim.platform import Platform, scaled_in
from astra_sim.report.details import computes
from astra_sim.report.explanation import Explanation, Method, Sensitivity, explain, sensitivity
from astra_sim.report.labels import layer_name, layer_names
from astra_sim.rows import Rows, column
from astra_sim.run.critical_path import PartKind
from astra_sim.run.record import RunRecord
from astra_sim.run.simulation import Progress, simulate_graph
from astra_sim.setup.components import Components, build, make_network
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import Plugins
from astra_sim.system import System

_Varied = Callable[[float], Components | None]


class WhatIf:
    """Runs an experiment again, on machines that are a little different; without `reruns` it does not.

    With `ranges` it looks how far what the path tells stays true. A `progress` that has a method `stage` is told which runs they are, and
    how far they have come.
    """

    def __init__(
        self, experiment: Experiment, plugins: Plugins, reruns: bool = True, ranges: bool = False, progress: Progress | None = None
    ) -> None:
        self._experiment = experiment
        self._plugins = plugins
        self._reruns = reruns
        self._ranges = ranges
        self._stage: Callable[[str], None] | None = getattr(progress, "stage", None)
        self._progress = None if self._stage is None else progress

    def explain(self, name: str, components: Components, run: RunRecord) -> Explanation:
        """The explanation of a run that has kept its path."""
        found = explain(name, components, run, self.sensitivities(components, run))
        if not self._ranges:
            return found
        from astra_sim.report.ranges import with_ranges

        if self._stage is not None:
            self._stage("runs for ranges")
        return with_ranges(found, components, run, lambda sensitivity: self.way(components, sensitivity))

    def way(self, components: Components, sensitivity: Sensitivity) -> _Varied:
        """The run with another value of a parameter, by a factor."""
        number, layer = sensitivity.dimension, sensitivity.layer
        match sensitivity.parameter:
            case "bandwidth" if number is not None:
                return lambda factor: self.with_links(number, factor, 1.0, components)
            case "latency" if number is not None:
                return lambda factor: self.with_links(number, 1.0, factor, components)
            case "endpoint delay":
                return lambda factor: self.with_endpoint(components, factor)
            case "layer compute":
                return lambda factor: self.with_compute(components, factor, layer)
        return lambda factor: self.with_compute(components, 1 / factor)

    def network_again(self, components: Components) -> Network | None:
        """A network like that of the run, on which nothing was sent; None where it was given as an object."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make_network(self._experiment, self._plugins, components.platform)

    def sensitivities(self, components: Components, run: RunRecord) -> Iterator[Sensitivity]:
        """The sensitivities that the path does not tell exactly, by re-runs. Those that no re-run can tell are left out."""
        path = run.path
        assert path is not None
        if not self._reruns:
            return
        collectives = any(part.kind is PartKind.COLLECTIVE and part.ps for part in path.parts)
        ways: list[tuple[str, int | None, _Varied]] = []
        if not path.exact:
            ways.append(("compute speed", None, lambda factor: self.with_compute(components, 1 / factor)))
            ways.append(("endpoint delay", None, lambda factor: self.with_endpoint(components, factor)))
        if not path.exact or collectives or path.cut_by_bandwidth:
            for number in range(len(components.platform.dimensions)):
                if number in components.network.measured_dimensions:
                    continue
                ways.append(("bandwidth", number, lambda factor, number=number: self.with_links(number, factor, 1.0, components)))  # type: ignore[misc]
                ways.append(("latency", number, lambda factor, number=number: self.with_links(number, 1.0, factor, components)))  # type: ignore[misc]
        for parameter, dimension, varied in ways:
            if self._stage is not None:
                self._stage(f"runs with other {parameter}{'' if dimension is None else f' of dimension {dimension}'}")
            on_path = any(part.dimension == dimension for part in path.parts)
            found = self._derivative(varied, run.finish_ps, on_path and dimension is not None)
            if found is not None:
                yield sensitivity(parameter, found[0], run.finish_ps, found[1], dimension)

    def _derivative(self, varied: _Varied, finish_ps: int, counts: bool) -> tuple[float, Method] | None:
        """d time / d ln parameter in picoseconds, and how it was found; None where the parameter cannot be changed.

        Networks with a clock have steps: where 1 % is less than one, as it is where nothing changes though the parameter `counts`, 10 %
        tell more.
        """
        derivative, differs = 0.0, False
        methods: tuple[tuple[float, Method], ...] = ((0.01, "re-runs"), (0.1, "re-runs, 10 %"))
        for step, method in methods:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                times = self._times(varied, (1 + step, 1 - step))
            if times is None:
                return None
            above, below = (times[0] - finish_ps) / math.log(1 + step), (times[1] - finish_ps) / math.log(1 - step)
            differs = abs(above - below) > 0.5 * max(abs(above), abs(below))
            derivative = (times[0] - times[1]) / math.log((1 + step) / (1 - step))
            if not differs and (derivative or not counts):
                return derivative, method
        return derivative, "re-runs, kink" if differs else "re-runs"

    def _times(self, varied: _Varied, factors: Sequence[float]) -> list[int] | None:
        """What the run takes with other values of a parameter (picoseconds); None where it cannot be changed."""
        times = []
        for factor in factors:
            components = varied(factor)
            if components is None:
                return None
            graph, run = components.graph, components.run
            inputs = graph, components.system, components.network, components.memory
            record = simulate_graph(*inputs, components.engine, run.symmetry, self._progress, npu_ps=components.npu_ps)
            times.append(record.finish_ps)
        return times

    def with_compute(self, components: Components, factor: float, layer: str | None = None) -> Components | None:
        """The run where computing, of all or of a layer, takes `factor` of its time."""
        network = self.network_again(components)
        if network is None:
            return None
        return attrs.evolve(components, network=network, graph=scaled_compute(components.graph, factor, layer))

    def with_endpoint(self, components: Components, factor: float) -> Components | None:
        """The run where the endpoint delay is `factor` of what it is; with a bus that is another thing."""
        system: System = copy.copy(components.system)
        network = self.network_again(components)
        if network is None or system.bus is not None:
            return None
        system.endpoint_ps = round(system.endpoint_ps * factor)
        return attrs.evolve(components, network=network, system=system)

    def with_links(self, dimension: int, bandwidth: float, latency: float, components: Components) -> Components | None:
        """The experiment with other links in a dimension."""
        stated = components.platform if components.stated is None else components.stated
        platform = scaled_platform(stated, dimension, bandwidth, latency)
        experiment = copy.copy(self._experiment)
        if platform is None or components.names["network"] not in self._plugins.components("network"):
            return None
        experiment.sections = {**experiment.sections, "platform": platform}
        return build(experiment, self._plugins)


def scaled_platform(platform: Platform, dimension: int, bandwidth: float, latency: float) -> Platform | None:
    """The platform with links of `bandwidth` and `latency` times those of a dimension.

    None where its topology has links of its own and does not say how they scale, or which of them are those of a logical dimension.
    """
    own = platform.dimensions[dimension]
    topology = own.topology.scaled(bandwidth, latency)
    if topology is None:
        return None
    changed = attrs.evolve(
        own,
        topology=topology,
        link_bandwidth=own.link_bandwidth * bandwidth,
        link_latency_ns=own.link_latency_ns * latency,
        nic_latency_ns=own.nic_latency_ns * latency,
        router_latency_ns=own.router_latency_ns * latency,
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
    composites: dict[int, Composite] = {}

    def change(operation: Operation) -> Operation:
        assert isinstance(operation, Compute)
        return attrs.evolve(operation, duration_ps=round(operation.duration_ps * factor))

    def changed_within(composite: Composite) -> Composite:
        if id(composite) not in composites:
            own = _scaled(composite.operations, factor, graph, layer)
            previous = None if composite.previous is None else changed_within(composite.previous)
            composites[id(composite)] = attrs.evolve(composite, operations=own, previous=previous)
        return composites[id(composite)]

    if not isinstance(operations, Rows):
        wanted = (_computes(each) and layer in (None, layer_name(each, graph)) for each in operations)
        made = (change(each) if yes else each for each, yes in zip(operations, wanted, strict=True))
        return tuple(changed_within(each) if isinstance(each, Composite) else each for each in made)
    # The kinds of rows have no names: where some rows of a kind change and others do not, they have times of their own.
    kinds = [changed_within(kind) if isinstance(kind, Composite) else kind for kind in operations.kinds]
    changed = [_computes(kind) for kind in kinds]
    if layer is not None and operations.name is None and operations.times is None:  # kinds have the names of their rows
        changed, layer = [yes and layer_name(kind, graph) == layer for kind, yes in zip(kinds, changed, strict=True)], None
    if layer is None:
        kinds = [change(kind) if yes else kind for kind, yes in zip(kinds, changed, strict=True)]
    times: list[int] = []
    own = repeat(-1) if operations.times is None else operations.times
    for number, time, name in zip(operations.kind_of, own, layer_names(operations, graph), strict=False):
        if changed[number] and (time > 0 if layer is None else layer == name):
            kind = kinds[number]
            assert isinstance(kind, Compute)
            time = round(factor * (kind.duration_ps if time < 0 else time))
        times.append(time)
    return attrs.evolve(operations, kinds=kinds, times=column(times, "q"))


def _computes(operation: Operation) -> bool:
    """Whether an operation is computing that takes some time."""
    return isinstance(operation, Compute) and computes(operation) and operation.duration_ps > 0
