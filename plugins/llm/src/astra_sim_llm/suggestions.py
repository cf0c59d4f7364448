"""Changes with which a setup would fit that does not."""

from __future__ import annotations

import attrs

from astra_sim_llm.divisibility import divides, schedule_allows
from astra_sim_llm.in_flight import even_stages
from astra_sim_llm.memory import peak
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.training_setup import TrainingSetup


@attrs.frozen
class Suggestion:
    """A change of a setup, as words, and the bytes that its fullest rank then needs."""

    change: str
    setup: TrainingSetup
    bytes: int


def suggestions(setup: TrainingSetup, capacity_bytes: int, most_tensor: int | None = None) -> list[Suggestion]:
    """Single changes with which a training run would fit that does not; none if it fits. The one that leaves most memory is last.

    Twice the tensor or pipeline ranks halve the replicas, if they can be halved, else take twice the NPUs. `most_tensor` is the limit on
    tensor parallelism, such as the NPUs of a node.
    """
    if setup.mode != "train" or peak(setup)[1].total <= capacity_bytes:
        return []
    changes = [item for item in _changes(setup) if most_tensor is None or item[1].parallel.tensor <= most_tensor]
    result = [Suggestion(words, changed, peak(changed)[1].total) for words, changed in changes]
    return sorted((item for item in result if item.bytes <= capacity_bytes), key=lambda item: -item.bytes)


def _changes(setup: TrainingSetup) -> list[tuple[str, TrainingSetup]]:
    """Single changes of a setup that may need less memory, each in words."""
    parallel = setup.parallel
    changes = []
    if setup.recompute == "none" and setup.attention == "unfused":
        changes.append(("recompute = selective", attrs.evolve(setup, recompute="selective")))
    if not (setup.recompute.startswith("full") and setup.recompute_layers is None):
        changes.append(("recompute = full", attrs.evolve(setup, recompute="full", recompute_layers=None)))
    levels = range(parallel.zero + 1, 4) if parallel.shards > 1 else ()
    changes += [(f"zero = {level}", attrs.evolve(setup, parallel=attrs.evolve(parallel, zero=level))) for level in levels]
    words, wider, rounds = _doubled(setup, "tensor")
    if divides(setup.model, wider, setup.sequence, setup.micro_batch):
        changes.append((words, attrs.evolve(setup, parallel=wider, micro_batches=rounds)))
    words, longer, rounds = _doubled(setup, "pipeline")
    layers, stages = setup.model.layers, longer.pipeline
    if divides(setup.model, longer, setup.sequence, setup.micro_batch) and schedule_allows(
        setup.schedule, layers, stages, setup.chunks, rounds
    ):
        split = even_stages(layers, stages, setup.chunks, setup.schedule)
        changes.append((words, attrs.evolve(setup, parallel=longer, layers_of_stage=split, micro_batches=rounds)))
    return changes


def _doubled(setup: TrainingSetup, axis: str) -> tuple[str, Parallelism, int]:
    """A parallel layout with twice the ranks of an axis, in words too, and its micro-batches: those of the same global batch."""
    parallel = setup.parallel
    size = 2 * getattr(parallel, axis)
    words = f"{axis}_parallel = {size}"
    if parallel.data % 2 or parallel.shard_group is not None:
        return f"{words} on {2 * parallel.ranks} NPUs", attrs.evolve(parallel, **{axis: size}), setup.micro_batches
    changed = attrs.evolve(parallel, **{axis: size}, data=parallel.data // 2)
    return words, changed, 2 * setup.micro_batches
