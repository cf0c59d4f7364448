"""Which tests belong to which package, so that one package can be tested alone."""

from __future__ import annotations

from collections.abc import Sequence

from devtools.workspace import ROOT

TESTS = ROOT / "tests"
TAKE_A_WORD = ("-k", "-m", "-p", "-n", "-o", "-c", "--dist")
FOLDERS = {"sweep": "sweeps", "torch": "pytorch"}  # a folder torch would hide that of PyTorch
"""Packages whose tests are in a folder of another name."""


def tests_of(part: str) -> str:
    """The folder with the tests of a package, or of another part of the tests, from the project's folder on."""
    return str((TESTS / FOLDERS.get(part, part)).relative_to(ROOT))


def parts() -> set[str]:
    """What can be tested alone: packages, and other folders of tests."""
    return {path.parent.name for path in TESTS.glob("*/test_*.py")} | {*FOLDERS}


def chosen(arguments: Sequence[str]) -> list[str]:
    """Arguments of pytest, where the names of parts select their tests; not behind an option that takes a word."""
    known = parts()
    pairs = zip(["", *arguments], arguments, strict=False)
    return [tests_of(argument) if argument in known and before not in TAKE_A_WORD else argument for before, argument in pairs]
