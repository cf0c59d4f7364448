"""The example of a network in C++ is built anywhere, with the header that it carries, then installed and used as a user would."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import ROOT
from support.commands import commands_of

if TYPE_CHECKING:
    from support.environments import Environment

pytestmark = pytest.mark.xdist_group("wheels")  # in one process: the wheels are built once
EXAMPLE = ROOT / "examples" / "plugins" / "bus_network"


def test_a_wheel_of_a_network_in_cpp_is_built_anywhere_installed_and_used(
    tmp_path: Path, build_wheel: Callable[[Path], Path], clean_environment: Callable[[], Environment]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(EXAMPLE, elsewhere, ignore=shutil.ignore_patterns("build", "__pycache__"))
    wheel = build_wheel(elsewhere)
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("tests")]
    environment = clean_environment()
    environment.install("--no-deps", wheel)
    environment.install("pytest")
    done = environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", elsewhere)
    assert done.returncode == 0, done.stdout
    assert environment.run("astra", "plugins", "check", "bus").stdout == "ok     network bus\n"
    for command in commands_of((elsewhere / "README.md").read_text()):
        done = environment.run_in(elsewhere, command)
        assert (done.returncode, done.stderr) == (0, ""), command
    ring = "plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=50&link_latency_ns=500"
    arguments = ["--platform", ring, "--workload", "plugin:collective?bytes=1000000", "--json", "--set", "system.endpoint_delay_ns=0"]
    answers = []
    for engine in ("python", "compiled"):
        done = environment.run("astra", "--network", "plugin:bus?bandwidth_gb_per_s=200", "--engine", engine, *arguments)
        assert done.returncode == 0, done.stderr
        answers.append({**json.loads(done.stdout), "wall_s": 0, "experiment": None, "versions": None, "invocation": None})
    assert answers[0] == answers[1]
    # 14 steps of 8 messages of 125 000 bytes, one after another; a step may overlap with the time in which others are on their way.
    transfer_ns = 14 * 8 * 125_000 / 200
    assert answers[0]["network"]["busy_ns"] == transfer_ns
    assert transfer_ns + 499 <= answers[0]["finish_ns"] <= transfer_ns + 14 * 501
