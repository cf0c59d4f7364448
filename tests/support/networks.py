"""Networks in plain Python, as a third-party package could bring them."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

import attrs
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork
from astra_sim.schedule import Peer
from astra_sim_devkit.testing.engine_graphs import OneWire, Replayed
from astra_sim_network_analytical.topologies import Ring

__all__ = ["Later", "Lossy", "OneWire", "Overtaking", "PicosecondHops", "Replayed", "ScatteredRing"]


@attrs.frozen
class ScatteredRing(Ring):
    """A ring on which the next NPU of each is another number of hops away, up to 2 ** `bits`, as `seed` has it."""

    bits: int = 1
    seed: int = 0

    def hops(self, source: int, destination: int) -> int:
        draw = random.Random(f"{self.seed} {source}")
        return 1 + draw.getrandbits(draw.randint(1, self.bits))

    def is_symmetric(self, peer: Peer) -> bool:
        return False


class PicosecondHops(RouteDelayNetwork):
    """Messages take a picosecond for each hop."""

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        return hops


class Overtaking(Replayed):
    """Messages take from 1 ps to 100 us more, whatever came before them: many overtake each other, some by thousands of messages."""

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        for message in messages:
            delay = self._inner.message_delay(message.source, message.destination, message.bytes)
            longer = message.number * 2654435761 % 100_000_007 if message.number % 50 == 0 else message.number * 40503 % 5003
            heapq.heappush(self._heap, (time + delay + 1 + longer, message.number))


class Lossy(Replayed):
    """Loses one message."""

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        super().inject(time, [message for message in messages if message.number != 6])


class Later(EventNetwork):
    """Delivers every message a number of picoseconds after it was sent, whatever its bytes."""

    delay_ps = 1

    def begin(self) -> int:
        self._under_way: list[tuple[int, int]] = []
        return 0

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        self._under_way += [(time + self.delay_ps, Message(*message).number) for message in messages]

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        if not self._under_way or (until is not None and self._under_way[0][0] > until):
            return None
        time = self._under_way[0][0]
        arrived = [number for at, number in self._under_way if at == time]
        self._under_way = self._under_way[len(arrived) :]
        return time, arrived
