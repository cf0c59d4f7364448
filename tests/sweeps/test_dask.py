"""Schedulers of Dask: found by address or file, without workers, and with workers of other packages."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from astra_sim import InputError
from astra_sim_sweep import sweep
from support.sweeps import PLATFORM, Faulty, until

pytest.importorskip("distributed", reason="distributed is not installed")

TABLES = {"base": {"platform": PLATFORM, "workload": "plugin:collective"}, "axes": {"workload.bytes": [1024, 4096]}}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a program of Dask, which ends with the test."""
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


WORKER = ("--nthreads", "1", "--no-dashboard", "--no-nanny")


def test_a_scheduler_file_a_missing_worker_and_a_worker_of_other_packages(
    tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    faulty = Faulty(tmp_path)
    faulty.write(6)
    file = tmp_path / "scheduler.json"
    start(faulty.environment, "scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    until(file.exists, "the scheduler is there")
    done = faulty.run("--scheduler", "scheduler.json", "--worker-timeout", "1")
    assert done.returncode == 1
    assert "has had no worker for 1 s (--worker-timeout); expected some, such as of dask worker tcp://" in done.stderr
    # The same version, and another source.
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "packages", other)
    source = other / "faulty_workload.py"
    source.write_text(source.read_text().replace("1000 *", "2000 *"))
    environment = {**faulty.environment, "PYTHONPATH": faulty.environment["PYTHONPATH"].replace(str(tmp_path / "packages"), str(other))}
    wrong = start(environment, "worker", "--scheduler-file", str(file), *WORKER)
    done = faulty.run("--scheduler", "scheduler.json", "--resume")
    assert done.returncode == 2
    assert "has other packages: faulty 1.0: the source differs (" in done.stderr
    assert not faulty.table.exists()
    wrong.kill()
    wrong.wait()
    start(faulty.environment, "worker", "--scheduler-file", str(file), *WORKER)
    done = faulty.run("--scheduler", "scheduler.json", "--resume", "--keep")
    assert done.returncode == 0, done.stderr
    assert [row["finish_ns"] for row in faulty.rows()] == [str(number + 1) for number in range(6)]
    result = json.loads((tmp_path / faulty.rows()[2]["result"]).read_text())
    assert result["finish_ns"] == 3
    assert result["invocation"]["command"].startswith("astra sweep sweep.toml -o results.csv --scheduler scheduler.json")


def test_a_worker_without_the_package_is_told_by_its_name(tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    faulty = Faulty(tmp_path)
    faulty.write(2)
    broken = tmp_path / "broken" / "astra_sim_sweep"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'astra_sim_sweep'\", name='astra_sim_sweep')\n")
    file = tmp_path / "scheduler.json"
    start(faulty.environment, "scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    until(file.exists, "the scheduler is there")
    without = {**faulty.environment, "PYTHONPATH": f"{broken.parent}:{faulty.environment['PYTHONPATH']}"}
    start(without, "worker", "--scheduler-file", str(file), *WORKER)
    done = faulty.run("--scheduler", str(file))
    assert done.returncode == 1
    assert "has no package astra-sim-sweep that runs: ModuleNotFoundError: No module named 'astra_sim_sweep'" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no such file, for 0.3 s (--worker-timeout); expected the output of dask scheduler --scheduler-file"),
        ("{}", "not a file of a scheduler of Dask"),
        ("nonsense", "not a file of a scheduler of Dask"),
        ('{"address": 3}', "its address is 3"),
    ],
)
def test_a_wrong_scheduler_file_is_told(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "scheduler.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError) as caught:
        sweep(TABLES, scheduler=str(file), worker_timeout=0.3)
    assert str(caught.value).startswith(f"scheduler {file}: ")
    assert words in str(caught.value)


def test_a_scheduler_file_that_comes_later_is_waited_for(tmp_path: Path, start: Callable[..., subprocess.Popen[bytes]]) -> None:
    from distributed import LocalCluster

    file = tmp_path / "scheduler.json"
    with LocalCluster(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:  # type: ignore[no-untyped-call]
        later = threading.Timer(0.5, file.write_text, [json.dumps({"address": cluster.scheduler_address})])
        later.start()
        rows = list(sweep(TABLES, scheduler=str(file), worker_timeout=30))
        later.join()
    assert sorted(row["workload.bytes"] for row in rows) == [1024, 4096]
