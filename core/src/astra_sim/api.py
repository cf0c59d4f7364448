"""The Python entry point: one call, one run."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from astra_sim._boundary import contain_exits
from astra_sim.errors import InputError, RunError
from astra_sim.report.result import Result, make_result
from astra_sim.run.simulation import Explain, TimelineKind, simulate_graph
from astra_sim.setup.components import Components, build
from astra_sim.setup.experiment import SECTIONS, Experiment, load_experiment
from astra_sim.setup.plugins import Plugins, shared_plugins

if TYPE_CHECKING:
    from astra_sim.report.what_if import WhatIf

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
    run: Mapping[str, Any] | None = None,
    run_name: str | None = None,
    set: Sequence[str] = (),
    plugins: Plugins | None = None,
    progress: Callable[[int, int], None] | None = None,
    explain: bool | Literal["path", "ranges"] = False,
    timelines: TimelineKind = False,
    npu_times: bool = False,
) -> Result:
    """Simulate one experiment.

    `experiment` is an Experiment or the path of its file; the other arguments replace its parts, or stand alone. Each
    component is a spec string (`plugin:NAME?key=value`), the path of a file, a table of options, or an object of its kind.
    `run` is the options of a run in one table, as the section `run` of an experiment; those that are named beside it count more.
    `set` holds assignments `section.key=value`. `progress` is told (simulated picoseconds, events) now and then. With `explain` the result
    has an `explanation`; on a network where messages wait for each other that takes several runs, but for "path", which leaves out what
    only they tell; "ranges" makes more runs, which say how far what the path tells stays true. With `timelines` it has a timeline of the
    first NPU of each program, not of NPU 0 alone (`Result.timelines`), and with "path" the critical path in time, too
    (`Result.critical_path`), with "messages" also each message of a collective that these NPUs send, where `symmetry` is False: else phases
    may be timed as a whole. Where it is explained it has the path, and timelines of all NPUs that were simulated (at most 64, or one of
    each program). With `npu_times` it has tables of the time of every NPU (`Result.npu_tables`).

    Raises InputError where an input is wrong and RunError where the run fails, both AstraError. The run fails, too, where `strict` is set
    and the result is faster than the wires allow (`Result.audit`).
    """
    started = time.perf_counter()
    components = {
        "workload": workload,
        "system": system,
        "platform": platform,
        "network": network,
        "compute": compute,
        "memory": memory,
    }
    options = _table(run) | _given(
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
    if explain not in (True, False, "path", "ranges"):
        raise InputError(f"explain is {explain!r}; expected True, False, 'path' or 'ranges'")
    if timelines not in (True, False, "path", "messages"):
        raise InputError(f"timelines is {timelines!r}; expected True, False, 'path' or 'messages'")
    made = Experiment() if experiment is None else experiment
    made.check()
    made = made.copied()
    for kind in SECTIONS:
        if components[kind] is not None:
            made.use(kind, components[kind], plugins, where=kind)
    for name, value in options.items():
        made.choose(name, value)
    for assignment in set:
        made.set(assignment)
    with _without_collection():
        what_if = _what_if(made, plugins, explain, progress) if explain else None
        return run_components(
            build(made, plugins),
            run_name or made.name or "run",
            started,
            progress=progress,
            what_if=what_if,
            timelines=timelines,
            npu_times=npu_times,
        )


def _given(**options: Any) -> dict[str, Any]:
    """The options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def _table(run: Mapping[str, Any] | None) -> dict[str, Any]:
    if run is not None and not isinstance(run, Mapping):
        raise InputError(f"run is {run!r}; expected a table of options of a run")
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


def _what_if(
    experiment: Experiment, plugins: Plugins, explain: bool | Literal["path", "ranges"], progress: Callable[[int, int], None] | None
) -> WhatIf:
    """What explains a run; imported when it is asked for."""
    from astra_sim.report.what_if import WhatIf

    return WhatIf(experiment, plugins, reruns=explain != "path", ranges=explain == "ranges", progress=progress)


@contain_exits()
def run_components(
    components: Components,
    name: str,
    started: float,
    progress: Callable[[int, int], None] | None = None,
    what_if: WhatIf | None = None,
    timelines: TimelineKind = False,
    npu_times: bool = False,
) -> Result:
    """Run what `build` made; with `what_if` explain the run. `started` is the `time.perf_counter()` from which the wall time counts."""
    record = simulate_graph(
        graph=components.graph,
        system=components.system,
        network=components.network,
        memory=components.memory,
        symmetry=components.run.symmetry,
        engine=components.engine,
        progress=progress,
        explain=None if what_if is None else Explain(lambda: what_if.network_again(components)),
        timelines=timelines,
        npu_times=npu_times,
        npu_ps=components.npu_ps,
    )
    result = make_result(name, components, record, time.perf_counter() - started)
    if what_if is not None:
        result.explanation = what_if.explain(name, components, record)
    if components.run.strict and result.audit:
        raise RunError("; ".join(["the result is faster than the wires allow", *(finding.message for finding in result.audit)]))
    return result
