"""The Markdown pages: prose is wrapped at one width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 120
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("plugins/*/README.md")])


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page with their numbers, but for headings, tables, and code (fenced or indented)."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith(("|", "#", "    ")):
            yield number, line


def can_be_wrapped(line: str) -> bool:
    """Whether a line has a space outside of code spans and links, behind its mark of a list."""
    words = re.sub(r"`[^`]*`|\[[^]]*\]\([^)]*\)", "x", line.removeprefix("* ").removeprefix("- "))
    return " " in words.strip()


def test_lines_of_prose_have_at_most_120_characters() -> None:
    assert len(PAGES) > 20
    long = {
        str(page.relative_to(ROOT)): [number for number, line in prose(page.read_text()) if len(line) > WIDTH and can_be_wrapped(line)]
        for page in PAGES
    }
    assert {page: lines for page, lines in long.items() if lines} == {}


def test_only_prose_is_wrapped() -> None:
    page = "# Title\n\ntext\n\n```sh\ncode\n```\n\n    code\n\n| cell |\n\n* item\n  more\n"
    assert [(number, line) for number, line in prose(page) if line] == [(3, "text"), (13, "* item"), (14, "  more")]
