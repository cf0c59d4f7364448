"""Base classes of network backends. A backend subclasses one of the two classes here.

Messages of a `RouteDelayNetwork` never wait for each other; those of an `EventNetwork` may.

Example:

A network without contention: a message takes the latency of its hops, and the time of its bytes at the bandwidth of a link.

    >>> from astra_sim.network import DelayParts, RouteDelayNetwork
    >>> class Wires(RouteDelayNetwork):
    ...     def delay_parts(self, dimension, hops, size):
    ...         link = self.platform.dimensions[dimension]
    ...         return DelayParts(hops * link.link_latency_ns * 1000, size / link.link_bandwidth * 1000)
    ...
    ...     def route_delay(self, dimension, hops, size):
    ...         return round(sum(self.delay_parts(dimension, hops, size)))

On eight NPUs around a switch, 4000 bytes at 50 bytes/ns take 80 ns, and two hops of 500 ns:

    >>> from astra_sim.commands import Experiment, Plugins, build_platform
    >>> experiment, plugins = Experiment(), Plugins()
    >>> experiment.use("platform", "plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500", plugins)
    >>> platform = build_platform(experiment, plugins)
    >>> Wires(platform).message_delay(source=0, destination=2, size=4000)
    1080000

A network on which messages wait: each NPU sends one at a time, at 20 ps for each byte. `links` and `message_figures` are for reports.

    >>> from collections import Counter
    >>> from astra_sim.network import EventNetwork, LinkLoad, Message, MessageFigures
    >>> class Senders(EventNetwork):
    ...     def begin(self):
    ...         self.free_at, self.sent, self.under_way, self.figures = Counter(), Counter(), [], {}
    ...         return 0
    ...
    ...     def inject(self, time, messages):
    ...         for message in messages:
    ...             start = max(time, self.free_at[message.source])
    ...             end = self.free_at[message.source] = start + 20 * message.bytes
    ...             self.sent[message.source] += message.bytes
    ...             self.under_way.append((end, message.number))
    ...             self.figures[message.number] = MessageFigures(
    ...                 started=start, received=end, ended=end, packets=1, acks=0, nacks=None, marked_acks=0
    ...             )
    ...         self.under_way.sort()
    ...
    ...     def advance(self, until):
    ...         if not self.under_way or (until is not None and self.under_way[0][0] > until):
    ...             return None
    ...         time, number = self.under_way.pop(0)
    ...         return time, [number]
    ...
    ...     def links(self):
    ...         end = max(self.free_at.values())
    ...         return [LinkLoad(0, f"NPU {npu}", "switch 0", size, 20 * size / end) for npu, size in self.sent.items()]
    ...
    ...     def message_figures(self):
    ...         return self.figures

Of two messages of NPU 0 the second waits for the first; that of NPU 3 is shorter:

    >>> senders = Senders(platform)
    >>> start_ps = senders.begin()
    >>> senders.inject(0, [Message(0, 0, 1, bytes=1000), Message(1, 0, 2, bytes=1000), Message(2, 3, 4, bytes=500)])
    >>> [senders.advance(None) for _ in range(4)]
    [(10000, [2]), (20000, [0]), (40000, [1]), None]
    >>> senders.message_figures()[1].started
    20000
    >>> [(load.source, load.bytes, load.utilisation) for load in senders.links()]
    [('NPU 0', 2000, 1.0), ('NPU 3', 500, 0.25)]

An all-reduce in which every NPU sends to all others at once is faster on a network where messages do not wait:

    >>> from astra_sim import simulate
    >>> direct = {"workload": "plugin:collective?collective=all_reduce&bytes=800000", "system": "plugin:astra1?all_reduce=direct"}
    >>> [simulate(**direct, network=network).finish_ns for network in (Wires(platform), Senders(platform))]
    [6030, 28030]
"""

from __future__ import annotations

import abc
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from astra_sim._boundary import (
    FIGURES,
    FLAG,
    MAX_PICOSECONDS,
    NOT_NEGATIVE,
    TEXT,
    TEXTS,
    TIME,
    Contract,
    Expected,
    Lazily,
    call,
    each,
    of_type,
    picoseconds,
    shown,
)
from astra_sim._deprecation import FormerName
from astra_sim.errors import AstraError, InputError, PluginError
from astra_sim.fabric import RouteRules
from astra_sim.limits import MAX_EVENT_NPUS
from astra_sim.platform import GroupShape, Platform, Route
from astra_sim.schedule import Collective

