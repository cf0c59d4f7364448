"""Some of the random experiments of `python3 dev.py random`, the same ones every time."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import astra_sim
import pytest
from support.experiment_checks import Handed, Outcome, check, differences, faster_than_links, main
from support.random_experiments import Experiment


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_what_must_hold_holds(first: int, tmp_path: Path) -> None:
    outcomes: dict[int, Outcome] = {}
    for seed in range(first, first + 20):
        (tmp_path / str(seed)).mkdir()
        outcomes[seed] = check(seed, tmp_path / str(seed))
    assert not {seed: outcome.violations for seed, outcome in outcomes.items() if outcome.violations}
    assert sum(outcome.end == "finished" for outcome in outcomes.values()) >= 15


def test_experiments_are_of_all_kinds(tmp_path: Path) -> None:
    result = [Experiment(seed, tmp_path) for seed in range(200)]
    kinds = {(one.network, one.kind) for one in result}
    assert len(kinds) == 4 * 3  # networks, and collectives, layers or traces
    assert sum(one.is_monotone() for one in result) >= 10


def test_differences_are_found() -> None:
    """The comparison itself can fail."""
    assert differences({"a": [1, 2]}, {"a": [1, 2]}) == []
    assert differences({"a": [1, 2]}, {"a": [1, 3]}) == [".a[1]: 2 and 3"]
    assert differences({"a": 1}, {"b": 1})


def test_a_network_that_is_faster_than_its_links_is_found(tmp_path: Path) -> None:
    experiment = next(
        one for one in (Experiment(seed, tmp_path) for seed in range(100)) if one.network == "flow" and one.kind == "collective"
    )
    result = astra_sim.simulate(**experiment.options)
    handed = Handed(between=Counter({(0, 1, int(1e12)): 1}))
    assert "and links need" in faster_than_links(experiment, result, handed)[-1]
    handed.between = Counter({(0, 1, 1): 1})
    assert faster_than_links(experiment, result, handed) == []


def test_the_command_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["3", "7"]) == 0
    assert capsys.readouterr().out.startswith("3 experiments (")
