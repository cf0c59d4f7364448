"""Tables of results: `astra plot` draws lines, heat maps and Pareto fronts of them, and `astra report` a page."""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from astra_sim.errors import InputError
from astra_sim_report.column_names import column_name
from astra_sim_report.commands import plot as plot_command
from astra_sim_report.page import page
from astra_sim_report.plots import picture
from astra_sim_report.studies import ReportLine, front, grid, lines
from astra_sim_report.table_plots import PlotAxes, draw_table
from astra_sim_report.tables import ResultTable, read_table
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from support import warm
from support.browser import browse, in_a_browser, with_script

HEADER = ("links.bandwidth", "algorithm", "npus", "finish_ns", "cost_usd", "nothing", "audit", "error", "wall_s")


def finish_ns(bandwidth: int, algorithm: str, npus: int) -> int:
    return 1_000_000 * npus * len(algorithm) // bandwidth


ROWS = [
    (bandwidth, algorithm, npus, finish_ns(bandwidth, algorithm, npus), float(bandwidth * npus), 0, None, None, 0.25)
    for bandwidth in (25, 100, 50)
    for algorithm in ("ring", "direct")
    for npus in (64, 128)
]
FAILED = (200, "ring", 64, None, None, None, None, "does not fit", 0.5)


@pytest.fixture
def table() -> ResultTable:
    return ResultTable("r.csv", dict(zip(HEADER, zip(*ROWS, strict=True), strict=True)))


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    path = tmp_path / "r.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *ROWS, FAILED])
    return path


def plot(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [warm.astra(), "plot", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def figure_of(kind: str, table: ResultTable, **axes: Any) -> Any:
    return draw_table(kind, table, PlotAxes(**axes))


def cells_of(path: Path) -> list[tuple[object, ...]]:
    read = read_table(str(path))
    assert tuple(read.columns) == HEADER
    return list(zip(*read.columns.values(), strict=True))


def test_a_table_is_the_same_in_all_formats(csv_file: Path, tmp_path: Path) -> None:
    wanted = [*ROWS, FAILED]
    database = sqlite3.connect(tmp_path / "r.sqlite")
    quoted = ", ".join(f'"{name}"' for name in HEADER)
    database.execute(f"CREATE TABLE results ({quoted})")
    database.executemany(f"INSERT INTO results VALUES ({', '.join('?' * len(HEADER))})", wanted)
    database.commit()
    database.close()
    assert cells_of(csv_file) == cells_of(tmp_path / "r.sqlite") == wanted


def test_a_table_of_parquet_is_read(tmp_path: Path) -> None:
    pyarrow: Any = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(HEADER, map(list, zip(*ROWS, FAILED, strict=True)), strict=True))
    parquet.write_table(pyarrow.table(columns), tmp_path / "r.parquet")
    assert cells_of(tmp_path / "r.parquet") == [*ROWS, FAILED]


def test_lines_go_through_the_rows_of_each_hue_in_order_of_x(table: ResultTable) -> None:
    chosen = table.where(["npus=64"])
    drawn = lines(chosen, "links.bandwidth", "finish_ns", "algorithm")
    order = (25, 50, 100)
    assert drawn == [ReportLine(name, list(order), [finish_ns(each, name, 64) for each in order]) for name in ("ring", "direct")]


def test_a_line_is_drawn_in_the_unit_that_suits(table: ResultTable) -> None:
    figure = figure_of("line", table.where(["npus=64"]), x="links.bandwidth", y="finish_ns", hue="algorithm")
    ring, direct = figure.axes[0].get_lines()
    assert list(ring.get_xdata()) == [25, 50, 100]
    assert list(ring.get_ydata()) == [10.24, 5.12, 2.56]
    assert list(direct.get_ydata()) == [15.36, 7.68, 3.84]
    assert figure.axes[0].get_ylabel() == "time of the run (ms)"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ring", "direct"]


def test_words_along_an_axis_stand_in_their_order(table: ResultTable) -> None:
    figure = figure_of("line", table.where(["npus=64"]), x="algorithm", y="finish_ns", hue="links.bandwidth")
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["ring", "direct"]


def test_rows_that_share_a_place_are_an_error_that_says_how_they_differ(table: ResultTable) -> None:
    with pytest.raises(InputError, match=r"2 rows of r.csv have links.bandwidth = 25 and algorithm = ring, which differ in npus;"):
        lines(table, "links.bandwidth", "finish_ns", "algorithm")
    with pytest.raises(InputError, match=r"2 rows .* differ in npus; expected one: choose with --where npus=VALUE"):
        grid(table, "links.bandwidth", "algorithm", "finish_ns")


def test_a_heat_map_has_a_cell_for_each_pair(table: ResultTable) -> None:
    drawn = grid(table.where(["npus=128"]), "algorithm", "links.bandwidth", "finish_ns")
    assert (drawn.xs, drawn.ys) == (["ring", "direct"], [25, 50, 100])
    assert drawn.cells == [[finish_ns(bandwidth, name, 128) for name in drawn.xs] for bandwidth in drawn.ys]  # type: ignore[arg-type]
    figure = figure_of("heat", table.where(["npus=128"]), x="algorithm", y="links.bandwidth", hue="finish_ns", log=["hue"])
    numbers = figure.axes[0].images[0].get_array()
    assert numbers.tolist() == [[cell / 1e6 for cell in row] for row in drawn.cells if None not in row]
    assert figure.axes[1].get_ylabel() == "time of the run (ms)"


def test_a_pair_without_a_row_is_an_empty_cell(table: ResultTable) -> None:
    two = table.select([0, 6])  # 25 with ring and 100 with direct
    assert grid(two, "links.bandwidth", "algorithm", "finish_ns").cells == [[10_240_000, None], [None, 3_840_000]]


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1))
def test_no_row_is_better_than_one_on_the_front_in_both(points: list[tuple[int, int]]) -> None:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    best = front(xs, ys)

    def is_beaten(x: int, y: int) -> bool:
        return any(a <= x and b <= y and (a < x or b < y) for a, b in points)

    assert {points[place] for place in best} == {point for point in points if not is_beaten(*point)}
    assert [xs[place] for place in best] == sorted(xs[place] for place in best)


