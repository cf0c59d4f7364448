"""The accounts `energy` and `cost` of a run: joules by use, and dollars.

An NPU takes `idle_w` all the time, and additional power while it computes, communicates or accesses memory; concurrent uses add up,
to `cap_w` at most. Times of states are unions over its operations, for each class of NPUs that do the same, so that symmetry changes
nothing. There is no default for a power or a price, but for the share of its thermal design power that an NPU takes under load: 0.76,
measured on nodes of eight H100 in heavy training (76 % of 10.2 kW; `docs/goodput.md`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.graph import Figure
from astra_sim.platform import Platform
from astra_sim.records import NpuUses, npu_uses

NS, JOULES_PER_KWH, SECONDS_PER_HOUR = 1e-9, 3.6e6, 3600.0
BITS, PICO = 8, 1e-12


@attrs.frozen
class EnergyOptions:
    """The section `energy` of an experiment."""

    idle_w: float = option(minimum=0, help="power of an NPU that does nothing", unit="W")
    compute_w: float | None = option(None, minimum=0, help="power while it computes; none: tdp_w times tdp_share", unit="W")
    communicating_w: float | None = option(None, minimum=0, help="power while it communicates; none: idle_w", unit="W")
    memory_w: float | None = option(None, minimum=0, help="power while it accesses memory; none: idle_w", unit="W")
    tdp_w: float | None = option(None, above=0, help="thermal design power of an NPU, in place of compute_w", unit="W")
    tdp_share: float = option(0.76, above=0, maximum=1, help="share of tdp_w that an NPU takes while it computes")
    cap_w: float | None = option(None, above=0, help="most that an NPU takes, whatever it does at once; none: no cap", unit="W")
    host_w: float = option(0.0, minimum=0, help="power of a node beside its NPUs", unit="W")
    npus_per_node: int | None = option(None, minimum=1, help="NPUs of a node; none: the size of the first dimension")
    link_pj_per_bit: int | float | dict[str, Any] | None = option(
        None, help="energy of a bit on a link; a table: by number or topology of the dimension", unit="pJ"
    )
    switch_w: float = option(0.0, minimum=0, help="power of a switch of the platform", unit="W")
    pue: float = option(1.0, minimum=1, maximum=10, help="power usage effectiveness of the data centre: all energy over that of IT")
    tokens: float | None = option(None, above=0, help="tokens of the run; none: those that the workload counts")
    npus_per_rack: int | None = option(None, minimum=1, help="NPUs of a rack, in their order: mean and peak power of each; none: no racks")
    windows: int = option(100, minimum=1, maximum=10_000, help="parts of the run, of each of which the mean power is given")

    def __attrs_post_init__(self) -> None:
        if (self.compute_w is None) == (self.tdp_w is None):
            raise InputError("compute_w and tdp_w: expected one of the two")


@attrs.frozen
class RunCostOptions:
    """The section `cost` of an experiment."""

    gpu_hour_usd: float | None = option(None, minimum=0, help="price of an NPU for an hour", unit="USD")
    energy_usd_per_kwh: float | None = option(None, minimum=0, help="price of energy; needs the section energy", unit="USD")

    def __attrs_post_init__(self) -> None:
        if self.gpu_hour_usd is None and self.energy_usd_per_kwh is None:
            raise InputError("no price is given; expected gpu_hour_usd, energy_usd_per_kwh, or both")


@attrs.frozen
class Powers:
    """The power of an NPU by use (W)."""

    idle: float
    compute: float
    communication: float
    memory: float
    cap: float

    @classmethod
    def of(cls, options: EnergyOptions) -> Powers:
        """The powers of the options. Raises InputError if an NPU takes less when it works."""
        compute = options.tdp_w * options.tdp_share if options.tdp_w is not None else options.compute_w
        communication, memory = (options.idle_w if each is None else each for each in (options.communicating_w, options.memory_w))
        assert compute is not None
        for name, power in (("compute_w", compute), ("communicating_w", communication), ("memory_w", memory)):
            if power < options.idle_w:
                raise InputError(f"{name} is {power:g}; expected at least idle_w, which is {options.idle_w:g}")
        cap = options.cap_w if options.cap_w is not None else float("inf")
        if cap < options.idle_w:
            raise InputError(f"cap_w is {cap:g}; expected at least idle_w, which is {options.idle_w:g}")
        return cls(options.idle_w, compute, communication, memory, cap)

    def both(self) -> float:
        """Power while it computes and communicates."""
        return min(self.cap, self.compute + self.communication - self.idle)

    def alone(self, power: float) -> float:
        """A power, at most the cap."""
        return min(self.cap, power)


@attrs.define
class _Npus:
    """Joules of NPUs, and the power that they take at most."""

    idle: float = 0.0
    compute: float = 0.0
    communication: float = 0.0
    memory: float = 0.0
    peak_w: float = 0.0

    def add(self, row: Mapping[str, Any], finish_ns: float, powers: Powers) -> None:
        """Add NPUs that do the same, of which a row of `npu_times` tells."""
        count = row["count"]
        hidden = max(0.0, row["communication_ns"] - row["exposed_ns"])  # beside computing
        states = (
            (powers.both(), min(hidden, row["compute_ns"])),
            (powers.alone(powers.compute), max(0.0, row["compute_ns"] - hidden)),
            (powers.alone(powers.communication), row["exposed_ns"]),
            (powers.alone(powers.memory), row["memory_ns"]),
        )
        self.idle += count * powers.idle * finish_ns * NS
        extra = [count * (power - powers.idle) * time * NS for power, time in states]
        above = powers.alone(powers.compute) - powers.idle
        self.compute += extra[1] + count * above * states[0][1] * NS
        self.communication += extra[2] + extra[0] - count * above * states[0][1] * NS
        self.memory += extra[3]
        self.peak_w += count * max([powers.idle, *(power for power, time in states if time > 0)])


class PowerWindows:
    """The mean power of NPUs in parts of a run, by rack: joules of each window."""

    def __init__(self, options: EnergyOptions, powers: Powers, finish_ns: float, npus: int) -> None:
        self._powers = powers
        self._per_rack = options.npus_per_rack or npus
        self.window_ns = finish_ns / options.windows
        racks = -(-npus // self._per_rack)
        self.joules = [[0.0] * options.windows for _ in range(racks)]
        self.npus = [min(self._per_rack, npus - rack * self._per_rack) for rack in range(racks)]

    def add(self, uses: NpuUses) -> None:
        """Add the energy above idling of NPUs that do the same."""
        members = Counter(npu // self._per_rack for npu in uses.npus)
        edges = sorted(
            (moment, use, change)
            for use, spans in enumerate((uses.compute, uses.communication, uses.memory))
            for begin, end in spans
            for moment, change in ((begin, 1), (end, -1))
        )
        active, before = [0, 0, 0], 0.0
        for moment, use, change in edges:
            if moment > before:
                above = self._above_idle(active)
                if above:
                    self._spread(members, before, moment, above)
                before = moment
            active[use] += change

    def _above_idle(self, active: Sequence[int]) -> float:
        """The power of an NPU above idling, by what it does: computing beside communicating, or one of them, or accessing memory."""
        powers = self._powers
        computes, communicates, accesses = active
        if computes:
            return (powers.both() if communicates else powers.alone(powers.compute)) - powers.idle
        if communicates:
            return powers.alone(powers.communication) - powers.idle
        return powers.alone(powers.memory) - powers.idle if accesses else 0.0

    def _spread(self, members: Mapping[int, int], begin: float, end: float, watts: float) -> None:
        """Add a power from `begin` to `end` (ns) to the windows that it lies in."""
        last = len(self.joules[0]) - 1
        first = min(last, int(begin / self.window_ns))
        for window in range(first, min(last, int(end / self.window_ns)) + 1):
            until = end if window == last else min(end, (window + 1) * self.window_ns)
            lasts = until - max(begin, window * self.window_ns)
            if lasts > 0:
                for rack, count in members.items():
                    self.joules[rack][window] += count * watts * lasts * NS

    def watts(self, rack: int, others_w: float) -> list[float]:
        """The mean power of a rack in each window, with that of its other parts."""
        base = self.npus[rack] * self._powers.idle + others_w
        return [base + joules / (self.window_ns * NS) for joules in self.joules[rack]]


def power(options: EnergyOptions, powers: Powers, result: Any, npus: int, others_w: float) -> dict[str, Any]:
    """The mean power in windows of a run, in W, of the whole and of each rack; `others_w` is that of all but NPUs."""
    if not result.finish_ns:
        return {}
    windows = PowerWindows(options, powers, result.finish_ns, npus)
    for uses in npu_uses(result):
        windows.add(uses)
    racks = [windows.watts(rack, others_w * count / npus) for rack, count in enumerate(windows.npus)]
    whole = [options.pue * sum(each) for each in zip(*racks, strict=True)]
    figures: dict[str, Any] = {"window_ns": windows.window_ns, "mean_w": whole, "peak_w": max(whole)}
    if options.npus_per_rack is not None:
        figures["racks"] = [{"rack": number, "mean_w": sum(each) / len(each), "peak_w": max(each)} for number, each in enumerate(racks)]
    return {"power": figures}


def energy(options: EnergyOptions, result: Any, platform: Platform) -> dict[str, Any]:
    """The energy of a run in joules, by part, and its power in watts. Raises InputError if options do not fit the run."""
    powers, npus = Powers.of(options), _Npus()
    for row in result.npu_tables()["npu_times"]:
        npus.add(row, result.finish_ns, powers)
    seconds = result.finish_ns * NS
    per_node = options.npus_per_node or platform.dimensions[0].size
    nodes = -(-platform.npus // per_node)
    switches = platform.fabric().switches if options.switch_w else 0
    peak_w = npus.peak_w + nodes * options.host_w + switches * options.switch_w
    links = _links(options, result, platform)
    peak_w += links / seconds if seconds else 0.0
    parts: dict[str, Any] = {
        "npu": {"idle": npus.idle, "compute": npus.compute, "communication": npus.communication, "memory": npus.memory},
        "host": nodes * options.host_w * seconds,
        "links": links,
        "switches": switches * options.switch_w * seconds,
    }
    total = sum(parts["npu"].values()) + parts["host"] + parts["links"] + parts["switches"]
    whole = total * options.pue
    results: dict[str, Any] = {
        "total": total,
        "pue_total": Figure(whole, "energy", "J", _shares(parts, total)),
        "kwh": whole / JOULES_PER_KWH,
        "mean_w": Figure(whole / seconds if seconds else 0.0, "mean power", "W"),
        "peak_w": Figure(peak_w * options.pue, "peak power", "W", "if all NPUs reach theirs at once, and links take their mean"),
    }
    tokens = options.tokens if options.tokens is not None else _tokens(result)
    if tokens is not None and whole:
        results["tokens_per_joule"] = Figure(tokens / whole, "tokens per joule")
    others_w = nodes * options.host_w + switches * options.switch_w + (links / seconds if seconds else 0.0)
    return parts | results | power(options, powers, result, platform.npus, others_w)


def _shares(parts: Mapping[str, Any], total: float) -> str:
    """Describe the shares of the energy."""
    flat = {f"NPUs {name}": value for name, value in parts["npu"].items()} | {name: parts[name] for name in ("host", "links", "switches")}
    return ", ".join(f"{name} {100 * value / total:.1f} %" for name, value in flat.items() if total and value)


def _tokens(result: Any) -> float | None:
    """The tokens of the run, if its workload counts them by the second."""
    rate = result.figures.get("tokens_per_s")
    return float(rate) * result.finish_ns * NS if isinstance(rate, (int, float)) else None


def _links(options: EnergyOptions, result: Any, platform: Platform) -> float:
    """Joules of the links' traffic: bytes of each link times 8 times its energy of a bit. Raises InputError."""
    if options.link_pj_per_bit is None:
        return 0.0
    rows = result.npu_tables().get("links")
    if rows is None:
        raise InputError(
            "link_pj_per_bit: this network does not count the loads of links; expected one that does, such as analytical?congestion=aware"
        )
    of_dimension = [_pj_per_bit(options.link_pj_per_bit, number, each.topology.name) for number, each in enumerate(platform.dimensions)]
    return float(sum(row["bytes"] * BITS * of_dimension[row["dimension"]] for row in rows)) * PICO


