"""The releases of PyTorch and JAX whose programs are captured: an environment for each, and the tests with it.

The dependency groups `torch-...` and `jax-...` of pyproject.toml list them. astra itself stays in its own environment: the tests name the
Python of a release by a variable.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from devtools.workspace import ROOT, Failure, run_quietly, toml_of

VARIABLES = {"torch": "ASTRA_TORCH_PYTHON", "jax": "ASTRA_JAX_PYTHON"}
TESTS = {"torch": "tests/pytorch", "jax": "tests/xla"}
_PYTHONS = ("3.12", "3.13", "3.14")
"""Pythons of which both frameworks have their newest releases."""


def releases() -> list[str]:
    """The names of the groups, such as torch-2.15."""
    return [name for name in toml_of(ROOT)["dependency-groups"] if name.partition("-")[0] in VARIABLES]


def chosen(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The releases that arguments name (all: none of them does), and the other arguments."""
    known = releases()
    named = [each for each in arguments if each in known]
    return named or known, [each for each in arguments if each not in known]


def environment(release: str) -> Path:
    """The Python of an environment that has a release, which is made if it is not there. Raises Failure."""
    wanted = toml_of(ROOT)["dependency-groups"][release]
    folder = ROOT / f".venv-{release}"
    python, stamp = folder / "bin" / "python", folder / "astra-release.txt"
    if not python.exists():
        run_quietly(f"creating {folder}", _python(), "-m", "venv", "--clear", folder)
    if not stamp.exists() or stamp.read_text() != str(wanted):
        run_quietly(f"installing {release}", python, "-m", "pip", "install", "--no-compile", *wanted)
        stamp.write_text(str(wanted))
    return python


def _python() -> str:
    """A Python for which the releases are there. Raises Failure."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" in _PYTHONS:
        return sys.executable
    for version in _PYTHONS:
        found = shutil.which(f"python{version}")
        if found and not subprocess.run([found, "-c", "import venv"], check=False, stderr=subprocess.DEVNULL).returncode:
            return found
    raise Failure(f"dev.py: frameworks: no Python {', '.join(_PYTHONS)} on the path; JAX from 0.11 on needs one")


def run(pytest: Sequence[str | Path], arguments: Sequence[str]) -> int:
    """Run the tests with each release, also those after one that fails. Raises Failure if an environment cannot be made."""
    names, options = chosen(arguments)
    failed = 0
    for release in names:
        framework = release.partition("-")[0]
        variables = {**os.environ, VARIABLES[framework]: str(environment(release))}
        print(f"dev.py: {release}", file=sys.stderr, flush=True)
        tests = [] if any(each.startswith("tests/") for each in options) else [TESTS[framework]]
        failed |= subprocess.run([*pytest, *options, *tests], cwd=ROOT, env=variables, check=False).returncode
    return failed
