"""Files are written also if no process reads the output, and a command continues if none reads its messages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT
from support.formats import SCALE_SIM

RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
RUN = ("--workload", "plugin:collective?bytes=1048576", "--platform", RING)
CFG = "[general]\nrun_name = small\n" + SCALE_SIM
EXPERIMENT = f'workload = "plugin:collective?bytes=1048576"\nplatform = "{RING}"\n'
GEMMS = "m,n,k,microseconds\n" + "".join(f"{size},{size},{size},{size**3 / 2e8 + 5}\n" for size in range(512, 6144, 256))
FILES = {
    "small.cfg": CFG,
    "small.csv": "Layer, M, N, K,\none, 8, 8, 8,\n",
    "e.toml": EXPERIMENT,
    "s.toml": '[base]\nexperiment = "e.toml"\n[axes]\n"system.splits" = [1, 2]\n',
    "b.toml": '[[expect]]\nexperiment = "e.toml"\ncheck = "finish_ns < 1e9"\n',
    "gemms.csv": GEMMS,
}
COMMANDS = {
    "run": (*RUN, "--output", "out"),
    "run --json": (*RUN, "--output", "out", "--json"),
    "run --timeline": (*RUN, "--timeline", "out/t.json"),
    "compare": ("compare", *RUN, "--set", "system.splits=1", "--set", "system.splits=2", "--output", "out"),
    "compare --timeline": ("compare", *RUN, "--set", "system.splits=1", "--set", "system.splits=2", "--timeline", "out/t.json"),
    "explain": ("explain", *RUN, "--output", "out"),
    "flows": ("flows", "--platform", RING, "--network", "plugin:packet", "--pattern", "permutation", "--bytes", "1000", "--output", "out"),
    "traffic": ("traffic", "--platform", RING, "--rate", "0.01", "--warm-up", "10", "--period", "100", "--output", "out"),
    "systolic": ("systolic", "--config", "small.cfg", "--topology", "small.csv", "--gemm", "--output", "out"),
    "generate": (
        *("generate", "--model", "resnet50", "--parallel", "DATA", "--npus", "4", "--batch-per-npu", "1"),
        *("--output", "out/w.toml", "--json"),
    ),
    "convert": ("convert", str(ROOT / "examples" / "workloads" / "vgg16.toml"), "out/w.txt", "--json"),
    "device": ("device", "h100", "--output", "out/d.toml"),
    "calibrate gemm": ("calibrate", "gemm", "gemms.csv", "--device", "h100", "--output", "out/d.toml"),
    "show": ("show", "r", "npus", "--json", "--output", "out/t.csv"),
    "report": ("report", "r", "--output", "out/p.html"),
    "timeline": ("timeline", "r", "--output", "out/t.json"),
    "sweep": ("sweep", "s.toml", "--output", "out/t.csv", "--jobs", "1"),
    "assert": ("assert", "b.toml", "--junit", "out/j.xml"),
    "plugins new": ("plugins", "new", "report", "mine", "--output", "out"),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    assert astra(folder, *RUN, "--output", "r", "--quiet") == (0, "")
    return folder


def unread() -> int:
    """A descriptor of a pipe without a reader."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def astra(folder: Path, *arguments: str, out: int = subprocess.DEVNULL, error: int = subprocess.PIPE) -> tuple[int, str]:
    """The status and messages of a command."""
    command = [sys.executable, "-m", "astra_sim", *arguments]
    done = subprocess.run(command, cwd=folder, stdout=out, stderr=error, text=True, check=False)
    for each in (out, error):
        if each > 2:
            os.close(each)
    return done.returncode, done.stderr or ""


def written(folder: Path) -> list[str]:
    """The files that a command has written, and moves them out of the way."""
    names = sorted(str(path.relative_to(folder / "out")) for path in (folder / "out").rglob("*") if path.is_file())
    (folder / "out").rename(folder / f"out{len(list(folder.iterdir()))}")
    return names


@pytest.mark.parametrize("name", COMMANDS)
def test_files_are_written_although_nobody_reads(inputs: Path, name: str) -> None:
    status, result = astra(inputs, *COMMANDS[name], out=unread())
    assert (status, [line for line in result.splitlines() if "warning" not in line]) in ((0, []), (1, []))
    assert written(inputs)  # all of them, since they are a set


@pytest.mark.parametrize("name", ["run", "run --timeline", "sweep", "assert"])
def test_files_are_written_although_nobody_reads_messages_either(inputs: Path, name: str) -> None:
    assert astra(inputs, *COMMANDS[name], error=unread())[0] == 0
    whole = written(inputs)
    assert whole
    assert astra(inputs, *COMMANDS[name], out=unread(), error=unread())[0] in (0, 1)
    assert written(inputs) == whole


def test_figures_and_the_error_are_said_where_files_cannot_be_written(inputs: Path) -> None:
    (inputs / "file").write_text("")
    command = [sys.executable, "-m", "astra_sim", *RUN, "--timeline", "file/t.json"]
    done = subprocess.run(command, cwd=inputs, capture_output=True, text=True, check=False)
    assert (done.returncode, "total" in done.stdout) == (1, True)
    assert done.stderr.startswith("astra: error: cannot write file/t.json")
    status, result = astra(inputs, *command[3:], out=unread())
    assert (status, result) == (1, done.stderr)


def test_a_sweep_goes_on_although_nobody_reads_how_far_it_is(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from astra_sim_sweep import progress
    from astra_sim_sweep.running import SweepCounts

    class Unread:
        def write(self, _: str) -> None:
            raise BrokenPipeError

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr(sys, "stderr", Unread())
    monkeypatch.setattr(progress, "FIRST_S", 0.0)
    monkeypatch.setattr(progress, "LOG_S", 0.0)
    with progress.SweepProgress(SweepCounts(points=3), True) as shown:
        for _ in range(3):
            shown.turn()


def test_a_whole_sweep_goes_on_although_nobody_reads_how_far_it_is(inputs: Path) -> None:
    """The line that says how far it is comes after two seconds."""
    (inputs / "long.toml").write_text(
        '[base]\nexperiment = "e.toml"\n[axes]\n"workload.bytes" = {range = [1024, 3072, 8]}\n"system.splits" = [1, 2]\n'
    )
    arguments = ("sweep", "long.toml", "--output", "out/long.csv", "--jobs", "1")
    code = "import astra_sim_sweep.progress as p\np.FIRST_S = p.LOG_S = 0.01\nfrom astra_sim.command.cli import main\nmain()\n"
    writing = unread()
    done = subprocess.run([sys.executable, "-c", code, *arguments], cwd=inputs, stdout=subprocess.DEVNULL, stderr=writing, check=False)
    os.close(writing)
    assert done.returncode == 0
    assert len((inputs / "out" / "long.csv").read_text().splitlines()) > 500