if TYPE_CHECKING:
    from astra_sim.graph import ExecutionGraph
    from astra_sim.run.record import RunRecord

__all__ = ["DelayParts", "EventNetwork", "LinkLoad", "Message", "MessageFigures", "RouteDelayNetwork"]


class Message(NamedTuple):
    """A message that a network is to move: its number, NPUs, bytes, and the queue of the system layer that sends it (-1: none).

    Messages of one `flow` belong together: those of a chunk of a collective in one of its phases, or those between two tasks with one tag
    (0: it is not known). `traffic_class` is the one that is asked for (-1: the network chooses).
    """

    number: int
    source: int
    destination: int
    bytes: int
    queue: int = -1
    flow: int = 0
    traffic_class: int = -1


class MessageFigures(NamedTuple):
    """A network's report on a message that has ended. Times in picoseconds.

    `started` is when its first packet could be sent, `received` when its last byte arrived, `ended` when the sender knew. Of packets and of
    their acknowledgements: how many there were, refusals (NACK; None if the network knows none) and
    acknowledgements of marked packets (ECN).
    """

    started: int
    received: int
    ended: int
    packets: int
    acks: int
    nacks: int | None
    marked_acks: int


class DelayParts(NamedTuple):
    """The time of a message in picoseconds before rounding: the part independent of its bytes, and the part that scales with the bandwidth.

    With a `memory_ps` above 0 the message takes that long instead, because it waits for memory.
    """

    latency_ps: float
    bandwidth_ps: float
    memory_ps: float = 0.0


class LinkLoad(NamedTuple):
    """The load of a link in a run: its dimension, the names of its ends (`Fabric.link_ends`), bytes, and its utilisation.

    `utilisation` is the share of time in which it was busy. The rest is None if the network does not know it: `transfers` are the
    messages or packets that it carried, `most_waiting` the largest number of messages that waited for it or shared it at a time, and the
    queue before it is that of a node, the most bytes and the mean.
    """

    dimension: int
    source: str
    target: str
    bytes: int
    utilisation: float
    transfers: int | None = None
    most_waiting: int | None = None
    highest_queue_bytes: int | None = None
    mean_queue_bytes: float | None = None


class OwnerLoad(NamedTuple):
    """The load of a link by owner: its dimension, the names of its ends, bytes and busy time (ns) of each owner.

    `wait_ns[i][j]` is how long messages of owner i waited for the link while it sent those of owner j.
    """

    dimension: int
    source: str
    target: str
    bytes: tuple[int, ...]
    busy_ns: tuple[float, ...]
    wait_ns: tuple[tuple[float, ...], ...]


class RouteColumns(NamedTuple):
    """Routes in columns: the dimension of each, and its hops there."""

    dimensions: array[int]
    hops: array[int]

    @classmethod
    def of(cls, routes: Iterable[Route]) -> RouteColumns:
        """The columns of routes."""
        columns = cls(array("q"), array("q"))
        for dimension, hops in routes:
            columns.dimensions.append(dimension)
            columns.hops.append(hops)
        return columns


def _is_route(route: Any, network: Any) -> bool:
    dimension, hops = route
    return type(dimension) is int and type(hops) is int and 0 <= dimension < len(network.platform.dimensions) and 0 <= hops < 2**63


def _is_load(load: Any, network: Any) -> bool:
    dimension, source, target, size, share, *known = load
    numbers = all(NOT_NEGATIVE.holds(number, network) for number in (size, share, *known) if number is not None)
    return type(dimension) is int and isinstance(source, str) and isinstance(target, str) and numbers


def _are_parts(parts: Any, network: Any) -> bool:
    return parts is None or (len(parts) == 3 and all(NOT_NEGATIVE.holds(part, network) for part in parts))


