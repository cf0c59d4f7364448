"""Records of runs, for packages that explain them (hook `astra_explainers`) or account for them. Public, but provisional.

An explainer gets an `ExplainedRun`: the components, the `RunRecord` of the run with its `CriticalPath`, and a way to simulate it
again with something changed. It returns an `Explanation`. These names follow the kernel's own records, so they may change with each series
of versions.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from astra_sim._lazy import lazy_names
from astra_sim.graph import ExecutionGraph, Operation
from astra_sim.platform import Group, LogicalDimension, Platform
from astra_sim.run.composites import CompositeTimes
from astra_sim.run.critical_path import CriticalPath, PathSegment, SegmentKind, SegmentOrigin
from astra_sim.run.record import RunRecord
from astra_sim.run.simulation import Explain, Progress, simulate_graph
from astra_sim.setup.components import Components, build, make_network
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import Plugins
from astra_sim.system import System

if TYPE_CHECKING:
    from astra_sim.report.audit import link_bandwidth
    from astra_sim.report.labels import POINT_TO_POINT
    from astra_sim.report.npu_shares import NpuUses, npu_uses
    from astra_sim.report.screen import Screen


__getattr__ = lazy_names(
    __name__, {"report.audit": ("link_bandwidth",), "report.labels": ("POINT_TO_POINT",), "report.npu_shares": ("NpuUses", "npu_uses")}
)


class Explanation(Protocol):
    """The result of an explainer: `Result.explanation`. It can be pickled, because reports get copies of results."""

    def to_dict(self) -> dict[str, Any]:
        """The explanation, ready for JSON: `explanation` of a result that is written."""

    def show(self, screen: Screen) -> None:
        """Print it, as `astra run --explain` does."""


@attrs.frozen(eq=False, repr=False)
class ExplainedRun:
    """A run to explain: its components, and the record of the run, which has a critical path.

    `again` simulates it once more with something changed.
    """

    name: str
    components: Components
    record: RunRecord
    _experiment: Experiment
    _plugins: Plugins
    _progress: Progress | None = None

    @property
    def path(self) -> CriticalPath:
        """The critical path."""
        path = self.record.path
        assert path is not None
        return path

    @functools.cached_property
    def _group_names(self) -> dict[tuple[int, ...], str]:
        from astra_sim.report.labels import group_names

        return group_names(self.components)

    def group_of(self, operation: Operation, ranks: LogicalDimension | Group | None = None) -> str:
        """The parallelism or communicator group over whose NPUs an operation communicates; "": the workload names none.

        `ranks` are those of one phase of a collective (`SegmentOrigin.ranks`).
        """
        from astra_sim.report.labels import group_of

        return group_of(operation, self.components.graph, self._group_names, ranks)

    def link_bytes(self) -> list[float]:
        """For each dimension the bytes of collectives on all links that they cross, divided by the number of NPUs."""
        from astra_sim.report.audit import link_bytes

        return link_bytes(self.components, self.record)

    def stage(self, name: str) -> None:
        """Name the purpose of the next simulations in the progress of the run."""
        if self._progress is not None and hasattr(self._progress, "stage"):
            self._progress.stage(name)

    def again(
        self,
        *,
        graph: ExecutionGraph | None = None,
        system: System | None = None,
        platform: Platform | None = None,
        keep_path: bool = False,
    ) -> ExplainedRun | None:
        """Simulate the run once more, with another graph or system layer, or built anew on another platform.

        `keep_path`: the record has a critical path. Returns None if the network was given as an object, which has carried messages and
        belongs to its platform. Warnings are left out: the run itself has given them.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            components = self._with_network() if platform is None else self._on(platform)
            if components is None:
                return None
            if graph is not None:
                components = attrs.evolve(components, graph=graph)
            if system is not None:
                components = attrs.evolve(components, system=system)
            record = simulate_graph(
                components.graph,
                components.system,
                components.network,
                components.memory,
                components.engine,
                components.run.symmetry,
                progress=self._progress if hasattr(self._progress, "stage") else None,
                explain=Explain() if keep_path else None,
                npu_ps=components.npu_ps,
            )
        return attrs.evolve(self, components=components, record=record)

    def _with_network(self) -> Components | None:
        """The components with a network on which nothing was sent."""
        network = make_network(self._experiment, self._plugins, self.components.platform)
        return None if network is None else attrs.evolve(self.components, network=network)

    def _on(self, platform: Platform) -> Components | None:
        """The components on another platform."""
        if self.components.names["network"] not in self._plugins.components("network"):
            return None
        sections = {**self._experiment.sections, "platform": platform}
        experiment = self._experiment.copied()
        experiment.sections = sections
        return build(experiment, self._plugins)
