"""Whole runs of Garnet under ASTRA-sim 1.0: the finish time, cycle by cycle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import astra_sim
from support.garnet import MOST_FLITS, lost_wake_up
from support.references import cases_or_skip


def test_finish_times_are_equal(tmp_path: Path) -> None:
    wrong, tried = {}, 0
    for case in cases_or_skip("garnet.jsonl"):
        if case["stats"]["flits_inj"] > MOST_FLITS:
            continue
        files: dict[str, Any] = {}
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
