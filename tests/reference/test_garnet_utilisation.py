"""Whole runs of Garnet under ASTRA-sim 1.0: when the dimensions are busy, window by window."""

from __future__ import annotations

from pathlib import Path

import pytest
from astra_sim_reports_astra1.utilisation import dimension_utilization
from support.garnet import lost_wake_up, small_runs

pytest.importorskip("astra_sim_network_packet.network")


def windows(text: str) -> list[list[float]]:
    """The figures of a utilisation file: a row for each window, the end of the window first."""
    return [[float(cell) for cell in line.split(",") if cell] for line in text.strip().splitlines()[1:] if line.strip(",")]


def test_utilisation_is_equal(tmp_path: Path) -> None:
    tried = 0
    for case, result in small_runs(tmp_path):
        if lost_wake_up(case) and result.finish_ns != case["finish_time"]:
            continue
        got, expected = windows("".join(dimension_utilization(result))), windows(case["dimension_utilization.csv"])
        # The third dimension of a platform with switches has no queues; it has a column there all the same.
        used = 1 + len(result.dimensions)
        assert got == [row[:used] for row in expected], case["id"]
        assert not any(figure for row in expected for figure in row[used:]), case["id"]
        tried += bool(expected)
    assert tried > 100
