"""Whatever ends a sweep or a part of it, no finished row is lost, and the rest is run."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import astra_sim
import pytest
from astra_sim_sweep import journal
from support.sweeps import Faulty, steady, until


@pytest.fixture
def faulty(tmp_path: Path) -> Faulty:
    return Faulty(tmp_path)


def kept(path: Path) -> int:
    """How many runs a journal has, as another process sees it."""
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM runs").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def children(process: int) -> list[int]:
    """The workers of a sweep."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False).stdout
    return [int(word) for word in listed.split()]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=lambda how: how.name)
def test_what_was_finished_when_the_main_process_ended_is_not_run_again(faulty: Faulty, how: signal.Signals) -> None:
    faulty.write(40, seconds=0.05)
    process = faulty.begin("--jobs", "2")
    until(lambda: kept(faulty.journal) >= 8, "some runs are kept")
    workers = children(process.pid)
    assert len(workers) == 2
    process.send_signal(how)
    _, err = process.communicate(timeout=60)
    until(lambda: not any(map(alive, workers)), "workers end with their parent", 10)
    assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130)
    if how == signal.SIGINT:
        assert "interrupted; " in err
        assert "--resume goes on" in err
        assert "Traceback" not in err
    assert not faulty.table.exists()
    with sqlite3.connect(faulty.journal) as database:
        before = {int(number) for (number,) in database.execute("SELECT json_extract(parameters, '$.number') FROM runs")}
    begun = len(faulty.begun)
    assert len(before) >= 8
    done = faulty.run("--resume")
    assert done.returncode == 0, done.stderr
    again = faulty.begun[begun:]
    assert sorted(again) == sorted(set(range(40)) - before)
    rows = faulty.rows()
    assert [int(row["number"]) for row in rows] == list(range(40))
    assert [float(row["finish_ns"]) for row in rows] == list(range(1, 41))


def test_ctrl_c_is_for_the_main_process_alone(faulty: Faulty) -> None:
    """A terminal sends it to all processes of a group: a worker that has just begun would print where it was."""
    faulty.write(40, seconds=0.05)
    process = faulty.begin("--jobs", "2")
    until(lambda: len(children(process.pid)) == 2, "workers have started")
    groups = {os.getpgid(worker) for worker in children(process.pid)}
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert os.getpgid(0) not in groups
    assert "Traceback" not in err


@pytest.mark.parametrize("method", ["exhaustive", "optuna"])
def test_a_search_that_is_killed_goes_on_and_finds_the_same(faulty: Faulty, tmp_path: Path, method: str) -> None:
    pytest.importorskip("optuna")
    trials = "trials = 24\n" if method == "optuna" else ""
    faulty.write(40, f'[search]\nmaximize = "finish_ns * (number % 7)"\nmethod = "{method}"\n{trials}', seconds=0.03)
    process = faulty.begin("--jobs", "1", command="search")
    until(lambda: kept(faulty.journal) >= 6, "some runs are kept")
    process.kill()
    process.communicate(timeout=60)
    before = kept(faulty.journal)
    begun = faulty.begun
    done = faulty.run("--jobs", "1", "--resume", command="search")
    assert done.returncode == 0, done.stderr
    again = faulty.begun[len(begun) :]
    assert len(set(begun) & set(again)) <= len(begun) - before  # what was under way, nothing else
    whole = steady(faulty.rows())
    assert faulty.run("--jobs", "1", "--overwrite", command="search").returncode == 0
    if method == "exhaustive":
        assert steady(faulty.rows()) == whole
    # What a sampler proposes depends on what it knew when it was asked, and so on when it was killed.
    assert len(whole) == len(faulty.rows()) == (24 if method == "optuna" else 40)
    assert all(int(row["finish_ns"]) == int(row["number"]) + 1 for row in whole)


def test_points_of_a_worker_that_is_killed_are_done_by_others(faulty: Faulty) -> None:
    faulty.write(40, seconds=0.05)
    process = faulty.begin("--jobs", "2")
    until(lambda: kept(faulty.journal) >= 4, "some runs are kept")
    os.kill(children(process.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "40 rows" in out
    assert [row["error"] for row in faulty.rows()] == [""] * 40
    twice = [number for number, count in Counter(faulty.begun).items() if count > 1]
    assert len(twice) <= 1  # the one that the worker was at


def test_a_point_that_crashes_fails_or_hangs_is_an_error_beside_its_parameters(faulty: Faulty, tmp_path: Path) -> None:
    """A worker that ends once with a point is none."""
    (tmp_path / "killer").touch()
    faulty.write(12, crash=5, fail=7, hang=9, killer=tmp_path / "killer")
    done = faulty.run("--jobs", "2", "--timeout", "5")
    assert done.returncode == 1
    assert "12 rows in results.csv (3 with an error)" in done.stdout
    assert "3 of 12 points failed" in done.stderr
    errors = {int(row["number"]): row["error"] for row in faulty.rows() if row["error"]}
    assert (errors[5], errors[9]) == ("the worker process was ended by SIGSEGV, twice", "the run took more than 5 s (--timeout)")
    assert errors[7].endswith("plugin 'faulty' failed: RuntimeError: no luck")
    assert [row["finish_ns"] for row in faulty.rows()] == ["" if n in errors else str(n + 1) for n in range(12)]
    counts = Counter(faulty.begun)
    assert (counts[5], counts[7], counts[9]) == (2, 1, 1)
    assert sum(counts.values()) <= 12 + 1 + 1


def test_a_full_disk_loses_nothing_that_was_kept(faulty: Faulty) -> None:
    """No file may have more than 120 KB: writing it fails, as on a full disk."""
    faulty.write(400)
    command = f"ulimit -f 120; exec {sys.executable} -m astra_sim sweep sweep.toml -o {faulty.table.name}"
    done = subprocess.run(["bash", "-c", command], cwd=faulty.folder, env=faulty.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "results.journal.sqlite: " in done.stderr
    assert "--resume goes on" in done.stderr
    assert "Traceback" not in done.stderr
    assert not faulty.table.exists()
    with sqlite3.connect(faulty.journal) as database:
        before = {int(number) for (number,) in database.execute("SELECT json_extract(parameters, '$.number') FROM runs")}
    assert len(before) > 10
    begun = len(faulty.begun)
    assert faulty.run("--resume").returncode == 0
    assert sorted(faulty.begun[begun:]) == sorted(set(range(400)) - before)
    assert len(faulty.rows()) == 400


def test_one_sweep_at_a_time_writes_a_journal(tmp_path: Path) -> None:
    path = str(tmp_path / "a.journal.sqlite")
    with journal.Journal(path), pytest.raises(astra_sim.InputError, match="another sweep writes this journal"):
        journal.Journal(path)


def test_what_is_no_journal_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.journal.sqlite"
    path.write_text("these are my notes, which nobody may change, and which are longer than a header")
    with pytest.raises(astra_sim.InputError, match="not the journal of a sweep"):
        journal.Journal(str(path))
    assert path.read_text().startswith("these are my notes")
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE mine (a)")
    with pytest.raises(astra_sim.InputError, match="not the journal of a sweep"):
        journal.Journal(str(path))
