"""The network in C: its options, and the table of C functions of version 1 that a run calls.

The shared library is built from network.cpp with the header of version 0.1.0. It is loaded by ctypes and needs no Python to be compiled.
"""

from __future__ import annotations

import ctypes
import os

import attrs
from astra_sim import option
from astra_sim.function_table import TableNetwork
from astra_sim.platform import Platform


@attrs.frozen
class BusOptions:
    """Options of the network."""

    bandwidth_gb_per_s: float = option(100.0, above=0, help="bandwidth of the bus", unit="10^9 bytes/s")
    latency_ns: int = option(500, minimum=0, help="from the end of a transfer to its arrival", unit="ns")


class BusNetwork(TableNetwork):
    """One bus carries all messages, one after another."""

    def __init__(self, options: BusOptions, platform: Platform) -> None:
        super().__init__(platform)
        self._ps_per_byte = 1000 / options.bandwidth_gb_per_s
        self._latency_ps = options.latency_ns * 1000
        library = ctypes.PyDLL(os.environ["ASTRA_BEFORE_LIBRARY"])
        self._make = library.astra_before_make_table
        self._make.restype, self._make.argtypes = ctypes.py_object, (ctypes.c_double, ctypes.c_int64)

    def make_table(self) -> object:
        """The table of a run, made in C++."""
        return self._make(self._ps_per_byte, self._latency_ps)
