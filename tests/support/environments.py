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
        options = ("--quiet", "--disable-pip-version-check", "--no-compile")
        checked(sys.executable, "-m", "pip", "--python", python, "install", *options, *arguments)

    @property
    def packages(self) -> Path:
        """The folders of its packages."""
        (folder,) = self.prefix.glob("lib/python*/site-packages")
        return folder

    def look_into(self, packages: str | Path) -> None:
        """Let it have packages in other folders, editable ones too, behind its own."""
        (self.packages / "elsewhere.pth").write_text(f"import site; site.addsitedir({str(packages)!r})\n")

    def offer(self, command: str, module: str) -> None:
        """Make a command that runs a module."""
        script = self.prefix / "bin" / command
        script.write_text(f'#!/bin/sh\nexec {self.prefix}/bin/python -m {module} "$@"\n')
        script.chmod(0o755)

    def run(self, command: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment (`astra`, `python`) there, with nothing of the tests' own environment around it."""
        command_line = [self.prefix / "bin" / command, *arguments]
        return subprocess.run(command_line, cwd=self.prefix, env=self._variables(), capture_output=True, text=True, check=False)

    def run_in(self, folder: Path, commands: str) -> subprocess.CompletedProcess[str]:
        """Run lines of a shell in a folder, as if the environment were activated. The first that fails ends them."""
        return subprocess.run(["sh", "-ec", commands], cwd=folder, env=self._variables(), capture_output=True, text=True, check=False)

    def _variables(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON") and name != "VIRTUAL_ENV"}
        return {**ours, "PATH": os.pathsep.join([str(self.prefix / "bin"), os.environ.get("PATH", os.defpath)])}


def checked(*command: str | Path) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
