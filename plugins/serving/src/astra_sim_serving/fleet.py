"""A fleet of replicas: arrivals, routing and the order of events in time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

import attrs
from astra_sim import PluginError

from astra_sim_serving.autoscale import Autoscaler, ScaledUnit
from astra_sim_serving.instance import ServingInstance
from astra_sim_serving.replica import Replica
from astra_sim_serving.request import Sequence as RequestSequence
from astra_sim_serving.request import ServingRequest, sequence_of
from astra_sim_serving.routers import Router
from astra_sim_serving.shared_links import ServingLinks
from astra_sim_serving.transfers import HandedOver, PromptChunk, TransferPath, Transfers


class FleetEvent(IntEnum):
    """Kinds of events, in the order in which those of one instant happen."""

    ARRIVE = 0
    ENQUEUE = 1
    END = 2
    TRANSFERRED = 3
    LOADED = 4
    BEGIN = 5
    STARTED = 6
    SCALE = 7


@attrs.define
class EventQueue:
    """Events in order of time, kind and coming."""

    heap: list[tuple[float, FleetEvent, int, Any]] = attrs.field(factory=list)
    count: int = 0

    def push(self, at: float, kind: FleetEvent, what: Any) -> None:
        """Let something happen."""
        self.count += 1
        heapq.heappush(self.heap, (at, kind, self.count, what))

    @property
    def is_going_on(self) -> bool:
        """Whether anything is to happen but starts and stops of instances."""
        return any(kind < FleetEvent.STARTED for _, kind, _, _ in self.heap)


@attrs.define(eq=False)
class HandOver:
    """Sequences on their way from instances for prompts to those for answers, `under_way`, by the number of the request.

    `incoming` wait for blocks, by the number of the receiver.
    """

    transfers: Transfers
    route: Router
    under_way: dict[int, HandedOver] = attrs.field(factory=dict)
    incoming: dict[int, deque[HandedOver]] = attrs.field(factory=dict)


@attrs.define(eq=False)
class ServingFleet:
    """Replicas and their events.

    `arrivals` gives requests in order of arrival. `concurrency`: this many are in the system, and the next arrives when one ends; else they
    arrive at their times. `hand_over`: some instances compute prompts alone, and others take the sequences over. `models` has the model of
    each pool by its number, if there are several: its instances take requests for that alone. `links`: those that transfers
    and iterations share.
    """

    replicas: Sequence[Replica]
    route: Router
    arrivals: Iterator[ServingRequest]
    concurrency: int | None = None
    front_end_s: float = 0.0
    queue_limit: int | None = None
    max_model_tokens: int | None = None
    hand_over: HandOver | None = None
    links: ServingLinks | None = None
    scaler: Autoscaler | None = None
    on_progress: Callable[[float, int], None] | None = None
    timeline: Callable[[ServingInstance, float], None] | None = None
    models: Mapping[int, str] = attrs.field(factory=dict)
    now: float = 0.0
    events: int = 0
    sequences: list[RequestSequence] = attrs.field(factory=list)
    _queue: EventQueue = attrs.field(factory=EventQueue)
    instances: list[ServingInstance] = attrs.field(factory=list, init=False)
    _replica_of: dict[int, Replica] = attrs.field(factory=dict)
    _takers: dict[tuple[str, bool], list[ServingInstance]] = attrs.field(factory=dict)

    def run(self) -> None:
        """Let everything happen, until all requests have ended."""
        self.instances = [each for replica in self.replicas for each in replica.instances]
        self._replica_of = {each.number: replica for replica in self.replicas for each in replica.instances}
        for each in self.instances:
            each.scheduler.receives = each.role == "decode" or each.scheduler.cache.tiers is not None
            each.scheduler.sends = each.role == "prefill"
        if self.scaler is not None:
            self.scaler.begin()
            self._queue.push(self.scaler.options.period_s, FleetEvent.SCALE, None)
        self._open()
        for _ in range(self.concurrency or 1):
            self._next_arrival()
        try:
            self._run()
        finally:
            if self.links is not None:
                self.links.close()
        for each in self.instances:
            if each.requests:
                numbers = [one.request.index for one in (*each.scheduler.running, *each.scheduler.waiting)]
                raise PluginError(f"instance {each.number} plans nothing, and requests {numbers[:5]} are there: they would never end")

    def _run(self) -> None:
        """Handle all events."""
        for now, kind, _, what in self._events():
            self.now = now
            self.events += 1
            if kind == FleetEvent.END:
                self._end(*what)
            elif kind == FleetEvent.BEGIN:
                self._begin(what)
            elif kind == FleetEvent.ARRIVE:
                self._arrive(what)
            elif kind == FleetEvent.ENQUEUE:
                self._enqueue(what)
            elif kind == FleetEvent.TRANSFERRED:
                self._transferred(what)
            elif kind == FleetEvent.LOADED:
                self._loaded(*what)
            else:
                self._scale(what)
            if self.on_progress is not None and not self.events & 0xFFF:
                self.on_progress(self.now, self.events)

    def sequences_of(self, model: str) -> list[RequestSequence]:
        """The requests of a model."""
        return [each for each in self.sequences if each.request.model == model]

    def _events(self) -> Iterator[tuple[float, FleetEvent, int, Any]]:
        """All events in order. The network that transfers and iterations share goes on up to the next one that may begin others."""
        heap, links, on_progress = self._queue.heap, self.links, self.on_progress
        if links is not None and on_progress is not None:
            links.report = lambda at: on_progress(at, self.events)
        while heap or (links is not None and links.is_under_way):
            if links is not None and links.is_under_way:
                ended_at, ended = links.advance(heap[0][0] if self._queue.is_going_on else None)
                for what in ended:
                    at = max(self.now, ended_at)
                    if isinstance(what, Replica):
                        self._queue.push(at, FleetEvent.END, (what, what.stamp))
                    else:
                        self._queue.push(at, FleetEvent.TRANSFERRED, what)
            yield heapq.heappop(heap)

    def _open(self) -> None:
        """List the instances to which requests may go, by model and whether they take sequences over: those that run."""
        self._takers = {}
        for each in self.instances if self.scaler is None else self.scaler.takers:
            self._takers.setdefault((self.models.get(each.pool, ""), each.role == "decode"), []).append(each)

    def _scale(self, started: ScaledUnit | None) -> None:
        """Let an instance that has started take requests; or decide how many are to run, while something else is to happen."""
        assert self.scaler is not None
        if started is not None:
            self.scaler.started(started, self.now)
        elif self._queue.is_going_on:
            self.scaler.release(self.now)
            for unit in self.scaler.step(self.now):
                self._queue.push(self.now + self.scaler.options.cold_start_s, FleetEvent.STARTED, unit)
            self._queue.push(self.now + self.scaler.options.period_s, FleetEvent.SCALE, None)
        self._open()

    def _next_arrival(self) -> None:
        request = next(self.arrivals, None)
        if request is not None:
            if self.concurrency is not None:
                request = attrs.evolve(request, arrival=self.now)
            self._queue.push(request.arrival, FleetEvent.ARRIVE, request)

    def _arrive(self, request: ServingRequest) -> None:
        sequence = sequence_of(request)
        self.sequences.append(sequence)
        if self.concurrency is None:
            self._next_arrival()
        if self.front_end_s:
            self._queue.push(self.now + self.front_end_s, FleetEvent.ENQUEUE, sequence)
        else:
            self._enqueue(sequence)

    def _enqueue(self, sequence: RequestSequence) -> None:
        """Give a request to the instance that the router chooses, or shed it."""
        request = sequence.request
        instance = self.route(request, self._takers[request.model, False])
        sequence.instance = instance.number
        if self.scaler is not None:
            self.scaler.pools[instance.pool].arrived += 1
        why = self._refusal(request, instance)
        if why:
            sequence.shed = why
            self._ended()
            return
        instance.add(sequence)
        self._got(instance)

    def _refusal(self, request: ServingRequest, instance: ServingInstance) -> str:
        """Why a request is shed, or nothing."""
        tokens = request.input + request.output
        cache = instance.scheduler.cache
        room = min(
            each.scheduler.cache.blocks * cache.block_tokens for each in (instance, *self._takers.get((request.model, True), ())[:1])
        )
        if request.input >= room:
            return "prompt longer than the cache"
        if tokens > room:
            return "prompt and answer longer than the cache"
        if self.max_model_tokens is not None and tokens > self.max_model_tokens:
            return "longer than max_model_tokens"
        if self.queue_limit is not None and len(instance.scheduler.waiting) >= max(1, self.queue_limit):
            return "queue full"
        return ""

    def _got(self, instance: ServingInstance) -> None:
        """Begin an iteration for a sequence that an instance has got, or let a jump end for it."""
        replica = self._replica_of[instance.number]
        if not replica.is_full:
            self._wake(replica)
        else:
            self._reschedule(replica, replica.interrupt(instance, self.now))

    def _reschedule(self, replica: Replica, end: float | None) -> None:
        """Let a jump that was cut end at another time."""
        if end is not None:
            self._queue.push(end, FleetEvent.END, (replica, replica.stamp))

    def _wake(self, replica: Replica) -> None:
        """Begin an iteration when all else has happened at this moment, or when the first stage is free."""
        if not replica.is_woken:
            replica.is_woken = True
            self._queue.push(replica.free_at(self.now), FleetEvent.BEGIN, replica)

    def _begin(self, replica: Replica) -> None:
        """Let a replica begin an iteration, if there is work, and the next one behind it in a pipeline."""
        replica.is_woken = False
        if replica.is_full:
            return
        end = replica.begin(self.now)
        for instance in replica.instances:
            if instance.scheduler.to_load:
                self._load(instance)
            if instance.role == "prefill":
                self._stream(instance, end)
        if self.timeline is not None:
            for instance in replica.instances:
                self.timeline(instance, self.now)
        if end is not None:
            if replica.launcher is None:
                self._queue.push(end, FleetEvent.END, (replica, replica.stamp))
            if not replica.is_full:
                self._wake(replica)

    def _end(self, replica: Replica, stamp: int) -> None:
        """End the iterations of a replica, unless a jump was cut since, and hand on finished requests."""
        if stamp != replica.stamp:
            return  # of a jump that was cut
        replica.end(self.now)
        for instance in replica.instances:
            for _ in instance.finished:
                self._ended()
            if self.scaler is not None:
                self.scaler.pools[instance.pool].ttfts += [self.now - each.request.arrival for each in instance.first_tokens]
            if instance.role == "prefill":
                for sequence in instance.first_tokens:
                    if not sequence.is_done:
                        self._hand_over(sequence, instance)
            elif instance.role == "decode":
                self._adopt(instance)
        self._wake(replica)

    def _ended(self) -> None:
        if self.concurrency is not None:
            self._next_arrival()

    # -- From memories behind the cache ----------------------------------------------------------------------------------------

    def _load(self, instance: ServingInstance) -> None:
        """Begin the loads that an instance has asked for."""
        scheduler = instance.scheduler
        assert scheduler.cache.tiers is not None
        for sequence, blocks in scheduler.to_load:
            end = scheduler.cache.tiers.load(self.now, blocks)
            if sequence.spent.preempted_at < 0:
                sequence.spent.load_s += end - self.now
            self._queue.push(end, FleetEvent.LOADED, (sequence, instance))
        scheduler.to_load.clear()

    def _loaded(self, sequence: RequestSequence, instance: ServingInstance) -> None:
        instance.scheduler.loaded(sequence)
        self._got(instance)

    # -- From prefill to decode instances --------------------------------------------------------------------------------------

    def _stream(self, sender: ServingInstance, end: float | None) -> None:
        """Send what an iteration computes layer by layer, if layers are sent so: to the receivers that have blocks."""
        assert self.hand_over is not None
        if not self.hand_over.transfers.bytes_of.by_layer:
            return
        for sequence in sender.gave_way:
            self._take_back(sequence)
        if end is None:
            return
        parts: list[tuple[TransferPath, PromptChunk]] = []
        for sequence, tokens in sender.under_way[-1].batch:
            if sequence.output > 1:
                way = self._way(sequence, sender)
                chunk = PromptChunk(self.now, end, sequence.computed + tokens - way.seen)
                way.seen += chunk.tokens
                if way.is_granted:
                    parts.append((way, chunk))
                else:
                    way.chunks.append(chunk)
        self.hand_over.transfers.stream(self.now, parts)

    def _way(self, sequence: RequestSequence, sender: ServingInstance) -> HandedOver:
        """A sequence on its way, the first time to the instance that is chosen then, which is asked for blocks."""
        assert self.hand_over is not None
        number = sequence.request.index
        way = self.hand_over.under_way.get(number)
        if way is None:
            receiver = self.hand_over.route(sequence.request, self._takers[sequence.request.model, True])
            claim = attrs.evolve(sequence, total=sequence.request.input + 1, blocks=[], capacity=0)
            way = self.hand_over.under_way[number] = HandedOver(number, sender, receiver, sequence, claim)
            receiver.coming += 1
            self.hand_over.incoming.setdefault(receiver.number, deque()).append(way)
            self._adopt(receiver)
        return way

    def _take_back(self, sequence: RequestSequence) -> None:
        """Forget that a sequence is on its way, which lost its blocks: another may need those that are kept for it."""
        assert self.hand_over is not None
        way = self.hand_over.under_way.pop(sequence.request.index, None)
        if way is None:
            return
        way.receiver.coming -= 1
        if way.is_granted:
            way.receiver.scheduler.cache.release(way.claim)
        else:
            self.hand_over.incoming[way.receiver.number].remove(way)
        self._adopt(way.receiver)
        self._got(way.receiver)

    def _hand_over(self, sequence: RequestSequence, sender: ServingInstance) -> None:
        """Take a sequence out of the running ones of its instance, which keeps its blocks until they are sent."""
        assert self.hand_over is not None
        sender.scheduler.running.remove(sequence)
        way = self._way(sequence, sender)
        sequence.prefill_instance, sequence.instance = sender.number, way.receiver.number
        way.is_computed = True
        if way.is_granted:
            self._close(way)

    def _adopt(self, receiver: ServingInstance) -> None:
        """Grant the blocks for which an instance has room, in the order in which they were asked for, and begin these transfers."""
        assert self.hand_over is not None
        incoming, cache = self.hand_over.incoming.get(receiver.number, deque()), receiver.scheduler.cache
        if incoming:
            replica = self._replica_of[receiver.number]
            self._reschedule(replica, replica.cut(self.now))
        while incoming and cache.blocks_for(incoming[0].claim.total) <= cache.free_blocks:
            way = incoming.popleft()
            grown = cache.grow(way.claim, way.claim.total)
            assert grown
            way.is_granted = True
            self.hand_over.transfers.stream(self.now, [(way, chunk) for chunk in way.chunks])
            if way.is_computed:
                self._close(way)

    def _close(self, way: HandedOver) -> None:
        """Wait for the end of the transfer of a prompt that has ended."""
        assert self.hand_over is not None
        end = self.hand_over.transfers.close(self.now, way, way.sequence.computed)
        if end is not None:
            self._queue.push(end, FleetEvent.TRANSFERRED, way)

    def _transferred(self, way: HandedOver) -> None:
        """Give a sequence to its receiver, and the blocks of the sender back."""
        assert self.hand_over is not None
        sequence, sender, receiver = way.sequence, way.sender, way.receiver
        del self.hand_over.under_way[sequence.request.index]
        sender.scheduler.cache.release(sequence)
        sequence.blocks, sequence.capacity = way.claim.blocks, way.claim.capacity
        sequence.spent.transfer_end = self.now
        receiver.coming -= 1
        receiver.scheduler.add(sequence)
        replica = self._replica_of[sender.number]
        if not replica.is_full:
            self._wake(replica)
        self._got(receiver)
