"""Random models on four ranks: what is captured of each equals the calls of four processes that communicate by gloo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from astra_sim_torch.capture_file import load_captures
from support.torch_scripts import PYTHON, capture, needs_torch

PROGRAM = Path(__file__).with_name("gloo_program.py")
RANKS = range(4)
SEEDS = range(int(os.environ.get("ASTRA_GLOO_SEEDS", "6")))
"""A larger number is a hunt."""


def real_calls(seed: int, folder: Path) -> list[list[Any]]:
    """How the model is distributed, and the calls of a step, by rank."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    files = [folder / f"rank{rank}.json" for rank in RANKS]
    processes = [
        subprocess.Popen([PYTHON or sys.executable, PROGRAM, str(seed), file], env={**environment, "RANK": str(rank)})
        for rank, file in enumerate(files)
    ]
    assert [process.wait(300) for process in processes] == [0] * len(RANKS)
    return [json.loads(file.read_text()) for file in files]


def captured_calls(seed: int, folder: Path) -> list[list[Any]]:
    """The same calls as a capture has them."""
    done = capture("--world", "4", "--ranks", "all", "-o", folder, "--", PROGRAM, str(seed))
    assert done.exit_code == 0, (done.output, done.exception)
    result = []
    for one in load_captures(str(folder)):
        events = [event for event in one.events if event["kind"] in ("collective", "send", "receive")]
        result.append(
            [
                [
                    event.get("op", event["kind"]),
                    event["bytes"],
                    list(one.groups[event["group"]]),
                    *([event["peer"]] if "peer" in event else []),
                ]
                for event in events
            ]
        )
    return result


@needs_torch
@pytest.mark.parametrize("seed", SEEDS)
def test_calls_equal_those_of_real_processes(seed: int, tmp_path: Path) -> None:
    """Operation, bytes, group and peer of every call, in order."""
    real = real_calls(seed, tmp_path)
    captured = captured_calls(seed, tmp_path / "captured")
    for rank in RANKS:
        assert captured[rank] == real[rank][1], f"{real[rank][0]}, rank {rank}"
        assert captured[rank]
