"""Fixtures of the tests of errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from astra_sim.command import cli

from errors.inputs import Astra, Outcome, numbers, write


@pytest.fixture
def astra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Astra:
    """The command, in this process, in a folder with the files of a run that works."""
    write(tmp_path)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["astra", *arguments])
        try:
            cli.main()
            status: Any = 0
        except SystemExit as stop:
            status = stop.code
        printed = capsys.readouterr()
        return Outcome(status or 0, printed.out, printed.err)

    return call


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Arguments of a call of simulate that works, with the files in the current folder."""
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return {"workload": "w.txt", "system": "s.txt", "network": "n.json"}


@pytest.fixture
def installed(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Installs a distribution with a plugin called `mine`; returns the environment in which it is found."""

    def install(source: str, entry: str = "mine = {module}") -> dict[str, str]:
        write(tmp_path)
        number = next(numbers)
        folder = tmp_path / f"installed{number}"
        information = folder / "somebodys_plugin-0.1.dist-info"
        information.mkdir(parents=True)
        (folder / f"somebodys{number}.py").write_text(source)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-plugin\nVersion: 0.1\n")
        (information / "entry_points.txt").write_text("[astra_sim]\n" + entry.format(module=f"somebodys{number}") + "\n")
        return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}

    return install
