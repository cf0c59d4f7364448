"""Sweeps: runs side by side."""

from __future__ import annotations

import multiprocessing
import re
import signal
from collections.abc import Sequence
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.commands import Progress
from astra_sim.options import Typed
from astra_sim_serving import serve
from astra_sim_serving.experiment import ServingExperiment
from astra_sim_serving.sweep import ServingRow, SweptRuns

from serving.cases import case

Axes = Sequence[tuple[str, Sequence[Any]]]
RATES: Axes = [("serving.requests.rate", [20.0, 50.0, 90.0]), ("serving.max_sequences", [2, 8])]


def rows_of(axes: Axes, processes: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[ServingRow], ServingRow | None]:
    """The rows of a sweep, with as many processes."""
    monkeypatch.setattr("astra_sim_serving.workers.processors", lambda: processes)
    with SweptRuns(ServingExperiment(case(slo={"ttft_ms": 1000.0})), axes) as runs:
        assert len(multiprocessing.active_children()) == (processes if processes > 1 else 0)
        result = runs.rows(Progress(enabled=False))
    assert multiprocessing.active_children() == []
    return result


def test_runs_side_by_side_have_the_rows_of_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    beside, alone = (rows_of(RATES, processes, monkeypatch) for processes in (3, 1))
    assert beside == alone
    assert [row.values for row in beside[0]] == [
        {"serving.requests.rate": rate, "serving.max_sequences": most} for rate in (20.0, 50.0, 90.0) for most in (2, 8)
    ]
    assert beside[1] is not None


@pytest.mark.parametrize("processes", [1, 2])
def test_the_error_of_a_run_is_that_of_the_sweep(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="requests: rate is -1"):
        rows_of([("serving.requests.rate", [20.0, -1.0])], processes, monkeypatch)
    assert multiprocessing.active_children() == []


def test_a_process_of_a_sweep_ends_at_once_though_sigterm_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astra_sim_serving.workers.processors", lambda: 2)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with SweptRuns(ServingExperiment(case()), RATES) as runs:
            pool = runs.workers._pool
            assert pool is not None
            assert pool.apply(signal.getsignal, (signal.SIGTERM,)) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("value", "message"), [("0", "value is 0; expected at least 1"), ("many", "value: 'many' is not a whole number")])
def test_a_length_on_the_command_line_is_a_number(value: str, message: str) -> None:
    experiment = ServingExperiment(
        case(requests={"arrival": "burst", "count": 3, "input": {"distribution": "uniform", "low": 5, "high": 9}})
    )
    result = serve(experiment.with_values({"serving.requests.input": Typed("100")}))
    assert {each.request.input for each in result.sequences} == {100}
    with pytest.raises(InputError, match=re.escape(f"serving.requests.input: {message}")):
        serve(experiment.with_values({"serving.requests.input": Typed(value)}))
