"""What one iteration does: what the programs of stages are written from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from astra_sim_llm.memory import UnitKind
from astra_sim_llm.models import Model
from astra_sim_llm.parallelism import Parallelism


@attrs.frozen
class Iteration:
    """What one iteration does, beside the passes of blocks: choices of `options.LlmOptions`, and parameters of ranks.

    `stage_parameters` are those of a stage's rank with embedding and head: (of experts, others); `unit_parameters` those of each kind of
    unit on a stage. `reduces_each_pass`: gradients are reduced by each backward pass, not by the last one of an iteration.
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
    reduces_each_pass: bool
    dp_overlap: bool
    gather_overlap: bool
    p2p_overlap: bool
    ep_overlap: bool
    training: bool
    stage_parameters: Sequence[tuple[int, int]]
    unit_parameters: Sequence[Mapping[UnitKind, tuple[int, int]]]
    passes: int = 1
