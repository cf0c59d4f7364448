"""An input file names functions that a package has registered, and can call no others."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import astra_sim
import pytest
from astra_sim import InputError, PluginError
from astra_sim.providers import named_function

NOTHING = {"operations": 0}
LAYERS = {
    "loop": "data",
    "layers": [{"name": "conv", "forward": {"operations": 2e6}, "input_gradient": NOTHING, "weight_gradient": NOTHING}],
}
RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100"
MODULE = """
CONSTANT = 0.5


def half_above_a_million(operations):
    return 1.0 if operations <= 1e6 else 0.5


def twice(operations):
    return 2.0


def leaves(operations):
    raise SystemExit(0)
"""
ENTRIES = """
half = registered_functions:half_above_a_million
twice = registered_functions:twice
leaves = registered_functions:leaves
constant = registered_functions:CONSTANT
nowhere = registered_functions:nosuchthing
"""


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Installs a distribution that registers functions."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "registered_functions.py").write_text(MODULE)

    def install(distribution: str, entries: str) -> None:
        information = tmp_path / f"{distribution}-0.1.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1\n")
        (information / "entry_points.txt").write_text(f"[astra_sim.functions]\n{entries}\n")
        importlib.invalidate_caches()

    return install


def computing(name: str) -> float:
    """The compute time of 2 million operations at 10^12 a second and the efficiency of that name."""
    compute = {"plugin": "roofline", "peak_tera_ops_per_s": 1, "efficiency_function": name}
    return astra_sim.simulate(workload=LAYERS, platform=RING, compute=compute).compute_ns


def test_a_registered_function_is_called(register: Callable[[str, str], None]) -> None:
    register("mine", ENTRIES)
    assert computing("half") == 4000
    assert computing("half@mine") == 4000


@pytest.mark.parametrize("name", ["os:_exit", "ctypes:string_at", "registered_functions:twice", "half@other", "halve", "@"])
def test_no_other_function_is_called(register: Callable[[str, str], None], name: str) -> None:
    register("mine", ENTRIES)
    with pytest.raises(InputError, match=r"expected the name of a function of the entry-point group astra_sim\.functions") as caught:
        computing(name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("twice", r"gives 2\.0 for 2e\+06 operations; expected above 0 and at most 1"),
        ("leaves", "SystemExit: 0"),
        ("constant", r"'constant' is 0\.5, which cannot be called"),
        ("nowhere", "AttributeError"),
    ],
)
def test_a_registered_function_that_cannot_be_used_is_named(register: Callable[[str, str], None], name: str, message: str) -> None:
    register("mine", ENTRIES)
    with pytest.raises(PluginError, match=message) as caught:
        computing(name)
    assert f"efficiency_function {name!r}" in str(caught.value)


def test_a_name_of_two_distributions_must_be_chosen(register: Callable[[str, str], None]) -> None:
    register("one", "f = math:sin")
    register("two", "f = math:cos")
    with pytest.raises(PluginError, match="key is 'f', which several packages register; choose f@one or f@two"):
        named_function("f", "key")
    assert named_function("f@two", "key")(0) == 1
