"""Small models of all kinds, and the kernels of their passes."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from astra_sim.shapes import Attention
from astra_sim_llm.models import LatentAttention, Model
from astra_sim_llm.operations import Block
from astra_sim_llm.steps import LlmRun, Step, join

DENSE = Model(layers=3, hidden=64, heads=8, vocab=256)
MODELS = {
    "dense": DENSE,
    "gated with fewer key heads": attrs.evolve(DENSE, kv_heads=4, gated=True, ffn=96),
    "experts": attrs.evolve(DENSE, gated=True, experts=8, top_k=2, expert_ffn=32, shared_experts=1, dense_layers=1),
    "latent attention": attrs.evolve(DENSE, mla=LatentAttention(query_rank=32, key_value_rank=16, nope=16, rope=8, value=12)),
    "more tokens predicted": attrs.evolve(DENSE, mtp_layers=2),
    "windows": attrs.evolve(DENSE, window=24, full_interval=3),
}


def flops(steps: Iterable[Step]) -> int:
    """FLOPs of all kernels but routers."""
    return sum(step.shape.operations for step in steps if isinstance(step, LlmRun) and step.name != "router")


def core_flops(steps: Iterable[Step]) -> int:
    """FLOPs of the cores of attention."""
    return sum(step.shape.operations for step in steps if isinstance(step, LlmRun) and isinstance(step.shape, Attention))


def forward(model: Model, block: Block) -> list[Step]:
    """The steps of a forward pass of a model on one stage."""
    layers = [block.forward(layer) for layer in range(model.layers)]
    predicted = [join(block.ends.predictor(), block.forward(model.layers), block.ends.head()) for _ in range(model.mtp_layers)]
    return join(block.ends.embedding(), *layers, block.ends.head(), *predicted)


def backward(model: Model, block: Block) -> list[Step]:
    """Those of its backward pass."""
    layers = [block.backward(layer) for layer in range(model.layers)]
    predicted = [join(block.ends.head_back(), block.backward(model.layers), block.ends.predictor_back()) for _ in range(model.mtp_layers)]
    return join(*predicted, block.ends.head_back(), *layers, block.ends.embedding_back())
