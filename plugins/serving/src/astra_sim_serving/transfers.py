"""Transfers of keys and values from instances for prompts to those for answers.

By a formula each takes a time of its own, and those of a sender follow each other (`TransfersInTurn`). On a network on which messages wait
for each other all that are under way share the links of the platform (`SharedTransfers`).
"""

from __future__ import annotations

import abc
import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from astra_sim import PluginError
from astra_sim.errors import AstraError, located
from astra_sim.network import EventNetwork, Message, advance, inject, not_under_way
from astra_sim.providers import call
from astra_sim.units import picoseconds

from astra_sim_serving.collectives import message_ends
from astra_sim_serving.instance import ServingInstance

_PS_PER_S = 10**12


@attrs.frozen
class PromptBytes:
    """Bytes that are left to be sent when a prompt has ended: `exposed`, a share of all, and those of a token in all, by pool."""

    exposed: Sequence[float]
    per_token: Sequence[float]

    def __call__(self, sender: ServingInstance, tokens: int) -> float:
        """The bytes of a prompt of an instance."""
        return self.exposed[sender.pool] * tokens * self.per_token[sender.pool]


@attrs.define(eq=False)
class Transfers(abc.ABC):
    """Transfers, which begin with `latency_s`. `total_s` and `count` are of those that are timed."""

    latency_s: float
    bytes_of: PromptBytes
    total_s: float = attrs.field(default=0.0, init=False)
    count: int = attrs.field(default=0, init=False)

    @abc.abstractmethod
    def begin(self, now: float, sender: ServingInstance, receiver: ServingInstance, tokens: int, what: Any) -> float | None:
        """Take a transfer that is ready to begin now. Returns when it ends; None: `SharedTransfers.advance` will tell, by `what`."""


@attrs.define(eq=False)
class TransfersInTurn(Transfers):
    """Transfers one after another for each instance that sends, at `bytes_per_s`, or in `seconds_of` if that is 0."""

    bytes_per_s: float
    seconds_of: Callable[[ServingInstance, ServingInstance, float], float]
    free_at: dict[int, float] = attrs.field(factory=dict, init=False)

    def begin(self, now: float, sender: ServingInstance, receiver: ServingInstance, tokens: int, what: Any) -> float:
        """When a transfer ends that is ready to begin now."""
        size = self.bytes_of(sender, tokens)
        duration = self.latency_s + (size / self.bytes_per_s if self.bytes_per_s else self.seconds_of(sender, receiver, size))
        start = max(now, self.free_at.get(sender.number, 0.0))
        self.free_at[sender.number] = start + duration
        self.total_s += duration
        self.count += 1
        return start + duration


@attrs.define(eq=False)
class _KvTransfer:
    """A transfer: its sender, messages by their NPUs, the bytes of each, and how many are left."""

    sender: int
    ends: list[tuple[int, int]]
    bytes: int
    what: Any
    start: float = 0.0
    left: int = 0


