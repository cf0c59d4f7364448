"""A lower bound of the time of an iteration, from kernels alone: which combinations need not be simulated."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from astra_sim_llm.models import LayerForm, form_of
from astra_sim_llm.operations import Block
from astra_sim_llm.plan import TrainingPlan
from astra_sim_llm.steps import LlmRun, Step
from astra_sim_llm.training_setup import TrainingSetup, end_chunks, stage_chunks

_PS_PER_S = 1e12
_IN_ORDER = ("1f1b", "gpipe", "interleaved")
"""Schedules whose stages wait for the first chunks of those before them, forward at the begin and backward at the end."""


class LeastTime:
    """The time of the kernels of a stage, of which one runs at a time, and of the stages that it waits for.

    `duration_of` is the time of a kernel (picoseconds), `iterations` the number of them in a run.
    """

    def __init__(self, plan: TrainingPlan, duration_of: Callable[[LlmRun], int], iterations: int = 1) -> None:
        self._plan = plan
        self._duration_of = duration_of
        self._iterations = iterations
        self._blocks: dict[TrainingSetup, Block] = {}
        self._known: dict[tuple[TrainingSetup, LayerForm | str, str], int] = {}

    def __call__(self, setup: TrainingSetup) -> float:
        """Seconds that an iteration of a setup takes at least."""
        work = self._work(setup)
        stages = []
        for stage, chunks in enumerate(stage_chunks(setup)):
            embedding, head = end_chunks(setup, stage)
            times = [sum(self._block(work, layer, setup.recompute) for layer in layers) for layers in chunks]
            for chunk, name in ((embedding, "embedding"), (head, "head")):
                if chunk is not None:
                    times[chunk] += self._time(work, name)
            stages.append(times)
        # A rank of DualPipe has two stages, each of which sees half of the micro-batches.
        passes = setup.micro_batches / (2 if setup.schedule == "dualpipe" else 1)
        least, ahead = 0.0, 0.0
        for times in stages:
            least = max(least, passes * sum(times) + ahead / self._iterations)
            ahead += times[0] if setup.schedule in _IN_ORDER else 0
        return least / _PS_PER_S

    def _work(self, setup: TrainingSetup) -> TrainingSetup:
        """A setup with only the settings that determine kernels."""
        whole = setup.parallel
        parallel = attrs.evolve(whole, pipeline=1, virtual_stages=1, data=whole.data * whole.pipeline, zero=0, shard_group=None)
        return attrs.evolve(
            setup, parallel=parallel, layers_of_stage=((),), micro_batches=1, recompute="none", recompute_layers=None, schedule="1f1b"
        )

    def _passes(self, work: TrainingSetup) -> Block:
        if work not in self._blocks:
            self._blocks[work] = attrs.evolve(self._plan, setup=work).block()
        return self._blocks[work]

    def _block(self, work: TrainingSetup, layer: int, recompute: str) -> int:
        """A layer, forward, again and backward; of multi-token prediction without the parts that join it to the model."""
        form = form_of(work.model, layer)
        if (work, form, recompute) not in self._known:
            block = self._passes(work)
            steps = [*block.forward(layer), *block.recompute(layer, recompute), *block.backward(layer)]
            self._known[work, form, recompute] = self._sum(steps)
        return self._known[work, form, recompute]

    def _time(self, work: TrainingSetup, end: str) -> int:
        if (work, end, "") not in self._known:
            ends = self._passes(work).ends
            steps = [*ends.embedding(), *ends.embedding_back()] if end == "embedding" else [*ends.head(), *ends.head_back()]
            self._known[work, end, ""] = self._sum(steps)
        return self._known[work, end, ""]

    def _sum(self, steps: list[Step]) -> int:
        return sum(self._duration_of(step) for step in steps if isinstance(step, LlmRun))
