"""The network function table of `astra_sim/network.h`, called from Python: so the Python engine can use compiled networks too.

Version 2 has flows and traffic classes of messages, and tells when senders know that a message has arrived. Version 1 still runs.

Examples:

A network in C or C++ gives a table of functions (`network.h` of `get_include()`) in a capsule named by the version:

    >>> from astra_sim.function_table import CAPSULE, VERSION, FunctionTable, TableNetwork, get_include
    >>> VERSION, CAPSULE
    (1, b'astra_sim.network.v1')
    >>> class Bus(TableNetwork):
    ...     '''All messages one after another; `_bus` is a module in C++.'''
    ...     def make_table(self):
    ...         return _bus.make_table(self.platform.npus)
    >>> try:
    ...     FunctionTable("no capsule")
    ... except Exception as error:
    ...     print(type(error).__name__)
    PluginError
    >>> from pathlib import Path
    >>> Path(get_include(), "astra_sim", "network.h").is_file()
    True
"""

from __future__ import annotations

import abc
import ctypes
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

from astra_sim._boundary import shown
from astra_sim._deprecation import deprecated
from astra_sim.errors import AstraError, PluginError, warn
from astra_sim.network import EventNetwork, Message

__all__ = [
    "CAPSULE",
    "VERSION",
    "FunctionTable",
    "TableNetwork",
    "get_include",
]

VERSION, VERSION_2 = 1, 2
CAPSULE, CAPSULE_2 = b"astra_sim.network.v1", b"astra_sim.network.v2"
NEVER = 2**63 - 1
_SENT = 1


def get_include() -> str:
    """The folder of the C header `astra_sim/network.h`, for the include path of a compiler."""
    return str(Path(__file__).parent / "include")


class _Delivery(ctypes.Structure):
    _fields_ = (("number", ctypes.c_uint64), ("kind", ctypes.c_int32), ("reserved", ctypes.c_int32))


class _Statistic(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("value", ctypes.c_double))


# Messages of both versions. Packing checks the range of every number, which the fields of a structure do not: they would wrap around.
_PACKED, _PACKED_2 = struct.Struct("=Qqiiii"), struct.Struct("=QqQiiii")
_NAMES = "expected a name of its own in UTF-8"
_STATE = ctypes.c_void_p
_NUMBERS, _DELIVERIES = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(_Delivery)
_DELAY = ctypes.CFUNCTYPE(ctypes.c_int64, _STATE, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64)
# What messages and deliveries point to differs between versions.
_INJECT = ctypes.CFUNCTYPE(ctypes.c_int, _STATE, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t)
_ADVANCE = ctypes.CFUNCTYPE(
    ctypes.c_int, _STATE, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)
)
_NEXT_EVENT = ctypes.CFUNCTYPE(ctypes.c_int64, _STATE)
_STATISTICS = ctypes.CFUNCTYPE(ctypes.c_size_t, _STATE, ctypes.POINTER(ctypes.POINTER(_Statistic)))
_ERROR = ctypes.CFUNCTYPE(ctypes.c_char_p, _STATE)
_HEAD = (("version", ctypes.c_uint32), ("size", ctypes.c_uint32), ("state", _STATE))
_MOVES = (("delay", _DELAY), ("inject", _INJECT), ("advance", _ADVANCE))
_ANSWERS = (("statistics", _STATISTICS), ("error", _ERROR))


class _Table(ctypes.Structure):
    _fields_ = (*_HEAD, *_MOVES, ("next_event", _NEXT_EVENT), *_ANSWERS)


class _Table2(ctypes.Structure):
    _fields_ = (*_HEAD, ("tells_sent", ctypes.c_int32), ("reserved", ctypes.c_int32), *_MOVES, *_ANSWERS)


_NEEDED = {
    VERSION: {"delay": ("delay",), "events": ("inject", "advance", "next_event")},
    VERSION_2: {"delay": ("delay",), "events": ("inject", "advance")},
}


