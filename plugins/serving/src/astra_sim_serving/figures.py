"""Figures of the requests of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from astra_sim_serving.explanation import explain
from astra_sim_serving.metrics import summarize
from astra_sim_serving.options import SloOptions
from astra_sim_serving.request import Sequence as RequestSequence

LATENCIES = ("ttft", "tpot", "e2e", "queue")


class RequestFigures(Protocol):
    """Figures of requests that have arrived, over those that have finished unless a method says otherwise. Times are in seconds."""

    def finished(self) -> int:
        """How many have finished."""

    def tokens(self) -> int:
        """Tokens of answers of all requests."""

    def preempted(self) -> tuple[int, int]:
        """How many of all were preempted, and how often in all."""

    def shed_reasons(self) -> dict[str, int]:
        """How many were shed, by reason."""

    def last_token(self) -> float:
        """When the last token of all came; -1: none did."""

    def finished_between(self, begin: float, end: float) -> int:
        """How many ended between two moments."""

    def within(self, slo: SloOptions) -> int:
        """How many met all limits that are given."""

    def summary(self, latency: str) -> dict[str, float] | None:
        """Mean, percentiles and maximum of one of `LATENCIES`; None if no request has one."""

    def explanation(self, front_end_s: float) -> dict[str, list[dict[str, object]]]:
        """The causes of the times to the first token and for further ones, by bands of requests."""


def ttft(sequence: RequestSequence) -> float:
    """Seconds from the arrival of a request to its first token."""
    return sequence.first_token - sequence.request.arrival


def tpot(sequence: RequestSequence) -> float | None:
    """Seconds for each token after the first; None if there is one token."""
    if sequence.generated < 2:
        return None
    return (sequence.last_token - sequence.first_token) / (sequence.generated - 1)


def e2e(sequence: RequestSequence) -> float:
    """Seconds from the arrival of a request to its last token."""
    return sequence.last_token - sequence.request.arrival


def queue(sequence: RequestSequence) -> float:
    """Seconds from the arrival of a request to its first iteration."""
    return sequence.scheduled - sequence.request.arrival


def meets(slo: SloOptions, sequence: RequestSequence) -> bool:
    """Whether a request has met all limits that are given."""
    if not sequence.is_done:
        return False
    limits = (slo.ttft_ms, ttft(sequence)), (slo.tpot_ms, tpot(sequence)), (slo.e2e_ms, e2e(sequence))
    return all(limit is None or value is None or value * 1e3 <= limit for limit, value in limits)


_OF_SEQUENCE = dict(zip(LATENCIES, (ttft, tpot, e2e, queue), strict=True))


@attrs.frozen(eq=False)
class ObjectFigures:
    """The figures of requests that are objects."""

    sequences: Sequence[RequestSequence]

    def _finished(self) -> list[RequestSequence]:
        return [each for each in self.sequences if each.is_done]

    def finished(self) -> int:
        """How many have finished."""
        return len(self._finished())

    def tokens(self) -> int:
        """Tokens of answers."""
        return sum(each.generated for each in self.sequences)

    def preempted(self) -> tuple[int, int]:
        """How many were preempted, and how often in all."""
        return sum(each.preemptions > 0 for each in self.sequences), sum(each.preemptions for each in self.sequences)

    def shed_reasons(self) -> dict[str, int]:
        """How many were shed, by reason."""
        reasons: dict[str, int] = {}
        for each in self.sequences:
            if each.shed:
                reasons[each.shed] = reasons.get(each.shed, 0) + 1
        return reasons

    def last_token(self) -> float:
        """When the last token came."""
        return max((each.last_token for each in self.sequences), default=-1.0)

    def finished_between(self, begin: float, end: float) -> int:
        """How many ended between two moments."""
        return sum(begin <= each.last_token <= end for each in self._finished())

    def within(self, slo: SloOptions) -> int:
        """How many met all limits."""
        return sum(meets(slo, each) for each in self.sequences)

    def summary(self, latency: str) -> dict[str, float] | None:
        """The statistics of a latency."""
        of_sequence = _OF_SEQUENCE[latency]
        return summarize(value for each in self._finished() if (value := of_sequence(each)) is not None)

    def explanation(self, front_end_s: float) -> dict[str, list[dict[str, object]]]:
        """The causes of latencies."""
        finished = self._finished()
        return explain(finished, front_end_s) if finished else {"ttft": [], "tpot": []}
