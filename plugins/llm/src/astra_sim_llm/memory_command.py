"""`astra memory`: the memory of a rank of an experiment's workload `llm`, and combinations that fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import astra_sim
import attrs
import click
from astra_sim import InputError
from astra_sim.commands import (
    Experiment,
    Progress,
    build_platform,
    component_options,
    json_option,
    load_experiment,
    quiet_option,
    say_json,
    shared_plugins,
)
from astra_sim.context import Context
from astra_sim.errors import located
from astra_sim.experiments import build_compute, workload_options
from astra_sim.units import GIB

from astra_sim_llm.bounds import LeastTime
from astra_sim_llm.in_flight import chunks_of_stages, even_stages
from astra_sim_llm.layout import split_layers
from astra_sim_llm.memory import Capacity, capacity_of, memory_of
from astra_sim_llm.options import LlmOptions
from astra_sim_llm.plan import TrainingPlan, make_plan
from astra_sim_llm.schedules import virtual_stage
from astra_sim_llm.search import ParallelismCandidate, search
from astra_sim_llm.suggestions import suggestions
from astra_sim_llm.table import candidate_json, memory_json, print_memory, print_search
from astra_sim_llm.training_setup import TrainingSetup
from astra_sim_llm.workload import Durations

_ENDS_COUNT = "embedding_as_layer"
AXES = (
    "tensor_parallel", "pipeline_parallel", "virtual_stages", "context_parallel", "expert_parallel", "micro_batch", "zero", "recompute"
)  # fmt: skip
"""The parameters that a search can vary, by the names of the options of the workload."""
LEAST_TOKENS = 4096
"""Tokens of a sequence that a rank has at least if context parallelism is searched."""


@click.command(short_help="Show the memory of a large language model's ranks, and search for setups that fit.")
@click.argument("experiment", required=False, type=click.Path())
@component_options(multiple=False)
@click.option("--capacity", metavar="GIB", type=float, help="Memory of an NPU in GiB; else that of the compute model's device.")
@click.option("--search", "is_search", is_flag=True, help="List combinations of parallelism, ZeRO and recomputation that fit, by time.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Combinations that --search lists.")
@click.option(
    "--keep", multiple=True, type=click.Choice(AXES), help="With --search: the parameter that stays as in the experiment; may be repeated."
)
@json_option
@quiet_option
def memory(
    experiment: str | None,
    assignments: tuple[str, ...],
    capacity: float | None,
    is_search: bool,
    limit: int,
    keep: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **choices: Any,
) -> None:
    """Show the memory of a rank of each pipeline stage of an experiment, and whether it fits.

    \b
    astra memory gpt3.toml
    astra memory gpt3.toml --set workload.zero=1 --capacity 40
    astra memory gpt3.toml --search
    astra memory gpt3.toml --search --keep micro_batch --keep context_parallel

    The workload of the experiment is llm. Only results of --search are simulated (with detail=pass, and layers dealt to stages as
    evenly as they divide, with stages=embedding_as_layer by its rule). It tries all sizes of tensor parallelism in the platform's first
    dimension, of the pipeline, of expert parallelism, of context parallelism from 4096 tokens a rank on, of micro-batches that are powers
    of two, virtual stages if the experiment sets no schedule, all levels of ZeRO, and recomputation; and simulates candidates for
    the fastest: those of which the kernels alone take no longer.
    """
    if keep and not is_search:
        raise InputError(f"--keep {keep[0]} has no effect without --search")
    with Progress(enabled=not quiet):
        case = read_case(experiment, choices, assignments, capacity)
    if is_search:
        _search(case, limit, keep, as_json, quiet)
    else:
        _show(case, as_json, quiet)


@attrs.frozen(eq=False)
class Case:
    """An experiment with its plan, the memory of an NPU (None: not known), and the NPUs of a node."""

    experiment: Experiment
    options: LlmOptions
    plan: TrainingPlan
    npus: int
    capacity: Capacity | None
    node: int
    durations: Durations


def read_case(path: str | None, components: dict[str, str | None], assignments: Sequence[str], capacity_gib: float | None) -> Case:
    """The case that a command line names. Raises InputError."""
    if capacity_gib is not None and not 0 < capacity_gib < math.inf:
        raise InputError(f"--capacity is {capacity_gib:g}; expected GiB above 0")
    plugins = shared_plugins()
    experiment = Experiment() if path is None else load_experiment(path, plugins)
    for kind, spec in components.items():
        if spec is not None:
            experiment.use(kind, spec, plugins, where=f"--{kind}")
    for assignment in assignments:
        experiment.set(assignment)
    table = experiment.sections.get("workload")
    if table is None:
        raise InputError("no workload is given (--workload plugin:llm?..., or an experiment file)")
    where = experiment.where("workload")
    name = table.get("plugin")
    if name != "llm":
        raise InputError(f"{where}: the workload is {name or 'layers'!r}; expected llm, the one of which this command knows the memory")
    platform = build_platform(experiment, plugins)
    compute = build_compute(experiment, plugins, platform)
    context = Context(plugins, platform, experiment.run_options(), compute)
    options: LlmOptions = workload_options(experiment, plugins, compute, context)
    durations = Durations(context)
    try:
        plan = make_plan(options, platform.npus, durations.weight_of)
    except InputError as error:
        raise located(error, where) from None
    try:
        capacity = capacity_of(compute, options.memory_margin, None if capacity_gib is None else capacity_gib * GIB)
    except InputError as error:
        raise located(error, where) from None
    return Case(
        experiment=experiment,
        options=options,
        plan=plan,
        npus=platform.npus,
        capacity=capacity,
        node=platform.dimensions[0].size,
        durations=durations,
    )


def _show(case: Case, as_json: bool, quiet: bool) -> None:
    """Print the memory of ranks of each stage, and changes that would make it fit."""
    with Progress(enabled=not quiet):
        uses = [memory_of(case.plan.setup, stage) for stage in range(case.plan.parallel.pipeline)]
        most = max(use.total for use in uses)
        capacity = case.capacity
        fits = None if capacity is None else most <= capacity.usable
        fitting = suggestions(case.plan.setup, capacity.usable, case.node) if capacity is not None else []
    if as_json:
        document: dict[str, Any] = {
            "stages": memory_json(uses),
            "memory_bytes": most,
            **_capacity_json(capacity),
            "fits": fits,
            "suggestions": [{"change": one.change, "memory_bytes": one.bytes} for one in fitting],
        }
        say_json(document)
    elif not quiet:
        print_memory(uses, capacity, fitting)


def _search(case: Case, limit: int, keep: Sequence[str], as_json: bool, quiet: bool) -> None:
    """Search for combinations that fit, simulate the fastest, and print them. Raises InputError."""
    if case.capacity is None:
        raise InputError("the compute model does not know the memory of an NPU; expected --capacity GIB")
    if case.options.mode != "train":
        raise InputError(f"mode is {case.options.mode}; expected train, for which combinations are searched")
    errors: list[InputError] = []
    with Progress(enabled=not quiet) as progress:
        numbers = itertools.count(1)

        def time_of(setup: TrainingSetup) -> float | None:
            progress.stage(f"combination {next(numbers)}")
            try:
                seconds: float = astra_sim.simulate(case.experiment, workload={"plugin": "llm", **_options(case, setup)}).iteration_s
            except InputError as error:
                errors.append(error)
                return None
            return seconds

        result = search(
            _template(case),
            case.npus,
            case.options.global_batch,
            case.capacity.usable,
            npus_per_node=case.node,
            layers_of=_LayersOf(case.plan),
            end_layers=2 if case.options.stages == _ENDS_COUNT else 0,
            time_of=time_of,
            least_time_of=LeastTime(case.plan, case.durations.of_run, case.experiment.run_options().passes),
            fastest=limit,
            **_axes(case, keep),
        )
    timed = sorted((one for one in result.candidates if one.iteration_s is not None), key=_seconds)
    if errors and not timed:
        raise errors[0]
    if as_json:
        rows = [{**candidate_json(one), "options": _options(case, one.setup)} for one in timed[:limit]]
        counts = {"tried": result.tried, "fitting": len(result.candidates), "simulated": result.timed, "refused": result.refused}
        say_json({**_capacity_json(case.capacity), **counts, "combinations": rows})
    elif not quiet:
        print_search(timed[:limit], case.capacity, result)


def _capacity_json(capacity: Capacity | None) -> dict[str, float | None]:
    if capacity is None:
        return {"capacity_bytes": None, "margin_bytes": None}
    return {"capacity_bytes": capacity.total, "margin_bytes": capacity.margin}


def _template(case: Case) -> TrainingSetup:
    """The setup of the experiment, with sequence parallelism wherever tensor parallelism is, unless the experiment disables it."""
    setup = case.plan.setup
    parallel = attrs.evolve(setup.parallel, sequence=case.options.sequence_parallel is not False)
    return attrs.evolve(setup, parallel=parallel)


def _axes(case: Case, keep: Sequence[str]) -> dict[str, Any]:
    """The parameters that the search varies: all that are not fixed."""
    setup, options, model = case.plan.setup, case.options, case.plan.model
    axes: dict[str, Any] = {
        "fixed": [name.removesuffix("_parallel") for name in keep],
        "any_expert_tensor": options.expert_tensor_parallel is None,
        "micro_batches": _powers(case.options.global_batch, setup.micro_batch),
        "contexts": _powers(max(1, setup.sequence // LEAST_TOKENS), setup.parallel.context),
        "experts": [ranks for ranks in range(1, model.experts + 1) if model.experts % ranks == 0],
        "zero_levels": range(4),
    }
    if options.schedule is None:  # an explicit one stays, with its virtual stages
        axes["virtual_stages"] = [number for number in range(1, model.layers + 1) if model.layers % number == 0]
    elif options.schedule == "interleaved":
        axes["virtual_stages"] = [number for number in range(2, model.layers + 1) if model.layers % number == 0]
    result = {
        "micro_batch": ("micro_batches", (setup.micro_batch,)),
        "context_parallel": ("contexts", ()),
        "expert_parallel": ("experts", ()),
        "virtual_stages": ("virtual_stages", ()),
        "zero": ("zero_levels", (setup.parallel.zero,)),
        "recompute": ("recompute", (setup.recompute,)),
    }
    return axes | dict(result[name] for name in keep if name in result)


def _powers(most: int, first: int) -> list[int]:
    """Powers of two up to a number, and the size that the experiment has."""
    return sorted({first, *(2**power for power in range(most.bit_length()) if 2**power <= most)})


def _seconds(candidate: ParallelismCandidate) -> float:
    assert candidate.iteration_s is not None
    return candidate.iteration_s


class _LayersOf:
    """Layers of each stage of another pipeline: evenly, if embedding and head count if they do in the plan."""

    def __init__(self, plan: TrainingPlan) -> None:
        self._plan = plan

    def __call__(self, layers: int, stages: int, chunks: int, schedule: str) -> tuple[tuple[int, ...], ...]:
        slots = stages * (1 if schedule == "dualpipe" else chunks)
        if self._plan.options.stages != _ENDS_COUNT:
            return even_stages(layers, stages, chunks, schedule)
        split = split_layers(self._plan.model, slots, _ENDS_COUNT, lambda kind: 1.0)
        numbers = [[virtual_stage(schedule, stage, chunk, stages) for chunk in range(chunks)] for stage in range(stages)]
        return tuple(tuple(layer for number in numbers_of_chunk for layer in split[number].layers) for numbers_of_chunk in numbers)


def _values(overrides: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a table, converted to the types of its options: `--set` gives text."""
    return {
        key: _values(value, options[key]) if isinstance(value, Mapping) else options[key] if isinstance(value, str) else value
        for key, value in overrides.items()
    }


