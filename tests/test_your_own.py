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


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """A new environment with pip, which has the packages of the tests' own besides."""
    prefix = tmp_path / "environment"
    venv.create(prefix, symlinks=True, with_pip=True)
    (packages,) = prefix.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    for command, module in {"astra": "astra_sim", "pytest": "pytest"}.items():
        script = prefix / "bin" / command
        script.write_text(f'#!/bin/sh\nexec {prefix}/bin/python -m {module} "$@"\n')
        script.chmod(0o755)
    return Environment(prefix)


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
