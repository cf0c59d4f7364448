"""How busy dimensions are in time: a file for each run, with a line for each window, written as it is made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

from astra_sim.reports import Result, Series

WINDOW_NS = 10_000
"""The step of ASTRA-sim 1.0."""

_NEVER = math.inf, math.inf

MOST_WINDOWS = 200
"""Lines of a small file."""


def utilisation_files(runs: Sequence[Result], series: Series) -> dict[str, Iterable[str]]:
    """The files of runs, by name: in steps of WINDOW_NS ("all"), in multiples of it that are at most MOST_WINDOWS ("limited"), or none."""
    if series == "none":
        return {}
    step = (lambda result: WINDOW_NS) if series == "all" else _step
    return {f"{result.run_name}_dimension_utilization.csv": dimension_utilization(result, step(result)) for result in runs}


def dimension_utilization(result: Result, step_ns: int = WINDOW_NS) -> Iterator[str]:
    """Share of each full window of so many nanoseconds in which a dimension has chunks, in percent, line by line."""
    yield " time (us) ," + "".join(f"dim{number + 1} util," for number in range(len(result.dimensions))) + "\n"
    windows = int(result.finish_ns // step_ns)
    shares = [_busy_in_windows(intervals, windows, step_ns) for intervals in result.busy_ns]
    line = "%.6f," * (1 + len(shares)) + "\n"
    for window, busy in enumerate(zip(*shares, strict=True) if shares else repeat((), windows), 1):
        yield line % (window * step_ns / 1000, *busy)
    yield "," * len(result.dimensions) + "\n"


def _step(result: Result) -> int:
    """The shortest multiple of WINDOW_NS in which a run has no more than MOST_WINDOWS windows."""
    windows = int(result.finish_ns // WINDOW_NS)
    return WINDOW_NS * max(1, -(-windows // MOST_WINDOWS))


def _busy_in_windows(intervals: Sequence[tuple[float, float]], windows: int, step_ns: int) -> Iterator[float]:
    """The share of each window that disjoint intervals in order take, in percent."""
    ahead = iter(intervals)
    first, last = next(ahead, _NEVER)
    for begin in range(0, windows * step_ns, step_ns):
        end, busy = begin + step_ns, 0.0
        while first < end:
            busy += (min(end, last)) - (max(begin, first))
            if last > end:
                break
            first, last = next(ahead, _NEVER)
        yield 100.0 * busy / step_ns