def _options(case: Case, setup: TrainingSetup) -> dict[str, Any]:
    """The workload's options that make a setup of the experiment, without those that have no effect on it."""
    parallel = setup.parallel
    workload = {key: value for key, value in case.experiment.sections["workload"].items() if key not in ("plugin", "shard_group")}
    table = _values(workload, attrs.asdict(case.options))
    if parallel.zero < 2:
        table.pop("accumulation", None)
    if parallel.zero not in (1, 2):
        table.pop("reduction", None)
        if "overlap" in table:
            table["overlap"] = {key: value for key, value in table["overlap"].items() if key != "gathers"}
    if parallel.context == 1:
        table.pop("context", None)
    if setup.recompute.startswith("full"):
        table.pop("recompute_modules", None)
    if parallel.expert == 1:
        table = {key: value for key, value in table.items() if key not in ("node_limit", "dispatch", "expert_groups")}
        if "overlap" in table:
            table["overlap"] = {key: value for key, value in table["overlap"].items() if key != "ep"}
    several = setup.chunks
    chunks = chunks_of_stages(setup.layers_of_stage, setup.schedule, several)
    counts = {
        virtual_stage(setup.schedule, stage, number, parallel.pipeline): len(layers)
        for stage, chunks_of_stage in enumerate(chunks)
        for number, layers in enumerate(chunks_of_stage)
    }
    if parallel.zero and parallel.shard_group is not None:
        table["shard_group"] = parallel.shard_group
    return {
        **table,
        "tensor_parallel": parallel.tensor,
        "sequence_parallel": parallel.sequence,
        "micro_batch": setup.micro_batch,
        "context_parallel": parallel.context,
        "expert_parallel": parallel.expert,
        "pipeline_parallel": parallel.pipeline,
        "virtual_stages": parallel.virtual_stages if setup.schedule == "interleaved" else 1,
        "schedule": setup.schedule,
        "data_parallel": "fill",
        **({"expert_tensor_parallel": parallel.expert_tensor} if setup.model.experts else {}),
        "zero": parallel.zero,
        "recompute": setup.recompute,
        "stages": [counts[number] for number in sorted(counts)],
        "detail": "pass",
        "check_memory": False,
    }
