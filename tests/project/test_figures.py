"""Tables of figures in pages: what `dev.py bench --write` writes, and that docs/performance.md has these tables."""

from __future__ import annotations

import itertools
import json
import os
import re
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from devtools import figures
from devtools.environment import Environment
from devtools.figures import FigureTable, Row
from devtools.workspace import ROOT, Failure

STAMP = "2026-11-22, x86_64, 2 processors, Python 3.11.7."
PAGE = """# Page

Prose stays.

<!-- figures: speed/hops -->
| case | hops/s | kept |
|---|---:|---:|
| ring | 1 | a |
| torus | 2 | b |

Measured earlier.
<!-- end of figures -->

<!-- figures: speed/empty -->
<!-- end of figures -->
"""
HEADINGS = ("case", "hops/s", "kept")


def table_of(place: str) -> FigureTable:
    """The table that a benchmark of this checkout has under a name in marks."""
    benchmark, name = place.split("/")
    tables: Sequence[FigureTable] = runpy.run_path(str(figures.BENCHMARKS / f"{benchmark}.py"))["TABLES"]
    return next(table for table in tables if table.name == name)


TEXT = "\n".join(page.read_text(encoding="utf-8") for page in figures.PAGES)
PLACES = ["/".join(match[:2]) for match in figures.PLACE.findall(TEXT)]


@pytest.mark.parametrize("place", PLACES)
def test_the_page_has_the_rows_and_columns_that_are_measured(place: str) -> None:
    table = table_of(place)
    text = next(match[2] for match in figures.PLACE.findall(TEXT) if "/".join(match[:2]) == place)
    headings, *rows = figures.cells_of(text)
    assert headings == list(table.headings)
    on_page, known = [row[: table.labels] for row in rows], [list(row.labels) for row in table.rows]
    assert on_page == [labels for labels in known if labels in on_page]
    left_out = re.search(r"Not measured, so not here: (\d+) of (\d+) rows\.", text)
    missing, total = map(int, left_out.groups()) if left_out else (0, len(known))
    assert (len(on_page), total) == (len(known) - missing, len(known))
    assert {len(row) for row in rows} == {len(headings)}
    assert re.search(r"^Measured \d{4}-\d\d-\d\d, \S+, \d+ processors?, Python 3\.", text, re.MULTILINE)


def test_every_table_of_the_benchmarks_on_the_page_is_there() -> None:
    on_page = {place.split("/")[0] for place in PLACES}
    tables = {f"{name}/{each.name}" for name in on_page for each in runpy.run_path(str(figures.BENCHMARKS / f"{name}.py"))["TABLES"]}
    assert tables == set(PLACES)
    assert len(PLACES) == len(set(PLACES))


def test_prose_of_the_page_says_no_times() -> None:
    prose = figures.PLACE.sub("", figures.PAGES[0].read_text(encoding="utf-8"))
    assert not re.findall(r"\b[\d.]+ (?:ms|s|us|MB|GB|million (?:messages|events|flit)\S*)\b", prose)


def test_a_table_is_written_between_its_marks() -> None:
    rows = [(["ring"], ["3", "c"]), (["mesh"], ["4", "d"])]
    text = figures.with_table(PAGE, "speed/hops", HEADINGS, rows, STAMP)
    assert "| ring | 3 | c |\n| mesh | 4 | d |\n\nMeasured 2026-11-22, x86_64" in text
    assert "torus" not in text
    assert text.startswith("# Page\n\nProse stays.\n\n<!-- figures: speed/hops -->\n| case | hops/s | kept |\n|---|---:|---:|\n")
    assert text.endswith("<!-- end of figures -->\n\n<!-- figures: speed/empty -->\n<!-- end of figures -->\n")
    assert figures.with_table(text, "speed/hops", HEADINGS, rows, STAMP) == text


def test_rows_that_were_not_measured_are_left_out() -> None:
    rows: list[Any] = [(["ring"], ["3", "c"]), (["torus"], None), (["mesh"], None)]
    text = figures.with_table(PAGE, "speed/hops", HEADINGS, rows, STAMP)
    assert "| ring | 3 | c |\n\nMeasured 2026-11-22, x86_64" in text
    assert "Not measured, so not here: 2 of 3 rows." in text
    assert "torus" not in text
    assert "mesh" not in text


def test_a_table_of_which_nothing_was_measured_keeps_its_date() -> None:
    assert figures.with_table(PAGE, "speed/hops", HEADINGS, [(["ring"], None), (["torus"], None)], STAMP) == PAGE


def test_a_page_without_the_place_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="no place for speed/other"):
        figures.with_table(PAGE, "speed/other", HEADINGS, [(["ring"], ["1", "2"])], STAMP)
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(Failure, match="no tables of engine"):
        figures.write([page], Environment(), ["engine"])


