"""Traces whose nodes wait for later ids, and their twins in an order of dependency: each rank of ASTRA-sim 2.x, to the nanosecond."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from support.astra2 import explained, figures, simulate
from support.references import FULL, cases_or_skip

# Some system files have keys that mean nothing.
pytestmark = pytest.mark.filterwarnings("ignore::astra_sim.InputWarning")


@pytest.fixture(scope="module", name="cases")
def cases_fixture() -> list[dict[str, Any]]:
    """Every third case and all that differ; all cases where ASTRA_REFERENCE_FULL is set."""
    cases = cases_or_skip("astra2-ids.jsonl")
    return cases if FULL else [case for number, case in enumerate(cases) if number % 3 == 0 or case["id"] in explained()]


def test_ranks_finish_when_they_do_there_except_where_the_documentation_explains(cases: list[dict[str, Any]], tmp_path: Path) -> None:
    finished = [case for case in cases if case["status"] == "ok"]
    wrong = {case["id"] for case in finished if figures(simulate(case, tmp_path), case["finish_cycles_per_sys"])["list"] != _list(case)}
    assert wrong == {case["id"] for case in finished} & explained()
    assert len(finished) > len(cases) * 0.9


def _list(case: dict[str, Any]) -> list[int]:
    """When each rank finished there."""
    times: list[int] = case["finish_cycles_per_sys"]["list"]
    return times


def test_a_run_that_does_not_end_there_is_an_error_or_explained(cases: list[dict[str, Any]], tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for case in cases:
        if case["status"] != "ok" and case["id"] not in explained():
            with pytest.raises(astra_sim.RunError, match="the run cannot finish"):
                simulate(case, tmp_path)
            outcomes["error"] += 1
        elif case["status"] != "ok":
            assert simulate(case, tmp_path).finish_ns > 0
            outcomes["answer"] += 1
    assert outcomes["answer"] == 2
    assert outcomes["error"] == 9 or not FULL


def test_neither_symmetry_nor_the_engine_changes_when_ranks_finish(cases: list[dict[str, Any]], tmp_path: Path) -> None:
    for case in [case for case in cases if case["status"] == "ok"][:: 3 if FULL else 8]:
        choices: list[dict[str, Any]] = [{"engine": "python"}, {"engine": "compiled"}, {"symmetry": False}]
        result = [simulate(case, tmp_path, **choice).npu_finish_ns for choice in choices]
        assert result[0] == result[1] == result[2], case["id"]
