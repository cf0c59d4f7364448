"""Virtual environments in which packages are installed as a user installs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import attrs


@attrs.frozen
class Environment:
    """A virtual environment outside the checkout. It has no pip; `install` uses that of the tests."""

    prefix: Path

    def install(self, *arguments: str | Path) -> None:
        """Install with pip: paths of wheels or projects, requirements, options."""
        python = self.prefix / "bin" / "python"
        checked(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check", *arguments)

    def run(self, command: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment (`astra`, `python`) there, with nothing of the tests' own environment around it."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON") and name != "VIRTUAL_ENV"}
        return subprocess.run(
            [self.prefix / "bin" / command, *arguments], cwd=self.prefix, env=ours, capture_output=True, text=True, check=False
        )


def checked(*command: str | Path) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
