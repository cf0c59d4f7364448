"""Function tables of compiled networks that break their rules: a clear error that names the network, on both engines."""

from __future__ import annotations

import copy
import ctypes
import heapq
import shutil
import subprocess
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputWarning, PluginError
from astra_sim import function_table as native
from astra_sim.network import RouteDelayNetwork
from astra_sim.platform import Platform
from support.analytical import LINKS, network

PLATFORM = "plugin:ring?size=4&links=2&" + LINKS.format(50, 500)
CHOICES: dict[str, Any] = {"workload": "plugin:collective?bytes=4000", "set": ["system.all_reduce=direct"]}
LATENCY_PS = 1000
ENGINES = pytest.mark.parametrize("engine", ["python", "compiled"])


class Parts:
    """The functions of a working table, in Python: every message arrives after a while."""

    def __init__(self) -> None:
        self.under_way: list[tuple[int, int]] = []
        self.kept: Any = None

    def inject(self, state: Any, time: int, messages: Any, count: int) -> int:
        for number, *_ in native._PACKED.iter_unpack(ctypes.string_at(messages, count * native._PACKED.size)):
            heapq.heappush(self.under_way, (time + LATENCY_PS, number))
        return 0

    def advance(self, state: Any, until: int, time: Any, numbers: Any, count: Any) -> int:
        if not self.under_way or self.under_way[0][0] > until:
            return 0
        time[0], number = heapq.heappop(self.under_way)
        self.kept = (ctypes.c_uint64 * 1)(number)
        ctypes.c_void_p.from_address(numbers).value, count[0] = ctypes.addressof(self.kept), 1
        return 0

    def next_event(self, state: Any) -> int:
        return self.under_way[0][0] if self.under_way else native.NEVER


def capsule_of(table: native._Table) -> object:
    """A capsule with a table, which the caller keeps."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    capsule: object = new(ctypes.addressof(table), native.CAPSULE, None)
    return capsule


class Broken(native.TableNetwork):
    """A network whose table works but for what it is given: functions by name, None for NULL, or the address of one."""

    def __init__(self, platform: Platform, **functions: Any) -> None:
        super().__init__(platform)
        self._functions = functions

    def make_table(self) -> object:
        parts = Parts()
        result: dict[str, Any] = {"inject": parts.inject, "advance": parts.advance, "next_event": parts.next_event, **self._functions}
        types: dict[str, Any] = dict(native._Table._fields_)
        self.made = native._Table(native.VERSION, ctypes.sizeof(native._Table))
        for name, function in result.items():
            if function is not None:
                setattr(self.made, name, types[name](function))
        return capsule_of(self.made)


def simulate(engine: str, **functions: Any) -> astra_sim.Result:
    return astra_sim.simulate(network=Broken(network(PLATFORM).platform, **functions), engine=engine, **CHOICES)


def refused(engine: str, **functions: Any) -> str:
    with pytest.raises(PluginError) as caught:
        simulate(engine, **functions)
    return str(caught.value)


def failing(*arguments: Any) -> int:
    return -1


@ENGINES
def test_a_table_of_python_functions_works(engine: str) -> None:
    assert simulate(engine).messages == 24


@ENGINES
def test_an_error_in_another_encoding_is_told(engine: str) -> None:
    words = ctypes.c_char_p(b"caf\xe9 at \xff")
    got = refused(engine, inject=failing, error=lambda state: ctypes.cast(words, ctypes.c_void_p).value)
    assert got == "network Broken: caf\ufffd at \ufffd"


@ENGINES
@pytest.mark.parametrize("status", [1, 7, -1, -9])
@pytest.mark.parametrize("name", ["inject", "advance"])
def test_any_status_but_0_is_an_error(engine: str, name: str, status: int) -> None:
    assert refused(engine, **{name: lambda *_: status}) == f"network Broken: {name} failed"


@ENGINES
@pytest.mark.parametrize("name", ["inject", "advance", "next_event"])
def test_a_function_that_is_needed_and_null_is_named(engine: str, name: str) -> None:
    assert refused(engine, **{name: None}) == f"network Broken: the network function table lacks {name} (it is NULL)"


@ENGINES
def test_messages_without_their_numbers_are_an_error(engine: str) -> None:
    def advance(state: Any, until: int, time: Any, numbers: Any, count: Any) -> int:
        count[0] = 2
        return 0

    assert refused(engine, advance=advance) == "network Broken: advance returned 2 messages without their numbers (NULL)"


@ENGINES
def test_a_delivery_in_the_past_is_an_error(engine: str) -> None:
    result = (ctypes.c_uint64 * 1)(1)

    def advance(state: Any, until: int, time: Any, numbers: Any, count: Any) -> int:
        ctypes.c_void_p.from_address(numbers).value, time[0], count[0] = ctypes.addressof(result), -5, 1
        return 0

    assert "network Broken: advance returned the time -5; " in refused(engine, advance=advance)


@ENGINES
@pytest.mark.parametrize(
    ("names", "wrong"),
    [([b"good", b"caf\xe9"], "1"), ([None, b"good"], "0"), ([b"good", b"good"], "1"), ([b"good", b""], "1")],
    ids=["not UTF-8", "NULL", "twice", "empty"],
)
def test_a_finished_run_survives_the_names_of_statistics(engine: str, names: list[bytes | None], wrong: str) -> None:
    array = (native._Statistic * len(names))(*(native._Statistic(name, 2.5) for name in names))

    def statistics(state: Any, figures: Any) -> int:
        figures[0] = ctypes.cast(array, ctypes.POINTER(native._Statistic))
        return len(names)

    with pytest.warns(InputWarning, match=f"network Broken: figure {wrong} of its statistics has the name"):
        result = simulate(engine, statistics=statistics)
    assert result.messages == 24
    assert result.network["good"] == 2.5


@ENGINES
def test_statistics_without_an_array_are_left_out(engine: str) -> None:
    with pytest.warns(InputWarning, match="network Broken: statistics returned 3 figures without an array"):
        assert simulate(engine, statistics=lambda *_: 3).messages == 24


THROWING = r"""
#include <stdexcept>
#include <cstdint>
extern "C" int throws(void *, ...) { throw std::runtime_error("no luck \xff"); }
extern "C" int throws_a_number(void *, ...) { throw 3; }
extern "C" const char *throws_words(void *) { throw std::runtime_error("no words"); }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Functions in C++ that throw."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    folder: Path = tmp_path_factory.mktemp("throwing")
    (folder / "throwing.cpp").write_text(THROWING)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "throwing.so", folder / "throwing.cpp"], check=True, timeout=120)
    return ctypes.CDLL(str(folder / "throwing.so"))


