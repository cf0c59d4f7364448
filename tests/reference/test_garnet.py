"""Whole runs of Garnet under ASTRA-sim 1.0: the finish time, cycle by cycle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import astra_sim
import pytest

ROOT = Path(__file__).resolve().parents[2]
FULL = bool(os.environ.get("ASTRA_REFERENCE_FULL"))
MOST_FLITS = 10**9 if FULL else 100_000


def cases(name: str) -> list[dict[str, Any]]:
    """The cases of a file of references. Skips the test where it is absent."""
    path = Path(os.environ.get("ASTRA_REFERENCE", ROOT.parent / "shared" / "reference")) / name
    if not path.exists():
        pytest.skip(f"no reference cases {name}")
    with path.open() as lines:
        return [json.loads(line) for line in lines]


def lost_wake_up(case: dict[str, Any]) -> bool:
    """Whether a case may show the defect of Garnet's interfaces that docs/packet.md describes: few virtual channels, original program."""
    return case["program"] == "original" and any(f"vcs-per-vnet: {few}\n" in case["network_txt"] for few in (1, 2, 4))


def test_finish_times_are_equal(tmp_path: Path) -> None:
    wrong, tried = {}, 0
    for case in cases("garnet.jsonl"):
        if case["stats"]["flits_inj"] > MOST_FLITS:
            continue
        files = {}
        for name in ("network", "system", "workload"):
            files[name] = str(tmp_path / f"{name}.txt")
            (tmp_path / f"{name}.txt").write_text(case[f"{name}_txt"])
        result = astra_sim.simulate(passes=case["args"]["num_passes"], **files)
        tried += 1
        if result.finish_ns != case["finish_time"]:
            wrong[case["id"]] = (result.finish_ns, case["finish_time"], lost_wake_up(case))
    assert tried > 100
    assert not {name: figures for name, figures in wrong.items() if not figures[2]}
    assert len(wrong) < 0.1 * tried
