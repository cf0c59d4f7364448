"""Links between the Markdown pages lead to files and headings that exist."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from support import ROOT

PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "plugins/*/*.md", "benchmarks/*.md", "validation/*.md")
    for path in ROOT.glob(pattern)
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)
GENERATED = ("api/", "options/")
"""Folders of the site whose pages are made when it is built; tests/released/test_site.py follows links to them."""

PAGES_OF_FILES = ("contributing.md", "changelog.md", "examples.md")

LINK = re.compile(r"!?\[(?:[^][]|\[[^]]*\])*\]\(([^()\s]+)\)")
CODE = re.compile(r"^ *```.*?^ *```[^\S\n]*$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def links(text: str) -> list[str]:
    """The targets of the links outside of code."""
    return [match[1] for match in LINK.finditer(CODE.sub("x", text))]


def anchors(text: str) -> set[str]:
    """What headings are called in links: lower case, words joined by dashes, no other signs; a second one of a name has -1."""
    result: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        plain = re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
        number = 0
        while (name := f"{plain}-{number}" if number else plain) in result:
            number += 1
        result.add(name)
    return result


def is_generated(path: str) -> bool:
    """Whether a path in the site is that of a page that is made when it is built."""
    return path.startswith(GENERATED) or path in PAGES_OF_FILES


def dead(path: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere."""
    broken = []
    for target in links(text):
        parts = urlsplit(target)
        if parts.scheme or parts.netloc or (path.parent == ROOT / "docs" and is_generated(parts.path)):
            continue
        there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        is_missing = not there.exists()
        if is_missing or (parts.fragment and there.suffix == ".md" and parts.fragment not in anchors(there.read_text(encoding="utf-8"))):
            broken.append(target)
    return broken


def test_links_of_all_pages_lead_somewhere() -> None:
    assert len(PAGES) > 20
    result = {str(page.relative_to(ROOT)): dead(page, page.read_text(encoding="utf-8")) for page in PAGES}
    assert {page: links for page, links in result.items() if links} == {}


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "# Two words\n\n[a](page.md#two-words) [b](#two-words) [c](none.md) [d](page.md#none)\n[e](https://x.org) `[f](none)`\n"
    page.write_text(text)
    assert dead(page, text) == ["none.md", "page.md#none"]
