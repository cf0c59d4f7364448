"""The packet network through the C function table of the kernel's header, against its Python side."""

from __future__ import annotations

import ctypes
import random
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from astra_sim import network as network_module
from astra_sim.platform import Platform

pytest.importorskip("astra_sim_network_packet")

from astra_sim_network_packet.load import LoadMeasurement
from astra_sim_network_packet.network import PacketNetwork
from astra_sim_network_packet.options import PacketOptions
from astra_sim_network_packet.traffic import read_platform, sweep
from astra_sim_platforms.garnet import Torus3dOptions, torus3d
from support.packet import torus

NEVER = 2**63 - 1
VERSION = 1


class Message(ctypes.Structure):
    _fields_ = [
        ("number", ctypes.c_uint64),
        ("bytes", ctypes.c_int64),
        ("source", ctypes.c_int32),
        ("destination", ctypes.c_int32),
        ("queue", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class Statistic(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


_P64 = ctypes.POINTER(ctypes.c_uint64)


class Table(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("state", ctypes.c_void_p),
        ("delay", ctypes.c_void_p),
        ("inject", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(Message), ctypes.c_size_t)),
        (
            "advance",
            ctypes.CFUNCTYPE(
                ctypes.c_int,
                ctypes.c_void_p,
                ctypes.c_int64,
                ctypes.POINTER(ctypes.c_int64),
                ctypes.POINTER(_P64),
                ctypes.POINTER(ctypes.c_size_t),
            ),
        ),
        ("next_event", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)),
        ("statistics", ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.POINTER(ctypes.POINTER(Statistic)))),
        ("error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
    ]


def table_of(capsule: Any) -> Table:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get(capsule, b"astra_sim.network.v1")
    return ctypes.cast(address, ctypes.POINTER(Table)).contents


def advance(table: Table, until: int = NEVER) -> tuple[int, int, list[int]]:
    """The status, and what arrives when."""
    time, count, numbers = ctypes.c_int64(), ctypes.c_size_t(), _P64()
    status = table.advance(table.state, until, ctypes.byref(time), ctypes.byref(numbers), ctypes.byref(count))
    return status, time.value, [numbers[i] for i in range(count.value)]


@pytest.fixture(name="network")
def network_fixture() -> PacketNetwork:
    return PacketNetwork(PacketOptions(), Platform(tuple(torus(4, 4))))


def test_the_table_is_of_the_headers_version(network: PacketNetwork) -> None:
    capsule = network.function_table()
    table = table_of(capsule)
    assert (table.version, table.size) == (VERSION, ctypes.sizeof(Table))
    assert table.delay is None


def test_it_delivers_as_the_python_side_does(network: PacketNetwork) -> None:
    capsule = network.function_table()
    table = table_of(capsule)
    rng = random.Random(5)
    pairs = [rng.sample(range(16), 2) for _ in range(40)]
    messages = [(number, *pair, rng.randrange(1, 300_000), -1) for number, pair in enumerate(pairs)]
    array = (Message * len(messages))(*(Message(n, size, source, destination, queue) for n, source, destination, size, queue in messages))
    assert table.next_event(table.state) == NEVER
    assert table.inject(table.state, 1234, array, len(messages)) == 0
    assert 1234 <= table.next_event(table.state) < NEVER
    reference = PacketNetwork(PacketOptions(), network.platform)
    reference.inject(1234, [network_module.Message(*message) for message in messages])
    while (expected := reference.advance(None)) is not None:
        assert advance(table) == (0, *expected)
    assert advance(table) == (0, 0, [])
    figures = ctypes.POINTER(Statistic)()
    count = table.statistics(table.state, ctypes.byref(figures))
    result = {figures[i].name.decode(): figures[i].value for i in range(count)}
    assert result["packets"] == reference.statistics()["packets"]


def test_every_table_is_a_run_of_its_own(network: PacketNetwork) -> None:
    for _ in range(2):
        capsule = network.function_table()
        table = table_of(capsule)
        table.inject(table.state, 0, ctypes.byref(Message(7, 1000, 0, 1, -1)), 1)
        status, time, numbers = advance(table)
        assert (status, numbers) == (0, [7])
        assert time < 10**6
        del capsule


def test_errors_have_words() -> None:
    network = PacketNetwork(
        PacketOptions(preset="garnet", vcs=1, buffers=1, packet_bytes=4096), Platform(tuple(torus3d(Torus3dOptions(npus=4, packages=4))))
    )
    capsule = network.function_table()
    table = table_of(capsule)
    assert table.inject(table.state, 0, ctypes.byref(Message(0, 1000, 0, 9, -1)), 1) == -1
    assert b"outside the platform" in table.error(table.state)
    for npu in range(4):
        assert table.inject(table.state, 0, ctypes.byref(Message(npu, 10**5, npu, (npu + 2) % 4, 1)), 1) == 0
    while (answer := advance(table))[0] == 0 and answer[2]:
        pass
    assert answer[0] == -1
    assert b"waits for" in table.error(table.state)


class Impatient(Exception):
    """What the handler of a signal raises."""


@pytest.fixture(name="alarm")
def alarm_fixture() -> Iterator[Callable[[], None]]:
    """Asks for a signal in a moment, whose handler raises Impatient."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("no timers here")

    def handler(*_: object) -> None:
        raise Impatient

    before = signal.signal(signal.SIGALRM, handler)

    def ask() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.05)

    yield ask
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def long_run() -> PacketNetwork:
    dimensions = torus(4, 4)
    packet_network = PacketNetwork(PacketOptions(exact="every-period"), Platform(tuple(dimensions)))
    packet_network.inject(0, [network_module.Message(npu, npu, (npu + 1) % 16, 10**10) for npu in range(16)])
    return packet_network


def test_a_signal_interrupts_a_long_run_which_can_go_on(alarm: Callable[[], None]) -> None:
    result = long_run()
    alarm()
    with pytest.raises(Impatient):
        result.advance(None)
    result.check()
    assert result.advance(result.core.clock_ps) is None


def test_a_signal_interrupts_the_table_and_stays_set(alarm: Callable[[], None]) -> None:
    result = long_run()
    capsule = result.function_table()
    address = ctypes.cast(table_of(capsule).advance, ctypes.c_void_p).value
    # Foreign functions of this kind raise what is set.
    kind = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 3)
    time, count, numbers = ctypes.c_int64(), ctypes.c_size_t(), _P64()
    alarm()
    with pytest.raises(Impatient):
        kind(address or 0)(table_of(capsule).state, NEVER, ctypes.addressof(time), ctypes.addressof(numbers), ctypes.addressof(count))


def test_a_signal_interrupts_synthetic_traffic(alarm: Callable[[], None]) -> None:
    platform = read_platform("plugin:mesh?sizes=8,8&link_bandwidth_gb_per_s=32&link_latency_ns=1")
    alarm()
    with pytest.raises(Impatient):
        sweep(platform, PacketOptions(preset="booksim"), "uniform", [0.3], LoadMeasurement(period=10**7))
