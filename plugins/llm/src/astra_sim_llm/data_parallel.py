"""Data parallelism: which exchanges of weights and gradients run beside the passes of a stage.

A pass comes in parts, each with the layer to which it belongs (-1: none). Sources: ZeRO (arXiv 1910.02054), FSDP (arXiv 2304.11277);
buckets are those of Megatron-core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_sim.schedule import Collective

from astra_sim_llm.iteration import Iteration
from astra_sim_llm.steps import Exchange, Run, Step, join
from astra_sim_llm.templates import FREE

BUCKET = 40_000_000
"""Parameters of which gradients are reduced together, at least; or a million for each replica (Megatron-core)."""


class DataParallel:
    """The exchanges of an iteration's data parallelism."""

    def __init__(self, iteration: Iteration) -> None:
        self._iteration = iteration

    def gathered(self, layer: int) -> list[tuple[str, int]]:
        """The axes over which the 16-bit weights of a layer are gathered, with the bytes that each rank has."""
        experts, others = self._iteration.layer_parameters(layer)
        return [("edp", 2 * experts // self._iteration.parallel.expert_shards), ("dp", 2 * others // self._iteration.parallel.shards)]

    def _gathers(self, layer: int, beside: int) -> list[Step]:
        return [Exchange("parameters", axis, Collective.ALL_GATHER, size, beside) for axis, size in self.gathered(layer) if size]

    def _reduces(self, layer: int, beside: int) -> list[Step]:
        """The reduction of a layer's gradients over its replicas."""
        return self.reductions(*self._iteration.layer_parameters(layer), beside)

    def reductions(self, experts: int, others: int, beside: int) -> list[Step]:
        """The reduction of the gradients of so many parameters, of experts and others, over their replicas."""
        it = self._iteration
        scatters = it.parallel.zero and not it.reduces_to_all
        collective = Collective.REDUCE_SCATTER if scatters else Collective.ALL_REDUCE
        whole = "all_" if it.reduces_to_all else ""
        return [
            Exchange("gradients", axis, collective, size * it.gradient_bytes, beside)
            for axis, size in ((f"{whole}edp", experts), (f"{whole}dp", others))
            if size
        ]

    def _buckets(self, layers: Sequence[int]) -> list[list[int]]:
        """Layers whose gradients are reduced together, in the order given."""
        least = max(BUCKET, 1_000_000 * self._iteration.parallel.data)
        buckets: list[list[int]] = []
        size = least
        for layer in layers:
            if size >= least:
                buckets.append([])
                size = 0
            buckets[-1].append(layer)
            size += sum(self._iteration.layer_parameters(layer))
        return buckets

    def with_reduction(self, parts: Sequence[tuple[list[Step], int]]) -> list[Step]:
        """The last backward pass: gradients of a bucket are reduced when all of them are there, beside what follows."""
        last = {bucket[-1]: bucket for bucket in self._buckets([layer for _, layer in parts if layer >= 0])}
        steps: list[Step] = []
        for part, layer in parts:
            steps += part
            if layer in last:
                total = [sum(each) for each in zip(*(self._iteration.layer_parameters(one) for one in last[layer]), strict=True)]
                steps += self.reductions(total[0], total[1], FREE)
        return steps

    def with_gather(self, parts: Sequence[tuple[list[Step], int]]) -> list[Step]:
        """The first forward pass: each bucket of weights is gathered beside what comes before it."""
        first = {bucket[0]: bucket for bucket in self._buckets([layer for _, layer in parts if layer >= 0])}
        gathers: list[Step] = []
        kernels = 0
        for part, layer in parts:
            for axis in ("edp", "dp") if layer in first else ():
                size = sum(size for one in first[layer] for name, size in self.gathered(one) if name == axis)
                gathers.append(Exchange("parameters", axis, Collective.ALL_GATHER, size, kernels))
            kernels += sum(isinstance(step, Run) for step in part)
        return join(gathers, *(part for part, _ in parts))

    @property
    def gathers_ahead(self) -> bool:
        """Whether weights are gathered beside forward passes (ZeRO-1 and 2)."""
        return self._iteration.training and self._iteration.gather_overlap and self._iteration.parallel.zero in (1, 2)

    def sharded(self, parts: Sequence[tuple[list[Step], int]]) -> list[Step]:
        """Weights are gathered layer by layer (ZeRO-3), each beside the layer before it."""
        return self._around(parts, self._gathers, lambda layer, beside: [])

    def sharded_backward(self, parts: Sequence[tuple[list[Step], int]]) -> list[Step]:
        """Weights are gathered again, and gradients reduced and scattered beside the layer that follows. The last layer is still there."""
        kept = next((layer for _, layer in parts if layer >= 0), -1)
        return self._around(parts, lambda layer, beside: self._gathers(layer, beside) if layer != kept else [], self._reduces)

    def _around(
        self,
        parts: Sequence[tuple[list[Step], int]],
        gather: Callable[[int, int], list[Step]],
        reduce: Callable[[int, int], list[Step]],
    ) -> list[Step]:
        """Parts, where the next weights are gathered and the last gradients reduced beside each, or before and after it."""
        steps: list[Step] = []
        if not self._iteration.dp_overlap:
            for part, layer in parts:
                steps += join(gather(layer, 0), part, reduce(layer, 0)) if layer >= 0 else part
            return steps
        for place, (part, layer) in enumerate(parts):
            kernels = sum(isinstance(step, Run) for step in part)
            if place == 0 and layer >= 0:
                steps += gather(layer, 0)
            if place and parts[place - 1][1] >= 0:
                steps += reduce(parts[place - 1][1], kernels)
            if place + 1 < len(parts) and parts[place + 1][1] >= 0:
                steps += gather(parts[place + 1][1], kernels)
            steps += part
        if parts and parts[-1][1] >= 0:
            steps += reduce(parts[-1][1], 0)
        return steps
