"""The hooks of astra. A plugin implements those it needs; each returns a list of providers (see `astra_sim.providers`).

A plugin is a module named by an entry point in the group `astra_sim`. It should import no more than `astra_sim`: providers name
their implementation as "package.module:object", which is imported at first use.

The calls of each kind's factory are below. `[options]` is an instance of the provider's options class; a provider without one
has a factory without this argument. A factory's own exception is an InputError that names the option or value; everything else
becomes a PluginError.
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from astra_sim.providers import CollectiveProvider, FileFormat, Provider, SchedulerProvider

__all__ = [
    "astra_accounts",
    "astra_collectives",
    "astra_commands",
    "astra_computes",
    "astra_engines",
    "astra_explainers",
    "astra_formats",
    "astra_memories",
    "astra_models",
    "astra_networks",
    "astra_placements",
    "astra_platforms",
    "astra_reports",
    "astra_schedulers",
    "astra_serving_policies",
    "astra_systems",
    "astra_training_loops",
    "astra_variations",
    "astra_workloads",
    "hookimpl",
]

PROJECT = "astra_sim"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

# -- Workload ----------------------------------------------------------------------------------------------------------


@hookspec
def astra_workloads() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Workloads: factory([options,] context) -> ExecutionGraph."""


@hookspec
def astra_training_loops() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Training loops: factory(program[, options]) writes the operations of all iterations into the LayeredProgram that it is given.

    The workload `layers` calls it, and takes no answer.
    """


# -- System ------------------------------------------------------------------------------------------------------------


@hookspec
def astra_systems() -> Sequence[Provider]:  # type: ignore[empty-body]
    """System layers (chunks, phases, queues): factory([options,] context) -> System."""


@hookspec
def astra_collectives() -> Sequence[CollectiveProvider]:  # type: ignore[empty-body]
    """Collective algorithms: factory(request[, options]) -> Schedule."""


@hookspec
def astra_schedulers() -> Sequence[SchedulerProvider]:  # type: ignore[empty-body]
    """Orders of queues: factory([options]) -> Order; orders of dimensions: factory([options,] platform) -> DimensionOrder."""


# -- Network -----------------------------------------------------------------------------------------------------------


@hookspec
def astra_platforms() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Topologies: factory([options]) -> list of Dimension, or a Preset of topologies by name."""


@hookspec
def astra_networks() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Network backends: factory([options,] platform) -> RouteDelayNetwork or EventNetwork."""


# -- Compute and memory ------------------------------------------------------------------------------------------------


@hookspec
def astra_computes() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Compute models: factory([options]) -> Compute."""


@hookspec
def astra_memories() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Memory models: factory([options]) -> Memory."""


# -- Models and serving -------------------------------------------------------------------------------------------------


@hookspec
def astra_models() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Descriptions of models: factory([options]) -> ModelDescription (`astra_sim.models`)."""


@hookspec
def astra_serving_policies() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Policies of a serving instance: factory([options]) -> Policy (`astra_sim.serving`), which plans the tokens of each iteration."""


@hookspec
def astra_variations() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Variation of compute times and links: factory([options,] platform) -> Callable, or `compute.Variation`.

    The function takes an operation that starts (`compute.Started`) to its time (picoseconds); with it every NPU is simulated.
    A section of an experiment that has the name of a variation holds its options.
    """


@hookspec
def astra_placements() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Placements of jobs: factory([options]) -> Callable, from the free NPUs in rising order and a number to as many of these.

    The function raises ValueError, with the reason, if it finds no place.
    """


@hookspec
def astra_accounts() -> Sequence[Provider]:  # type: ignore[empty-body]
    """The cost of runs: factory([options,] result, platform) -> figures by name, of which a `Figure` is shown in tables.

    A section of an experiment that has the name of an account holds its options. Its figures are in `Result.figures` under that name; an
    account sees those that were listed before it.
    """


# -- Engine ------------------------------------------------------------------------------------------------------------


@hookspec
def astra_engines() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Engines: the factory is a class with the interface `astra_sim.engines.EngineType`, the same object each time; it has no options.

    One runs if `--engine` names it. Public, but provisional: its package requires exactly the version of the kernel.
    """


# -- Files, reports and commands ------------------------------------------------------------------------------------------------


@hookspec
def astra_formats() -> Sequence[FileFormat]:  # type: ignore[empty-body]
    """File formats of other programs: recognises(text) -> bool, read(text, path) -> tables of the sections of an experiment.

    A provider is a FileFormat, which has these two in place of a factory.
    """


@hookspec
def astra_reports() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Reports: factory([options,] results, folder) writes files about the `Result`s of runs into a `reports.ReportFolder`."""


@hookspec
def astra_explainers() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Explainers: factory([options,] run) -> Explanation. `run` is an `astra_sim.records.ExplainedRun`; public, but provisional.

    `simulate(..., explain=True)` and the command line take the one named `critical_path`.
    """


@hookspec
def astra_commands() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Further commands of `astra`: the factory is a click command, which runs when the command is given (see `astra_sim.commands`)."""
