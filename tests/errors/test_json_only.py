"""Every command under `--json`: standard output is JSON or empty, with help, with an error, and with a warning."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from astra_sim.command.cli import astra, main

from errors.inputs import command


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The commands that have an option `--json`."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if any("--json" in parameter.opts for parameter in command.params):
            yield (*path, name)
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Runs a command in an empty folder; returns what it says on standard output and on standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["astra", *words])
        with contextlib.suppress(SystemExit):
            main()
        return capsys.readouterr()

    return call


def _is_json(text: str) -> bool:
    try:
        return not text or json.loads(text) is not None
    except ValueError:
        return False


@pytest.mark.parametrize("words", [["--help"], ["no-such-file.toml", "no-such-file.toml"], ["--no-such-option"]], ids=" ".join)
def test_standard_output_is_json_or_empty(run: Callable[..., tuple[str, str]], words: list[str]) -> None:
    commands = list(_commands(astra))
    assert {("run",), ("compare",), ("plugins", "list"), ("trace", "check"), ("sweep",)} <= set(commands)
    for path in commands:
        out, err = run(*path, "--json", *words)
        assert _is_json(out), (path, out)
        assert out or err, path


def test_a_warning_leaves_json_alone(tmp_path: Path) -> None:
    platform = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
    words = ("--workload", "plugin:collective?bytes=1024", "--platform", platform, "--system", "plugin:astra2?send_traffic_class=3")
    run = command(tmp_path, *words, "--json")
    assert json.loads(run.out)["npus"] == 4
    assert "warning" in run.err
