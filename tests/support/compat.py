"""Runs the programs that `astra compat install` writes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from click.testing import CliRunner


class Ended(NamedTuple):
    """How a program ended."""

    status: int
    output: str
    errors: str


def install(folder: Path, *options: str) -> Path:
    """Write the programs into a folder, as the command does."""
    from astra_sim_compat.install import install as command

    ended = CliRunner().invoke(command, [str(folder), *options], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return folder


def run(program: Path, *arguments: str, folder: Path) -> Ended:
    """Run a program in a folder."""
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "TZ": "Asia/Kolkata"}
    )
    return Ended(done.returncode, done.stdout, done.stderr)
