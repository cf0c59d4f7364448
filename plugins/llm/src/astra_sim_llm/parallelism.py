"""Parallelism: the sizes of groups of ranks, and the order in which ranks are numbered."""

from __future__ import annotations

import math

import attrs


@attrs.frozen
class Parallelism:
    """Sizes of the parallel groups. Ranks number tensor, context, data, pipeline in this order, the first fastest (`tp-cp-ep-dp-pp`).

    Experts have a layout of their own over the `tensor * context * data` ranks of a stage: `expert_tensor`, `expert`, and the rest,
    their data parallelism.
    """

    tensor: int = 1
    sequence: bool = False
    pipeline: int = 1
    virtual_stages: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 1
    data: int = 1
    zero: int = 0
    shard_group: int | None = None

    @staticmethod
    def default_expert_tensor(tensor: int, expert: int, stage_ranks: int) -> int:
        """Ranks that share an expert by default: the tensor ranks, if a stage has enough of them."""
        return tensor if expert * tensor <= stage_ranks else 1

    @property
    def stage_ranks(self) -> int:
        """Ranks of a pipeline stage."""
        return self.tensor * self.context * self.data

    @property
    def ranks(self) -> int:
        """All ranks."""
        return self.stage_ranks * self.pipeline

    @property
    def expert_data(self) -> int:
        """Replicas of an expert."""
        return self.stage_ranks // (self.expert * self.expert_tensor)

    @property
    def shards(self) -> int:
        """Ranks over which ZeRO or FSDP shards all but experts: the data and context ranks, or a group of them (HSDP)."""
        return self.shard_group or self.data * self.context

    @property
    def expert_shards(self) -> int:
        """Ranks over which ZeRO or FSDP shards experts: replicas within the ranks over which it shards the rest, as many as divide all."""
        return math.gcd(self.expert_data, max(1, self.shards * self.tensor // (self.expert * self.expert_tensor)))
