"""The requests of a compiled run, which are columns there: objects are made of those that are looked at."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, overload

import attrs

from astra_sim_serving.explanation import BANDS, TPOT_CAUSES, TTFT_CAUSES, band_of
from astra_sim_serving.metrics import STATISTICS
from astra_sim_serving.options import SloOptions
from astra_sim_serving.request import Sequence as RequestSequence
from astra_sim_serving.request import ServingRequest, Spent

if TYPE_CHECKING:
    from astra_sim_serving import _core

SHED_REASONS = (
    "",
    "prompt longer than the cache",
    "prompt and answer longer than the cache",
    "longer than max_model_tokens",
    "queue full",
)
"""Why requests are shed, by the number that the compiled loop has for it."""


@attrs.frozen(eq=False)
class RecordedGaps:
    """Gaps between tokens, with how many there are of each: of a model by its number, or of all (-1)."""

    core: _core.Fleet
    model: int = -1

    @property
    def counts(self) -> dict[float, int]:
        """The number of each gap, by its seconds."""
        return dict(self.core.gaps(self.model))

    def summary(self) -> dict[str, float] | None:
        """Mean, percentiles and maximum; None if there are none."""
        return _named(self.core.gap_summary(self.model))


@attrs.frozen(eq=False)
class RecordedFigures:
    """The figures of the requests that have arrived."""

    core: _core.Figures

    def finished(self) -> int:
        """How many have finished."""
        return self.core.finished()

    def tokens(self) -> int:
        """Tokens of answers."""
        return self.core.tokens()

    def preempted(self) -> tuple[int, int]:
        """How many were preempted, and how often in all."""
        return self.core.preempted()

    def shed_reasons(self) -> dict[str, int]:
        """How many were shed, by reason."""
        return {SHED_REASONS[reason]: count for reason, count in self.core.shed()}

    def last_token(self) -> float:
        """When the last token came."""
        return self.core.last_token()

    def finished_between(self, begin: float, end: float) -> int:
        """How many ended between two moments."""
        return self.core.finished_between(begin, end)

    def within(self, slo: SloOptions) -> int:
        """How many met all limits."""
        return self.core.within(slo.ttft_ms, slo.tpot_ms, slo.e2e_ms)

    def summary(self, latency: str) -> dict[str, float] | None:
        """The statistics of a latency."""
        return _named(self.core.summary(latency))

    def explanation(self, front_end_s: float) -> dict[str, list[dict[str, object]]]:
        """The causes of latencies."""
        limits = [(begin, end) for _, begin, end in BANDS]
        rows = {
            "ttft": (TTFT_CAUSES, self.core.ttft_bands(front_end_s, limits)),
            "tpot": (TPOT_CAUSES, self.core.tpot_bands(limits)),
        }
        return {
            name: [band_of(band, count, causes, means) for (band, _, _), (count, means) in zip(BANDS, bands, strict=True) if count > 0]
            for name, (causes, bands) in rows.items()
        }


def _named(summary: Sequence[float] | None) -> dict[str, float] | None:
    """The statistics of a summary by name."""
    return None if summary is None else dict(zip(STATISTICS, summary, strict=True))


@attrs.frozen(eq=False)
class RecordedSequences(Sequence[RequestSequence]):
    """The requests that have arrived, in order of arrival, each made when it is looked at. `request_at`: by number and arrival.

    `model` is the number of the model whose requests they are (-1: all), and `numbers` then has theirs.
    """

    core: _core.Fleet
    request_at: Callable[[int, float], ServingRequest]
    model: int = -1
    numbers: Sequence[int] | None = None

    @property
    def figures(self) -> RecordedFigures:
        """Figures of all of them."""
        return RecordedFigures(self.core.figures(self.model))

    def of_model(self, model: int) -> RecordedSequences:
        """The requests of a model, when the run has ended."""
        return attrs.evolve(self, model=model, numbers=array("q", self.core.requests_of(model)))

    def __len__(self) -> int:
        return self.core.arrived if self.numbers is None else len(self.numbers)

    @overload
    def __getitem__(self, place: int) -> RequestSequence: ...

    @overload
    def __getitem__(self, place: slice) -> list[RequestSequence]: ...

    def __getitem__(self, place: int | slice) -> RequestSequence | list[RequestSequence]:
        numbers = range(len(self))[place]
        return self._at(numbers) if isinstance(numbers, int) else [self._at(number) for number in numbers]

    def _at(self, place: int) -> RequestSequence:
        """The state of a request."""
        number = place if self.numbers is None else self.numbers[place]
        (
            arrival, total, computed, generated, capacity, cached, drafts, preemptions, instance, prefill_instance, scheduled,
            first_token, last_token, shed, preempted_at, preempted_s, preempted_before_first_s, mark, prefill_parts, decode_parts,
            transfer_end, resumed,
        ) = self.core.sequence(number)  # fmt: skip
        request = self.request_at(number, arrival)
        spent = Spent(preempted_at, preempted_s, preempted_before_first_s, mark, prefill_parts, decode_parts, transfer_end, resumed)
        return RequestSequence(
            request, total, request.output, computed, generated, capacity=capacity, cached=cached, drafts=drafts, preemptions=preemptions,
            instance=instance, prefill_instance=prefill_instance, scheduled=scheduled, first_token=first_token, last_token=last_token,
            spent=spent, shed=SHED_REASONS[shed],
        )  # fmt: skip
