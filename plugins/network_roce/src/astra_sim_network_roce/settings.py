"""Convert options to the settings of the compiled core: ticks, bytes, and thresholds of each link."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import attrs
from astra_sim import InputError
from astra_sim.fabric import Fabric, FabricLink

from astra_sim_network_roce.options import RoceOptions

_TELEMETRY_BYTES = {"hpcc": 42, "timely": 8, "swift": 8, "pint": 2}
_PINT_BYTES = 1
_TIMELY_BETA, _TIMELY_WEIGHT = 0.8, 0.875
_RESERVE_BYTES, _RESUME_MARGIN_BYTES = 4096, 3072
_SWIFT = {"swift_smallest_window": 0.01, "swift_increase": 1.0, "swift_decrease": 0.8, "swift_largest_decrease": 0.5}
_PINT_SCALE = 512
_FIRST_ADDRESS = 0x0B000001
_MEMORY_MIB = 32
_MARKED_SHARES = 5  # of two inputs each holds half of kmax, which is an eighth of the rest then


class Thresholds(NamedTuple):
    """From how many bytes in a queue packets are marked, beyond how many all are, and the share of them there."""

    kmin: int
    kmax: int
    pmax: float


_NEVER = Thresholds(2**62, 2**62, 0.0)


@attrs.frozen
class RoceClock:
    """Ticks of the core."""

    per_ns: int

    def ticks(self, nanoseconds: float) -> int:
        """A time in whole ticks."""
        return round(nanoseconds * self.per_ns)


def clock_of(options: RoceOptions) -> RoceClock:
    """The clock that the options choose."""
    return RoceClock(1000 if options.chosen("time_resolution") == "ps" else 1)


def settings_of(options: RoceOptions) -> dict[str, Any]:
    """The settings of the core."""
    clock = clock_of(options)
    algorithm, balancing = options.congestion_control, options.chosen("load_balancing")
    rate = {name: round(options.chosen(name) * 1e6) for name in ("min_rate_mbps", "rate_ai_mbps", "rate_hai_mbps", "dctcp_rate_ai_mbps")}
    return {
        "algorithm": algorithm,
        # With one way for each destination nothing is left to balance.
        "balancing": "ecmp" if balancing == "destination" else balancing,
        "out_of_order": balancing not in ("destination", "ecmp"),
        "flowlet_gap": clock.ticks(options.flowlet_gap_ns),
        "ticks_per_ns": clock.per_ns,
        "seed": options.seed,
        "extrapolate": options.exact is None,
        "payload_bytes": options.chosen("payload_bytes"),
        "header_bytes": options.chosen("header_bytes"),
        "gap_bytes": options.chosen("gap_bytes"),
        "ack_bytes": options.chosen("ack_bytes"),
        "shortest_ack_bytes": options.chosen("least_ack_bytes"),
        "pause_bytes": options.chosen("pfc_bytes"),
        "telemetry_bytes": _telemetry_bytes(options),
        "start_rounds": options.chosen("start_rounds"),
        "complete_at_arrival": options.chosen("completion") == "arrival",
        "connections": options.chosen("connections") == "queue",
        "reserve_bytes": _RESERVE_BYTES,
        "resume_margin_bytes": _RESUME_MARGIN_BYTES,
        "thresholds_wrap": options.chosen("thresholds_wrap"),
        "pauses": options.pfc,
        "marking": options.ecn,
        "windows": options.windows,
        "common_window": options.common_window,
        "variable_window": options.variable_window and algorithm != "swift",
        "pacing": options.pacing,
        "acks_first": options.acks_first,
        "blocked_pairs_hold": options.chosen("blocked_pairs_hold"),
        "chunk_bytes": options.chunk_bytes,
        "ack_interval_bytes": options.ack_interval_bytes,
        "back_to_chunk": options.back_to_chunk,
        "nack_gap": clock.ticks(options.nack_gap_us * 1000),
        "retransmission": clock.ticks(options.chosen("rto_us") * 1000),
        "slow_restart": options.chosen("slow_restart"),
        "least_rate": rate["min_rate_mbps"],
        "rate_step": rate["rate_ai_mbps"],
        "large_rate_step": rate["rate_hai_mbps"],
        "gain": options.gain,
        "alpha_interval": clock.ticks(options.chosen("alpha_interval_us") * 1000),
        "decrease_interval": clock.ticks(options.chosen("decrease_interval_us") * 1000),
        "increase_interval": clock.ticks(options.chosen("increase_interval_us") * 1000),
        "tick_after_decrease": clock.ticks(1),
        "fast_recovery": options.chosen("fast_recovery"),
        "clamp_target": options.clamp_target,
        "target_utilisation": options.target_utilisation,
        "stages": options.stages,
        "telemetry_unit": options.telemetry_unit,
        "fast_reaction": options.fast_reaction,
        "rate_of_hop": options.rate_of_hop,
        "sampled_feedback": options.sampled_feedback,
        "divides_by_window": options.chosen("divides_by_window"),
        "pint_base": options.pint_base,
        "pint_share": options.pint_share,
        "dctcp_step": rate["dctcp_rate_ai_mbps"],
        "timely_weight": _TIMELY_WEIGHT,
        "timely_decrease": _TIMELY_BETA,
        "timely_low": clock.ticks(options.timely_low_us * 1000),
        "timely_high": clock.ticks(options.timely_high_us * 1000),
        "timely_round": clock.ticks(options.timely_round_us * 1000),
        "swift_base": clock.ticks(options.swift_base_us * 1000),
        "swift_hop": clock.ticks(options.swift_hop_us * 1000),
        "swift_range": clock.ticks(options.swift_range_us * 1000),
        "swift_largest_window": options.swift_largest_window,
        **_SWIFT,
    }


def _telemetry_bytes(options: RoceOptions) -> int:
    if options.congestion_control == "pint":
        # A power of the base that fits a byte represents utilisations of up to 2.
        return _PINT_BYTES if options.pint_base**255 >= 2 * _PINT_SCALE else _TELEMETRY_BYTES["pint"]
    return _TELEMETRY_BYTES.get(options.congestion_control, 0)


def addresses(npus: int) -> list[int]:
    """The address of each NPU, which hashes of ways use."""
    return [(_FIRST_ADDRESS + (npu // 256 << 16) + (npu % 256 << 8)) % 2**32 for npu in range(npus)]


class LinkRows:
    """Links of a fabric as the core takes them.

    `within_servers` are the switches of servers, for whose links files have no thresholds. `forwarding`: NPUs have switches in them
    (`with_switches_inside`), whose link to the NPU is in no file: it is as fast as all that comes in, and never marks.
    """

    def __init__(self, options: RoceOptions, fabric: Fabric, within_servers: Collection[int] = (), forwarding: bool = False) -> None:
        self._options = options
        self._fabric = fabric
        self._within_servers = within_servers
        self._forwarding = forwarding
        self._clock = clock_of(options)
        self._scale = options.chosen("scale_ecn")
        self._kmin = _by_rate(options.ecn_kmin, "ecn_kmin")
        self._kmax = _by_rate(options.ecn_kmax, "ecn_kmax")
        self._pmax = _by_rate(options.ecn_pmax, "ecn_pmax")
        self._known: dict[int, Thresholds] = {}

    def rows(self) -> list[tuple[int, int, int, int, float, int, int, float, int, int, int]]:
        """For each link: ends, bit/s, ticks, error rate, kmin, kmax, pmax, the headroom at the switch that it enters, cost, dimension."""
        return [self._row(link) for link in self._fabric.links]

    def memory(self) -> list[int]:
        """Bytes of memory of each node; only switches use theirs.

        Without `buffer_mib` a switch has 32 MiB, or, if that is more, the reserves of its ports and enough that an output which two inputs
        fill marks every packet before either of them pauses. Raises InputError if the ports reserve all of a stated memory:
        nothing would be left to share.
        """
        stated = self._options.buffer_mib
        if self._options.chosen("thresholds_wrap"):
            return [round((_MEMORY_MIB if stated is None else stated) * 2**20)] * self._fabric.nodes
        reserved, marked = [0] * self._fabric.nodes, [0] * self._fabric.nodes
        for link in self._fabric.links:
            reserved[link.target] += _RESERVE_BYTES + self._headroom(link.bits_per_s, self._clock.ticks(self._latency(link)))
            if self._options.ecn and self._fabric.is_switch(link.source):
                marks = self._marks(link)
                marked[link.source] = max(marked[link.source], 0 if marks == _NEVER else marks.kmax)
        if stated is None:
            return [max(_MEMORY_MIB * 2**20, own + _MARKED_SHARES * most) for own, most in zip(reserved, marked, strict=True)]
        for node in range(self._fabric.npus, self._fabric.nodes):
            if reserved[node] >= stated * 2**20:
                enough = math.ceil((reserved[node] + _MARKED_SHARES * marked[node]) / 2**20)
                raise InputError(
                    f"buffer_mib is {stated:g}; the ports of {self._fabric.name(node)} reserve {reserved[node] / 2**20:.3g} MiB"
                    f" (headroom_factor), expected more than that, such as {enough}, or none"
                )
        return [round(stated * 2**20)] * self._fabric.nodes

    def _row(self, link: FabricLink) -> tuple[int, int, int, int, float, int, int, float, int, int, int]:
        rate = link.bits_per_s
        marks = self._marks(link) if self._options.ecn and self._fabric.is_switch(link.source) else Thresholds(0, 0, 0.0)
        delay = self._clock.ticks(self._latency(link))
        error = link.error_rate or self._options.error_rate
        return (link.source, link.target, rate, delay, error, *marks, self._headroom(rate, delay), link.cost, link.dimension)

    def _marks(self, link: FabricLink) -> Thresholds:
        """The thresholds of a port of a switch; of one within a server, if the options have none for its rate, it does not mark."""
        if link.source in self._within_servers and link.bits_per_s not in self._kmin and not self._scale:
            return _NEVER
        if self._forwarding and not self._fabric.is_switch(link.target):
            return _NEVER
        return self.thresholds(link)

    def _latency(self, link: FabricLink) -> float:
        """Nanoseconds of a link, with those of the interfaces and the switch at its ends."""
        nics = sum(not self._fabric.is_switch(node) for node in (link.source, link.target))
        latency = link.latency_ns + nics * link.nic_latency_ns
        if self._fabric.is_switch(link.target):
            latency += self._options.switch_latency_ns + self._fabric.switch_latency_ns[link.target - self._fabric.npus]
        return latency

    def _headroom(self, rate: int, delay: int) -> int:
        chosen = int(self._options.headroom_factor * (rate * (delay // self._clock.per_ns) // 8_000_000_000))
        return max(chosen, self._before_pause(rate, delay)) if self._options.chosen("covering_headroom") else chosen

    def _before_pause(self, rate: int, delay: int) -> int:
        """Bytes that come in at most from the first one in the headroom until the pause that it brings about takes effect.

        They are its packet, one for which the pause waits at its port and one that the peer is sending when the pause arrives, the data
        that the peer sends while the pause is sent, and the data on the wire there and back.
        """
        options = self._options
        packet = options.chosen("payload_bytes") + options.chosen("header_bytes") + _telemetry_bytes(options) + options.chosen("gap_bytes")
        round_trip = -(-2 * rate * delay // (8_000_000_000 * self._clock.per_ns))
        return int(3 * packet + options.chosen("pfc_bytes") + options.chosen("gap_bytes") + round_trip)

    def thresholds(self, link: FabricLink) -> Thresholds:
        """Thresholds of a port. Raises InputError if the options have none for its rate."""
        rate = link.bits_per_s
        if rate not in self._known:
            values = (self._of(table, link, name) for table, name in ((self._kmin, "ecn_kmin"), (self._kmax, "ecn_kmax")))
            kmin, kmax = (round(value * 1000) for value in values)
            if kmin > kmax:
                raise InputError(
                    f"ecn_kmin is {kmin / 1000:g} and ecn_kmax {kmax / 1000:g} kB at {rate / 1e9:g} Gbit/s; expected kmin <= kmax"
                )
            self._known[rate] = Thresholds(kmin, kmax, self._of(self._pmax, link, "ecn_pmax", proportional=False))
        return self._known[rate]

    def _outside(self, node: int) -> int:
        """The NPU that a switch is in; another node itself."""
        inside = node - (self._fabric.nodes - self._fabric.npus)
        return inside if self._forwarding and inside >= 0 else node

    def _of(self, table: dict[int, float], link: FabricLink, name: str, proportional: bool = True) -> float:
        rate = link.bits_per_s
        if rate in table:
            return table[rate]
        if not self._scale or not table:
            known = ", ".join(f"{each / 1e9:g}" for each in table)
            ends = " and ".join(str(self._fabric.ids[self._outside(node)]) for node in (link.source, link.target))
            has = f"which a switch has (between nodes {ends}); it has values for {known}"
            raise InputError(f"{name} has no value for links of {rate / 1e9:g} Gbit/s, {has}")
        nearest = min(table, key=lambda each: (abs(each - rate), each))
        return table[nearest] * (rate / nearest if proportional else 1)


def _by_rate(entries: Sequence[str], name: str) -> dict[int, float]:
    """The values of RATE:VALUE entries by rate in bit/s. Raises InputError that names the option."""
    table: dict[int, float] = {}
    for entry in entries:
        rate, colon, value = entry.partition(":")
        try:
            key, number = round(float(rate) * 1e9), float(value)
        except (ValueError, OverflowError):
            key, number = 0, -1.0
        if not colon or key < 1 or not 0 <= number < 2**40:
            raise InputError(f"{name} has {entry!r}; expected RATE:VALUE, a rate in Gbit/s and a number of at least 0")
        table[key] = number
    return table


def failures_of(options: RoceOptions, fabric: Fabric) -> list[tuple[int, int, int]]:
    """Links that fail: the tick, and the two nodes. Raises InputError for an invalid one."""
    clock = clock_of(options)
    places = {number: node for node, number in enumerate(fabric.ids)}
    ends = {(link.source, link.target) for link in fabric.links}
    result = []
    for entry in options.link_down:
        try:
            time, one, other = entry.split(":")
            at, nodes = float(time), (places[int(one)], places[int(other)])
        except (ValueError, KeyError):
            raise InputError(f"link_down has {entry!r}; expected TIME:NODE:NODE, a time in us and two nodes that a link joins") from None
        if nodes not in ends or not 0 <= at < 1e12:
            raise InputError(f"link_down has {entry!r}; expected a time in us and two nodes that a link joins")
        result.append((clock.ticks(at * 1000), *nodes))
    return result
