"""One network on which all that is under way shares links: transfers of keys and values, and collectives of iterations.

`ServingLinks` has the network and its clock. What sends is a `LinkUser`: it is woken when it asks for that, gets what has arrived for it,
and answers with the messages that it sends then.
"""

from __future__ import annotations

import abc
import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from astra_sim import PluginError
from astra_sim.errors import AstraError, located
from astra_sim.network import EventNetwork, Message, RefiningNetwork, advance, inject, not_under_way
from astra_sim.providers import call

PS_PER_S = 10**12
Delivery = tuple[int, Sequence[int], Sequence[int]]
"""A moment (picoseconds), the messages that have arrived, and those whose senders know that."""

_BEFORE, _AFTER = 0, 1
"""A user begins before what arrives at that moment, and goes on after it."""


class LinkUser(abc.ABC):
    """Something that sends messages, which it numbers, as their flows; a flow of 0 is unknown.

    `what` is reported when it `has_ended`. `next_wake` is when it goes on if nothing arrives before (picoseconds; None: never).
    """

    what: Any = None
    next_wake: int | None = None
    has_ended: bool = False

    @abc.abstractmethod
    def wake(self, at: int) -> Sequence[Message]:
        """Begin, or go on. Returns the messages that are sent now."""

    @abc.abstractmethod
    def take(self, at: int, arrived: Sequence[int], completed: Sequence[int]) -> Sequence[Message]:
        """Take messages that have arrived, and those whose senders know that. Returns the messages that are sent now."""

    def give_up(self) -> None:  # noqa: B027
        """End, for the run of all has ended."""


class LazyUser(LinkUser):
    """A user whose end is known as long as it is alone: `alone_ps` after `start_ps`. Its messages need not be simulated then."""

    start_ps: int = 0
    alone_ps: int = 0


@attrs.define(eq=False)
class _Wake:
    """A moment at which a user is to be woken, unless it `is_void` because something has arrived for it before."""

    user: LinkUser
    is_void: bool = False


