"""Rules of divisibility: how a model, a batch and a pipeline can be split."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from astra_sim_llm.models import Model
from astra_sim_llm.parallelism import Parallelism


def misfits(model: Model, parallel: Parallelism, sequence: int, micro_batch: int = 1) -> Iterator[str]:
    """Quantities that ranks must divide: whole heads, widths, the sequence, tokens, and experts.

    Tensor ranks share key and value heads, or each of these is on several ranks.
    """
    t, c = parallel.tensor, parallel.context
    shared = [
        ("tensor_parallel", t, "heads", model.heads),
        ("tensor_parallel", t, "the feed-forward width", model.width if model.has_dense_layers else t),
        ("tensor_parallel", t, "the width of shared experts", model.shared_experts * model.expert_ffn),
        ("context_parallel", c, "sequence", sequence),
        ("expert_parallel", parallel.expert, "experts", model.experts),
        ("expert_tensor_parallel", parallel.expert_tensor, "expert_ffn", model.expert_ffn),
        ("sequence_parallel with tensor_parallel", t if parallel.sequence else 1, "tokens of a micro-batch", micro_batch * sequence // c),
    ]  # fmt: skip
    for name, ranks, what, size in shared:
        if size % ranks:
            yield f"{name} is {ranks}; expected a divisor of {what}, which is {size}"
    if model.key_heads % t and t % model.key_heads:
        yield f"tensor_parallel is {t}; expected a divisor or a multiple of kv_heads, which is {model.key_heads}"
    if parallel.expert > 1 and not model.experts:
        yield f"expert_parallel is {parallel.expert}, and the model has no experts; expected 1"


def group_misfits(parallel: Parallelism) -> Iterator[str]:
    """Groups of ranks that do not divide those that they are made of."""
    if parallel.stage_ranks % (parallel.expert * parallel.expert_tensor):
        yield (
            f"expert_parallel is {parallel.expert} and expert_tensor_parallel {parallel.expert_tensor};"
            f" expected a product that divides the {parallel.stage_ranks} ranks of a stage"
        )
    if parallel.shard_group is not None and (parallel.data * parallel.context) % parallel.shard_group:
        ranks = parallel.data * parallel.context
        yield f"shard_group is {parallel.shard_group}; expected a divisor of the {ranks} data and context ranks"


def divides(model: Model, parallel: Parallelism, sequence: int, micro_batch: int = 1) -> bool:
    """Whether a model can be split so."""
    return next(chain(misfits(model, parallel, sequence, micro_batch), group_misfits(parallel)), None) is None


def schedule_allows(schedule: str, layers: int, stages: int, chunks: int, micro_batches: int) -> bool:
    """Whether a schedule can run: a layer at least for each chunk; interleaved groups of as many micro-batches as stages; DualPipe an even
    number of stages, and at least as many micro-batches in each direction as stages.
    """
    copies = 2 if schedule == "dualpipe" else 1
    if stages * chunks > layers * copies:
        return False
    if schedule == "interleaved":
        return micro_batches % stages == 0
    return schedule != "dualpipe" or (stages % 2 == 0 and micro_batches % 2 == 0 and micro_batches >= 2 * stages)
