"""The commands of docs/explain.md print what the page says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from astra_sim.command.cli import astra
from click.testing import CliRunner
from support import ROOT

PAGE = ROOT / "docs" / "explain.md"
BLOCKS = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def printed(command: str) -> str:
    """The output of a command, in the current folder."""
    command, _, result = command.partition(" | grep -A ")
    words, _, lines = command.partition(" | head -")
    program, *arguments = shlex.split(words)
    if program == "python":
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        return ""
    done = CliRunner().invoke(astra, arguments, catch_exceptions=False)
    shown = done.stdout.splitlines(keepends=True)
    if result:
        lines, text = shlex.split(result)
        first = next(number for number, line in enumerate(shown) if text in line)
        return "".join(shown[first : first + int(lines) + 1])
    return "".join(shown[: int(lines)] if lines else shown)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("\n")[0][:50])
def test_commands_print_what_the_page_says(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (ROOT / "examples").iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    commands = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
    text = "".join(line for line in block.splitlines(keepends=True) if not line.startswith("$ "))
    assert "".join(map(printed, commands)) == text
