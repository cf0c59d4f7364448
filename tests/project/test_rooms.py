"""The layout of the tests: what several share is in tests/support, and no test module imports another."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from support import ROOT

TESTS = ROOT / "tests"
MODULES = sorted(TESTS.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """The full names of what a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (".".join(filter(None, ["." * node.level, node.module, alias.name])) for alias in node.names)


def test_no_test_module_is_imported() -> None:
    assert len(MODULES) > 100
    for path in MODULES:
        parts = {(name, part) for name in imported(path) for part in name.split(".")}
        tests = {name for name, part in parts if part == "conftest" or (TESTS / f"{part}.py").is_file() or part.startswith("test_")}
        assert not tests, path.relative_to(TESTS)


def test_helpers_need_no_test() -> None:
    """A room may have helpers of its own; tests/support knows none of the rooms."""
    rooms = {path.name for path in TESTS.iterdir() if (path / "conftest.py").is_file()}
    assert {"errors", "reference"} <= rooms
    for path in (TESTS / "support").glob("*.py"):
        assert not rooms & {name.split(".")[0] for name in imported(path)}, path


def test_all_folders_with_tests_are_searched() -> None:
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["testpaths"]
    assert all((ROOT / folder).is_dir() for folder in folders)
    packages = ROOT / "examples" / "plugins"  # their tests run where they are installed: tests/released/test_plugin_templates.py
    folders_with_code = ("core", "plugins", "tests", "examples")
    result = {path for folder in folders_with_code for path in (ROOT / folder).rglob("test_*.py") if packages not in path.parents}
    searched = {path for folder in folders for path in (ROOT / folder).rglob("test_*.py")}
    assert result == searched
