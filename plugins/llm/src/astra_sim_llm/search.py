"""Search: which combinations of parallelism, ZeRO and recomputation fit in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import attrs
from astra_sim import InputError

from astra_sim_llm.divisibility import divides, schedule_allows
from astra_sim_llm.in_flight import FOLDED, even_stages
from astra_sim_llm.memory import MemoryUse, peak
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.training_setup import TrainingSetup

TimeOf = Callable[[TrainingSetup], float | None]
"""Seconds of an iteration of a setup; None where they are not known."""

LayersOf = Callable[[int, int, int, str], tuple[tuple[int, ...], ...]]
"""Layers of each stage, from the number of layers, of stages, of chunks, and the schedule."""


@attrs.frozen
class Candidate:
    """A setup that fits: the stage that needs most memory, what its ranks need, and seconds of an iteration where they are known."""

    setup: TrainingSetup
    stage: int
    use: MemoryUse
    iteration_s: float | None = None


def search(
    template: TrainingSetup,
    npus: int,
    global_batch: int,
    capacity_bytes: int,
    *,
    npus_per_node: int = 8,
    tensor_across_nodes: bool = False,
    micro_batches: Sequence[int] = (),
    zero_levels: Sequence[int] = (0, 1, 2, 3),
    recompute: Sequence[str] = ("none", "selective", "full"),
    layers_of: LayersOf = even_stages,
    end_layers: int = 0,
    time_of: TimeOf | None = None,
) -> list[Candidate]:
    """The combinations that fit, the one with least memory first.

    `template` says what stays: model, sequence, precision, attention, schedule and its virtual stages, context and expert parallelism.
    `micro_batches` lists sizes of a micro-batch; if empty, that of the template. `global_batch` counts sequences. `end_layers` is how many
    layers `layers_of` takes embedding and head for, beside those of the model: a chunk may have them alone. `time_of` is asked only
    about what fits. Raises InputError where a number is out of range.
    """
    for name, number in (("npus", npus), ("global_batch", global_batch), ("npus_per_node", npus_per_node)):
        if number < 1:
            raise InputError(f"{name} is {number}; expected at least 1")
    found = []
    sizes = micro_batches or (template.micro_batch,)
    most_tensor = npus if tensor_across_nodes else min(npus, npus_per_node)
    for parallel, size in itertools.product(_parallelisms(template, npus, most_tensor), sizes):
        base = _setup(template, parallel, global_batch, size, layers_of, end_layers)
        if base is None:
            continue
        for level, again in itertools.product(_levels(parallel, zero_levels), _recomputations(base, recompute)):
            setup = attrs.evolve(base, parallel=attrs.evolve(parallel, zero=level), recompute=again, recompute_layers=None)
            stage, use = peak(setup)
            if use.total <= capacity_bytes:
                found.append(Candidate(setup, stage, use))
    found.sort(key=lambda candidate: candidate.use.total)
    return [attrs.evolve(item, iteration_s=time_of(item.setup)) for item in found] if time_of else found


def _parallelisms(template: TrainingSetup, npus: int, most_tensor: int) -> Iterator[Parallelism]:
    """Splits of the NPUs that the model and its experts allow."""
    for tensor in _divisors(npus, most_tensor):
        for pipeline in _divisors(npus // tensor, template.model.layers):
            ranks = npus // tensor // pipeline
            if ranks % template.parallel.context:
                continue
            made = attrs.evolve(
                template.parallel,
                tensor=tensor,
                sequence=template.parallel.sequence and tensor > 1,
                pipeline=pipeline,
                virtual_stages=template.parallel.virtual_stages if pipeline > 1 else 1,
                data=ranks // template.parallel.context,
            )
            if divides(template.model, made, template.sequence):
                yield made


def _setup(
    template: TrainingSetup, parallel: Parallelism, global_batch: int, size: int, layers_of: LayersOf, end_layers: int
) -> TrainingSetup | None:
    """A setup with the schedule's rules kept; None where they cannot be. A single stage runs its micro-batches one by one."""
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
