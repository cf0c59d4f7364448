"""The pages about the inside name files that exist, and walks through them that are short."""

from __future__ import annotations

import re

import pytest
from support import ROOT

KERNEL = ROOT / "core" / "src" / "astra_sim"
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("architecture.md", "symmetry.md")}
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