class _OnPlatform(Contract):
    """The common part of both classes: a platform, and the routes of messages on it.

    If the ends of a message differ in several dimensions, it is charged to the `highest` or the `lowest` of them: `accounting_dimension`.
    `remedy` is advice, to a user, if messages are faster together than the wires of the platform allow, `price_remedy`
    if a whole collective of `collective_ps` is; "": none. `has_traffic_classes`: whether it treats messages by the
    class that they ask for. `device`: the device on which its times were measured, as platforms name theirs; "": none.
    `measured_dimensions`: those with measured times, which do not follow from the platform's description of their links.
    """

    _kind = "network"
    _attributes: ClassVar = {
        "platform": of_type("the platform", Platform),
        "has_traffic_classes": FLAG,
        "device": TEXT,
        "measured_dimensions": each("a set of numbers of dimensions", of_type("a number", int), frozenset, set),
        "accounting_dimension": Expected("'highest' or 'lowest'", lambda value, network: value in ("highest", "lowest")),
        "remedy": TEXT,
        "price_remedy": TEXT,
    }
    _answers: ClassVar = {
        "route": Expected("a Route: one of the platform's dimensions, and hops of at least 0", _is_route),
        "routes": of_type("RouteColumns", RouteColumns),
        "delay_parts": Expected("DelayParts of finite numbers of at least 0, or None", _are_parts),
        "delay": TIME,
        "delays": of_type("an array of 64-bit numbers", array),
        "message_delay": TIME,
        "statistics": FIGURES,
    }

    charged_dimension: Any = FormerName("accounting_dimension", "a network", "0.3")

    has_traffic_classes: bool = False
    device: str = ""
    measured_dimensions: frozenset[int] = frozenset()
    accounting_dimension: Literal["highest", "lowest"] = "highest"
    remedy: str = ""
    price_remedy: str = ""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    def route(self, source: int, destination: int) -> Route:
        """The route between two different NPUs. Raises InputError if they are the same."""
        return self.platform.route(source, destination, self.accounting_dimension == "lowest")

    def routes(self, source: int, destinations: Iterable[int]) -> RouteColumns:
        """The routes from an NPU to others, as `route` gives them."""
        return RouteColumns.of(self.route(source, destination) for destination in destinations)

    def collective_ps(self, collective: Collective, size: int, shape: GroupShape) -> int | None:
        """Picoseconds that a whole collective takes from when the last of its ranks has come to it; None: it goes by schedule.

        Each rank holds `size` bytes at the start, as in a `Request`. Asked once in a run for the same arguments. A collective that names
        its algorithm goes by schedule unasked.
        """
        return None

    def function_table(self) -> object | None:
        """A capsule with the network function table of `astra_sim/network.h`, a new one for each run; None if this network has none.

        The compiled engine uses it in place of `inject` and `advance`; on a network without contention when every NPU is simulated.
        """
        return None

    def statistics(self) -> dict[str, object]:
        """Figures of the network for the result, by name with unit."""
        return {}


_MOST_DELAYS = 1 << 14
_DelayKey = tuple[int, int, int]
_BYTES_OR_ALL = Expected("a number of at least 0, or infinity", lambda value, network: isinstance(value, (int, float)) and value >= 0)


class RouteDelayNetwork(_OnPlatform, abc.ABC):
    """A network without contention: a message's delay depends on its route and size alone.

    So all NPUs that do the same stay in step, and the time of a phase does not depend on anything else: the kernel
    computes it once. Of one that `delays_by_pair` a delay depends on the two NPUs: then every NPU and every message is simulated.
    """

    _attributes: ClassVar = {**_OnPlatform._attributes, "delays_by_pair": FLAG}

    delays_by_pair: bool = False

    remedy = "a network on which messages wait for each other would be right (--network plugin:packet)"

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        self._delays: dict[_DelayKey, int] = {}
        self._pair_delays: dict[_DelayKey, int] = {}

    @abc.abstractmethod
    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        """Picoseconds from sending a message of `size` bytes to its arrival, over `hops` hops of a dimension."""

    def pair_delay(self, source: int, destination: int, size: int) -> int:
        """Picoseconds of a message from one NPU to another, of a network that `delays_by_pair`; unless overridden, that of its route.

        `route_delay` and `delay_parts` are not called then. The route still gives the dimension in which the message counts.
        """
        return self.route_delay(*self.route(source, destination), size)

    def delay_parts(self, dimension: int, hops: int, size: int) -> DelayParts | None:
        """The latency and bandwidth parts of `route_delay`, for explanations; None if unknown.

        The first is in proportion to the latencies of the dimension, the second to 1 / its bandwidth. If it is unknown, the time of a
        message of no bytes is shown as latency, and the effect of a change of the network is found by running again.
        """
        return None

    def delay(self, route: Route, size: int) -> int:
        """The result of `route_delay`, checked and cached. Raises PluginError if it is not a time, InputError if it is too long."""
        key = (*route, size)
        delay = self._delays.get(key)
        return self._asked(self.route_delay, key, "over {1} hops of dimension {0}", self._delays) if delay is None else delay

    def delays(self, routes: RouteColumns, size: int) -> array[int]:
        """The delays of messages of `size` bytes over some routes, in their order. Raises the errors of `delay`."""
        known = {route: self.delay(Route(*route), size) for route in dict.fromkeys(zip(*routes, strict=True))}
        return array("q", map(known.__getitem__, zip(*routes, strict=True)))

    def message_delay(self, source: int, destination: int, size: int) -> int:
        """Picoseconds a message of `size` bytes takes from one NPU to another. Raises the errors of `route` and `delay`."""
        if not self.delays_by_pair:
            return self.delay(self.route(source, destination), size)
        key = source, destination, size
        delay = self._pair_delays.get(key)
        return self._asked(self.pair_delay, key, "from NPU {0} to NPU {1}", self._pair_delays) if delay is None else delay

    def _asked(self, function: Callable[..., int], key: _DelayKey, where: str, known: dict[_DelayKey, int]) -> int:
        """A delay that is not known, checked and cached. `where` says in messages what the first numbers of the key mean."""
        if len(known) >= _MOST_DELAYS:  # a network may serve many runs
            known.clear()
        what = Lazily(lambda: f"network {type(self).__name__}: the delay of {key[2]} bytes {where.format(*key)}")
        known[key] = picoseconds(call(what, function, *key), what)
        return known[key]


