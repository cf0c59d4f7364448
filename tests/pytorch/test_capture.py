"""The command `astra capture torch`: what it records of real scripts, and what it says of those that cannot be recorded."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from astra_sim.command import cli
from astra_sim.errors import AstraError, InputError, RunError
from astra_sim_torch.capture_file import load_captures
from click.testing import CliRunner
from support import ROOT

EXAMPLES = ROOT / "examples" / "pytorch"
PYTHON = os.environ.get("ASTRA_TORCH_PYTHON")
"""A Python that has torch, where it is not this one."""
needs_torch = pytest.mark.skipif(not PYTHON and importlib.util.find_spec("torch") is None, reason="torch is not installed")


def capture(*words: str | Path) -> Any:
    """The result of the command."""
    python = ["--python", PYTHON] if PYTHON else []
    return CliRunner().invoke(cli.astra, ["capture", "torch", *python, *map(str, words)])


def problem_of(script: str, folder: Path, *options: str) -> AstraError:
    """What the command says of a script."""
    path = folder / "train.py"
    path.write_text(script)
    done = capture("--world", "2", "-o", folder / "out", *options, "--", path)
    assert isinstance(done.exception, AstraError), done.output
    assert not (folder / "out").exists()
    return done.exception


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_it_says_what_to_install() -> None:
    done = CliRunner().invoke(cli.astra, ["capture", "torch", "--world", "8", "--", str(EXAMPLES / "gpt.py")])
    assert isinstance(done.exception, InputError)
    assert "pip install torch" in str(done.exception)


def test_wrong_options_are_errors(tmp_path: Path) -> None:
    for words, message in (
        (("--ranks", "9", "--", EXAMPLES / "gpt.py"), "--ranks is '9'; expected auto, all, or ranks from 0 to 1"),
        (("--ranks", "a", "--", EXAMPLES / "gpt.py"), "--ranks is 'a'"),
        (("--", tmp_path / "none.py"), "none.py: no such file"),
        (("--python", "none", "--", EXAMPLES / "gpt.py"), "--python: 'none' is no program"),
    ):
        done = CliRunner().invoke(cli.astra, ["capture", "torch", "--world", "2", *map(str, words)])
        assert isinstance(done.exception, InputError)
        assert message in str(done.exception)


@needs_torch
@pytest.mark.parametrize("parallel", ["ddp", "fsdp", "fsdp1", "fsdp_tp"])
def test_the_recorded_examples_come_out_again(parallel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = capture("--world", "8", "-o", tmp_path, "--json", "--", "examples/pytorch/gpt.py", "--parallel", parallel)
    assert done.exit_code == 0, done.output
    (new,), (old,) = load_captures(str(tmp_path)), load_captures(str(EXAMPLES / f"gpt_{parallel}"))
    assert [*new.events] == [*old.events]
    kernels = sum(event["kind"] == "kernel" for event in old.events)
    assert json.loads(done.stdout)["ranks"][0]["kernels"] == kernels


@needs_torch
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import torch\n\nx = torch.ones(3)\nprint(x.sum().item())\n", "train.py:4: DataDependentOutputException: .*--item VALUE"),
        ("import torch\ntorch.ones(3) @ torch.ones(4)\n", "train.py:2: RuntimeError"),
        ("import sys\nsys.exit(4)\n", "the script ended with status 4"),
        ("open('nothing.txt')\n", "train.py:1: FileNotFoundError"),
        ("import os\nos.abort()\n", "rank 0 was ended by SIGABRT"),
        ("x = (\n", "SyntaxError"),
    ],
)
def test_a_script_that_fails_is_an_error_with_its_line(script: str, message: str, tmp_path: Path) -> None:
    problem = problem_of(script, tmp_path)
    assert isinstance(problem, RunError)
    assert re.search(message, str(problem)), problem


@needs_torch
def test_a_script_that_waits_is_given_up(tmp_path: Path) -> None:
    problem = problem_of("import time\ntime.sleep(100)\n", tmp_path, "--timeout", "4")
    assert "did not end within 4 s" in str(problem)


SENDING = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1000)
if dist.get_rank() == 0:
    dist.send(x, 1)
else:
    dist.recv(x, 0)
    x.mul_(2)
"""


@needs_torch
def test_ranks_that_receive_are_recorded_too(tmp_path: Path) -> None:
    (tmp_path / "send.py").write_text(SENDING)
    assert capture("--world", "2", "-o", tmp_path / "out", "--", tmp_path / "send.py").exit_code == 0
    first, second = load_captures(str(tmp_path / "out"))
    assert [event["kind"] for event in first.events] == ["kernel", "send", "wait"]
    assert [event["kind"] for event in second.events] == ["kernel", "receive", "wait", "kernel"]
    assert [event["bytes"] for event in (first.events[1], second.events[1])] == [4000, 4000]


GRAPH = """
import torch
from torch.utils.flop_counter import FlopCounterMode
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
convolution = torch.nn.Conv1d(64, 64, 3)
with FlopCounterMode(display=False) as counter:
    x = layer(torch.randn(2, 10, 64)).transpose(1, 2)
    convolution(x).sum().backward()
print(counter.get_total_flops())
"""


@needs_torch
def test_operations_of_products_and_convolutions_are_those_of_torchs_counter(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "graph.py").write_text(GRAPH)
    assert capture("--world", "1", "-o", tmp_path / "out", "--", tmp_path / "graph.py").exit_code == 0
    (found,) = load_captures(str(tmp_path / "out"))
    flops = sum(event["flops"] for event in found.events if event["kind"] == "kernel" and "attention" not in event)
    assert flops == int(capfd.readouterr().out.split()[-1]) > 0
