"""A line on standard error that says how far a long run is."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from types import TracebackType
from typing import Self

FIRST_S = 2.0
TERMINAL_S = 0.5
LOG_S = 30.0


class Progress:
    """Says on standard error how far a run is, from FIRST_S seconds on, until the `with` block ends.

    On a terminal one line changes every TERMINAL_S seconds and goes at the end; in a log a new line follows every LOG_S seconds. A thread
    writes it, so that it also comes while a run is being prepared. `reached` takes the simulated time in `unit`.
    """

    def __init__(self, enabled: bool = True, unit: str = "us") -> None:
        self._enabled = enabled and sys.stderr is not None
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

    def stage(self, name: str) -> None:
        """What is under way now, of several things that follow each other, such as `run 2 of 4`; nothing of it is simulated yet."""
        self._stage = name
        self._stage_began = time.monotonic()
        self._reached: tuple[float, int | None] | None = None

    def reached(self, simulated: float, events: int | None = None) -> None:
        """How much time is simulated, in `unit`, and how many events have happened."""
        self._reached = simulated, events

    def simulated(self, picoseconds: int, events: int) -> None:
        """The same in picoseconds, where `unit` is us; `simulate` takes this as its `progress`."""
        self.reached(picoseconds / 1e6, events)

    def line(self) -> str:
        """The line to show now."""
        now = time.monotonic()
        stage = f"{self._stage}: " if self._stage else ""
        seconds = max(now - self._stage_began, 1e-9)
        if self._reached is None:
            return f"astra: {stage}preparing, {now - self._began:.0f} s"
        simulated, events = self._reached
        parts = [f"{_number(simulated)} {self._unit} simulated ({_number(simulated / seconds)} {self._unit}/s)"]
        if events is not None:
            parts.append(f"{events:,} events ({_number(events / seconds)}/s)")
        return f"astra: {stage}{', '.join(parts)}, {now - self._began:.0f} s"

    def _write(self) -> None:
        wait, shown = FIRST_S, False
        try:
            while not self._ended.wait(wait):
                self._show(self.line())
                wait, shown = TERMINAL_S if self._on_terminal else LOG_S, True
            if shown and self._on_terminal:
                self._show("")
        except (OSError, ValueError):
            return  # nobody reads standard error any more

    def _show(self, line: str) -> None:
        if self._on_terminal:
            # The cursor goes back, so that a warning overwrites the line.
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\x1b[2K{line[:width]}\r")
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _number(value: float) -> str:
    """At least three digits of a number."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
