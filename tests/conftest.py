"""Fixtures for tests of the packages as a user installs them, and what holds for every test."""

from __future__ import annotations

import fcntl
import os
import re
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from support.environments import Environment, checked

from devtools.release import version
from devtools.workspace import build_wheels

# Commands would fold what they print. The module readline, which pytest imports, sets these variables for child processes without a
# trace in os.environ, and workers of a run side by side inherit them.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)
    os.unsetenv(name)

# Commands say what takes them long, which on a busy machine is anything. Tests of just that take the variable away.
os.environ["ASTRA_NO_PROGRESS"] = "1"

# What is remembered of installed packages goes where tests may write, and is forgotten with the last of them.
if "ASTRA_CACHE_DIR" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="astra-tests-")
    os.environ["ASTRA_CACHE_DIR"] = _cache.name

# No test asserts on wall time: an example may take as long as a busy machine makes it.
settings.register_profile("astra", settings.default, deadline=None)
settings.load_profile("astra")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse names that are others in every process: parallel runs would not find the same tests."""
    for item in items:
        if re.search(r" at 0x[0-9a-f]+", item.nodeid):
            raise pytest.UsageError(f"{item.nodeid}: the name of a test holds an address; give the parameter an id")


@pytest.fixture(scope="session")
def wheel_house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of every package of the workspace, which processes that run tests side by side build once between them."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "all-wheels"
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            building = folder.with_name("wheels-so-far")
            build_wheels(building, Path(sys.executable))
            building.rename(folder)
    return folder


@pytest.fixture(scope="session")
def clean_environment(wheel_house: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Environment]:
    """Makes a new virtual environment with the bundle `astra-sim` installed, which brings all wheels, every time it is called."""

    def make() -> Environment:
        prefix = tmp_path_factory.mktemp("environment")
        venv.create(prefix, symlinks=True)
        environment = Environment(prefix)
        environment.install("--find-links", wheel_house, f"astra-sim=={version()}")
        return environment

    return make


@pytest.fixture(scope="session")
def build_wheel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Builds the wheel of somebody else's package with what its build asks for and nothing of ours."""

    def build(project: Path) -> Path:
        folder = tmp_path_factory.mktemp("wheel")
        checked(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, project)
        (wheel,) = folder.iterdir()
        return wheel

    return build
