"""Tables on pages of any width: they fit, and no number is cut."""

from __future__ import annotations

import re

import pytest
from astra_sim.report.layout import COMFORTABLE, Column, Kind, Page, Table, lay_out, shortened
from hypothesis import given
from hypothesis import strategies as st

KINDS: list[Kind] = ["number", "word", "name", "text"]
WORD = st.text("abcdefgh_.", min_size=1, max_size=12)
NUMBER = st.integers(0, 10**9).map(lambda number: f"{number / 1000:.3f}")
NAME = st.lists(st.one_of(WORD, st.integers(0, 10**6).map(str)), min_size=1, max_size=8).map("".join)
CELLS = {"number": NUMBER, "word": WORD, "name": NAME, "text": st.lists(WORD, min_size=1, max_size=12).map(" ".join)}


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """A table of any columns."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=9))
    columns = [
        Column(draw(st.sampled_from(["time (us)", "mean chunk latency (us)", "x"])), kind, draw(st.integers(0, 3))) for kind in kinds
    ]
    rows = draw(st.lists(st.tuples(*(CELLS[kind] for kind in kinds)), min_size=1, max_size=5))
    return Table(columns, rows, "A title of some words", "and a note", indent=draw(st.integers(0, 2)))


def text_of(table: Table, page: Page) -> list[str]:
    return [line.text for line in lay_out(table, page)]


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+(?:\.\d+)?", text)


def digits(name: str) -> list[str]:
    """The numbers of a name."""
    return re.findall(r"\d+", name)


@given(tables(), st.sampled_from([None, 40, 60, 80, 120, 200]), st.booleans())
def test_no_line_is_too_long_and_numbers_are_whole(table: Table, width: int | None, every: bool) -> None:
    lines = text_of(table, Page(width, every, rule="-"))
    longest = max(len(cell) for row in table.rows for text in row for cell in text.split())
    if width is not None and longest + 6 <= width:
        assert max(map(len, lines)) <= width
    cells = {number for row in table.rows for column, cell in zip(table.columns, row, strict=True) for number in digits(cell)}
    assert {number for line in lines for number in digits(line)} <= cells
    if every or width is None:
        shown = {number for line in lines for number in numbers(line)}
        own = {cell for row in table.rows for column, cell in zip(table.columns, row, strict=True) if column.kind == "number"}
        assert own <= shown


@given(tables())
def test_a_pipe_has_a_line_for_each_row_and_all_columns(table: Table) -> None:
    lines = text_of(table, Page())
    assert len(lines) == 3 + len(table.rows)
    for line, row in zip(lines[2:-1], table.rows, strict=True):
        assert [cell.strip() for cell in re.split(r" {2,}", line.strip())] == [cell for cell in row if cell]


def test_columns_go_by_rank_and_those_of_zeros_first() -> None:
    columns = [Column("layer", "name"), Column("first", rank=2), Column("zero", rank=1), Column("last", rank=3), Column("needed")]
    table = Table(columns, [["a", "11111111", "0.000", "33333333", "44444444"]])
    assert text_of(table, Page(40))[0].split() == ["layer", "first", "zero", "last", "needed"]
    assert text_of(table, Page(34))[0].split() == ["layer", "first", "last", "needed"]
    assert text_of(table, Page(25)) == [
        "layer     first    needed",
        "a      11111111  44444444",
        "left out: zero, last",
        "(--all, or a wider",
        "screen)",
    ]
    assert text_of(table, Page(16))[:2] == ["layer    needed", "a      44444444"]


def test_all_columns_stand_below_each_other() -> None:
    table = Table([Column("layer", "name"), Column("a", rank=1), Column("b", rank=2)], [["x", "123456", "654321"]])
    assert text_of(table, Page(14, every=True)) == ["layer       a", "x      123456", "", "layer       b", "x      654321"]


def test_rows_become_records_where_the_least_does_not_fit() -> None:
    table = Table(
        [Column("layer", "name"), Column("time (us)"), Column("share (%)")], [["conv", "1234567.890", "12.3"], ["fc", "1.000", "0.1"]]
    )
    assert text_of(table, Page(22)) == [
        "layer: conv",
        "  time (us):",
        "    1234567.890",
        "  share (%): 12.3",
        "",
        "layer: fc",
        "  time (us): 1.000",
        "  share (%): 0.1",
    ]


def test_long_names_are_shortened_before_a_column_is_left_out() -> None:
    name = "a_very_long_name_of_a_layer_of_block_17"
    table = Table([Column("layer", "name"), Column("time", rank=1)], [[name, "123.456"]])
    line = text_of(table, Page(COMFORTABLE + 9))[1]
    assert line == f"{shortened(name, COMFORTABLE)}  123.456"
    assert line.endswith("block_17  123.456")


def test_names_that_would_look_alike_are_not_shortened() -> None:
    names = [f"{'x' * 20}{'abc'[number]}{'x' * 20}" for number in range(3)]
    table = Table([Column("layer", "name"), Column("time", rank=1)], [[name, "123.456"] for name in names])
    assert [line.split()[0] for line in text_of(table, Page(45))[1:4]] == names
    assert [line.strip() for line in text_of(table, Page(38)) if "x" in line] == names


@given(NAME, st.integers(1, 30))
def test_shortened_names_keep_whole_numbers(name: str, width: int) -> None:
    short = shortened(name, width, "…")
    assert len(short) <= width
    begin, _, end = short.partition("…")
    assert name.startswith(begin)
    assert name.endswith(end)
    if short != name:
        assert set(digits(short)) <= set(digits(name))
        assert re.search("[0-9]…|…[0-9]", short) is None


@pytest.mark.parametrize(
    ("name", "width", "short"),
    [("block12_attention_weight_7", 20, "block12_..._weight_7"), ("v1.25_convolution", 12, "v1.25_...ion"), ("1234567890", 8, "...")],
)
def test_shortened(name: str, width: int, short: str) -> None:
    assert shortened(name, width) == short


def test_a_table_without_columns_says_so() -> None:
    assert text_of(Table([], [], "nothing"), Page()) == ["nothing", "no rows"]