@pytest.mark.parametrize("maximize", [(), ("cost_usd",)])
def test_a_front_is_drawn_through_the_best_rows(table: ResultTable, maximize: Sequence[str]) -> None:
    figure = figure_of("pareto", table, x="cost_usd", y="finish_ns", maximize=maximize)
    (line,) = figure.axes[0].get_lines()
    xs = [row[4] for row in ROWS]
    ys = [row[3] for row in ROWS]
    signed = [-x for x in xs] if maximize else xs
    best = front(signed, ys)
    assert list(line.get_xdata()) == [xs[place] for place in best]
    assert list(line.get_ydata()) == [ys[place] / 1e6 for place in best]


def test_the_same_table_gives_the_same_file(table: ResultTable) -> None:
    def draw() -> Any:
        return figure_of("pareto", table, x="cost_usd", y="finish_ns", hue="algorithm")

    for form, begin in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        assert picture(draw, form, "A title").startswith(begin)
        assert picture(draw, form) == picture(draw, form)


def test_the_command_draws_and_says_what_it_leaves_out(csv_file: Path, tmp_path: Path) -> None:
    arguments = ("--x", "links.bandwidth", "--y", "finish_ns", "--hue", "algorithm", "--where", "npus=64", "--output", tmp_path / "x.svg")
    done = plot(csv_file, "line", *arguments)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'x.svg'}\n")
    assert done.stderr == "astra: warning: 1 of 7 rows have an error and are left out\n"
    text = (tmp_path / "x.svg").read_text()
    assert all(f">{word}</text>" in text for word in ("time of the run (ms)", "bandwidth", "ring", "direct"))
    assert plot(csv_file, *arguments, "--quiet").stderr == ""  # a table without KIND is drawn as lines


