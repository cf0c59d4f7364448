"""The progress of a sweep, on standard error: a bar with an estimate on a terminal, a line repeatedly in a log."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from astra_sim_sweep.running import SweepCounts
from astra_sim_sweep.words import counted

FIRST_S = 2.0
LOG_S = 30.0
_TURN_S = 0.2


class SweepProgress:
    """Shows `counts` as long as its block lasts; `turn` is called whenever they may have changed."""

    def __init__(self, counts: SweepCounts, enabled: bool) -> None:
        self._counts = counts
        self._enabled = enabled and sys.stderr is not None and not os.environ.get("ASTRA_NO_PROGRESS")
        self._bar: _Bar | None = None
        self._began = time.monotonic()
        self._next = self._began
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> Self:
        if self._enabled and sys.stderr.isatty():
            with self._read_by_nobody():
                self._bar = _Bar(self._counts)
        else:
            self._next += FIRST_S
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            with self._read_by_nobody():
                self._bar.stop()

    def turn(self) -> None:
        """Show news, if the time has come."""
        now = time.monotonic()
        if self._first is None and self._counts.run:
            self._first = now, self._counts.run  # workers have started
        if not self._enabled or now < self._next:
            return
        text = line(self._counts, *((now - self._first[0], self._counts.run - self._first[1]) if self._first else (0.0, 0)))
        if self._bar is not None:
            self._next = now + _TURN_S
            with self._read_by_nobody():
                self._bar.show(text)
        else:
            self._next = now + LOG_S
            with self._read_by_nobody():
                sys.stderr.write(f"astra: {text}\n")
                sys.stderr.flush()

    @contextlib.contextmanager
    def _read_by_nobody(self) -> Iterator[None]:
        """Within the block standard error may be full or closed: then nothing more is shown, and the sweep goes on."""
        try:
            yield
        except (OSError, ValueError):
            self._enabled = False


class _Bar:
    """A bar on the terminal, by rich; it goes at the end."""

    def __init__(self, counts: SweepCounts) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._counts = counts
        self._progress = Progress(
            BarColumn(bar_width=20), TextColumn("{task.description}"), console=Console(stderr=True), transient=True, auto_refresh=False
        )
        self._task = self._progress.add_task("", total=counts.points)
        self._progress.start()

    def show(self, text: str) -> None:
        self._progress.update(self._task, completed=self._counts.done, description=text)
        self._progress.refresh()

    def stop(self) -> None:
        self._progress.stop()


def line(counts: SweepCounts, seconds: float, runs: int) -> str:
    """Describe the progress of a sweep after a number of runs and seconds."""
    parts = [f"{counts.done:,} of {counted(counts.points, 'point')}"]
    if counts.failed:
        parts.append(f"{counts.failed:,} failed")
    left = seconds_left(counts, seconds, runs)
    if left is not None:
        parts += [f"{runs / seconds:,.1f} runs/s", f"{_duration(left)} left"]
    return ", ".join(parts)


def seconds_left(counts: SweepCounts, seconds: float, runs: int) -> float | None:
    """An estimate: points to come are run and left out as often as those before. None while there is nothing to go by."""
    if not runs or not seconds:
        return None
    to_come = counts.points - counts.passed
    fresh = counts.passed - counts.known
    share = (fresh - counts.skipped) / fresh if fresh else 1.0
    return (to_come * share + counts.passed - counts.done) * seconds / runs


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