class FunctionTable:
    """A table in a capsule, of version 1 or 2. Errors in it, and those that its functions report, are raised as `failure` makes them.

    Raises such an error if this is not a capsule of a table of the version in its name. `reports_completion`: the network reports
    when senders know that their messages have arrived. Deprecated: `needed`, names of functions that may not be NULL; use `require`.
    """

    def __init__(self, capsule: object, failure: Callable[[str], AstraError] = PluginError, needed: Sequence[str] = ()) -> None:
        pointer_of, is_valid = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_IsValid
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        is_valid.restype, is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
        self._version = VERSION_2 if is_valid(capsule, CAPSULE_2) else VERSION
        try:
            pointer = pointer_of(capsule, CAPSULE_2 if self._version == VERSION_2 else CAPSULE)
        except ValueError:
            names = f"{CAPSULE_2.decode()} or {CAPSULE.decode()}"
            raise failure(f"{shown(capsule)} is no capsule named {names}, in which a network function table comes") from None
        self._capsule = capsule
        self._failure = failure
        layout: Any = _Table2 if self._version == VERSION_2 else _Table
        self._table = layout.from_address(pointer)
        if self._table.version != self._version:
            raise failure(f"the network function table has version {self._table.version}; expected {self._version}")
        if self._table.size < ctypes.sizeof(layout):
            raise failure(f"the network function table has {self._table.size} bytes; expected at least {ctypes.sizeof(layout)}")
        self.reports_completion = self._version == VERSION_2 and self._table.tells_sent != 0
        self._sent: list[int] = []
        if needed:
            deprecated("FunctionTable(needed=...)", "FunctionTable(...).require('delay' | 'events')", "0.3")
        for name in needed:
            self._function(name)

    def require(self, what: Literal["delay", "events"]) -> None:
        """Raise an error if a function is NULL that delays need, or events."""
        for name in _NEEDED[self._version][what]:
            self._function(name)

    def _check(self, failed: bool, what: str) -> None:
        if failed:
            why = self._table.error(self._table.state) if self._table.error else None
            raise self._failure(why.decode(errors="replace") if why is not None else f"{what} failed")

    def _function(self, name: str) -> Any:
        function = getattr(self._table, name)
        if not function:
            raise self._failure(f"the network function table lacks {name} (it is NULL)")
        return function

    def delay(self, source: int, destination: int, size: int) -> int:
        """Picoseconds from sending a message to its arrival, on a network without contention."""
        picoseconds: int = self._function("delay")(self._table.state, source, destination, size)
        self._check(picoseconds < 0, "delay")
        return picoseconds

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """See `EventNetwork.inject`."""
        packed = b"".join(self._packed(*message) for message in messages)
        self._check(self._call("inject", time, packed, len(messages)) != 0, "inject")

    def _packed(
        self, number: int, source: int, destination: int, size: int, queue: int = -1, flow: int = 0, traffic_class: int = -1
    ) -> bytes:
        """A message as the header lays it out. Raises the error of `failure` if a number does not fit."""
        try:
            if self._version == VERSION_2:
                return _PACKED_2.pack(number, size, flow, source, destination, queue, traffic_class)
            return _PACKED.pack(number, size, source, destination, queue, 0)
        except struct.error:
            text = f"message {number} of {size} bytes from NPU {source} to NPU {destination} has a number that is too large"
            raise self._failure(text) from None

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the table. Raises the Python exception that it has set, such as that of the handler of a signal."""
        try:
            return self._function(name)(self._table.state, *arguments)
        except SystemError as error:
            # ctypes lets go of the interpreter lock for such a call and does not look for exceptions after it; Python does, and says so.
            raise (error.__cause__ or error) from None

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """See `EventNetwork.advance`."""
        time, count = ctypes.c_int64(), ctypes.c_size_t()
        deliveries: Any = _DELIVERIES() if self._version == VERSION_2 else _NUMBERS()
        limit = NEVER if until is None else until
        status = self._call("advance", limit, ctypes.byref(time), ctypes.byref(deliveries), ctypes.byref(count))
        self._check(status != 0, "advance")
        if count.value and not deliveries:
            raise self._failure(f"advance returned {count.value} messages without their numbers (NULL)")
        if not count.value:
            return None
        if self._version == VERSION:
            return time.value, deliveries[: count.value]
        self._sent = [each.number for each in deliveries[: count.value] if each.kind == _SENT]
        return time.value, [each.number for each in deliveries[: count.value] if each.kind != _SENT]

    def take_completed(self) -> list[int]:
        """See `EventNetwork.take_completed`."""
        return self._sent

    def next_event(self) -> int | None:
        """A time before which no message arrives, or None if none is under way; of a table of version 1."""
        time = self._function("next_event")(self._table.state)
        return None if time == NEVER else int(time)

    def statistics(self) -> dict[str, float]:
        """Figures of the run so far. Figures without a name are dropped with a warning: the run has ended, and its answer is right."""
        if not self._table.statistics:
            return {}
        array = ctypes.POINTER(_Statistic)()
        count = self._table.statistics(self._table.state, ctypes.byref(array))
        if count and not array:
            warn(str(self._failure(f"statistics returned {count} figures without an array (NULL); they are left out")))
            return {}
        figures: dict[str, float] = {}
        for number in range(count):
            raw = array[number].name
            try:
                name = None if raw is None else raw.decode()
            except UnicodeDecodeError:
                name = None
            if name and name not in figures:
                figures[name] = array[number].value
            else:
                wrong = "NULL" if raw is None else repr(raw)
                warn(str(self._failure(f"figure {number} of its statistics has the name {wrong}; {_NAMES}. It is left out")))
        return figures


class TableNetwork(EventNetwork):
    """An event network that runs on a function table. A subclass makes the table."""

    _table: FunctionTable | None = None
    _capsule: object = None

    @abc.abstractmethod
    def make_table(self) -> object:
        """A capsule with a new function table, for one run. Raises InputError if the network cannot be made."""

    def begin(self) -> int:
        """Make the table of this run. Raises the error of `failure` if it is no table, or one of another version."""
        self._open()
        return 0

    def _open(self) -> None:
        self._table = self._capsule = None  # frees the last run first
        self._capsule = self.make_table()
        self._table = FunctionTable(self._capsule, self.failure)
        self._table.require("events")
        self.reports_completion = self._table.reports_completion

    def _own(self) -> FunctionTable:
        if self._table is None:
            self._open()
        assert self._table is not None
        return self._table

    def function_table(self) -> object:
        """The capsule of this run."""
        self._own()
        return self._capsule

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Hand messages to the table."""
        self._own().inject(time, messages)

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """Take the next delivery from the table."""
        return self._own().advance(until)

    def take_completed(self) -> list[int]:
        """Messages whose senders the table has reported."""
        return self._own().take_completed()

    def statistics(self) -> dict[str, object]:
        """The figures of the last run."""
        return dict(self._own().statistics())


