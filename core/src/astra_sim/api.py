"""The Python entry point: one call, one run."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from astra_sim._boundary import contain_exits
from astra_sim.errors import InputError, PluginError, RunError
from astra_sim.network import RefiningNetwork
from astra_sim.providers import Provider
from astra_sim.report.result import Result, add_account, make_result
from astra_sim.run.record import RunRecord
from astra_sim.run.simulation import Explain, TimelineKind, simulate_graph
from astra_sim.setup.components import Components, build, make_network
from astra_sim.setup.experiment import SECTIONS, Experiment, load_experiment
from astra_sim.setup.plugins import Plugins, shared_plugins
from astra_sim.setup.run_options import RunOptions
from astra_sim.setup.specs import PREFIX, component_of

Component = str | os.PathLike[str] | Mapping[str, Any] | object


@contain_exits()
def simulate(
    experiment: Experiment | str | os.PathLike[str] | None = None,
    *,
    workload: Component | None = None,
    system: Component | None = None,
    platform: Component | None = None,
    network: Component | None = None,
    compute: Component | None = None,
    memory: Component | None = None,
    passes: int | None = None,
    compute_scale: float | None = None,
    comm_scale: float | None = None,
    injection_scale: float | None = None,
    queues_per_dim: int | None = None,
    rendezvous: bool | None = None,
    symmetry: bool | None = None,
    strict: bool | None = None,
    engine: str | None = None,
    groups: Mapping[str, Sequence[int]] | str | os.PathLike[str] | None = None,
    slow_npus: str | None = None,
    run: RunOptions | Mapping[str, Any] | None = None,
    run_name: str | None = None,
    set: Sequence[str] = (),
    plugins: Plugins | None = None,
    progress: Callable[[int, int], None] | None = None,
    explain: bool | str = False,
    timelines: TimelineKind = False,
    npu_times: bool = False,
) -> Result:
    """Simulate one experiment.

    `experiment` is an Experiment or the path of its file; the other arguments replace its parts, or are used alone. Each
    component is a spec string (`plugin:NAME?key=value`), the path of a file, a table of options, or an object of its kind.
    `run` is the options of a run in one record, which replaces all those of the experiment, or in a table, as the section `run` of an
    experiment, which replaces those that it names; those that are named beside it count more.
    `set` holds assignments `section.key=value`. `progress` is called with (simulated picoseconds, events) repeatedly.

    With `explain` the result has an `explanation`; on a network where messages wait for each other that takes several runs, but for "path",
    which omits results that need them; "ranges" makes more runs, which find how far the path's results stay true; "plugin:NAME" is
    another explainer. If it is explained the result has the critical path, and timelines of all NPUs that were simulated (at most 64, or
    one of each program).

    With `timelines` the result has a timeline of the first NPU of each program, not of NPU 0 alone (`Result.timelines`), and with "path"
    the critical path in time, too (`Result.critical_path`), with "messages" also each message of a collective that these NPUs send, if
    `symmetry` is False: else phases may be timed as a whole. With `npu_times` it has tables of the time of every NPU (`Result.npu_tables`).

    Raises InputError if an input is wrong and RunError if the run fails, both AstraError. The run fails, too, if `strict` is set
    and the result is faster than the wires allow (`Result.audit`).
    """
    started = time.perf_counter()
    options = _table(run) | _set_options(
        passes=passes,
        compute_scale=compute_scale,
        comm_scale=comm_scale,
        injection_scale=injection_scale,
        queues_per_dim=queues_per_dim,
        rendezvous=rendezvous,
        symmetry=symmetry,
        strict=strict,
        engine=engine,
        groups=groups,
        slow_npus=slow_npus,
    )
    plugins = plugins or shared_plugins()
    if not isinstance(experiment, (Experiment, type(None))):
        experiment = load_experiment(experiment, plugins)
    if isinstance(set, str) or not isinstance(set, Sequence) or not all(isinstance(assignment, str) for assignment in set):
        raise InputError(f"set is {set!r}; expected a list such as ['system.splits=8']")
    if explain not in (True, False, "path", "ranges") and not str(explain).startswith(PREFIX):
        raise InputError(f"explain is {explain!r}; expected True, False, 'path', 'ranges' or plugin:NAME")
    if timelines not in (True, False, "path", "messages"):
        raise InputError(f"timelines is {timelines!r}; expected True, False, 'path' or 'messages'")
    result = Experiment() if experiment is None else experiment
    result.check()
    result = result.copied()
    for kind, component in zip(SECTIONS, (workload, system, network, platform, compute, memory), strict=True):
        if component is not None:
            result.use(kind, component, plugins, where=kind)
    for name, value in options.items():
        result.choose(name, value)
    for assignment in set:
        result.set(assignment)
    with _without_collection():
        explainer = None
        if explain:
            provider_and_options = component_of(plugins, "explainer", str(_EXPLAINERS.get(explain, explain)), "explain")
            explainer = Explainer(*provider_and_options, result, plugins, progress)
        return run_components(
            build(result, plugins),
            run_name or result.name or "run",
            started,
            progress=progress,
            explainer=explainer,
            timelines=timelines,
            npu_times=npu_times,
        )


def _set_options(**options: Any) -> dict[str, Any]:
    """The options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def _table(run: RunOptions | Mapping[str, Any] | None) -> dict[str, Any]:
    """The options of a run by name. Raises InputError."""
    if isinstance(run, RunOptions):
        return attrs.asdict(run, recurse=False)
    if run is not None and not isinstance(run, Mapping):
        raise InputError(f"run is {run!r}; expected a table of options of a run, or RunOptions")
    return {} if run is None else dict(run)


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Hold off the search for garbage in circles: it would go over millions of operations again and again, and find nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_EXPLAINER = "critical_path"
_EXPLAINERS = {True: _EXPLAINER, "path": f"{_EXPLAINER}?reruns=false", "ranges": f"{_EXPLAINER}?ranges=true"}
"""The explainer that `explain` names, with its options."""


