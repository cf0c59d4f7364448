"""Phases of collectives: the ranks that run a schedule together.

A schedule gives every rank steps, each a send and a receive. A rank counts **tokens**: its starts, and one for each message that its
endpoint has handled. It takes its next step when it has the tokens and messages for which the step waits. Its messages meet a
**receipt** of its destination: the state of a receive, which is not posted yet, posted, or done. Which receipt that is was found
before the run. When a message has met its receive, the endpoint makes a token of it, after its endpoint delay and the pass of the bytes
through memory, or when the shared bus has carried it. Under rendezvous a message waits for the request that its receive sends.

A rank has finished when it has all its tokens. A phase ends on all its NPUs when the last rank has finished, or on each by itself, or as
a barrier on those of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import attrs

from astra_sim.engine.interface import CONTROL_BYTES, BusOptions, CausalKey
from astra_sim.engine.reference.events import Events, Meeting, MessageArrival, RequestArrival, StepEnd, TokenReady
from astra_sim.engine.reference.phase_kinds import PhaseKind, PhaseKinds
from astra_sim.engine.reference.shared_bus import Buses, Carried
from astra_sim.engine.reference.transport import Transport
from astra_sim.schedule import Action, LoweredProgram

if TYPE_CHECKING:
    from astra_sim.engine.reference.chunks import StepRun

_NOT_POSTED, _ARRIVED, POSTED, _DONE = range(4)
_START = -1
"""In place of a receipt: a token that a rank has from the start."""


class Ending:
    """Ranks that end together, those of a phase or (of a barrier) of a group, and how many of them have not finished.

    `causal_key` is the latest of those that finished last, at `finished_at`.
    """

    __slots__ = ("causal_key", "finished_at", "open", "ranks")

    def __init__(self) -> None:
        self.ranks: list[Rank] = []
        self.open = 0
        self.finished_at = -1
        self.causal_key: CausalKey = ()

    def finish(self, now: int, causal_key: CausalKey) -> bool:
        """One of the ranks has finished; whether all have."""
        self.causal_key = max(self.causal_key, causal_key) if self.finished_at == now else causal_key
        self.finished_at = now
        self.open -= 1
        return not self.open


class Phase:
    """A phase that happens: the rank that receives for each NPU, and the flow of its messages."""

    __slots__ = ("by_npu", "flow", "kind")

    def __init__(self, kind: PhaseKind, flow: int) -> None:
        self.kind = kind
        self.flow = flow
        self.by_npu: dict[int, Rank] = {}


class Offer(NamedTuple):
    """A message that waits for the request of its receive."""

    source: int
    destination: int
    bytes: int


@attrs.define(eq=False, repr=False)
class Rank:
    """One rank of a phase: its program, its progress, and its measurements.

    `last_causal_key` is the latest causal key of the tokens that came at `last_token_at`; `handled` counts messages and starts that the
    bus took.
    `delay_sum` adds the time from posting a receive to its message over the `received` ones.
    """

    npu: int
    rank: int
    members: Sequence[int]
    program: LoweredProgram
    phase: Phase
    ending: Ending
    step: StepRun | None = None
    order: int = 0
    tokens: int = 0
    last_token_at: int = -1
    last_causal_key: CausalKey = ()
    handled: int = 0
    next_action: int = 0
    delay_sum: int = 0
    received: int = 0
    offers: dict[int, Offer] = attrs.field(factory=dict)
    requests: set[int] = attrs.field(factory=set)
    receipts: bytearray = attrs.field(init=False)
    posted_at: list[int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.receipts = bytearray(len(self.program.memory_bytes))
        self.posted_at = [0] * len(self.program.memory_bytes)


class Phases:
    """The phases that happen. `memory_ps`, `rendezvous` and `bus_options` are those of `ReferenceEngine`."""

    def __init__(
        self,
        events: Events,
        transport: Transport,
        kinds: PhaseKinds,
        memory_ps: Callable[[int], int],
        rendezvous: bool,
        bus_options: BusOptions | None,
    ) -> None:
        self._events = events
        self._transport = transport
        self._kinds = kinds
        self._memory_ps = memory_ps
        self._rendezvous = rendezvous
        self._buses = Buses(bus_options, events, self.on_token)

    # -- a phase begins ------------------------------------------------------------------------------------------------

    def start_phase(self, number: int) -> Phase:
        """A phase that happens now, on all its NPUs."""
        kind = self._kinds[number]
        programs, (groups, loop_back) = kind.schedule
        phase, ending = Phase(kind, self._transport.new_flow()), Ending()
        for group in groups[:1] if loop_back else groups:
            if kind.barrier:
                ending = Ending()
            for rank, npu in enumerate(group):
                phase.by_npu[npu] = member = Rank(npu, rank, group, programs[rank % len(programs)], phase, ending)
                ending.ranks.append(member)
                ending.open += 1
                # What this rank sends to any member equals what another sends to this rank, so every message comes back to it.
                if loop_back:
                    phase.by_npu = dict.fromkeys(group, member)
                    break
        return phase

    def begin(self, rank: Rank, step: StepRun, order: int) -> None:
        """A rank begins, as the `order`-th thing that its NPU does; `step` ends with it."""
        rank.step = step
        rank.order = order
        for _ in range(rank.program.starts):
            self._handle(rank, _START)
        self._advance(rank)

    # -- Events of a rank ----------------------------------------------------------------------------------------------

    def on_token(self, rank: Rank) -> None:
        """A rank has handled a message, or a start."""
        causal_key = self._events.causal_key
        # Tokens of one instant come in several levels: the end of the rank follows from the latest cause of all, not from the last token.
        rank.last_causal_key = max(rank.last_causal_key, causal_key) if rank.last_token_at == self._events.now else causal_key
        rank.last_token_at = self._events.now
        rank.tokens += 1
        self._advance(rank)

    def on_arrival(self, rank: Rank, receipt: int) -> None:
        """A message has arrived at its receipt."""
        if rank.receipts[receipt] == POSTED:
            self._receive(rank, receipt)
        else:
            rank.receipts[receipt] = _ARRIVED

    def on_meeting(self, rank: Rank, receipt: int) -> None:
        """A receive was posted whose message had arrived."""
        self._receive(rank, receipt)

    def on_request(self, rank: Rank, receipt: int) -> None:
        """The request for a message has reached its sender, who sends it as soon as it has it."""
        rank.requests.add(receipt)
        if receipt in rank.offers:
            offer = rank.offers.pop(receipt)
            self._transport.transmit(*offer, MessageArrival(rank, receipt), rank.phase.flow, rank.phase.kind.queue)

    # -- steps of a rank -----------------------------------------------------------------------------------------------

    def _advance(self, rank: Rank) -> None:
        """Take every step that the tokens of a rank allow."""
        actions = rank.program.actions
        while rank.next_action < len(actions):
            action = actions[rank.next_action]
            if rank.tokens < action.after or rank.received < action.after_arrivals:
                return
            rank.next_action += 1
            if action.send_to is not None:
                self._send(rank, action)
            if action.receive_from is not None:
                self._post(rank, action)
        if rank.tokens == rank.program.tokens:
            self._finish(rank)

    def _send(self, rank: Rank, action: Action) -> None:
        destination = rank.members[action.send_to.of(rank.rank, len(rank.members))]  # type: ignore[union-attr]
        target = rank.phase.by_npu[destination]
        if not self._rendezvous:
            arrival = MessageArrival(target, action.receipt)
            self._transport.transmit(rank.npu, destination, action.bytes, arrival, rank.phase.flow, rank.phase.kind.queue)
            return
        target.offers[action.receipt] = Offer(rank.npu, destination, action.bytes)
        if action.receipt in target.requests:
            # A request that already exists counts when it is looked for.
            self._events.push(self._events.now, rank.npu, RequestArrival(target, action.receipt))

    def _post(self, rank: Rank, action: Action) -> None:
        """Post a receive; one whose message has arrived is met at once, and with rendezvous the sender learns of it."""
        receipt = action.own_receipt
        rank.posted_at[receipt] = self._events.now
        if rank.receipts[receipt] == _ARRIVED:
            # A message that already exists is met by an event of its own.
            self._events.push(self._events.now, rank.npu, Meeting(rank, receipt))
            return
        rank.receipts[receipt] = POSTED
        if self._rendezvous:
            # A rendezvous sender holds its data back until the receiver asks for it.
            sender = rank.members[action.receive_from.of(rank.rank, len(rank.members))]  # type: ignore[union-attr]
            request = RequestArrival(rank, receipt)
            self._transport.transmit(rank.npu, sender, CONTROL_BYTES, request, rank.phase.flow, rank.phase.kind.queue)

    def _receive(self, rank: Rank, receipt: int) -> None:
        """A message has met its receive: the endpoint makes a token of it."""
        rank.receipts[receipt] = _DONE
        rank.delay_sum += self._events.now - rank.posted_at[receipt]
        rank.received += 1
        self._handle(rank, receipt)

    def _handle(self, rank: Rank, receipt: int) -> None:
        """The endpoint makes a token of a message; of a start, if `receipt` is `_START`."""
        place = rank.received - 1 if rank.program.in_turn else receipt
        charged, computing = (rank.program.memory_bytes[place], rank.program.compute_ps[place]) if receipt != _START else (0, 0)
        # The pass through memory, and computing, come when the endpoint is done.
        after = (self._memory_ps(charged) if charged else 0) + computing
        passes = bool(charged or computing)
        if self._buses.shared() and not rank.phase.kind.barrier:
            transfer = rank.program.bus_transfers[rank.handled]
            rank.handled += 1
            self._buses.carry(rank.npu, transfer, charged > 0, Carried(rank, after if passes else None))
            return
        done = self._events.now + rank.phase.kind.endpoint_ps
        self._events.push(done + after, rank.npu, TokenReady(rank), via=(done,) if passes else ())

    def _finish(self, rank: Rank) -> None:
        """A rank has finished in a phase."""
        now = self._events.now
        # Only a rank without any token finishes without one of this instant: as it begins, like a timer that starts now.
        causal_key = rank.last_causal_key if rank.last_token_at == now else (now,)
        kind, ending = rank.phase.kind, rank.ending
        if not (kind.together or kind.barrier):
            assert rank.step is not None
            self._events.push_end(now, rank.npu, StepEnd(rank.step), causal_key, self._events.next_end_order(rank.npu))
            return
        if ending.finish(now, causal_key):
            kind.causal_key = ending.causal_key
            # Each ends as the thing that it began, so that what ends in one instant keeps the order in which its NPU began it.
            for each in ending.ranks:
                assert each.step is not None
                self._events.push_end(now, each.npu, StepEnd(each.step), ending.causal_key, each.order)
