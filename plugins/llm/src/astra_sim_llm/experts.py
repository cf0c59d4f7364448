"""The feed-forward half of a block with experts: router, exchanges of tokens, and the products of experts."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from astra_sim.schedule import Collective
from astra_sim.shapes import Gemm, GroupedGemm

from astra_sim_llm.products import Products, scaled
from astra_sim_llm.steps import Exchange, Run, Step


class Experts:
    """The kernels and exchanges of a mixture of experts."""

    def __init__(self, products: Products) -> None:
        self._products = products

    def forward(self) -> Iterator[Step]:
        """The forward pass."""
        m = self._products.model
        experts, rows, width = self._rows()
        yield Run("router", Gemm(m=self._products.local, n=m.experts, k=m.hidden, element_type="fp32"))
        yield self._products.elements("top-k", 8, self._products.local * m.experts)
        yield self._products.elements("permute", 4, self._sent * m.hidden)
        yield from self._dispatch("dispatch")
        yield from self._shared()
        yield from self._grouped("expert fc1", experts, rows, (m.branches - 1) * width, m.hidden)
        yield self._products.elements("activation", 2 * m.branches, experts * rows * width)
        yield from self._grouped("expert fc2", experts, rows, m.hidden, width)
        yield from self._combine("combine")
        yield self._products.elements("unpermute", 4, self._sent * m.hidden)

    def backward(self) -> Iterator[Step]:
        """The gradients of `forward`."""
        m = self._products.model
        experts, rows, width = self._rows()
        yield self._products.elements("unpermute", 4, self._sent * m.hidden)
        yield from self._dispatch("combine")
        yield from self._grouped_gradients("expert fc2", experts, rows, m.hidden, width)
        yield self._products.elements("activation", 4 * (m.branches - 1) + 2, experts * rows * width)
        yield from self._grouped_gradients("expert fc1", experts, rows, (m.branches - 1) * width, m.hidden)
        yield from self._combine("dispatch")
        yield self._products.elements("permute", 4, self._sent * m.hidden)
        if m.shared_experts:
            width = m.shared_experts * m.expert_ffn // self._products.parallel.tensor
            yield from self._products.leave_back("shared fc2", m.hidden, width)
            yield self._products.elements("activation", 4 * (m.branches - 1) + 2, self._products.tokens * width)
            yield from self._products.enter_back("shared fc1", (m.branches - 1) * width, m.hidden)
        yield Run("router", Gemm(m=self._products.local, n=m.hidden, k=m.experts, element_type="fp32"))
        yield Run("router", Gemm(m=m.experts, n=m.hidden, k=self._products.local, element_type="fp32", accumulate_fp32=True), weight=True)

    @property
    def _sent(self) -> int:
        """Token copies that a rank sends to experts, with the room that a capacity factor gives them."""
        return scaled(self._products.local * self._products.model.top_k, self._products.work.capacity_factor or 1.0)

    @property
    def _skew(self) -> float:
        """Load of the busiest expert rank over the mean; a capacity factor drops what is over it."""
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
        """Tokens go to the ranks of their experts, and are gathered where several ranks share an expert."""
        size = scaled(self._sent * self._products.model.hidden * 2, self._skew)
        p = self._products.parallel
        if p.expert > 1:
            if self._products.work.node_copies is not None and self._products.work.node_copies < self._products.model.top_k:
                # A token crosses to a node once, whatever experts it has there, and is copied inside.
                once = scaled(size, self._products.work.node_copies / self._products.model.top_k)
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
                yield attrs.evolve(step, collective=Collective.REDUCE_SCATTER, bytes=step.bytes * self._products.parallel.expert_tensor)
            else:
                yield step

    def _grouped(self, name: str, experts: int, rows: int, n: int, k: int) -> Iterator[Step]:
        yield from self._products.cast(experts * rows * k)
        yield Run(name, GroupedGemm(experts=experts, rows=rows, n=n, k=k, element_type=self._products.element_type))

    def _grouped_gradients(self, name: str, experts: int, rows: int, n: int, k: int) -> Iterator[Step]:
        yield from self._products.cast(experts * rows * n)
        yield Run(name, GroupedGemm(experts=experts, rows=rows, n=k, k=n, element_type=self._products.element_type))
        product = GroupedGemm(
            experts=experts, rows=n, n=k, k=rows, element_type=self._products.element_type, accumulate_fp32=self._products.adds_fp32
        )
        yield from self._products.weight_product(name, product, experts * n * k)
