"""What `auto` stands for: an algorithm for each size of a collective, by what the links of a dimension carry and how long messages take.

On a ring, a switch and fully connected NPUs, the rule is that of the topology (`names.default_algorithm`). Elsewhere the time of each
algorithm is foretold: its steps, one after another, times the latency of a message, and the bytes of the busiest link over its bandwidth
(`busiest_link.py`). The shortest time wins; where times are within a hundredth, the fewest messages do. An algorithm that sends to all
others at once has so many messages that it must relieve the busiest link by a tenth at least.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Sequence

import attrs
from astra_sim import InputError
from astra_sim.context import Algorithm, Context
from astra_sim.platform import Platform, is_power_of_two
from astra_sim.schedule import Collective, Request, Schedule

from astra_sim_systems import names
from astra_sim_systems.busiest_link import Wiring, are_switched, groups_of, wiring_of

CLOSE = 1.01
RELIEF = 0.9


@attrs.frozen
class Forecast:
    """What an algorithm takes in a dimension: messages of a rank one after another, and ns that the busiest link needs for each byte.

    Both are of a reduce-scatter of data of one byte in all; an all-reduce takes both twice. `at_once` says that a rank waits for none of
    its messages before it sends the next.
    """

    spec: str
    messages: int
    ns_per_byte: float
    at_once: bool = False


@attrs.frozen
class Pick:
    """An algorithm, and why: "" where it was asked for by name, "auto" by the rule of its topology, else what was compared."""

    algorithm: Algorithm
    reason: str


@attrs.define(eq=False)
class Automatic(Algorithm):
    """The algorithms among which `auto` chooses for each request."""

    platform: Platform | None = None
    dimension: int = 0
    step_ns: float = 0.0
    candidates: dict[str, Algorithm] = attrs.field(factory=dict)
    _picks: dict[tuple[Collective, int, int], Pick] = attrs.field(factory=dict)

    @property
    def content(self) -> Hashable:
        """What its choices follow from."""
        return self.platform, self.dimension, self.step_ns, *self.candidates.items()

    def schedule(self, request: Request) -> Schedule:
        """The schedule of the algorithm that is picked."""
        return self.pick(request).algorithm.schedule(request)

    def pick(self, request: Request) -> Pick:
        """The algorithm for a request."""
        key = request.collective, request.ranks, request.bytes
        if key not in self._picks:
            self._picks[key] = self._pick(request)
        return self._picks[key]

    def _pick(self, request: Request) -> Pick:
        if len(self.candidates) == 1:
            return Pick(next(iter(self.candidates.values())), "auto")
        assert self.platform is not None
        forecasts = _forecasts(self.platform, self.dimension, request.collective is Collective.ALL_TO_ALL)
        possible = [each for each in forecasts if each.spec != names.POWERS_OF_TWO or is_power_of_two(request.ranks)]
        if not possible:
            switched = are_switched(groups_of(self.platform, self.dimension)[0])
            spec = names.without_forecast(request.collective, request.ranks, switched)
            return Pick(self.candidates[spec], "auto: the graph is too large to look at, or not known")
        spec = fastest(possible, request, self.step_ns)
        return Pick(self.candidates[spec], f"auto: {_reason(spec, possible, request, self.step_ns)}")


def automatic(kind: Collective, dimension: int, endpoint_ns: float, context: Context) -> Automatic:
    """What `auto` stands for in a dimension of the platform. Raises InputError where no plugin has the algorithms."""
    platform = context.platform
    own = platform.dimensions[dimension]
    specs = names.candidates(kind, own)
    candidates = {spec: context.algorithm(spec, kind.value) for spec in specs}
    step_ns = endpoint_ns + 2 * own.nic_latency_ns + own.link_latency_ns * _most_hops(platform, dimension) if len(specs) > 1 else 0.0
    first = candidates[specs[0]]
    return Automatic(
        "auto", False, 1, True, False, first.schedule, platform=platform, dimension=dimension, step_ns=step_ns, candidates=candidates
    )


def fastest(forecasts: Sequence[Forecast], request: Request, step_ns: float) -> str:
    """The algorithm that takes the least time for a request; of those within a hundredth the one with the fewest messages."""
    lowest = min(each.ns_per_byte for each in forecasts if not each.at_once) if any(not each.at_once for each in forecasts) else 0.0
    fair = [each for each in forecasts if not each.at_once or len(forecasts) == 1 or each.ns_per_byte <= RELIEF * lowest]
    best = min(time_ns(each, request, step_ns) for each in fair)
    close = [each for each in fair if time_ns(each, request, step_ns) <= CLOSE * best]
    return min(close, key=lambda each: each.messages).spec


def time_ns(forecast: Forecast, request: Request, step_ns: float) -> float:
    """The time of an algorithm for a request: its steps, and the bytes of the busiest link."""
    halves = 2 if request.collective is Collective.ALL_REDUCE else 1
    data = request.bytes * (request.ranks if request.collective is Collective.ALL_GATHER else 1)
    steps = 1 if forecast.at_once else forecast.messages
    return halves * (steps * step_ns + data * forecast.ns_per_byte)


def _reason(spec: str, forecasts: Sequence[Forecast], request: Request, step_ns: float) -> str:
    """The times that were compared, the chosen one first; why there was nothing to compare."""
    if request.collective is Collective.ALL_TO_ALL:
        return "straight to each other"
    if len(forecasts) == 1:
        return f"{request.ranks} ranks are no power of two"
    ordered = sorted(forecasts, key=lambda each: each.spec != spec)
    return ", ".join(f"{each.spec} {time_ns(each, request, step_ns) / 1000:.4g} us in {each.messages} messages" for each in ordered)


def _forecasts(platform: Platform, dimension: int, all_to_all: bool) -> tuple[Forecast, ...]:
    """What `forecasts_of` says, remembered where the platform can be a key."""
    try:
        return _remembered(platform, dimension, all_to_all)
    except TypeError:
        return forecasts_of(platform, dimension, all_to_all)


@functools.lru_cache(maxsize=256)
def _remembered(platform: Platform, dimension: int, all_to_all: bool) -> tuple[Forecast, ...]:
    return forecasts_of(platform, dimension, all_to_all)


def forecasts_of(platform: Platform, dimension: int, all_to_all: bool) -> tuple[Forecast, ...]:
    """The forecasts of all algorithms for a dimension; none where its graph is too large, or not known."""
    try:
        whole, groups = groups_of(platform, dimension)
        wiring = wiring_of(whole)
    except InputError:
        wiring = None
    if wiring is None:
        return ()
    n = platform.dimensions[dimension].size
    if all_to_all:
        # Straight to each other: from neighbour to neighbour data cross as many links, wait at each, and are no fewer messages.
        return (Forecast(names.ALL_AT_ONCE, n - 1, 0.0, at_once=True),)
    return tuple(_reduce_scatter(wiring, groups, n))


def _reduce_scatter(wiring: Wiring, groups: Sequence[Sequence[int]], n: int) -> Iterator[Forecast]:
    around = wiring.ns_per_byte((group[rank], group[(rank + 1) % n]) for group in groups for rank in range(n))
    yield Forecast(names.ANY_NUMBER, n - 1, (n - 1) / n * around)
    if is_power_of_two(n):
        bits = range(n.bit_length() - 1)
        loads = [wiring.ns_per_byte((group[rank], group[rank ^ 1 << bit]) for group in groups for rank in range(n)) for bit in bits]
        yield Forecast(names.POWERS_OF_TWO, len(bits), sum(load / (2 << bit) for bit, load in enumerate(loads)))
    if _has_spare_links(wiring) and n * n * len(groups) <= 1 << 20:
        yield Forecast(names.ALL_AT_ONCE, n - 1, wiring.ns_per_byte(_every_pair(groups)) / n, at_once=True)


def _has_spare_links(wiring: Wiring) -> bool:
    """Whether an NPU has several links: with one, to send to all at once loads it as much as any other way does."""
    npus = len(wiring.class_of)
    return any(len(wiring.leaving.get(members[0], ())) > 1 for members in wiring.members if members[0] < npus)


def _every_pair(groups: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    return ((a, b) for group in groups for a in group for b in group if a != b)


def _most_hops(platform: Platform, dimension: int) -> int:
    """The most hops of a message from the first NPU of a dimension."""
    own = platform.dimensions[dimension]
    return max((own.topology.hops(0, rank) for rank in range(1, min(own.size, 4096))), default=0)
