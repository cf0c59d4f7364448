"""Sweeps from points to tables: what is run, what is known, and what is written; on processes and on Dask."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import sysconfig
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim_sweep import Sweep, dask_workers, sweep
from astra_sim_sweep.journal import Journal
from astra_sim_sweep.outcomes import SweepOutcome
from astra_sim_sweep.plan import read_plan
from astra_sim_sweep.progress import line, seconds_left
from astra_sim_sweep.running import Files, SweepCounts
from astra_sim_sweep.tables import Columns, write_table
from support.sweeps import PLATFORM, Faulty, read_rows, steady, until

BASE = {"platform": PLATFORM, "workload": "plugin:collective"}
BYTES = {"workload.bytes": {"values": [1024, 4096, 16384], "name": "bytes"}}
SPLITS = {"system.splits": {"values": [1, 2, 4], "name": "splits"}}
GRID = {"base": BASE, "axes": BYTES | SPLITS}


class Answers:
    """A scheduler that returns results in any order, and records its requests."""

    def __init__(self, fail: Callable[[int], bool] = lambda _: False) -> None:
        self.asked: list[int] = []
        self._fail = fail

    def outcomes(self, numbers: Iterator[int | None]) -> Iterator[list[SweepOutcome]]:
        held: list[int] = []
        for number in numbers:
            if number is None:
                yield []
                continue
            self.asked.append(number)
            held.append(number)
            if len(held) > 3:
                random.Random(number).shuffle(held)
                yield [self._answer(held.pop())]
        yield [self._answer(number) for number in held]

    def _answer(self, number: int) -> SweepOutcome:
        if self._fail(number):
            return SweepOutcome(number, None, "no luck", 0.1)
        figures = {"finish_ns": number, "npus": 4.5} if number % 2 else {"npus": 4, "finish_ns": number, "odd": False}
        return SweepOutcome(number, figures | {"audit": ""}, None, 0.1, ("an option has no effect",))


def with_answers(tables: dict[str, Any], path: Path, answers: Answers, retry_errors: bool = False) -> Sweep:
    return Sweep(read_plan(tables), answers, Files(str(path), f"{path}.journal"), retry_errors)


# -- Runs --------------------------------------------------------------------------------------------------------------


def test_a_point_is_run_once_and_a_sweep_that_grows_runs_what_is_new(tmp_path: Path) -> None:
    table = tmp_path / "results.csv"
    first = Answers()
    with_answers({"base": BASE, "axes": BYTES}, table, first).finish()
    assert first.asked == [0, 1, 2]
    again = Answers()
    assert with_answers({"base": BASE, "axes": BYTES}, table, again).finish().known == 3
    assert again.asked == []
    more = {"workload.bytes": {"values": [512, 1024, 4096, 16384], "name": "bytes"}, "note": ["a", "b"]}
    grown = Answers()
    counts = with_answers({"base": BASE, "axes": more}, table, grown).finish()
    assert grown.asked == [0]  # the other note has the same experiments
    assert (counts.run, counts.known, counts.rows) == (2, 6, 8)
    assert [(row["bytes"], row["note"]) for row in read_rows(table)][:3] == [("512", "a"), ("512", "b"), ("1024", "a")]


def test_other_versions_are_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "results.csv"
    with_answers(GRID, table, Answers()).finish()
    monkeypatch.setattr("astra_sim_sweep.plan.versions", lambda *_: {"astra": "99.0"})
    again = Answers()
    with_answers(GRID, table, again).finish()
    assert len(again.asked) == 9


def test_errors_are_kept_until_they_are_tried_again(tmp_path: Path) -> None:
    table = tmp_path / "results.csv"
    counts = with_answers(GRID, table, Answers(lambda number: number == 4)).finish()
    assert (counts.run, counts.failed) == (9, 1)
    assert [row["error"] for row in read_rows(table)] == ["no luck" if number == 4 else "" for number in range(9)]
    known = Answers()
    with_answers(GRID, table, known).finish()
    again = Answers()
    assert with_answers(GRID, table, again, retry_errors=True).finish().failed == 0
    assert (known.asked, again.asked) == ([], [4])


def test_a_point_that_has_no_value_is_not_known_from_before(tmp_path: Path) -> None:
    tables = {"base": BASE, "axes": {"a": [0, 1]}, "derive": {"system.splits": "4 / a"}}
    counts = with_answers(tables, tmp_path / "a.csv", Answers()).finish()
    assert (counts.known, counts.run, counts.failed) == (0, 2, 1)
    counts = with_answers(tables, tmp_path / "a.csv", Answers()).finish()
    assert (counts.known, counts.run, counts.failed) == (2, 0, 1)


def test_what_has_run_is_kept_when_nobody_asks_for_more(tmp_path: Path) -> None:
    answers = Answers()
    rows = iter(with_answers(GRID, tmp_path / "results.csv", answers))
    seen = [next(rows) for _ in range(2)]
    rows.close()
    again = Answers()
    with_answers(GRID, tmp_path / "results.csv", again).finish()
    assert len(again.asked) == 9 - len(seen)


def test_what_is_there_already_is_not_lost_by_mistake(tmp_path: Path) -> None:
    files = Files.of(tmp_path / "results.csv")
    assert files.journal == str(tmp_path / "results.journal.sqlite")
    files.check(resume=True, overwrite=False)
    Path(files.journal).touch()
    with pytest.raises(InputError, match="there already; expected --resume to go on with it, or --overwrite to drop it"):
        files.check(resume=False, overwrite=False)
    (tmp_path / "results.csv").touch()
    files.check(resume=True, overwrite=False)
    Path(files.journal).unlink()
    with pytest.raises(InputError, match=r"its journal .* is not there"):
        files.check(resume=True, overwrite=False)
    with pytest.raises(InputError, match="expected one of the two"):
        files.check(resume=True, overwrite=True)
    files.check(resume=False, overwrite=True)
    with Journal(files.journal), pytest.raises(InputError, match="another sweep writes this journal"):
        files.drop()
    files.drop()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_journal_is_not_overwritten(tmp_path: Path) -> None:
    notes = tmp_path / "results.journal.sqlite"
    notes.write_text("these are my notes, and longer than the header of a database, which has a hundred bytes, so that it is read")
    with pytest.raises(InputError, match="this is not the journal of a sweep"):
        sweep(GRID, tmp_path / "results.csv", overwrite=True)
    assert notes.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"output": "results.txt"}, "'results.txt'; expected a name that ends in .parquet, .csv, .sqlite"),
        ({"jobs": 0}, "jobs is 0; expected a whole number of processes of at least 1"),
        ({"timeout": 0}, "timeout is 0; expected seconds above 0"),
        ({"resume": True}, "resume is given without output"),
        ({"retry_errors": True}, "retry_errors is for a sweep that goes on; expected resume, too"),
        ({"scheduler": "tcp://127.0.0.1:1", "client": 3}, "scheduler and client are given"),
        ({"scheduler": "tcp://127.0.0.1:1", "jobs": 2}, "jobs is for processes of this machine"),
        ({"client": 3}, "client is 3; expected a distributed.Client"),
    ],
)
def test_wrong_arguments_are_told(arguments: dict[str, Any], words: str) -> None:
    if "client" in arguments and "scheduler" not in arguments:
        pytest.importorskip("distributed")
    with pytest.raises(InputError) as caught:
        sweep(GRID, **arguments)
    assert words in str(caught.value)


def test_progress_counts_what_is_left_out() -> None:
    counts = SweepCounts(points=1000, passed=400, skipped=200, known=100, run=90, failed=2)
    assert seconds_left(counts, 9.0, 90) == pytest.approx(0.1 * (600 / 3 + 10))
    assert line(counts, 9.0, 90) == "390 of 1,000 points, 2 failed, 10.0 runs/s, 21 s left"
    assert line(SweepCounts(points=5), 0.0, 0) == "0 of 5 points"


# -- Tables ------------------------------------------------------------------------------------------------------------


def test_the_three_tables_are_the_same(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    tables = {"base": BASE, "axes": BYTES | {"npus": ["a", "b"]}}
    for ending in (".csv", ".sqlite", ".parquet"):
        with_answers(tables, tmp_path / f"results{ending}", Answers(lambda number: number == 2)).finish()
    names = ["bytes", "npus", "result_npus", "finish_ns", "odd", "audit", "error", "wall_s"]
    parquet = pyarrow.parquet.read_table(tmp_path / "results.parquet")
    with sqlite3.connect(tmp_path / "results.sqlite") as database:
        cursor = database.execute("SELECT * FROM results")
        rows = cursor.fetchall()
        assert [column[0] for column in cursor.description] == names
    text = read_rows(tmp_path / "results.csv")
    assert list(text[0]) == parquet.column_names == names
    assert [tuple(row.values()) for row in parquet.to_pylist()] == [
        tuple(bool(value) if name == "odd" and value is not None else value for name, value in zip(names, row, strict=True)) for row in rows
    ]
    assert rows[0] == (1024, "a", 4.0, 0, 0, None, None, 0.1)
    assert [row["error"] for row in text] == ["", "", "no luck", "no luck", "", ""]
    assert [row["odd"] for row in text[:1]] == ["false"]


def test_columns_do_not_depend_on_the_order_in_which_rows_come() -> None:
    rows: dict[int, dict[str, Any]] = {0: {"p": 1, "b": 1, "c": 2.5}, 1: {"p": 1, "a": "x", "b": 2}, 2: {"p": 2, "c": 1, "d": True}}
    result = set()
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        columns = Columns(["p"])
        for number in order:
            columns.add(number, rows[number])
        result.add((tuple(columns.names), tuple(columns.type_of(name) for name in columns.names)))
    assert result == {(("p", "b", "c", "a", "d", "audit", "error", "wall_s"), (int, int, float, str, bool, str, str, str))}


def test_columns_that_differ_in_capital_letters_alone_are_two_in_sqlite(tmp_path: Path) -> None:
    columns = Columns(["a", "A", "result_npus", "NPUs", "npus"])
    row = columns.row({"a": 1, "A": 2, "result_npus": 3, "NPUs": 4, "npus": 5}, {"npus": 6}, None, 0.1)
    assert row["result_result_npus"] == 6
    columns.add(0, row)
    write_table(str(tmp_path / "a.sqlite"), columns, [row])
    with sqlite3.connect(tmp_path / "a.sqlite") as database:
        database.row_factory = sqlite3.Row
        (result,) = database.execute("SELECT * FROM results")
    assert dict(result) | {"wall_s": 0.1} == dict(
        zip(["a", "A_2", "result_npus", "NPUs", "npus_2", "result_result_npus", "audit", "error", "wall_s"],
            [1, 2, 3, 4, 5, 6, None, None, 0.1], strict=True)
    )  # fmt: skip


def test_a_table_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(astra_sim.RunError, match=r"cannot write .*file/results\.csv: Not a directory"):
        write_table(str(tmp_path / "file" / "results.csv"), Columns(["p"]), [])


def test_a_full_disk_takes_the_table_and_nothing_that_was_run(tmp_path: Path) -> None:
    table = tmp_path / "results.csv"
    table.symlink_to("/dev/full")
    with pytest.raises(astra_sim.RunError, match=r"cannot write .*results\.csv: No space left on device"):
        with_answers(GRID, table, Answers()).finish()
    table.unlink()
    again = Answers()
    with_answers(GRID, table, again).finish()
    assert (again.asked, len(read_rows(table))) == ([], 9)


def test_memory_does_not_grow_with_points(tmp_path: Path) -> None:
    def peak(points: int) -> int:
        tables = {"base": BASE, "axes": {"workload.bytes": {"range": [1, points // 20, 1]}, "system.splits": {"range": [1, 20, 1]}}}
        answers = with_answers(tables, tmp_path / f"{points}.csv", Answers())
        tracemalloc.start()
        answers.finish()
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return result

    peak(100)
    assert peak(2000) < peak(200) + 150_000  # of which the test itself keeps a list of numbers


# -- Runs --------------------------------------------------------------------------------------------------------------


def test_rows_have_the_figures_of_simulate(tmp_path: Path) -> None:
    results = sweep(GRID, tmp_path / "results.csv", jobs=2)
    rows = list(results)
    assert results.counts.rows == len(rows) == 9
    for row in rows:
        result = astra_sim.simulate(
            workload={"plugin": "collective", "bytes": row["bytes"]}, platform=PLATFORM, set=[f"system.splits={row['splits']}"]
        )
        expected = {name: value for name, value in result.tables()["run"][0].items() if name not in ("run_name", "wall_s")}
        assert result.row() == result.tables()["run"][0]
        assert {name: value for name, value in row.items() if name in expected} == expected
    frame = results.frame()
    assert list(frame["bytes"]) == [1024] * 3 + [4096] * 3 + [16384] * 3
    assert list(frame["finish_ns"]) == [float(row["finish_ns"]) for row in read_rows(tmp_path / "results.csv")]


def test_a_wrong_value_is_an_error_of_its_points_and_a_wrong_key_one_of_the_sweep(tmp_path: Path) -> None:
    base = BASE | {"workload": "plugin:collective?bytes=64"}
    splits = {"system.splits": {"values": [1, 0], "name": "splits"}}
    rows = sorted(sweep({"base": base, "axes": splits}, tmp_path / "a.csv", jobs=1), key=lambda row: row["splits"])
    assert "splits" in rows[0]["error"]
    assert rows[1]["error"] is None
    with pytest.raises(InputError, match="none of the 2 points that were checked can be run: system: unknown key 'spilts'"):
        sweep({"base": base, "axes": {**splits, "system.spilts": ["x"]}}, tmp_path / "b.csv")
    assert not (tmp_path / "b.journal.sqlite").exists()


def test_an_option_that_one_of_several_components_has_is_an_error_of_the_others(tmp_path: Path) -> None:
    networks = ["plugin:analytical", "plugin:flow"]
    tables = {"base": BASE | {"workload": "plugin:collective?bytes=64"}, "axes": {"network": networks, "network.congestion": ["unaware"]}}
    rows = {row["network"]: row["error"] for row in sweep(tables, tmp_path / "a.csv", jobs=1)}
    assert rows["plugin:analytical"] is None
    assert "unknown key 'congestion'" in rows["plugin:flow"]


@pytest.mark.parametrize("note", [["a", "b"], {"uniform": [0, 1]}])
def test_an_axis_that_nothing_reads_is_an_error(note: Any, tmp_path: Path) -> None:
    drawn = {"sample": {"method": "random", "points": 2, "axes": ["note"]}} if isinstance(note, dict) else {}
    with pytest.raises(InputError, match=r"sweep: axes: note: nothing reads it: it is no option of an experiment \(section\.key\)"):
        sweep({"base": BASE, "axes": BYTES | {"note": note}, **drawn}, tmp_path / "a.csv")
    for used in ({"skip": {"odd": "note == 'b'"}}, {"derive": {"mark": "1 if note == 'a' else 2"}}):
        if not drawn:
            sweep({"base": BASE, "axes": BYTES | {"note": note}, **used}, tmp_path / "a.csv")
    if not drawn:  # a column that goes in step with an option names its values
        sweep({"base": BASE, "axes": {"note": note, "workload.bytes": {"values": [1024, 4096], "zip": "note"}}}, tmp_path / "a.csv")


def test_warnings_of_runs_come_once(tmp_path: Path) -> None:
    counts = with_answers(GRID, tmp_path / "results.csv", Answers()).finish()
    assert list(counts.warnings) == ["an option has no effect"]


def test_workers_that_do_not_start_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astra_sim_sweep.worker.sys.executable", "/bin/false")
    with pytest.raises(astra_sim.RunError, match="workers do not start: the worker process ended with status 1"):
        sweep(GRID, jobs=2).finish()


def test_a_worker_of_other_versions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astra_sim_sweep.plan.versions", lambda *_: {"astra": "99.0"})
    with pytest.raises(InputError, match=r"a worker on .* has other packages: astra: 99\.0 \(here\), .* \(there\); .*; expected the"):
        sweep(GRID, jobs=1).finish()


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "astra_sim", "sweep", *arguments]
    return subprocess.run(run, cwd=folder, capture_output=True, text=True, check=False)


def test_what_came_of_a_sweep_as_json(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(
        f'[base]\nplatform = "{PLATFORM}"\nworkload = "plugin:collective"\n'
        '[axes]\nworkload.bytes = [1024, 2048, 4096]\nsystem.splits = [1, 0]\n[skip]\nlarge = "workload.bytes == 4096"\n'
    )
    plan = json.loads(command(tmp_path, "sweep.toml", "--dry-run", "--json").stdout)
    assert plan["columns"] == ["workload.bytes", "system.splits", "error"]
    assert [list(point.values())[:2] for point in plan["points"]] == [[1024, 1], [1024, 0], [2048, 1], [2048, 0]]
    assert plan["skipped_by"] == {"large": 2}
    done = command(tmp_path, "sweep.toml", "-o", "new/rows.csv", "--jobs", "1", "--json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["files"], result["rows"], result["failed"], result["skipped"]) == (1, ["new/rows.csv"], 4, 2, 2)
    assert "splits" in result["first_error"]
    assert "astra: error: 2 of 4 points failed" in done.stderr
    assert (tmp_path / "new" / "rows.csv").is_file()
    both = command(tmp_path, "sweep.toml", "-o", "a.csv", "--json", "--quiet")
    assert (both.returncode, json.loads(both.stdout)) == (2, {"error": "--json and --quiet are given; expected one of the two"})


def test_a_dry_run_prints_the_points_and_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(
        f'[base]\nplatform = "{PLATFORM}"\nworkload = "plugin:collective"\n'
        '[axes]\nworkload.bytes = {logspace = [1024, 4096, 3], name = "bytes"}\nsystem.splits = [1, 2]\n'
        '[derive]\nper_chunk = "bytes / system.splits"\n[skip]\nsmall = "per_chunk < 1024"\n'
    )
    done = command(tmp_path, "sweep.toml", "--dry-run")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "bytes,system.splits,per_chunk,error",
        "1024,1,1024,",
        "2048,1,2048,",
        "2048,2,1024,",
        "4096,1,4096,",
        "4096,2,2048,",
    ]
    assert done.stderr == "5 points; 1 skipped (small 1)\n"
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.toml"]
    refused = command(tmp_path, "sweep.toml")
    assert (refused.returncode, "--output is missing" in refused.stderr) == (2, True)


# -- Dask --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a program of Dask, which ends with the test."""
    pytest.importorskip("distributed", reason="distributed is not installed")
    program = shutil.which("dask", path=sysconfig.get_path("scripts"))
    assert program is not None
    started: list[subprocess.Popen[bytes]] = []

    def begin(environment: dict[str, str], *arguments: str) -> subprocess.Popen[bytes]:
        with (tmp_path / f"dask{len(started)}.log").open("wb") as log:
            process = subprocess.Popen([program, *arguments], env=environment, stdout=log, stderr=log, cwd=tmp_path)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


