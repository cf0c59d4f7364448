"""A progress line of a long run on standard error."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import Self

FIRST_S = 2.0
TERMINAL_S = 0.5
LOG_S = 30.0
_LEAST_DONE = 0.01
"""Share of the work after which the time that is left is estimated."""


class Progress:
    """Says on standard error how far a run is, from FIRST_S seconds on, until the `with` block ends.

    On a terminal one line changes every TERMINAL_S seconds and goes at the end; in a log a new line follows every LOG_S seconds. A thread
    writes it, so that it also comes while a run is being prepared. `reached` takes the simulated time in `unit`. If the variable
    ASTRA_NO_PROGRESS is set, nothing is written.

    If it is known how much of the work is done, the line ends with an estimate of the time that is left, at the pace so far.
    """

    def __init__(self, enabled: bool = True, unit: str = "us") -> None:
        self._enabled = enabled and sys.stderr is not None and not os.environ.get("ASTRA_NO_PROGRESS")
        self._on_terminal = self._enabled and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._unit = unit
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write, name="progress", daemon=True)
        self._began = time.monotonic()
        self.stage("")

    def __enter__(self) -> Self:
        if self._enabled:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        if self._enabled:
            self._thread.join()

    def stage(self, name: str, done: float = 0.0, share: float | None = None, simulates: bool = True) -> None:
        """The current one of several runs in sequence, such as `run 2 of 4`; its simulation has not begun.

        `done` is the share of all work that was done before, and `share` that of this stage: without it, all that is left. A stage that
        `simulates` nothing is one of other work, such as writing files.
        """
        self._stage = name
        self._shares = done, share
        self._simulates = simulates
        self._stage_began = time.monotonic()
        self._reached: tuple[float, int | None] | None = None
        self._done = 0.0

    def reached(self, simulated: float, events: int | None = None) -> None:
        """The simulated time, in `unit`, and the number of events."""
        self._reached = simulated, events

    def simulated(self, picoseconds: int, events: int) -> None:
        """The same in picoseconds, if `unit` is us."""
        self.reached(picoseconds / 1e6, events)

    __call__ = simulated
    """`simulate` takes this object as its `progress`."""

    def ended(self, count: int, of: int) -> None:
        """The number of parts of this stage that have ended, and of all."""
        self._done = count / of if of else 0.0

    def line(self, width: int | None = None) -> str:
        """The line to show now. If it is wider than that, parts are left out, and none is cut: rates, then events, then the stage."""
        now = time.monotonic()
        seconds, simulated, rate, events, pace = max(now - self._stage_began, 1e-9), "preparing", "", "", ""
        if self._reached is not None:
            reached, count = self._reached
            simulated, rate = f"{_number(reached)} {self._unit} simulated", f" ({_number(reached / seconds)} {self._unit}/s)"
            if count is not None:
                events, pace = f", {count:,} events", f" ({_number(count / seconds)}/s)"
        elif not self._simulates:
            simulated = ""
        stage = self._stage + (": " if self._stage and simulated else "")
        end = f"{', ' if stage or simulated else ''}{now - self._began:.0f} s"
        left = self._left(now)
        parts = (stage, rate, events, pace), (stage, "", events, ""), (stage, "", "", ""), ("", "", "", "")
        lines = [f"astra: {stage}{simulated}{rate}{events}{pace}{end}{left}" for stage, rate, events, pace in parts]
        lines.append(f"astra: {now - self._began:.0f} s")
        return next((line for line in lines if width is None or len(line) <= width), "")

    def _left(self, now: float) -> str:
        """An estimate of the time that is left, from a hundredth of the work on."""
        before, share = self._shares
        done = before + (1.0 - before if share is None else share) * self._done
        if not _LEAST_DONE <= done < 1:
            return ""
        return f", about {(now - self._began) * (1 - done) / done:.0f} s left"

    def _write(self) -> None:
        wait, shown = FIRST_S, False
        try:
            while not self._ended.wait(wait):
                self._show(self.line(_columns() - 1 if self._on_terminal else None))
                wait, shown = TERMINAL_S if self._on_terminal else LOG_S, True
            if shown and self._on_terminal:
                self._show("")
        except (OSError, ValueError):
            return  # standard error was closed

    def _show(self, line: str) -> None:
        if self._on_terminal:
            # The cursor goes back, so that a warning overwrites the line.
            sys.stderr.write(f"\x1b[2K{line}\r")
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _columns() -> int:
    """The width of the terminal; imported here, and so only if a run takes long."""
    import shutil

    return shutil.get_terminal_size().columns


def _number(value: float) -> str:
    """At least three digits of a number."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
