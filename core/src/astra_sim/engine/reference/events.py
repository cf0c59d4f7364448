"""Events: the clock, the queue of events, and their order within one instant.

Time is an integer count of picoseconds. Events of one instant are ordered by their **stage**: messages arrive and endpoints
make tokens of them; their effects in the same instant follow, level by level; then tasks and phases end, and their effects
in the same instant are another round. Within a stage they are in the order of their **causal keys**: the times, latest first, at
which their predecessors were scheduled. For a timer that is its start; for the end of a phase, when its last token was scheduled, when
the message of that token was sent, when the token that sent it was scheduled, and so on. An earlier causal key goes first, then the event
that its NPU scheduled earlier. If NPUs wait for each other (on a network with contention, or at a port of memory), the event that any NPU
scheduled earlier goes first, and the tokens of an NPU happen together. Messages that a network delivers at one instant keep the order in
which it delivers them: none counts with an earlier causal key than those before it.

ASTRA-sim keeps a list of events for every instant, and one for every NPU and instant for its endpoint, which is equivalent to the
same. So without contention nothing depends on the order in which NPUs are visited, nor ever on a hash or an address, and equal inputs
give equal runs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, get_args

from astra_sim._boundary import MAX_PICOSECONDS
from astra_sim.engine.interface import CAUSAL_KEY_LENGTH, CausalKey, too_long
from astra_sim.engine.reference.causes import Causes, EventKey, Label

if TYPE_CHECKING:
    from astra_sim.engine.reference.chunks import StepRun
    from astra_sim.engine.reference.phases import Rank
    from astra_sim.engine.reference.point_to_point import Mailbox
    from astra_sim.engine.reference.tasks import TaskRun
    from astra_sim.engine.reference.transport import HandledMessage


class Stage(NamedTuple):
    """The position of an event within its instant: in a round, before or among its ends, and there at a level."""

    round: int
    ends: bool
    level: int


_MESSAGES, _ENDS = Stage(0, False, 0), Stage(0, True, 0)


class MessageArrival(NamedTuple):
    """A message of a phase has reached the rank that receives it."""

    rank: Rank
    receipt: int


class RequestArrival(NamedTuple):
    """The request for a message of a phase has reached its sender (rendezvous). `rank` and `receipt` are those that asked."""

    rank: Rank
    receipt: int


class TokenReady(NamedTuple):
    """The endpoint of a rank has handled a message, or a start."""

    rank: Rank


class BusCall(NamedTuple):
    """A shared bus has finished a transfer."""

    call: Callable[[], None]


class PointToPointArrival(NamedTuple):
    """The message of a SEND has reached its destination."""

    mailbox: Mailbox
    sender: TaskRun


class PointToPointSent(NamedTuple):
    """The sender of a SEND knows that its message has arrived."""

    sender: TaskRun


class PointToPointRequest(NamedTuple):
    """The request of a RECEIVE has reached the sender (rendezvous)."""

    mailbox: Mailbox


class Meeting(NamedTuple):
    """A receive was posted whose message already exists."""

    rank: Rank
    receipt: int


class Departure(NamedTuple):
    """The processor of its sender has sent a message."""

    message: HandledMessage


class Landing(NamedTuple):
    """A message has reached its destination, whose processor is to receive it."""

    message: HandledMessage


class Reception(NamedTuple):
    """The processor of its destination has received a message."""

    message: HandledMessage


class TaskEnd(NamedTuple):
    """A task ends."""

    task: TaskRun


class StepEnd(NamedTuple):
    """A chunk's phase step ends on an NPU."""

    step: StepRun


EventPayload = (
    MessageArrival
    | RequestArrival
    | TokenReady
    | BusCall
    | PointToPointArrival
    | PointToPointSent
    | PointToPointRequest
    | Meeting
    | Departure
    | Landing
    | Reception
    | TaskEnd
    | StepEnd
)
"""The action of an event, in the order of `_PRECEDENCE`."""

_PRECEDENCE: dict[type, int] = {kind: place for place, kind in enumerate(get_args(EventPayload))} | {TaskEnd: 0, StepEnd: 0}
"""The order of events with equal times, stages and causal keys. Ends are in a stage of their own."""


class Event(NamedTuple):
    """Something that happens. Those of a stage are in order of their fields up to `npu`, which scheduled it as its `order`-th.

    `key` is the causal key by which it is ordered, `causal_key` the one from which its effects continue.
    """

    key: CausalKey
    precedence: int
    order: int
    npu: int
    what: EventPayload
    causal_key: CausalKey


class Orders:
    """Numbers what NPUs schedule: for each by itself, or (`contended`) for all NPUs together, because there it matters who comes first."""

    def __init__(self, contended: bool) -> None:
        self.contended = contended
        self._events: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def next_event(self, npu: int) -> int:
        """Which event of an NPU the next one is."""
        whose = -1 if self.contended else npu
        order = self._events[whose] = self._events.get(whose, 0) + 1
        return order

    def next_end(self, npu: int) -> int:
        """Which of the tasks and steps that an NPU begins the next one is."""
        whose = -1 if self.contended else npu
        order = self._ends[whose] = self._ends.get(whose, 0) + 1
        return order


