"""Transfers of keys and values from instances for prompts to those for answers.

By a formula each takes a time of its own, and those of a sender follow each other (`TransfersInTurn`). On a network on which messages wait
for each other all that are under way share the links of the platform (`SharedTransfers`).
"""

from __future__ import annotations

import abc
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import attrs
from astra_sim.network import Message
from astra_sim.units import picoseconds

from astra_sim_serving.collectives import message_ends
from astra_sim_serving.instance import ServingInstance
from astra_sim_serving.request import Sequence as RequestSequence
from astra_sim_serving.shared_links import PS_PER_S, LinkUser, ServingLinks


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

        Returns when it ends; None: `ServingLinks.advance` will tell.
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
class _TransferPiece(LinkUser):
    """Bytes of each message of a transfer that are sent together, from `ready` on; `left` messages have not ended."""

    transfers: SharedTransfers
    transfer: _KvTransfer
    bytes: int
    ready: float
    left: int = 0
    what: TransferPath | None = attrs.field(default=None, init=False)
    next_wake: int | None = attrs.field(default=None, init=False)
    has_ended: bool = attrs.field(default=False, init=False)

    def wake(self, at: int) -> Sequence[Message]:
        """Send all messages."""
        ends, flow, traffic_class = self.transfer.ends, self.transfer.flow, self.transfers.traffic_class
        self.left = len(ends)
        return [Message(number, *each, self.bytes, -1, flow, traffic_class) for number, each in enumerate(ends)]

    def take(self, at: int, arrived: Sequence[int], completed: Sequence[int]) -> Sequence[Message]:
        """Count messages that have ended: those that have arrived, on networks that report completion those whose senders know that."""
        self.left -= len(completed if self.transfers.links.network.reports_completion else arrived)
        self.has_ended = not self.left
        if self.has_ended and self.transfers.end(self, at / PS_PER_S):
            self.what = self.transfer.what
        return ()


@attrs.define(eq=False)
class SharedTransfers(Transfers):
    """Transfers whose messages are on shared links at the same time, of traffic class `traffic_class`.

    Those of a sender begin when they are ready; `in_order`: when the one before has ended.
    """

    links: ServingLinks
    in_order: bool
    traffic_class: int = -1
    _transfers: dict[int, _KvTransfer] = attrs.field(factory=dict, init=False)
    _queues: dict[int, deque[_TransferPiece]] = attrs.field(factory=dict, init=False)

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
        piece = _TransferPiece(self, transfer, -(-round(size) // len(transfer.ends)), ready)
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
        at = picoseconds(max(now, piece.ready) * PS_PER_S, f"{self.links.where}: the start of a transfer")
        self.links.begin(piece, at)
        flow = self.links.new_flow()
        piece.transfer.flow = piece.transfer.flow or flow

    def end(self, piece: _TransferPiece, now: float) -> bool:
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
