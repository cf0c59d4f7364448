"""Shards and their merge, other axes on the command line, whole results, and runs of packages that have changed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim_sweep import journal, merge, sweep
from astra_sim_sweep.plan import read_plan
from astra_sim_sweep.shards import Shard
from support import warm
from support.sweeps import PLATFORM, Faulty, read_rows, steady

FILE = f"""
[base]
platform = "{PLATFORM}"
workload = "plugin:collective"
[axes]
workload.bytes = {{values = [1024, 4096, 16384], name = "bytes"}}
system.splits = {{values = [1, 2, 4], labels = ["one", "two", "four"], name = "splits"}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sweep.toml").write_text(FILE)
    return tmp_path


def astra(folder: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([warm.astra(), *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def axis_values(text: str, *axes: str) -> list[tuple[Any, ...]]:
    """The columns of the points of a sweep with other axes."""
    import tomllib

    plan = read_plan(tomllib.loads(text), axes=axes)
    return [tuple(point.parameters.values()) for point in plan]


# -- Shards ------------------------------------------------------------------------------------------------------------


def test_shards_are_merged_to_the_table_of_the_whole_sweep(folder: Path) -> None:
    sweep(folder / "sweep.toml", folder / "whole.csv", jobs=1).finish()
    sweep(folder / "sweep.toml", folder / "table.csv", jobs=1, shard="1/2").finish()
    early = astra(folder, "sweep", "sweep.toml", "-o", "table.csv", "--merge", status=1)
    assert "4 of 9 points have not been run by 1 shard: they belong to 2/2; expected all" in early.stderr
    assert not (folder / "table.csv").exists()
    sweep(folder / "sweep.toml", folder / "table.csv", jobs=1, shard="2/2").finish()
    assert len(read_rows(folder / "table.shard-1-of-2.csv")) == 5
    done = astra(folder, "sweep", "sweep.toml", "-o", "table.csv", "--merge", "--resume")
    assert done.stdout == "9 rows in table.csv\n"
    assert steady(read_rows(folder / "table.csv")) == steady(read_rows(folder / "whole.csv"))
    assert sweep(folder / "sweep.toml", folder / "table.csv", resume=True).finish().run == 0


def test_a_merge_says_why_runs_of_other_packages_do_not_count(folder: Path) -> None:
    sweep(folder / "sweep.toml", folder / "table.csv", jobs=1, shard="1/1").finish()
    path = str(folder / "table.shard-1-of-1.journal.sqlite")
    with journal.Journal(path) as opened:
        (versions,) = opened.packages()
        opened._database.execute("DELETE FROM packages")
        opened.add_packages({**versions, "plugins": {**versions["plugins"], "astra-sim-llm": "0.0.1"}})
        opened._database.execute("UPDATE runs SET key = randomblob(16)")
    stderr = astra(folder, "sweep", "sweep.toml", "-o", "table.csv", "--merge", status=1).stderr
    assert "the shards were run with other packages: astra-sim-llm: 0.0.1 (recorded), " in stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-o", "a.csv", "--shard", "0/2"), "--shard is '0/2'; expected i/n with i from 1 to n"),
        (("-o", "a.csv", "--shard", "half"), "--shard is 'half'; expected i/n, such as 2/8"),
        (("-o", "a.csv", "--merge"), "there is no journal of a shard; expected --shard i/n first"),
        (("-o", "a.csv", "--merge", "--shard", "1/2"), "--shard and --merge are given; --merge runs nothing"),
        (("-o", "a.csv", "--merge", "--resume", "--retry-errors"), "--retry-errors and --merge are given"),
        (("-o", "a.csv", "--worker-timeout", "3"), "worker_timeout is for the workers of Dask"),
        (("--dry-run", "--axis", "split=two"), "--axis split=two: there is no axis 'split'; did you mean 'splits'?"),
        (("--dry-run", "--axis", "splits=[1,"), "'[1,' is no value of TOML; expected such as [4, 8]"),
        (("--dry-run", "--axis", "splits"), "--axis splits: expected NAME=VALUES, such as system.splits=[4, 8]"),
    ],
)
def test_wrong_arguments_are_errors(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in astra(folder, "sweep", "sweep.toml", *arguments, status=2).stderr


def test_every_point_is_in_one_shard_and_they_are_of_like_size() -> None:
    for points in (0, 1, 7, 100):
        for of in (1, 2, 3, 8, 200):
            shards = [list(Shard(number, of).numbers(points)) for number in range(1, of + 1)]
            assert sorted(point for each in shards for point in each) == list(range(points))
            assert [len(each) for each in shards] == [Shard(number, of).count(points) for number in range(1, of + 1)]
            assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_shards_of_a_sweep_whose_last_axis_is_dear_share_it() -> None:
    dear = [sum(point % 2 for point in Shard(number, 2).numbers(1000)) for number in (1, 2)]
    assert all(abs(count - 250) < 60 for count in dear)


# -- Axes on the command line ------------------------------------------------------------------------------------------


def test_axes_have_other_values_on_the_command_line() -> None:
    assert axis_values(FILE, "bytes=[1, 2]", "splits=two") == [(1, "two"), (2, "two")]
    assert axis_values(FILE, "workload.bytes={range = [1, 3, 1]}", "splits=[8]") == [(1, 8), (2, 8), (3, 8)]
    assert axis_values(FILE, "bytes=7", "splits=1", "system.all_reduce=direct") == [(7, 1, "direct")]
    with pytest.raises(InputError, match="the axis 'splits' is given twice"):
        axis_values(FILE, "splits=1", "splits=2")


def test_a_search_has_other_axes_too(folder: Path) -> None:
    (folder / "search.toml").write_text(FILE + '[search]\nminimize = "finish_ns"\n')
    done = astra(folder, "search", "search.toml", "--dry-run", "--axis", "splits=four", "--axis", "bytes=[1024, 2048]")
    assert done.stdout.splitlines()[1:] == [
        "axis      bytes: 1024, 2048",
        "axis      splits: four",
        "2 points, all of which are run; 0 skipped",
    ]


# -- Checks without a run ----------------------------------------------------------------------------------------------


def test_a_dry_run_finds_unknown_keys(folder: Path) -> None:
    done = astra(folder, "sweep", "sweep.toml", "--dry-run", "--axis", "splits=2", "--axis", "system.spilts=[1, 2]", status=1)
    assert "6 of 6 points cannot be run; the first: system: unknown key 'spilts'; did you mean 'splits'?" in done.stderr
    document = json.loads(astra(folder, "sweep", "sweep.toml", "--dry-run", "--axis", "splits=[0, 2]", "--json", status=1).stdout)
    assert ["splits" in (point["error"] or "") for point in document["points"]] == [True, False] * 3
    (folder / "search.toml").write_text(FILE + '[search]\nminimize = "finish_ns"\n')
    done = astra(folder, "search", "search.toml", "--dry-run", "--axis", "splits=[0, 2]", status=1)
    assert "3 of 6 points cannot be run; the first: " in done.stderr


# -- Whole results -----------------------------------------------------------------------------------------------------


def test_whole_results_are_kept_and_run_again(folder: Path) -> None:
    sweep(folder / "sweep.toml", folder / "a.csv", jobs=1, axes=["bytes=1024", "splits=[1, 2]"]).finish()
    result = sweep(folder / "sweep.toml", folder / "a.csv", jobs=1, axes=["bytes=1024"], resume=True, keep=True)
    assert result.finish().run == 3  # their figures were known, their results were not
    rows = read_rows(folder / "a.csv")
    for row in rows:
        document = json.loads((folder / row["result"]).read_text())
        assert document["finish_ns"] == float(row["finish_ns"])
        assert "npu_times" in document
    assert "all figures are as recorded" in astra(folder, "rerun", rows[0]["result"]).stdout
    assert sweep(folder / "sweep.toml", folder / "a.csv", axes=["bytes=1024"], resume=True, keep=True).finish().run == 0
    (folder / rows[1]["result"]).unlink()
    assert sweep(folder / "sweep.toml", folder / "a.csv", jobs=1, axes=["bytes=1024"], resume=True, keep=True).finish().run == 1
    with pytest.raises(InputError, match="keep is given without output"):
        sweep(folder / "sweep.toml", keep=True)


# -- Packages that change ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "editable"])
def test_a_plugin_that_was_edited_under_its_version_is_run_again(tmp_path: Path, kind: str) -> None:
    faulty = Faulty(tmp_path)
    packages = tmp_path / "packages"
    if kind == "editable":
        (packages / "faulty-1.0.dist-info" / "RECORD").write_text("")
        origin = {"url": packages.as_uri(), "dir_info": {"editable": True}}
        (packages / "faulty-1.0.dist-info" / "direct_url.json").write_text(json.dumps(origin))
    faulty.write(3)
    assert faulty.run("--jobs", "1").returncode == 0
    assert [row["finish_ns"] for row in faulty.rows()] == ["1", "2", "3"]
    assert "3 known from before" in faulty.run("--jobs", "1", "--resume").stdout
    source = packages / "faulty_workload.py"
    source.write_text(source.read_text().replace("1000 * (options.number + 1)", "2000 * (options.number + 1)"))
    done = faulty.run("--jobs", "1", "--resume")
    assert "runs of other packages are not used: faulty 1.0: the source differs (" in done.stderr
    assert [row["finish_ns"] for row in faulty.rows()] == ["2", "4", "6"]
    source.write_text(source.read_text().replace("2000 * (options.number + 1)", "1000 * (options.number + 1)"))
    assert "3 known from before" in faulty.run("--jobs", "1", "--resume").stdout


# -- The journal -------------------------------------------------------------------------------------------------------


def test_what_is_added_is_on_the_disk_after_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    now = [100.0]
    monkeypatch.setattr("astra_sim_sweep.journal.os.fsync", synced.append)
    monkeypatch.setattr("astra_sim_sweep.journal.time.monotonic", lambda: now[0])
    with journal.Journal(str(tmp_path / "a.journal.sqlite")) as opened:
        for number in range(3):
            opened.add([journal.JournalRun(bytes([number]), {}, {}, None, 0.1)])
        assert len(synced) == 0
        now[0] += journal.SYNC_S
        opened.settle()
        opened.settle()
        assert len(synced) == 1
        opened.add([journal.JournalRun(b"x", {}, {}, None, 0.1)])
    assert len(synced) == 2


def test_a_journal_of_format_1_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a.journal.sqlite")
    with journal.Journal(path) as opened:
        opened.add([journal.JournalRun(b"x", {}, {"finish_ns": 1}, None, 0.1)])
        opened._database.execute("DROP TABLE packages")
        opened._database.execute("PRAGMA user_version = 1")
    with journal.Journal(path) as opened:
        run = opened.get(b"x")
        assert run is not None
        assert run.figures == {"finish_ns": 1}
        assert opened.packages() == []


def test_a_run_with_figures_comes_before_one_with_an_error(tmp_path: Path) -> None:
    failed, done = journal.JournalRun(b"x", {}, None, "no luck", 0.1), journal.JournalRun(b"x", {}, {"finish_ns": 1}, None, 0.2)
    for number, (first, second) in enumerate([(failed, done), (done, failed)]):
        with journal.Journal(str(tmp_path / f"{number}.sqlite")) as one, journal.Journal(str(tmp_path / f"{number}b.sqlite")) as other:
            one.add([first])
            other.add([second])
            assert one.merge(other) == 1
            assert one.get(b"x") == done


def test_the_whole_is_merged_from_python(folder: Path) -> None:
    for number in (1, 2, 3):
        sweep(folder / "sweep.toml", folder / "t.sqlite", jobs=1, shard=f"{number}/3", axes=["splits=[1]"]).finish()
    frame = merge(folder / "sweep.toml", folder / "t.sqlite", axes=["splits=[1]"]).frame()
    assert list(frame["bytes"]) == [1024, 4096, 16384]
