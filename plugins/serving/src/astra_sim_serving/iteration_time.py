"""The time of an iteration by its parts: products, attention, other kernels, collectives and host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import attrs
from astra_sim.models import ModelDescription

from astra_sim_serving.batch import BatchShape
from astra_sim_serving.collectives import SharedCollectives
from astra_sim_serving.expert_loads import expert_load
from astra_sim_serving.formulas import KV_QUANTUM, KernelFormulas, expert_layers
from astra_sim_serving.launches import LaunchPlan
from astra_sim_serving.lora import AdapterTimes
from astra_sim_serving.model_memory import ACTIVATION_BYTES, Sharding
from astra_sim_serving.tables import KernelTables

_T = TypeVar("_T")
_S = 1e-6
NORMS_PER_LAYER = {"layernorm": 2}
ENDS = ("embedding", "final_layernorm")
PRODUCTS = frozenset({"qkv_proj", "o_proj", "gate_up_proj", "down_proj"})


@attrs.define
class PricingCounts:
    """The number of kernels timed by tables, by formulas, and of the first those outside of their table."""

    tables: int = 0
    formulas: int = 0
    extrapolated: int = 0


class KernelTimes(Protocol):
    """Times of kernels of all layers in microseconds; the first number of a pair is that of products, the second that of the others."""

    def layers_us(self, tokens: int) -> tuple[float, float]:
        """All of an iteration but attention, routed experts, head and sampler."""

    def experts_us(self, tokens: int) -> float:
        """The routed experts of a rank that get tokens, if the tokens of all ranks choose among all of them."""

    def head_us(self, sequences: int) -> tuple[float, float]:
        """Head and sampler."""

    def attention_us(self, shape: BatchShape) -> float:
        """Attention."""


@attrs.define(eq=False)
class TableTimes:
    """Times by measured tables; outside of a table by formulas, if there are some, else by continuing the table.

    `skew` is the share of the difference between the longest and the mean context that a batch takes longer.
    """

    tables: KernelTables
    model: ModelDescription
    sharding: Sharding
    counts: PricingCounts
    formulas: KernelFormulas | None = None
    skew: float = 0.055
    expert_power: float | None = None
    _layers: dict[int, tuple[float, float]] = attrs.field(factory=dict)
    _experts: dict[int, float] = attrs.field(factory=dict)
    _heads: dict[int, tuple[float, float]] = attrs.field(factory=dict)
    _attention: dict[tuple[int, int, int, int], float] = attrs.field(factory=dict)

    @property
    def least_chunk(self) -> int:
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
        return gemm, other

    def experts_us(self, tokens: int) -> float:
        """Routed experts of all layers, of which a rank has one of `expert` parts, and meets as many of the chosen ones."""
        moe = self.tables.moe
        if moe is None or not self.model.experts:
            return 0.0
        if tokens not in self._experts:
            load = expert_load(self.model, tokens, self.sharding.expert, self.expert_power)
            point = load.choices / self.model.top_k, load.touched
            time, outside = moe.at(point)
            self._experts[tokens] = self._counted(not outside, lambda f: f.experts_us(tokens), lambda: time * expert_layers(self.model))
        return self._experts[tokens]

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
        """Attention of the mean context, and in a batch without prompts a share of the longest one's additional time.

        Beside prompts there is other work for the multiprocessors that would wait for the longest context.
        """
        if not shape.tokens:
            return 0.0
        mean = self.context_us(shape, shape.kv_mean)
        if not self.skew or not shape.decodes or shape.chunk:
            return mean
        return mean + self.skew * (self.context_us(shape, shape.kv_longest) - mean)

    def context_us(self, shape: BatchShape, kv: float) -> float:
        """Attention of a batch whose decoding sequences see `kv` keys each."""
        quantum = KV_QUANTUM
        context = quantum * round(shape.chunk_context / quantum)
        chunk = max(shape.attention_chunk, self.least_chunk) if shape.chunk else 0
        key = chunk, context, shape.decodes, quantum * round(kv / quantum)
        if key not in self._attention:
            time, outside = self.tables.attention.at(key)
            rounded = shape._replace(kv_tokens=key[3] * shape.decodes, kv_longest=key[3])
            self._attention[key] = self._counted(not outside, lambda f: f.attention_us(rounded), lambda: time * self.model.layers)
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
    _experts: dict[int, float] = attrs.field(factory=dict)
    _heads: dict[int, tuple[float, float]] = attrs.field(factory=dict)

    def layers_us(self, tokens: int) -> tuple[float, float]:
        """Products and other kernels of all layers."""
        return self.formulas.layers_us(tokens)

    def experts_us(self, tokens: int) -> float:
        """Routed experts of all layers."""
        if not self.formulas.model.experts:
            return 0.0
        if tokens not in self._experts:
            self._experts[tokens] = self.formulas.experts_us(tokens)
        return self._experts[tokens]

    def head_us(self, sequences: int) -> tuple[float, float]:
        """Head and sampler."""
        if sequences not in self._heads:
            self._heads[sequences] = self.formulas.head_us(sequences)
        return self._heads[sequences]

    def attention_us(self, shape: BatchShape) -> float:
        """Attention."""
        return self._counted(lambda: self.formulas.attention_us(shape))

    def prompt_us(self, queries: int, context: int) -> float:
        """Attention of a layer of a chunk of a prompt behind a cached context."""
        return self._counted(lambda: self.formulas.prompt_us(queries, context))

    def decodes_us(self, sequences: int, queries: int, keys: int) -> float:
        """Attention of a layer of sequences that decode, with some queries and keys each."""
        return self._counted(lambda: self.formulas.sequences_us(sequences, queries, keys))

    def _counted(self, time: Callable[[], float]) -> float:
        """A time of attention, with which the kernels are counted that were not known before."""
        known = len(self.formulas.attentions)
        result = time()
        self.counts.formulas += len(self.formulas.attentions) - known
        return result


_NO_DRAFT = 0.0, 0.0, 0.0, 0.0

DraftTime = Callable[[BatchShape], tuple[float, float, float, float]]
"""Microseconds of products, attention, other kernels and collectives in which each decoding sequence gets a token of its draft."""


class IterationStep(NamedTuple):
    """The time of an iteration that the ranks of an instance do together, in seconds.

    `parts` are those of each rank, which add up to the same whole. `stages` are the times of the stages of a pipeline, `send` that of a
    message between two of them. `plan` has its steps if collectives of it are on links that others share.
    """

    parts: Sequence[tuple[float, ...]]
    stages: Sequence[float] = ()
    send: float = 0.0
    plan: LaunchPlan | None = None


@attrs.define(eq=False)
class IterationTime:
    """Seconds of the parts of an iteration, in the order of `PARTS`.

    `all_reduce_us` is the time of an all-reduce by its bytes, of which each layer has two; None: there is one rank. `exchange_us` is the
    time in which tokens get to the experts of a layer and back, by the tokens of each rank of data parallelism; then a layer with experts
    has one all-reduce. `send_us` is that of a message to the next stage of a pipeline. The host works beside the device if the engine
    is `asynchronous`, else before it. Ranks of data parallelism fill batches of up to `graph_tokens` tokens to that of the largest. `draft`
    is the time of one token of all drafts, after the last stage; None: that takes no time on the device. `adapters` are the times of LoRA
    adapters; the host loads those that are not there before the iteration. `shared` are collectives on links that others share: then all
    ranks compute as long as the slowest in each layer, and reduce as many bytes as the fullest.
    """

    kernels: KernelTimes
    model: ModelDescription
    sharding: Sharding
    all_reduce_us: Callable[[int], float] | None = None
    exchange_us: Callable[[float], float] | None = None
    send_us: Callable[[int], float] | None = None
    host_us: float = 0.0
    host_us_per_sequence: float = 0.0
    asynchronous: bool = True
    graph_tokens: int = 0
    draft: DraftTime | None = None
    adapters: AdapterTimes | None = None
    shared: SharedCollectives | None = None
    _reductions: dict[int, float] = attrs.field(factory=dict)
    _fixed: dict[tuple[int, int], tuple[float, float, float, float, float]] = attrs.field(factory=dict)
    _expert_layers: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._expert_layers = expert_layers(self.model)

    def step(self, shapes: Sequence[BatchShape]) -> IterationStep:
        """The time of an iteration of batches, one for each rank that begins and ends with the others."""
        if len(shapes) > 1:
            return self._together(shapes)
        (shape,) = shapes
        tokens = shape.tokens
        gemm, other, head, sampler, collective = self._fixed_us(tokens, shape.sampled + shape.drafts)
        if self.adapters is not None:
            other += self._adapters_us(shape)
        attention = self.kernels.attention_us(shape)
        draft = self._draft_us(shape) if shape.drafts else _NO_DRAFT
        last = head + sampler + sum(draft)
        body = gemm + other + attention + collective
        host = self._host_us(shape.sampled, body + last)
        loads = 0.0
        if self.adapters is not None:
            loads = self._loads_us(shape)
            host += loads
        stages, send = self._stages(host, body, last, tokens) if self.sharding.pipeline > 1 else ((), 0.0)
        alone = collective if self.shared is None or not self.shared.reduces else 0.0
        collective += draft[3] + send * (self.sharding.pipeline - 1)
        parts = gemm + head + draft[0], attention + draft[1], other + sampler + draft[2], collective, host
        plan = (
            None if self.shared is None else self._plan(tokens, tokens, gemm + other + attention + alone, 0.0, last, shape.sampled, loads)
        )
        return IterationStep([tuple([each * _S for each in parts])], stages, send * _S, plan)

    def _fixed_us(self, tokens: int, sampled: int) -> tuple[float, float, float, float, float]:
        """The parts that do not depend on contexts: products, other kernels, head, sampler and all-reduces."""
        parts = self._fixed.get((tokens, sampled))
        if parts is None:
            gemm, other, collective = self.body_us(tokens)
            parts = self._fixed[tokens, sampled] = gemm, other, *self.kernels.head_us(sampled), collective
        return parts

    def body_us(self, tokens: int) -> tuple[float, float, float]:
        """Products, other kernels but attention, and all-reduces of all layers."""
        gemm, other, collective = self.rank_us(tokens)
        return gemm + self.kernels.experts_us(tokens), other, collective

    def rank_us(self, tokens: int) -> tuple[float, float, float]:
        """The same without experts: what each rank does by itself."""
        gemm, other = self.kernels.layers_us(tokens)
        return gemm, other, self._reductions_us(tokens)

    def exchanges_us(self, tokens: int) -> float:
        """The exchanges with the experts of all layers, of the tokens of all ranks."""
        return self._exchange_us(tokens / self.sharding.data) * self._expert_layers

    def _together(self, shapes: Sequence[BatchShape]) -> IterationStep:
        """The same of ranks that meet in each layer with experts: all wait there for the slowest, and for the slowest at the end.

        A rank without requests computes a dummy token. The waiting time of a rank counts as communication.
        """
        kernels = self.kernels
        tokens = [max(1, shape.tokens) for shape in shapes]
        most = max(tokens)
        if most <= self.graph_tokens:
            tokens = [most] * len(tokens)
        layers = [(gemm, other + self._adapters_us(own)) for (gemm, other), own in zip(map(kernels.layers_us, tokens), shapes, strict=True)]
        attention = [kernels.attention_us(shape) for shape in shapes]
        reductions = [self._reductions_us(each) for each in tokens]
        ends = [kernels.head_us(shape.sampled + shape.drafts) for shape in shapes]
        drafts = [self._draft_us(shape) for shape in shapes]
        reduced = 0.0
        if self.shared is not None and self.shared.reduces:
            reduced, reductions = max(reductions), [0.0] * len(shapes)
        slowest = max(map(sum, zip(map(sum, layers), attention, reductions, strict=True)))
        last = max(sum(end) + sum(draft) for end, draft in zip(ends, drafts, strict=True))
        experts = kernels.experts_us(sum(tokens))
        body = slowest + experts + self.exchanges_us(sum(tokens)) + reduced
        sampled, loads = max(shape.sampled for shape in shapes), max(map(self._loads_us, shapes))
        host = self._host_us(sampled, body + last) + loads
        stages, send = self._stages(host, body, last, most) if self.sharding.pipeline > 1 else ((), 0.0)
        whole = body + last + send * (self.sharding.pipeline - 1)
        parts = []
        for (gemm, other), own, (head, sampler), draft in zip(layers, attention, ends, drafts, strict=True):
            computed = gemm + experts + head + draft[0], own + draft[1], other + sampler + draft[2]
            parts.append((*(each * _S for each in computed), (whole - sum(computed)) * _S, host * _S))
        plan = None
        if self.shared is not None:
            plan = self._plan(max(tokens), sum(tokens) / len(tokens), slowest, experts, last, sampled, loads)
        return IterationStep(parts, stages, send * _S, plan)

    def _plan(self, tokens: int, mean_tokens: float, layers: float, experts: float, last: float, sampled: int, loads: float) -> LaunchPlan:
        """The steps of an iteration whose layers and experts take so long, with `last` behind them and loads of adapters before."""
        assert self.shared is not None
        host = self.host_us + self.host_us_per_sequence * sampled
        first = loads if self.asynchronous else loads + host
        steps, steps_ps = self.shared.plan(self.model, tokens, mean_tokens, first, layers, experts, last)
        return LaunchPlan(steps, steps_ps, round((loads + host) * 1e6) if self.asynchronous else 0)

    def layer_us(self, shape: BatchShape) -> tuple[float, float, float, float]:
        """Products, attention, other kernels and collectives of the last layer for a batch, with the head."""
        gemm, other, collective = self.layer_rest_us(max(1, shape.tokens), shape.sampled)
        return gemm, self.kernels.attention_us(shape) / self.model.layers, other, collective

    def layer_rest_us(self, tokens: int, sampled: int) -> tuple[float, float, float]:
        """Products, other kernels and collectives of the last layer, with the head for some sequences."""
        layers, of_experts = self.model.layers, self._expert_layers
        gemm, other = self.kernels.layers_us(tokens)
        head, sampler = self.kernels.head_us(sampled)
        experts = self.kernels.experts_us(tokens * self.sharding.data) / of_experts if of_experts else 0.0
        collective = self._reductions_us(tokens) / layers + (self._exchange_us(tokens) if of_experts else 0.0)
        return gemm / layers + experts + head, other / layers + sampler, collective

    def _adapters_us(self, shape: BatchShape) -> float:
        """The products of adapters."""
        return self.adapters.layers_us(shape.adapters) if self.adapters is not None else 0.0

    def _loads_us(self, shape: BatchShape) -> float:
        """The time in which adapters come from the host."""
        return self.adapters.load_us * shape.adapters.loads if self.adapters is not None else 0.0

    def _draft_us(self, shape: BatchShape) -> tuple[float, float, float, float]:
        """Products, attention, other kernels and collectives of the drafts for a batch."""
        if not shape.drafts or self.draft is None:
            return _NO_DRAFT
        rounds = shape.draft_rounds
        gemm, attention, other, collective = self.draft(shape.drafting())
        return gemm * rounds, attention * rounds, other * rounds, collective * rounds

    def _exchange_us(self, tokens: float) -> float:
        return self.exchange_us(tokens) if self.exchange_us is not None else 0.0

    def _reductions_us(self, tokens: int) -> float:
        """The all-reduces of all layers: after attention, and after a feed-forward part that no exchange ends."""
        if self.all_reduce_us is None:
            return 0.0
        if tokens not in self._reductions:
            count = 2 * self.model.layers - (self._expert_layers if self.exchange_us is not None else 0)
            self._reductions[tokens] = count * self.all_reduce_us(tokens * self.model.hidden * ACTIVATION_BYTES)
        return self._reductions[tokens]

    def _host_us(self, sampled: int, device: float) -> float:
        """Time of the host that shows, if the device takes so long."""
        host = self.host_us + self.host_us_per_sequence * sampled
        return max(0.0, host - device) if self.asynchronous else host

    def _stages(self, first: float, layers: float, last: float, tokens: int) -> tuple[list[float], float]:
        """Seconds of each stage of the pipeline, its share of the layers and the additional work of the first and the last.

        With the microseconds of a message with the hidden states of the tokens between two stages.
        """
        assert self.send_us is not None
        stages = [layers * len(layers_of_stage) / self.model.layers for layers_of_stage in self.sharding.stages(self.model.layers)]
        stages[0] += first
        stages[-1] += last
        return [each * _S for each in stages], self.send_us(tokens * self.model.hidden * ACTIVATION_BYTES)


@attrs.frozen(eq=False)
class LayerDraft:
    """Drafts by one more layer of the model, and its head."""

    time: IterationTime

    def __call__(self, shape: BatchShape) -> tuple[float, float, float, float]:
        """Microseconds in which each decoding sequence gets a token."""
        return self.time.layer_us(shape)


@attrs.frozen(eq=False)
class ModelDraft:
    """Drafts by iterations of another model."""

    model: IterationTime

    def __call__(self, shape: BatchShape) -> tuple[float, float, float, float]:
        """Microseconds in which each decoding sequence gets a token."""
        gemm, attention, other, collective, _ = self.model.step([shape]).parts[0]
        return gemm * 1e6, attention * 1e6, other * 1e6, collective * 1e6