class EventNetwork(_OnPlatform, abc.ABC):
    """A network in which messages may wait for each other. Every NPU and every message is simulated on it.

    A message that crosses several dimensions counts in one of them: `accounting_dimension` should name the one that it enters first. A
    network that `reports_completion` also reports when the sender of a message knows that it has arrived. One that `forgets` has no clock
    and no state: whenever no message is under way, it is as at its beginning. `held_bytes` is how much of a message a node receives before
    it passes it on (infinity: all of it), and `route_rules` how it routes; system layers estimate times by these. Raises InputError if
    the platform has more than `astra_sim.limits.MAX_EVENT_NPUS`.
    """

    _attributes: ClassVar = {
        **_OnPlatform._attributes,
        "reports_completion": FLAG,
        "forgets": FLAG,
        "held_bytes": _BYTES_OR_ALL,
        "route_rules": of_type("RouteRules", RouteRules),
    }
    _answers: ClassVar = {
        **_OnPlatform._answers,
        "failure": of_type("an AstraError", AstraError),
        "take_completed": of_type("a list of numbers of messages", list, tuple),
        "message_figures": of_type("figures by number of the message", Mapping),
        "links": each("a list of LinkLoad", Expected("a LinkLoad", _is_load)),
        "reports": TEXTS,
    }

    reports_completion: bool = False
    forgets: bool = False
    held_bytes: float = 0.0
    route_rules: RouteRules = RouteRules()
    symmetry: bool = True
    """Whether the run that begins may simulate equal parts once: set by the kernel. Otherwise every part is simulated by itself."""
    counts_owners: bool = False
    """Whether the network can count the loads of links by the owner of the NPU that sends (`owners`), as for several jobs."""
    owners: Sequence[int] = ()
    """The owner of each NPU in the runs that begin, numbers from 0 to at most 254; empty: loads are not counted by owner."""

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        if platform.npus > MAX_EVENT_NPUS:
            raise InputError(
                f"the platform has {platform.npus} NPUs; expected at most {MAX_EVENT_NPUS} where messages wait for each other, for each is"
                " simulated (a network that is a formula takes more)"
            )

    def begin(self) -> int:
        """Begin a run at time 0, and clear the state of earlier runs. Returns an offset for all times of the result (picoseconds)."""
        return 0

    def on_progress(self, tell: Callable[[int], None] | None) -> None:
        """Report the progress of this run: `inject` and `advance` may call `tell` with the time reached (picoseconds).

        For networks that simulate for seconds between two arrivals. Exceptions of `tell` must propagate. None: no more reports.
        """

    watch: Any = FormerName("on_progress", "a network", "0.3")

    def failure(self, why: str) -> AstraError:
        """The error to raise when the function table reports one; `why` is its text."""
        return PluginError(f"network {type(self).__name__}: {why}")

    @abc.abstractmethod
    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Take messages that are sent at `time` (picoseconds).

        Calls come in order of time. The engine numbers messages; a delivery returns their numbers.
        """

    @abc.abstractmethod
    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """Advance to the next instant at which messages arrive, if that is not after `until`.

        Returns that time and the numbers of the messages that arrive then, at least one; or None if none arrives by `until`. If `until` is
        None there is no limit, and the result None means that no message is under way. A network that `reports_completion` also stops when
        only a completion is reported: then there may be no number.
        """

    def take_completed(self) -> Sequence[int]:
        """The numbers of messages whose senders know, since the last answer of `advance`, that they have arrived.

        Asked of a network that `reports_completion`, after each such answer.
        """
        return ()

    def keep_message_figures(self) -> None:
        """Keep figures of each message of the next run, if this network can. Called before `begin`."""

    def message_figures(self) -> Mapping[int, MessageFigures]:
        """The figures of messages that have ended, by number; none if the network keeps none."""
        return {}

    def links(self) -> Sequence[LinkLoad]:
        """The links that have carried something in the run so far; none if the network knows no links."""
        return ()

    def owner_loads(self) -> Sequence[OwnerLoad]:
        """The loads of links by owner in the run so far; none unless the network `counts_owners`, and has `owners`."""
        return ()

    def reports(self) -> dict[str, str]:
        """Further files for the reports of a run, by name. The kernel writes `links.csv` of `links`."""
        return {}


class Simulations(Protocol):
    """Simulates graphs with the system layer, the memory model and the engine of a run, on any network."""

    graph: ExecutionGraph
    """The graph of the run."""
    alike: bool
    """Whether NPUs that run one program may be taken to be alike: symmetry is on, and computing takes the same on all."""

    def run(self, graph: ExecutionGraph, network: Network) -> RunRecord:
        """The record of a graph on a network."""

    def final(self, graph: ExecutionGraph, network: Network) -> RunRecord:
        """The record that answers the run: with timelines, critical path and times of NPUs if these were requested."""


class RefiningNetwork(EventNetwork):
    """A network that answers a run as a whole, by simulating its parts on other networks.

    The kernel calls `refine` instead of sending messages. As an `EventNetwork` it is the network that the whole run would be on.
    `doubts` explain, to a user, why its last answer is not as certain as requested: `--strict` refuses them.
    """

    doubts: Sequence[str] = ()

    @abc.abstractmethod
    def refine(self, simulations: Simulations) -> RunRecord:
        """The record of a run, one that `Simulations.final` has made."""


Network = RouteDelayNetwork | EventNetwork


# -- Asking an event network -------------------------------------------------------------------------------------------


def inject(network: EventNetwork, now: int, messages: Sequence[Message]) -> None:
    """Hand messages to a network."""
    call(f"network {type(network).__name__}: inject", network.inject, now, messages)


def advance(network: EventNetwork, since: int, until: int | None) -> tuple[int, Sequence[int], Sequence[int]] | None:
    """Take the next delivery from a network, not before `since`: time, numbers that have arrived, and those whose senders know that.

    Raises PluginError for any other answer, `not_under_way` for a message that the network does not have.
    """
    what = f"network {type(network).__name__}"
    delivery = call(f"{what}: advance", network.advance, until)
    if delivery is None:
        return None
    if not isinstance(delivery, tuple) or len(delivery) != 2 or not isinstance(delivery[1], (list, tuple)):
        raise PluginError(f"{what}: advance returned {shown(delivery)}; expected None, or a time and the numbers of at least one message")
    time, numbers = delivery
    if type(time) is not int or time < since or (until is not None and time > until) or time > MAX_PICOSECONDS:
        right = f"expected {since} or later" if until is None else f"expected {since} to {until}"
        raise PluginError(f"{what}: advance returned the time {shown(time)}; {right}")
    sent = call(f"{what}: take_completed", network.take_completed) if network.reports_completion else ()
    if not numbers and not sent:
        raise PluginError(f"{what}: advance returned {shown(delivery)}; expected None, or a time and the numbers of at least one message")
    for number in (*numbers, *sent):
        if type(number) is not int:
            raise not_under_way(network, number)
    return time, numbers, sent


def not_under_way(network: object, number: object) -> PluginError:
    """The error for a network that delivers a message it does not have."""
    why = "which is not under way: it was never sent, or has arrived before"
    return PluginError(f"network {type(network).__name__}: message {shown(number)} was delivered, {why}")
