"""Rules of divisibility: how a model, a batch and a pipeline can be split."""

from __future__ import annotations

from astra_sim_llm.models import Model
from astra_sim_llm.parallelism import Parallelism


def divides(model: Model, parallel: Parallelism, sequence: int) -> bool:
    """Whether a model can be split so: whole heads, equal shares of widths, of the sequence, and of experts.

    Tensor ranks share key and value heads, or each of these lies on several ranks.
    """
    tensor, keys = parallel.tensor, model.key_heads
    widths = (model.width if model.dense_layers or not model.experts else 0, model.shared_experts * model.expert_ffn)
    return (
        model.heads % tensor == 0
        and (keys % tensor == 0 or tensor % keys == 0)
        and all(width % tensor == 0 for width in widths)
        and sequence % (parallel.context * (tensor if parallel.sequence else 1)) == 0
        and _experts_divide(model, parallel)
        and (parallel.shard_group is None or (parallel.data * parallel.context) % parallel.shard_group == 0)
    )


def _experts_divide(model: Model, parallel: Parallelism) -> bool:
    if not model.experts:
        return parallel.expert == 1
    return (
        model.experts % parallel.expert == 0
        and model.expert_ffn % parallel.expert_tensor == 0
        and parallel.stage_ranks % (parallel.expert * parallel.expert_tensor) == 0
    )


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
