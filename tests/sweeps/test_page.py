"""docs/sweeps.md shows what commands and programs print, word for word."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
from pathlib import Path

import pytest
from astra_sim_sweep.axes import _BESIDE, _FORMS
from astra_sim_sweep.base import KEYS
from astra_sim_sweep.commands import assert_, sweep
from astra_sim_sweep.plan import TABLES, read_plan
from astra_sim_sweep.points import SampleOptions
from astra_sim_sweep.search_command import search
from astra_sim_sweep.search_files import SAMPLERS, SearchOptions, read_search
from support import ROOT, warm

PAGE = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
STUDIES = sorted((ROOT / "examples" / "sweeps").glob("*.toml"))
SEARCHES = sorted((ROOT / "examples" / "searches").glob("*.toml"))
BLOCK = re.compile(
    r"```console\n\$ (?P<command>[^\n]*)\n(?P<shown>.*?)```|```python\n(?P<code>.*?)```\n\n```\n(?P<printed>.*?)```", re.DOTALL
)
TOML = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def test_commands_and_programs_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, for each reads what those before have written."""
    pytest.importorskip("pandas")
    pytest.importorskip("optuna")
    pytest.importorskip("matplotlib")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "budgets.toml").write_text(next(block for block in TOML if block.startswith("[[expect]]")))
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    count = 0
    for match in BLOCK.finditer(PAGE):
        count += 1
        if match["command"] is not None:
            name, *arguments = match["command"].split()
            assert name == "astra"
            done = subprocess.run([warm.astra(), *arguments], capture_output=True, check=False, env=environment)
            assert done.returncode == 0, done.stderr.decode()
            assert lines(done.stdout.decode()) == lines(match["shown"]), match["command"]
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(match["code"], "docs/sweeps.md", "exec"), {})
        assert lines(printed.getvalue()) == lines(match["printed"])
    assert count == 13
    assert (tmp_path / "budgets.xml").exists()


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_the_studies_are_the_files(path: Path) -> None:
    shown = next(block for block in TOML if path.read_text().endswith(block))
    assert shown.startswith(("# ", "[axes"))
    assert f"examples/sweeps/{path.name}" in PAGE
    assert read_plan(path).points.count > 10


@pytest.mark.parametrize("path", SEARCHES, ids=lambda path: path.stem)
def test_the_searches_are_the_files(path: Path) -> None:
    shown = next(block for block in TOML if path.read_text().endswith(block))
    assert "[search]" in shown
    assert f"examples/searches/{path.name}" in PAGE
    assert read_search(path).plan.points.count > 1000


def test_the_expressions_of_the_page_are_right() -> None:
    import tomllib

    table = tomllib.loads(next(block for block in TOML if "too_wide" in block))
    points = list(read_plan(table))
    assert [p.parameters["dp"] for p in points[:3]] == [64, 32, 16]
    assert not [p for p in points if p.error]


def test_the_page_names_all_keys_and_options() -> None:
    words = set(re.findall(r"[\w-]+", " ".join(re.findall(r"`([^`\n]+)`", PAGE))))
    assert {*TABLES, *_FORMS, *_BESIDE, *KEYS, *SampleOptions.__annotations__, *SearchOptions.__annotations__, *SAMPLERS} - {
        "constraints"
    } <= words
    assert "[search.constraints]" in PAGE
    options = [option for command in (sweep, search, assert_) for each in command.params for option in each.opts if option.startswith("--")]
    assert [option for option in options if option not in PAGE] == []
