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
from typing import NamedTuple

import attrs
from astra_sim import PluginError
from astra_sim.errors import AstraError, located
from astra_sim.network import EventNetwork, Message, advance, inject, not_under_way
from astra_sim.providers import call
from astra_sim.units import picoseconds

from astra_sim_serving.collectives import message_ends
from astra_sim_serving.instance import ServingInstance
from astra_sim_serving.request import Sequence as RequestSequence

_PS_PER_S = 10**12


class PromptChunk(NamedTuple):
    """Tokens of a prompt that an iteration computes between two moments, and with them keys and values that have not been sent."""

    begin: float
    end: float
    tokens: int


@attrs.define(eq=False)
class TransferPath:
    """The instances between which keys and values of a request go, which has that number."""

    number: int
    sender: ServingInstance
    receiver: ServingInstance


@attrs.define(eq=False)
class HandedOver(TransferPath):
    """A sequence that goes from an instance to another, which has its blocks for it, those of `claim`, when it is granted.

    `chunks` were computed before that, `seen` tokens are in some chunk. `is_computed`: the prompt has ended.
    """

    sequence: RequestSequence
    claim: RequestSequence
    is_granted: bool = False
    is_computed: bool = False
    chunks: list[PromptChunk] = attrs.field(factory=list)
    seen: int = 0


@attrs.frozen
class PromptBytes:
    """Bytes of keys and values of a token in all layers, and how many parts of them are sent one by one (1: all at once), by pool."""

    per_token: Sequence[float]
    layers: Sequence[int]

    @property
    def by_layer(self) -> bool:
        """Whether the layers of a prompt are sent one by one."""
        return max(self.layers) > 1

    def of(self, sender: ServingInstance, tokens: int) -> float:
        """Bytes of tokens of a prompt of an instance."""
        return tokens * self.per_token[sender.pool]

    def ready(self, chunk: PromptChunk, layer: int, layers: int) -> float:
        """When a layer of a chunk has been computed, of which all take equally long."""
        return chunk.begin + (chunk.end - chunk.begin) * layer / layers


@attrs.define(eq=False)
class Transfers(abc.ABC):
    """Transfers, each with a latency of `latency_s`. `total_s` and `count` are of those that are timed, from the end of the prompt on.

    Layers that are sent one by one leave when they have been computed, and the latency is beside the computation of the next ones.
    """

    latency_s: float
    bytes_of: PromptBytes
    total_s: float = attrs.field(default=0.0, init=False)
    count: int = attrs.field(default=0, init=False)

    @abc.abstractmethod
    def stream(self, now: float, parts: Sequence[tuple[TransferPath, PromptChunk]]) -> None:
        """Send the layers of chunks of a sender, each as it is ready; in a layer in the order of the chunks."""

    @abc.abstractmethod
    def close(self, now: float, route: TransferPath, tokens: int) -> float | None:
        """Take the transfer of a prompt of `tokens` tokens that has ended: if layers are sent one by one, all are
        under way; else it is ready to begin now.

        Returns when it ends; None: `SharedTransfers.advance` will tell.
        """


@attrs.define(eq=False)
class TransfersInTurn(Transfers):
    """Transfers one after another for each instance that sends, at `bytes_per_s`, or in `seconds_of` if that is 0."""

    bytes_per_s: float
    seconds_of: Callable[[ServingInstance, ServingInstance, float], float]
    free_at: dict[int, float] = attrs.field(factory=dict, init=False)
    _sent_at: dict[int, float] = attrs.field(factory=dict, init=False)

    def _seconds(self, route: TransferPath, size: float) -> float:
        return size / self.bytes_per_s if self.bytes_per_s else self.seconds_of(route.sender, route.receiver, size)

    def stream(self, now: float, parts: Sequence[tuple[TransferPath, PromptChunk]]) -> None:
        """Send the layers of chunks of a sender."""
        if not parts:
            return
        sender = parts[0][0].sender
        layers = self.bytes_of.layers[sender.pool]
        free_at = self.free_at.get(sender.number, 0.0)
        timed = [(route, chunk, self._seconds(route, self.bytes_of.of(sender, chunk.tokens) / layers)) for route, chunk in parts]
        for layer in range(1, layers + 1):
            for route, chunk, seconds in timed:
                free_at = max(now, self.bytes_of.ready(chunk, layer, layers), free_at) + seconds
                self._sent_at[route.number] = free_at
        self.free_at[sender.number] = free_at

    def close(self, now: float, route: TransferPath, tokens: int) -> float:
        """When a transfer ends."""
        self.count += 1
        if self.bytes_of.layers[route.sender.pool] > 1:
            end = max(now, self._sent_at.pop(route.number)) + self.latency_s
            self.total_s += end - now
            return end
        duration = self.latency_s + self._seconds(route, self.bytes_of.of(route.sender, tokens))
        start = max(now, self.free_at.get(route.sender.number, 0.0))
        self.free_at[route.sender.number] = start + duration
        self.total_s += duration
        return start + duration


@attrs.define(eq=False)
class _KvTransfer:
    """A transfer: its messages by their NPUs, its flow, when it began, pieces that have not ended, and whether more may come."""

    what: TransferPath
    ends: list[tuple[int, int]]
    flow: int = 0
    start: float = -1.0
    left: int = 0
    is_open: bool = True


