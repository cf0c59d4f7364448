"""docs/studies.md shows what commands and programs print, word for word but for wall times."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
from pathlib import Path

import astra_sim
import pytest
from support import ROOT, warm

PAGE = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```console\n(?P<commands>.*?)```|```python\n(?P<code>.*?)```\n\n```\n(?P<printed>.*?)```", re.DOTALL)
WALL = re.compile(r"wall time: [\d.]+ s")
LONG = re.compile(r"\| `(?P<study>\w+)\.toml` \| `(?P<network>plugin:[^`]+)` \| (?P<ms>[\d,.]+) \|")
IN_SECONDS = ("plugin:analytical", "plugin:flow?routing=hash")


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in WALL.sub("wall time", text).strip("\n").splitlines()]


def shown(commands: str) -> list[tuple[str, str]]:
    """The commands of a block, and what each prints."""
    whole = commands.replace("\\\n", " ")  # a command over several lines
    return [(command, printed) for command, _, printed in (each.partition("\n") for each in whole.split("$ ")[1:])]


def test_commands_and_programs_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, for each reads what those before have written."""
    pytest.importorskip("pandas")
    pytest.importorskip("matplotlib")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    environment.pop("COLUMNS", None)
    count = 0
    for match in BLOCK.finditer(PAGE):
        for command, printed in shown(match["commands"] or ""):
            count += 1
            name, *arguments = shlex.split(command)
            assert name == "astra"
            done = subprocess.run([warm.astra(), *arguments], capture_output=True, check=False, env=environment)
            assert done.returncode == 0, done.stderr.decode()
            assert lines(done.stdout.decode()) == lines(printed), command
        if match["code"] is not None:
            count += 1
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(match["code"], "docs/studies.md", "exec"), {})
            assert lines(out.getvalue()) == lines(match["printed"])
    assert count == 11
    assert (tmp_path / "incast.png").exists()


def test_the_files_of_studies_are_on_the_page() -> None:
    assert (ROOT / "examples" / "studies" / "rails.toml").read_text() in PAGE
    for path in (ROOT / "examples" / "studies").iterdir():
        assert path.name in PAGE


@pytest.mark.parametrize(("study", "network", "ms"), LONG.findall(PAGE))
def test_the_table_of_gpt_3_is_what_runs_say(study: str, network: str, ms: str) -> None:
    """Those that take longer than seconds run where ASTRA_LONG_STUDIES says so (.ci/nightly)."""
    few = network in IN_SECONDS or (network == "plugin:flow" and study != "gpt3_1024_gpus")
    if not few and "ASTRA_LONG_STUDIES" not in os.environ:
        pytest.skip("takes up to minutes: ASTRA_LONG_STUDIES=1 runs it")
    result = astra_sim.simulate(ROOT / "examples" / "studies" / f"{study}.toml", network=network)
    assert f"{result.finish_ns / 1e6:,.1f}" == ms
