"""The bus, as astra sees it."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.function_table import TableNetwork
from astra_sim.platform import Platform, bytes_per_ns

from astra_sim_example_bus import _bus  # type: ignore[attr-defined] # compiled, without a stub


@attrs.frozen
class BusOptions:
    """Options of the bus."""

    bandwidth_gib_per_s: float = option(100.0, above=0, unit="GiB/s", help="bandwidth of the bus")
    latency_ns: int = option(500, minimum=0, unit="ns", help="from the end of a transfer to its arrival")


class BusNetwork(TableNetwork):
    """One bus carries all messages, one after another."""

    def __init__(self, options: BusOptions, platform: Platform) -> None:
        super().__init__(platform)
        self._ps_per_byte = 1000 / bytes_per_ns(options.bandwidth_gib_per_s)
        self._latency_ps = options.latency_ns * 1000

    def make_table(self) -> object:
        """The table of a run, made in C++."""
        return _bus.make_table(self._ps_per_byte, self._latency_ps)
