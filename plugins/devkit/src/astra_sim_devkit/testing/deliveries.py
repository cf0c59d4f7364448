"""Puts messages on a network and checks their arrival: each must arrive once, in order of time, and not before it was sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from astra_sim.function_table import FunctionTable
from astra_sim.network import EventNetwork, Message, Network, RouteDelayNetwork, advance, inject
from astra_sim.platform import GroupShape, Platform
from astra_sim.schedule import Collective
from astra_sim.units import PS_PER_NS, picoseconds

from astra_sim_devkit.testing.requirement import require

SIZES = (1, 1000, 4096, 10**6)
"""Bytes of the messages that are tried."""

_MOST_PAIRS = 64
_MOST_EMPTY = 1000


class Batch(NamedTuple):
    """Messages that are sent at a time (picoseconds)."""

    time: int
    messages: Sequence[Message]


class TableDeliveries(EventNetwork):
    """The function table of a network, in the form of an event network."""

    def __init__(self, network: EventNetwork | RouteDelayNetwork, table: FunctionTable) -> None:
        super().__init__(network.platform)
        self._table = table
        self.reports_completion = table.reports_completion

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Hand messages to the table."""
        self._table.inject(time, messages)

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """Take the next delivery from the table."""
        return self._table.advance(until)

    def take_completed(self) -> list[int]:
        """Messages whose senders the table has reported."""
        return self._table.take_completed()


def pairs(platform: Platform) -> list[tuple[int, int]]:
    """Pairs of different NPUs: all, or the first 64 if there are more."""

    def every() -> Iterator[tuple[int, int]]:
        for distance in range(1, platform.npus):
            for source in range(platform.npus):
                yield source, (source + distance) % platform.npus

    return list(islice(every(), _MOST_PAIRS))


def batches(platform: Platform) -> list[Batch]:
    """Messages of all sizes between many NPUs: all at once, then more of them while those are under way, then some when it is quiet."""
    numbers = iter(range(1, 1 << 30))
    npu_pairs = pairs(platform)

    def some(time: int, size: int) -> Batch:
        return Batch(time, [Message(next(numbers), source, destination, size) for source, destination in npu_pairs])

    return [some(1000, SIZES[1]), some(1001, SIZES[0]), some(20_000, SIZES[2]), some(10**12, SIZES[2])]


def deliver(network: EventNetwork, sent: Sequence[Batch]) -> dict[int, int]:
    """Put batches on a network that has begun a run. Returns when each message arrived. Raises AssertionError if one does not."""
    run = _DeliveryRun(network)
    for index, batch in enumerate(sent):
        run.inject(batch)
        run.take(sent[index + 1].time if index + 1 < len(sent) else None)
    run.check_all_arrived()
    return run.arrived


class _DeliveryRun:
    def __init__(self, network: EventNetwork) -> None:
        self._network = network
        self._sent: dict[int, tuple[int, Message]] = {}
        self._latest = 0
        self.arrived: dict[int, int] = {}

    def inject(self, batch: Batch) -> None:
        """Send messages."""
        inject(self._network, batch.time, batch.messages)
        self._sent.update({message.number: (batch.time, message) for message in batch.messages})

    def take(self, until: int | None) -> None:
        """Take the arrivals up to a time."""
        empty = 0
        while (delivery := advance(self._network, 0, until)) is not None:
            time, numbers, sent = delivery
            empty += not numbers and not sent
            require(empty <= _MOST_EMPTY, f"advance delivers nothing at {time} ps, over and over; expected None where nothing arrives")
            for number in numbers:
                self._take(time, number)

    def _take(self, time: int, number: int) -> None:
        require(number in self._sent, f"message {number} was delivered at {time} ps, which was never sent")
        when, message = self._sent[number]
        name = _name(when, message)
        require(number not in self.arrived, f"{name} was delivered twice, at {self.arrived.get(number)} ps and at {time} ps")
        require(time >= when, f"{name} was delivered at {time} ps, before it was sent")
        require(time >= self._latest, f"{name} was delivered at {time} ps, after a delivery at {self._latest} ps")
        self._latest = time
        self.arrived[number] = time

    def check_all_arrived(self) -> None:
        """Raise AssertionError if messages are missing."""
        missing = [number for number in self._sent if number not in self.arrived]
        if missing:
            name = _name(*self._sent[missing[0]])
            raise AssertionError(f"lost {len(missing)} of {len(self._sent)} messages, the first of them {name}")


def _name(when: int, message: Message) -> str:
    way = f"NPU {message.source} to NPU {message.destination}"
    return f"message {message.number} ({message.bytes} bytes from {way}, sent at {when} ps)"


