"""The network as astra sees it: its options, and the table of C functions that a run calls."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.function_table import TableNetwork
from astra_sim.platform import Platform

from astra_sim_bus import _network  # type: ignore[attr-defined] # compiled, without a stub


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

    def make_table(self) -> object:
        """The table of a run, made in C++."""
        return _network.make_table(self._ps_per_byte, self._latency_ps)
