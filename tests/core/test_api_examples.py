"""Every public name is used in an example of the API reference, and every example gives what it shows."""

from __future__ import annotations

import ast
import doctest
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import astra_sim
import pytest

MODULES = [f"astra_sim.{name}".rstrip(".") for name in ("", *astra_sim.PUBLIC_MODULES)]


def examples_of(name: str) -> list[doctest.DocTest]:
    """The examples of a public module: in its docstring, and in those of its public names."""
    module = import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True, recurse=False)
    objects: list[tuple[str, Any]] = [(name, module)]
    objects += [(f"{name}.{each}", getattr(module, each)) for each in module.__all__ if callable(getattr(module, each))]
    return [test for where, each in objects for test in finder.find(each, where, module=False, globs={}) if test.examples]


def names_in(test: doctest.DocTest) -> Iterator[str]:
    """The names and attributes that an example uses, but for those that it only imports."""
    for node in (node for example in test.examples for node in ast.walk(ast.parse(example.source))):
        if isinstance(node, ast.Name | ast.Attribute):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.FunctionDef):
            yield node.name  # a hook that is implemented


def test_every_public_name_has_an_example() -> None:
    names = {each for name in MODULES for each in import_module(name).__all__}
    used = {each for name in MODULES for test in examples_of(name) for each in names_in(test)}
    assert sorted(names - used) == []


def faults(name: str) -> list[str]:
    """The examples of a module that give something else than they show."""
    tests = examples_of(name)
    assert tests
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    result: list[str] = []
    for test in tests:
        runner.run(test, out=result.append)
    return result


@pytest.mark.parametrize("name", MODULES[1:])
def test_examples_give_what_they_show(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert faults(name) == []


def test_examples_of_the_package_give_what_they_show(tmp_path: Path) -> None:
    """In a process of their own, since they choose a plugin for the whole process."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import test_api_examples as here; print(here.faults('astra_sim'))"
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