@attrs.define(eq=False)
class SharedTransfers(Transfers):
    """Transfers whose messages are on one network at the same time, of traffic class `traffic_class`.

    Those of a sender begin when they are ready; `in_order`: when the one before has ended. `report` is called with the seconds that a
    network has reached which simulates for long between two arrivals. Errors in the messages begin with `where`.
    """

    network: EventNetwork
    in_order: bool
    where: str
    traffic_class: int = -1
    report: Callable[[float], None] | None = None
    _queues: dict[int, deque[_KvTransfer]] = attrs.field(factory=dict, init=False)
    _later: list[tuple[int, int, _KvTransfer]] = attrs.field(factory=list, init=False)
    _under_way: dict[int, _KvTransfer] = attrs.field(factory=dict, init=False)
    _unconfirmed: dict[int, _KvTransfer] = attrs.field(factory=dict, init=False)
    _reached_ps: int = attrs.field(default=0, init=False)
    _messages: int = attrs.field(default=0, init=False)
    _begun: int = attrs.field(default=0, init=False)
    _raised: BaseException | None = attrs.field(default=None, init=False)

    @property
    def is_under_way(self) -> bool:
        """Whether a transfer has begun and not ended."""
        return bool(self._later or self._under_way or self._unconfirmed)

    def begin(self, now: float, sender: ServingInstance, receiver: ServingInstance, tokens: int, what: Any) -> None:
        """Take a transfer that is ready to begin now."""
        ends = message_ends(sender.npus, receiver.npus)
        transfer = _KvTransfer(sender.number, ends, -(-round(self.bytes_of(sender, tokens)) // len(ends)), what)
        if self.in_order:
            queue = self._queues.setdefault(sender.number, deque())
            queue.append(transfer)
            if len(queue) > 1:
                return
        self._start(transfer, now)

    def _start(self, transfer: _KvTransfer, now: float) -> None:
        """Let the messages of a transfer be sent after its latency. Raises InputError if that is too late."""
        transfer.start = now
        at = picoseconds((now + self.latency_s) * _PS_PER_S, f"{self.where}: the start of a transfer")
        heapq.heappush(self._later, (max(at, self._reached_ps), self._begun, transfer))
        self._begun += 1

    def advance(self, until: float | None) -> tuple[float, list[Any]]:
        """The next moment at which transfers end, and `what` they were begun with: nothing if none ends by `until` (None: the end).

        Raises the errors of the network, and those of `report`.
        """
        try:
            return self._advance(None if until is None else math.floor(until * _PS_PER_S))
        except AstraError as error:
            if self._raised is not None:  # for which the network is not to blame
                raise self._raised from None
            raise located(error, self.where) from None

    def _advance(self, until: int | None) -> tuple[float, list[Any]]:
        """The same by picoseconds: deliveries of the network, and messages that are sent, in order of time, until a transfer ends."""
        while self.is_under_way:
            begins = self._later[0][0] if self._later else None
            begins_first = begins is not None and (until is None or begins <= until)
            delivery = self._next_delivery(begins - 1 if begins_first and begins is not None else until)
            if delivery is not None:
                at, ended = self._take(*delivery)
                if ended:
                    return at, ended
            elif begins_first:
                self._send()
            elif until is None:
                numbers = sorted((*self._under_way, *self._unconfirmed))
                what = f"network {type(self.network).__name__}: it has nothing under way"
                raise PluginError(f"{what}, and messages {numbers[:5]} of transfers have not ended: they never would")
            else:
                break
        return 0.0, []

    def _next_delivery(self, until: int | None) -> tuple[int, Sequence[int], Sequence[int]] | None:
        """The next delivery of the network by `until`."""
        if not (self._under_way or self._unconfirmed) or (until is not None and until < self._reached_ps):
            return None
        return advance(self.network, self._reached_ps, until)

    def _send(self) -> None:
        """Hand over the messages of the transfers that are to be sent next."""
        at = self._reached_ps = self._later[0][0]
        if not self._messages:
            self._open()
        messages = []
        while self._later and self._later[0][0] == at:
            _, flow, transfer = heapq.heappop(self._later)
            transfer.left = len(transfer.ends)
            for source, destination in transfer.ends:
                self._messages += 1
                self._under_way[self._messages] = transfer
                messages.append(Message(self._messages, source, destination, transfer.bytes, -1, flow + 1, self.traffic_class))
        inject(self.network, at, messages)

    def _open(self) -> None:
        """Begin the only run of the network, and let it report its progress."""
        what = f"network {type(self.network).__name__}"
        call(f"{what}: begin", self.network.begin)
        if self.report is not None:
            call(f"{what}: on_progress", self.network.on_progress, self._tell)

    def _tell(self, ps: int) -> None:
        assert self.report is not None
        try:
            self.report(ps / _PS_PER_S)
        except BaseException as error:
            self._raised = error
            raise

    def _take(self, at: int, arrived: Sequence[int], completed: Sequence[int]) -> tuple[float, list[Any]]:
        """Take a delivery. Returns its time, and `what` the transfers that end with it were begun with.

        A message ends when it has arrived, on networks that report completion when its sender knows that.
        """
        self._reached_ps, waits = at, self.network.reports_completion
        ended: list[_KvTransfer] = []
        for number in arrived:
            transfer = self._under_way.pop(number, None)
            if transfer is None:
                raise not_under_way(self.network, number)
            if waits:
                self._unconfirmed[number] = transfer
            else:
                self._count(transfer, ended)
        for number in completed:
            transfer = self._unconfirmed.pop(number, None)
            if transfer is None:
                raise not_under_way(self.network, number)
            self._count(transfer, ended)
        now = at / _PS_PER_S
        for transfer in ended:
            self._end(transfer, now)
        return now, [transfer.what for transfer in ended]

    def _count(self, transfer: _KvTransfer, ended: list[_KvTransfer]) -> None:
        """A message of a transfer has ended, and with the last one the transfer."""
        transfer.left -= 1
        if not transfer.left:
            ended.append(transfer)

    def _end(self, transfer: _KvTransfer, now: float) -> None:
        self.total_s += now - transfer.start
        self.count += 1
        if self.in_order:
            queue = self._queues[transfer.sender]
            queue.popleft()
            if queue:
                self._start(queue[0], now)
