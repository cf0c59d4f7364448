"""Formulas of checkpoints and interruptions, against published figures and limits."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from astra_sim.errors import InputError
from astra_sim_goodput import closed_forms
from hypothesis import given
from hypothesis import strategies as st
from support import ROOT

FLEET = ROOT.parent / "shared" / "reference" / "fleet.jsonl"

times = st.floats(1, 1e6)


def fleet() -> dict[str, dict[str, Any]]:
    if not FLEET.exists():
        pytest.skip("there are no published fleets beside the project")
    return {row["id"]: row for row in map(json.loads, FLEET.read_text().splitlines())}


@pytest.mark.parametrize(
    ("mtti", "write", "restart", "young", "best", "efficiency", "first_order"),
    [(10926.7, 20, 300, 661.1111858, 648, 0.9152333608, 0.914622958), (11134, 60, 600, 1155.88926805, 1116, 0.852541852, 0.85007705)],
)
def test_daly_in_full(mtti: float, write: float, restart: float, young: float, best: int, efficiency: float, first_order: float) -> None:
    """The best whole number of seconds, its efficiency, and Young's interval with its efficiency to first order."""
    assert closed_forms.young_interval(mtti, write) == pytest.approx(young)
    assert round(closed_forms.daly_interval(mtti, write)) == best
    assert closed_forms.daly_efficiency(mtti, write, restart, best) == pytest.approx(efficiency)
    assert closed_forms.first_order_efficiency(mtti, write, restart, young) == pytest.approx(first_order)


def test_daly_agrees_with_the_published_rows() -> None:
    rows = [row for name, row in fleet().items() if name.startswith("daly_")]
    assert len(rows) == 2
    for row in rows:
        mtti, write, restart = row["mtbf_s"], row["write_s"], row["restart_s"]
        assert round(closed_forms.daly_interval(mtti, write)) == row["best_integer_s"]
        assert closed_forms.daly_efficiency(mtti, write, restart, row["best_integer_s"]) == pytest.approx(row["efficiency_best"])
        young = closed_forms.young_interval(mtti, write)
        assert young == pytest.approx(row["young_s"])
        assert closed_forms.first_order_efficiency(mtti, write, restart, young) == pytest.approx(row["meta_first_order_at_young"])


@given(mtti=times, write=times, restart=st.floats(0, 1e5), factor=st.floats(0.2, 5))
def test_no_interval_is_better_than_daly_s(mtti: float, write: float, restart: float, factor: float) -> None:
    best = closed_forms.daly_interval(mtti, write)
    assert 0 < best <= mtti
    there = closed_forms.daly_efficiency(mtti, write, restart, best)
    assert closed_forms.daly_efficiency(mtti, write, restart, best * factor) <= there * (1 + 1e-12)


@given(ratio=st.floats(1e-12, 600))
def test_lambert(ratio: float) -> None:
    """w e^w = -e^(-ratio - 1), on the branch of w >= -1: in logarithms of -w."""
    w = closed_forms.lambert_w0_of(ratio)
    assert -1 <= w < 0
    assert math.log(-w) + w == pytest.approx(-ratio - 1, rel=1e-9, abs=1e-9)


def test_young_is_daly_where_writing_takes_no_time_to_speak_of() -> None:
    assert closed_forms.daly_interval(1e9, 1) == pytest.approx(closed_forms.young_interval(1e9, 1), rel=1e-4)


def test_saxena_counts_the_write() -> None:
    assert closed_forms.saxena_interval(10_000, 20, 0) == pytest.approx(20 + math.sqrt(2 * 10_000 * 20 + 400))


def test_a_first_order_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="to first order nothing is left"):
        closed_forms.first_order_efficiency(1000, 20, 900, 300)


@pytest.mark.parametrize(("servers", "load", "blocked"), [(1, 1.0, 0.5), (2, 1.0, 0.2), (10, 5.0, 0.018385)])
def test_erlang(servers: int, load: float, blocked: float) -> None:
    assert closed_forms.erlang_b(servers, load) == pytest.approx(blocked, rel=1e-4)
