"""The kernels and collectives of a transformer block, for one micro-batch on one rank.

Sizes follow from the products: with T tokens of a micro-batch on a rank, products are (T x K) times (K x N). A backward pass has for each
an input-gradient product (N and K swapped) and a weight-gradient product (N x K x T), which adds to fp32 gradients in memory. Bytes of
other kernels are counted by element: what is read and written once, in 16 bits, with masks of a byte (as in arXiv 2205.05198, appendix A).

Tensor parallelism (arXiv 1909.08053) has an all-reduce after each half of a block and of its gradient; with sequence parallelism (arXiv
2205.05198) they are an all-gather before and a reduce-scatter after, and the backward pass gathers the saved input once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import attrs
from astra_sim import InputError
from astra_sim.schedule import Collective
from astra_sim.shapes import Attention, Cast, Elementwise, Gemm, GroupedGemm, Kernel

from astra_sim_llm.models import LayerKind, Model
from astra_sim_llm.parallelism import Parallelism

USERBUFFERS_HIDDEN = 0.8
"""Share of a tensor-parallel collective that runs beside its product, chunk by chunk (Transformer Engine's user buffers)."""


@attrs.frozen
class Run:
    """A kernel that a rank runs. `weight`: it makes weight gradients, which a zero-bubble schedule may put off."""

    name: str
    shape: Kernel
    weight: bool = False


@attrs.frozen
class Exchange:
    """A collective over the ranks of an axis (`tp`, `cp`, `ep`, `etp`), of the bytes that each rank puts in.

    It runs beside the next `beside` kernels, which begin with it; what follows them waits for it, too.
    """

    name: str
    axis: str
    collective: Collective
    bytes: int
    beside: int = 0
    weight: bool = False


Step = Run | Exchange


@attrs.frozen
class Work:
    """What a rank works on: tokens of a micro-batch, and the choices that decide which kernels there are."""

    micro_batch: int
    sequence: int
    precision: str = "bf16"
    fp32_gradients: bool = True
    fused_gradients: bool = True
    flash: bool = True
    ulysses: bool = False
    tp_overlap: str = "none"
    training: bool = True
    keys: int | None = None
    expert_skew: float = 1.0
    capacity_factor: float | None = None
    node_copies: int | None = None


def _scaled(size: int, share: float) -> int:
    return max(1, round(size * share))


class Block:
    """The passes of blocks, embedding and head of a model. Raises InputError where the parallel ranks do not divide the model."""

    def __init__(self, model: Model, parallel: Parallelism, work: Work) -> None:
        _check(model, parallel, work)
        self.model, self.parallel, self.work = model, parallel, work
        t = parallel.tensor
        queries = work.sequence // parallel.context
        self.tokens = work.micro_batch * queries
        self.half = "fp16" if work.precision == "fp16" else "bf16"
        self.product = "fp8" if work.precision in ("fp8", "mxfp8") else self.half
        self.heads = model.heads // t
        self.key_heads = max(1, model.key_heads // t)
        self.local = self.tokens // t if parallel.sequence else self.tokens
        self.vocab = -(-model.vocab // t)
        self._queries = queries
        self._known: dict[tuple[str, LayerKind], tuple[Step, ...]] = {}  # passes, which layers and stages share

    # -- a block ---------------------------------------------------------------------------------------------------------

    def forward(self, kind: LayerKind) -> list[Step]:
        """The forward pass."""
        if ("forward", kind) not in self._known:
            self._known["forward", kind] = *self.attention(), *self._feed_forward(kind)
        return list(self._known["forward", kind])

    def backward(self, kind: LayerKind) -> list[Step]:
        """The backward pass, without recomputation."""
        if ("backward", kind) not in self._known:
            self._known["backward", kind] = *self._feed_forward_back(kind), *self._attention_back()
        return list(self._known["backward", kind])

    def recompute(self, kind: LayerKind, how: str) -> list[Step]:
        """What a backward pass computes again first.

        full: the forward pass; full_early_stop: up to the last tensor that is saved, without the last product and what follows; selective:
        the core of attention, unless its kernel does so anyway.
        """
        if how == "full":
            return self.forward(kind)
        if how == "full_early_stop":
            steps = self.forward(kind)
            last = max(place for place, step in enumerate(steps) if step.name in ("fc2", "expert fc2"))
            return steps[:last]
        return list(self._core()) if how == "selective" and not self.work.flash else []

    def attention(self) -> Iterator[Step]:
        """The attention half of a forward pass."""
        m = self.model
        yield self._elements("norm", 4, self.local * m.hidden)
        if m.mla is None:
            yield from self._entry("qkv", (m.heads // self.parallel.tensor + 2 * self.key_heads) * m.head_size, m.hidden)
        else:
            yield from self._latent()
        if not m.learned_positions:
            yield self._elements("rotary", 4, self.tokens * (self.heads + self.key_heads) * m.head_size)
        yield from self._core()
        yield from self._exit("projection", m.hidden, self.heads * m.value_size)
        yield self._residual()

    def _latent(self) -> Iterator[Step]:
        """Queries, keys and values through low ranks; those of the low ranks are not shared by tensor ranks."""
        m, mla = self.model, self.model.mla
        assert mla is not None
        low = mla.query_rank + mla.key_value_rank + mla.rope
        yield from self._product("latent down", self.local, low, m.hidden)
        yield self._elements("latent norm", 4, self.local * low)
        if self.parallel.sequence and self.parallel.tensor > 1:
            yield self._gather(self.tokens * low)
        yield from self._product("query up", self.tokens, self.heads * (mla.nope + mla.rope), mla.query_rank)
        yield from self._product("key value up", self.tokens, self.heads * (mla.nope + mla.value), mla.key_value_rank)

    def _latent_back(self) -> Iterator[Step]:
        m, mla = self.model, self.model.mla
        assert mla is not None
        low = mla.query_rank + mla.key_value_rank + mla.rope
        yield from self._gradients("key value up", self.tokens, self.heads * (mla.nope + mla.value), mla.key_value_rank)
        yield from self._gradients("query up", self.tokens, self.heads * (mla.nope + mla.rope), mla.query_rank)
        if self.parallel.tensor > 1:
            yield self._reduce(self.tokens * low)
        yield self._elements("latent norm", 10, self.local * low)
        yield from self._gradients("latent down", self.local, low, m.hidden)

    def _core(self, backward: bool = False) -> Iterator[Step]:
        """Scores, softmax and values."""
        w, c = self.work, self.parallel.context
        keys = w.keys if w.keys is not None else w.sequence
        if c == 1:
            yield Run("attention", self._attention(self._queries, keys, True, backward))
        elif w.ulysses:
            sizes = (self.heads + 2 * self.key_heads) * self.model.head_size, self.heads * self.model.value_size
            before, after = reversed(sizes) if backward else sizes
            yield self._all_to_all("cp", "heads", self.tokens * before)
            yield Run("attention", self._attention(w.sequence, keys, True, backward, c))
            yield self._all_to_all("cp", "heads", self.tokens * after)
        else:
            yield from self._ring(keys, backward)
        if not w.flash and w.training:
            yield self._elements("transpose", 4, self.tokens * self.heads * self.model.value_size)

    def _ring(self, keys: int, backward: bool) -> Iterator[Step]:
        """Keys and values go round while others are used. Ranks have places of a sequence such that each has as much to do.

        Of the c parts the last comes after the c - 1 exchanges, each beside one of the others; the backward pass exchanges gradients, too.
        """
        c = self.parallel.context
        held = self.tokens * self.key_heads * (self.model.head_size + self.model.value_size) * 2
        seen = max(c, keys // 2)  # half of all, by the causal mask
        if backward:
            yield Exchange("keys", "cp", Collective.REDUCE_SCATTER, held * c, beside=1)
        yield Exchange("keys", "cp", Collective.ALL_GATHER, held, beside=1)
        yield Run("attention", self._attention(self._queries, seen - seen // c, False, backward))
        yield Run("attention", self._attention(self._queries, seen // c, False, backward))

    def _attention(self, queries: int, keys: int, causal: bool, backward: bool, share: int = 1) -> Attention:
        w, m = self.work, self.model
        heads = max(1, self.heads // share)
        return Attention(
            heads=w.micro_batch * heads,
            query_length=queries,
            key_length=keys,
            head_size=m.head_size,
            value_size=m.value_size,
            key_heads=w.micro_batch * (self.key_heads // share if self.key_heads >= share else 1),
            causal=causal and w.flash,
            flash=w.flash,
            backward=backward,
            dropout=m.dropout and w.training,
            element_type=self.half,
        )

    def _attention_back(self) -> Iterator[Step]:
        m = self.model
        yield from self._residual_back()
        yield from self._exit_back("projection", m.hidden, self.heads * m.value_size)
        yield from self._core(backward=True)
        if not m.learned_positions:
            yield self._elements("rotary", 4, self.tokens * (self.heads + self.key_heads) * m.head_size)
        outputs = (self.heads + 2 * self.key_heads) * m.head_size
        if m.mla is None:
            yield from self._entry_back("qkv", outputs, m.hidden)
        else:
            yield from self._latent_back()
        yield self._elements("norm", 10, self.local * m.hidden)
        if m.biases:
            inner = outputs + m.width // self.parallel.tensor
            yield Run("biases", Elementwise(read_bytes=2 * self.tokens * inner + 4 * self.tokens * m.hidden), weight=True)

    # -- the feed-forward half -------------------------------------------------------------------------------------------

    def _feed_forward(self, kind: LayerKind) -> Iterator[Step]:
        m, t = self.model, self.parallel.tensor
        yield self._elements("norm", 4, self.local * m.hidden)
        if kind == "moe":
            yield from self._experts()
        else:
            width = m.width // t
            yield from self._entry("fc1", (m.branches - 1) * width, m.hidden)
            yield self._elements("activation", 2 * m.branches, self.tokens * width)
            yield from self._exit("fc2", m.hidden, width)
        yield self._residual()

    def _feed_forward_back(self, kind: LayerKind) -> Iterator[Step]:
        m, t = self.model, self.parallel.tensor
        yield from self._residual_back()
        if kind == "moe":
            yield from self._experts_back()
        else:
            width = m.width // t
            yield from self._exit_back("fc2", m.hidden, width)
            yield self._elements("activation", 4 * (m.branches - 1) + 2, self.tokens * width)
            yield from self._entry_back("fc1", (m.branches - 1) * width, m.hidden)
        yield self._elements("norm", 10, self.local * m.hidden)

    # -- experts -----------------------------------------------------------------------------------------------------------

    @property
    def _sent(self) -> int:
        """Token copies that a rank sends to experts, with the room that a capacity factor gives them."""
        return _scaled(self.local * self.model.top_k, self.work.capacity_factor or 1.0)

    @property
    def _skew(self) -> float:
        """Load of the busiest expert rank over the mean; a capacity factor drops what is over it."""
        capacity = self.work.capacity_factor
        return self.work.expert_skew if capacity is None else 1.0

    def _expert_rows(self) -> tuple[int, int, int]:
        """Experts of a rank, tokens of each, and the width of a rank's share of an expert."""
        p, m = self.parallel, self.model
        experts = m.experts // p.expert
        rows = self._sent * p.expert_tensor * p.expert / m.experts * self._skew
        return experts, max(1, round(rows)), m.expert_ffn // p.expert_tensor

    def _experts(self) -> Iterator[Step]:
        m = self.model
        experts, rows, width = self._expert_rows()
        yield Run("router", Gemm(m=self.local, n=m.experts, k=m.hidden, element_type="fp32"))
        yield self._elements("top-k", 8, self.local * m.experts)
        yield self._elements("permute", 4, self._sent * m.hidden)
        yield from self._dispatch("dispatch")
        yield from self._shared()
        yield from self._grouped("expert fc1", experts, rows, (m.branches - 1) * width, m.hidden)
        yield self._elements("activation", 2 * m.branches, experts * rows * width)
        yield from self._grouped("expert fc2", experts, rows, m.hidden, width)
        yield from self._combine("combine")
        yield self._elements("unpermute", 4, self._sent * m.hidden)

    def _experts_back(self) -> Iterator[Step]:
        m = self.model
        experts, rows, width = self._expert_rows()
        yield self._elements("unpermute", 4, self._sent * m.hidden)
        yield from self._dispatch("combine")
        yield from self._grouped_gradients("expert fc2", experts, rows, m.hidden, width)
        yield self._elements("activation", 4 * (m.branches - 1) + 2, experts * rows * width)
        yield from self._grouped_gradients("expert fc1", experts, rows, (m.branches - 1) * width, m.hidden)
        yield from self._combine("dispatch")
        yield self._elements("permute", 4, self._sent * m.hidden)
        if m.shared_experts:
            width = m.shared_experts * m.expert_ffn // self.parallel.tensor
            yield from self._exit_back("shared fc2", m.hidden, width)
            yield self._elements("activation", 4 * (m.branches - 1) + 2, self.tokens * width)
            yield from self._entry_back("shared fc1", (m.branches - 1) * width, m.hidden)
        yield Run("router", Gemm(m=self.local, n=m.hidden, k=m.experts, element_type="fp32"))
        yield Run("router", Gemm(m=m.experts, n=m.hidden, k=self.local, element_type="fp32", accumulate_fp32=True), weight=True)

    def _shared(self) -> Iterator[Step]:
        m = self.model
        if m.shared_experts:
            width = m.shared_experts * m.expert_ffn // self.parallel.tensor
            yield from self._entry("shared fc1", (m.branches - 1) * width, m.hidden)
            yield self._elements("activation", 2 * m.branches, self.tokens * width)
            yield from self._exit("shared fc2", m.hidden, width)

    def _dispatch(self, name: str) -> Iterator[Step]:
        """Tokens go to the ranks of their experts, and are gathered where several ranks share an expert."""
        size = _scaled(self._sent * self.model.hidden * 2, self._skew)
        p = self.parallel
        if p.expert > 1:
            if self.work.node_copies is not None and self.work.node_copies < self.model.top_k:
                # A token crosses to a node once, whatever experts it has there, and is copied inside.
                once = _scaled(size, self.work.node_copies / self.model.top_k)
                yield Exchange(f"{name} between nodes", "ep_nodes", Collective.ALL_TO_ALL, once)
                yield Exchange(f"{name} in a node", "ep_node", Collective.ALL_TO_ALL, size)
            else:
                yield Exchange(name, "ep", Collective.ALL_TO_ALL, size)
        if p.expert_tensor > 1:
            yield Exchange(name, "etp", Collective.ALL_GATHER, size)

    def _combine(self, name: str) -> Iterator[Step]:
        """The way back of `_dispatch`."""
        for step in reversed(list(self._dispatch(name))):
            assert isinstance(step, Exchange)
            if step.collective is Collective.ALL_GATHER:
                yield attrs.evolve(step, collective=Collective.REDUCE_SCATTER, bytes=step.bytes * self.parallel.expert_tensor)
            else:
                yield step

    def _grouped(self, name: str, experts: int, rows: int, n: int, k: int) -> Iterator[Step]:
        yield from self._cast(experts * rows * k)
        yield Run(name, GroupedGemm(experts=experts, rows=rows, n=n, k=k, element_type=self.product))

    def _grouped_gradients(self, name: str, experts: int, rows: int, n: int, k: int) -> Iterator[Step]:
        yield from self._cast(experts * rows * n)
        yield Run(name, GroupedGemm(experts=experts, rows=rows, n=k, k=n, element_type=self.product))
        product = GroupedGemm(experts=experts, rows=n, n=k, k=rows, element_type=self.product, accumulate_fp32=self._adds_fp32)
        yield from self._weight_product(name, product, experts * n * k)

    # -- embedding and head ------------------------------------------------------------------------------------------------

    def embedding(self) -> list[Step]:
        """Look up the embeddings of tokens; each tensor rank has those of a part of the vocabulary."""
        steps: list[Step] = [self._elements("embedding", 10, self.tokens * self.model.hidden)]
        return steps + ([self._reduce(self.tokens * self.model.hidden)] if self.parallel.tensor > 1 else [])

    def embedding_back(self) -> list[Step]:
        """The gradients of the embeddings of tokens."""
        gather = self.parallel.tensor > 1 and self.parallel.sequence
        steps: list[Step] = [self._gather(self.tokens * self.model.hidden)] if gather else []
        return [*steps, Run("embedding", Elementwise(read_bytes=10 * self.tokens * self.model.hidden), weight=True)]

    def head(self) -> list[Step]:
        """The last norm, the output layer, and in training the loss, all shared by vocabulary. Inference needs the last token alone."""
        tokens = self.tokens if self.work.training else self.work.micro_batch
        steps: list[Step] = [self._elements("norm", 4, self.local * self.model.hidden)]
        if self.parallel.sequence and self.parallel.tensor > 1:
            steps.append(self._gather(self.tokens * self.model.hidden))
        steps.append(Run("output", Gemm(m=tokens, n=self.vocab, k=self.model.hidden, element_type=self.half)))
        if self.work.training:
            steps.append(self._elements("loss", 40, tokens * self.vocab))
            if self.parallel.tensor > 1:  # of the largest logit, and of the sum of exponentials
                steps += [Exchange("loss", "tp", Collective.ALL_REDUCE, 4 * tokens)] * 2
        return steps

    def head_back(self) -> list[Step]:
        """The gradients of the loss, the output layer and the last norm."""
        m = self.model
        steps: list[Step] = [self._elements("loss", 14, self.tokens * self.vocab)]
        gradients = list(self._gradients("output", self.tokens, self.vocab, m.hidden, self.half))
        if self.parallel.tensor > 1:
            gradients[1:1] = [self._reduce(self.tokens * m.hidden)]
        return [*steps, *gradients, self._elements("norm", 10, self.local * m.hidden)]

    def predictor(self) -> list[Step]:
        """What a block of multi-token prediction has beside a block: norms, and a product of two states joined (arXiv 2412.19437)."""
        m = self.model
        return [self._elements("norm", 8, self.local * m.hidden), *self._product("mtp projection", *self._joined_states)]

    def predictor_back(self) -> list[Step]:
        """The gradients of `predictor`."""
        m = self.model
        return [*self._gradients("mtp projection", *self._joined_states), self._elements("norm", 20, self.local * m.hidden)]

    @property
    def _joined_states(self) -> tuple[int, int, int]:
        """The product of two states joined, (m, n, k): tensor ranks share its tokens, or its columns where each has all tokens."""
        hidden = self.model.hidden
        return self.local, hidden if self.parallel.sequence else -(-hidden // self.parallel.tensor), 2 * hidden

    # -- products and their collectives ------------------------------------------------------------------------------------

    def _entry(self, name: str, n: int, k: int) -> Iterator[Step]:
        """A product whose outputs are shared by tensor ranks; with sequence parallelism its input is gathered first."""
        if self.parallel.sequence and self.parallel.tensor > 1:
            yield from self._beside(self._gather(self.tokens * k), before=True)
        yield from self._product(name, self.tokens, n, k)

    def _exit(self, name: str, n: int, k: int) -> Iterator[Step]:
        """A product whose inputs are shared by tensor ranks, which add their outputs."""
        if self.parallel.tensor == 1:
            yield from self._product(name, self.tokens, n, k)
            return
        first, *rest = self._beside(self._reduce(self.tokens * n), before=False)
        if rest:
            yield from (*self._cast(self.tokens * k), first, self._gemm(name, self.tokens, n, k), *rest)
        else:
            yield from (*self._product(name, self.tokens, n, k), first)

    def _entry_back(self, name: str, n: int, k: int) -> Iterator[Step]:
        """The gradients of `_entry`: that of the input is added over tensor ranks; for the weights the input is gathered again."""
        cast = list(self._cast(self.tokens * n))
        weights = list(self._weight_gradient(name, self.tokens, n, k))
        inputs = self._gemm(name, self.tokens, k, n)
        if self.parallel.tensor == 1:
            yield from (*cast, inputs, *weights)
            return
        early = self.work.tp_overlap != "none"
        gather = [attrs.evolve(self._gather(self.tokens * k), weight=not early, beside=int(early))] if self.parallel.sequence else []
        reduce = attrs.evolve(self._reduce(self.tokens * k), beside=int(self.work.tp_overlap in ("backward", "userbuffers")))
        if early:
            yield from (*cast, *gather, inputs, reduce, *weights)
        else:
            yield from (*cast, inputs, reduce, *gather, *weights)

    def _exit_back(self, name: str, n: int, k: int) -> Iterator[Step]:
        """The gradients of `_exit`; with sequence parallelism that of the output is gathered first."""
        if self.parallel.sequence and self.parallel.tensor > 1:
            yield from self._beside(self._gather(self.tokens * n), before=True)
        yield from self._gradients(name, self.tokens, n, k)

    def _beside(self, exchange: Exchange, before: bool) -> list[Step]:
        """A collective of user buffers in the part that is hidden beside the next product, and the other."""
        if self.work.tp_overlap != "userbuffers":
            return [exchange]
        hidden = attrs.evolve(exchange, bytes=_scaled(exchange.bytes, USERBUFFERS_HIDDEN), beside=1)
        shown = attrs.evolve(exchange, bytes=_scaled(exchange.bytes, 1 - USERBUFFERS_HIDDEN))
        return [shown, hidden] if before else [hidden, shown]

    def _gather(self, elements: int) -> Exchange:
        """An all-gather over tensor ranks of so many elements in all."""
        return Exchange("activations", "tp", Collective.ALL_GATHER, 2 * elements // self.parallel.tensor)

    def _reduce(self, elements: int) -> Exchange:
        """The sum over tensor ranks of so many elements, of which each keeps all, or its part with sequence parallelism."""
        collective = Collective.REDUCE_SCATTER if self.parallel.sequence else Collective.ALL_REDUCE
        return Exchange("activations", "tp", collective, 2 * elements)

    def _all_to_all(self, axis: str, name: str, elements: int) -> Exchange:
        return Exchange(name, axis, Collective.ALL_TO_ALL, 2 * elements)

    def _product(self, name: str, m: int, n: int, k: int) -> Iterator[Step]:
        yield from self._cast(m * k)
        yield self._gemm(name, m, n, k)

    def _gemm(self, name: str, m: int, n: int, k: int) -> Run:
        return Run(name, Gemm(m=m, n=n, k=k, element_type=self.product))

    def _gradients(self, name: str, m: int, n: int, k: int, element_type: str | None = None) -> Iterator[Step]:
        """The products for the gradients of the input and of the weights of an (m x k) by (k x n) product."""
        kept = element_type or self.product
        if kept == "fp8":
            yield from self._cast(m * n)
        yield Run(name, Gemm(m=m, n=k, k=n, element_type=kept))
        yield from self._weight_gradient(name, m, n, k, kept)

    def _weight_gradient(self, name: str, m: int, n: int, k: int, element_type: str | None = None) -> Iterator[Step]:
        product = Gemm(m=n, n=k, k=m, element_type=element_type or self.product, accumulate_fp32=self._adds_fp32)
        yield from self._weight_product(name, product, n * k)

    def _weight_product(self, name: str, product: Gemm | GroupedGemm, weights: int) -> Iterator[Step]:
        yield Run(name, product, weight=True)
        if not self.work.fused_gradients:
            yield Run("add gradients", Elementwise(read_bytes=8 * weights, write_bytes=4 * weights), weight=True)

    @property
    def _adds_fp32(self) -> bool:
        return self.work.fp32_gradients and self.work.fused_gradients

    def _cast(self, elements: int) -> Iterator[Step]:
        """FP8: the input of a product is cast before it, in training with a transposed copy for the gradients."""
        if self.product == "fp8":
            yield Run("cast", Cast(elements=elements, from_type=self.half, to_type="fp8", transposed=self.work.training))

    def _residual(self) -> Run:
        """Bias, dropout and residual."""
        dropout = self.model.dropout and self.work.training
        return self._elements("residual", 7 if dropout else 6, self.local * self.model.hidden)

    def _residual_back(self) -> Iterator[Step]:
        """The gradient of dropout, and the sum with that of the residual."""
        yield self._elements("residual", 6 + (5 if self.model.dropout else 0), self.local * self.model.hidden)

    @staticmethod
    def _elements(name: str, bytes_per_element: int, elements: int) -> Run:
        """A kernel that is bound by memory; of its bytes two an element are written."""
        return Run(name, Elementwise(read_bytes=(bytes_per_element - 2) * elements, write_bytes=2 * elements))


def _check(model: Model, parallel: Parallelism, work: Work) -> None:
    """Raise InputError where ranks do not divide what they share."""
    t, c = parallel.tensor, parallel.context
    tokens = work.micro_batch * work.sequence // c
    shared = [
        ("tensor_parallel", t, "heads", model.heads),
        ("tensor_parallel", t, "the feed-forward width", model.width if model.dense_layers or not model.experts else t),
        ("context_parallel", c, "sequence", work.sequence),
        ("expert_parallel", parallel.expert, "experts", model.experts),
        ("expert_tensor_parallel", parallel.expert_tensor, "expert_ffn", model.expert_ffn),
        ("sequence_parallel with tensor_parallel", t if parallel.sequence else 1, "tokens of a micro-batch", tokens),
    ]  # fmt: skip
    for name, ranks, what, size in shared:
        if size % ranks:
            raise InputError(f"{name} is {ranks}; expected a divisor of {what}, which is {size}")
    if model.key_heads % t and t % model.key_heads:
        raise InputError(f"tensor_parallel is {t}; expected a divisor or a multiple of kv_heads, which is {model.key_heads}")
    if parallel.expert > 1 and not model.experts:
        raise InputError(f"expert_parallel is {parallel.expert}, and the model has no experts; expected 1")
    if model.experts and t > 1 and not parallel.sequence:
        raise InputError(f"sequence_parallel is false; a mixture of experts needs it with tensor_parallel, which is {t}")
    if c > 1 and not work.flash:
        raise InputError(f"attention is unfused; expected flash with context_parallel, which is {c}")
    if c > 1 and work.ulysses and (model.heads // t) % c:
        raise InputError(
            f"context is ulysses and context_parallel {c}; expected a divisor of the heads of a rank, which are {model.heads // t}"
        )


def weight_steps(steps: list[Step]) -> tuple[list[Step], list[Step]]:
    """A backward pass as two: what makes input gradients, and what makes weight gradients, which may come later."""
    return [step for step in steps if not step.weight], [step for step in steps if step.weight]


def join(*parts: list[Step]) -> list[Step]:
    """Steps one after another."""
    return list(chain.from_iterable(parts))
