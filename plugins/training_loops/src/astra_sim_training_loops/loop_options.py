"""Options of training loops that have some."""

from __future__ import annotations

import attrs
from astra_sim import option


@attrs.frozen
class DlrmOptions:
    """Options of the DLRM loops."""

    last_bottom_layer: int = option(minimum=0, help="last layer of the bottom MLP; layer 0 is the embedding")


@attrs.frozen
class TransformerOptions:
    """Options of the transformer loop."""

    model_parallel_npus: int = option(minimum=1, help="NPUs of a model-parallel group")
    expert_parallel_npus: int = option(1, minimum=1, help="model-parallel groups over which experts are spread: collective_group of passes")
    whole_gathers: bool = option(False, help="collective_bytes of an all_gather are those of its result, not those that an NPU puts in")


@attrs.frozen
class RecomputingTransformerOptions(TransformerOptions):
    """Options of the transformer loop that recomputes activations."""

    checkpoints: tuple[int, ...] = option((), minimum=0, help="layers whose activations are kept")
    checkpoint_initiates: tuple[int, ...] = option((), minimum=0, help="layers before whose backward pass the forward pass is repeated")