class Core(Protocol):
    """The network of one run in a compiled module, as `CompiledNetwork` uses it."""

    def function_table(self) -> object:
        """A capsule with the function table of this network."""

    def watch(self, tell: Callable[[int], None] | None, /) -> None:
        """Call `tell` with the time reached (picoseconds) within long calls."""


OneCore = TypeVar("OneCore", bound=Core)


class CompiledNetwork(TableNetwork, Generic[OneCore]):
    """A network of a compiled module, which has an object for each run: the core, made by `make_core`.

    Messages go through its function table, whichever engine runs; a subclass reads figures from `core`.
    """

    _core: OneCore | None = None
    _is_used: bool = False
    _tell: Callable[[int], None] | None = None

    @abc.abstractmethod
    def make_core(self) -> OneCore:
        """A core for one run. Raises InputError if the network cannot be made."""

    @property
    def core(self) -> OneCore:
        """The core of the run that has begun, or of the next one."""
        if self._core is None:
            self._core, self._is_used = self.make_core(), False
            self._core.watch(self._tell)
        return self._core

    def discard_core(self) -> None:
        """Free the core: the next run has another one."""
        self._core = None

    def make_table(self) -> object:
        """The table of a core that has not been used."""
        if self._is_used:
            self.discard_core()
        table = self.core.function_table()
        self._is_used = True
        return table

    def on_progress(self, tell: Callable[[int], None] | None) -> None:
        """Call `tell` with the simulated time repeatedly, also within a long `advance`."""
        self._tell = tell
        if self._core is not None:
            self._core.watch(tell)
