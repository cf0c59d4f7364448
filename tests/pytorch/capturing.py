"""Captures of scripts, for tests of what they hold."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest
from astra_sim.command import cli
from click.testing import CliRunner

PYTHON = os.environ.get("ASTRA_TORCH_PYTHON")
"""A Python that has torch, where it is not this one."""
needs_torch = pytest.mark.skipif(not PYTHON and importlib.util.find_spec("torch") is None, reason="torch is not installed")


def capture(*words: str | Path) -> Any:
    """The result of the command."""
    python = ["--python", PYTHON] if PYTHON else []
    return CliRunner().invoke(cli.astra, ["capture", "torch", *python, *map(str, words)])
