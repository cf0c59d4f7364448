"""Which whole runs of Garnet under ASTRA-sim 1.0 are compared, and which of them show its defect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import astra_sim

from support.references import FULL, cases_or_skip

MOST_FLITS = 10**9 if FULL else 100_000
"""Runs with more are compared by `.ci/nightly`."""


def lost_wake_up(case: dict[str, Any]) -> bool:
    """Whether a case may show the defect of Garnet's interfaces that docs/packet.md describes: few virtual channels, original program."""
    return case["program"] == "original" and any(f"vcs-per-vnet: {few}\n" in case["network_txt"] for few in (1, 2, 4))


def small_runs(folder: Path) -> Iterator[tuple[dict[str, Any], astra_sim.Result]]:
    """The reference runs of at most MOST_FLITS flits, and what astra makes of their files, which are written to the folder."""
    for case in cases_or_skip("garnet.jsonl"):
        if case["stats"]["flits_inj"] > MOST_FLITS:
            continue
        files: dict[str, Any] = {}
        for name in ("network", "system", "workload"):
            files[name] = str(folder / f"{name}.txt")
            (folder / f"{name}.txt").write_text(case[f"{name}_txt"])
        yield case, astra_sim.simulate(passes=case["args"]["num_passes"], **files)
