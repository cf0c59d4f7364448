"""The network function table: from Python, from the compiled engine, and against the formula in Python."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.function_table import CAPSULE, VERSION, FunctionTable, TableNetwork
from astra_sim.network import Message, RouteDelayNetwork
from hypothesis import given, settings
from hypothesis import strategies as st
from support import figures
from support.analytical import LINKS, WORKLOAD, network


def table(made: RouteDelayNetwork) -> FunctionTable:
    return FunctionTable(made.function_table())


@st.composite
def platforms(draw: st.DrawFn) -> dict[str, Any]:
    dimensions = []
    for _ in range(draw(st.integers(1, 3))):
        topology = draw(st.sampled_from(["ring", "fully_connected", "switch"]))
        size = draw(st.integers(2, 6))
        dimensions.append(
            {
                "topology": topology,
                "size": size,
                "links": {"ring": 2, "fully_connected": size - 1, "switch": 1}[topology],
                "link_bandwidth_gib_per_s": draw(st.floats(0.1, 5000)),
                "link_latency_ns": draw(st.one_of(st.just(0.0), st.floats(1e-3, 3000))),
                "nic_latency_ns": draw(st.one_of(st.just(0.0), st.floats(1e-3, 100))),
                "router_latency_ns": draw(st.one_of(st.just(0.0), st.floats(1e-3, 100))),
                "hbm_latency_ns": draw(st.one_of(st.just(0.0), st.floats(1e-3, 100))),
                "hbm_bandwidth_bytes_per_ns": draw(st.floats(1, 5000)),
                "hbm_scale": draw(st.sampled_from([0, 1, 2.5])),
            }
        )
    return {"dimensions": dimensions}


@settings(max_examples=200, deadline=None)
@given(platform=platforms(), rounding=st.sampled_from(["nanosecond", "picosecond"]), data=st.data())
def test_the_analytical_table_is_the_formula(platform: dict[str, Any], rounding: str, data: st.DataObject) -> None:
    result = network(platform, f"?rounding={rounding}")
    functions = table(result)
    for _ in range(5):
        source, destination = data.draw(st.lists(st.integers(0, result.platform.npus - 1), min_size=2, max_size=2, unique=True))
        size = data.draw(st.integers(0, 2**36))
        assert functions.delay(source, destination, size) == result.message_delay(source, destination, size)


def test_what_is_injected_arrives_in_order_of_time() -> None:
    result = network("plugin:ring?size=8&links=2&" + LINKS.format(50, 500))
    functions = table(result)
    assert functions.next_event() is None
    functions.inject(1000, [Message(1, 0, 3, 1000), Message(2, 0, 1, 1000), Message(3, 4, 5, 1000)])
    near, far = (1000 + result.message_delay(0, npu, 1000) for npu in (1, 3))
    assert functions.next_event() == near
    assert functions.advance(near - 1) is None
    assert functions.advance(None) == (near, [2, 3])
    assert functions.advance(far) == (far, [1])
    assert functions.advance(None) is None


def test_a_message_that_cannot_be_is_an_error() -> None:
    functions = table(network("plugin:ring?size=8&links=2&" + LINKS.format(50, 500)))
    with pytest.raises(astra_sim.PluginError, match="has no delay"):
        functions.inject(0, [Message(1, 0, 99, 1)])


class Tabled(TableNetwork):
    """An event network whose table is that of the analytical network."""

    def __init__(self, inner: RouteDelayNetwork) -> None:
        super().__init__(inner.platform)
        self._inner = inner

    def make_table(self) -> object:
        return self._inner.function_table()


@pytest.mark.parametrize("algorithm", ["ring", "direct", "halving_doubling", "double_binary_tree"])
def test_a_table_gives_both_engines_the_same_answer(algorithm: str) -> None:
    inner = network("plugin:torus?sizes=4,4&" + LINKS.format(50, 500))
    choices: dict[str, Any] = {"workload": WORKLOAD, "set": ["system.splits=3", f"system.all_reduce={algorithm}"]}
    expected = figures(astra_sim.simulate(platform="plugin:torus?sizes=4,4&" + LINKS.format(50, 500), **choices))
    own = Tabled(inner)
    for engine in ("python", "compiled", "python", "compiled"):
        got = figures(astra_sim.simulate(network=own, engine=engine, **choices))
        assert {**got, "network": None, "audit": None} == {**expected, "network": None, "audit": None}


def test_where_ranks_differ_the_compiled_engine_uses_the_table() -> None:
    """The compiled engine takes the table's delays, not those of Python, where they depend on the rank."""

    class Faster(type(network("plugin:ring?size=8&links=2&" + LINKS.format(50, 500)))):  # type: ignore[misc]
        def function_table(self) -> object:
            return network("plugin:ring?size=8&links=2&" + LINKS.format(500, 50)).function_table()

    result = network("plugin:ring?size=8&links=2&" + LINKS.format(50, 500))
    result.__class__ = Faster
    choices: dict[str, Any] = {"workload": WORKLOAD, "symmetry": False, "set": ["system.all_reduce=double_binary_tree"]}
    slow, fast = (astra_sim.simulate(network=result, engine=engine, **choices).finish_ns for engine in ("python", "compiled"))
    assert fast < slow / 2


def test_what_is_no_table_is_an_error() -> None:
    with pytest.raises(astra_sim.PluginError, match="no capsule named"):
        FunctionTable(object())

    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    memory = (ctypes.c_uint32 * 64)(VERSION + 1, 256)
    with pytest.raises(astra_sim.PluginError, match=f"has version {VERSION + 1}; expected {VERSION}"):
        FunctionTable(new(ctypes.addressof(memory), CAPSULE, None))

    class Broken(TableNetwork):
        def make_table(self) -> object:
            return new(ctypes.addressof(memory), CAPSULE, None)

    platform = network("plugin:ring?size=8&links=2&" + LINKS.format(50, 500)).platform
    for engine in ("python", "compiled"):
        with pytest.raises(astra_sim.PluginError, match="version"):
            astra_sim.simulate(workload=WORKLOAD, network=Broken(platform), engine=engine)


def test_the_header_is_where_compilers_look() -> None:
    header = Path(astra_sim.get_include()) / "astra_sim" / "network.h"
    text = header.read_text()
    assert f"#define ASTRA_NETWORK_VERSION {VERSION}" in text
    assert f'"{CAPSULE.decode()}"' in text


def test_both_versions_of_the_table_run() -> None:
    """The packet network has a table of version 1, roce one of version 2, the only one that reports sent messages."""
    pytest.importorskip("astra_sim_network_roce")
    from support.roce import STAR
    from support.roce import network as roce

    result = roce(STAR.format(2))
    result.begin()
    second = FunctionTable(result.function_table())
    second.require("events")
    second.inject(0, [Message(1, 0, 1, 1000, -1, 7, 4)])
    answer = second.advance(None)
    assert answer is not None
    assert (second.reports_completion, answer[1], second.take_completed()) == (True, [1], [])
    later = second.advance(None)
    assert later is not None
    assert (later[1], second.take_completed()) == ([], [1])
    assert later[0] > answer[0]
    assert second.advance(None) is None
    first = table(network("plugin:ring?size=8&links=2&" + LINKS.format(50, 500)))
    first.inject(0, [Message(1, 0, 1, 1000, -1, 7, 4)])
    assert (first.reports_completion, (first.advance(None) or (0, []))[1]) == (False, [1])
