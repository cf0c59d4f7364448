"""Figures of a run of a large language model: time of an iteration, tokens a second, FLOP/s, and shares of the time.

Every moment of a stage belongs to one of these, the first that holds: kernels run (compute, or optimizer); an exchange of tensor, expert,
context or data parallelism is under way; a message of the pipeline is under way to this stage or from it (pp); or it waits for others
(bubble). So work beside compute does not count: times are exposed ones, as the kernel's tables of all NPUs define them
(`ExecutionGraph.exposed_first`), and the bubble is when an NPU is idle or has finished before the run. Figures are means over stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
from astra_sim.compute import ExpectedError
from astra_sim.graph import Composite, Figure, ProgramTimes, Receive, Send
from astra_sim.rows import Rows

from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.templates import OperationTypes

PARALLELISMS = ("tp", "ep", "cp", "dp", "pp")
_ORDER = ("optimizer", "compute", *PARALLELISMS)
"""To which of those that hold at an instant it belongs."""
BREAKDOWN = ("compute", "tp", "pp", "dp", "ep", "cp", "optimizer", "bubble")
_PS_PER_S = 1e12


@attrs.frozen(eq=False)
class RunFacts:
    """Facts known before the run: ranks, iterations of the run, tokens and model FLOPs of one, peak of a rank, memory."""

    parallel: Parallelism
    iterations: int
    tokens: int
    model_flops: float
    counted: str
    peak_flops_per_s: float | None
    memory_bytes: int | None
    memory_words: str
    kinds: Sequence[OperationTypes]
    expected_error: ExpectedError | None = None


class LlmFigures:
    """Makes the figures of a run; a `graph.Figures`."""

    def __init__(self, facts: RunFacts) -> None:
        self._facts = facts

    def __call__(self, times: Sequence[ProgramTimes], finish_ps: int) -> Mapping[str, Any]:
        """The figures, in seconds, FLOP/s and bytes."""
        facts = self._facts
        iteration = finish_ps / _PS_PER_S / facts.iterations
        stages = [_Stage(one, kinds) for one, kinds in zip(times, facts.kinds, strict=True)]
        place_of = {one.program.npus[0]: place for place, one in enumerate(times)}
        shares = [self._exposed(stage, stages, place_of, finish_ps) for stage in stages]
        mean = {name: sum(share[name] for share in shares) / len(shares) for name in BREAKDOWN[:-1]}
        breakdown = {name: mean[name] / _PS_PER_S / facts.iterations for name in mean}
        breakdown["bubble"] = max(0.0, iteration - sum(breakdown.values()))
        tokens_per_s = facts.tokens / iteration if iteration else 0.0
        flops_per_s = facts.model_flops / iteration if iteration else 0.0
        peak = facts.peak_flops_per_s
        return {
            "iteration_s": Figure(iteration, "iteration", "s"),
            **_error(facts.expected_error),
            "tokens_per_s": Figure(tokens_per_s, "tokens/s"),
            "tokens_per_s_per_gpu": Figure(tokens_per_s / facts.parallel.ranks, "tokens/s per GPU"),
            "model_flops_per_s": flops_per_s,
            "model_flops_per_s_per_gpu": Figure(flops_per_s / facts.parallel.ranks, "model FLOP/s per GPU", "FLOP/s"),
            "mfu": Figure(flops_per_s / facts.parallel.ranks / peak if peak else None, "MFU", "share", facts.counted),
            "mfu_flops": facts.counted,
            "bubble_share": Figure(breakdown["bubble"] / iteration if iteration else 0.0, "bubble", "share"),
            "memory_bytes": Figure(facts.memory_bytes, "memory", "bytes", facts.memory_words),
            "breakdown": Figure(breakdown, "breakdown of an iteration", "s", "communication: exposed time; means over stages"),
        }

    def _exposed(self, stage: _Stage, stages: Sequence[_Stage], place_of: Mapping[int, int], finish_ps: int) -> dict[str, float]:
        """Picoseconds of one stage by use; the rest is its bubble."""
        covered = stage.composites()
        result = dict.fromkeys(BREAKDOWN[:-1], 0.0) | stage.within_composites()
        for name in _ORDER:
            spans = stage.spans(name) if name != "pp" else self._messages(stage, stages, place_of)
            before, covered = _length(covered), _union(covered, spans)
            result[name] = result.get(name, 0.0) + _length(covered) - before
        return result

    def _messages(self, stage: _Stage, stages: Sequence[_Stage], place_of: Mapping[int, int]) -> Any:
        """When messages to and from a stage are under way."""
        spans = [stage.sent()]
        for _, kind in stage.kinds_of(Receive):
            assert isinstance(kind, Receive)
            sender = stages[place_of[self._first(kind.source.of(stage.npu, self._facts.parallel.ranks))]]
            spans.append(sender.sent_to(stage.npu, kind, self._facts))
        return np.concatenate(spans, axis=1)

    def _first(self, npu: int) -> int:
        """The first NPU of the stage of an NPU."""
        return npu // self._facts.parallel.stage_ranks * self._facts.parallel.stage_ranks


class _Stage:
    """The times of a stage's first NPU."""

    def __init__(self, times: ProgramTimes, kinds: OperationTypes) -> None:
        operations = times.program.operations
        assert isinstance(operations, Rows)
        self.npu = times.program.npus[0]
        self.ready = np.asarray(times.ready_ps, np.int64)
        self.ended = np.asarray(times.ended_ps, np.int64)
        self._kinds = kinds
        self._kind_of = np.asarray(operations.kind_of, np.int64)
        self._sends = np.asarray(times.sends, np.int64)
        self._begun = np.asarray(times.sends_begun_ps, np.int64)
        self._composites = self._of_composites(times)

    def kinds_of(self, cls: type) -> list[tuple[int, Any]]:
        """The kinds of operations of a class, with their numbers."""
        return [(number, kind) for number, kind in enumerate(self._kinds.operations) if isinstance(kind, cls)]

    def rows_of(self, kind: int) -> Any:
        """The rows of a kind."""
        return np.flatnonzero(self._kind_of == kind)

    def spans(self, group: str) -> Any:
        """When operations of a group ran: begins and ends."""
        numbers = [number for number, of_kind in enumerate(self._kinds.groups) if of_kind == group]
        rows = np.flatnonzero(np.isin(self._kind_of, numbers))
        return np.stack([self.ready[rows], self.ended[rows]])

    def composites(self) -> Any:
        """When composites ran: something of them is under way at every instant."""
        spans = [np.stack([self.ended[rows] - ps, self.ended[rows]]) for rows, (ps, _) in self._composites]
        return _union(np.zeros((2, 0), np.int64), np.concatenate(spans, axis=1)) if spans else np.zeros((2, 0), np.int64)

    def within_composites(self) -> dict[str, float]:
        """Picoseconds of composites by use. Exchanges that run on beside them come last among parallelisms."""
        result: dict[str, float] = {}
        for rows, (_, parts) in self._composites:
            for group, time in parts.items():
                result[group] = result.get(group, 0.0) + time * len(rows)
        return result

    def _of_composites(self, times: ProgramTimes) -> list[tuple[Any, tuple[int, dict[str, int]]]]:
        """For each kind of composite its rows, the time of one, and its division into groups."""
        result = []
        group_of = self._kinds.within.group_of() if self._kinds.has_composites else {}
        running: dict[int, list[tuple[Any, int, int]]] = {}  # exchanges that run on when a composite ends, from then on
        for number, kind in self.kinds_of(Composite):
            ps, operations = times.within(kind)
            under_way = [*([] if kind.previous is None else running[id(kind.previous)]), *operations]
            running[id(kind)] = [(operation, begin - ps, end - ps) for operation, begin, end in under_way if end > ps]
            spans = [(max(0, begin), min(end, ps), group_of[id(operation)]) for operation, begin, end in under_way if begin < min(end, ps)]
            result.append((self.rows_of(number), (ps, _shares(spans))))
        return result

    def sent(self) -> Any:
        """When messages of this stage were under way."""
        return np.stack([self._begun, self.ended[self._sends]])

    def sent_to(self, receiver: int, receive: Receive, facts: RunFacts) -> Any:
        """When the messages were under way that receives like one of another stage's first NPU meet."""
        numbers = [
            number
            for number, kind in self.kinds_of(Send)
            if (kind.tag, kind.bytes, kind.to.of(self.npu, facts.parallel.ranks)) == (receive.tag, receive.bytes, receiver)
        ]
        return self.sent()[:, np.isin(self._kind_of[self._sends], numbers)]


