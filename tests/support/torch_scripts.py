"""Scripts of PyTorch as tests capture them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
from astra_sim.command import cli
from astra_sim.errors import AstraError
from click.testing import CliRunner

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
