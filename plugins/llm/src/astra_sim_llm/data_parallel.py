"""Data parallelism: which exchanges of weights and gradients run beside the passes of a stage.

A pass comes in parts, each with the unit whose parameters it uses: the number of a block, "embedding" or "head". Sources: ZeRO (arXiv
1910.02054), FSDP (arXiv 2304.11277); buckets are those of Megatron-core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from astra_sim.schedule import Collective
from astra_sim.shapes import Elementwise

from astra_sim_llm.adapters import trained
from astra_sim_llm.counts import ParameterCounts, block_kind
from astra_sim_llm.memory import units_on
from astra_sim_llm.plan import TrainingPlan
from astra_sim_llm.steps import LlmExchange, LlmRun, Step, join
from astra_sim_llm.templates import FIRE_AND_FORGET

BUCKET = 40_000_000
"""Parameters of which gradients are reduced together, at least; or a million for each replica (Megatron-core)."""

Unit = int | Literal["embedding", "head"]
"""The number of a block, or one of the ends of the model: a unit that is gathered or reduced at once."""

Part = tuple[list[Step], Unit]
"""Steps of a pass, and the unit whose parameters they use."""


class DataParallel:
    """The exchanges of the data parallelism of a stage."""

    def __init__(self, plan: TrainingPlan, stage: int) -> None:
        self._plan = plan
        self._parameters_of = units_on(plan.setup, stage)

    def _all_parameters(self, unit: Unit) -> ParameterCounts:
        return self._parameters_of[block_kind(self._plan.model, unit) if isinstance(unit, int) else unit]

    def _parameters(self, unit: Unit) -> tuple[int, int]:
        """Parameters of a unit on a rank that are trained, of experts and others."""
        counts = trained(self._all_parameters(unit), self._plan.setup.lora)
        return counts.experts, counts.shared

    def gathered(self, unit: Unit) -> list[tuple[str, int]]:
        """The axes over which the 16-bit weights of a unit are gathered, with the bytes that each rank has.

        ZeRO-1 and 2 gather those that an update has changed.
        """
        counts = self._all_parameters(unit)
        experts, others = (counts.experts, counts.shared) if self._plan.parallel.zero == 3 else self._parameters(unit)
        return [("edp", 2 * experts // self._plan.parallel.expert_shards), ("dp", 2 * others // self._plan.parallel.shards)]

    def _gathers(self, unit: Unit, overlapped_with: int) -> list[Step]:
        gathers = [
            LlmExchange("parameters", axis, Collective.ALL_GATHER, size, overlapped_with) for axis, size in self.gathered(unit) if size
        ]
        if not self._copies or not gathers:
            return list(gathers)
        # A shard of fp32 parameters to 16 bits, and that into the buffer: 6 and 4 bytes a parameter.
        shard = sum(each.bytes for each in gathers) // 2
        return [_copy(6 * shard, 4 * shard), *gathers]

    @property
    def _copies(self) -> bool:
        return self._plan.options.collective_buffers == "copies"

    def with_copied_gradients(self, parts: Sequence[Part]) -> list[Part]:
        """Parts that end with the copy of their gradients into the buffer that is reduced."""
        if not self._copies:
            return list(parts)
        sizes = [(part, unit, sum(self._parameters(unit))) for part, unit in parts]
        return [([*part, *([_copy(2 * size, self._plan.gradient_bytes * size)] if size else [])], unit) for part, unit, size in sizes]

    def _with_copied_weights(self, parts: Sequence[Part], there: Unit | None = None) -> list[Part]:
        """Parts that begin with the copy of their weights from the buffer into which they were gathered."""
        if not self._copies:
            return list(parts)
        sizes = [(part, unit, self._all_parameters(unit)) for part, unit in parts]
        return [(part if unit == there else [_copy(2 * size.total, 2 * size.total), *part], unit) for part, unit, size in sizes]

    def _reduces(self, unit: Unit, overlapped_with: int) -> list[Step]:
        """The reduction of a unit's gradients over its replicas."""
        return self.reductions(*self._parameters(unit), overlapped_with)

    def reductions(self, experts: int, others: int, overlapped_with: int) -> list[Step]:
        """The reduction of the gradients of parameters, of experts and others, over their replicas."""
        to_all = self._plan.options.reduction == "all"
        scatters = self._plan.parallel.zero and not to_all
        collective = Collective.REDUCE_SCATTER if scatters else Collective.ALL_REDUCE
        whole = "all_" if to_all else ""
        return [
            LlmExchange("gradients", axis, collective, size * self._plan.gradient_bytes, overlapped_with)
            for axis, size in ((f"{whole}edp", experts), (f"{whole}dp", others))
            if size
        ]

    def _buckets(self, units: Sequence[Unit]) -> list[list[Unit]]:
        """Units whose gradients are reduced together, in the order given."""
        # Small reductions are bound by latency, which grows with the ring: so a bucket grows with the replicas.
        least = self._plan.options.overlap.bucket or max(BUCKET, 1_000_000 * self._plan.parallel.data)
        buckets: list[list[Unit]] = []
        size = least
        for unit in units:
            if size >= least:
                buckets.append([])
                size = 0
            buckets[-1].append(unit)
            size += sum(self._parameters(unit))
        return buckets

    def with_reduction(self, parts: Sequence[Part]) -> list[Step]:
        """The last backward pass: gradients of a bucket are reduced when all of them are there, beside later work."""
        last = {bucket[-1]: bucket for bucket in self._buckets([unit for _, unit in parts])}
        steps: list[Step] = []
        for part, unit in self.with_copied_gradients(parts):
            steps += part
            if unit in last:
                total = [sum(each) for each in zip(*map(self._parameters, last[unit]), strict=True)]
                steps += self.reductions(total[0], total[1], FIRE_AND_FORGET)
        return steps

    def with_gather(self, parts: Sequence[Part]) -> list[Step]:
        """The first forward pass: each bucket of weights is gathered beside earlier work."""
        first = {bucket[0]: bucket for bucket in self._buckets([unit for _, unit in parts])}
        gathers: list[Step] = []
        kernels = 0
        for part, unit in parts:
            for axis in ("edp", "dp") if unit in first else ():
                size = sum(size for one in first[unit] for name, size in self.gathered(one) if name == axis)
                gathers.append(LlmExchange("parameters", axis, Collective.ALL_GATHER, size, kernels))
            kernels += sum(isinstance(step, LlmRun) for step in part)
        return join(gathers, *(part for part, _ in parts))

    @property
    def gathers_ahead(self) -> bool:
        """Whether weights are gathered beside forward passes (ZeRO-1 and 2)."""
        return self._plan.gathers_overlap and self._plan.parallel.zero in (1, 2)

    def sharded(self, parts: Sequence[Part]) -> list[Step]:
        """Weights are gathered unit by unit (ZeRO-3), each beside the unit before it."""
        return self._around(self._with_copied_weights(parts), self._gathers, _nothing)

    def sharded_backward(self, parts: Sequence[Part], gathers: bool, is_stored: bool, reduces: bool) -> list[Step]:
        """A backward pass: `gathers` the weights of each unit again (ZeRO-3), and `reduces` its gradients beside the unit that follows.

        `is_stored`: the weights of the first unit are still there, for the forward pass of the same micro-batch came just before.
        """
        # FSDP reshards after a forward pass; the unit that the backward pass begins with is the one that it has used last.
        there = parts[0][1] if is_stored and parts else None
        gather = (lambda unit, overlapped_with: self._gathers(unit, overlapped_with) if unit != there else []) if gathers else _nothing
        if gathers:
            parts = self._with_copied_weights(parts, there)
        return self._around(self.with_copied_gradients(parts) if reduces else parts, gather, self._reduces if reduces else _nothing)

    def _around(
        self, parts: Sequence[Part], gather: Callable[[Unit, int], list[Step]], reduce: Callable[[Unit, int], list[Step]]
    ) -> list[Step]:
        """Parts, if the next weights are gathered and the last gradients reduced beside each, or before and after it."""
        steps: list[Step] = []
        if not self._plan.options.overlap.dp:
            for part, unit in parts:
                steps += join(gather(unit, 0), part, reduce(unit, 0))
            return steps
        # One gather ahead and one reduction behind, as FSDP limits unsharded parameters (arXiv 2304.11277, section 3.4).
        for place, (part, unit) in enumerate(parts):
            kernels = sum(isinstance(step, LlmRun) for step in part)
            if place == 0:
                steps += gather(unit, 0)
            gathers = gather(parts[place + 1][1], kernels) if place + 1 < len(parts) else []
            if place:
                steps += reduce(parts[place - 1][1], kernels + sum(isinstance(step, LlmRun) for step in gathers))
            steps += gathers
            steps += part
        if parts:
            steps += reduce(parts[-1][1], 0)
        return steps


def _copy(read: int, written: int) -> LlmRun:
    """The copies of weights or gradients from or to a buffer of a collective."""
    return LlmRun("copy", Elementwise(read_bytes=read, write_bytes=written))


def _nothing(unit: Unit, overlapped_with: int) -> list[Step]:
    """No exchange."""
    return []
