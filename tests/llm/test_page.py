"""docs/llm.md shows what commands print, word for word, and names all models."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
from pathlib import Path

import pytest
from astra_sim_llm.models import MODELS
from support import ROOT, warm

PAGE = (ROOT / "docs" / "llm.md").read_text(encoding="utf-8")
CONSOLE = re.findall(r"```console\n\$ ([^\n]*)\n(.*?)```", PAGE, re.DOTALL)
BLOCKS = dict(zip(("example", "study"), re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL), strict=True))


def steady(text: str) -> list[str]:
    """Lines without the wall time, which differs from run to run, and without blanks at their ends."""
    lines, in_column = [], False
    for line in map(str.rstrip, text.strip("\n").splitlines()):
        in_column = line.endswith("(s)") or (in_column and re.search(r" \d+\.\d{3}$", line) is not None)
        line = re.sub(r" *\d+\.\d{3}$", "", line) if in_column else line
        lines.append(re.sub(r"wall time +[\d.]+", "wall time", line))
    return lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "study.toml").write_text(BLOCKS["study"])
    return tmp_path


@pytest.mark.parametrize(("command", "shown"), CONSOLE, ids=[command for command, _ in CONSOLE])
def test_a_command_prints_what_the_page_shows(command: str, shown: str, folder: Path) -> None:
    name, *arguments = command.split()
    assert name == "astra"
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([warm.astra(), *arguments], cwd=folder, capture_output=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    assert steady(done.stdout.decode()) == steady(shown)


def test_the_loop_prints_what_the_page_shows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, shown = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)[0]
    monkeypatch.chdir(folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/llm.md", "exec"), {})
    assert printed.getvalue() == shown


def test_the_example_is_the_file() -> None:
    assert BLOCKS["example"] == (ROOT / "examples" / "gpt3_175b_megatron.toml").read_text()


def test_the_page_names_all_models() -> None:
    assert not [name for name in MODELS if f"`{name}`" not in PAGE]
