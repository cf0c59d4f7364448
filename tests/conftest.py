"""Fixtures for tests of the packages as a user installs them."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

import dev


@attrs.frozen
class Environment:
    """A virtual environment outside the checkout. It has no pip; `install` uses that of the tests."""

    prefix: Path

    def install(self, *arguments: str | Path) -> None:
        """Install with pip: paths of wheels or projects, requirements, options."""
        python = self.prefix / "bin" / "python"
        _checked(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check", *arguments)

    def run(self, command: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment (`astra`, `python`) there, with nothing of the tests' own environment around it."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON") and name != "VIRTUAL_ENV"}
        return subprocess.run(
            [self.prefix / "bin" / command, *arguments], cwd=self.prefix, env=ours, capture_output=True, text=True, check=False
        )


@pytest.fixture(scope="session")
def wheel_house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of every package of the workspace."""
    folder = tmp_path_factory.mktemp("wheels")
    dev.build_wheels(folder, Path(sys.executable))
    return folder


@pytest.fixture(scope="session")
def clean_environment(wheel_house: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Environment]:
    """Makes a new virtual environment with all wheels installed, every time it is called."""

    def make() -> Environment:
        prefix = tmp_path_factory.mktemp("environment")
        venv.create(prefix, symlinks=True)
        environment = Environment(prefix)
        environment.install(*sorted(wheel_house.glob("*.whl")))
        return environment

    return make


@pytest.fixture(scope="session")
def build_wheel(wheel_house: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Builds the wheel of somebody else's package against the wheels of ours."""

    def build(project: Path) -> Path:
        folder = tmp_path_factory.mktemp("wheel")
        options = ("--no-deps", "--find-links", wheel_house, "--wheel-dir", folder)
        _checked(sys.executable, "-m", "pip", "wheel", "--quiet", *options, project)
        (wheel,) = folder.iterdir()
        return wheel

    return build


def _checked(*command: str | Path) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
