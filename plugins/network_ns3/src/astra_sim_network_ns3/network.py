# SPDX-License-Identifier: GPL-2.0-only
"""The network as a backend: hands a fabric and messages to ns-3."""

from __future__ import annotations

from typing import NamedTuple

from astra_sim import InputError
from astra_sim.errors import AstraError, DeadlockError, PluginError, warn
from astra_sim.fabric import Fabric, FabricLink, RouteRules
from astra_sim.fabric.paths import UNREACHABLE
from astra_sim.function_table import CompiledNetwork
from astra_sim.network import LinkLoad, MessageFigures
from astra_sim.platform import Platform

from astra_sim_network_ns3.options import Ns3Options

try:
    from astra_sim_network_ns3 import _core
except ImportError as error:
    raise PluginError(
        f"network ns3 needs the libraries of the wheel ns3 3.44 ({error}); expected them beside this package:"
        " pip install --no-deps ns3==3.44.post0"
    ) from None

_MOST_LINKS = 255
"""Of a way: IP counts them in a byte."""


class Ns3Network(CompiledNetwork["_core.Network"]):
    """Messages as bytes of TCP connections in ns-3. One network at a time can be in the middle of a run, for ns-3 is one in a process.

    Raises InputError if NPUs cannot reach each other, and if a link has none back.
    """

    accounting_dimension = "lowest"
    reports_completion = True
    has_traffic_classes = True

    def __init__(self, options: Ns3Options, platform: Platform) -> None:
        super().__init__(platform)
        self.options = options
        self.fabric = platform.fabric()
        self._plan, through_npus = _plan(options, self.fabric)
        self.route_rules = RouteRules("always" if through_npus else "never", "all")
        self._counts = False

    def make_core(self) -> _core.Network:
        """A network that takes ns-3 over."""
        return _core.Network(self.options, self.options.mark_packets, self._plan, self._counts)

    def keep_message_figures(self) -> None:
        """Keep figures of each message of the next run."""
        self._counts = True
        self.discard_core()

    def message_figures(self) -> dict[int, MessageFigures]:
        """The figures of messages that have ended. TCP refuses nothing."""
        return {
            number: MessageFigures(started, received, acknowledged, packets, acks, None, marked_acks)
            for number, started, received, acknowledged, packets, acks, marked_acks in self.core.messages()
        }

    def failure(self, why: str) -> AstraError:
        """The error that the core reports: messages that cannot arrive, a line each; or a message that cannot be sent."""
        first, *waiting = why.split("\n")
        return DeadlockError(why, waiting) if waiting or "nothing moves" in first else InputError(why)

    def statistics(self) -> dict[str, object]:
        """Figures of the run so far. `highest_queue_bytes`: of a port of a switch."""
        figures = self.core.figures()
        del figures["loads"], figures["now_ps"]
        loads = self._loads()
        at_switches = (load for link, load in zip(self.fabric.links, loads, strict=True) if self.fabric.is_switch(link.source))
        figures["highest_queue_bytes"] = max((load.highest_queue for load in at_switches), default=0)
        if figures["drops"]:
            warn(f"network ns3: {figures['drops']} packets found a queue full and were dropped (queue_packets, nic_queue_packets)")
        return dict(figures)

    def links(self) -> list[LinkLoad]:
        """The links that have carried something. Queues are those at their ports, as packets leave them."""
        now = self.core.figures()["now_ps"]
        return [
            LinkLoad(
                *self.fabric.link_ends(number),
                load.bytes,
                load.busy / now if now else 0.0,
                transfers=load.packets,
                highest_queue_bytes=load.highest_queue,
                mean_queue_bytes=load.sum_of_queues / load.packets,
            )
            for number, load in enumerate(self._loads())
            if load.packets
        ]

    def _loads(self) -> list[_Ns3Load]:
        return [_Ns3Load(*row) for row in self.core.figures()["loads"]]


class _Ns3Load(NamedTuple):
    """The load of a link: bytes, busy picoseconds, and bytes that waited when packets left: the most, and their sum."""

    packets: int
    bytes: int
    busy: int
    highest_queue: int
    sum_of_queues: int


def _plan(options: Ns3Options, fabric: Fabric) -> tuple[_core.Plan, bool]:
    """The graph as the core takes it, on which all NPUs reach each other, and whether they forward. Raises InputError if they cannot."""
    reverse = fabric.reverses()
    if UNREACHABLE in reverse:
        raise InputError(
            f"the link {fabric.link_name(reverse.index(UNREACHABLE))} has no link back; expected links both ways, as TCP answers"
        )
    rows = [_row(options, fabric, link, back) for link, back in zip(fabric.links, reverse, strict=True)]
    for through_npus in (False, True):
        plan = _core.Plan(fabric.npus, fabric.nodes, through_npus, rows)
        unreachable, longest = plan.check()
        if unreachable is not None and (through_npus or not options.npu_forwarding):
            over, remedy = (
                ("", "links that join them") if through_npus else (" over switches", "npu_forwarding = true, or links to a switch")
            )
            raise InputError(f"there is no route from NPU {unreachable[0]} to NPU {unreachable[1]}{over}; expected {remedy}")
        if unreachable is None and longest > _MOST_LINKS:
            raise InputError(
                f"the longest of the shortest paths between NPUs has {longest} links; expected at most {_MOST_LINKS}, as IP has"
            )
        if unreachable is None:
            break
    return plan, through_npus


def _row(options: Ns3Options, fabric: Fabric, link: FabricLink, back: int) -> tuple[int, int, int, int, float, int, int]:
    """A link: ends, bit/s, picoseconds with those of interfaces and of the switch that it enters, error rate, link back, and cost."""
    if link.bits_per_s < 1:
        raise InputError(f"the link {fabric.name(link.source)} to {fabric.name(link.target)} has less than a bit per second")
    nics = sum(not fabric.is_switch(node) for node in (link.source, link.target))
    latency = link.latency_ns + nics * link.nic_latency_ns
    if fabric.is_switch(link.target):
        latency += options.switch_latency_ns + fabric.switch_latency_ns[link.target - fabric.npus]
    return link.source, link.target, link.bits_per_s, round(latency * 1000), link.error_rate or options.error_rate, back, link.cost