class Explainer(NamedTuple):
    """An explainer with its options, for one run of an experiment."""

    provider: Provider
    options: Any
    experiment: Experiment
    plugins: Plugins
    progress: Callable[[int, int], None] | None = None

    def explain(self, name: str, components: Components, record: RunRecord) -> Any:
        """The explanation of a run that has kept its path. Raises PluginError if it is none."""
        from astra_sim.records import ExplainedRun

        run = ExplainedRun(name, components, record, self.experiment, self.plugins, self.progress)
        result = self.provider.create(self.options, run)
        if not callable(getattr(result, "to_dict", None)) or not callable(getattr(result, "show", None)):
            expected = "expected an explanation as astra_sim.records.Explanation"
            raise PluginError(f"explainer {self.provider.name!r} returned {result!r}; {expected}")
        return result


@contain_exits()
def run_components(
    components: Components,
    name: str,
    started: float,
    progress: Callable[[int, int], None] | None = None,
    explainer: Explainer | None = None,
    timelines: TimelineKind = False,
    npu_times: bool = False,
) -> Result:
    """Run the components of `build`, and explain the run with an `explainer`. The wall time counts from `started` (`time.perf_counter`)."""
    record = simulate_graph(
        graph=components.graph,
        system=components.system,
        network=components.network,
        memory=components.memory,
        symmetry=components.run.symmetry,
        engine=components.engine,
        progress=progress,
        explain=None if explainer is None else Explain(lambda: make_network(explainer.experiment, explainer.plugins, components.platform)),
        timelines=timelines,
        npu_times=npu_times or bool(components.accounts),
        npu_ps=components.npu_ps,
    )
    result = make_result(name, components, record, time.perf_counter() - started)
    for account in components.accounts:
        add_account(result, account.provider.name, account.figures(result, components.platform))
    if explainer is not None:
        result.explanation = explainer.explain(name, components, record)
    if components.run.strict and result.audit:
        raise RunError("; ".join(["the result is faster than the wires allow", *(finding.message for finding in result.audit)]))
    if components.run.strict and isinstance(components.network, RefiningNetwork) and components.network.doubts:
        raise RunError("; ".join(components.network.doubts))
    return result
