"""The utilisation of dimensions over time: a file for each run, with a line for each window, written as it is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat

from astra_sim.reports import Result, Series

WINDOW_NS = 10_000
"""The step of ASTRA-sim 1.0."""

MOST_WINDOWS = 200
"""Lines of a small file."""


def utilisation_files(runs: Sequence[Result], series: Series) -> Iterator[tuple[str, Iterable[str]]]:
    """Name and lines of each run's file: in steps of WINDOW_NS ("all"), in multiples of it that are at most MOST_WINDOWS ("limited")."""
    if series == "none":
        return
    for result in runs:
        step_ns = WINDOW_NS if series == "all" else _step(result)
        yield f"{result.run_name}_dimension_utilization.csv", dimension_utilization(result, step_ns)


def dimension_utilization(result: Result, step_ns: int = WINDOW_NS) -> Iterator[str]:
    """Share of each full window of `step_ns` nanoseconds in which a dimension has chunks, in percent, line by line."""
    yield " time (us) ," + "".join(f"dim{number + 1} util," for number in range(len(result.dimensions))) + "\n"
    windows = int(result.finish_ns // step_ns)
    times = _ends(windows, step_ns)
    cells = [_cells(intervals, windows, step_ns) for intervals in result.busy_ns]
    yield from map("".join, zip(times, *cells, repeat("\n")))
    yield "," * len(result.dimensions) + "\n"


def _step(result: Result) -> int:
    """The shortest multiple of WINDOW_NS in which a run has no more than MOST_WINDOWS windows."""
    windows = int(result.finish_ns // WINDOW_NS)
    return WINDOW_NS * max(1, -(-windows // MOST_WINDOWS))


def _ends(windows: int, step_ns: int) -> Iterator[str]:
    """When each window ends, in microseconds."""
    return (f"{end / 1000:.6f}," for end in range(step_ns, windows * step_ns + 1, step_ns))


def _cells(intervals: Sequence[tuple[float, float]], windows: int, step_ns: int) -> Iterator[str]:
    """The share of each window that disjoint intervals in order take, in percent."""
    return chain.from_iterable(repeat(f"{100.0 * busy / step_ns:.6f},", count) for count, busy in _stretches(intervals, windows, step_ns))


def _stretches(intervals: Sequence[tuple[float, float]], windows: int, step_ns: int) -> Iterator[tuple[int, float]]:
    """Windows one after another, as a number of them and the nanoseconds that intervals take of each."""
    window, busy = 0, 0.0  # the first window that is not written yet, and its busy time so far
    for begin, end in intervals:
        first, last = int(begin // step_ns), int(end // step_ns)
        if first >= windows:
            break
        if first > window:
            yield 1, busy
            yield first - window - 1, 0.0
            window, busy = first, 0.0
        if last > window:
            yield 1, busy + ((window + 1) * step_ns - begin)
            yield min(last, windows) - window - 1, step_ns
            window, busy = last, 0.0
            begin = last * step_ns
        busy += end - begin
    if window < windows:
        yield 1, busy
        yield windows - window - 1, 0.0