def _error(known: ExpectedError | None) -> dict[str, Any]:
    """The figures of the expected error, and their basis."""
    if known is None:
        return {"expected_error": None}
    beyond = f"extrapolates: {', '.join(known.extrapolates)}" if known.extrapolates else "interpolates"
    words = f"{known.share:.0%} of runs like it; {beyond}"
    return {"expected_error": Figure(known.within, "expected error", "share", words), "expected_error_basis": attrs.asdict(known)}


def _shares(spans: Sequence[tuple[int, int, str]]) -> dict[str, int]:
    """The time of spans (begin, end, group) by group; overlaps belong to the first of these in order."""
    if all(first[1] <= second[0] for first, second in pairwise(spans)):  # one after another
        shares: dict[str, int] = {}
        for begin, end, group in spans:
            shares[group] = shares.get(group, 0) + end - begin
        return shares
    by_group: dict[str, list[tuple[int, int]]] = {}
    for begin, end, group in spans:
        by_group.setdefault(group, []).append((begin, end))
    shares, covered = {}, np.zeros((2, 0), np.int64)
    for group in _ORDER:
        if group in by_group:
            before, covered = _length(covered), _union(covered, np.array(by_group[group], np.int64).T)
            shares[group] = _length(covered) - before
    return shares


def _union(first: Any, second: Any) -> Any:
    """The union of both sets of spans, in order and disjoint."""
    begins, ends = np.concatenate([first, second], axis=1)
    if not len(begins):
        return first
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    starts = np.concatenate([[True], begins[1:] > ends[:-1]])
    last = np.concatenate([np.flatnonzero(starts)[1:] - 1, [len(begins) - 1]])
    return np.stack([begins[starts], ends[last]])


def _length(spans: Any) -> int:
    """The total length of disjoint spans."""
    return int((spans[1] - spans[0]).sum())
