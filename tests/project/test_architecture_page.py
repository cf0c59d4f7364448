"""The pages about the inside name files that exist, and walks through them that are short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from support import ROOT

KERNEL = ROOT / "core" / "src" / "astra_sim"
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("architecture.md",)}
FILE = re.compile(r"`([\w./]+(?:\.(?:py|h|md)|/))`")
WALKS = ("From a byte count to the wire", "From a schedule to a delivery")


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page: str) -> None:
    paths = set(FILE.findall(PAGES[page]))
    assert len(paths) > 10
    places = (ROOT, KERNEL, KERNEL / "run", KERNEL / "run" / "symmetry", KERNEL / "engine")
    assert [path for path in sorted(paths) if not any((place / path).exists() for place in places)] == []


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_has_at_most_ten_steps_each_with_its_file(walk: str) -> None:
    section = PAGES["architecture.md"].split(f"## {walk}\n")[1].split("\n## ")[0]
    steps = re.findall(r"^(\d+)\. (.*)$", section, re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert 5 <= len(steps) <= 10
    assert all(FILE.search(text) for _, text in steps)


def test_no_class_of_a_run_is_a_hall() -> None:
    """A room has at most 25 functions in a class."""
    for path in (KERNEL / "run").rglob("*.py"):
        for name, body in re.findall(r"^class (\w+).*?:\n((?:    .*\n|\n)*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            assert len(re.findall(r"^    def ", body, re.MULTILINE)) <= 25, f"{path.name}: {name}"


def imports_of(path: Path, within_functions: bool) -> Iterator[str]:
    """The modules of the kernel that a module imports when it runs, or also when its functions do; not those for types alone."""
    left: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while left:
        node = left.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom):
            yield from (name for each in node.names for name in (node.module or "", f"{node.module}.{each.name}"))
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif within_functions or not isinstance(node, ast.FunctionDef):
            left += ast.iter_child_nodes(node)


def modules_of_the_kernel() -> dict[str, Path]:
    paths = {".".join(path.relative_to(KERNEL.parent).with_suffix("").parts): path for path in KERNEL.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in paths.items()}


def circle() -> list[str]:
    """A circle of imports among the modules of the kernel, those within functions included; []: there is none."""
    modules = modules_of_the_kernel()
    graph = {name: {each for each in imports_of(path, within_functions=True) if each in modules} - {name} for name, path in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        result: list[str] = error.args[1]
        return result
    return []


def test_no_modules_import_each_other() -> None:
    assert circle() == []
