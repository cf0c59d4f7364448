"""Tables as text that fits a screen, and never cuts a number.

A table that is wider than its screen gives way step by step: its headings take several lines; long names are shortened to `COMFORTABLE`
characters; columns are left out, those of the highest rank first; names are shortened to `SHORTEST`. If the columns of rank 0 are too
wide even then, each row becomes a record: a line for each of its cells. If all columns are wanted, those that do not fit follow below.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import attrs

from astra_sim.errors import printable
from astra_sim.value_objects import ValueObject

Kind: TypeAlias = Literal["number", "word", "name", "text"]

COMFORTABLE = 24
"""Characters to which names are shortened before a column is left out."""
SHORTEST = 10
"""Characters that every name keeps."""
_TEXT = 20
"""Characters that a text has in a line, at least."""
_GAP = 2


class Column(NamedTuple):
    """A column of a table. Units belong into its heading, which may have several lines, so that its cells are plain numbers.

    If the screen is narrow, columns of the highest `rank` are left out first, and those of rank 0 stay. A `number` is aligned to the right
    and a `word` to the left, both whole; a `name` may be shortened in its middle, but for its digits; a `text` may take several lines.
    """

    heading: str
    kind: Kind = "number"
    rank: int = 0


@attrs.frozen(eq=False, repr=False)
class Table(ValueObject):
    """Rows of cells below a title and the headings of columns, and a note below them. Without `headed` there are no headings."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    headed: bool = True
    indent: int = 0


class Page(NamedTuple):
    """The layout of a table: characters of a line (None: no limit), whether all columns are wanted, and signs to draw with.

    `rule` underlines headings; with an empty one they have no line.
    """

    width: int | None = None
    every: bool = False
    ellipsis: str = "..."
    rule: str = ""


class Line(NamedTuple):
    """A line of text, which a terminal may show as a heading."""

    text: str
    heading: bool = False


def lay_out(table: Table, page: Page) -> list[Line]:
    """The lines of a table on a page."""
    rows = [[printable(cell) for cell in row] for row in table.rows]
    if not table.columns:
        return [Line(text) for text in (table.title, "no rows") if text]
    table = attrs.evolve(table, rows=rows, title=printable(table.title))
    lines = [Line(text, heading=True) for text in wrapped(table.title, page.width)]
    grid = _Grid(table, page)
    left_out: list[str] = []
    for number, band in enumerate(_bands(grid)):
        if band is None:
            lines += _records(table, page)
            break
        if number:
            lines.append(Line(""))
        lines += grid.lines(band)
        if not page.every:
            left_out = [_without_unit(column.heading) for place, column in enumerate(table.columns) if place not in band.places]
    indent = " " * table.indent
    if left_out and table.headed:
        lines += [Line(text) for text in wrapped(f"left out: {', '.join(left_out)} (--all, or a wider screen)", page.width, indent)]
    return lines + [Line(text) for text in wrapped(table.note, page.width, indent)]


def _without_unit(heading: str) -> str:
    return re.sub(r"\s*\([^()]*\)$", "", " ".join(heading.split()))


def wrapped(text: str, width: int | None, indent: str = "", further: str | None = None) -> list[str]:
    """The lines of a text, each behind an indent (`further`: that of all but the first). Words that are longer than a line stay whole."""
    if width is None or len(text) + len(indent) <= width:
        return [indent + text] if text else []
    import textwrap

    following = indent if further is None else further
    return textwrap.wrap(
        text,
        max(width, len(following) + 1),
        initial_indent=indent,
        subsequent_indent=following,
        break_long_words=False,
        break_on_hyphens=False,
    )


def shortened(name: str, width: int, ellipsis: str = "...") -> str:
    """A name with at most `width` characters: an ellipsis replaces text near its middle. A number in it stays whole, or goes.

    Numbers stay if there are enough other characters to leave out, and none is beside the ellipsis, if it would look cut.
    """
    if len(name) <= width:
        return name
    for count in range(len(name) - width + len(ellipsis), len(name) + 1):
        starts = [start for start in range(len(name) - count + 1) if _can_go(name, start, start + count)]
        if starts:
            middle = (len(name) - count) / 2
            start = min(starts, key=lambda at: (sum(map(str.isdigit, name[at : at + count])), abs(at - middle)))
            return name[:start] + ellipsis + name[start + count :]
    return ellipsis


def _can_go(name: str, start: int, end: int) -> bool:
    """Whether a part of a name can be left out: no number ends before it, and none begins behind it."""
    return re.search(r"\d[.,]?$", name[max(0, start - 2) : start]) is None and re.match(r"[.,]?\d", name[end:]) is None


class _Band(NamedTuple):
    """Columns shown side by side: their places in the table, their widths, lines of their headings, and the gap between them."""

    places: tuple[int, ...]
    widths: tuple[int, ...]
    headings: tuple[tuple[str, ...], ...]
    gap: int


