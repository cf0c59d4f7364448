"""The walks of docs/your-own.md, followed word for word in an empty folder, end with wheels that work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from support import ROOT
from support.environments import Environment

pytestmark = pytest.mark.xdist_group("walks")
PAGE = (ROOT / "docs" / "your-own.md").read_text(encoding="utf-8")
WALKS = {section.split("\n", maxsplit=1)[0]: section for section in re.split(r"^## Your own ", PAGE, flags=re.MULTILINE)[1:]}
BLOCK = re.compile(r"(?:^`([^`\n]+)`:\n\n)?^```(sh|python|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMES = {"collective": "cube", "topology": "open_line", "scheduler": "most_work", "network": "incast"}
ISOLATED = "collective"
"""The walk whose builds have environments of pip's own, as a reader's have; `.ci/nightly` gives them to all."""


@pytest.fixture
def environment(walk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """A new environment, which has pip and the packages of the tests' own besides."""
    environment = Environment(tmp_path / "environment")
    venv.create(environment.prefix, symlinks=True)
    environment.look_into(sysconfig.get_path("purelib"))
    for command, module in {"astra": "astra_sim", "pytest": "pytest", "pip": "pip"}.items():
        environment.offer(command, module)
    if walk != ISOLATED and "ASTRA_LONG_BUILDS" not in os.environ:
        monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "off")  # which is how pip wants it said
    return environment


def test_there_are_four_walks() -> None:
    assert list(WALKS) == list(NAMES)


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_ends_with_a_wheel_that_works(walk: str, environment: Environment, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    for path, language, text in BLOCK.findall(WALKS[walk]):
        if language == "sh":
            done = environment.run_in(folder, text)
            assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
            folder = tmp_path / "empty" / NAMES[walk]
        else:
            assert (folder / path).is_file(), path
            assert (folder / path).read_text() != text
            (folder / path).write_text(text)
    (wheel,) = (folder / "dist").glob("*.whl")
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(unpacked)
    variables = os.environ | {"PYTHONPATH": str(unpacked)}
    command = [sys.executable, "-m", "astra_sim", "plugins", "check", NAMES[walk]]
    done = subprocess.run(command, cwd=unpacked, env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[0], done.stderr) == (0, "ok", "")
