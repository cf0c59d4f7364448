"""The contract of networks, and a run."""

from __future__ import annotations

from pathlib import Path

import astra_sim
import pytest
from astra_sim.testing.contracts import NetworkContract

EXAMPLE = Path(__file__).parents[1] / "example.toml"


class TestContract(NetworkContract):
    """Every message arrives once, in order of time."""

    name = "bus"


@pytest.mark.parametrize("engine", ["python", "auto"])
def test_the_bus_carries_one_message_after_another(engine: str) -> None:
    # 14 steps of 8 messages of 125 000 bytes at 100 bytes/ns; a step may overlap with the time in which others are on their way.
    result = astra_sim.simulate(EXAMPLE, engine=engine)
    transfer_ns = 14 * 8 * 1250
    assert result.network["busy_ns"] == transfer_ns
    assert transfer_ns + 500 <= result.finish_ns <= transfer_ns + 14 * 500
