"""The documentation site: it builds without a warning, has no dead link, needs nothing from elsewhere, and says what is installed."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from astra_sim import PUBLIC_MODULES
from astra_sim.options import describe_options
from astra_sim.providers import Provider
from astra_sim.setup.plugin_modules import KINDS
from astra_sim.setup.plugins import shared_plugins
from support import ROOT

pytest.importorskip("mkdocs", reason="python3 dev.py docs installs what builds the site")
pytest.importorskip("mkdocstrings", reason="python3 dev.py docs installs what builds the site")
pytestmark = pytest.mark.xdist_group("site")  # in one process: the site is built once


class Page(HTMLParser):
    """What a page of the site refers to, which anchors it has, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[key] for key in ("id", "name") if key in values}
        loaded = values.get("src") or (values.get("href") if tag == "link" and values.get("rel") in ("stylesheet", "icon") else None)
        if loaded:
            self.loads.append(loaded)
        elif tag == "a" and "href" in values:
            self.links.append(values["href"])

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.words))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `python3 dev.py docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "true"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, Page]:
    """All pages by their path; that for a wrong address is relative to a server."""
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}


def test_no_link_is_dead(pages: dict[Path, Page]) -> None:
    broken = []
    count = 0
    for path, page in pages.items():
        for target in [*page.links, *page.loads]:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = there / "index.html" if there.is_dir() else there
            fragment = unquote(parts.fragment)
            if not there.is_file() or (fragment and there in pages and fragment not in pages[there].anchors):
                broken.append((path.name, target))
    assert broken == []
    assert count > 1000


def test_pages_load_nothing_from_elsewhere(pages: dict[Path, Page]) -> None:
    assert [load for page in pages.values() for load in page.loads if urlsplit(load).netloc] == []


def test_cells_of_much_text_keep_some_width_on_narrow_screens(site: Path) -> None:
    page = (site / "networks.html").read_text()
    cells = re.findall(r"<td( class=\"long\")?[^>]*>(.*?)</td>", page, re.DOTALL)
    assert any(is_long for is_long, _ in cells)
    assert all(bool(is_long) == (len(html.unescape(re.sub(r"<[^>]*>", "", cell))) > 60) for is_long, cell in cells)
    assert "td.long" in (site / "stylesheets" / "site.css").read_text()


def test_all_pages_of_docs_are_there(site: Path) -> None:
    assert all((site / f"{path.stem}.html").is_file() for path in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("kind", KINDS)
def test_all_components_are_there_with_their_options(kind: str, pages: dict[Path, Page], site: Path) -> None:
    page = pages[site / "options" / f"{kind}.html"]
    for name, component in shared_plugins().components(kind).items():
        assert name in page.text
        for option in describe_options(component.load_options()) if isinstance(component, Provider) else []:
            assert option.name in page.text
            assert re.sub(r"\s+", " ", option.help) in page.text


def test_the_reference_has_the_public_modules_and_no_others(site: Path) -> None:
    assert {path.stem for path in (site / "api").glob("*.html")} == {"astra_sim", *PUBLIC_MODULES}


def test_the_reference_describes_public_names(pages: dict[Path, Page], site: Path) -> None:
    assert {"astra_sim.schedule.Schedule", "astra_sim.schedule.exchange"} <= pages[site / "api" / "schedule.html"].anchors
    assert "A collective algorithm" in pages[site / "api" / "providers.html"].text
    assert "astra_sim.simulate" in pages[site / "api" / "astra_sim.html"].anchors


def test_the_search_finds_options(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert any("congestion_control" in entry["text"] for entry in index["docs"])
