"""Models by name."""

from __future__ import annotations

from typing import NamedTuple

from astra_sim.models import LatentAttention, LayerKind
from astra_sim.models import ModelDescription as Model

__all__ = ["MODELS", "LatentAttention", "LayerForm", "LayerKind", "Model", "form_of", "names"]


class LayerForm(NamedTuple):
    """The features of a layer that decide its passes: layers of one form have the same kernels and exchanges."""

    kind: LayerKind
    window: int | None


def form_of(model: Model, layer: int) -> LayerForm:
    """The form of a layer; from `model.layers` on they are blocks of multi-token prediction."""
    return LayerForm(model.kind(layer), model.window_of(layer))


def _gpt(layers: int, hidden: int, heads: int, vocab: int = 51200) -> Model:
    """A GPT of Megatron-LM (arXiv 2104.04473 and 2205.05198)."""
    return Model(
        layers=layers, hidden=hidden, heads=heads, vocab=vocab, tied=True, biases=True, dropout=True, learned_positions=True
    )  # fmt: skip


def _llama(layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int, sequence: int) -> Model:
    return Model(
        layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, ffn=ffn, gated=True, vocab=vocab, sequence=sequence
    )  # fmt: skip


def _mixtral(layers: int, hidden: int, heads: int, expert_ffn: int, vocab: int, sequence: int) -> Model:
    return Model(
        layers=layers, hidden=hidden, heads=heads, kv_heads=8, ffn=expert_ffn, gated=True, vocab=vocab, sequence=sequence,
        experts=8, top_k=2, expert_ffn=expert_ffn,
    )  # fmt: skip


def _qwen3(layers: int, hidden: int, heads: int, ffn: int) -> Model:
    return Model(
        layers=layers, hidden=hidden, heads=heads, kv_heads=8, head_dim=128, ffn=ffn, gated=True, vocab=151936, sequence=32768,
        query_norms=True,
    )  # fmt: skip


def _qwen3_moe(layers: int, hidden: int, heads: int, ffn: int, expert_ffn: int) -> Model:
    return Model(
        layers=layers, hidden=hidden, heads=heads, kv_heads=4, head_dim=128, ffn=ffn, gated=True, vocab=151936, sequence=4096,
        experts=128, top_k=8, expert_ffn=expert_ffn, query_norms=True,
    )  # fmt: skip


MODELS: dict[str, Model] = {
    "gpt3-175b": _gpt(96, 12288, 96),
    "megatron-22b": _gpt(48, 6144, 64),
    "megatron-530b": _gpt(105, 20480, 128),
    "megatron-1t": _gpt(128, 25600, 160),
    "llama2-7b": _llama(layers=32, hidden=4096, heads=32, kv_heads=32, ffn=11008, vocab=32000, sequence=4096),
    "llama2-13b": _llama(layers=40, hidden=5120, heads=40, kv_heads=40, ffn=13824, vocab=32000, sequence=4096),
    "llama2-70b": _llama(layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=32000, sequence=4096),
    "llama3-8b": _llama(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256, sequence=8192),
    "llama3-70b": _llama(layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256, sequence=8192),
    "llama3-405b": _llama(layers=126, hidden=16384, heads=128, kv_heads=8, ffn=53248, vocab=128256, sequence=8192),
    "mixtral-8x7b": _mixtral(layers=32, hidden=4096, heads=32, expert_ffn=14336, vocab=32000, sequence=4096),
    "mixtral-8x22b": _mixtral(layers=56, hidden=6144, heads=48, expert_ffn=16384, vocab=32768, sequence=4096),
    "qwen3-8b": _qwen3(36, 4096, 32, 12288),
    "qwen3-32b": _qwen3(64, 5120, 64, 25600),
    "qwen3-30b-a3b": _qwen3_moe(48, 2048, 32, 6144, 768),
    "qwen3-235b-a22b": _qwen3_moe(94, 4096, 64, 12288, 1536),
    "deepseek-v3": Model(
        layers=61, hidden=7168, heads=128, ffn=18432, gated=True, vocab=129280, sequence=4096, experts=256, top_k=8, expert_ffn=2048,
        shared_experts=1, dense_layers=3, mtp_layers=1,
        mla=LatentAttention(query_rank=1536, key_value_rank=512, nope=128, rope=64, value=128),
    ),
}  # fmt: skip
"""Models by name. Sources: arXiv 2104.04473 and 2205.05198 (GPT), 2307.09288 (Llama 2), 2407.21783 (Llama 3), 2401.04088 (Mixtral),
2505.09388 (Qwen3), 2412.19437 (DeepSeek-V3)."""


def names() -> list[str]:
    """Names of all models."""
    return list(MODELS)
