"""How busy dimensions are in time: a file for each run, with a line for each window, written as it is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from astra_sim.errors import warn
from astra_sim.reports import Result, Series

WINDOW_NS = 10_000
MAX_WINDOWS = 100_000


def utilisation_files(runs: Sequence[Result], series: Series) -> dict[str, Iterable[str]]:
    """The files of runs, by name. `series`: the first MAX_WINDOWS windows of each ("limited"), "all" of them, or no file ("none").

    Warns where a file ends before its run does.
    """
    if series == "none":
        return {}
    limit = MAX_WINDOWS if series == "limited" else None
    files: dict[str, Iterable[str]] = {}
    for result in runs:
        name = f"{result.run_name}_dimension_utilization.csv"
        count = _windows(result)
        if limit is not None and count > limit:
            warn(f"{name} ends after the first {limit} of {count} windows of {WINDOW_NS // 1000} us; --series all writes all of them")
        files[name] = dimension_utilization(result, limit)
    return files


def dimension_utilization(result: Result, limit: int | None = None) -> Iterator[str]:
    """Share of each full window of 10 us in which a dimension has chunks, in percent, line by line; at most `limit` windows."""
    yield " time (us) ," + "".join(f"dim{number + 1} util," for number in range(len(result.dimensions))) + "\n"
    windows = _windows(result) if limit is None else min(limit, _windows(result))
    shares = [_busy_in_windows(intervals, windows) for intervals in result.busy_ns]
    for window in range(windows):
        cells = [f"{(window + 1) * WINDOW_NS / 1000:.6f}"] + [f"{next(share):.6f}" for share in shares]
        yield "".join(f"{cell}," for cell in cells) + "\n"
    yield "," * len(result.dimensions) + "\n"


def _windows(result: Result) -> int:
    """How many full windows a run has."""
    return int(result.finish_ns // WINDOW_NS)


def _busy_in_windows(intervals: Sequence[tuple[float, float]], windows: int) -> Iterator[float]:
    """The share of each window that disjoint intervals in order take, in percent."""
    place = 0
    for window in range(windows):
        begin, end, busy = window * WINDOW_NS, (window + 1) * WINDOW_NS, 0.0
        while place < len(intervals) and intervals[place][0] < end:
            busy += min(intervals[place][1], end) - max(intervals[place][0], begin)
            if intervals[place][1] > end:
                break
            place += 1
        yield 100.0 * busy / WINDOW_NS
