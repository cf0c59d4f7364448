"""Products of matrices on a rank, the exchanges that they need, and kernels beside them.

Sizes follow from the products: with T tokens of a micro-batch on a rank, products are (T x K) times (K x N). A backward pass has for each
an input-gradient product (N and K swapped) and a weight-gradient product (N x K x T), which adds to fp32 gradients in memory. Bytes of
other kernels are counted by element: read and written once, in 16 bits, with masks of a byte (as in arXiv 2205.05198, appendix A).

Tensor parallelism (arXiv 1909.08053) has an all-reduce after each half of a block and of its gradient; with sequence parallelism (arXiv
2205.05198) they are an all-gather before and a reduce-scatter after, and the backward pass gathers the saved input once more.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from astra_sim.schedule import Collective
from astra_sim.shapes import Cast, Elementwise, Gemm, GroupedGemm

from astra_sim_llm.adapters import NO_ADAPTER, AdapterKernels, adapter_kernels
from astra_sim_llm.models import Model
from astra_sim_llm.options import CAST_TO, Lora
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.steps import LlmExchange, LlmRun, Step

USERBUFFERS_HIDDEN = 0.8
"""Share of a tensor-parallel collective that runs beside its product, chunk by chunk (Transformer Engine's user buffers)."""

CAST_LAUNCHES = {"fp8": 3, "mxfp8": 2, "nvfp4": 3}
"""Kernels of a cast (Transformer Engine): the greatest value, its scale, the cast; or, with a scale for each 32 values, the cast, and
the scales put in the order of the product. NVFP4 has a scale for each 16 values and one for all: the greatest value comes first."""


@attrs.frozen
class Dispatch:
    """How tokens reach experts: to what a token is sent once (option `dispatch`), the nodes over which experts are shared, the most of them
    to which a token goes, and the groups of experts, of how many of which it has its own.
    """

    once: str = "experts"
    nodes: int = 1
    node_limit: int | None = None
    groups: tuple[int, int] = (1, 1)


@attrs.frozen
class ProductWork:
    """The work of a rank: tokens of a micro-batch, and the choices that decide which kernels there are."""

    micro_batch: int
    sequence: int
    precision: str = "bf16"
    fp32_gradients: bool = True
    fused_gradients: bool = True
    saved_inputs: str = "shards"
    flash: bool = True
    fp8_attention: bool = False
    ulysses: bool = False
    tp_overlap: str = "none"
    training: bool = True
    keys: int | None = None
    expert_skew: float = 1.0
    capacity_factor: float | None = None
    dispatch: Dispatch = Dispatch()
    recompute_modules: tuple[str, ...] = ()
    fused_experts: bool = False
    fused_loss: bool = False
    cuda_graphs: str = "none"
    lora: Lora | None = None


def scaled(size: int, share: float) -> int:
    """A share of a size, at least 1."""
    return max(1, round(size * share))


class Products:
    """The products of a model on a rank, with derived sizes: tokens, heads and vocabulary of the rank.

    `local` are the tokens between products, which sequence parallelism shares; `half` is the 16-bit type, `element_type` that
    of the inputs of products.
    """

    def __init__(self, model: Model, parallel: Parallelism, work: ProductWork) -> None:
        self.model, self.parallel, self.work = model, parallel, work
        self.queries = work.sequence // parallel.context
        self.tokens = work.micro_batch * self.queries
        self.half = "fp16" if work.precision == "fp16" else "bf16"
        self.element_type = CAST_TO.get(work.precision, self.half)
        self.heads = model.heads // parallel.tensor
        # Of 4 key heads on 8 ranks each rank has one, which another has, too.
        self.key_heads = max(1, model.key_heads // parallel.tensor)
        self.local = self.tokens // parallel.tensor if parallel.sequence else self.tokens
        self.vocab = -(-model.vocab // parallel.tensor)

    def enter(self, name: str, n: int, k: int) -> Iterator[Step]:
        """A product whose outputs are shared by tensor ranks; with sequence parallelism its input is gathered first."""
        if self.parallel.sequence and self.parallel.tensor > 1:
            yield from self._beside(self.gather(self.tokens * k), before=True)
        adapter = self._adapter(name, n, k)
        yield from (*self.multiply(name, self.tokens, n, k), *adapter.down, *adapter.up)

    def leave(self, name: str, n: int, k: int) -> Iterator[Step]:
        """A product whose inputs are shared by tensor ranks, which add their outputs."""
        adapter = self._adapter(name, n, k)
        yield from adapter.down
        if self.parallel.tensor == 1:
            yield from (*self.multiply(name, self.tokens, n, k), *adapter.up)
            return
        first, *rest = self._beside(self.reduce(self.tokens * n), before=False)
        if rest:
            beside = attrs.evolve(first, overlapped_with=1 + len(adapter.up))
            yield from (*self.cast(self.tokens * k), beside, self._gemm(name, self.tokens, n, k), *adapter.up, *rest)
        else:
            yield from (*self.multiply(name, self.tokens, n, k), *adapter.up, first)

    def enter_back(self, name: str, n: int, k: int) -> Iterator[Step]:
        """The gradients of `enter`: that of the input is added over tensor ranks; for the weights kept shards of the input are gathered."""
        cast = list(self.cast(self.tokens * n))
        adapter = self._adapter(name, n, k)
        weights = [*self._weight_gradient(name, self.tokens, n, k), *self._adapter_gradients(adapter)]
        inputs = [self._gemm(name, self.tokens, k, n), *adapter.inputs]
        if self.parallel.tensor == 1:
            yield from (*cast, *inputs, *weights)
            return
        early = self.work.tp_overlap != "none"
        gather = (
            # Weight gradients alone need the gathered input: unless it runs beside the other product, a schedule may put it off with them.
            [attrs.evolve(self.gather(self.tokens * k), weight=not early, overlapped_with=int(early))]
            if self.parallel.sequence and weights and self.work.saved_inputs == "shards"
            else []
        )
        beside = len(weights) if self.frozen else 1
        overlaps = self.work.tp_overlap in ("backward", "userbuffers")
        reduce = attrs.evolve(self.reduce(self.tokens * k), overlapped_with=beside if overlaps else 0)
        # Megatron-LM gathers the saved input while the gradient of the input is calculated (arXiv 2205.05198).
        if early:
            yield from (*cast, *gather, *inputs, reduce, *weights)
        else:
            yield from (*cast, *inputs, reduce, *gather, *weights)

    def leave_back(self, name: str, n: int, k: int) -> Iterator[Step]:
        """The gradients of `leave`; with sequence parallelism that of the output is gathered first."""
        if self.parallel.sequence and self.parallel.tensor > 1:
            yield from self._beside(self.gather(self.tokens * n), before=True)
        adapter = self._adapter(name, n, k)
        yield from (*self.gradients(name, self.tokens, n, k), *adapter.inputs, *self._adapter_gradients(adapter))

    def _adapter(self, name: str, n: int, k: int) -> AdapterKernels:
        """The kernels of the adapter of an (n x k) product; none if it has no adapter."""
        lora = self.work.lora
        if lora is None or name not in lora.targets:
            return NO_ADAPTER
        return adapter_kernels(name, self.tokens, n, k, lora.rank, self.half, self.adds_fp32)

    def _adapter_gradients(self, adapter: AdapterKernels) -> Iterator[Step]:
        for product in adapter.weights:
            assert isinstance(product.shape, Gemm)
            yield from self._accumulated(product, product.shape.m * product.shape.n)

    def _beside(self, exchange: LlmExchange, before: bool) -> list[LlmExchange]:
        """A collective of user buffers in the part that is hidden beside the next product, and the other."""
        if self.work.tp_overlap != "userbuffers":
            return [exchange]
        hidden = attrs.evolve(exchange, bytes=scaled(exchange.bytes, USERBUFFERS_HIDDEN), overlapped_with=1)
        shown = attrs.evolve(exchange, bytes=scaled(exchange.bytes, 1 - USERBUFFERS_HIDDEN))
        # A product can begin when the first chunk is there; of a sum, the last chunk is left when the product has ended.
        return [shown, hidden] if before else [hidden, shown]

    def gather(self, elements: int) -> LlmExchange:
        """An all-gather over tensor ranks of `elements` elements in all."""
        return LlmExchange("activations", "tp", Collective.ALL_GATHER, 2 * elements // self.parallel.tensor)

    def reduce(self, elements: int) -> LlmExchange:
        """The sum over tensor ranks of `elements` elements, of which each keeps all, or its part with sequence parallelism."""
        collective = Collective.REDUCE_SCATTER if self.parallel.sequence else Collective.ALL_REDUCE
        return LlmExchange("activations", "tp", collective, 2 * elements)

    def all_to_all(self, axis: str, name: str, elements: int) -> LlmExchange:
        """An exchange of as many elements that each rank of an axis has for all of them."""
        return LlmExchange(name, axis, Collective.ALL_TO_ALL, 2 * elements)

    def multiply(self, name: str, m: int, n: int, k: int, batch: int = 1) -> Iterator[Step]:
        """An (m x k) by (k x n) product, or a batch of them, with the cast of its input."""
        yield from self.cast(batch * m * k)
        yield self._gemm(name, m, n, k, batch)

    def _gemm(self, name: str, m: int, n: int, k: int, batch: int = 1) -> LlmRun:
        return LlmRun(name, Gemm(m=m, n=n, k=k, batch=batch, element_type=self.element_type))

    def gradients(self, name: str, m: int, n: int, k: int, element_type: str | None = None) -> Iterator[Step]:
        """The products for the gradients of the input and of the weights of an (m x k) by (k x n) product."""
        result = element_type or self.element_type
        if result in CAST_TO.values():
            yield from self.cast(m * n)
        yield LlmRun(name, Gemm(m=m, n=k, k=n, element_type=result))
        yield from self._weight_gradient(name, m, n, k, result)

    def _weight_gradient(self, name: str, m: int, n: int, k: int, element_type: str | None = None) -> Iterator[Step]:
        product = Gemm(m=n, n=k, k=m, element_type=element_type or self.element_type, accumulate_fp32=self.adds_fp32)
        yield from self.weight_product(name, product, n * k)

    def weight_product(self, name: str, product: Gemm | GroupedGemm, weights: int) -> Iterator[Step]:
        """A product that makes the gradients of weights, and their accumulation if it is not fused; nothing if they are frozen."""
        if not self.frozen:
            launches = product.experts if isinstance(product, GroupedGemm) else 1
            yield from self._accumulated(LlmRun(name, product, weight=True, launches=launches), weights)

    def _accumulated(self, product: LlmRun, weights: int) -> Iterator[Step]:
        yield product
        # As DeepSpeed in bf16: a kernel adds them, at 12 bytes a weight; of 16 bits, 6.
        if not self.work.fused_gradients:
            size = 4 if self.work.fp32_gradients else 2
            yield LlmRun("add gradients", Elementwise(read_bytes=2 * size * weights, write_bytes=size * weights), weight=True)

    @property
    def frozen(self) -> bool:
        """Whether adapters alone are trained."""
        return self.work.lora is not None

    @property
    def adds_fp32(self) -> bool:
        """Whether products add to fp32 gradients in memory."""
        return self.work.fp32_gradients and self.work.fused_gradients

    def cast(self, elements: int, batch: int = 1) -> Iterator[Step]:
        """FP8 and NVFP4: the input of a product is cast before it, in training with a transposed copy for the weight gradients."""
        if self.element_type != self.half:
            transposed = self.work.training and not self.frozen
            shape = Cast(elements=elements, batch=batch, from_type=self.half, to_type=self.element_type, transposed=transposed)
            yield LlmRun("cast", shape, launches=batch * CAST_LAUNCHES[self.work.precision])

    def norm(self) -> LlmRun:
        """A norm of the states between two halves of blocks."""
        return self.elements("norm", 4, self.local * self.model.hidden)

    def residual(self) -> LlmRun:
        """Bias, dropout and residual."""
        dropout = self.model.dropout and self.work.training
        return self.elements("residual", 7 if dropout else 6, self.local * self.model.hidden)

    def residual_back(self) -> Iterator[Step]:
        """The gradient of dropout, and the sum with that of the residual."""
        yield self.elements("residual", 6 + (5 if self.model.dropout else 0), self.local * self.model.hidden)

    @staticmethod
    def elements(name: str, bytes_per_element: int, elements: int) -> LlmRun:
        """A kernel that is bound by memory; of its bytes two an element are written."""
        return LlmRun(name, Elementwise(read_bytes=(bytes_per_element - 2) * elements, write_bytes=2 * elements))
