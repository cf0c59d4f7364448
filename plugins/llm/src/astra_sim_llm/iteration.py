"""What one iteration does: what the programs of stages are written from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from astra_sim_llm.models import Model
from astra_sim_llm.parallelism import Parallelism


@attrs.frozen
class Iteration:
    """What one iteration does, beside the passes of blocks: choices of `options.LlmOptions`, and parameters of ranks.

    `stage_parameters` are those of a stage's rank with embedding and head: (of experts, others); `layer_parameters` those of a layer.
    """

    model: Model
    parallel: Parallelism
    schedule: str
    micro_batches: int
    recompute: str
    recompute_layers: int | None
    gradient_bytes: int
    optimizer_bytes: float
    reduces_to_all: bool
    dp_overlap: bool
    gather_overlap: bool
    p2p_overlap: bool
    ep_overlap: bool
    training: bool
    stage_parameters: Sequence[tuple[int, int]]
    layer_parameters: Callable[[int], tuple[int, int]]
    passes: int = 1
