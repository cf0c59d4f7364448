"""Which whole runs of Garnet under ASTRA-sim 1.0 are compared, and which of them show its defect."""

from __future__ import annotations

from typing import Any

from support.references import FULL

MOST_FLITS = 10**9 if FULL else 100_000
"""Runs with more are compared by `.ci/nightly`."""


def lost_wake_up(case: dict[str, Any]) -> bool:
    """Whether a case may show the defect of Garnet's interfaces that docs/packet.md describes: few virtual channels, original program."""
    return case["program"] == "original" and any(f"vcs-per-vnet: {few}\n" in case["network_txt"] for few in (1, 2, 4))