@attrs.define(eq=False)
class ServingLinks:
    """A network and what is under way on it. Errors in messages begin with `where`.

    `report` is called with the seconds that a network has reached which simulates for long between two arrivals. On a network that
    forgets what has ended a `LazyUser` that is alone ends when it would alone; if something else begins before that, the network catches
    up, which has done nothing since the lazy user began.
    """

    network: EventNetwork
    where: str
    report: Callable[[float], None] | None = None
    _wakes: list[tuple[int, int, int, _Wake]] = attrs.field(factory=list, init=False)
    _wake_of: dict[int, _Wake] = attrs.field(factory=dict, init=False)
    _live: dict[int, LinkUser] = attrs.field(factory=dict, init=False)
    _lazy: LazyUser | None = attrs.field(default=None, init=False)
    _under_way: dict[int, tuple[LinkUser, int]] = attrs.field(factory=dict, init=False)
    _unconfirmed: dict[int, tuple[LinkUser, int]] = attrs.field(factory=dict, init=False)
    _reached_ps: int = attrs.field(default=0, init=False)
    _messages: int = attrs.field(default=0, init=False)
    _order: int = attrs.field(default=0, init=False)
    _flow: int = attrs.field(default=0, init=False)
    _until: int | None = attrs.field(default=None, init=False)
    _awake: LinkUser | None = attrs.field(default=None, init=False)
    _pending_delivery: Delivery | None = attrs.field(default=None, init=False)
    _raised: BaseException | None = attrs.field(default=None, init=False)

    @property
    def is_under_way(self) -> bool:
        """Whether something has begun and not ended, or is to begin."""
        return bool(self._wake_of or self._live)

    def begin(self, user: LinkUser, at: int) -> None:
        """Let a user begin at a moment (picoseconds), or as soon after it as the network can."""
        self._wake_at(user, max(at, self._reached_ps), _BEFORE)

    def close(self) -> None:
        """Give up what is under way."""
        for user in self._live.values():
            user.give_up()
        self._live.clear()

    def advance(self, until: float | None) -> tuple[float, list[Any]]:
        """The next moment at which users end, and what they are: nothing if none ends by `until` (seconds; None: the end).

        Raises the errors of the network, and those of `report`.
        """
        try:
            return self._advance(None if until is None else math.floor(until * PS_PER_S))
        except AstraError as error:
            if self._raised is not None:  # for which the network is not to blame
                raise self._raised from None
            raise located(error, self.where) from None

    def _advance(self, until: int | None) -> tuple[float, list[Any]]:
        """The same by picoseconds: users wake, and the network delivers, in order of time."""
        self._until = until
        while self.is_under_way:
            wake = self._next_wake()
            wakes = wake is not None and (until is None or wake[0] <= until)
            delivery = self._next_delivery(wake[0] - (wake[1] == _BEFORE) if wakes and wake is not None else until)
            if delivery is not None:
                at, ended = delivery[0], self._take(*delivery)
            elif wakes and wake is not None:
                at, ended = wake[0], self._wake(*wake)
            elif until is None:
                numbers = sorted((*self._under_way, *self._unconfirmed))
                what = f"network {type(self.network).__name__}: it has nothing under way"
                raise PluginError(f"{what}, and messages {numbers[:5]} have not ended: they never would")
            else:
                break
            if ended:
                return at / PS_PER_S, ended
        return 0.0, []

    # -- Users -----------------------------------------------------------------------------------------------------------------

    def _wake_at(self, user: LinkUser, at: int, order: int) -> None:
        self._order += 1
        wake = self._wake_of[id(user)] = _Wake(user)
        heapq.heappush(self._wakes, (at, order, self._order, wake))

    def _next_wake(self) -> tuple[int, int] | None:
        """The next moment at which users are woken, and whether before what arrives then."""
        while self._wakes and self._wakes[0][3].is_void:
            heapq.heappop(self._wakes)
        return self._wakes[0][:2] if self._wakes else None

    def _wake(self, at: int, order: int) -> list[Any]:
        """Wake users. Returns what has ended."""
        users: list[LinkUser] = []
        while self._wakes and self._wakes[0][:2] == (at, order):
            wake = heapq.heappop(self._wakes)[3]
            if not wake.is_void:
                del self._wake_of[id(wake.user)]
                users.append(wake.user)
        if order == _AFTER and users == [self._lazy]:
            self._lazy = None
            return [users[0].what]
        if order == _BEFORE and self._lazy is not None:
            self._catch_up(self._lazy)
            for user in users:
                self._wake_at(user, at, _BEFORE)
            return []
        if order == _BEFORE and len(users) == 1 and not self._live and self._is_alone(users[0], at):
            return []
        if order == _BEFORE:
            self._live.update({id(user): user for user in users})
        self._awake = users[0] if len(users) == 1 else None
        return self._send(at, users, [(user, user.wake(at)) for user in users])

    def _is_alone(self, user: LinkUser, at: int) -> bool:
        """Let a user that begins, and has the network for itself, wait for its known end, if it can."""
        if not isinstance(user, LazyUser) or not self.network.forgets or isinstance(self.network, RefiningNetwork):
            return False
        self._lazy, user.start_ps = user, at
        self._wake_at(user, at + user.alone_ps, _AFTER)
        return True

    def _catch_up(self, user: LazyUser) -> None:
        """Let a user that was alone send its messages, from its beginning on."""
        self._lazy = None
        self._wake_of.pop(id(user)).is_void = True
        self._live[id(user)] = user
        self._wake_at(user, user.start_ps, _AFTER)

    def _send(self, at: int, users: Sequence[LinkUser], sent: Sequence[tuple[LinkUser, Sequence[Message]]]) -> list[Any]:
        """Hand messages of users to the network, and ask when they are to be woken. Returns what has ended."""
        self._awake = None
        self._inject(at, [self._numbered(user, message) for user, of_user in sent for message in of_user])
        ended = []
        for user in users:
            if user.has_ended:
                del self._live[id(user)]
                ended.append(user.what)
            elif user.next_wake is not None:
                self._wake_at(user, user.next_wake, _AFTER)
        return [what for what in ended if what is not None]

    @property
    def awake(self) -> LinkUser | None:
        """The user that does something now; None: none, or several."""
        return self._awake

    def may_go_on(self, until: int) -> bool:
        """Whether nothing else may happen until a moment at which the one that is awake, which has nothing under way, sends something."""
        wake = self._next_wake()
        others = bool(self._under_way or self._unconfirmed)
        return not others and (self._until is None or until <= self._until) and (wake is None or until < wake[0])

    def answer(self, user: LinkUser, now: int, sent: Sequence[Message], until: int | None) -> tuple[bool, Delivery | None]:
        """Send messages of a user that is awake, and go on until something arrives for it or `until` is reached, if nothing else happens.

        Returns whether it is so, and what arrives. It is not if others are awake, or may be before that; then nothing else is sent.
        """
        assert self._awake is user
        self._inject(now, [self._numbered(user, message) for message in sent])
        wake, most = self._next_wake(), self._until
        if wake is not None:
            most = wake[0] - 1 if most is None else min(most, wake[0] - 1)
        is_known = until is not None and (most is None or until <= most)
        delivery = self._next_delivery(until if is_known else most)
        if delivery is None:
            return is_known, None
        at, arrived, completed = delivery
        if any(self._under_way[each][0] is not user for each in arrived if each in self._under_way) or any(
            self._unconfirmed[each][0] is not user for each in completed if each in self._unconfirmed
        ):
            self._pending_delivery = delivery
            return False, None
        _, received, confirmed = next(iter(self._sorted(arrived, completed).values()))
        self._reached_ps = at
        return True, (at, received, confirmed)

    # -- Messages --------------------------------------------------------------------------------------------------------------

    def new_flow(self) -> int:
        """A number for messages that belong together."""
        self._flow += 1
        return self._flow

    def _numbered(self, user: LinkUser, message: Message) -> Message:
        """A message with its number, and that of its flow, on this network."""
        if not self._messages:
            self._open()
        self._messages += 1
        self._under_way[self._messages] = user, message.number
        return message._replace(number=self._messages)

    def _open(self) -> None:
        """Begin the only run of the network, and let it report its progress."""
        what = f"network {type(self.network).__name__}"
        call(f"{what}: begin", self.network.begin)
        if self.report is not None:
            call(f"{what}: on_progress", self.network.on_progress, self._tell)

    def _tell(self, ps: int) -> None:
        assert self.report is not None
        try:
            self.report(ps / PS_PER_S)
        except BaseException as error:
            self._raised = error
            raise

    def _inject(self, at: int, messages: Sequence[Message]) -> None:
        if messages:
            self._reached_ps = at
            inject(self.network, at, messages)

    def _next_delivery(self, until: int | None) -> Delivery | None:
        """The next delivery of the network by `until`."""
        if self._pending_delivery is not None:
            delivery, self._pending_delivery = self._pending_delivery, None
            return delivery
        if not (self._under_way or self._unconfirmed) or (until is not None and until < self._reached_ps):
            return None
        return advance(self.network, self._reached_ps, until)

    def _take(self, at: int, arrived: Sequence[int], completed: Sequence[int]) -> list[Any]:
        """Take a delivery, and let users send what they answer. Returns what has ended."""
        self._reached_ps = at
        of_user = self._sorted(arrived, completed)
        for key in of_user:
            wake = self._wake_of.pop(key, None)
            if wake is not None:
                wake.is_void = True
        users = [user for user, _, _ in of_user.values()]
        self._awake = users[0] if len(users) == 1 else None
        return self._send(at, users, [(user, user.take(at, *numbers)) for user, *numbers in of_user.values()])

    def _sorted(self, arrived: Sequence[int], completed: Sequence[int]) -> dict[int, tuple[LinkUser, list[int], list[int]]]:
        """Users with what a delivery has for each, by the numbers of each, in the order of their last messages."""
        waits = self.network.reports_completion
        of_user: dict[int, tuple[LinkUser, list[int], list[int]]] = {}
        for number in arrived:
            user, number_of_user = self._popped(self._under_way, number)
            if waits:
                self._unconfirmed[number] = user, number_of_user
            of_user[id(user)] = known = of_user.pop(id(user), (user, [], []))
            known[1].append(number_of_user)
        for number in completed:
            user, number_of_user = self._popped(self._unconfirmed, number)
            of_user[id(user)] = known = of_user.pop(id(user), (user, [], []))
            known[2].append(number_of_user)
        return of_user

    def _popped(self, messages: dict[int, tuple[LinkUser, int]], number: int) -> tuple[LinkUser, int]:
        message = messages.pop(number, None)
        if message is None:
            raise not_under_way(self.network, number)
        return message