class Events:
    """The clock and the queue of events.

    `now`, `stage` and `causal_key` are those of the current event; `happened` counts events. `contended`: NPUs wait for each other.
    """

    def __init__(self, contended: bool) -> None:
        self.now = 0
        self.stage = _ENDS
        self.causal_key: CausalKey = ()
        self.happened = 0
        self.causes: Causes | None = None
        # The latest causal key, of events scheduled for a later time: most scheduled events share it.
        self._recent: tuple[CausalKey, CausalKey | None, int] = (), None, -1
        # Pending events, by time and stage, and a heap of these.
        self._levels: dict[tuple[int, Stage], list[Event]] = {}
        self._heap: list[tuple[int, Stage]] = []
        self._orders = Orders(contended)

    def contend(self) -> None:
        """NPUs wait for each other."""
        self._orders.contended = True

    def push(self, time: int, npu: int, what: EventPayload, via: CausalKey = ()) -> None:
        """Let something happen that `npu` schedules, now or (`via`, latest first) at times to come before it happens."""
        key = causal_key = self.next_causal_key()
        if via:
            causal_key = (*via, *causal_key)[:CAUSAL_KEY_LENGTH]
            # Events that pass through this very instant join those that are scheduled for it already.
            key = key if via[0] == time else causal_key
        self.push_with(time, npu, what, causal_key, key)

    def push_with(self, time: int, npu: int, what: EventPayload, causal_key: CausalKey, key: CausalKey) -> None:
        """Schedule an event with a causal key; in this instant, a level after the current event, or in the next round after an end."""
        if time > MAX_PICOSECONDS:
            raise too_long(self.now)
        # An effect in the same instant is a level below its cause, so causes go first whatever their keys; after an end it begins
        # another round, since ends are the last of theirs.
        stage = _MESSAGES
        if time == self.now:
            now = self.stage
            stage = Stage(now.round + 1, False, 0) if now.ends else Stage(now.round, False, now.level + 1)
        order = self._orders.next_event(npu)
        if self.causes is not None:
            self.causes.schedule(EventKey(npu, order, False), time)
        self._add(time, stage, Event(key, _PRECEDENCE[type(what)], order, npu, what, causal_key))

    def push_end(self, time: int, npu: int, what: TaskEnd | StepEnd, causal_key: CausalKey, order: int) -> None:
        """Let a task or a step end: in this instant, after all messages and tokens of its round, or a round after the current end."""
        if time > MAX_PICOSECONDS:
            raise too_long(self.now)
        # An end comes after all messages and tokens of its round, because any of them may let something else end together with it.
        stage = _ENDS if time != self.now else Stage(self.stage.round + self.stage.ends, True, 0)
        if self.causes is not None:
            self.causes.schedule(EventKey(npu, order, True), time)
        self._add(time, stage, Event(causal_key, _PRECEDENCE[type(what)], order, npu, what, ()))

    def next_causal_key(self) -> CausalKey:
        """The causal key of events that are scheduled now."""
        causal_key, of, at = self._recent
        # By identity: an equal key that is another object costs one more tuple, but comparing the times would cost every event.
        if of is not self.causal_key or at != self.now:
            causal_key = (self.now, *self.causal_key)[:CAUSAL_KEY_LENGTH]
            self._recent = causal_key, self.causal_key, self.now
        return causal_key

    def next_end_order(self, npu: int) -> int:
        """Which of the tasks and steps that an NPU begins this is."""
        return self._orders.next_end(npu)

    def next_time(self) -> int | None:
        """When something happens next; None if nothing does."""
        return self._heap[0][0] if self._heap else None

    def next_level(self) -> list[Event]:
        """Go on to the next stage and its events; if NPUs wait for each other, the tokens of each where its first one is."""
        level = self.now, self.stage = heapq.heappop(self._heap)
        # No two events of a level have the same NPU and order, so sorting never comes to compare what happens.
        events = sorted(self._levels.pop(level))
        return _merge_tokens(events) if self._orders.contended and len(events) > 1 else events

    def happens(self, event: Event) -> None:
        """Go on to an event of that stage."""
        self.causal_key = event.causal_key
        self.happened += 1

    def label(self, event: Event, label: Label) -> None:
        """The current event, if causes are kept."""
        assert self.causes is not None
        self.causes.happens(EventKey(event.npu, event.order, self.stage.ends), label)

    def _add(self, time: int, stage: Stage, event: Event) -> None:
        level = self._levels.get((time, stage))
        if level is None:
            level = self._levels[time, stage] = []
            heapq.heappush(self._heap, (time, stage))
        level.append(event)


def _merge_tokens(events: list[Event]) -> list[Event]:
    """Let the tokens of an NPU happen together, if the first of them does."""
    merged: list[list[Event]] = []
    tokens: dict[int, list[Event]] = {}
    for event in events:
        if type(event.what) is not TokenReady:
            merged.append([event])
        elif event.npu in tokens:
            tokens[event.npu].append(event)
        else:
            tokens[event.npu] = [event]
            merged.append(tokens[event.npu])
    return list(chain.from_iterable(merged))
