"""Arguments given from Python."""

from __future__ import annotations

import math
from typing import Any

import astra_sim
import pytest
from astra_sim import (
    InputError,
)

from errors.inputs import KINDS, Words, cases, holds


class BytesPath:
    """A path in bytes, which os.fspath gives back as such."""

    def __fspath__(self) -> bytes:
        return b"w.txt"

    def __repr__(self) -> str:
        return "BytesPath()"  # the name of a test must not hold an address: parallel runs would not find the same tests


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value",
    [3, True, math.nan, b"w.txt", [], ["w.txt"], BytesPath(), "a\0b", "plugin:\0", "a\udc80", {3: 4}, {"plugin": 3}, {"file": 3}],
    ids=repr,
)
def test_what_is_no_component_is_refused(inputs: dict[str, Any], kind: str, value: Any) -> None:
    if kind == "network":
        inputs["platform"] = "n.json"
    with pytest.raises(InputError):
        astra_sim.simulate(**{**inputs, kind: value})


@pytest.mark.parametrize("name", ["passes", "queues_per_dim"])
@pytest.mark.parametrize("value", ["2", True, 2.0, 0, -1, [], math.nan, math.inf, 2j], ids=repr)
def test_what_is_no_count_is_refused(inputs: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        astra_sim.simulate(**{**inputs, name: value})


@pytest.mark.parametrize("name", ["compute_scale", "comm_scale", "injection_scale"])
@pytest.mark.parametrize("value", ["2", True, -1, [], math.nan, math.inf, -math.inf, 2j], ids=repr)
def test_what_is_no_scale_is_refused(inputs: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        astra_sim.simulate(**{**inputs, name: value})


@pytest.mark.parametrize("value", [10**400, 10**39], ids=["10^400", "10^39"])
@pytest.mark.parametrize("name", ["compute_scale", "comm_scale", "injection_scale"])
def test_a_whole_number_too_large_for_a_scale_is_refused(inputs: dict[str, Any], name: str, value: int) -> None:
    with pytest.raises(InputError):
        astra_sim.simulate(**{**inputs, name: value})


@pytest.mark.parametrize("name", ["rendezvous", "symmetry"])
@pytest.mark.parametrize("value", ["true", 1, 0, [], math.nan], ids=repr)
def test_what_is_neither_true_nor_false_is_refused(inputs: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        astra_sim.simulate(**{**inputs, name: value})


@pytest.mark.parametrize("value", ["system.splits=3", [3], 3, [None], ["system.splits"]], ids=repr)
def test_what_is_no_list_of_assignments_is_refused(inputs: dict[str, Any], value: Any) -> None:
    with pytest.raises(InputError):
        astra_sim.simulate(**inputs, set=value)


@pytest.mark.parametrize("value", [3, b"e.toml", {}, {"workload": "w.txt"}, "a\0b", ".", "nowhere", ""], ids=repr)
def test_what_is_no_experiment_is_refused(inputs: dict[str, Any], value: Any) -> None:
    with pytest.raises(InputError):
        astra_sim.simulate(value, **inputs)
    with pytest.raises(InputError):
        astra_sim.load_experiment(value)


@cases(
    {
        "a run that is no table": ({"run": 3}, "run"),
        "sections that are no table": ({"sections": 3}, "sections"),
        "an unknown section": ({"sections": {"sistem": {}}}, "sistem"),
    }
)
def test_an_experiment_made_badly_is_refused(inputs: dict[str, Any], given: dict[str, Any], words: Words) -> None:
    with pytest.raises(InputError) as caught:
        astra_sim.simulate(astra_sim.Experiment(**given), **inputs)
    holds(str(caught.value), words)
