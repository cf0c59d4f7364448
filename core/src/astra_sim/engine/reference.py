"""The engine in readable Python. This is what simulated time means; a compiled engine must give the same answers.

Four primitives:

* A **task** starts when its `waits` have gone and ends after its delay. It is one of four kinds: `JOIN` ends at once, `TIMER` after
  its delay, `CALL` runs a function (which may add tasks) and ends at once, `PHASE` ends when a rank's schedule has finished.
* A task may lie in a **queue**: when ready it takes the place that the queue's order gives it, and starts when it is among the
  first `slots` of the queue. It leaves when it ends.
* A **message** is sent by a rank's schedule and meets a receive at its destination.
* A **barrier** makes the tasks of a phase end together, when the last rank has finished.

Time is an integer count of picoseconds. Within one instant messages arrive and endpoints make credits; what these bring about in the
same instant follows, level by level; then tasks end, and what that brings about in the same instant is another round. What
happens at one level, or in one round, does so in the order of its **trail**: the times, latest first, at which what leads to it was
scheduled. For a timer that is its start; for the end of a phase, when its last credit was scheduled, when the message that brought it was
sent, when the credit that sent it was scheduled, and so on. An earlier trail goes first, then, among tasks, whichever started first.
(ASTRA-sim keeps one list of events for every instant, which comes to the same.) So nothing depends on the order in which NPUs are
visited, nor on a hash or an address, and equal inputs give equal runs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

from astra_sim.boundary import call
from astra_sim.engine.shared_bus import BusOptions, SharedBus
from astra_sim.errors import PluginError
from astra_sim.network import EventNetwork, RouteDelayNetwork
from astra_sim.schedule import Action, LoweredProgram
from astra_sim.units import PS_PER_NS

JOIN, TIMER, CALL, PHASE = range(4)
CONTROL_BYTES = 8192
"""Size of the message with which a receiver asks for the data under the rendezvous protocol (ASTRA-sim 1.0 and 2.x)."""

_ARRIVAL, _REQUEST, _CREDIT, _CALLED = range(4)
_TASKS, _ROUND = 1 << 39, 1 << 40

Trail = tuple[int, ...]
"""Times at which what leads to an event was scheduled, latest first; as many as TRAIL_LENGTH."""

TRAIL_LENGTH = 8


class Job(NamedTuple):
    """What the order of a queue may look at: a chunk in one of its phases.

    `kind` is the phase's collective, `remaining` the number of phases after this one. Higher `priority` goes first.
    """

    priority: int
    kind: str
    bytes: int
    remaining: int


Order = Callable[[Sequence[Job], int, Job], int]
"""Where a new job goes in a queue: (jobs in the queue, how many of them have started, the new one) -> index."""


class PhaseRun:
    """One rank's part of a phase: its program, how far it is, and what it measured.

    `last_trail` is the latest trail of the credits at `credited_at`.
    """

    __slots__ = (
        "arrivals",
        "barrier",
        "credited_at",
        "credits",
        "delay_sum",
        "handled",
        "last_trail",
        "members",
        "next_action",
        "npu",
        "offers",
        "order",
        "posted_at",
        "program",
        "rank",
        "received",
        "requests",
        "slots",
        "task",
    )

    def __init__(self, npu: int, rank: int, members: Sequence[int], program: LoweredProgram, barrier: Barrier) -> None:
        self.npu = npu
        self.rank = rank
        self.members = members
        self.program = program
        self.barrier = barrier
        self.task = -1
        self.order = 0
        self.credits = 0
        self.credited_at = -1
        self.last_trail: Trail = ()
        self.arrivals = 0
        self.handled = 0
        self.next_action = 0
        self.slots = bytearray(len(program.memory_bytes))
        self.posted_at = [0] * len(program.memory_bytes)
        self.delay_sum = 0
        self.received = 0
        self.offers: dict[int, tuple[int, int, int]] = {}
        self.requests: set[int] = set()
        barrier.parts.append(self)
        barrier.by_npu[npu] = self
        barrier.open += 1

    def is_posted(self, slot: int) -> bool:
        """Whether the receive `slot` still waits for its message."""
        return self.slots[slot] == _POSTED


class Barrier:
    """The parts of one phase, which end together (`together`) or each by itself.

    `by_npu` says who receives for an NPU. `trail` is the latest of those ranks that finished last, at `ended_at`.
    """

    __slots__ = ("by_npu", "ended_at", "open", "parts", "together", "trail")

    def __init__(self, together: bool = True) -> None:
        self.parts: list[PhaseRun] = []
        self.by_npu: dict[int, PhaseRun] = {}
        self.open = 0
        self.ended_at = -1
        self.trail: tuple[int, ...] = ()
        self.together = together

    def loop_back(self, members: Sequence[int]) -> None:
        """Let the only part stand for all members: its messages come back, for what it sends to a peer is what another sends to it."""
        self.by_npu = dict.fromkeys(members, self.parts[0])


_NOT_YET, _ARRIVED, _POSTED, _DONE = range(4)


class Engine:
    """Runs tasks, queues and messages.

    `network` moves messages (None where all phases are timers), `endpoint_ps` is the time an endpoint needs for a credit,
    `memory_ps` the time it needs to reduce so many received bytes. With `rendezvous` a message waits for a request from its receiver.
    With a `bus`, endpoints share it instead of taking `endpoint_ps`.
    """

    def __init__(
        self,
        network: RouteDelayNetwork | EventNetwork | None = None,
        endpoint_ps: int = 0,
        memory_ps: Callable[[int], int] | None = None,
        rendezvous: bool = False,
        bus: BusOptions | None = None,
    ) -> None:
        self.now = 0
        self.events = 0
        self.messages = 0
        self._network = network
        self._route_delay = network.message_delay if isinstance(network, RouteDelayNetwork) else None
        self._endpoint_ps = endpoint_ps
        self._memory_ps = memory_ps or (lambda size: 0)
        self._rendezvous = rendezvous
        self._bus = bus
        self._buses: dict[int, SharedBus] = {}
        # (time, stage, (trail, kind), order, NPU that scheduled it, run or function, argument, trail): in this order things happen.
        self._heap: list[tuple[int, int, tuple[Trail, int], int, int, PhaseRun | Callable[[], None] | None, int, Trail]] = []
        self._stage = _TASKS
        self._trail: Trail = ()
        self._orders: dict[int, int] = {}
        self._task_orders: dict[int, int] = {}
        # tasks
        self.kind: list[int] = []
        self.delay: list[int] = []
        self.waits: list[int] = []
        self.queue: list[int] = []
        self.payload: list[object] = []
        self.trail: list[tuple[int, ...]] = []
        self.npu: list[int] = []
        self.successors: list[list[int]] = []
        self.ready_at: list[int] = []
        self.started_at: list[int] = []
        self.finished_at: list[int] = []
        # queues
        self._slots: list[int] = []
        self._running: list[int] = []
        self._jobs: list[list[Job]] = []
        self._entries: list[list[int]] = []
        self._place: list[Order] = []
        # messages on their way through an EventNetwork
        self._under_way: dict[int, tuple[int, int, PhaseRun, int, Trail]] = {}
        self._outbox: list[tuple[int, int, int, int]] = []

    # -- building ------------------------------------------------------------------------------------------------------

    def add_queue(self, slots: int, order: Order) -> int:
        """A queue whose first `slots` tasks run; returns its number."""
        self._slots.append(slots)
        self._running.append(0)
        self._jobs.append([])
        self._entries.append([])
        self._place.append(order)
        return len(self._slots) - 1

    def add_task(
        self,
        kind: int,
        delay: int = 0,
        waits: int = 0,
        queue: int = -1,
        payload: object = None,
        trail: tuple[int, ...] = (),
        npu: int = 0,
    ) -> int:
        """A task; returns its number. `payload` is the Job of a queued TIMER, the function of a CALL, (Job, PhaseRun) of a PHASE.

        A task without `waits` must be started with `start`. A TIMER that stands for a phase has the phase's `trail`, as offsets
        back from its end.
        """
        self.kind.append(kind)
        self.delay.append(delay)
        self.waits.append(waits)
        self.queue.append(queue)
        self.payload.append(payload)
        self.trail.append(trail)
        self.npu.append(npu)
        self.successors.append([])
        self.ready_at.append(-1)
        self.started_at.append(-1)
        self.finished_at.append(-1)
        return len(self.kind) - 1

    def precede(self, before: int, after: int) -> None:
        """Make `after` one wait longer: for the end of `before`."""
        self.successors[before].append(after)
        self.waits[after] += 1

    def start(self, task: int) -> None:
        """Make a task ready that waits for nothing."""
        stack = [task]
        while stack:
            current = stack.pop()
            self.ready_at[current] = self.now
            if self.queue[current] >= 0:
                self._enqueue(current)
                self._pump(self.queue[current])
                continue
            kind = self.kind[current]
            if kind in (TIMER, PHASE):
                self._begin(current)
                continue
            self.started_at[current] = self.now
            if kind == CALL:
                self.payload[current](self.now)  # type: ignore[operator]
            self.finished_at[current] = self.now
            for successor in reversed(self.successors[current]):
                self.waits[successor] -= 1
                if not self.waits[successor]:
                    stack.append(successor)

    def release(self, task: int) -> None:
        """Take one wait off a task, and make it ready if that was the last."""
        self.waits[task] -= 1
        if not self.waits[task]:
            self.start(task)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, until: int | None = None) -> int | None:
        """Run until nothing is left to do, or for `until` events; returns the time of the next event, None at the end."""
        heap = self._heap
        network = self._network if isinstance(self._network, EventNetwork) else None
        limit = self.events + until if until is not None else -1
        while True:
            if network is not None:
                self._exchange_with(network)
            if not heap:
                return None
            if self.events == limit:
                return heap[0][0]
            self.now, self._stage, key, _, _, run, argument, self._trail = heapq.heappop(heap)
            self.events += 1
            if run is None:
                self._finish(argument)
            elif not isinstance(run, PhaseRun):
                run()
            elif key[1] == _CREDIT:
                self._credit(run)
            elif key[1] == _ARRIVAL:
                self._arrive(run, argument)
            else:
                self._grant(run, argument)

    def unfinished(self) -> list[int]:
        """Tasks that have not ended."""
        return [task for task, time in enumerate(self.finished_at) if time < 0]

    # -- tasks and queues ----------------------------------------------------------------------------------------------

    def _begin(self, task: int) -> None:
        self.started_at[task] = self.now
        npu = self.npu[task]
        order = self._task_orders[npu] = self._task_orders.get(npu, 0) + 1
        if self.kind[task] == TIMER:
            end = self.now + self.delay[task]
            trail = self.trail[task]
            trail = tuple(end - offset for offset in trail) if trail else (self.now,)
            self._push_task(end, trail, order, npu, task)
            return
        run: PhaseRun = self.payload[task][1]  # type: ignore[index]
        run.task = task
        run.order = order
        for start in range(-run.program.starts, 0):
            self._handle(run, start)
        self._advance(run)

    def _finish(self, task: int) -> None:
        self.finished_at[task] = self.now
        queue = self.queue[task]
        if queue >= 0:
            place = self._entries[queue].index(task)
            del self._entries[queue][place]
            del self._jobs[queue][place]
            self._running[queue] -= 1
        entered = []
        for successor in self.successors[task]:
            self.waits[successor] -= 1
            if not self.waits[successor]:
                if self.queue[successor] >= 0:
                    self.ready_at[successor] = self.now
                    self._enqueue(successor)
                    entered.append(self.queue[successor])
                else:
                    self.start(successor)
        if queue >= 0:
            self._pump(queue)
        for other in entered:
            self._pump(other)

    def _enqueue(self, task: int) -> None:
        queue = self.queue[task]
        payload = self.payload[task]
        job: Job = payload if self.kind[task] == TIMER else payload[0]  # type: ignore[assignment, index]
        place = call("the order of a queue", self._place[queue], self._jobs[queue], self._running[queue], job)
        if type(place) is not int or not self._running[queue] <= place <= len(self._jobs[queue]):
            bounds = f"{self._running[queue]} to {len(self._jobs[queue])}"
            raise PluginError(f"the order of a queue gave the place {place!r}; {bounds} are right")
        self._jobs[queue].insert(place, job)
        self._entries[queue].insert(place, task)

    def _pump(self, queue: int) -> None:
        """Start the tasks that have a slot."""
        entries, slots = self._entries[queue], self._slots[queue]
        while self._running[queue] < slots and self._running[queue] < len(entries):
            self._running[queue] += 1
            self._begin(entries[self._running[queue] - 1])

    # -- messages ------------------------------------------------------------------------------------------------------

    def _push(
        self, time: int, kind: int, npu: int, run: PhaseRun | Callable[[], None], argument: int = 0, via: tuple[int, ...] = ()
    ) -> None:
        """Let something happen that `npu` schedules, now or (`via`, latest first) at times to come before it happens."""
        key = trail = self._next_trail()
        if via:
            trail = (*via, *trail)[:TRAIL_LENGTH]
            # What comes via the very instant in which it happens joins what is scheduled for that already.
            key = key if via[0] == time else trail
        self._push_event(time, kind, npu, run, argument, trail, key)

    def _next_trail(self) -> Trail:
        """The trail of what is scheduled now."""
        return (self.now, *self._trail)[:TRAIL_LENGTH]

    def _push_event(
        self, time: int, kind: int, npu: int, run: PhaseRun | Callable[[], None], argument: int, trail: Trail, key: Trail
    ) -> None:
        stage = 0
        if time == self.now:
            # A level after what happens now.
            stage = self._stage - _TASKS + _ROUND if self._stage & _TASKS else self._stage + 1
        order = self._orders[npu] = self._orders.get(npu, 0) + 1
        heapq.heappush(self._heap, (time, stage, (key, kind), order, npu, run, argument, trail))

    def _push_task(self, time: int, trail: Trail, order: int, npu: int, task: int) -> None:
        """Let a task end: in this instant, after all messages and credits, and a round after the tasks that end now."""
        stage = _TASKS
        if time == self.now:
            stage += self._stage // _ROUND * _ROUND + (_ROUND if self._stage & _TASKS else 0)
        heapq.heappush(self._heap, (time, stage, (trail, 0), order, npu, None, task, ()))

    def _credit(self, run: PhaseRun) -> None:
        """A rank has handled a message, or a start."""
        run.last_trail = max(run.last_trail, self._trail) if run.credited_at == self.now else self._trail
        run.credited_at = self.now
        run.credits += 1
        self._advance(run)

    def _advance(self, run: PhaseRun) -> None:
        """Take every step that the credits of a rank allow."""
        actions = run.program.actions
        while run.next_action < len(actions):
            action = actions[run.next_action]
            if run.credits < action.after or run.arrivals < action.after_arrivals:
                return
            run.next_action += 1
            if action.send_to is not None:
                self._send(run, action)
            if action.receive_from is not None:
                self._post(run, action)
        if run.credits == run.program.credits:
            self._finish_phase(run)

    def _send(self, run: PhaseRun, action: Action) -> None:
        destination = run.members[action.send_to.of(run.rank, len(run.members))]  # type: ignore[union-attr]
        target = run.barrier.by_npu[destination]
        if self._rendezvous and action.slot not in target.requests:
            target.offers[action.slot] = (run.npu, destination, action.bytes)
        else:
            self._transmit(run.npu, destination, action.bytes, _ARRIVAL, target, action.slot)

    def _post(self, run: PhaseRun, action: Action) -> None:
        slot = action.receive_slot
        run.posted_at[slot] = self.now
        if run.slots[slot] == _ARRIVED:
            self._receive(run, slot)
            return
        run.slots[slot] = _POSTED
        if self._rendezvous:
            sender = run.members[action.receive_from.of(run.rank, len(run.members))]  # type: ignore[union-attr]
            self._transmit(run.npu, sender, CONTROL_BYTES, _REQUEST, run, slot)

    def _grant(self, run: PhaseRun, slot: int) -> None:
        """The request for a message has reached its sender, who sends it as soon as it has it."""
        run.requests.add(slot)
        if slot in run.offers:
            self._transmit(*run.offers.pop(slot), _ARRIVAL, run, slot)

    def _transmit(self, source: int, destination: int, size: int, kind: int, run: PhaseRun, slot: int) -> None:
        """Put a message on the network; at its arrival the event `kind` happens to the receive `slot` of `run`."""
        self.messages += 1
        if self._route_delay is not None:
            self._push(self.now + self._route_delay(source, destination, size), kind, source, run, slot)
        else:
            self._outbox.append((self.messages, source, destination, size))
            self._under_way[self.messages] = (kind, source, run, slot, self._next_trail())

    def _arrive(self, run: PhaseRun, slot: int) -> None:
        run.arrivals += 1
        if run.slots[slot] == _POSTED:
            self._receive(run, slot)
        else:
            run.slots[slot] = _ARRIVED

    def _receive(self, run: PhaseRun, slot: int) -> None:
        """A message has met its receive: the endpoint makes a credit of it."""
        run.slots[slot] = _DONE
        run.delay_sum += self.now - run.posted_at[slot]
        run.received += 1
        self._handle(run, slot)

    def _handle(self, run: PhaseRun, slot: int) -> None:
        """The endpoint makes a credit of a message; of a start, where `slot` is negative."""
        size = run.program.memory_bytes[slot] if slot >= 0 else 0
        if self._bus is None:
            done = self.now + self._endpoint_ps
            if not size:
                self._push(done, _CREDIT, run.npu, run)
            else:
                # The pass through memory is scheduled when the endpoint is done.
                self._push(done + self._memory_ps(size), _CREDIT, run.npu, run, via=(done,))
            return

        def carried() -> None:
            if size:
                self._push(self.now + self._memory_ps(size), _CREDIT, run.npu, run)
            else:
                self._credit(run)

        carriage = run.program.carriages[run.handled]
        run.handled += 1
        bus = self._bus_of(run.npu)
        carry = bus.to_npu if carriage.to_npu else bus.to_memory
        carry(carriage.bytes, size > 0, carriage.returned, carried)

    def _bus_of(self, npu: int) -> SharedBus:
        assert self._bus is not None
        bus = self._buses.get(npu)
        if bus is None:

            def after(nanoseconds: int, call: Callable[[], None]) -> None:
                self._push(self.now + nanoseconds * PS_PER_NS, _CALLED, npu, call)

            bus = self._buses[npu] = SharedBus(self._bus, lambda: self.now // PS_PER_NS, after)
        return bus

    def _exchange_with(self, network: EventNetwork) -> None:
        """Hand new messages to the network, and take those that arrive before anything else happens."""
        what = f"network {type(network).__name__}"
        if self._outbox:
            call(f"{what}: inject", network.inject, self.now, self._outbox)
            self._outbox = []
        until = self._heap[0][0] if self._heap else None
        delivery = call(f"{what}: advance", network.advance, until)
        if delivery is None:
            return
        if not isinstance(delivery, tuple) or len(delivery) != 2 or not isinstance(delivery[1], (list, tuple)):
            raise PluginError(f"{what}: advance answered {delivery!r}; None, or a time and the numbers of messages, are right")
        time, numbers = delivery
        if type(time) is not int or time < self.now or (until is not None and time > until):
            raise PluginError(f"{what}: advance answered the time {time!r}; {self.now} to {until} are right")
        for number in numbers:
            message = self._under_way.pop(number, None) if isinstance(number, int) else None
            if message is None:
                raise PluginError(f"{what}: message {number!r} was delivered, which is not under way")
            kind, source, run, slot, trail = message
            self._push_event(time, kind, source, run, slot, trail, trail)

    def _finish_phase(self, run: PhaseRun) -> None:
        """A rank has finished its part of a phase."""
        trail = run.last_trail if run.credited_at == self.now else (self.now,)
        barrier = run.barrier
        barrier.open -= 1
        if not barrier.together:
            self._push_task(self.now, trail, run.order, run.npu, run.task)
            return
        barrier.trail = max(barrier.trail, trail) if barrier.ended_at == self.now else trail
        barrier.ended_at = self.now
        if not barrier.open:
            for part in barrier.parts:
                self._push_task(self.now, barrier.trail, part.order, part.npu, part.task)
