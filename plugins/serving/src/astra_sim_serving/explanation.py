"""Why the first token, and each further one, took as long as it did: shares that add up to the whole.

The time to the first token is front end, queue, the load of a beginning that was kept elsewhere, the iterations in which the prompt ran (by
their parts), and preemption. That of further tokens is the iterations, preemption, and the transfer from another instance. A preemption
lasts until the next token of its request, so that repeated computation counts as preemption.
"""

from __future__ import annotations

from collections.abc import Sequence

from astra_sim_serving.request import PARTS
from astra_sim_serving.request import Sequence as RequestSequence

TTFT_CAUSES = ("front_end", "queue", "load", *PARTS, "preemption")
TPOT_CAUSES = (*PARTS, "preemption", "transfer")
BANDS = (("all", 0.0, 1.0), ("p0-50", 0.0, 0.5), ("p50-90", 0.5, 0.9), ("p90-99", 0.9, 0.99), ("p99-100", 0.99, 1.0))
"""Groups of requests by rank of their time."""


def ttft_causes(sequence: RequestSequence, front_end_s: float) -> tuple[float, ...]:
    """Seconds of the causes of the time to the first token, whose sum it is."""
    load = sequence.spent.load_s
    queue = sequence.scheduled - sequence.request.arrival - front_end_s - load
    return front_end_s, queue, load, *sequence.spent.prefill_parts, sequence.spent.preempted_before_first_s


def tpot_causes(sequence: RequestSequence) -> tuple[float, ...]:
    """Seconds of the causes of the time of further tokens, for each of them; the sum is the time for a token."""
    tokens = sequence.generated - 1
    transfer = sequence.spent.resumed - sequence.first_token if sequence.spent.resumed >= 0 else 0.0
    return tuple(part / tokens for part in (*sequence.spent.decode_parts, sequence.spent.preempted_s, transfer))


def explain(sequences: Sequence[RequestSequence], front_end_s: float) -> dict[str, list[dict[str, object]]]:
    """Mean seconds of each cause, for groups of finished requests by rank of their time."""
    first = [ttft_causes(each, front_end_s) for each in sequences]
    further = [tpot_causes(each) for each in sequences if each.generated > 1]
    return {"ttft": bands(first, TTFT_CAUSES), "tpot": bands(further, TPOT_CAUSES)}


def bands(rows: list[tuple[float, ...]], causes: tuple[str, ...]) -> list[dict[str, object]]:
    """Mean seconds of each cause for all rows and for each group of `BANDS`; a row is in one group."""
    rows = sorted(rows, key=sum)
    result: list[dict[str, object]] = []
    for name, begin, end in BANDS:
        band = rows[round(begin * len(rows)) : round(end * len(rows))]
        if band:
            result.append(band_of(name, len(band), causes, [sum(row[place] for row in band) / len(band) for place in range(len(causes))]))
    return result


def band_of(name: str, count: int, causes: tuple[str, ...], means: Sequence[float]) -> dict[str, object]:
    """A group of requests, with the mean seconds of each cause."""
    return {"requests": name, "count": count, "mean_s": sum(means), **dict(zip(causes, means, strict=True))}
