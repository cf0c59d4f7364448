"""Fixtures for tests of the packages as a user installs them, and what holds for every test."""

from __future__ import annotations

import fcntl
import gc
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

from devtools import environment as installed
from devtools import slow_tests
from devtools.release import version
from devtools.workspace import build_development_wheels, build_wheels

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

# Tests make many objects that live for one test. Looking for circles among them as often as Python does takes a twelfth of their time.
gc.set_threshold(20_000, 20, 20)

# No test asserts on wall time: an example may take as long as a busy machine makes it.
settings.register_profile("astra", settings.default, deadline=None)
settings.load_profile("astra")


SLOW_FIXTURES = {"wheel_house", "sdist_house", "texts", "site"}
"""Fixtures that take long: the first test that uses one would."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option with which `python3 dev.py test` runs all tests but those that take long."""
    parser.addoption("--quick", action="store_true", help="leave out the tests that tests/slow_tests.txt names")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse names that are others in every process: parallel runs would not find the same tests. Leave out what takes long."""
    for item in items:
        if re.search(r" at 0x[0-9a-f]+", item.nodeid):
            raise pytest.UsageError(f"{item.nodeid}: the name of a test holds an address; give the parameter an id")
    if config.getoption("quick"):
        slow = slow_tests.listed()
        takes_long = [item.nodeid in slow or bool(SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ()))) for item in items]
        config.hook.pytest_deselected(items=[item for item, long in zip(items, takes_long, strict=True) if long])
        items[:] = [item for item, long in zip(items, takes_long, strict=True) if not long]


def pytest_collection_finish() -> None:
    """Leave the tests themselves out of garbage collections: thousands of them would be looked through again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that processes which run tests side by side share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """A folder that is made by the first process that asks for it. The others wait."""
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder.with_name(f"{folder.name}.done")
        if not done.exists():
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def wheel_house(shared_folder: Path) -> Path:
    """A folder with a wheel of every package of the workspace.

    They are made of what is compiled for this environment; where ASTRA_LONG_BUILDS is set (`.ci/nightly`), and where `dev.py` has not made
    the environment, as they are released.
    """

    def make(folder: Path) -> None:
        options = installed.Environment(Path(sys.prefix)).linked()
        if options and "ASTRA_LONG_BUILDS" not in os.environ:
            # The rest of what builds for development and for wheels differ in, so that nothing is compiled again.
            build_development_wheels(folder, Path(sys.executable), (*options, "--config-settings=cmake.define.SKBUILD_STATE=editable"))
        else:
            build_wheels(folder, Path(sys.executable))

    return made_once(shared_folder / "all-wheels", make)


@pytest.fixture(scope="session")
def bundle_environment(wheel_house: Path, shared_folder: Path) -> Environment:
    """A virtual environment with the bundle `astra-sim` installed, which brings all wheels. Nothing may be installed there."""

    def make(prefix: Path) -> None:
        venv.create(prefix, symlinks=True)
        Environment(prefix).install("--find-links", wheel_house, f"astra-sim=={version()}")

    return Environment(made_once(shared_folder / "bundle-environment", make))


@pytest.fixture(scope="session")
def clean_environment(bundle_environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Environment]:
    """Makes a new virtual environment every time it is called, in which besides is what the bundle brings."""

    def make() -> Environment:
        environment = Environment(tmp_path_factory.mktemp("environment"))
        venv.create(environment.prefix, symlinks=True)
        environment.look_into(bundle_environment.packages)
        environment.offer("astra", "astra_sim")
        return environment

    return make


@pytest.fixture(scope="session")
def build_wheel(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Builds the wheel of a third-party package with what its build asks for and nothing of ours."""

    def build(project: Path) -> Path:
        folder = tmp_path_factory.mktemp("wheel")
        checked(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, project)
        (wheel,) = folder.iterdir()
        return wheel

    return build
