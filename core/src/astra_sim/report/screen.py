"""Standard output as commands print on it: a terminal of some width, or a pipe."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from astra_sim.report.amounts import NO_BREAK, Unit, time_unit
from astra_sim.report.layout import Line, Page, Table, lay_out, wrapped

if TYPE_CHECKING:
    from rich.console import Console

PROSE = 80
"""Characters of a line of prose where the output has no width."""


class Screen:
    """Where a command prints its tables and sentences, as the user wants them.

    A terminal has its width, or that of the variable COLUMNS; anything else has no width unless COLUMNS is set, and gets plain columns.
    `every` (option --all): all rows and columns; `units` (option --units): the unit of all times, else it follows their magnitude.
    """

    def __init__(self, every: bool = False, units: str | None = None) -> None:
        self.every = every
        self.units = units
        self._console = _console()
        self.is_terminal = sys.stdout.isatty()
        self.width = _columns() or (_terminal_columns() if self.is_terminal else None)
        self.is_ascii = self._console.options.ascii_only

    def table(self, table: Table) -> None:
        """Print a table."""
        rule = ("-" if self.is_ascii else "─") if self.is_terminal else ""
        page = Page(self.width, self.every, "..." if self.is_ascii else "…", rule)
        for line in lay_out(table, page):
            self._print(line)

    def text(self, text: str, indent: str = "", further: str | None = None, prose: bool = False) -> None:
        """Print a line, or several where the screen is narrow, behind an indent (`further`: that of all but the first).

        `prose` is for people to read: it has lines of `PROSE` characters in a pipe, too.
        """
        for line in wrapped(text, self.prose if prose else self.width, indent, further) or [""]:
            self._print(Line(line))

    @property
    def prose(self) -> int:
        """Characters of a line of prose."""
        return self.width or PROSE

    def time_unit(self, largest_ns: float) -> Unit:
        """The unit for times of which this is the largest: the one that the user wants, or by magnitude."""
        return time_unit(largest_ns, self.units)

    def _print(self, line: Line) -> None:
        self._console.print(line.text.replace(NO_BREAK, " "), style="bold" if line.heading else None, soft_wrap=True)


def _console() -> Console:
    """A console that changes nothing of what it prints; without any style where NO_COLOR is set."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False, color_system=None if os.environ.get("NO_COLOR") else "auto")


def _columns() -> int | None:
    """The width that the variable COLUMNS says, if it is one."""
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() and int(text) else None


def _terminal_columns() -> int:
    """The width of the terminal, or 80 where it does not say."""
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdout.fileno()).columns or PROSE
    return PROSE
