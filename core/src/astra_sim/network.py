"""What a network backend is. A backend subclasses one of the two classes here.

Messages of a `RouteDelayNetwork` never wait for each other; those of an `EventNetwork` may.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from astra_sim._boundary import call, picoseconds
from astra_sim.errors import AstraError, PluginError
from astra_sim.platform import Platform, Route


class Message(NamedTuple):
    """A message that a network is to move: its number, NPUs, bytes, and the queue of the system layer that sends it (-1: none)."""

    number: int
    source: int
    destination: int
    bytes: int
    queue: int = -1


class _OnPlatform:
    """What both kinds have: a platform, and the say which way its messages take.

    `charged_dimension` says where a message counts whose ends differ in several dimensions: in the `highest` of them or the `lowest`.
    """

    charged_dimension: Literal["highest", "lowest"] = "highest"

    def __init__(self, platform: Platform) -> None:
        self.platform = platform

    def route(self, source: int, destination: int) -> Route:
        """The route between two different NPUs. Raises InputError where they are one."""
        return self.platform.route(source, destination, self.charged_dimension == "lowest")


class RouteDelayNetwork(_OnPlatform, abc.ABC):
    """A network without contention: a message's delay depends on its route and size alone.

    Then all NPUs that do the same stay in step, and a phase of a collective takes the same time whatever else
    happens: the kernel computes it once.
    """

    def __init__(self, platform: Platform) -> None:
        super().__init__(platform)
        self._delays: dict[tuple[int, int, int], int] = {}

    @abc.abstractmethod
    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        """Picoseconds from sending a message of `size` bytes to its arrival, over `hops` hops of a dimension."""

    def delay(self, route: Route, size: int) -> int:
        """What `route_delay` says, checked and remembered. Raises PluginError if that is no time, InputError if it is too long."""
        key = (*route, size)
        delay = self._delays.get(key)
        if delay is None:
            what = f"network {type(self).__name__}: the delay of {size} bytes over {route.hops} hops of dimension {route.dimension}"
            delay = self._delays[key] = picoseconds(call(what, self.route_delay, *key), what)
        return delay

    def message_delay(self, source: int, destination: int, size: int) -> int:
        """Picoseconds a message of `size` bytes takes from one NPU to another. Raises what `route` and `delay` raise."""
        return self.delay(self.route(source, destination), size)

    def function_table(self) -> object | None:
        """A capsule with the network function table of `astra_sim/network.h`, made anew for a run, or None where there is none.

        The compiled engine uses it where one NPU does not stand for all.
        """
        return None

    def statistics(self) -> dict[str, object]:
        """Figures of the network for the result, by name with unit."""
        return {}


class EventNetwork(_OnPlatform, abc.ABC):
    """A network in which messages may wait for each other. Every NPU and every message is simulated on it.

    Where a message crosses several dimensions, it counts in one of them for the figures of dimensions; the one that it enters first is
    right (`charged_dimension`).
    """

    def begin(self) -> int:
        """A run begins, at time 0: forget those before it. Returns what to add to all moments of the answer (picoseconds)."""
        return 0

    def watch(self, tell: Callable[[int], None] | None) -> None:
        """The run that has begun is watched: `tell` may be called with the time reached (picoseconds), from within `inject` and `advance`.

        For networks that simulate for seconds between two arrivals. What `tell` raises must go out. None: it is not watched any more.
        """

    def failure(self, why: str) -> AstraError:
        """The error where the function table reports one, in its words."""
        return PluginError(f"network {type(self).__name__}: {why}")

    @abc.abstractmethod
    def inject(self, time: int, messages: Sequence[Message]) -> None:
        """Take messages that are sent at `time` (picoseconds).

        Calls come in order of time. The number of a message is the engine's; a delivery repeats it.
        """

    @abc.abstractmethod
    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        """Go on to the next instant at which messages arrive, if that is not after `until`.

        Returns that time and the numbers of the messages that arrive then, one at least, or None if none arrives by `until`. With `until`
        None there is no limit, and None then means that no message is under way.
        """

    def function_table(self) -> object | None:
        """A capsule with the network function table of `astra_sim/network.h`, made anew for a run, or None where there is none.

        The compiled engine uses it in place of `inject` and `advance`.
        """
        return None

    def statistics(self) -> dict[str, object]:
        """Figures of the network for the result, by name with unit."""
        return {}

    def reports(self) -> dict[str, str]:
        """Files for the reports of a run, by name."""
        return {}


Network = RouteDelayNetwork | EventNetwork