SPEED = """
import sys
from devtools.figures import FigureTable, Row, main
TABLES = (
    FigureTable("hops", ("case", "hops/s", "kept"), [Row(["ring"], lambda: ["7", "e"]), Row(["torus"], lambda: None)]),
    FigureTable("empty", ("case", "n"), [Row(["one"], lambda: ["1"])]),
    FigureTable("elsewhere", ("case", "n"), [Row(["one"], lambda: 1 / 0)]),
)
sys.exit(main(TABLES))
"""


class _ThisPython(Environment):
    """The environment of the Python that runs the tests."""

    @property
    def python(self) -> Path:
        return Path(sys.executable)

    def variables(self) -> dict[str, str]:
        return dict(os.environ)


def test_benchmarks_are_run_for_the_tables_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "speed.py").write_text(SPEED)
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    monkeypatch.setattr(figures, "BENCHMARKS", tmp_path)
    figures.write([page], _ThisPython(), ["speed"])
    text = page.read_text()
    assert "| ring | 7 | e |\n\nMeasured" in text
    assert "torus" not in text
    assert "<!-- figures: speed/empty -->\n| case | n |\n|---|---:|\n| one | 1 |\n" in text
    (tmp_path / "speed.py").write_text("raise SystemExit(3)")
    with pytest.raises(Failure, match=r"the benchmark speed failed \(status 3\)"):
        figures.write([page], _ThisPython(), [])
    assert page.read_text() == text


def test_a_benchmark_prints_tables_and_refuses_unknown_ones(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    tables = [FigureTable("hops", ("case", "n"), [Row(["ring"], lambda: ["5"]), Row(["torus"], lambda: None)])]
    monkeypatch.setattr(sys, "argv", ["speed.py"])
    assert figures.main(tables) == 0
    assert "not measured" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["speed.py", "--json", "hops"])
    assert figures.main(tables) == 0
    assert json.loads(capsys.readouterr().out) == ["hops", ["case", "n"], [[["ring"], ["5"]], [["torus"], None]]]
    monkeypatch.setattr(sys, "argv", ["speed.py", "other"])
    assert figures.main(tables) == 2
    assert "there is no table 'other'; the names are hops" in capsys.readouterr().err


