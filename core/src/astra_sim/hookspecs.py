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
    """Workloads: factory([options,] context) -> ExecutionGraph.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> @hookimpl
        ... def astra_workloads():
        ...     return [Provider("halves", "Two halves", "my_package:halves", "my_package:HalvesOptions")]
    """


@hookspec
def astra_training_loops() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Training loops: factory(program[, options]) writes the operations of all iterations into the LayeredProgram that it is given.

    The workload `layers` calls it, and takes no answer.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> @hookimpl
        ... def astra_training_loops():
        ...     return [Provider("backward_only", "Weight gradients and their collectives", "my_package:backward_only")]
    """


# -- System ------------------------------------------------------------------------------------------------------------


@hookspec
def astra_systems() -> Sequence[Provider]:  # type: ignore[empty-body]
    """System layers (chunks, phases, queues): factory([options,] context) -> System.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> @hookimpl
        ... def astra_systems():
        ...     return [Provider("whole", "One chunk through all dimensions", "my_package:whole")]
    """


@hookspec
def astra_collectives() -> Sequence[CollectiveProvider]:  # type: ignore[empty-body]
    """Collective algorithms: factory(request[, options]) -> Schedule.

    Example:

        >>> from astra_sim import CollectiveProvider, hookimpl
        >>> from astra_sim.schedule import Schedule, exchange, shift
        >>> def around(request):
        ...     return Schedule.shared(request, [exchange(shift(k), request.bytes // request.ranks) for k in range(1, request.ranks)])
        >>> @hookimpl
        ... def astra_collectives():
        ...     return [CollectiveProvider("around", "All-to-all, nearest first", around, pure=True)]
    """


@hookspec
def astra_schedulers() -> Sequence[SchedulerProvider]:  # type: ignore[empty-body]
    """Orders of queues: factory([options]) -> Order; orders of dimensions: factory([options,] platform) -> DimensionOrder.

    Example:

        >>> from astra_sim import SchedulerProvider, hookimpl
        >>> from astra_sim.system import Rule, RuleOrder
        >>> def largest_first():
        ...     return RuleOrder(otherwise=Rule(key=lambda kind, size, remaining: -size))
        >>> @hookimpl
        ... def astra_schedulers():
        ...     return [SchedulerProvider("largest_first", "Largest phase first", largest_first, orders="queue")]
    """


# -- Network -----------------------------------------------------------------------------------------------------------


@hookspec
def astra_platforms() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Topologies: factory([options]) -> list of Dimension, or a Preset of topologies by name.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> @hookimpl
        ... def astra_platforms():
        ...     return [Provider("line", "NPUs in a line", "my_package:line", "my_package:LineOptions")]
    """


@hookspec
def astra_networks() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Network backends: factory([options,] platform) -> RouteDelayNetwork or EventNetwork.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> @hookimpl
        ... def astra_networks():
        ...     return [Provider("fixed", "Every message takes the same time", "my_package:Fixed", "my_package:FixedOptions")]
    """


# -- Compute and memory ------------------------------------------------------------------------------------------------


@hookspec
def astra_computes() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Compute models: factory([options]) -> Compute.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> from astra_sim.compute import Compute
        >>> class Half(Compute):
        ...     def duration_ns(self, work):
        ...         return work.recorded_ns / 2
        >>> @hookimpl
        ... def astra_computes():
        ...     return [Provider("half", "Half of the recorded time", Half)]
    """


@hookspec
def astra_memories() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Memory models: factory([options]) -> Memory.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> from astra_sim.memory import Memory
        >>> class Flat(Memory):
        ...     def access_ps(self, bytes, remote):
        ...         return bytes * (40 if remote else 1)
        >>> @hookimpl
        ... def astra_memories():
        ...     return [Provider("flat", "1000 GB/s, and 25 GB/s outside of the NPU", Flat)]
    """


# -- Models and serving -------------------------------------------------------------------------------------------------


@hookspec
def astra_models() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Descriptions of models: factory([options]) -> ModelDescription (`astra_sim.models`).

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> from astra_sim.models import ModelDescription
        >>> def small():
        ...     return ModelDescription(layers=2, hidden=256, heads=4, vocab=1000)
        >>> @hookimpl
        ... def astra_models():
        ...     return [Provider("small", "Two layers, for tests", small)]
    """


@hookspec
def astra_serving_policies() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Policies of a serving instance: factory([options]) -> Policy (`astra_sim.serving`), which plans the tokens of each iteration.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> @hookimpl
        ... def astra_serving_policies():
        ...     return [Provider("shortest", "Shortest prompt first", "my_package:Shortest")]
    """


@hookspec
def astra_variations() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Variation of compute times and links: factory([options,] platform) -> Callable, or `compute.Variation`.

    The function takes an operation that starts (`compute.Started`) to its time (picoseconds); with it every NPU is simulated.
    A section of an experiment that has the name of a variation holds its options.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> def thermal(platform):
        ...     return lambda started: started.duration_ps * (103 if started.npu % 8 == 7 else 100) // 100
        >>> @hookimpl
        ... def astra_variations():
        ...     return [Provider("thermal", "The last NPU of eight is 3 % slower", thermal)]
    """


@hookspec
def astra_placements() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Placements of jobs: factory([options]) -> Callable, from the free NPUs in rising order and a number to as many of these.

    The function raises ValueError, with the reason, if it finds no place.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> def last_first():
        ...     return lambda free, number: free[-number:]
        >>> @hookimpl
        ... def astra_placements():
        ...     return [Provider("last_first", "The free NPUs with the highest numbers", last_first)]
    """


@hookspec
def astra_accounts() -> Sequence[Provider]:  # type: ignore[empty-body]
    """The cost of runs: factory([options,] result, platform) -> figures by name, of which a `Figure` is shown in tables.

    A section of an experiment that has the name of an account holds its options. Its figures are in `Result.figures` under that name; an
    account sees those that were listed before it.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> def dollars(result, platform):
        ...     return {"dollars": result.finish_ns / 3.6e12 * 2.5 * platform.npus}
        >>> @hookimpl
        ... def astra_accounts():
        ...     return [Provider("dollars", "2.5 dollars an hour and NPU", dollars)]
    """


# -- Engine ------------------------------------------------------------------------------------------------------------


@hookspec
def astra_engines() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Engines: the factory is a class with the interface `astra_sim.engines.EngineType`, the same object each time; it has no options.

    One runs if `--engine` names it. Public, but provisional: its package requires exactly the version of the kernel.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> @hookimpl
        ... def astra_engines():
        ...     return [Provider("mine", "An engine in Rust", "my_package:Engine")]
    """


# -- Files, reports and commands ------------------------------------------------------------------------------------------------


@hookspec
def astra_formats() -> Sequence[FileFormat]:  # type: ignore[empty-body]
    """File formats of other programs: recognises(text) -> bool, read(text, path) -> tables of the sections of an experiment.

    A provider is a FileFormat, which has these two in place of a factory.

    Example:

        >>> from astra_sim import FileFormat, hookimpl
        >>> def tables(text, path):
        ...     return {"workload": {"plugin": "collective", "collective": text.split()[0], "bytes": int(text.split()[1])}}
        >>> @hookimpl
        ... def astra_formats():
        ...     return [FileFormat("one-line", "OPERATION BYTES", ("workload",), lambda text: len(text.split()) == 2, tables)]
    """


@hookspec
def astra_reports() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Reports: factory([options,] results, folder) writes files about the `Result`s of runs into a `reports.ReportFolder`.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> def write_times(results, folder):
        ...     folder.write("times.csv", [f"{result.run_name},{result.finish_ns}\\n" for result in results])
        >>> @hookimpl
        ... def astra_reports():
        ...     return [Provider("times", "When each run has finished", write_times)]
    """


@hookspec
def astra_explainers() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Explainers: factory([options,] run) -> Explanation. `run` is an `astra_sim.records.ExplainedRun`; public, but provisional.

    `simulate(..., explain=True)` and the command line take the one named `critical_path`.

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> @hookimpl
        ... def astra_explainers():
        ...     return [Provider("shares", "What share of the time each kind takes", "my_package:Shares")]
    """


@hookspec
def astra_commands() -> Sequence[Provider]:  # type: ignore[empty-body]
    """Further commands of `astra`: the factory is a click command, which runs when the command is given (see `astra_sim.commands`).

    Example:

        >>> from astra_sim import hookimpl, Provider
        >>> import click
        >>> @click.command()
        ... def hello():
        ...     print("hello")
        >>> @hookimpl
        ... def astra_commands():
        ...     return [Provider("hello", "Print a word", hello)]
    """
