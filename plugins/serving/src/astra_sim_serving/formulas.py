"""Times of an iteration from the shapes of its kernels, by the compute model of the experiment."""

from __future__ import annotations

import functools
import math

import attrs
from astra_sim.compute import Compute, Work
from astra_sim.models import ModelDescription
from astra_sim.shapes import ELEMENT_BYTES, Attention, Elementwise, Gemm, GroupedGemm, Kernel

from astra_sim_serving.batch import BatchShape
from astra_sim_serving.expert_loads import ExpertLoad, expert_load
from astra_sim_serving.model_memory import ACTIVATION_BYTES, Sharding, key_heads

KV_QUANTUM = 16
"""Context lengths are rounded to multiples of this, so that times are found again."""

LOGIT_BYTES = 4


def expert_layers(model: ModelDescription) -> int:
    """Layers that have experts."""
    return sum(model.kind(layer) == "moe" for layer in range(model.layers))


@attrs.define(eq=False)
class KernelFormulas:
    """Times of the kernels of one rank in microseconds. Products have `element_type`, keys and values `kv_type`.

    `gathered`: a rank with experts has the tokens of all ranks, else those that are sent to its experts. `expert_power`: see `expert_load`.
    `attentions` are the times of attention of a layer that are known, by sequences (0: a prompt), and by queries and keys of each.
    """

    model: ModelDescription
    sharding: Sharding
    compute: Compute
    element_type: str
    kv_type: str
    gathered: bool = True
    expert_power: float | None = None
    attentions: dict[tuple[int, int, int], float] = attrs.field(factory=dict)
    _products: dict[int, tuple[float, float]] = attrs.field(factory=dict)

    def _us(self, *shapes: Kernel) -> float:
        return sum(self.compute.duration_ns(Work(shape=shape)) for shape in shapes) / 1e3

    def _gemm(self, m: int, n: int, k: int, batch: int = 1) -> Gemm:
        return Gemm(m=m, n=max(1, n), k=max(1, k), batch=batch, element_type=self.element_type)

    def layers_us(self, tokens: int) -> tuple[float, float]:
        """Products, and kernels bound by memory, of all layers for `tokens` tokens; attention and routed experts are left out."""
        if tokens not in self._products:
            model = self.model
            kinds = [model.kind(layer) for layer in range(model.layers)]
            dense, experts = kinds.count("dense"), kinds.count("moe")
            gemm = self.attention_products_us(tokens) * model.layers
            gemm += self._us(*self._feed_forward(tokens, model.width)) * dense if dense else 0.0
            gemm += self._us(*self._beside_experts(tokens)) * experts if experts else 0.0
            other = self._us(*self._between(tokens)) * model.layers + self._us(self._memory(tokens * model.hidden))
            other += self._us(self._activation(tokens, model.width)) * dense if dense else 0.0
            self._products[tokens] = gemm, other
        return self._products[tokens]

    def _attention_products(self, tokens: int) -> list[Kernel]:
        """The products around the attention of a layer."""
        model, t = self.model, self.sharding.tensor
        heads, h = model.heads // t, model.hidden
        if model.mla is None:
            width = model.head_size * (heads + 2 * key_heads(model, t))
            return [self._gemm(tokens, width, h), self._gemm(tokens, h, heads * model.head_size)]
        m = model.mla
        return [
            self._gemm(tokens, m.query_rank + m.key_value_rank + m.rope, h),
            self._gemm(tokens, heads * (m.nope + m.rope), m.query_rank),
            self._gemm(tokens, m.key_value_rank, m.nope, batch=heads),
            self._gemm(tokens, m.value, m.key_value_rank, batch=heads),
            self._gemm(tokens, h, heads * m.value),
        ]

    def attention_products_us(self, tokens: int) -> float:
        """The products around the attention of a layer."""
        return self._us(*self._attention_products(tokens))

    def _feed_forward(self, tokens: int, width: int) -> list[Kernel]:
        model, width_of_rank = self.model, width // self.sharding.tensor
        return [self._gemm(tokens, (model.branches - 1) * width_of_rank, model.hidden), self._gemm(tokens, model.hidden, width_of_rank)]

    def _beside_experts(self, tokens: int) -> list[Kernel]:
        """The router of a layer with experts, and its shared experts with their activation."""
        model, width = self.model, self.model.shared_experts * self.model.expert_ffn
        shared = [*self._feed_forward(tokens, width), self._activation(tokens, width)] if width else []
        return [self._gemm(tokens, model.experts, model.hidden), *shared]

    def experts_us(self, tokens: int) -> float:
        """The routed experts of all layers for the tokens of all ranks, their activation, and the sum of their outputs."""
        load = expert_load(self.model, tokens, self.sharding.expert, self.expert_power)
        return self._us(*self.expert_kernels(tokens, load)) * expert_layers(self.model)

    def expert_kernels(self, tokens: int, load: ExpertLoad) -> list[Kernel]:
        """The kernels of the routed experts of a layer, for those that get tokens. Ranks of one expert share its width.

        The kernels of vLLM, `fused_moe`, work on a row for each expert that a token chose, wherever that expert is: of those of other ranks
        they write zeros, and read them again. Only products leave them out. If tokens are sent to their experts (not `gathered`), a rank
        has no such rows.
        """
        model, sharding = self.model, self.sharding
        experts = max(1, round(load.touched))
        rows = max(1, round(load.choices / experts))
        width = max(1, model.expert_ffn * sharding.expert // sharding.stage_npus)
        entered, own_rows = (model.branches - 1) * width, math.ceil(load.choices)
        chosen = tokens * model.top_k if self.gathered else own_rows
        zeros = (chosen - own_rows) * (entered + model.hidden)
        return [
            GroupedGemm(experts=experts, rows=rows, n=entered, k=model.hidden, element_type=self.element_type),
            GroupedGemm(experts=experts, rows=rows, n=model.hidden, k=width, element_type=self.element_type),
            Elementwise(read_bytes=chosen * entered * ACTIVATION_BYTES, write_bytes=(chosen * width + zeros) * ACTIVATION_BYTES),
            Elementwise(read_bytes=chosen * model.hidden * ACTIVATION_BYTES, write_bytes=tokens * model.hidden * ACTIVATION_BYTES),
        ]

    def _between(self, tokens: int) -> list[Kernel]:
        """Two norms with residual sums, and rotary positions with the cache."""
        model, t = self.model, self.sharding.tensor
        rotary = model.head_size * (model.heads // t + key_heads(model, t))
        return [
            self._memory(2 * tokens * model.hidden),
            self._memory(2 * tokens * model.hidden),
            self._memory(tokens * rotary),
        ]

    def _activation(self, tokens: int, width: int) -> Elementwise:
        """The activation of a feed-forward part, of which ranks have a share of the width each."""
        size = tokens * (width // self.sharding.tensor) * ACTIVATION_BYTES
        return Elementwise(read_bytes=(self.model.branches - 1) * size, write_bytes=size)

    def _memory(self, elements: int) -> Elementwise:
        return Elementwise(read_bytes=elements * ACTIVATION_BYTES, write_bytes=elements * ACTIVATION_BYTES)

    def head_us(self, sequences: int) -> tuple[float, float]:
        """The product of the output layer for the sequences, and the sampler, which reads the logits."""
        if not sequences:
            return 0.0, 0.0
        model = self.model
        vocabulary = model.vocab // self.sharding.tensor
        head = Gemm(m=sequences, n=vocabulary, k=model.hidden)
        sampler = Elementwise(read_bytes=sequences * model.vocab * LOGIT_BYTES, write_bytes=sequences * LOGIT_BYTES)
        return self._us(head), self._us(sampler)

    def attention_us(self, shape: BatchShape) -> float:
        """Attention of all layers: the chunk of prompts, and the decoding sequences."""
        time = 0.0
        if shape.chunk:
            time += self.prompt_us(shape.attention_chunk, KV_QUANTUM * round(shape.chunk_context / KV_QUANTUM))
        if shape.decodes:
            keys = KV_QUANTUM * max(1, round(shape.kv_mean / KV_QUANTUM))
            time += self.sequences_us(shape.decodes, 1 + round(shape.draft_rounds), keys)
        return time * self.model.layers

    def prompt_us(self, queries: int, context: int) -> float:
        """Attention of a layer of a chunk of a prompt behind a context that is cached.

        Latent attention makes keys and values of each head from the latents, for the context, too (those of the chunk are counted with the
        products): that takes fewer operations than attention to latents, which are wider.
        """
        if self.model.mla is None:
            return self.sequences_us(1, queries, queries + context)
        m, heads, key = self.model.mla, self.model.heads // self.sharding.tensor, (0, queries, queries + context)
        if key not in self.attentions:
            attention = Attention(
                heads=heads,
                query_length=queries,
                key_length=queries + context,
                head_size=m.nope + m.rope,
                value_size=m.value,
                key_heads=heads,
                causal=True,
                paged=True,
            )
            decompression = [self._gemm(context, heads * (m.nope + m.value), m.key_value_rank)] if context else []
            self.attentions[key] = self._us(attention, *decompression)
        return self.attentions[key]

    def sequences_us(self, sequences: int, queries: int, keys: int) -> float:
        """Attention of a layer of some sequences with equal numbers of queries and keys: of layers with and without windows the mean."""
        key = sequences, queries, keys
        if key not in self.attentions:
            window, windowed = self.model.window, self._windowed_layers
            time = self._us(self._attention(*key)) if windowed < self.model.layers else 0.0
            if window is not None and windowed:
                near = self._attention(sequences, queries, min(keys, window + queries - 1), window)
                time += (self._us(near) - time) * windowed / self.model.layers
            self.attentions[key] = time
        return self.attentions[key]

    @functools.cached_property
    def _windowed_layers(self) -> int:
        """Layers whose tokens see the last `window` tokens alone."""
        return sum(self.model.window_of(layer) is not None for layer in range(self.model.layers))

    def _attention(self, sequences: int, queries: int, keys: int, window: int | None = None) -> Attention:
        """Attention of some sequences with equal numbers of queries and keys, for the compute model."""
        model, t = self.model, self.sharding.tensor
        heads = model.heads // t
        kind = self.kv_type if ELEMENT_BYTES[self.kv_type] != ACTIVATION_BYTES else None
        if model.mla is None:
            return Attention(
                heads=heads * sequences,
                query_length=queries,
                key_length=keys,
                head_size=model.head_size,
                key_heads=key_heads(model, t) * sequences,
                causal=True,
                window=window if queries > 1 and window is not None and window < keys else None,
                paged=True,
                element_type=kind,
            )
        m = model.mla
        return Attention(
            heads=heads * sequences,
            query_length=queries,
            key_length=keys,
            head_size=m.key_value_rank + m.rope,
            value_size=m.key_value_rank,
            key_heads=sequences,
            values_in_keys=True,
            causal=True,
            paged=True,
            element_type=kind,
        )
