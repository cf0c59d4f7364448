"""Physics audit: where a result is faster than the wires of its platform allow.

What NPU 0 sends in a dimension, divided by the bandwidth of all its links there, is a time that no network can go below. Three times are
held against it: that of a phase (its mean, over all like it), that in which a dimension has something to do, and that of the run. On a
network without contention messages do not wait for each other, so an algorithm that sends many at once may need less; and so may one whose
messages cross many links of a ring. An event network moves every message itself: there the run as a whole and its links are looked at.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from astra_sim._boundary import call
from astra_sim.errors import InputError
from astra_sim.fabric import wires_of
from astra_sim.network import EventNetwork, RouteDelayNetwork
from astra_sim.options import can_be_kept
from astra_sim.platform import Dimension, Group, LogicalDimension, Route
from astra_sim.report.spans import Spans, uses_of
from astra_sim.run.described_plans import PlannedPhase
from astra_sim.run.record import RunRecord
from astra_sim.run.routes import Routes
from astra_sim.schedule import Collective, PeerRun
from astra_sim.setup.components import Components
from astra_sim.system import PhasePlan
from astra_sim.units import PS_PER_NS

TOLERANCE = 0.01
"""Wires count as this much faster than they are: clocks of links are whole picoseconds, and measured figures have an error."""

MOST_LISTED = 1 << 18
"""Links of a dimension that are listed to find the best connected NPU. Where there are more, each NPU counts as the topology says of all:
a list of those between 65 536 fully connected NPUs would have 4 billion.
"""

ROUNDED_PS = PS_PER_NS
"""What a message may be too fast by: networks may cut its time to whole nanoseconds."""


@attrs.frozen
class Finding:
    """Something that is faster than the wires allow.

    `scope` is "phase", "dimension", "run" or "link". The `bytes` that NPU 0 puts on links of a dimension (where NPUs forward messages,
    those of a phase count on every link that they cross) need `wire_ns` at the bandwidth of all its links there, and take `time_ns`,
    which is `ratio` times less. Of a link only the `ratio` is known, its utilisation. `remedy` is what would be right.
    """

    scope: str
    dimension: int | None
    topology: str
    collective: str | None
    bytes: int
    bandwidth_bytes_per_ns: float
    wire_ns: float
    time_ns: float
    ratio: float
    remedy: str

    @property
    def message(self) -> str:
        """The finding in a line."""
        remedy = f"; {self.remedy}" if self.remedy else ""
        if self.scope == "link":
            return f"{self.topology} is {100 * self.ratio:.1f} %, and no link can carry more than 100 %{remedy}"
        what = f"a phase of {self.collective}" if self.scope == "phase" else f"the {self.scope}"
        return (
            f"dimension {self.dimension} ({self.topology}): {what} puts {self.bytes} bytes on the links of an NPU in {self.time_ns:.0f} ns,"
            f" which need {self.wire_ns:.0f} ns at {self.bandwidth_bytes_per_ns:.6g} bytes/ns, {self.ratio:.3g} times as long{remedy}"
        )


def audit(
    components: Components, run: RunRecord, busy: Sequence[Spans], counted: Sequence[int], figures: Mapping[str, Any]
) -> list[Finding]:
    """The findings of a run, for each dimension the worst.

    `busy` says when each dimension of the program has something to do, `counted` the bytes that NPU 0 sends then; `figures` are those of
    the network.
    """
    network = components.network
    found = list(_of_links(figures, network.remedy))
    if isinstance(network, EventNetwork):
        found += _of_run(components, run)
    else:
        loads = _Loads(components, network)
        found += _of_phases(components, run, loads)
        found += _of_dimensions(components, run, busy, counted, loads)
    worst: dict[tuple[int, str], Finding] = {}
    for finding in found:
        place = finding.dimension if finding.dimension is not None else -1, finding.topology
        if place not in worst or finding.ratio > worst[place].ratio:
            worst[place] = finding
    return [worst[place] for place in sorted(worst)]


class _Load(NamedTuple):
    """What NPU 0 sends in a phase in a dimension: bytes on links, messages, and the picoseconds that the slowest message takes."""

    bytes: int
    messages: int
    slowest_ps: int


class _Loads:
    """Adds up what NPU 0 sends in phases."""

    def __init__(self, components: Components, network: RouteDelayNetwork) -> None:
        self._network = network
        self._routes = Routes(network)
        self._several = bool(components.graph.others)
        self._bandwidth = [_bandwidth(dimension) for dimension in components.platform.dimensions]
        self._forwards = [_forwards(dimension) for dimension in components.platform.dimensions]
        self.together = components.system.phases_end_together

    def may_exceed(self, phase: PlannedPhase, time_ps: int) -> bool:
        """Whether it is worth while to add up the load of a phase, by the sum of all that it sends."""
        physical = phase.plan.logical.physical
        if physical is None or self._forwards[physical]:
            return True
        return _exceeds(sum(phase.sent.values()), self._bandwidth[physical], time_ps)

    def of(self, plan: PhasePlan) -> dict[int, _Load]:
        """What NPU 0 sends in a phase, by dimension. Of a priced all-reduce it is what a switch that adds up would leave."""
        logical, found = plan.logical, dict[int, _Load]()
        if isinstance(logical, Group) and 0 not in logical.members:
            return found
        share = 2 if plan.counted is not None and plan.collective is Collective.ALL_REDUCE else 1
        for step in (plan.counted or plan.schedule).program(logical.index(0)).steps:
            if step.targets is None:
                continue
            times = step.times // step.targets.length
            for route, peers in self._ways(step.targets, logical):
                size, messages, slowest_ps = found.get(route.dimension, (0, 0, 0))
                size += peers * (step.bytes * times * self._links(route, logical) // share)
                if not self.together:
                    slowest_ps = max(slowest_ps, self._network.delay(route, step.bytes))
                found[route.dimension] = _Load(size, messages + peers * times, slowest_ps)
        return found

    def _ways(self, run: PeerRun, logical: LogicalDimension | Group) -> Iterable[tuple[Route, int]]:
        """The different routes to some peers, each with the number of peers to which it leads."""
        if run.length == 1:
            return ((self._routes.to(run.first, logical), 1),)
        found = Counter(zip(*self._routes.columns(run, logical), strict=True))
        return ((Route(*route), count) for route, count in found.items())

    def _links(self, route: Route, logical: LogicalDimension | Group) -> int:
        """On how many links of NPUs a message over a route counts."""
        size = self._network.platform.dimensions[route.dimension].size
        # Where only some NPUs of a dimension run a phase, those that forward its messages have links to spare.
        everybody = isinstance(logical, LogicalDimension) and (logical.size == size or not self._several)
        return route.hops if everybody and self._forwards[route.dimension] else 1


def _forwards(dimension: Dimension) -> bool:
    """Whether NPUs forward messages, and no switch does: then the links of NPUs carry all that crosses them."""
    topology, half = dimension.topology, dimension.size // 2
    listed = getattr(topology, "links", 0)
    return half > 0 and isinstance(listed, int) and topology.hops(0, 1) == 1 and topology.hops(0, half) > 1


def _of_phases(components: Components, run: RunRecord, loads: _Loads) -> Iterator[Finding]:
    """Where phases are over before their bytes can be sent, in the mean of those that are alike.

    A phase that ends on all NPUs together ends with its last message; else its last messages may still be under way.
    """
    network = components.network
    for phase, time_ps in _times(run):
        if not loads.may_exceed(phase, time_ps):
            continue
        plan, priced = phase.plan, phase.plan.counted is not None
        remedy = network.price_remedy if priced else network.remedy
        for number, load in loads.of(plan).items():
            longest_ps = time_ps + (0 if priced else load.slowest_ps) + load.messages * ROUNDED_PS
            yield from _finding(components, number, load.bytes, time_ps, longest_ps, "phase", str(plan.collective), remedy)


def _times(run: RunRecord) -> Iterator[tuple[PlannedPhase, int]]:
    """One of the phases of each kind, and what those like it take in the mean (picoseconds)."""
    timed: dict[int, PlannedPhase] = {}
    kinds: dict[tuple[int, int], tuple[int, PlannedPhase]] = {}
    kind_of: list[tuple[int, ...]] = []
    for phase in run.phases.planned:
        if phase.cost is not None:
            timed[id(phase.cost)] = phase
            kind_of.append(())
        else:
            key = id(phase.plan.counted or phase.plan.schedule), id(phase.plan.logical)
            kind_of.append((kinds.setdefault(key, (len(kinds), phase))[0],))
    for phase in timed.values():
        assert phase.cost is not None
        yield phase, phase.cost.duration_ps
    if kinds:
        steps, uses = uses_of(run.phases.records, kind_of, len(kinds))
        counts = [0] * len(kinds)
        for groups, count in zip(kind_of, steps, strict=True):
            for kind in groups:
                counts[kind] += count
        for (_, phase), count, use in zip(kinds.values(), counts, uses, strict=True):
            if count:
                yield phase, use.spent // count


def _of_dimensions(
    components: Components, run: RunRecord, busy: Sequence[Spans], counted: Sequence[int], loads: _Loads
) -> Iterator[Finding]:
    """Dimensions in which NPU 0 sends more than fits into the time in which they have something to do.

    Prices of whole collectives say what they take, not what they send in which dimension: runs with some are left out.
    """
    planned, run_ps = run.phases.planned, run.finish_ps - run.start_ps
    if any(phase.plan.counted is not None for phase in planned):
        return
    for number, dimension in enumerate(components.platform.dimensions):
        spans = _spans_of(components, run, busy, counted, number)
        time_ps = sum(each.covered for each in spans) if spans else run_ps
        if not _exceeds(run.payload[number], _bandwidth(dimension), min(time_ps, run_ps)):
            continue
        sent = [each[number] for each in _loads_of_records(run, loads) if number in each]
        under_way_ps = max((load.slowest_ps for load in sent), default=0) * sum(len(each.begins) for each in spans)
        rounded_ps = (sum(load.messages for load in sent) + len(run.sends.operation)) * ROUNDED_PS
        longest_ps = min(time_ps + under_way_ps, run_ps) + rounded_ps
        scope = "dimension" if time_ps < run_ps else "run"
        remedy = components.network.remedy
        yield from _finding(components, number, run.payload[number], min(time_ps, run_ps), longest_ps, scope, None, remedy)


def _spans_of(components: Components, run: RunRecord, busy: Sequence[Spans], counted: Sequence[int], number: int) -> Sequence[Spans]:
    """When NPU 0 sends in a dimension of the platform; empty where that is not known.

    An algorithm over several dimensions counts in one of them, and messages between dimensions of the program in none: when what is
    counted is not what is sent, others may be busy with it.
    """
    own = [place for place, logical in enumerate(components.graph.dimensions) if logical.physical == number]
    if sum(counted[place] for place in own) == run.payload[number]:
        return [busy[place] for place in own]
    return busy if sum(counted) == sum(run.payload) else ()


def _loads_of_records(run: RunRecord, loads: _Loads) -> Iterator[dict[int, _Load]]:
    """The load of each phase of NPU 0 that happened."""
    known: dict[int, dict[int, _Load]] = {}
    for step in run.phases.records.step:
        plan = run.phases.planned[step].plan
        if id(plan) not in known:
            known[id(plan)] = loads.of(plan)
        yield known[id(plan)]


def _of_run(components: Components, run: RunRecord) -> Iterator[Finding]:
    """Dimensions in which NPU 0 sends more than fits into the run."""
    time_ps, remedy = run.finish_ps - run.start_ps, components.network.remedy
    for number, size in enumerate(run.payload):
        yield from _finding(components, number, size, time_ps, time_ps + run.messages * ROUNDED_PS, "run", None, remedy)


def _of_links(figures: Mapping[str, Any], remedy: str) -> Iterator[Finding]:
    """Links that a network says are used more than all the time."""
    dimensions = figures.get("dimensions")
    told = {name: value for name, value in figures.items() if name.endswith("utilisation")}
    if isinstance(dimensions, list):
        told |= {f"utilisation of dimension {n}": each.get("utilisation") for n, each in enumerate(dimensions) if isinstance(each, dict)}
    for name, share in told.items():
        if isinstance(share, (int, float)) and share > 1 + TOLERANCE:
            yield Finding("link", None, name, None, 0, 0.0, 0.0, 0.0, float(share), remedy)


def _finding(
    components: Components, number: int, size: int, time_ps: int, longest_ps: int, scope: str, collective: str | None, remedy: str
) -> Iterator[Finding]:
    """A finding where bytes in a dimension that have taken `time_ps` need more than `longest_ps`, which leaves room for roundings."""
    dimension = components.platform.dimensions[number]
    bandwidth = _bandwidth(dimension)
    if _exceeds(size, bandwidth, longest_ps):
        listed = _kept_listed_bandwidth if can_be_kept(dimension) else _listed_bandwidth
        bandwidth = max(bandwidth, listed(dimension))
        if _exceeds(size, bandwidth, longest_ps):
            wire_ns, time_ns = size / bandwidth, time_ps / PS_PER_NS
            topology = f"{dimension.topology.name} of {dimension.size}"
            ratio = wire_ns / max(time_ns, 1.0)
            yield Finding(scope, number, topology, collective, size, bandwidth, wire_ns, time_ns, ratio, remedy)


def _bandwidth(dimension: Dimension) -> float:
    """The bandwidth of all links of an NPU (bytes per nanosecond)."""
    return dimension.topology.links_per_npu() * dimension.link_bandwidth


def _exceeds(size: int, bandwidth: float, time_ps: int) -> bool:
    return size * PS_PER_NS * (1 - TOLERANCE) > time_ps * bandwidth


def _listed_bandwidth(dimension: Dimension) -> float:
    """The bandwidth of the links of the best connected NPU, where the topology lists its links and they are not too many; else 0."""
    count = getattr(dimension.topology, "link_count", None)
    links_in_all = call("links of a topology", count) if callable(count) else dimension.size * dimension.topology.links_per_npu()
    if links_in_all > MOST_LISTED:
        return 0.0
    try:
        links = call("links of a topology", wires_of, dimension, "audit")
    except InputError:
        return 0.0
    sums = [0.0] * dimension.size
    for link in links:
        if link.source < dimension.size:
            sums[link.source] += link.bandwidth
    return max(sums)


_kept_listed_bandwidth = functools.lru_cache(maxsize=8)(_listed_bandwidth)
