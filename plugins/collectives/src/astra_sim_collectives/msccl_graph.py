"""The messages of an MSCCL algorithm, and an order in which all its steps can be done."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, TypeVar

import attrs
from astra_sim import InputError

from astra_sim_collectives.msccl_xml import RECEIVING, SENDING, MscclAlgorithm


@attrs.define(eq=False, slots=True)
class MscclEvent:
    """An action of a step: a receive (with its store or reduction), a send, or a local action. `kind` is "r", "s" or "l".

    `message` is the send that a receive meets. `place` is the event's place in a possible order of all events. `needs` has a bit
    for each receive of the rank that must have happened before, the receive itself included. `step` is that of the file.
    """

    kind: str
    rank: int
    step: Any
    peer: int
    after: list[MscclEvent] = attrs.field(factory=list)
    message: MscclEvent | None = None
    time: int = 0
    needs: int = 0
    place: int = -1


E = TypeVar("E", bound=MscclEvent)


def events_in_order(algorithm: MscclAlgorithm) -> list[MscclEvent]:
    """All events, each after those it waits for (see `in_order`).

    Raises InputError if sends and receives do not match, or steps wait for each other.
    """
    events = _events(algorithm)
    _match(algorithm, events)
    ordered = in_order(events)
    if len(ordered) < len(events):
        event = next(event for event in events if event.place < 0)
        raise algorithm.error(event.step.line, f"step: gpu {event.rank} waits here for ever: steps and messages wait for each other")
    return ordered


def in_order(events: Sequence[E]) -> list[E]:
    """Events that can happen, each after those it waits for; of two that may come in either order, that to which fewer messages lead.

    Those that are left out wait for each other.
    """
    followers: dict[MscclEvent, list[E]] = defaultdict(list)
    waiting: dict[MscclEvent, int] = {}
    for event in events:
        causes = event.after if event.message is None else [*event.after, event.message]
        waiting[event] = len(causes)
        for cause in causes:
            followers[cause].append(event)
    number = {event: index for index, event in enumerate(events)}
    bits: dict[int, int] = defaultdict(int)
    ready = [(0, 0, number[event], event) for event in events if not waiting[event]]
    heapq.heapify(ready)
    ordered: list[E] = []
    while ready:
        event = heapq.heappop(ready)[-1]
        if event.kind == "r":
            event.needs |= 1 << bits[event.rank]
            bits[event.rank] += 1
        event.place = len(ordered)
        ordered.append(event)
        for follower in followers[event]:
            waiting[follower] -= 1
            follower.time = max(follower.time, event.time + (follower.message is event))
            if follower.message is not event:
                follower.needs |= event.needs
            if not waiting[follower]:
                heapq.heappush(ready, (follower.time, follower.needs.bit_count(), number[follower], follower))
    return ordered


def _events(algorithm: MscclAlgorithm) -> list[MscclEvent]:
    """The events of all steps, with the events of their rank that they wait for."""
    events = []
    for rank, blocks in sorted(algorithm.gpus.items()):
        first: dict[tuple[int, int], MscclEvent] = {}
        last: dict[tuple[int, int], MscclEvent] = {}
        for block in blocks.values():
            previous: MscclEvent | None = None
            for number, step in enumerate(block.steps):
                kinds = ("r" * (step.type in RECEIVING) + "s" * (step.type in SENDING)) or "l"
                for kind in kinds:
                    event = MscclEvent(kind, rank, step, {"r": block.receive, "s": block.send}.get(kind, -1))
                    event.after = [previous] if previous is not None else []
                    first.setdefault((block.id, number), event)
                    last[block.id, number] = previous = event
                    events.append(event)
        for block in blocks.values():
            for number, step in enumerate(block.steps):
                if step.waits_for is not None:
                    first[block.id, number].after.append(last[step.waits_for])
    return events


def _match(algorithm: MscclAlgorithm, events: list[MscclEvent]) -> None:
    """The k-th send to a rank on a channel meets the k-th receive from it on that channel."""
    channel = {id(step): block.channel for blocks in algorithm.gpus.values() for block in blocks.values() for step in block.steps}
    sends: dict[tuple[int, int, int], deque[MscclEvent]] = defaultdict(deque)
    for event in events:
        if event.kind == "s":
            sends[event.rank, event.peer, channel[id(event.step)]].append(event)
    for event in events:
        if event.kind != "r":
            continue
        key = event.peer, event.rank, channel[id(event.step)]
        if not sends[key]:
            raise _unmatched(algorithm, event, key, "receives from", "sends")
        event.message = sends[key].popleft()
        if event.message.step.count != event.step.count:
            right = f"expected {event.message.step.count}, what gpu {key[0]} sends (line {event.message.step.line})"
            raise algorithm.error(event.step.line, f"step: cnt is {event.step.count}; {right}")
    for key, left in sends.items():
        if left:
            raise _unmatched(algorithm, left[0], key, "sends to", "receives")


def _unmatched(algorithm: MscclAlgorithm, event: MscclEvent, key: tuple[int, int, int], does: str, right: str) -> InputError:
    return algorithm.error(
        event.step.line, f"step: gpu {event.rank} {does} gpu {event.peer} on channel {key[2]}, which never {right} that there"
    )
