"""Descriptions of models: the dimensions of a transformer, by name, by a table, or from files that a plugin reads.

Plugins offer names through the hook `astra_models`. Workloads and servers ask `describe_model`, so that all of them know the same models.

Example:

A description gives the dimensions of a model, from which others follow. Of this mixture of experts the first layer is dense:

    >>> from astra_sim.models import LatentAttention, ModelDescription
    >>> attention = LatentAttention(query_rank=1536, key_value_rank=512, nope=128, rope=64, value=128)
    >>> model = ModelDescription(
    ...     layers=4, hidden=2048, heads=16, ffn=8192, gated=True, vocab=32_000,
    ...     experts=64, top_k=6, expert_ffn=1408, dense_layers=1, mla=attention,
    ... )
    >>> [model.kind(layer) for layer in range(model.layers)]
    ['dense', 'moe', 'moe', 'moe']
    >>> model.head_size, model.value_size, model.branches
    (192, 128, 3)
    >>> ModelDescription(layers=4, hidden=2048, heads=15, vocab=32_000)
    Traceback (most recent call last):
    ...
    astra_sim.errors.InputError: heads is 15; expected a divisor of hidden, which is 2048, or head_dim

A workload asks for a model by its name, which a plugin offers, or by a table of its dimensions. `Context.plugins` has the plugins of a run.

    >>> from astra_sim import Provider, hookimpl
    >>> from astra_sim.commands import Plugins
    >>> from astra_sim.models import describe_model
    >>> class Models:
    ...     @hookimpl
    ...     def astra_models(self):
    ...         return [Provider("tiny-moe", "Four layers of latent attention", lambda: model)]
    >>> plugins = Plugins()
    >>> plugins.register(Models())
    >>> describe_model("tiny-moe", plugins, "workload mine").experts
    64
    >>> describe_model({"layers": 2, "hidden": 512, "heads": 8, "vocab": 1000}, plugins, "workload mine").head_size
    64
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import attrs

from astra_sim._boundary import shown
from astra_sim.errors import InputError, PluginError, locating
from astra_sim.limits import MAX_LAYERS
from astra_sim.options import option, structure
from astra_sim.setup.specs import component_of

if TYPE_CHECKING:
    from astra_sim.setup.plugins import Plugins

__all__ = ["LatentAttention", "ModelDescription", "describe_model"]

LayerKind = Literal["dense", "moe"]

FILE_READER = "hugging_face"
"""The provider that reads a description from a path: its option `path` is a file, or a folder with one."""


@attrs.frozen
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): queries, keys and values through low ranks."""

    query_rank: int = option(minimum=1, help="rank of queries")
    key_value_rank: int = option(minimum=1, help="rank of keys and values")
    nope: int = option(minimum=1, help="elements of a query or key of a head without position")
    rope: int = option(minimum=1, help="elements of a query or key of a head with rotary position")
    value: int = option(minimum=1, help="elements of a value of a head")


@attrs.frozen
class ModelDescription:
    """A decoder-only transformer. Raises InputError if its dimensions contradict each other.

    The first `dense_layers` of a mixture of experts, and with an `expert_interval` others, have a feed-forward part of width `ffn`; a model
    without experts has one in all layers. With a `window`, the
    first `full_layers`, and with a `full_interval` others, attend to all tokens.
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
    expert_biases: bool = option(False, help="biases of experts, routers and the product after attention, as in GPT-OSS")
    query_norms: bool = option(False, help="norms of the queries and keys of a head, as in Qwen3")
    dropout: bool = option(False, help="dropout of scores and of the two residual branches")
    learned_positions: bool = option(False, help="learned embeddings of positions, one for each token of a sequence")
    experts: int = option(0, minimum=0, help="routed experts; 0: a dense model")
    top_k: int = option(0, minimum=0, help="experts of a token")
    expert_ffn: int = option(0, minimum=0, help="width of an expert")
    shared_experts: int = option(0, minimum=0, help="experts that every token meets")
    dense_layers: int = option(0, minimum=0, help="first layers without experts")
    expert_interval: int = option(1, minimum=1, help="of the others, the last of every N layers has experts")
    mtp_layers: int = option(0, minimum=0, help="blocks that predict further tokens (multi-token prediction), each with a head")
    mla: LatentAttention | None = option(None, help="multi-head latent attention")
    window: int | None = option(None, minimum=1, help="tokens that a token sees, the last ones, itself included; none: all", unit="tokens")
    full_layers: int = option(0, minimum=0, help="first layers whose attention has no window")
    full_interval: int = option(0, minimum=0, help="of the others, the last of every N layers has no window; 0: all have one")

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
        of_experts = self.top_k, self.expert_ffn, self.shared_experts, self.dense_layers, self.expert_interval > 1, self.expert_biases
        if not self.experts and any(of_experts):
            raise InputError("top_k, expert_ffn, shared_experts, dense_layers, expert_interval or expert_biases is given without experts")
        if self.dense_layers > self.layers:
            raise InputError(f"dense_layers is {self.dense_layers}; expected at most layers, which is {self.layers}")
        if self.window is None and (self.full_layers or self.full_interval):
            raise InputError("full_layers or full_interval is given without window")
        if self.window is not None and self.mla is not None:
            raise InputError(f"window is {self.window} with mla; expected one of them")

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
        last = (layer - self.dense_layers + 1) % self.expert_interval == 0 or layer >= self.layers
        return "moe" if self.experts and layer >= self.dense_layers and last else "dense"

    def window_of(self, layer: int) -> int | None:
        """The tokens that a token sees in a layer, from 0 on; None if it sees all, as in blocks of multi-token prediction."""
        last = self.full_interval > 0 and (layer - self.full_layers + 1) % self.full_interval == 0
        return None if layer < self.full_layers or last or layer >= self.layers else self.window

    @property
    def has_dense_layers(self) -> bool:
        """Whether some layer has no experts."""
        return any(self.kind(layer) == "dense" for layer in range(self.layers))


def describe_model(model: str | Mapping[str, Any], plugins: Plugins, where: str) -> ModelDescription:
    """The description that a name, `NAME?key=value`, the path of a `config.json` or of its folder, or a table means.

    Raises InputError that begins with `where`, and PluginError if a plugin returns something else.
    """
    if isinstance(model, Mapping):
        described: ModelDescription = structure(ModelDescription, model, where)
        return described
    if not isinstance(model, str):
        raise InputError(f"{where}: {model!r} is not the name of a model, a path, or a table of its dimensions")
    if is_path(model):
        provider, options = plugins.get("model", FILE_READER), {"path": model}
        structured = structure(provider.load_options(), options, where)
    else:
        provider, structured = component_of(plugins, "model", model, where)
    with locating(where):
        model_description = provider.instance_of(structured)
    if not isinstance(model_description, ModelDescription):
        raise PluginError(f"{where}: model plugin {provider.name!r} returned {shown(model_description)}, which is not a ModelDescription")
    return model_description


def is_path(model: str) -> bool:
    """Whether a text is the path of a model's file or folder, and not a name."""
    return os.sep in model or model.endswith(".json")
