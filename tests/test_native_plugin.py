"""The example of a network in C++ is built against the header that the kernel ships, installed and used as a user would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import ROOT

if TYPE_CHECKING:
    from support.environments import Environment

pytestmark = pytest.mark.xdist_group("wheels")  # in one process: the wheels are built once
EXAMPLE = ROOT / "examples" / "plugins" / "bus_network"


def test_a_network_in_cpp_is_built_installed_and_used(
    build_wheel: Callable[[Path], Path], clean_environment: Callable[[], Environment]
) -> None:
    environment = clean_environment()
    environment.install("--no-deps", build_wheel(EXAMPLE))
    ring = "plugin:ring?size=8&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
    arguments = ["--platform", ring, "--workload", "plugin:collective?bytes=1000000", "--json", "--set", "system.endpoint_delay_ns=0"]
    answers = []
    for engine in ("python", "compiled"):
        done = environment.run("astra", "--network", "plugin:bus?bandwidth_gib_per_s=200", "--engine", engine, *arguments)
        assert done.returncode == 0, done.stderr
        answers.append({**json.loads(done.stdout), "wall_s": 0, "experiment": None, "versions": None})
    assert answers[0] == answers[1]
    # 14 steps of 8 messages of 125 000 bytes, one after another; a step may overlap with the time in which others are on their way.
    transfer_ns = 14 * 8 * 125_000 / (200 * 2**30 / 1e9)
    assert abs(answers[0]["network"]["busy_ns"] - transfer_ns) < 1
    assert transfer_ns + 499 <= answers[0]["finish_ns"] <= transfer_ns + 14 * 501
