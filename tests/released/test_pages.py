"""The code blocks of the documentation run, and print what the pages show (devtools/pages.py says how)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support import ROOT, warm

from devtools.pages import PROGRAMS, agrees, blocks, check

ELSEWHERE = {
    "explain.md": "tests/project/test_explain_page.py",
    "llm.md": "tests/llm/test_page.py",
    "plugins.md": "tests/released/test_plugin_page.py",
    "studies.md": "tests/released/test_studies.py",
    "sweeps.md": "tests/sweeps/test_page.py",
    "your-own.md": "tests/released/test_your_own.py",
}
"""Pages whose blocks a test of their own runs."""

PAGES = [
    ROOT / "README.md",
    *(path for path in sorted((ROOT / "docs").glob("*.md")) if path.name not in ELSEWHERE),
    *(path for path in sorted(ROOT.glob("plugins/*/[A-Z]*.md")) if path.name != "README.md"),
    ROOT / "examples" / "plugins" / "every_hook" / "README.md",
]

WITH_BLOCKS = [path for path in PAGES if any(True for _ in blocks(path.read_text(encoding="utf-8")))]


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages call the astra that starts at once."""
    monkeypatch.setattr("devtools.pages.PLACES", [str(Path(warm.astra()).parent)])


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


@needs_bash
@pytest.mark.parametrize("path", WITH_BLOCKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_and_print_what_it_shows(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    _, problems = check(path.read_text(encoding="utf-8"), tmp_path)
    assert problems == []


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_a_page_with_a_test_of_its_own_is_named_there(page: str, test: str) -> None:
    assert page in (ROOT / test).read_text()


def test_blocks_that_are_not_run_say_why() -> None:
    for path in PAGES:
        left_out = [block for block in blocks(path.read_text()) if block.mark == "not run"]
        assert all(block.value and block.language in PROGRAMS for block in left_out), path.name


def test_commands_stand_in_fenced_blocks() -> None:
    for path in sorted((ROOT / "docs").glob("*.md")):
        outside = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert re.findall(r"^    (?:\$|astra|python3?|pip) .*", outside, re.MULTILINE) == [], path.name


# -- The check itself --------------------------------------------------------------------------------------------------


def page(*parts: str) -> str:
    return "# Page\n\n" + "\n".join(parts)


@needs_bash
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (page("```console", "$ echo a", "b", "```"), "echo a\nprints\na"),
        (page("```console", "$ false", "```"), "false: status 1"),
        (page("```sh", "true", "exit 3", "```"), "status 3"),
        (page("```python", "print(1)", "```", "", "```", "2", "```"), "prints\n1"),
        (page("```toml", "a = ", "```"), "Invalid value"),
        (page("```python", "a = 1", "```", "", "```python", "print(a)", "```"), "NameError"),
    ],
)
def test_what_is_not_as_shown_is_found(text: str, problem: str, tmp_path: Path) -> None:
    _, problems = check(text, tmp_path)
    assert len(problems) == 1
    assert problem in problems[0]


@needs_bash
def test_blocks_share_a_folder_and_may_be_files_or_continue_or_be_left_out(tmp_path: Path) -> None:
    text = page(
        "<!-- setup: echo 4 > four -->",
        "<!-- file: three -->\n```\n3\n```",
        "```console\n$ cat three \\\n    four\n3\n4\n$ ls examples > all\n```",
        "```python\na = 1\n```",
        "<!-- continued -->\n```python\nprint(a)\n```\n\n```\n1\n```",
        "<!-- not run: it fails -->\n```sh\nfalse\n```\n",
    )
    assert check(text, tmp_path) == (text, [])


@needs_bash
def test_what_is_printed_now_can_be_written(tmp_path: Path) -> None:
    text = page("```console", "$ echo a", "b", "$ echo c", "...", "```", "", "```python", "print(1)", "```", "", "```", "2", "```\n")
    new, problems = check(text, tmp_path)
    assert new == text.replace("\nb\n", "\na\n").replace("\n2\n", "\n1\n")
    assert len(problems) == 2


def test_wall_times_and_spaces_do_not_count_all_else_does() -> None:
    shown = " wall time  10 ms\n...\nrun  total (us)  wall time (s)\na          1.0          0.500\n"
    assert agrees(shown, " wall time  99.5 s\nmore\nrun total (us)  wall time (s)\na  1.0  0.7\n")
    assert not agrees(shown, " wall time  99.5 s\nrun total (us)  wall time (s)\na  1.1  0.5\n")
    assert agrees("a\n...\n", "a\n")
    assert not agrees("a\n", "a\nb\n")
