"""Physics audit: find results that are faster than the links of their platform allow.

Two times are bounds that no network can beat. One is the bytes that NPU 0 sends in a dimension, divided by the bandwidth of all its links
there. The other is the bytes of all NPUs of the dimension, times the links that each message crosses, divided by the bandwidth of all links
of its fabric. Three times are held against them: that of a phase (its mean, over all like it), that in which a dimension has something to
do, and that of the run. On a network without contention messages do not wait for each other, so an algorithm that sends many at once may
need less; and so may one whose messages cross many links. An event network moves every message itself: there the run as a whole and its
links are looked at.

Links are as wide as the topology lists them. If a message has the bandwidth of both directions (`both_ways`), no link is any wider, so
traffic in both directions at once is too fast, and the remedy of a finding explains it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from astra_sim._boundary import call
from astra_sim.engine.columns import Spans
from astra_sim.errors import InputError
from astra_sim.fabric.graph import stripes_over_directions, uniform_links_of, wires_of
from astra_sim.graph import accounting_dimensions
from astra_sim.memo import cached
from astra_sim.network import EventNetwork, Network, RouteDelayNetwork
from astra_sim.platform import Dimension, Group, LogicalDimension, Route
from astra_sim.run.described_plans import PlannedPhase
from astra_sim.run.record import RunRecord
from astra_sim.run.routes import RunRoutes
from astra_sim.schedule import Collective, Peer, PeerRun, Schedule, Step
from astra_sim.setup.components import Components
from astra_sim.system import PhasePlan
from astra_sim.units import PS_PER_NS
from astra_sim.value_objects import ValueObject

TOLERANCE = 0.01
"""Wires count as this much faster than they are: clocks of links are whole picoseconds, and measured figures have an error."""

MOST_LISTED = 1 << 18
"""Links of a dimension that are listed to find the best connected NPU. If there are more, each NPU counts by the topology's summary:
a list of those between 65 536 fully connected NPUs would have 4 billion.
"""

MOST_PAIRS = 1 << 14
"""Messages of different ranks whose links are counted one by one, if ranks do not all send equally far. Of more, each counts as one."""

BOTH_WAYS_REMEDY = "a message has the bandwidth of both directions: both_ways=false (in the platform) is right"

ROUNDED_PS = PS_PER_NS
"""The tolerance of the time of a message: networks may cut it to whole nanoseconds."""


@attrs.frozen(eq=False, repr=False)
class Finding(ValueObject):
    """Something that is faster than the wires allow.

    `scope` is "phase", "dimension", "run" or "link". The `bytes` that NPU 0 puts on links of a dimension need `wire_ns` at the bandwidth of
    all its links there, and take `time_ns`, which is `ratio` times less. If all links of the fabric are the bound (`of_fabric`), the
    bytes of a message count on every link that it crosses, and both figures are means over the NPUs. Of a link only the `ratio` is known,
    its utilisation. `remedy` is the advice.
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
    of_fabric: bool = False

    @property
    def message(self) -> str:
        """The finding in a line."""
        remedy = f"; {self.remedy}" if self.remedy else ""
        if self.scope == "link":
            return f"{self.topology} is {100 * self.ratio:.1f} %, and no link can carry more than 100 %{remedy}"
        what = f"a phase of {self.collective}" if self.scope == "phase" else f"the {self.scope}"
        links = "links for each NPU" if self.of_fabric else "the links of an NPU"
        return (
            f"dimension {self.dimension} ({self.topology}): {what} puts {self.bytes} bytes on {links} in {self.time_ns:.0f} ns,"
            f" which need {self.wire_ns:.0f} ns at {self.bandwidth_bytes_per_ns:.6g} bytes/ns, {self.ratio:.3g} times as long{remedy}"
        )