class _Grid:
    """The cells of a table on a page: which of its columns fit side by side, and their lines."""

    def __init__(self, table: Table, page: Page) -> None:
        self.table = table
        self.page = page
        self._longest = [max((len(row[place]) for row in table.rows), default=0) for place in range(len(table.columns))]

    def fit(self, places: Sequence[int], shortest: int = COMFORTABLE) -> _Band | None:
        """Columns side by side, with names of at least `shortest` characters; None if there is no room, or names would be alike."""
        for folded, gap in ((False, _GAP), (True, _GAP), (True, 1)):
            headings = [self._heading(place, folded) for place in places]
            least = [max(self._least(place, shortest), *map(len, heading)) for place, heading in zip(places, headings, strict=True)]
            spare = self._spare(sum(least) + gap * (len(places) - 1))
            if spare < 0:
                continue
            widths = []
            for place, width in zip(places, least, strict=True):
                more = max(0, min(spare, self._longest[place] - width))
                spare -= more
                widths.append(width + more)
            band = _Band(tuple(places), tuple(widths), tuple(headings), gap)
            if self._distinct(band):
                return band
        return None

    def least_places(self) -> Iterator[list[int]]:
        """The places of the columns: of all, and of fewer and fewer, those of rank 0 at last. Columns of nothing but zeros go first."""
        places = list(range(len(self.table.columns)))
        yield list(places)
        dropped = sorted((place for place in places if self._rank(place)[1]), key=self._rank)
        while dropped:
            places.remove(dropped.pop())
            yield list(places)

    def lines(self, band: _Band) -> Iterator[Line]:
        """The headings and rows of a band."""
        indent = " " * self.table.indent
        if self.table.headed:
            height = max(map(len, band.headings))
            heads = [("",) * (height - len(heading)) + heading for heading in band.headings]
            for texts in zip(*heads, strict=True):
                yield Line((indent + self._joined_cells(band, texts)).rstrip(), heading=True)
            if self.page.rule:
                yield Line(indent + (" " * band.gap).join(self.page.rule * width for width in band.widths))
        for row in self.table.rows:
            cells = [self._cell(row[place], place, width) for place, width in zip(band.places, band.widths, strict=True)]
            for texts in itertools.zip_longest(*cells, fillvalue=""):
                yield Line((indent + self._joined_cells(band, texts)).rstrip())

    def _rank(self, place: int) -> tuple[bool, int, int]:
        column = self.table.columns[place]
        zeros = column.kind == "number" and bool(self.table.rows) and not any(re.search("[1-9]", row[place]) for row in self.table.rows)
        return zeros, column.rank, place

    def _heading(self, place: int, folded: bool) -> tuple[str, ...]:
        heading = self.table.columns[place].heading if self.table.headed else ""
        longest = max((len(word) for word in heading.split()), default=0)
        width = max(longest, self._least(place, COMFORTABLE)) if folded else None
        return tuple(line for part in heading.split("\n") for line in wrapped(part, width)) or ("",)

    def _least(self, place: int, shortest: int) -> int:
        """The width that the cells of a column need."""
        kind, longest = self.table.columns[place].kind, self._longest[place]
        if self.page.width is None or kind in ("number", "word"):
            return longest
        if kind == "name":
            return min(longest, shortest)
        return min(longest, max(_TEXT, *(len(word) for row in self.table.rows for word in row[place].split() or [""])))

    def _spare(self, used: int) -> int:
        return 1 << 30 if self.page.width is None else self.page.width - self.table.indent - used

    def _distinct(self, band: _Band) -> bool:
        """Whether names that differ still do when they are shortened."""
        for place, width in zip(band.places, band.widths, strict=True):
            if self.table.columns[place].kind == "name" and width < self._longest[place]:
                names = {row[place] for row in self.table.rows}
                if len({shortened(name, width, self.page.ellipsis) for name in names}) < len(names):
                    return False
        return True

    def _cell(self, text: str, place: int, width: int) -> list[str]:
        kind = self.table.columns[place].kind
        if kind == "text":
            return wrapped(text, width)
        return [shortened(text, width, self.page.ellipsis) if kind == "name" else text]

    def _joined_cells(self, band: _Band, texts: Sequence[str]) -> str:
        numbers = [self.table.columns[place].kind == "number" for place in band.places]
        padded = zip(texts, band.widths, numbers, strict=True)
        return (" " * band.gap).join(text.rjust(width) if number else text.ljust(width) for text, width, number in padded)


def _bands(grid: _Grid) -> list[_Band | None]:
    """The bands of columns that a table is shown in: one if they fit, or some of them do; None if its rows become records."""
    tries = list(itertools.islice(grid.least_places(), 1 if grid.page.every else None))
    band = next(filter(None, map(grid.fit, tries)), None)
    if band is None and grid.page.every:
        return _stacked(grid)
    return [band or grid.fit(tries[-1], SHORTEST)]


def _stacked(grid: _Grid) -> list[_Band | None]:
    """All columns in bands below each other; each band begins with the columns before the first number."""
    kinds = [column.kind for column in grid.table.columns]
    keys = list(itertools.takewhile(lambda place: kinds[place] in ("name", "word"), range(len(kinds)))) or [0]
    bands: list[_Band | None] = []
    rest = list(range(len(keys), len(kinds)))
    while rest:
        tries = ([*keys, *rest[:count]] for count in range(len(rest), 0, -1))
        band = next(filter(None, map(grid.fit, tries)), None) or grid.fit([*keys, rest[0]], SHORTEST)
        if band is None:
            return [None]
        bands.append(band)
        rest = rest[len(band.places) - len(keys) :]
    return bands or [None]


def _records(table: Table, page: Page) -> Iterator[Line]:
    """A line for each cell, and an empty one between rows; numbers are never broken."""
    indent = " " * table.indent
    for number, row in enumerate(table.rows):
        if not table.headed:
            yield from (Line(each) for each in wrapped(" ".join(row), page.width, indent, indent + "  "))
            continue
        if number:
            yield Line("")
        for place, (column, cell) in enumerate(zip(table.columns, row, strict=True)):
            inner = indent + ("  " if place else "")
            text = f"{' '.join(column.heading.split())}: {cell}" if column.heading else cell
            yield from (Line(each) for each in wrapped(text, page.width, inner, inner + "  "))