def address(library: ctypes.CDLL, name: str) -> int:
    value = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert value is not None
    return value


@pytest.mark.parametrize("name", ["inject", "advance"])
def test_what_a_function_throws_is_an_error_of_the_compiled_engine(library: ctypes.CDLL, name: str) -> None:
    assert refused("compiled", **{name: address(library, "throws")}) == f"network Broken: {name} threw an exception: no luck \ufffd"
    assert refused("compiled", **{name: address(library, "throws_a_number")}) == f"network Broken: {name} threw an exception"
    thrown = refused("compiled", **{name: failing, "error": address(library, "throws_words")})
    assert thrown == "network Broken: error threw an exception: no words"


class Odd(type(network(PLATFORM))):  # type: ignore[misc]
    """The analytical network with another table: its `delay`, or NULL."""

    delay_function: Any = None

    def function_table(self) -> object:
        self.made = native._Table(native.VERSION, ctypes.sizeof(native._Table))
        if self.delay_function is not None:
            self.made.delay = native._DELAY(self.delay_function)
        return capsule_of(self.made)


def odd(function: Any) -> str:
    """The error of a network without contention whose table has this `delay`."""
    result = copy.copy(network(PLATFORM))  # which other tests may get, too
    assert isinstance(result, RouteDelayNetwork)
    result.__class__ = Odd
    result.delay_function = function  # type: ignore[attr-defined]
    with pytest.raises(PluginError) as caught:
        astra_sim.simulate(
            network=result, engine="compiled", symmetry=False, workload=CHOICES["workload"], set=["system.all_reduce=double_binary_tree"]
        )
    return str(caught.value)


def test_a_delay_that_is_null_negative_or_thrown_is_an_error(library: ctypes.CDLL) -> None:
    assert odd(None).endswith("network Odd: the network function table lacks delay (it is NULL)")
    assert odd(failing) == "network Odd: delay failed"
    assert odd(address(library, "throws")) == "network Odd: delay threw an exception: no luck \ufffd"
