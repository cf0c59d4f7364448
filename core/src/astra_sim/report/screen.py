"""Standard output as commands print on it: a terminal of some width, or a pipe."""

from __future__ import annotations

import contextlib
import os
import sys

import click

from astra_sim.report.amounts import NO_BREAK, DisplayUnit, byte_unit, time_unit
from astra_sim.report.layout import Line, Page, Table, lay_out, shortened, wrapped

PROSE = 80
"""Characters of a line of prose if the output has no width."""


class Screen:
    """The terminal or file on which a command prints its tables and sentences, in the user's format.

    A terminal has its width, or that of the variable COLUMNS; anything else has no width unless COLUMNS is set, and gets plain columns.
    `every` (option --all): all rows and columns; `units` (option --units): the unit of all times, else it follows their magnitude.
    `NO_BREAK` is a space at which no line ends, between a number and its unit; `shortened` leaves out the middle of a long name.
    """

    NO_BREAK = NO_BREAK
    byte_unit = staticmethod(byte_unit)
    shortened = staticmethod(shortened)

    def __init__(self, every: bool = False, units: str | None = None) -> None:
        self.every = every
        self.units = units
        self.is_terminal = sys.stdout.isatty()
        self.width = _columns() or (_terminal_columns() if self.is_terminal else None)
        self.is_ascii = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
        self._has_styles = _has_styles(self.is_terminal)

    def table(self, table: Table) -> None:
        """Print a table."""
        rule = ("-" if self.is_ascii else "─") if self.is_terminal else ""
        page = Page(self.width, self.every, "..." if self.is_ascii else "…", rule)
        for line in lay_out(table, page):
            self._print(line)

    def text(self, text: str, indent: str = "", further: str | None = None, prose: bool = False) -> None:
        """Print a line, or several if the screen is narrow, behind an indent (`further`: that of all but the first).

        `prose` is for people to read: it has lines of `PROSE` characters in a pipe, too.
        """
        for line in wrapped(text, self.prose if prose else self.width, indent, further) or [""]:
            self._print(Line(line))

    @property
    def prose(self) -> int:
        """Characters of a line of prose."""
        return self.width or PROSE

    def time_unit(self, largest_ns: float) -> DisplayUnit:
        """The unit for times of which this is the largest: the one that the user wants, or by magnitude."""
        return time_unit(largest_ns, self.units)

    def _print(self, line: Line) -> None:
        text = line.text.replace(NO_BREAK, " ")
        click.echo(click.style(text, bold=True) if line.heading and text and self._has_styles else text, color=self._has_styles)


def _has_styles(is_terminal: bool) -> bool:
    """Whether headings are bold: on a terminal that can, or if FORCE_COLOR is set, but not if NO_COLOR is."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (is_terminal and os.environ.get("TERM", "").lower() not in ("dumb", "unknown"))


def _columns() -> int | None:
    """The width in the variable COLUMNS, if it is one."""
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() and int(text) else None


def _terminal_columns() -> int:
    """The width of the terminal, or 80 if unknown."""
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdout.fileno()).columns or PROSE
    return PROSE
