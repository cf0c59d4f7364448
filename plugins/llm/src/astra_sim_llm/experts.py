"""The feed-forward half of a block with experts: router, exchanges of tokens, and the products of experts."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator

import attrs
from astra_sim.schedule import Collective
from astra_sim.shapes import Elementwise, Gemm, GroupedGemm

from astra_sim_llm.products import Products, scaled
from astra_sim_llm.steps import LlmExchange, LlmRun, Step, in_graph


@functools.cache
def spread(experts: int, top_k: int, parts: int, groups: int = 1, chosen: int = 1) -> float:
    """Of some equal parts of all experts, how many have an expert of a token, in expectation.

    The token has `top_k` experts of any that are in `chosen` of some groups, so without groups it is N (1 - C(E - E/N, K) / C(E, K)).
    """
    of_group = experts // groups
    all_ways = math.comb(chosen * of_group, top_k) * math.comb(groups, chosen)
    result = 0.0
    for part in range(parts):
        first, end = part * experts // parts, (part + 1) * experts // parts
        there = [max(0, min(end, (group + 1) * of_group) - max(first, group * of_group)) for group in range(groups)]
        none = sum(math.comb(chosen * of_group - sum(each), top_k) for each in itertools.combinations(there, chosen))
        result += 1 - none / all_ways
    return result


class Experts:
    """The kernels and exchanges of a mixture of experts."""

    def __init__(self, products: Products) -> None:
        self._products = products

    def forward(self) -> Iterator[Step]:
        """The forward pass."""
        m = self._products.model
        experts, rows, width = self._rows()
        yield from self._in_graph(self._router())
        yield self._products.elements("permute", 4, self._sent * m.hidden)
        yield from self._dispatch("dispatch")
        yield from self._sorted()
        yield from self._shared()
        yield from self._grouped("expert fc1", experts, rows, (m.branches - 1) * width, m.hidden)
        fused = self._products.work.fused_experts
        yield from self.activation()
        yield from self._grouped("expert fc2", experts, rows, m.hidden, width, cast=not fused)
        yield from self._bias(experts, experts * rows * m.hidden)
        yield from self._sorted()
        yield from self._combine("combine")
        yield self._products.elements("unpermute", 4, self._sent * m.hidden)
        # In decoding all tensor ranks have the token of a sequence: each has sent a share of them.
        if self._products.parallel.tensor > 1 and not self._products.parallel.sequence:
            yield self._products.gather(self._products.parallel.tensor * self._tokens * m.hidden)

    def activation(self) -> Iterator[Step]:
        """The activation between the products of experts, unless it is part of the first."""
        m = self._products.model
        experts, rows, width = self._rows()
        if not self._products.work.fused_experts:
            yield self._products.elements("activation", 2 * m.branches, experts * rows * width)

    def backward(self) -> Iterator[Step]:
        """The gradients of `forward`."""
        m = self._products.model
        experts, rows, width = self._rows()
        yield self._products.elements("unpermute", 4, self._sent * m.hidden)
        # Gradients of outputs go where the tokens went, and those of inputs come back.
        yield from self._dispatch("combine")
        yield from self._sorted()
        yield from self._bias_back(experts, experts * rows * m.hidden)
        yield from self._grouped_gradients("expert fc2", experts, rows, m.hidden, width)
        fused = self._products.work.fused_experts
        if not fused:
            yield self._products.elements("activation", 4 * (m.branches - 1) + 2, experts * rows * width)
        yield from self._grouped_gradients("expert fc1", experts, rows, (m.branches - 1) * width, m.hidden, cast=not fused)
        yield from self._sorted()
        yield from self._combine("dispatch")
        yield self._products.elements("permute", 4, self._sent * m.hidden)
        if m.shared_experts:
            width = m.shared_experts * m.expert_ffn // self._products.parallel.tensor
            yield from self._products.leave_back("shared fc2", m.hidden, width)
            yield self._products.elements("activation", 4 * (m.branches - 1) + 2, self._products.tokens * width)
            yield from self._products.enter_back("shared fc1", (m.branches - 1) * width, m.hidden)
        yield from self._in_graph(self._router_back())

    def _router(self) -> Iterator[Step]:
        """Scores of experts: a product of 16-bit inputs with fp32 outputs (Megatron-core's RouterGatingLinearFunction), and the best."""
        m, tokens = self._products.model, self._tokens
        yield LlmRun("router", Gemm(m=tokens, n=m.experts, k=m.hidden, element_type=self._products.half))
        # The host waits for the numbers of tokens of each expert, unless a graph has room for any of them.
        yield attrs.evolve(self._products.elements("top-k", 8, tokens * m.experts), awaited=True)

    def _router_back(self) -> Iterator[Step]:
        """Its gradients, which are made in fp32: inputs are cast before, and their gradients after."""
        m, tokens, half = self._products.model, self._tokens, self._products.half
        inputs = tokens * m.hidden
        yield LlmRun("router", Gemm(m=tokens, n=m.hidden, k=m.experts, element_type=half, accumulate_fp32=True))
        yield LlmRun("router cast", Elementwise(read_bytes=4 * inputs, write_bytes=2 * inputs))
        if not self._products.frozen:
            yield LlmRun("router cast", Elementwise(read_bytes=2 * inputs, write_bytes=4 * inputs), weight=True)
            yield LlmRun("router", Gemm(m=m.experts, n=m.hidden, k=tokens, element_type=half, accumulate_fp32=True), weight=True)

    def _in_graph(self, router: Iterator[Step]) -> Iterator[Step]:
        return router if self._products.work.cuda_graphs == "none" else in_graph(router)

    @property
    def _tokens(self) -> int:
        """Tokens that a rank sends to experts: its own with sequence parallelism, else a share of those that tensor ranks all have."""
        p = self._products
        return p.local if p.parallel.sequence else -(-p.tokens // p.parallel.tensor)

    @property
    def _sent(self) -> int:
        """Token copies that a rank sends to experts, with the room that a capacity factor gives them."""
        return scaled(self._tokens * self._products.model.top_k, self._products.work.capacity_factor or 1.0)

    def _spread(self, parts: int) -> float:
        """Parts of all experts among which those of a token are, in expectation."""
        m = self._products.model
        return spread(m.experts, m.top_k, parts, *self._products.work.dispatch.groups)

    @property
    def _node_copies(self) -> float | None:
        """Nodes to which a token is sent once each; None if they do not matter."""
        dispatch, limit = self._products.work.dispatch, self._products.work.dispatch.node_limit
        if limit is not None and limit >= self._products.model.top_k:
            limit = None
        if dispatch.once != "nodes" or dispatch.nodes == 1:
            return limit
        return min(self._spread(dispatch.nodes), limit or math.inf)

    @property
    def _skew(self) -> float:
        """Load of the busiest expert rank over the mean; a capacity factor drops tokens over it."""
        capacity = self._products.work.capacity_factor
        return self._products.work.expert_skew if capacity is None else 1.0

    def _rows(self) -> tuple[int, int, int]:
        """Experts of a rank, tokens of each, and the width of a rank's share of an expert."""
        p, m = self._products.parallel, self._products.model
        experts = m.experts // p.expert
        rows = self._sent * p.expert_tensor * p.expert / m.experts * self._skew
        return experts, max(1, round(rows)), m.expert_ffn // p.expert_tensor

    def _shared(self) -> Iterator[Step]:
        m = self._products.model
        if m.shared_experts:
            width = m.shared_experts * m.expert_ffn // self._products.parallel.tensor
            yield from self._products.enter("shared fc1", (m.branches - 1) * width, m.hidden)
            yield self._products.elements("activation", 2 * m.branches, self._products.tokens * width)
            yield from self._products.leave("shared fc2", m.hidden, width)

    def _dispatch(self, name: str) -> Iterator[Step]:
        """Tokens go to the ranks of their experts, and are gathered if several ranks share an expert."""
        # The busiest rank receives the most, and all others wait for it.
        size = scaled(self._sent * self._products.model.hidden * 2, self._skew)
        p = self._products.parallel
        if p.expert > 1:
            sent = (
                size
                if self._products.work.dispatch.once == "experts"
                else scaled(size, self._spread(p.expert) / self._products.model.top_k)
            )
            copies = self._node_copies
            if copies is not None:
                # A token crosses to a node once, whatever experts it has there, and is copied inside.
                once = scaled(size, copies / self._products.model.top_k)
                yield LlmExchange(f"{name} between nodes", "ep_nodes", Collective.ALL_TO_ALL, once)
                yield LlmExchange(f"{name} in a node", "ep_node", Collective.ALL_TO_ALL, sent)
            else:
                yield LlmExchange(name, "ep", Collective.ALL_TO_ALL, sent)
        if p.expert_tensor > 1:
            yield LlmExchange(name, "etp", Collective.ALL_GATHER, size)

    def _combine(self, name: str) -> Iterator[Step]:
        """The way back of `_dispatch`."""
        for step in reversed(list(self._dispatch(name))):
            assert isinstance(step, LlmExchange)
            if step.collective is Collective.ALL_GATHER:
                # An all-gather counts the part of a rank, a reduce-scatter the whole.
                yield attrs.evolve(step, collective=Collective.REDUCE_SCATTER, bytes=step.bytes * self._products.parallel.expert_tensor)
            else:
                yield step

    def _sorted(self) -> Iterator[Step]:
        """The copies of a plain all-to-all, which come or go by rank, in the order of the experts of this rank (Megatron-core)."""
        m, p = self._products.model, self._products.parallel
        if self._products.work.dispatch.once == "experts" and p.expert > 1 and m.experts > p.expert:
            yield self._products.elements("sort", 4, self._sent * m.hidden)

    def _bias(self, experts: int, elements: int) -> Iterator[Step]:
        """The biases of second products, times the weights of tokens (Megatron-core, `TEGroupedMLP._apply_bias`).

        For each expert a kernel multiplies and one adds; then parts are joined. DeepEP and HybridEP have weights in fp32, so that all but
        the products is in fp32, and is cast in the end.
        """
        if not self._products.model.expert_biases or self._products.work.fused_experts:
            return
        read, write, launches = (6, 6, 1) if self._products.work.dispatch.once == "experts" else (14, 14, 2)
        yield LlmRun("expert bias", Elementwise(read_bytes=read * elements, write_bytes=write * elements), launches=2 * experts + launches)

    def _bias_back(self, experts: int, elements: int) -> Iterator[Step]:
        """The gradients of `_bias`: of the sum, whose parts are joined, and for each expert of the bias and of the weights, which are two
        products and two sums.
        """
        if not self._products.model.expert_biases or self._products.work.fused_experts:
            return
        read, write, launches = (10, 6, 1) if self._products.work.dispatch.once == "experts" else (24, 16, 2 + experts)
        yield LlmRun("expert bias", Elementwise(read_bytes=read * elements, write_bytes=write * elements), launches=4 * experts + launches)

    def _grouped(self, name: str, experts: int, rows: int, n: int, k: int, cast: bool = True) -> Iterator[Step]:
        """A product of each expert, which the host launches one by one, with the cast of its input."""
        if cast:
            yield from self._cast(experts, rows * k)
        yield self._grouped_product(name, experts, rows, n, k)

    def _grouped_gradients(self, name: str, experts: int, rows: int, n: int, k: int, cast: bool = True) -> Iterator[Step]:
        if cast:
            yield from self._cast(experts, rows * n)
        yield self._grouped_product(name, experts, rows, k, n)
        product = GroupedGemm(
            experts=experts, rows=n, n=k, k=rows, element_type=self._products.element_type, accumulate_fp32=self._products.adds_fp32
        )
        yield from self._products.weight_product(name, product, experts * n * k)

    def _cast(self, experts: int, elements: int) -> Iterator[Step]:
        """The cast of the elements of each expert: by a kernel each, or one for all if kernels of experts are fused."""
        fused = self._products.work.fused_experts
        return self._products.cast(experts * elements if fused else elements, 1 if fused else experts)

    def _grouped_product(self, name: str, experts: int, rows: int, n: int, k: int) -> LlmRun:
        shape = GroupedGemm(experts=experts, rows=rows, n=n, k=k, element_type=self._products.element_type)
        return LlmRun(name, shape, launches=experts)
