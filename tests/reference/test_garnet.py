"""Whole runs of Garnet under ASTRA-sim 1.0: the finish time, cycle by cycle."""

from __future__ import annotations

from pathlib import Path

from support.garnet import lost_wake_up, small_runs


def test_finish_times_are_equal(tmp_path: Path) -> None:
    wrong, tried = {}, 0
    for case, result in small_runs(tmp_path):
        tried += 1
        if result.finish_ns != case["finish_time"]:
            wrong[case["id"]] = (result.finish_ns, case["finish_time"], lost_wake_up(case))
    assert tried > 100
    assert not {name: figures for name, figures in wrong.items() if not figures[2]}
    assert len(wrong) < 0.1 * tried