def audit(
    components: Components, run: RunRecord, busy: Sequence[Spans], counted: Sequence[int], figures: Mapping[str, Any]
) -> list[Finding]:
    """The findings of a run, for each dimension the worst.

    `busy` is when each dimension of the program has something to do, `counted` the bytes that NPU 0 sends then; `figures` are those of
    the network.
    """
    network = components.network
    findings = list(_of_links(figures, network.remedy))
    loads = _Loads(components, network)
    if isinstance(network, EventNetwork):
        findings += _of_run(components, run, loads)
    else:
        findings += _of_phases(components, run, loads)
        findings += _of_dimensions(components, run, busy, counted, loads)
    worst: dict[tuple[int, str], Finding] = {}
    for finding in sorted(findings, key=lambda finding: -finding.ratio):
        worst.setdefault((-1 if finding.dimension is None else finding.dimension, finding.topology), finding)
    return [worst[place] for place in sorted(worst)]


class _Load(NamedTuple):
    """The bytes sent in a phase in a dimension.

    `bytes` and `messages` are those of NPU 0, `slowest_ps` the time of the slowest of these (0 on event networks), `link_bytes` the bytes
    of all NPUs on all links that they cross, divided by the number of NPUs; 0 if only some NPUs of the dimension run the phase.
    """

    bytes: int = 0
    messages: int = 0
    slowest_ps: int = 0
    link_bytes: float = 0.0


