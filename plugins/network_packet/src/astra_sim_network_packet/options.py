"""Options of the packet network, and the presets that give their defaults."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from astra_sim import InputError, option
from astra_sim.processors import processors

from astra_sim_network_packet._core import Rules

if TYPE_CHECKING:
    from astra_sim_network_packet._core import Shape

# The values of presets. `combined`: a head gets its virtual channel together with the switch; `staged`: first one, then the other.
_PRESETS: dict[str, dict[str, Any]] = {
    "default": {
        "allocation": "combined",
        "deadlock_freedom": "dateline",
        "credit_delay": 0,
        "packet_bytes": 4096,
        "flit_bytes": 256,
        "vcs": 0,
        "buffers": 16,
        "clock_ps": 0,
        "full_last_packet": False,
        "injection_ports": 0,
        "interface_order": "round_robin",
        "arbitration": "transit_first",
        "matching": "maximal",
    },
    "garnet": {
        "allocation": "combined",
        "deadlock_freedom": "none",
        "credit_delay": 0,
        "packet_bytes": 512,
        "flit_bytes": 32,
        "vcs": 4,
        "buffers": 16,
        "clock_ps": 1000,
        "full_last_packet": True,
        "injection_ports": 1,
        "interface_order": "oldest",
        "arbitration": "round_robin",
        "matching": "single",
    },
    "booksim": {
        "allocation": "staged",
        "deadlock_freedom": "dateline",
        "credit_delay": 1,
        "packet_bytes": 32,
        "flit_bytes": 32,
        "vcs": 4,
        "buffers": 8,
        "clock_ps": 1000,
        "full_last_packet": False,
        "injection_ports": 1,
        "interface_order": "oldest",
        "arbitration": "round_robin",
        "matching": "single",
    },
}

MAX_DIVIDER = 10_000
"""Largest number of cycles of the network in a cycle of a router."""


@attrs.frozen
class PacketOptions:
    """Options of the packet network. The preset sets those that are not given."""

    renamed_options: ClassVar[dict[str, str]] = {"interface_lanes": "injection_ports"}

    preset: str = option("default", choices=tuple(_PRESETS), help="timing rules of routers and interfaces, and defaults of the rest")
    clock_ps: int | None = option(
        None, minimum=0, maximum=10**9, help="cycle of routers and interfaces; 0: a flit on the widest link", unit="ps"
    )
    router_clock_ps: tuple[int, ...] = option(
        (),
        minimum=1,
        maximum=10**9,
        help="cycle of every router with its interfaces: NPUs' routers, then switches; clock_ps must divide them and is by default "
        "their greatest common divisor; none: all run on clock_ps",
        unit="ps",
    )
    flit_bytes: int | None = option(None, minimum=1, maximum=1 << 30, help="size of a flit", unit="bytes")
    packet_bytes: int | None = option(None, minimum=1, maximum=1 << 40, help="size of a packet; messages are cut into these", unit="bytes")
    full_last_packet: bool | None = option(None, help="the last packet of a message is as long as the others")
    vcs: int | None = option(
        None,
        minimum=1,
        maximum=32767,
        help="virtual channels of each virtual network; preset default: as many as keep the longest link busy",
    )
    buffers: int | None = option(None, minimum=1, maximum=1_000_000, help="buffer of a virtual channel", unit="flits")
    router_latency: int = option(1, minimum=1, maximum=10_000, help="combined allocation: time through an idle router", unit="cycles")
    routing_delay: int = option(
        1, minimum=0, maximum=1, help="staged allocation: route computation (0: done by the router before)", unit="cycles"
    )
    credit_delay: int | None = option(None, minimum=0, maximum=10_000, help="time a router takes for a credit", unit="cycles")
    injection_ports: int | None = option(
        None,
        minimum=0,
        maximum=4096,
        help="injection ports of an interface for each dimension, each of a flit a cycle in and out; "
        "0 (preset default): as many as the NPU has links there",
    )
    interface_order: str | None = option(
        None,
        choices=("round_robin", "oldest"),
        help="of which message an injection port cuts the next packet; round_robin (preset default): of the oldest for each "
        "destination in turn; oldest: of the oldest",
    )
    arbitration: str | None = option(
        None,
        choices=("round_robin", "transit_first"),
        help="which input crosses to an output; transit_first (preset default): in turn, but those of interfaces only if no other asks",
    )
    matching: str | None = option(
        None,
        choices=("single", "maximal"),
        help="combined allocation: each input asks for one output in a cycle; maximal (preset default): if it loses, for another one",
    )
    interface_latency_ns: float | None = option(None, minimum=0, help="latency between NPU and router; default: that of the NIC", unit="ns")
    flow_control: str = option(
        "wormhole", choices=("wormhole", "cut_through"), help="cut_through: a packet moves on only if there is room for all of it"
    )
    routing: str = option(
        "dimension_order", choices=("dimension_order", "adaptive"), help="adaptive: of shortest routes, that with most free credits"
    )
    deadlock_freedom: str | None = option(
        None,
        choices=("none", "dateline", "bubble"),
        help="dateline: classes of virtual channels where routes could wait for each other in a circle; "
        "bubble: a packet enters a ring only if another buffer stays free",
    )
    wait_for_tail_credit: bool = option(False, help="staged allocation: a virtual channel is free when its tail's credit is back")
    speculative: bool = option(False, help="staged allocation: heads request the switch while they request a virtual channel")
    speculative_allocator: str = option(
        "shared",
        choices=("shared", "separate"),
        help="speculative: such requests compete with all others (of which separable_input_first prefers the others), or get "
        "the resources that others leave",
    )
    allocator: str = option("islip", choices=("islip", "separable_input_first"), help="staged allocation: which ports choose first")
    input_speedup: int = option(1, minimum=1, maximum=16, help="staged allocation: ports of an input at the switch")
    exact: str | tuple[str, ...] = option(
        (),
        choices=("every-npu", "every-period", "every-cycle", "every-event"),
        help="take no short cut; the answers are the same. every-npu: also NPUs (and Garnet's rings) that repeat the work of others; "
        "every-period: also repeating periods of the network; every-cycle: all routers cycle by cycle; every-event: all of these",
    )
    threads: int = option(
        0, minimum=0, maximum=16, help="threads of a long run; 0: as many as processors; the answers are the same for any number"
    )
    seed: int = option(1, minimum=0, maximum=2**62, help="seed for random routes")

    @property
    def representatives(self) -> bool:
        """Whether NPUs, and rings of Garnet's torus, that do the same are simulated once."""
        return not self._takes_every("npu")

    @property
    def extrapolate(self) -> bool:
        """Whether periods in which the network repeats itself are skipped."""
        return not self._takes_every("period")

    @property
    def windows(self) -> bool:
        """Whether some routers run by themselves for as many cycles as links take, while they are in the cache."""
        return not self._takes_every("cycle")

    def with_every_npu(self) -> PacketOptions:
        """These options, with which every NPU is simulated."""
        return attrs.evolve(self, exact=(*self._exact_in, "every-npu"))

    @property
    def _exact_in(self) -> tuple[str, ...]:
        return (self.exact,) if isinstance(self.exact, str) else self.exact

    def _takes_every(self, what: str) -> bool:
        return f"every-{what}" in self._exact_in or "every-event" in self._exact_in

    def settings(self) -> Settings:
        """All values, checked against each other. Raises InputError."""
        preset = _PRESETS[self.preset]
        values = {key: preset[key] if getattr(self, key, None) is None else getattr(self, key) for key in preset}
        if self.router_clock_ps and not self.clock_ps:
            values["clock_ps"] = math.gcd(*self.router_clock_ps)
        settings = Settings(self, **values)
        settings.check()
        return settings


