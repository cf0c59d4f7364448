"""Search: which combinations of parallelism, micro-batches, ZeRO and recomputation fit in memory, and which of them are fastest."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Container, Iterator, Sequence

import attrs
from astra_sim import InputError

from astra_sim_llm.divisibility import divides, schedule_allows
from astra_sim_llm.in_flight import FOLDED, even_stages
from astra_sim_llm.memory import LlmMemoryUse, peak
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.training_setup import TrainingSetup

TimeOf = Callable[[TrainingSetup], float | None]
"""Seconds of an iteration of a setup; None if they are not known."""

LayersOf = Callable[[int, int, int, str], tuple[tuple[int, ...], ...]]
"""Layers of each stage, from the number of layers, of stages, of chunks, and the schedule."""


@attrs.frozen
class ParallelismCandidate:
    """A setup that fits: the stage that needs most memory, the memory of its ranks, and seconds of an iteration if they are known."""

    setup: TrainingSetup
    stage: int
    use: LlmMemoryUse
    iteration_s: float | None = None


@attrs.frozen
class ParallelismSearch:
    """The result of a search: combinations that fit, the one with least memory first, and the numbers of those tried and timed.

    `refused` counts those that fit and cannot run, for which `time_of` returns None.
    """

    candidates: list[ParallelismCandidate]
    tried: int
    timed: int = 0
    refused: int = 0


def search(
    template: TrainingSetup,
    npus: int,
    global_batch: int,
    capacity_bytes: int,
    *,
    npus_per_node: int = 8,
    tensor_across_nodes: bool = False,
    micro_batches: Sequence[int] = (),
    contexts: Sequence[int] = (),
    experts: Sequence[int] = (),
    virtual_stages: Sequence[int] = (),
    fixed: Container[str] = (),
    any_expert_tensor: bool = False,
    zero_levels: Sequence[int] = (0, 1, 2, 3),
    recompute: Sequence[str] = ("none", "selective", "full"),
    layers_of: LayersOf = even_stages,
    end_layers: int = 0,
    time_of: TimeOf | None = None,
    least_time_of: Callable[[TrainingSetup], float] | None = None,
    fastest: int | None = None,
) -> ParallelismSearch:
    """The combinations that fit, the one with least memory first.

    `template` holds the fixed settings: model, sequence, precision, attention and schedule. `micro_batches` lists sizes of a micro-batch,
    `contexts` and `experts` sizes of these parallelisms, `virtual_stages` chunks of a stage (1: 1f1b, several: interleaved); if empty, that
    of the template. `fixed` names tensor or pipeline parallelism that stays. `any_expert_tensor`: an expert has the tensor parallelism that
    follows by default, not that of the template. `global_batch` counts sequences. `end_layers` is how many layers `layers_of`
    takes embedding and head for, beside those of the model: a chunk may have them alone.

    `time_of` is called only for setups that fit. With `least_time_of`, a lower bound of it (seconds), and `fastest`, it is called in the
    order of that bound, until `fastest` are known to be the fastest. Raises InputError if a number is out of range.
    """
    for name, number in (("npus", npus), ("global_batch", global_batch), ("npus_per_node", npus_per_node)):
        if number < 1:
            raise InputError(f"{name} is {number}; expected at least 1")
    result = []
    tried = 0
    sizes = micro_batches or (template.micro_batch,)
    most_tensor = npus if tensor_across_nodes else min(npus, npus_per_node)
    groups = itertools.product(contexts or (template.parallel.context,), experts or (template.parallel.expert,))
    layouts = (
        layout
        for context, expert in groups
        for layout in _parallelisms(
            template=template,
            npus=npus,
            most_tensor=most_tensor,
            context=context,
            expert=expert,
            any_expert_tensor=any_expert_tensor,
            fixed=fixed,
        )
    )
    chunks = virtual_stages or (template.parallel.virtual_stages,)
    for layout, number, size in itertools.product(layouts, chunks, sizes):
        # On one stage numbers of chunks make no difference, so one of them is tried.
        if layout.pipeline == 1 and number != chunks[0]:
            continue
        parallel = attrs.evolve(layout, virtual_stages=number if layout.pipeline > 1 else 1)
        start = _scheduled(template, number) if virtual_stages else template
        base = _setup(template=start, parallel=parallel, global_batch=global_batch, size=size, layers_of=layers_of, end_layers=end_layers)
        if base is None:
            continue
        for level, again in itertools.product(_levels(parallel, zero_levels), _recomputations(base, recompute)):
            setup = attrs.evolve(base, parallel=attrs.evolve(parallel, zero=level), recompute=again, recompute_layers=None)
            tried += 1
            stage, use = peak(setup)
            if use.total <= capacity_bytes:
                result.append(ParallelismCandidate(setup, stage, use))
    result.sort(key=lambda candidate: candidate.use.total)
    if time_of is None:
        return ParallelismSearch(result, tried)
    return _timed(result, tried, time_of, least_time_of, fastest)


def _timed(
    fitting: Sequence[ParallelismCandidate],
    tried: int,
    time_of: TimeOf,
    least_time_of: Callable[[TrainingSetup], float] | None,
    fastest: int | None,
) -> ParallelismSearch:
    """Candidates with their times; if a bound proves that the others are slower than the fastest, those are left without."""
    bounds = [least_time_of(item.setup) if least_time_of is not None else 0.0 for item in fitting]
    times: dict[int, float] = {}
    best: list[float] = []
    refused = 0
    for place in sorted(range(len(fitting)), key=bounds.__getitem__):
        # Bounds only grow from here, so no other candidate can be among the fastest.
        if fastest is not None and len(best) >= fastest and bounds[place] > best[fastest - 1]:
            break
        seconds = time_of(fitting[place].setup)
        if seconds is None:
            refused += 1
        else:
            times[place] = seconds
            bisect.insort(best, seconds)
    candidates = [attrs.evolve(item, iteration_s=times.get(place)) for place, item in enumerate(fitting)]
    return ParallelismSearch(candidates, tried, len(times), refused)


def _scheduled(template: TrainingSetup, chunks: int) -> TrainingSetup:
    """The template with the schedule of a number of chunks of a stage."""
    return attrs.evolve(template, schedule="interleaved" if chunks > 1 else "1f1b")


def _parallelisms(
    template: TrainingSetup, npus: int, most_tensor: int, context: int, expert: int, any_expert_tensor: bool, fixed: Container[str]
) -> Iterator[Parallelism]:
    """Splits of the NPUs that the model and its experts allow."""
    parallel = template.parallel
    for tensor in [parallel.tensor] if "tensor" in fixed and npus % parallel.tensor == 0 else _divisors(npus, most_tensor):
        for pipeline in [parallel.pipeline] if "pipeline" in fixed else _divisors(npus // tensor, template.model.layers):
            ranks, rest = divmod(npus, tensor * pipeline)
            if rest or ranks % context:
                continue
            result = attrs.evolve(
                parallel,
                tensor=tensor,
                sequence=parallel.sequence and tensor > 1,
                pipeline=pipeline,
                context=context,
                expert=expert,
                expert_tensor=Parallelism.default_expert_tensor(tensor, expert, npus // pipeline)
                if any_expert_tensor
                else parallel.expert_tensor,
                data=ranks // context,
            )
            if divides(template.model, result, template.sequence):
                yield result


def _setup(
    template: TrainingSetup, parallel: Parallelism, global_batch: int, size: int, layers_of: LayersOf, end_layers: int
) -> TrainingSetup | None:
    """A setup with the schedule's rules kept; None if they cannot be. A single stage runs its micro-batches one by one."""
    if global_batch % (parallel.data * size):
        return None
    number = global_batch // (parallel.data * size)
    stages, layers = parallel.pipeline, template.model.layers
    schedule = template.schedule if stages > 1 else "1f1b"
    chunks = 2 if schedule in FOLDED else parallel.virtual_stages if schedule == "interleaved" else 1
    if not schedule_allows(schedule, layers + end_layers, stages, chunks, number):
        return None
    return attrs.evolve(
        template,
        parallel=parallel,
        layers_of_stage=layers_of(layers, stages, chunks, schedule),
        micro_batch=size,
        micro_batches=number,
        schedule=schedule,
        recompute="none",
        recompute_layers=None,
    )


def _levels(parallel: Parallelism, levels: Sequence[int]) -> list[int]:
    """Levels of ZeRO that make a difference: with one replica only the lowest."""
    return list(levels) if parallel.shards > 1 else [min(levels)]


def _recomputations(setup: TrainingSetup, kinds: Sequence[str]) -> list[str]:
    """Kinds of recomputation that make a difference: flash attention is selective by itself."""
    return [kind for kind in kinds if setup.attention == "unfused" or kind != "selective" or "none" not in kinds]


def _divisors(number: int, most: int) -> list[int]:
    return [divisor for divisor in range(1, min(number, most) + 1) if number % divisor == 0]