# -- Growth ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "limit_s", "figure", "reason"),
    [
        ("size", 60.0, "1.00", ""),
        ("size**1.3", 60.0, "1.30", "layers: an exponent of 1.30, above 1.15"),
        ("1 / 0", 60.0, "ended with an error", "layers: ended with an error"),
        ("time.sleep(60)", 0.5, "no end in 0.5 s", "layers: no end in 0.5 s"),
    ],
)
def test_growth_beyond_the_work_fails(seconds: str, limit_s: float, figure: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    growth = runpy.run_path(str(figures.BENCHMARKS / "exponents.py"))
    inside = growth["_row"].__globals__
    monkeypatch.setitem(inside, "MEASURE", f"import sys, time\nsize = int(sys.argv[3])\nprint([{seconds}, 0])")
    monkeypatch.setitem(inside, "LIMIT_S", limit_s)
    case = next(each for each in growth["RUNS"] if each.name == "layers")
    assert figure in growth["_row"](case)
    assert inside["failed"] == ([reason] if reason else [])


# -- Other programs ----------------------------------------------------------------------------------------------------

OTHERS = {
    "ASTRA-sim 1.0": "print('all passes finished at time: 1234')",
    "ASTRA-sim 2.x": "print('[I] <workload>: sys[0] finished, 99 cycles, exposed')",
    "Garnet": "print('all passes finished at time: 5')",
    "BookSim 2": "print('Packet latency average = 12.5 (1 samples)'); sys.exit(255)",
    "SCALE-Sim": "print('Compute cycles: 7')",
}
"""What is in place of each program: it prints an answer and ends as that does, if it gets arguments."""


def beside(program: str, script: str, folder: Path, monkeypatch: pytest.MonkeyPatch, limit_s: float = 60.0) -> tuple[str, str, str, str]:
    """The figures of a program's first case, with a script in its place."""
    peers = runpy.run_path(str(figures.BENCHMARKS / "peers.py"))
    make = next(make for (each, _), make in peers["CASE_OF"].items() if each == program)
    monkeypatch.delenv(peers["PROGRAMS"][program], raising=False)
    assert peers["beside"](program, make) is None
    other = folder / "other"
    other.write_text(f"#!{sys.executable}\nimport os, sys, time\nassert len(sys.argv) > 1\n{script}\n")
    other.chmod(0o755)
    monkeypatch.setenv(peers["PROGRAMS"][program], str(other))
    monkeypatch.setitem(peers["beside"].__globals__, "ROUNDS", 1)
    monkeypatch.setitem(peers["used"].__globals__, "LIMIT_S", limit_s)
    theirs, ours, ratio, answers = peers["beside"](program, make)
    return theirs, ours, ratio, answers


@pytest.mark.parametrize("program", OTHERS)
def test_other_programs_run_beside_ours(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours, ratio, answers = beside(program, OTHERS[program], tmp_path, monkeypatch)
    assert float(theirs) > 0
    assert float(ours) > 0
    assert float(ratio) == pytest.approx(float(theirs) / float(ours), abs=0.3)
    its, own = answers.split(", ")
    assert its in OTHERS[program]
    assert float(own) > 0


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("print('Compute cycles: 7', flush=True); os.abort()", "ended by SIGABRT"),
        ("print('Compute cycles: 7'); sys.exit(3)", "ended with status 3"),
        ("os.fork(); time.sleep(30)", "no end in 2 s"),
        ("sys.stdout.buffer.write(bytes(range(256)))", "no answer in what it printed"),
        ("print('Compute cycles: none')", "no answer in what it printed"),
        ("", "no answer in what it printed"),
    ],
)
def test_the_row_of_a_program_without_an_answer_gives_the_reason(
    script: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert beside("SCALE-Sim", script, tmp_path, monkeypatch, limit_s=2.0) == (reason, "", "", "")
    assert f"SCALE-Sim: {reason}" in capsys.readouterr().err


def test_a_number_of_a_program_that_is_none_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "print('Packet latency average = 1.2.3 (1 samples)'); sys.exit(255)"
    assert beside("BookSim 2", script, tmp_path, monkeypatch)[0] == "no answer in what it printed"


def test_the_row_of_a_program_that_cannot_be_started_gives_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = runpy.run_path(str(figures.BENCHMARKS / "peers.py"))
    monkeypatch.setenv(peers["PROGRAMS"]["BookSim 2"], str(tmp_path / "missing"))
    make = peers["CASE_OF"]["BookSim 2", "mesh 8x8, uniform 0.1"]
    assert peers["beside"]("BookSim 2", make) == ["not started: No such file or directory", "", "", ""]


NPUS_OF_TWO_LEAVES = 16


@pytest.fixture
def simgrid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The benchmark of SimGrid, and in place of a compiler a script whose program gives the ends that `ends.txt` has."""
    benchmark = runpy.run_path(str(figures.BENCHMARKS / "solvers.py"))
    monkeypatch.setitem(benchmark["beside"].__globals__, "ROUNDS", 1)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntest -s "$1" && cp {tmp_path}/ends.txt "$2"\n')
    program.chmod(0o755)
    compiler = tmp_path / "compiler"
    compiler.write_text(f"#!/bin/sh\nwhile [ $1 != -o ]; do shift; done\ncp {program} $2\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    return benchmark


def test_simgrid_runs_beside_flow(simgrid: dict[str, Any], tmp_path: Path) -> None:
    ends = simgrid["our_ends_ps"](simgrid["leaf_spine"](NPUS_OF_TWO_LEAVES))
    assert len(set(ends)) > 5
    (tmp_path / "ends.txt").write_text("".join(f"{end / 1e12!r}\n" for end in ends))
    flows, theirs, ours, ratio, last = simgrid["beside"](tmp_path, NPUS_OF_TWO_LEAVES)
    assert (flows, last) == ("240", f"{max(ends) / 1e6:.3f} us")
    assert float(theirs) < float(ours)
    assert float(ratio) < 1


def test_a_flow_that_ends_at_another_time_in_simgrid_is_an_error(simgrid: dict[str, Any], tmp_path: Path) -> None:
    ends = simgrid["our_ends_ps"](simgrid["leaf_spine"](NPUS_OF_TWO_LEAVES))
    ends[7] += 1000
    (tmp_path / "ends.txt").write_text("".join(f"{end / 1e12!r}\n" for end in ends))
    with pytest.raises(Exception, match="flow 7 ends after"):
        simgrid["beside"](tmp_path, NPUS_OF_TWO_LEAVES)


def test_without_simgrid_its_rows_are_left_out_and_the_reason_is_printed(
    simgrid: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho 'fatal error: simgrid/s4u.hpp: No such file or directory'\nexit 1\n")
    assert simgrid["beside"](tmp_path, NPUS_OF_TWO_LEAVES) is None
    assert "SimGrid is not there: fatal error: simgrid/s4u.hpp" in capsys.readouterr().err
    monkeypatch.setenv("CXX", str(tmp_path / "no-compiler"))
    assert simgrid["beside"](tmp_path / "other", NPUS_OF_TWO_LEAVES) is None
    assert "no C++ compiler" in capsys.readouterr().err


def test_flows_have_the_routes_of_the_network_that_simgrid_is_given(simgrid: dict[str, Any], tmp_path: Path) -> None:
    topology = simgrid["leaf_spine"](NPUS_OF_TWO_LEAVES)
    simgrid["write_flows"](topology, tmp_path / "flows")
    lines = (tmp_path / "flows").read_text().splitlines()
    links = len(topology.edges)
    assert lines[0] == f"{NPUS_OF_TWO_LEAVES} {links}"
    assert lines[links + 1] == "240"
    for line in lines[links + 2 :]:
        source, destination, _, count, *route = map(int, line.split())
        nodes = [topology.edges[number] for number in route]
        assert (nodes[0].source, nodes[-1].target, count) == (source, destination, len(route))
        assert all(one.target == other.source for one, other in itertools.pairwise(nodes))
        assert count == (2 if source // 8 == destination // 8 else 4)