@attrs.frozen
class Settings:
    """Options with the values of their preset filled in."""

    options: PacketOptions
    allocation: str
    deadlock_freedom: str
    credit_delay: int
    packet_bytes: int
    flit_bytes: int
    vcs: int
    buffers: int
    clock_ps: int
    full_last_packet: bool
    injection_ports: int
    interface_order: str
    arbitration: str
    matching: str

    @property
    def packet_flits(self) -> int:
        """Flits of a full packet."""
        return -(-self.packet_bytes // self.flit_bytes)

    def sized(self, round_trip: float, classes: int = 1) -> Settings:
        """The settings with the number of virtual channels filled in, if it is 0: enough to keep a link of `round_trip` cycles busy.

        The routes divide them into `classes` classes.
        """
        if self.vcs:
            return self
        classes = max(classes, 2 if self.deadlock_freedom == "dateline" else 1)
        in_flight = 1 + math.ceil((round_trip + 8) / self.packet_flits)
        return attrs.evolve(self, vcs=classes * max(2, in_flight))

    def finish(self, shape: Shape) -> None:
        """Give a shape its virtual channels. Raises InputError if they are too many."""
        try:
            shape.finish(self.vcs)
        except ValueError as error:
            why = "" if self.options.vcs else ", as many as keep the longest link busy"
            raise InputError(f"vcs is {self.vcs}{why}: {error}") from None

    def check(self) -> None:
        """Raise InputError if the values do not go together."""
        options = self.options
        if self.packet_bytes < self.flit_bytes:
            raise InputError(f"packet_bytes is {self.packet_bytes}, less than a flit of {self.flit_bytes} bytes; expected at least that")
        if self.deadlock_freedom == "bubble" and (self.allocation != "combined" or self.vcs == 1):
            raise InputError(
                "deadlock_freedom is 'bubble', which needs combined allocation (preset default or garnet) and vcs of at least 2"
            )
        for key, value in (("arbitration", "transit_first"), ("matching", "maximal")):
            if getattr(self, key) == value and self.allocation != "combined":
                raise InputError(f"{key} is {value!r}, which needs combined allocation (preset default or garnet)")
        if options.speculative_allocator == "separate" and not options.speculative:
            raise InputError("speculative_allocator is 'separate', and speculative is false; expected speculative = true")
        self._check_clocks()
        needs_whole = options.flow_control == "cut_through" or self.deadlock_freedom == "bubble"
        if needs_whole and self.buffers < self.packet_flits:
            raise InputError(f"buffers is {self.buffers}; cut_through and bubble need room for a packet of {self.packet_flits} flits")

    def _check_clocks(self) -> None:
        """Raise InputError for clocks of routers that the network's own cycle does not divide, or divides too finely."""
        clocks = self.options.router_clock_ps
        if clocks and self.options.preset == "garnet":
            raise InputError(
                "router_clock_ps is given with preset 'garnet', whose routers share one clock; expected preset default or booksim"
            )
        common = math.gcd(*clocks)
        for router, clock in enumerate(clocks):
            if clock % self.clock_ps:
                raise InputError(
                    f"router_clock_ps is {clock} for router {router}, and clock_ps is {self.clock_ps}, which does not divide it; "
                    f"expected clock_ps = 0 or a divisor of {common}"
                )
            if clock > self.clock_ps * MAX_DIVIDER:
                raise InputError(
                    f"router_clock_ps is {clock} for router {router}, more than {MAX_DIVIDER} times the cycle of {self.clock_ps} ps "
                    f"that all clocks are multiples of; expected clocks with a greater common divisor"
                )

    def dividers(self, routers: int) -> list[int]:
        """For each router, the number of network cycles in one of its cycles. Raises InputError for a wrong number of clocks."""
        clocks = self.options.router_clock_ps
        if not clocks:
            return [1] * routers
        if len(clocks) != routers:
            raise InputError(
                f"router_clock_ps has {len(clocks)} clocks, and the platform has {routers} routers; expected one for each, "
                f"NPUs' routers first, then switches"
            )
        return [clock // self.clock_ps for clock in clocks]

    def rules(self, vnets: int, clock_ps: int, serialized_credits: bool = False) -> Rules:
        """The rules of the core. `serialized_credits`: links are those of Garnet's topologies."""
        return Rules.of(self, self.options, vnets, clock_ps, serialized_credits, processors())