def _pj_per_bit(per_bit: float | dict[str, Any], number: int, topology: str) -> float:
    """The energy of a bit on a link of a dimension. Raises InputError."""
    if not isinstance(per_bit, dict):
        value: Any = per_bit
    elif str(number) in per_bit or topology in per_bit:
        value = per_bit[str(number)] if str(number) in per_bit else per_bit[topology]
    else:
        raise InputError(f"link_pj_per_bit has {', '.join(per_bit) or 'nothing'}; expected {number} or {topology}, for dimension {number}")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise InputError(f"link_pj_per_bit is {value!r} for dimension {number}; expected a number of at least 0")
    return float(value)


def cost(options: RunCostOptions, result: Any, platform: Platform) -> dict[str, Any]:
    """The cost of a run in USD, and of each of its passes. Raises InputError for a price of energy without the section energy."""
    hours = result.finish_ns * NS / SECONDS_PER_HOUR
    usd = (options.gpu_hour_usd or 0.0) * hours * platform.npus
    if options.energy_usd_per_kwh is not None:
        if "energy" not in result.figures:
            raise InputError("energy_usd_per_kwh: the experiment has no section energy, which gives the power")
        usd += options.energy_usd_per_kwh * result.figures["energy"]["kwh"]
    passes = max(1, result.experiment.get("run", {}).get("passes", 1))
    return {"usd": Figure(usd, "cost", "USD"), "usd_per_step": usd / passes}
