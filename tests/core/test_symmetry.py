"""Simulating one NPU for all gives the same integers as simulating every NPU and every message."""

from __future__ import annotations

from typing import Any

import astra_sim
from hypothesis import HealthCheck, given, settings
from support import figures
from support.layered_experiments import experiments


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(experiment=experiments())
def test_symmetry_on_equals_symmetry_off(experiment: dict[str, Any]) -> None:
    short = astra_sim.simulate(**experiment)
    full = astra_sim.simulate(**experiment, symmetry=False)
    assert figures(short) == figures(full)
