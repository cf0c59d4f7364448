"""The time of an iteration by its parts: products, attention, other kernels, collectives and host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import attrs
from astra_sim.models import ModelDescription

from astra_sim_serving.batch import BatchShape
from astra_sim_serving.formulas import KV_QUANTUM, KernelFormulas
from astra_sim_serving.model_memory import ACTIVATION_BYTES
from astra_sim_serving.tables import KernelTables

_T = TypeVar("_T")
_S = 1e-6
NORMS_PER_LAYER = {"layernorm": 2}
ENDS = ("embedding", "final_layernorm")
PRODUCTS = frozenset({"qkv_proj", "o_proj", "gate_up_proj", "down_proj"})


@attrs.define
class PricingCounts:
    """How many kernels were timed by tables, by formulas, and how many of the first were outside of their table."""

    tables: int = 0
    formulas: int = 0
    extrapolated: int = 0


class KernelTimes(Protocol):
    """Times of kernels of all layers in microseconds; the first number of a pair is that of products, the second that of the others."""

    def layers_us(self, tokens: int) -> tuple[float, float]:
        """All of an iteration but attention, head and sampler."""

    def head_us(self, sequences: int) -> tuple[float, float]:
        """Head and sampler."""

    def attention_us(self, shape: BatchShape) -> float:
        """Attention."""


@attrs.define(eq=False)
class TableTimes:
    """Times by measured tables; what a table does not cover by formulas, where there are some, else by continuing the table.

    `skew` is the share of the difference between the longest and the mean context that a batch takes longer.
    """

    tables: KernelTables
    model: ModelDescription
    counts: PricingCounts
    formulas: KernelFormulas | None = None
    skew: float = 0.055
    _layers: dict[int, tuple[float, float]] = attrs.field(factory=dict)
    _heads: dict[int, tuple[float, float]] = attrs.field(factory=dict)
    _attention: dict[tuple[int, int, int, int], float] = attrs.field(factory=dict)

    @property
    def _least_chunk(self) -> int:
        """The smallest chunk that was measured: shorter ones take as long."""
        return int(self.tables.attention.keys[1 if self.tables.attention.keys[0] == 0 else 0])

    def layers_us(self, tokens: int) -> tuple[float, float]:
        """Products and other kernels of all layers, with embedding and final norm."""
        if tokens not in self._layers:
            covered = all(grid.keys[0] <= tokens <= grid.keys[-1] for grid in self.tables.dense.values())
            self._layers[tokens] = self._counted(covered, lambda f: f.layers_us(tokens), lambda: self._dense(tokens))
        return self._layers[tokens]

    def _dense(self, tokens: int) -> tuple[float, float]:
        gemm = other = 0.0
        for layer, grid in self.tables.dense.items():
            count = 1 if layer in ENDS else self.model.layers * NORMS_PER_LAYER.get(layer, 1)
            time = grid.at((tokens,))[0] * count
            gemm, other = (gemm + time, other) if layer in PRODUCTS else (gemm, other + time)
        if self.tables.moe is not None:
            model = self.model
            touched = model.experts * (1 - (1 - model.top_k / model.experts) ** tokens)
            gemm += self.tables.moe.at((tokens, touched))[0] * model.layers
        return gemm, other

    def head_us(self, sequences: int) -> tuple[float, float]:
        """Head and sampler."""
        if not sequences:
            return 0.0, 0.0
        if sequences not in self._heads:
            grids = self.tables.per_sequence
            covered = all(grid.keys[0] <= sequences <= grid.keys[-1] for grid in grids.values())
            self._heads[sequences] = self._counted(
                covered,
                lambda f: f.head_us(sequences),
                lambda: (grids["lm_head"].at((sequences,))[0], grids["sampler"].at((sequences,))[0]),
            )
        return self._heads[sequences]

    def attention_us(self, shape: BatchShape) -> float:
        """Attention of the mean context, and in a batch without prompts a share of what the longest would take more.

        Beside prompts there is other work for the multiprocessors that would wait for the longest context.
        """
        mean = self._attention_us(shape, shape.kv_mean)
        if not self.skew or not shape.decodes or shape.chunk:
            return mean
        return mean + self.skew * (self._attention_us(shape, shape.kv_longest) - mean)

    def _attention_us(self, shape: BatchShape, kv: float) -> float:
        quantum = KV_QUANTUM
        context = quantum * round(shape.chunk_context / quantum)
        chunk = max(shape.attention_chunk, self._least_chunk) if shape.chunk else 0
        key = chunk, context, shape.decodes, quantum * round(kv / quantum)
        if key not in self._attention:
            time, outside = self.tables.attention.at(key)
            own = shape._replace(kv_tokens=key[3] * shape.decodes, kv_longest=key[3])
            self._attention[key] = self._counted(not outside, lambda f: f.attention_us(own), lambda: time * self.model.layers)
        return self._attention[key]

    def _counted(self, covered: bool, formula: Callable[[KernelFormulas], _T], table: Callable[[], _T]) -> _T:
        if covered or self.formulas is None:
            self.counts.tables += 1
            self.counts.extrapolated += not covered
            return table()
        self.counts.formulas += 1
        self.counts.extrapolated += 1
        return formula(self.formulas)


@attrs.define(eq=False)
class FormulaTimes:
    """Times by formulas alone, each calculated once."""

    formulas: KernelFormulas
    counts: PricingCounts
    _heads: dict[int, tuple[float, float]] = attrs.field(factory=dict)
    _attention: dict[tuple[int, int, int, int], float] = attrs.field(factory=dict)

    def layers_us(self, tokens: int) -> tuple[float, float]:
        """Products and other kernels of all layers."""
        return self.formulas.layers_us(tokens)

    def head_us(self, sequences: int) -> tuple[float, float]:
        """Head and sampler."""
        if sequences not in self._heads:
            self._heads[sequences] = self.formulas.head_us(sequences)
        return self._heads[sequences]

    def attention_us(self, shape: BatchShape) -> float:
        """Attention."""
        key = shape.attention_chunk, round(shape.chunk_context / KV_QUANTUM), shape.decodes, round(shape.kv_mean / KV_QUANTUM)
        if key not in self._attention:
            self.counts.formulas += 1
            self._attention[key] = self.formulas.attention_us(shape)
        return self._attention[key]


@attrs.define(eq=False)
class IterationTime:
    """Seconds of the parts of an iteration, in the order of `PARTS`.

    `all_reduce_us`: the time of an all-reduce by its bytes, of which each layer has two; None: there is one rank. The host works beside
    the device where the engine is `asynchronous`, else before it.
    """

    kernels: KernelTimes
    layers: int
    hidden: int
    all_reduce_us: Callable[[int], float] | None = None
    host_us: float = 0.0
    host_us_per_sequence: float = 0.0
    asynchronous: bool = True
    _collectives: dict[int, float] = attrs.field(factory=dict)

    def parts(self, shape: BatchShape) -> tuple[float, ...]:
        """The parts, whose sum is the duration."""
        tokens = shape.chunk + shape.decodes
        gemm, other = self.kernels.layers_us(tokens)
        head, sampler = self.kernels.head_us(shape.sampled)
        attention = self.kernels.attention_us(shape)
        collective = self._collective_us(tokens) if self.all_reduce_us is not None else 0.0
        host = self.host_us + self.host_us_per_sequence * shape.sampled
        if self.asynchronous and host:
            host = max(0.0, host - gemm - other - head - sampler - attention - collective)
        return (gemm + head) * _S, attention * _S, (other + sampler) * _S, collective * _S, host * _S

    def _collective_us(self, tokens: int) -> float:
        if tokens not in self._collectives:
            assert self.all_reduce_us is not None
            self._collectives[tokens] = 2 * self.layers * self.all_reduce_us(tokens * self.hidden * ACTIVATION_BYTES)
        return self._collectives[tokens]