class _Loads:
    """Adds up the bytes that are sent in phases."""

    def __init__(self, components: Components, network: Network) -> None:
        self._network = network
        self._routes = RunRoutes(network)
        self._several = bool(components.graph.others)
        self._bandwidth = [_bandwidth(dimension) for dimension in components.platform.dimensions]
        self._hops: dict[tuple[int, Peer], float] = {}
        self._known: dict[int, dict[int, _Load]] = {}
        self.together = components.system.phases_end_together

    def may_exceed(self, phase: PlannedPhase, time_ps: int) -> bool:
        """Whether it is worth while to add up the load of a phase, by the sum of all that it sends."""
        physical = phase.plan.logical.physical
        if physical is None:
            return True
        uniform = uniform_links_of(self._network.platform.dimensions[physical])
        if uniform is None or uniform.pattern == "ring":
            return True  # a message may cross several links of NPUs
        return _exceeds(sum(phase.sent.values()), self._bandwidth[physical], time_ps)

    def of(self, plan: PhasePlan) -> dict[int, _Load]:
        """The bytes sent in a phase, by dimension. A priced all-reduce counts as if a switch did the reduction."""
        if id(plan) not in self._known:
            self._known[id(plan)] = self._of(plan)
        return self._known[id(plan)]

    def _of(self, plan: PhasePlan) -> dict[int, _Load]:
        """The bytes that NPU 0 sends in each physical dimension in a phase, for lower bounds of its time."""
        logical, loads = plan.logical, dict[int, _Load]()
        if isinstance(logical, Group) and 0 not in logical.members:
            return loads
        share = 2 if plan.counted is not None and plan.collective is Collective.ALL_REDUCE else 1
        schedule = plan.counted or plan.schedule
        everybody = self._dimension_of_all(logical)
        for step in schedule.program(logical.index(0)).steps:
            if step.targets is None:
                continue
            times = step.times // step.targets.length
            for route, peers in self._routes_to(step.targets, logical):
                load = loads.get(route.dimension, _Load())
                slowest_ps = load.slowest_ps
                if not self.together and isinstance(self._network, RouteDelayNetwork):
                    slowest_ps = max(slowest_ps, self._slowest_ps(self._network, route, step, logical))
                size = peers * (step.bytes * times // share)
                loads[route.dimension] = _Load(load.bytes + size, load.messages + peers * times, slowest_ps)
        if everybody is not None:
            load = loads.get(everybody, _Load())
            loads[everybody] = load._replace(link_bytes=self._link_bytes(schedule, logical, everybody) / share)
        return loads

    def _slowest_ps(self, network: RouteDelayNetwork, route: Route, step: Step, logical: LogicalDimension | Group) -> int:
        """The largest time of a message of a step from NPU 0, over a route if the route matters."""
        if not network.delays_by_pair:
            return network.delay(route, step.bytes)
        assert step.targets is not None
        members, rank = logical.group(0), logical.index(0)
        return max(network.message_delay(0, members[peer], step.bytes) for peer in step.targets.ranks_from(rank, logical.size))

    def _routes_to(self, run: PeerRun, logical: LogicalDimension | Group) -> Iterable[tuple[Route, int]]:
        """The different routes to some peers, each with the number of peers to which it leads."""
        if run.length == 1:
            return ((self._routes.to(run.first, logical), 1),)
        result = Counter(zip(*self._routes.columns(run, logical), strict=True))
        return ((Route(*route), count) for route, count in result.items())

    def _dimension_of_all(self, logical: LogicalDimension | Group) -> int | None:
        """The dimension of the platform in which all NPUs run the phases of a logical one together; None if only some do."""
        if isinstance(logical, Group) or logical.physical is None:
            return None
        # If only some NPUs of a dimension run a phase, the links of the others are to spare.
        whole = logical.size == self._network.platform.dimensions[logical.physical].size
        return logical.physical if whole or not self._several else None

    def _link_bytes(self, schedule: Schedule, logical: LogicalDimension | Group, number: int) -> float:
        """The bytes of all ranks on all links that they cross, divided by the number of ranks."""
        if schedule.is_shared:
            return sum(
                step.bytes * step.times * self._mean_hops(step.targets, logical, number)
                for step in schedule.programs[0].steps
                if step.targets is not None and step.bytes
            )
        ranks, total = schedule.ranks, 0.0
        steps = [step for program in schedule.programs for step in program.steps if step.targets is not None]
        if sum(step.targets.length for step in steps if step.targets is not None) > MOST_PAIRS:
            return sum(step.bytes * step.times for step in steps) / ranks
        members = logical.group(0)
        for rank in range(ranks):
            for step in schedule.program(rank).steps:
                if step.targets is not None:
                    each = step.bytes * step.times // step.targets.length
                    total += each * sum(self._hops_between(members, rank, peer, number) for peer in step.targets.ranks_from(rank, ranks))
        return total / ranks

    def _mean_hops(self, run: PeerRun, logical: LogicalDimension | Group, number: int) -> float:
        """The links that a message to one of some peers crosses, in the mean over all peers and ranks."""
        topology, members = self._network.platform.dimensions[number].topology, logical.group(0)
        ends = run.first, run.first.moved((run.length - 1) * run.stride)
        if all(topology.is_symmetric(peer) for peer in ends) and len(members) == self._network.platform.dimensions[number].size:
            return sum(route.hops * count for route, count in self._routes_to(run, logical)) / run.length
        if run.length * len(members) > MOST_PAIRS:
            return 1.0
        return sum(self._mean_to(peer, members, number) for peer in run.each()) / run.length

    def _mean_to(self, peer: Peer, members: Sequence[int], number: int) -> float:
        """The links that a message to a peer crosses, in the mean over all ranks."""
        ranks, key = len(members), (number, peer)
        is_whole = ranks == self._network.platform.dimensions[number].size
        if is_whole and key in self._hops:
            return self._hops[key]
        mean = sum(self._hops_between(members, rank, peer.of(rank, ranks), number) for rank in range(ranks)) / ranks
        if is_whole:
            self._hops[key] = mean
        return mean

    def _hops_between(self, members: Sequence[int], source: int, target: int, number: int) -> int:
        if source == target:
            return 0
        platform = self._network.platform
        ends = (platform.coordinate(members[rank], number) for rank in (source, target))
        return platform.dimensions[number].hops(*ends)


def _of_phases(components: Components, run: RunRecord, loads: _Loads) -> Iterator[Finding]:
    """Phases that end before their bytes can be sent, on average over phases of the same kind.

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
            timed = _Timed("phase", str(plan.collective), time_ps, longest_ps, remedy)
            yield from _finding(components, number, load.bytes, timed)
            yield from _fabric_finding(components, number, load.link_bytes, timed)


def _times(run: RunRecord) -> Iterator[tuple[PlannedPhase, int]]:
    """One of the phases of each kind, and the mean time of its kind (picoseconds)."""
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
        steps, uses = run.engine.uses_of(run.phases.records, kind_of, len(kinds))
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

    Prices of whole collectives give their time, not their bytes by dimension: runs with some are left out.
    """
    planned, run_ps = run.phases.planned, run.finish_ps - run.start_ps
    if any(phase.plan.counted is not None for phase in planned):
        return
    for number, dimension in enumerate(components.platform.dimensions):
        spans = _spans_of(components, run, busy, counted, number)
        time_ps = sum(each.covered for each in spans) if spans else run_ps
        if not _exceeds(run.payload[number], _bandwidth(dimension), min(time_ps, run_ps)):
            continue
        happened = (loads.of(planned[step].plan) for step in run.phases.records.step)
        sent = [each[number] for each in happened if number in each]
        under_way_ps = max((load.slowest_ps for load in sent), default=0) * sum(len(each.begins) for each in spans)
        rounded_ps = (sum(load.messages for load in sent) + len(run.sends.operation)) * ROUNDED_PS
        longest_ps = min(time_ps + under_way_ps, run_ps) + rounded_ps
        scope = "dimension" if time_ps < run_ps else "run"
        timed = _Timed(scope, None, min(time_ps, run_ps), longest_ps, components.network.remedy)
        yield from _finding(components, number, run.payload[number], timed)


def _spans_of(components: Components, run: RunRecord, busy: Sequence[Spans], counted: Sequence[int], number: int) -> Sequence[Spans]:
    """When NPU 0 sends in a dimension of the platform; empty if that is not known.

    An algorithm over several dimensions counts in one of them, and messages between dimensions of the program in none: when the counted
    bytes are not those that are sent, others may be busy with them.
    """
    dimensions = accounting_dimensions(components.graph, components.platform)
    places = [place for place, logical in enumerate(dimensions) if logical.physical == number]
    if sum(counted[place] for place in places) == run.payload[number]:
        return [busy[place] for place in places]
    return busy if sum(counted) == sum(run.payload) else ()


def _of_run(components: Components, run: RunRecord, loads: _Loads) -> Iterator[Finding]:
    """Dimensions in which NPU 0 sends more than fits into the run, or all NPUs more than fits onto all links."""
    time_ps = run.finish_ps - run.start_ps
    timed = _Timed("run", None, time_ps, time_ps + run.messages * ROUNDED_PS, components.network.remedy)
    for number, size in enumerate(run.payload):
        yield from _finding(components, number, size, timed)
    for number, on_links in enumerate(_link_bytes(run, loads)):
        yield from _fabric_finding(components, number, on_links, timed)


def link_bytes(components: Components, run: RunRecord) -> list[float]:
    """For each dimension the bytes of a run's collectives on all links that they cross, divided by the number of NPUs."""
    return _link_bytes(run, _Loads(components, components.network))


def _link_bytes(run: RunRecord, loads: _Loads) -> list[float]:
    result = [0.0] * len(run.payload)
    for step, count in Counter(run.phases.records.step).items():
        for number, load in loads.of(run.phases.planned[step].plan).items():
            result[number] += count * load.link_bytes
    return result


def _of_links(figures: Mapping[str, Any], remedy: str) -> Iterator[Finding]:
    """Links that a network reports as used more than all the time."""
    dimensions = figures.get("dimensions")
    utilisations = {name: value for name, value in figures.items() if name.endswith("utilisation")}
    if isinstance(dimensions, list):
        utilisations |= {
            f"utilisation of dimension {n}": each.get("utilisation") for n, each in enumerate(dimensions) if isinstance(each, dict)
        }
    for name, share in utilisations.items():
        if isinstance(share, (int, float)) and share > 1 + TOLERANCE:
            yield Finding("link", None, name, None, 0, 0.0, 0.0, 0.0, float(share), remedy)


class _Timed(NamedTuple):
    """Something of which a time is held against the bounds: `longest_ps` leaves room for roundings. The others are those of a `Finding`."""

    scope: str
    collective: str | None
    time_ps: int
    longest_ps: int
    remedy: str


def _finding(components: Components, number: int, size: int, timed: _Timed) -> Iterator[Finding]:
    """A finding if bytes that something has put on the links of NPU 0 in a dimension need more time."""
    dimension = components.platform.dimensions[number]
    bandwidth = _bandwidth(dimension)
    if _exceeds(size, bandwidth, timed.longest_ps):
        bandwidth = max(bandwidth, link_bandwidth(dimension).of_npu)
        if _exceeds(size, bandwidth, timed.longest_ps):
            yield _finding_of(number, dimension, size, bandwidth, timed)


def _fabric_finding(components: Components, number: int, size: float, timed: _Timed) -> Iterator[Finding]:
    """The same, if bytes on all links that they cross, in the mean of all NPUs, need more time at the bandwidth of all links."""
    if size <= 0:
        return
    dimension = components.platform.dimensions[number]
    bandwidth = link_bandwidth(dimension).of_fabric
    if bandwidth and _exceeds(size, bandwidth, timed.longest_ps):
        yield attrs.evolve(_finding_of(number, dimension, round(size), bandwidth, timed), of_fabric=True)


def _finding_of(number: int, dimension: Dimension, size: int, bandwidth: float, timed: _Timed) -> Finding:
    remedy = timed.remedy
    if stripes_over_directions(dimension):
        remedy = "; ".join(filter(None, (remedy, BOTH_WAYS_REMEDY)))
    wire_ns, time_ns = size / bandwidth, timed.time_ps / PS_PER_NS
    topology, ratio = f"{dimension.topology.name} of {dimension.size}", wire_ns / max(time_ns, 1.0)
    return Finding(timed.scope, number, topology, timed.collective, size, bandwidth, wire_ns, time_ns, ratio, remedy)


def _bandwidth(dimension: Dimension) -> float:
    """The bandwidth of all links of an NPU (bytes per nanosecond)."""
    return dimension.topology.links_per_npu() * dimension.link_bandwidth


def _exceeds(size: float, bandwidth: float, time_ps: int) -> bool:
    return size * PS_PER_NS * (1 - TOLERANCE) > time_ps * bandwidth


class LinkBandwidth(NamedTuple):
    """The bandwidth (bytes/ns) of the links of the best connected NPU, and of all links divided by the number of NPUs; 0: not known."""

    of_npu: float = 0.0
    of_fabric: float = 0.0


def link_bandwidth(dimension: Dimension) -> LinkBandwidth:
    """The bandwidths that a topology lists, if its links are not too many. Two NPUs on a ring may have a link for either direction."""
    uniform, bandwidth = uniform_links_of(dimension), _bandwidth(dimension)
    if uniform is not None:
        of_all = uniform.link_count() * uniform.width * dimension.link_bandwidth / dimension.size
        return LinkBandwidth(bandwidth, max(of_all, bandwidth) if uniform.pattern == "ring" else of_all)
    return _sums(dimension)


@cached("bandwidths", 8)
def _sums(dimension: Dimension) -> LinkBandwidth:
    """The largest and mean bandwidth of an NPU's links; empty if there are too many, or they are unknown."""
    count = call("links of a topology", dimension.topology.link_count)
    links_in_all = dimension.size * dimension.topology.links_per_npu() if count is None else count
    if links_in_all > MOST_LISTED:
        return LinkBandwidth()
    try:
        links = call("links of a topology", wires_of, dimension, "audit")
    except InputError:
        return LinkBandwidth()
    sums = [0.0] * dimension.size
    for link in links:
        if link.source < dimension.size:
            sums[link.source] += link.bandwidth
    return LinkBandwidth(max(sums), sum(link.bandwidth for link in links) / dimension.size)
