"""The choice of `auto`: an algorithm for each size of a collective, from the time of the rounds of its schedule on the links.

Each algorithm that can carry out a request is asked for its schedule. The time of a round of it (`rounds.py`) is the latency of its
messages, and the bytes of its busiest link over the bandwidth of that (`uniform_loads.py`, `busiest_link.py`). The shortest time wins;
if times are within a twentieth, the fewest messages do. If links are not known, or too many to look at, there is a rule for switches
and one for the rest (`names.without_forecast`).

Of more than 64 ranks, an algorithm that sends to all others at once is taken only if its busiest link has less to carry, or the others have
no fewer messages: a simulation takes too long for the gain. On a network whose messages do not wait for each other, not even at the
NIC that sends them, no simulated time covers many messages from one link: there an NPU must have a link for each of them, or
they must be so short that their latencies are longer than the busiest link needs for all bytes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import attrs
from astra_sim.context import Algorithm, Context
from astra_sim.errors import ScheduleError
from astra_sim.fabric import RouteRules
from astra_sim.memo import cached
from astra_sim.platform import Group, LogicalDimension, Platform
from astra_sim.providers import CollectiveProvider
from astra_sim.schedule import Collective, PeerRun, Request, Schedule
from astra_sim.value_objects import ValueObject

from astra_sim_systems import names
from astra_sim_systems.busiest_link import AlikeGroups, are_switched, loads_of
from astra_sim_systems.loads import Loads, PathTime, RoundLoad, busiest_ns
from astra_sim_systems.rounds import Round
from astra_sim_systems.rounds_by_size import ScheduleRounds, rounds_for

CLOSE = 1.05
FEW_MESSAGES = 63
"""Of a rank that sends to all others: 64 ranks. With more, a simulation takes too long for the gain."""


@attrs.frozen(eq=False, repr=False)
class CostEstimate(ValueObject):
    """The estimate of an algorithm: its time, and the part on the busiest links (ns); messages of a rank, and most at once."""

    spec: str
    time_ns: float
    busy_ns: float
    messages: int
    at_once: int


@attrs.frozen(eq=False, repr=False)
class Selection(ValueObject):
    """An algorithm, and why: "" if it was chosen by name, else the comparison."""

    algorithm: Algorithm
    reason: str


@attrs.define(eq=False)
class AutoAlgorithm(Algorithm):
    """The algorithms among which `auto` chooses for each request.

    `held_bytes` is how much of a message the nodes of the network receive before they pass it on, `route_rules` how it routes.
    """

    platform: Platform | None = None
    step_ns: float = 0.0
    messages_wait: bool = True
    held_bytes: float = 0.0
    route_rules: RouteRules = attrs.field(factory=RouteRules)
    candidates: dict[str, Algorithm] = attrs.field(factory=dict)
    _picks: dict[tuple[Collective, int, int, LogicalDimension | Group], Selection] = attrs.field(factory=dict)
    _switched: dict[int | None, bool] = attrs.field(factory=dict)
    _alike: AlikeGroups | None = None
    _loads: dict[LogicalDimension | Group, Loads | None] = attrs.field(factory=dict)

    @property
    def content(self) -> Hashable:
        """The key of its choices."""
        return self.platform, self.step_ns, self.messages_wait, self.held_bytes, self.route_rules, *self.candidates.items()

    def pick(self, request: Request, logical: LogicalDimension | Group) -> Selection:
        """The algorithm for a request of the ranks of a dimension, or group."""
        assert self.platform is not None
        if isinstance(logical, Group):
            if self._alike is None:
                self._alike = AlikeGroups(self.platform)
            logical = self._alike.first(logical)
        key = request.collective, request.ranks, request.bytes, logical
        if key not in self._picks:
            self._picks[key] = self._pick(request, logical)
        return self._picks[key]

    def _pick(self, request: Request, logical: LogicalDimension | Group) -> Selection:
        assert self.platform is not None
        if logical not in self._loads:
            self._loads[logical] = _loads_of(self.platform, logical, self.route_rules)
        loads = self._loads[logical]
        forecasts = [] if loads is None else [*self._forecasts(request, loads)]
        if not forecasts:
            spec = self._without_forecast(request, logical)
            return Selection(self.candidates[spec], "auto: the graph is too large to look at, or not known")
        best = fastest(forecasts)
        return Selection(self.candidates[best.spec], f"auto: {_reason(best, forecasts)}")

    def _without_forecast(self, request: Request, logical: LogicalDimension | Group) -> str:
        assert self.platform is not None
        number = 0 if len(self.platform.dimensions) == 1 else logical.physical
        if number not in self._switched:
            self._switched[number] = number is None or are_switched(self.platform.physical or self.platform.dimensions[number])
        return names.without_forecast(request.collective, request.ranks, self._switched[number])

    def _forecasts(self, request: Request, loads: Loads) -> Sequence[CostEstimate]:
        """Of the algorithms that can carry out a request, and whose time can be foretold."""
        cost_estimates = []
        for spec, algorithm in self.candidates.items():
            if not names.has_few_steps(spec, request.collective, request.ranks):
                continue
            try:
                rounds = rounds_for(algorithm, request)
            except ScheduleError:
                # Halving-doubling refuses ranks that are no power of two, and all-to-alls.
                continue
            estimate = None if rounds is None else forecast(spec, rounds, loads, self.step_ns, self.held_bytes)
            if estimate is not None and self._is_believed(estimate, request, loads):
                cost_estimates.append(estimate)
        return cost_estimates

    def _is_believed(self, cost_estimate: CostEstimate, request: Request, loads: Loads) -> bool:
        """Whether a network that ignores how messages wait for each other is off by less than a factor of two."""
        # On the formula, messages to 63 ranks leave one NIC in the time of one: `direct` would end before a NIC could have sent them.
        if self.messages_wait or cost_estimate.at_once <= loads.links_of_npu or request.collective is Collective.ALL_TO_ALL:
            return True
        return cost_estimate.busy_ns <= cost_estimate.time_ns - cost_estimate.busy_ns


def automatic(kind: Collective, endpoint_ns: float, context: Context, dimension: int | None = None) -> AutoAlgorithm:
    """The choice of `auto` in a dimension of the platform, or across dimensions. Raises InputError if no plugin has the algorithms."""
    platform = context.platform
    dimensions = platform.dimensions if dimension is None else platform.dimensions[dimension : dimension + 1]
    candidates = {spec: context.algorithm(spec, kind.value) for spec in names.CANDIDATES}
    for name, provider in context.plugins.components("collective").items():
        if (
            isinstance(provider, CollectiveProvider)
            and provider.automatic
            and not any(provider.missing(each.topology) for each in dimensions)
        ):
            candidates[name] = context.algorithm(name, kind.value)
    return AutoAlgorithm(
        "auto",
        False,
        1,
        True,
        False,
        _not_asked,
        platform=platform,
        # A message crosses a NIC at both ends. Across dimensions the slowest NIC counts.
        step_ns=endpoint_ns + 2 * max(each.nic_latency_ns for each in dimensions),
        messages_wait=context.messages_wait,
        held_bytes=context.held_bytes,
        route_rules=context.route_rules,
        candidates=candidates,
    )


def _not_asked(request: Request) -> Schedule:
    raise request.unsupported("auto", "it represents another algorithm")


def forecast(spec: str, schedule: ScheduleRounds, loads: Loads, step_ns: float, held_bytes: float) -> CostEstimate | None:
    """The cost of a schedule on some links, from its rounds; None if it is too large to look at.

    A message takes `step_ns` besides its latency, and nodes receive `held_bytes` of it before they pass it on.
    """
    rounds = schedule.rounds
    time_ns = busy_ns = 0.0
    for sends, repeats in rounds.items():
        loaded = [(loads.load(each.pattern), each.bytes) for each in sends]
        known = [(load, size) for load, size in loaded if load is not None]
        if len(known) < len(loaded):
            return None
        took, busy = _round_ns(known, repeats, held_bytes)
        time_ns += took + repeats * step_ns
        busy_ns += busy
    return CostEstimate(spec, time_ns, busy_ns, schedule.messages, max(map(at_once, rounds), default=0))


def at_once(sends: Round) -> int:
    """The messages of a rank in a round, as far as all ranks do the same."""
    return sum(each.pattern.length if isinstance(each.pattern, PeerRun) else 1 for each in sends)


def _round_ns(sends: Sequence[tuple[RoundLoad, int]], repeats: int, held_bytes: float) -> tuple[float, float]:
    """The time of a round that is repeated, and the part on the busiest link.

    If a rank waits for one neighbour each time, data either wait at the busiest link, or go around and take the mean way. If it waits
    for several, the longest way counts each time.
    """

    def before_last(way: PathTime, size: int) -> float:
        return way.latency_ns + min(size, held_bytes) * (way.ns_per_byte - way.slowest_ns_per_byte)

    if len(sends) > 1:
        busy = busiest_ns(sends)
        return repeats * (busy + max(before_last(load.longest, size) for load, size in sends)), repeats * busy
    ((load, size),) = sends
    longest, mean = (before_last(way, size) + size * way.slowest_ns_per_byte for way in (load.longest, load.mean))
    busy = size * max(link.busy_ns for link in load.different)
    held = min(held_bytes, size)
    once = max(size * link.busy_ns + link.latency_ns + held * link.held_ns for link in load.different)
    if repeats <= 2:
        return repeats * max(once, longest), repeats * busy
    # Either the busiest link never idles, and its last message is held once; or each message of the chain waits for the one before.
    return max((repeats - 1) * busy + once, repeats * mean), repeats * busy


def fastest(forecasts: Sequence[CostEstimate]) -> CostEstimate:
    """The algorithm that takes the least time; of those within a twentieth the one with the fewest messages."""
    fair = [each for each in forecasts if _is_worth(each, [other for other in forecasts if other is not each])]
    best = min(each.time_ns for each in fair)
    return min((each for each in fair if each.time_ns <= CLOSE * best), key=lambda each: (each.messages, each.time_ns))


def _is_worth(estimate: CostEstimate, others: Sequence[CostEstimate]) -> bool:
    """Whether an algorithm has few messages, no more than others, or relieves the busiest link."""
    if estimate.at_once <= FEW_MESSAGES or not others:
        return True
    # On a fat tree of 128, 254 messages that relieve the links by less than a twentieth lose against 14.
    return estimate.messages <= min(each.messages for each in others) or CLOSE * estimate.busy_ns < min(each.busy_ns for each in others)


def _reason(best: CostEstimate, forecasts: Sequence[CostEstimate]) -> str:
    """The times that were compared, the chosen one first."""
    ordered = sorted(forecasts, key=lambda each: each is not best)
    return ", ".join(f"{each.spec} {each.time_ns / 1000:.4g} us in {each.messages} messages" for each in ordered)


@cached("systems: loads of links", 64)
def _loads_of(platform: Platform, logical: LogicalDimension | Group, rules: RouteRules) -> Loads | None:
    """The result of `loads_of`, for all collectives and runs on a platform."""
    return loads_of(platform, logical, rules)