@attrs.define(eq=False)
class _TransferPiece:
    """Bytes of each message of a transfer that are sent together, from `ready` on; `left` messages have not ended."""

    transfer: _KvTransfer
    bytes: int
    ready: float
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
    _transfers: dict[int, _KvTransfer] = attrs.field(factory=dict, init=False)
    _queues: dict[int, deque[_TransferPiece]] = attrs.field(factory=dict, init=False)
    _later: list[tuple[int, int, _TransferPiece]] = attrs.field(factory=list, init=False)
    _under_way: dict[int, _TransferPiece] = attrs.field(factory=dict, init=False)
    _unconfirmed: dict[int, _TransferPiece] = attrs.field(factory=dict, init=False)
    _reached_ps: int = attrs.field(default=0, init=False)
    _messages: int = attrs.field(default=0, init=False)
    _begun: int = attrs.field(default=0, init=False)
    _raised: BaseException | None = attrs.field(default=None, init=False)

    @property
    def is_under_way(self) -> bool:
        """Whether a transfer has begun and not ended."""
        return bool(self._later or self._under_way or self._unconfirmed)

    def stream(self, now: float, parts: Sequence[tuple[TransferPath, PromptChunk]]) -> None:
        """Send the layers of chunks of a sender."""
        for layer in range(1, max((self.bytes_of.layers[route.sender.pool] for route, _ in parts), default=0) + 1):
            for route, chunk in parts:
                layers = self.bytes_of.layers[route.sender.pool]
                size = self.bytes_of.of(route.sender, chunk.tokens) / layers
                self._add(now, self._transfer(route), size, self.bytes_of.ready(chunk, layer, layers) + self.latency_s)

    def close(self, now: float, route: TransferPath, tokens: int) -> float | None:
        """Take a transfer whose prompt has ended."""
        transfer = self._transfer(route)
        transfer.is_open = False
        del self._transfers[route.number]
        if self.bytes_of.layers[route.sender.pool] == 1:
            self._add(now, transfer, self.bytes_of.of(route.sender, tokens))
            return None
        transfer.start = now
        if transfer.left:
            return None
        self.count += 1
        return now

    def _transfer(self, route: TransferPath) -> _KvTransfer:
        """The transfer of a sequence; the first time a new one, also if the sequence is computed again."""
        number = route.number
        transfer = self._transfers.get(number)
        if transfer is None or transfer.what is not route:
            transfer = self._transfers[number] = _KvTransfer(route, message_ends(route.sender.npus, route.receiver.npus))
        return transfer

    def _add(self, now: float, transfer: _KvTransfer, size: float, ready: float = -1.0) -> None:
        """Take bytes that are ready to be sent: at a moment, or when the latency has passed after their turn has come."""
        piece = _TransferPiece(transfer, -(-round(size) // len(transfer.ends)), ready)
        transfer.left += 1
        if self.in_order:
            queue = self._queues.setdefault(transfer.what.sender.number, deque())
            queue.append(piece)
            if len(queue) > 1:
                return
        self._start(piece, now)

    def _start(self, piece: _TransferPiece, now: float) -> None:
        """Let the messages of a piece be sent when they are ready. Raises InputError if that is too late."""
        if piece.ready < 0:
            piece.transfer.start, piece.ready = now, now + self.latency_s
        at = picoseconds(max(now, piece.ready) * _PS_PER_S, f"{self.where}: the start of a transfer")
        heapq.heappush(self._later, (max(at, self._reached_ps), self._begun, piece))
        self._begun += 1
        piece.transfer.flow = piece.transfer.flow or self._begun

    def advance(self, until: float | None) -> tuple[float, list[TransferPath]]:
        """The next moment at which transfers end, and their sequences: nothing if none ends by `until` (None: the end).

        Raises the errors of the network, and those of `report`.
        """
        try:
            return self._advance(None if until is None else math.floor(until * _PS_PER_S))
        except AstraError as error:
            if self._raised is not None:  # for which the network is not to blame
                raise self._raised from None
            raise located(error, self.where) from None

    def _advance(self, until: int | None) -> tuple[float, list[TransferPath]]:
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
            _, _, piece = heapq.heappop(self._later)
            transfer = piece.transfer
            piece.left = len(transfer.ends)
            for source, destination in transfer.ends:
                self._messages += 1
                self._under_way[self._messages] = piece
                messages.append(Message(self._messages, source, destination, piece.bytes, -1, transfer.flow, self.traffic_class))
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

    def _take(self, at: int, arrived: Sequence[int], completed: Sequence[int]) -> tuple[float, list[TransferPath]]:
        """Take a delivery. Returns its time, and the sequences whose transfers end with it.

        A message ends when it has arrived, on networks that report completion when its sender knows that.
        """
        self._reached_ps, waits = at, self.network.reports_completion
        ended: list[_TransferPiece] = []
        for number in arrived:
            piece = self._under_way.pop(number, None)
            if piece is None:
                raise not_under_way(self.network, number)
            if waits:
                self._unconfirmed[number] = piece
            else:
                self._count(piece, ended)
        for number in completed:
            piece = self._unconfirmed.pop(number, None)
            if piece is None:
                raise not_under_way(self.network, number)
            self._count(piece, ended)
        now = at / _PS_PER_S
        return now, [piece.transfer.what for piece in ended if self._end(piece, now)]

    def _count(self, piece: _TransferPiece, ended: list[_TransferPiece]) -> None:
        """A message of a piece has ended, and with the last one the piece."""
        piece.left -= 1
        if not piece.left:
            ended.append(piece)

    def _end(self, piece: _TransferPiece, now: float) -> bool:
        """Let the next piece of a sender begin, if one waits for this one. Returns whether its transfer has ended."""
        transfer = piece.transfer
        transfer.left -= 1
        if self.in_order:
            queue = self._queues[transfer.what.sender.number]
            queue.popleft()
            if queue:
                self._start(queue[0], now)
        if transfer.left or transfer.is_open:
            return False
        self.total_s += now - transfer.start
        self.count += 1
        return True
