"""Plugins of one file (`-p FILE`), plugins that are switched off (`-p no:NAME`), and what results, reruns and sweeps know of them."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from support import warm
from support.sweeps import until

PLUGIN = """
from astra_sim import CollectiveProvider, hookimpl
from astra_sim.schedule import Schedule, exchange, shift

def one_after_another(request):
    block = request.bytes // request.ranks
    steps = [exchange(shift(k), block, pieces=["unnamed"]) for k in range(1, request.ranks)]
    return Schedule.shared(request, steps * TIMES)

TIMES = 2

@hookimpl
def astra_collectives():
    return [CollectiveProvider("filed", "From a file", one_after_another)]
"""
EXPERIMENT = """
workload = "plugin:collective?bytes=4000000"
system = "plugin:astra1?all_reduce=filed"
[platform]
dimensions = [{ topology = "ring", size = 4, links = 2, link_bandwidth_gb_per_s = 50, link_latency_ns = 500 }]
"""
SWEEP = """
[base]
experiment = "exp.toml"
[axes]
"run.passes" = [1, 2, 3]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "filed_plugin.py").write_text(PLUGIN)
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def astra(words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own: what `-p` chooses holds for a process."""
    done = subprocess.run([warm.astra(), *shlex.split(words)], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr + done.stdout
    return done


def run(words: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(astra(words).stdout)
    return result


def test_a_run_uses_and_records_a_plugin_of_one_file(folder: Path) -> None:
    result = run("-p filed_plugin.py exp.toml --json --output out")
    written = json.loads((folder / "out" / "result.json").read_text())
    assert result["algorithms"][0]["algorithm"] == "filed"
    assert result["versions"]["plugins"]["filed_plugin.py"] == "file"
    assert written["invocation"]["plugins"] == [str(folder / "filed_plugin.py")]
    digest = result["versions"]["sources"]["filed_plugin.py"]
    (folder / "filed_plugin.py").write_text(PLUGIN.replace("TIMES = 2", "TIMES = 3"))
    other = run("-pfiled_plugin.py run exp.toml --json")
    assert other["finish_ns"] > result["finish_ns"]
    assert other["versions"]["sources"]["filed_plugin.py"] != digest


def test_a_result_runs_again_with_its_plugins(folder: Path) -> None:
    astra("-p filed_plugin.py -p no:network_flow exp.toml --output out")
    assert "all figures are as recorded" in astra("-p filed_plugin.py rerun out").stdout
    # A result chooses no code.
    assert f"expected astra -p {folder / 'filed_plugin.py'} rerun" in astra("rerun out", 2).stderr
    (folder / "elsewhere").mkdir()
    (folder / "filed_plugin.py").rename(folder / "elsewhere" / "filed_plugin.py")
    assert "all figures are as recorded" in astra("-p elsewhere/filed_plugin.py rerun out").stdout
    (folder / "filed_plugin.py").write_text(PLUGIN.replace("TIMES = 2", "TIMES = 3"))
    changed = astra("-p filed_plugin.py rerun out", 1).stdout
    assert "filed_plugin.py file: the source differs" in " ".join(changed.split())


def test_a_plugin_is_switched_off(folder: Path) -> None:
    error = astra("-p filed_plugin.py -p no:network_flow exp.toml --network plugin:flow", 2).stderr
    assert "there is no network plugin 'flow'" in error
    assert "(switched off: -p no:network_flow)" in error
    assert "pip install" not in error
    names = {(each["kind"], each["name"]) for each in run("-p no:astra-sim-network-flow plugins --json")["components"]}
    assert ("network", "packet") in names
    assert ("network", "flow") not in names


def test_a_plugin_of_one_file_may_bring_a_command_and_take_a_built_in_name(folder: Path) -> None:
    (folder / "more.py").write_text(
        "import click\nfrom astra_sim import Provider, hookimpl\n\n"
        "@click.command()\ndef hello():\n    click.echo('hello')\n\n"
        "@hookimpl\ndef astra_commands():\n    return [Provider('hello', 'Say hello', hello)]\n"
    )
    assert astra("-p more.py hello").stdout == "hello\n"
    (folder / "filed_plugin.py").write_text(PLUGIN.replace('"filed"', '"ring"'))
    own, built_in = "system.all_reduce=ring@filed_plugin", "system.all_reduce=ring"
    times = [run(f"-p filed_plugin.py exp.toml --json --set {each}")["finish_ns"] for each in (own, built_in)]
    assert times[0] > times[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-p none.py", "-p none.py: No such file or directory"),
        ("-p exp.toml", "-p exp.toml: expected no:NAME, or a Python file whose name is an identifier, such as my_plugin.py"),
        ("-p no:network_flwo", "-p no:network_flwo: no installed plugin or distribution has this name; did you mean 'network_flow'?"),
        ("-p broken.py", "broken.py failed: ZeroDivisionError: division by zero"),
        ("-p wrong.py", "wrong.py failed: SyntaxError"),
        ("-p empty.py", "empty.py: no function is marked with @hookimpl; expected hooks such as astra_collectives"),
        ("-p more/json.py", "json.py: there is a Python module 'json' already; expected another name of the file"),
    ],
)
def test_what_is_wrong_is_named(words: str, message: str, folder: Path) -> None:
    texts = {"broken": "1 / 0", "wrong": "def", "empty": "x = 1", "more/json": PLUGIN}
    (folder / "more").mkdir()
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    assert message in astra(f"{words} run exp.toml", 2).stderr


def test_workers_of_sweeps_use_the_plugins_of_their_parent(folder: Path) -> None:
    astra("-p filed_plugin.py sweep sweep.toml --output rows.csv --jobs 2 --quiet")
    first = (folder / "rows.csv").read_text().splitlines()
    assert len(first) == 4
    assert not [row for row in first if "error" in row.lower()][1:]
    astra("-p filed_plugin.py sweep sweep.toml --output rows.csv --resume --quiet")
    assert (folder / "rows.csv").read_text().splitlines() == first
    (folder / "filed_plugin.py").write_text(PLUGIN.replace("TIMES = 2", "TIMES = 3"))
    astra("-p filed_plugin.py sweep sweep.toml --output rows.csv --resume --quiet")
    second = (folder / "rows.csv").read_text().splitlines()
    assert second[0] == first[0]
    column = first[0].split(",").index("finish_ns")
    times = [[float(row.split(",")[column]) for row in rows[1:]] for rows in (first, second)]
    assert all(new > old for old, new in zip(*times, strict=True))


def test_a_kept_result_of_a_sweep_runs_again(folder: Path) -> None:
    astra("-p filed_plugin.py sweep sweep.toml --output rows.csv --keep --quiet")
    (result, *_) = sorted(folder.glob("rows*/**/*.json"))
    assert "all figures are as recorded" in astra(f"-p filed_plugin.py rerun {result}").stdout


def test_workers_of_dask_elsewhere_are_sent_the_file(folder: Path) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed")
    dask = shutil.which("dask", path=sysconfig.get_path("scripts"))
    assert dask is not None
    (folder / "elsewhere").mkdir()
    scheduler = folder / "scheduler.json"
    programs = [["scheduler", "--port", "0", "--no-dashboard"], ["worker", "--nthreads", "1", "--no-dashboard", "--no-nanny"]]
    started = []
    try:
        for words in programs:
            with (folder / f"{words[0]}.log").open("wb") as log:
                command = [dask, *words, "--scheduler-file", str(scheduler)]
                started.append(subprocess.Popen(command, cwd=folder / "elsewhere", stdout=log, stderr=log))
            until(scheduler.exists, "the scheduler is there")
        astra("-p filed_plugin.py sweep sweep.toml --output rows.csv --scheduler scheduler.json --quiet")
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert len((folder / "rows.csv").read_text().splitlines()) == 4


def test_the_same_from_python(folder: Path) -> None:
    program = (
        "import astra_sim, sys\n"
        "astra_sim.use_plugins('filed_plugin.py', 'no:network_flow')\n"
        "result = astra_sim.simulate('exp.toml')\n"
        "print(result.finish_ns, [word.rpartition('/')[2] for word in result.invocation['plugins']])\n"
        "from pathlib import Path\n"
        "path = Path('filed_plugin.py'); path.write_text(path.read_text().replace('TIMES = 2', 'TIMES = 3'))\n"
        "astra_sim.use_plugins(path)\n"
        "print(astra_sim.simulate('exp.toml').finish_ns > result.finish_ns)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["True"]
    assert "['filed_plugin.py', 'no:network_flow']" in done.stdout
