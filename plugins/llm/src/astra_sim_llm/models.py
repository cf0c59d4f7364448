"""Models: the dimensions of a transformer, by name, by a table, or from a Hugging Face `config.json`."""

from __future__ import annotations

from typing import Literal

import attrs
from astra_sim import InputError, option
from astra_sim.limits import MAX_LAYERS

LayerKind = Literal["dense", "moe"]


@attrs.frozen
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): queries, keys and values through low ranks."""

    query_rank: int = option(minimum=1, help="rank of queries")
    key_value_rank: int = option(minimum=1, help="rank of keys and values")
    nope: int = option(minimum=1, help="elements of a query or key of a head without position")
    rope: int = option(minimum=1, help="elements of a query or key of a head with rotary position")
    value: int = option(minimum=1, help="elements of a value of a head")


@attrs.frozen
class Model:
    """A decoder-only transformer. Raises InputError where its dimensions contradict each other.

    The first `dense_layers` of a mixture of experts, and with an `expert_interval` others, have a feed-forward part of width `ffn`; a model
    without experts has one in all layers.
    """

    layers: int = option(minimum=1, maximum=MAX_LAYERS, help="transformer blocks")
    hidden: int = option(minimum=1, help="hidden width")
    heads: int = option(minimum=1, help="query heads")
    kv_heads: int | None = option(None, minimum=1, help="key and value heads; none: as many as query heads")
    head_dim: int | None = option(None, minimum=1, help="elements of a head; none: hidden / heads")
    ffn: int | None = option(None, minimum=1, help="feed-forward width, of each branch if gated; none: 4 * hidden")
    gated: bool = option(False, help="gated feed-forward (SwiGLU)")
    vocab: int = option(minimum=1, help="vocabulary, padded")
    sequence: int = option(2048, minimum=1, help="sequence length where the workload gives none", unit="tokens")
    tied: bool = option(False, help="the output layer shares the weights of the embedding")
    biases: bool = option(False, help="biases of products, and LayerNorm with biases, as in GPT")
    query_biases: bool = option(False, help="biases of the products for queries, keys and values alone, as in Qwen2")
    query_norms: bool = option(False, help="norms of the queries and keys of a head, as in Qwen3")
    dropout: bool = option(False, help="dropout of scores and of the two residual branches")
    learned_positions: bool = option(False, help="learned embeddings of positions, one for each token of a sequence")
    experts: int = option(0, minimum=0, help="routed experts; 0: a dense model")
    top_k: int = option(0, minimum=0, help="experts of a token")
    expert_ffn: int = option(0, minimum=0, help="width of an expert")
    shared_experts: int = option(0, minimum=0, help="experts that every token meets")
    dense_layers: int = option(0, minimum=0, help="first layers without experts")
    expert_interval: int = option(1, minimum=1, help="of the others, every so many-th layer has experts: the last of so many")
    mtp_layers: int = option(0, minimum=0, help="blocks that predict further tokens (multi-token prediction), each with a head")
    mla: LatentAttention | None = option(None, help="multi-head latent attention")

    def __attrs_post_init__(self) -> None:
        if self.head_dim is None and self.mla is None and self.hidden % self.heads:
            raise InputError(f"heads is {self.heads}; expected a divisor of hidden, which is {self.hidden}, or head_dim")
        if self.heads % self.key_heads:
            raise InputError(f"kv_heads is {self.key_heads}; expected a divisor of heads, which is {self.heads}")
        if self.experts and not (0 < self.top_k <= self.experts and self.expert_ffn):
            raise InputError(
                f"experts is {self.experts}, top_k {self.top_k} and expert_ffn {self.expert_ffn};"
                " expected top_k from 1 to experts, and a width of experts"
            )
        if not self.experts and (self.top_k or self.expert_ffn or self.shared_experts or self.dense_layers or self.expert_interval > 1):
            raise InputError("top_k, expert_ffn, shared_experts, dense_layers or expert_interval is given without experts")
        if self.dense_layers > self.layers:
            raise InputError(f"dense_layers is {self.dense_layers}; expected at most layers, which is {self.layers}")

    @property
    def key_heads(self) -> int:
        """Key and value heads."""
        return self.kv_heads or self.heads

    @property
    def head_size(self) -> int:
        """Elements of a query and of a key of a head."""
        if self.mla is not None:
            return self.mla.nope + self.mla.rope
        return self.head_dim or self.hidden // self.heads

    @property
    def value_size(self) -> int:
        """Elements of a value of a head."""
        return self.mla.value if self.mla is not None else self.head_size

    @property
    def branches(self) -> int:
        """Matrices of a feed-forward part: 3 if gated, else 2."""
        return 3 if self.gated else 2

    @property
    def width(self) -> int:
        """Feed-forward width of a dense layer."""
        return self.ffn or 4 * self.hidden

    def kind(self, layer: int) -> LayerKind:
        """Whether a layer, from 0 on, has experts. Blocks of multi-token prediction come after the last layer, and have them, too."""
        if not self.experts or layer < self.dense_layers:
            return "dense"
        last = (layer - self.dense_layers + 1) % self.expert_interval == 0
        return "moe" if last or layer >= self.layers else "dense"

    @property
    def has_dense_layers(self) -> bool:
        """Whether some layer has no experts."""
        return any(self.kind(layer) == "dense" for layer in range(self.layers))


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