AXES = ("--x", "links.bandwidth", "--y", "finish_ns")
WRONG = [
    (("{csv}", "line", "--y", "finish_ns"), "--x is missing; expected a column of the table for line"),
    (("{csv}", "heat", *AXES), "--hue is missing; expected a column of the table for heat"),
    (("{csv}", "line", "--x", "bandwidth", "--y", "finish_ns"), "--x is 'bandwidth', which is no column of {csv}; "),
    (
        ("{csv}", "line", "--x", "npus", "--y", "algorithm"),
        "--y is 'algorithm', a column of {csv} with 'ring'; expected a column",
    ),
    (("{csv}", "line", *AXES, "--where", "npus"), "--where is 'npus'; expected COLUMN=VALUE"),
    (("{csv}", "line", *AXES, "--where", "npus=7"), "--where npus=7: no row of {csv} has it; npus is 128, 64"),
    (("{csv}", "line", *AXES, "--where", "links.bandwidth=200"), "{csv}: all 1 rows have an error; the first: does not fit"),
    (("{csv}", "line", *AXES, "--maximize", "npus"), "--maximize has no effect on line; expected it with pareto alone"),
    (("{csv}", "pareto", *AXES, "--maximize", "npus"), "--maximize is 'npus'; expected --x or --y: links.bandwidth or finish_ns"),
    (("{csv}", "pareto", *AXES, "--log", "hue"), "--log hue has no effect on pareto; expected it with heat alone"),
    (("{csv}", "heat", *AXES, "--hue", "npus", "--log", "x"), "--log x and --log y have no effect on heat"),
    (
        ("{csv}", "pareto", "--x", "finish_ns", "--y", "nothing", "--log", "y"),
        "--log y: nothing is not above 0 in all rows; expected",
    ),
    (("{csv}", "layers"), "{csv} is a table of results, which has no figure 'layers'; expected line, heat, pareto"),
    (("{csv}", "{csv}", "line", *AXES), "line of {csv}, {csv}: expected one table of results, a name that ends in .parquet, .csv, .sqlite"),
    (("{csv}", "line", *AXES, "--label", "a"), "--label is for runs; expected none with the table {csv}"),
    (("{csv}", "bars"), "'bars' is neither a run (a folder or a result.json), nor a table of results, nor a figure"),
    (("pareto",), "figure 'pareto' needs a table of results"),
    (("{none}", "line", *AXES), "{none}: no such file"),
    (("{text}", "line", *AXES), "{text}: file is not a database; expected a file of SQLite with a table 'results'"),
    (("{ragged}", "line", *AXES), "{ragged}:3: 1 cells under 2 headings; expected one for each, empty where there is nothing"),
    (("{empty}", "line", *AXES), "{empty} has no rows; expected results of runs"),
    (("{run}", "--x", "npus"), "--x is for tables of results; {run} is a run"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_what_cannot_be_drawn_is_told(arguments: Sequence[str], words: str, csv_file: Path, tmp_path: Path) -> None:
    names = {name: tmp_path / f"{name}.csv" for name in ("none", "ragged", "empty")} | {"csv": csv_file, "run": tmp_path}
    names["text"] = tmp_path / "text.sqlite"
    for name, text in (("ragged", "a,b\n1,2\n3\n"), ("empty", "a,b\n"), ("text", "not a database, but a text that is long enough")):
        names[name].write_text(text)
    done = CliRunner().invoke(plot_command, [*(each.format(**names) for each in arguments), "--output", str(tmp_path / "x.svg")])
    assert isinstance(done.exception, InputError)
    assert words.format(**names) in str(done.exception)
    assert not (tmp_path / "x.svg").exists()


CHOOSE = """
<script>
function choose(name, value, property) {
  const model = Bokeh.documents[0].get_model_by_name(name);
  model[property] = value;
}
window.addEventListener("load", () => setTimeout(() => { CHOICES }, 1000));
</script>
"""


@in_a_browser
@pytest.mark.parametrize("is_chosen", [False, True])
def test_a_page_draws_what_is_chosen(is_chosen: bool, csv_file: Path, tmp_path: Path) -> None:
    text = page([], [read_table(str(csv_file))])
    choices = [("table-0-x", "cost_usd", "value"), ("table-0-hue", "npus", "value"), ("table-0-more", [0, 1], "active")]
    if is_chosen:
        results = " ".join(f"choose({', '.join(map(json.dumps, choice))});" for choice in choices)
        text = with_script(text, CHOOSE.replace("CHOICES", results))
    result, console = browse(text, tmp_path, after_ms=2000)
    assert console == []
    points, drawn, cells, ends = (result[f"table-0-{name}"] for name in ("points", "lines", "cells", "front"))
    along = 4 if is_chosen else 0
    assert points["x"] == [row[along] for row in ROWS]
    assert points["y"] == [row[3] for row in ROWS]
    by = 2 if is_chosen else 1
    name = "NPUs" if is_chosen else "algorithm"
    assert points["label"] == [f"{name}: {row[by]}" for row in ROWS]
    lowest: dict[Any, dict[Any, Any]] = {}
    for row in ROWS:
        own = lowest.setdefault(row[by], {})
        own[row[along]] = min(own.get(row[along], row[3]), row[3])
    assert [dict(zip(xs, ys, strict=True)) for xs, ys in zip(drawn["xs"], drawn["ys"], strict=True)] == list(lowest.values())
    assert sorted(cells["value"]) == sorted(value for own in lowest.values() for value in own.values())
    best = front([row[4] for row in ROWS], [row[3] for row in ROWS]) if is_chosen else []
    assert ends["x"] == [ROWS[place][4] for place in best]
    assert ends["y"] == [ROWS[place][3] for place in best]


def test_a_page_of_a_table_says_what_it_leaves_out(csv_file: Path) -> None:
    text = page([], [read_table(str(csv_file))])
    assert "1 of 13 rows have an error and are not drawn." in text
    assert "<title>r.csv</title>" in text
    alike = page([], [ResultTable("alike.csv", {"finish_ns": [1, 1]})])
    assert "Nothing in the table varies that could be drawn." in alike


def test_columns_are_called_by_words_with_units() -> None:
    names: dict[str, tuple[list[float], str]] = {
        "finish_ns": ([2_000_000], "time of the run (ms)"),
        "workload.global_batch": ([64], "global batch"),
        "links.bandwidth_gb_per_s": ([25], "bandwidth (GB/s)"),
        "memory_bytes": ([3 * 2**30], "memory of a rank (GiB)"),
        "tokens_per_s_per_gpu": ([5.0], "throughput per GPU (tokens/s)"),
        "breakdown_compute": ([1.0], "breakdown compute"),
        "network_cost_usd": ([5], "cost of the network (USD)"),
    }
    for name, (values, label) in names.items():
        assert column_name(name, values, list(names)).label == label
    assert column_name("a.size", [1], ["a.size", "b.size"]).label == "a: size"


def test_ten_series_have_ten_colours() -> None:
    columns: dict[str, Any] = {"x": [1, 2] * 10, "kind": [f"k{number // 2}" for number in range(20)], "finish_ns": list(range(20))}
    lines_of = figure_of("line", ResultTable("r.csv", columns), x="x", y="finish_ns", hue="kind").axes[0].get_lines()
    assert len({line.get_color() for line in lines_of}) == 10
