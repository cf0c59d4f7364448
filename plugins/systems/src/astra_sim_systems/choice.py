"""What `auto` stands for: an algorithm for each size of a collective, by what the links of a dimension carry and how long messages take.

On a ring, a switch and fully connected NPUs, the rule is that of the topology (`names.default_algorithm`). Elsewhere the time of each
algorithm is foretold: its steps, one after another, with the latencies of their messages, and the bytes of the busiest link over its
bandwidth (`busiest_link.py`). The shortest time wins; where times are within a hundredth, the fewest messages do.

An algorithm that sends to all others at once is taken where it is faster also if the busiest link takes half as long again: its messages
meet in an order that nobody has planned. Beyond that the busiest link must have less to carry, unless the messages are few, or no more than
those of the others. On a network whose messages do not wait for each other, not even at the NIC that sends them, no time says what so many
messages from one link take: there an NPU must have a link for each of them.
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
COLLISIONS = 1.5
"""How much longer the busiest link takes where all send to all at once: 0.9 to 1.5 with static routes or hashes, on packets up to 3."""
FEW_MESSAGES = 63
"""Of a rank that sends to all others: 64 ranks. With more, a simulation takes too long for what is gained."""
MOST_PAIRS = 1 << 20
"""Of ranks, that are looked at where all send to all others."""


@attrs.frozen
class Forecast:
    """What an algorithm takes in a dimension: messages of a rank one after another, and ns that the busiest link needs for each byte.

    Both are of a reduce-scatter of data of one byte in all, and so is `latency_ns`, of messages that wait for each other together; an
    all-reduce takes all twice. `at_once` says that a rank waits for none of its messages before it sends the next, `spread` that it has
    a link for each of them.
    """

    spec: str
    messages: int
    ns_per_byte: float
    at_once: bool = False
    latency_ns: float = 0.0
    spread: bool = True


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
    messages_wait: bool = True
    candidates: dict[str, Algorithm] = attrs.field(factory=dict)
    _picks: dict[tuple[Collective, int, int], Pick] = attrs.field(factory=dict)

    @property
    def content(self) -> Hashable:
        """What its choices follow from."""
        return self.platform, self.dimension, self.step_ns, self.messages_wait, *self.candidates.items()

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
        own = self.platform.dimensions[self.dimension]
        if names.goes_by_topology(own):
            return Pick(self.candidates[names.default_algorithm(request.collective, own, request.ranks)], "auto")
        forecasts = _forecasts(self.platform, self.dimension, request.collective is Collective.ALL_TO_ALL)
        possible = [each for each in forecasts if self._is_possible(each, request)]
        if not possible:
            switched = are_switched(groups_of(self.platform, self.dimension)[0])
            spec = names.without_forecast(request.collective, request.ranks, switched)
            return Pick(self.candidates[spec], "auto: the graph is too large to look at, or not known")
        spec = fastest(possible, request, self.step_ns)
        return Pick(self.candidates[spec], f"auto: {_reason(spec, possible, request, self.step_ns)}")

    def _is_possible(self, forecast: Forecast, request: Request) -> bool:
        if forecast.spec == names.POWERS_OF_TWO:
            return is_power_of_two(request.ranks)
        return not forecast.at_once or forecast.spread or self.messages_wait


def automatic(kind: Collective, dimension: int, endpoint_ns: float, context: Context) -> Automatic:
    """What `auto` stands for in a dimension of the platform. Raises InputError where no plugin has the algorithms."""
    platform = context.platform
    own = platform.dimensions[dimension]
    specs = names.candidates(kind, own)
    candidates = {spec: context.algorithm(spec, kind.value) for spec in specs}
    step_ns = endpoint_ns + 2 * own.nic_latency_ns
    first = candidates[specs[0]]
    return Automatic(
        "auto",
        False,
        1,
        True,
        False,
        first.schedule,
        platform=platform,
        dimension=dimension,
        step_ns=step_ns,
        messages_wait=context.messages_wait,
        candidates=candidates,
    )


def fastest(forecasts: Sequence[Forecast], request: Request, step_ns: float) -> str:
    """The algorithm that takes the least time for a request; of those within a hundredth the one with the fewest messages."""
    others = [each for each in forecasts if not each.at_once]
    fair = others + [each for each in forecasts if each.at_once and (not others or _is_worth(each, others, request, step_ns))]
    best = min(time_ns(each, request, step_ns) for each in fair)
    close = [each for each in fair if time_ns(each, request, step_ns) <= CLOSE * best]
    return min(close, key=lambda each: each.messages).spec


def _is_worth(at_once: Forecast, others: Sequence[Forecast], request: Request, step_ns: float) -> bool:
    """Whether to send to all at once is worth its messages, and that they meet."""
    colliding = attrs.evolve(at_once, ns_per_byte=COLLISIONS * at_once.ns_per_byte)
    relieves = colliding.ns_per_byte <= min(each.ns_per_byte for each in others)
    are_few = at_once.messages <= max(FEW_MESSAGES, min(each.messages for each in others))
    return (relieves or are_few) and time_ns(colliding, request, step_ns) < min(time_ns(each, request, step_ns) for each in others)


def time_ns(forecast: Forecast, request: Request, step_ns: float) -> float:
    """The time of an algorithm for a request: its steps, `step_ns` and a latency each, and the bytes of the busiest link."""
    halves = 2 if request.collective is Collective.ALL_REDUCE else 1
    data = request.bytes * (request.ranks if request.collective is Collective.ALL_GATHER else 1)
    steps = 1 if forecast.at_once else forecast.messages
    return halves * (steps * step_ns + forecast.latency_ns + data * forecast.ns_per_byte)


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
    bits = range(n.bit_length() - 1) if is_power_of_two(n) else range(0)
    patterns = [wiring.pattern((group[rank], group[(rank + 1) % n]) for group in groups for rank in range(n))]
    patterns += [wiring.pattern((group[rank], group[rank ^ 1 << bit]) for group in groups for rank in range(n)) for bit in bits]
    few, links = n - 1 <= FEW_MESSAGES or not bits, _links_of_npus(wiring)
    if (few or max(links) > 1) and n * n * len(groups) <= MOST_PAIRS:
        patterns.append(wiring.each_to_each(groups))
    around, *others = wiring.loads(patterns)
    yield Forecast(names.ANY_NUMBER, n - 1, (n - 1) / n * around.ns_per_byte, latency_ns=(n - 1) * around.mean_ns)
    if bits:
        halving, others = others[: len(bits)], others[len(bits) :]
        ns_per_byte = sum(load.ns_per_byte / (2 << bit) for bit, load in enumerate(halving))
        yield Forecast(names.POWERS_OF_TWO, len(bits), ns_per_byte, latency_ns=sum(load.longest_ns for load in halving))
    for load in others:
        yield Forecast(names.ALL_AT_ONCE, n - 1, load.ns_per_byte / n, at_once=True, latency_ns=load.longest_ns, spread=min(links) >= n - 1)


def _links_of_npus(wiring: Wiring) -> list[int]:
    """The links of an NPU of each class. With one, to send to all at once loads it as much as any other way does."""
    return [len(wiring.leaving.get(members[0], ())) for members in wiring.members]
