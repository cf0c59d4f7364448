"""Ctrl-C and SIGTERM, whenever they come, end a command with one line, and leave the files that were there or all of the new ones."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from astra_sim.files import FileSet

RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
RUN = ("--workload", "plugin:collective?bytes=1048576", "--platform", RING, "--output", "out")
SIGNALS = (signal.SIGINT, signal.SIGTERM)

INTERRUPTING = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), {signal})

sys.meta_path.insert(0, Interrupting())
"""
AT_A_CALL = """
import os, signal, sys
import astra_sim.files
count, number = [0], int(sys.argv.pop(1))
name = sys.argv.pop(1)
signals = [signal.Signals(int(each)) for each in sys.argv.pop(1).split(",")]
whole = getattr(os, name)
def interrupted(*arguments, **named):
    if any(".astra-" in str(each) for each in arguments):
        count[0] += 1
        if count[0] == number:
            for each in signals:
                os.kill(os.getpid(), each)
    return whole(*arguments, **named)
setattr(os, name, interrupted)
from astra_sim.command.cli import main
main()
"""


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["click", "astra_sim.command.cli", "pluggy", "astra_sim.api"])
def test_sigterm_while_python_imports_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING.format(name=name, signal=int(signal.SIGTERM)))
    command = [sys.executable, "-m", "astra_sim", *RUN]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.lstrip("\n")) == (130, "", "astra: interrupted\n")


@pytest.mark.parametrize("signals", [(each,) for each in SIGNALS] + [SIGNALS], ids=["int", "term", "both"])
@pytest.mark.parametrize(("call", "number"), [("open", 1), ("open", 3), ("replace", 1), ("replace", 4), ("unlink", 1), ("unlink", 2)])
def test_files_are_old_or_new_wherever_the_signal_comes(tmp_path: Path, call: str, number: int, signals: tuple[int, ...]) -> None:
    (tmp_path / "out").mkdir()
    names = ("result.json", "EndToEnd.csv", "detailed.csv")
    for name in names:
        (tmp_path / "out" / name).write_text("old")
    before = contents(tmp_path)
    numbers = ",".join(str(int(each)) for each in signals)
    command = [sys.executable, "-c", AT_A_CALL, str(number), call, numbers, *RUN]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.lstrip("\n")) == (130, "astra: interrupted\n")
    after = contents(tmp_path)
    assert not [name for name in after if ".astra-" in name]
    if after != before:
        assert set(before) < set(after)
        assert all(after[f"out/{name}"] != b"old" for name in names)


def test_a_sigterm_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    code = AT_A_CALL.replace("import astra_sim.files", "import astra_sim.files\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)")
    command = [sys.executable, "-c", code, "1", "open", str(int(signal.SIGTERM)), *RUN]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "out/result.json" in contents(tmp_path)


def test_a_sweep_that_gets_sigterm_says_that_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        f'[base]\nworkload = "plugin:collective"\nplatform = "{RING}"\n[axes]\n"workload.bytes" = {{range = [1, 2000000, 1]}}\n'
    )
    command = [sys.executable, "-m", "astra_sim", "sweep", "s.toml", "-o", "t.csv", "--jobs", "1"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 60
        while not (tmp_path / "t.journal.sqlite-wal").exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        _, result = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume goes on" in result
    assert not list(tmp_path.glob(".astra-*"))


# -- The set -----------------------------------------------------------------------------------------------------------

WRITING = """
import os, signal, sys, threading
from astra_sim.files import FileSet, interrupt_on_sigterm
interrupt_on_sigterm()
def kill():
    os.kill(os.getpid(), signal.SIGTERM)
try:
    for turn in range(1000000):
        with FileSet() as files:
            if turn == 5:
                print("ready", flush=True)
            for name in "abcdefgh":
                files.write(f"deep/{name}", [f"{turn}"])
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_at_any_instant_the_set_is_that_of_one_turn(tmp_path: Path) -> None:
    """Signals at random instants of a program that writes one set after another."""
    choose = random.Random(2)
    for turn in range(12):
        folder = tmp_path / str(turn)
        folder.mkdir()
        with subprocess.Popen([sys.executable, "-c", WRITING], cwd=folder, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(choose.uniform(0.0, 0.05))
            process.send_signal(choose.choice(SIGNALS))
            assert process.wait(timeout=60) == 130
        after = contents(folder)
        assert sorted(after) == [f"deep/{name}" for name in "abcdefgh"]
        assert len(set(after.values())) == 1


def test_a_set_that_is_never_ended_goes_with_its_files(tmp_path: Path) -> None:
    files = FileSet()
    files.__enter__()
    files.write(tmp_path / "deep" / "a", ["a"])
    assert len(contents(tmp_path)) == 1
    del files
    assert list(tmp_path.iterdir()) == []


def test_another_thread_can_write_a_set(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def write(number: int) -> None:
        with FileSet() as files:
            files.write(tmp_path / f"{number}", ["a"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(20)))
    assert len(contents(tmp_path)) == 20