def test_one_process_two_and_dask_with_a_worker_that_is_killed_write_the_same(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    faulty = Faulty(tmp_path)
    faulty.write(40, seconds=0.03, fail=7, crash=11)
    file = tmp_path / "scheduler.json"
    start(faulty.environment, "scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    until(file.exists, "the scheduler is there")
    worker = ("worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-dashboard", "--no-nanny")
    workers = [start(faulty.environment, *worker, "--name", name) for name in ("a", "b")]
    tables = []
    for jobs in ("1", "2"):
        assert faulty.run("--overwrite", "--jobs", jobs).returncode == 1
        tables.append(steady(faulty.rows()))
    address = json.loads(file.read_text())["address"]
    before = len(faulty.begun)
    process = faulty.begin("--overwrite", "--scheduler", address)
    until(lambda: len(faulty.begun) > before + 10, "some runs have begun on Dask")
    os.kill(workers[0].pid, signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1, err
    tables.append(steady(faulty.rows()))
    assert len(tables[0]) == 40
    assert tables[0] == tables[1] == tables[2]
    assert {int(row["number"]) for row in tables[2] if row["error"]} == {7, 11}


def test_a_scheduler_that_is_not_there_is_told(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    with pytest.raises(InputError, match=r"scheduler 'nonsense': .*expected such as tcp://"):
        sweep(GRID, tmp_path / "a.csv", scheduler="nonsense")


@pytest.fixture
def event_loop() -> Iterator[Any]:
    """An event loop that runs in a thread of its own. Dask fails where the thread of its own loop does not start within 10 s."""
    ioloop = pytest.importorskip("tornado.ioloop", reason="distributed is not installed")
    loops: Queue[tuple[Any, asyncio.Event]] = Queue()

    async def run() -> None:
        end = asyncio.Event()
        loops.put((ioloop.IOLoop.current(), end))
        await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    loop, end = loops.get()
    yield loop
    loop.add_callback(end.set)
    thread.join()


def test_a_client_of_dask_stays_open(tmp_path: Path, event_loop: Any) -> None:
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    options = {"processes": False, "n_workers": 1, "threads_per_worker": 2, "dashboard_address": ":0", "loop": event_loop}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        for number in range(2):
            rows = list(sweep(GRID, tmp_path / f"{number}.csv", client=client))
            assert sorted((row["bytes"], row["splits"]) for row in rows) == [(b, s) for b in (1024, 4096, 16384) for s in (1, 2, 4)]
            assert {row["error"] for row in rows} == {None}
        assert client.submit(sum, [1, 2]).result() == 3
    dask_workers.end_idle()