_ROUNDED_PS = 4 * PS_PER_NS
"""The largest loss from rounding to whole nanoseconds after each of four terms."""


def check_delays(network: RouteDelayNetwork) -> None:
    """Raise AssertionError unless delays are times that do not shrink with size, and are the same when asked for again.

    Raises PluginError if one is no time.
    """
    table = network.function_table()
    functions = None if table is None else FunctionTable(table)
    if functions is not None:
        functions.require("delay")
    asked: dict[tuple[int, int, int], tuple[int, str]] = {}
    for source, destination in pairs(network.platform):
        delays = [network.message_delay(source, destination, size) for size in (0, *SIZES, 10**9)]
        way = f"from NPU {source} to NPU {destination}"
        for size, delay, larger, longer in zip((0, *SIZES), delays, (*SIZES, 10**9), delays[1:], strict=False):
            require(delay <= longer, f"{larger} bytes {way} take {longer} ps, and {size} bytes {delay} ps; expected no less for more")
        where = (source, destination) if network.delays_by_pair else network.route(source, destination)
        asked |= {(*where, size): (delays[place], way) for place, size in enumerate((0, *SIZES))}
        parts = None if network.delays_by_pair else network.delay_parts(*where, SIZES[2])
        if parts is not None:
            taken = parts.memory_ps or parts.latency_ps + parts.bandwidth_ps
            right = min(parts) >= 0 and abs(taken - delays[3]) <= _ROUNDED_PS
            require(right, f"{SIZES[2]} bytes {way} take {delays[3]} ps, and their parts are {parts}; expected parts that add up to that")
        if functions is not None:
            by_table = functions.delay(source, destination, SIZES[2])
            require(by_table == delays[3], f"{SIZES[2]} bytes {way} take {delays[3]} ps, and by its function table {by_table} ps")
    ask = network.pair_delay if network.delays_by_pair else network.route_delay
    for (one, other, size), (delay, way) in reversed(asked.items()):
        again = ask(one, other, size)
        require(round(again) == delay, f"{size} bytes {way} take {delay} ps, and when asked for again {again} ps")


def check_lone_messages(network: EventNetwork) -> None:
    """Raise AssertionError unless a message alone on the network takes no less time if it is larger."""
    for source, destination in pairs(network.platform)[:: max(1, len(pairs(network.platform)) // 4)]:
        before = size_before = 0
        for size in SIZES:
            network.begin()
            took = deliver(network, [Batch(0, [Message(1, source, destination, size)])])[1]
            way = f"alone from NPU {source} to NPU {destination}"
            require(took >= before, f"{size} bytes {way} take {took} ps, and {size_before} bytes {before} ps; expected no less for more")
            before, size_before = took, size


def check_prices(network: Network) -> None:
    """Raise AssertionError unless whole collectives that a network prices take times that do not shrink with size.

    When asked again it must give the same.
    """
    platform = network.platform
    asked: list[tuple[str, Collective, int, GroupShape, int | None]] = []
    for collective in Collective:
        for logical in (*platform.logical_dimensions(), platform.whole()):
            shape = platform.shape(logical)
            before = size_before = 0
            for size in SIZES if logical.size > 1 else ():
                what = f"the time of an {collective} of {size} bytes on {shape.ranks} ranks in {shape.nodes} nodes"
                time = network.collective_ps(collective, size, shape)
                asked.append((what, collective, size, shape, time))
                if time is None:
                    continue
                took = picoseconds(time, what)
                require(took >= before, f"{what} is {took} ps, and that of {size_before} bytes {before} ps; expected no less for more")
                before, size_before = took, size
    for what, collective, size, shape, time in reversed(asked):
        again = network.collective_ps(collective, size, shape)
        require(again == time, f"{what} is {time} ps, and when asked for again {again} ps")


def check_runs_are_alike(network: EventNetwork) -> None:
    """Raise AssertionError unless a network that begins again gives the same answers, and its function table too."""
    sent = batches(network.platform)
    network.begin()
    first = deliver(network, sent)
    network.begin()
    _compare(sent, first, deliver(network, sent), "in a second run")
    network.begin()
    table = network.function_table()
    if table is not None:
        _compare(sent, first, deliver(TableDeliveries(network, FunctionTable(table)), sent), "by its function table")


def _compare(sent: Sequence[Batch], first: dict[int, int], other: dict[int, int], how: str) -> None:
    for batch in sent:
        for message in batch.messages:
            times = first[message.number], other[message.number]
            require(times[0] == times[1], f"{_name(batch.time, message)} arrived at {times[0]} ps, and {how} at {times[1]} ps")
