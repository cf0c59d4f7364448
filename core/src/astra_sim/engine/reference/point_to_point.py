"""Messages between two tasks: a SEND of one NPU and the RECEIVE of another.

Both meet in a mailbox: the n-th send of equal bytes and tag from one NPU to another meets the n-th receive of that kind. A send ends
when its message has arrived (on some networks later: when its sender knows that), a receive when it has its message. Under rendezvous a
send waits for the request of its receive.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from astra_sim.engine.interface import CONTROL_BYTES, SEND, Task
from astra_sim.engine.reference.events import Events, PointToPointArrival, PointToPointRequest, PointToPointSent, TaskEnd
from astra_sim.engine.reference.transport import Transport

if TYPE_CHECKING:
    from astra_sim.engine.reference.tasks import TaskRun


class Mailbox:
    """Messages of one kind between two NPUs, which are a flow.

    Of them counts how many have `arrived`, and requests; and lists receives that wait, and sends that wait for a request.
    """

    __slots__ = ("arrived", "flow", "offered", "posted", "requests")

    def __init__(self, flow: int) -> None:
        self.flow = flow
        self.arrived = 0
        self.requests = 0
        self.posted: deque[TaskRun] = deque()
        self.offered: deque[TaskRun] = deque()


class PointToPoint:
    """The mailboxes of all pairs of NPUs."""

    def __init__(self, events: Events, transport: Transport, npus: int, rendezvous: bool) -> None:
        self._events = events
        self._transport = transport
        self._npus = npus
        self._rendezvous = rendezvous
        self._mailboxes: dict[tuple[int, int, int, int], Mailbox] = {}

    def unreceived(self) -> list[tuple[int, int, int, int, int]]:
        """The messages that have arrived and that no task has received: source, destination, tag, bytes, and how many."""
        return sorted((*key, mailbox.arrived) for key, mailbox in self._mailboxes.items() if mailbox.arrived)

    def begin(self, task: TaskRun, order: int) -> None:
        """A SEND or RECEIVE begins, as the `order`-th thing that its NPU does."""
        if task.task.kind == SEND:
            self._begin_send(task)
        else:
            self._begin_receive(task, order)

    def on_arrival(self, mailbox: Mailbox, sender: TaskRun) -> None:
        """The message of a send has arrived: the send ends, unless its sender does not know yet, and so does the receive that waits."""
        if not self._transport.reports_completion:
            self._end(sender)
        if mailbox.posted:
            self._end(mailbox.posted.popleft())
        else:
            mailbox.arrived += 1

    def on_sent(self, sender: TaskRun) -> None:
        """The sender of a message knows that it has arrived: the send ends."""
        self._end(sender)

    def on_request(self, mailbox: Mailbox) -> None:
        """The request of a receive has reached the sender."""
        if mailbox.offered:
            self._send(mailbox, mailbox.offered.popleft())
        else:
            mailbox.requests += 1

    def _begin_send(self, task: TaskRun) -> None:
        mailbox = self._mailbox(task.npu, self._peer(task), task.task)
        if not self._rendezvous:
            self._send(mailbox, task)
            return
        mailbox.offered.append(task)
        if mailbox.requests:
            # As in phases, a request that is there already is met by an event of its own.
            mailbox.requests -= 1
            self._events.push(self._events.now, task.npu, PointToPointRequest(mailbox))

    def _begin_receive(self, task: TaskRun, order: int) -> None:
        source = self._peer(task)
        mailbox = self._mailbox(source, task.npu, task.task)
        if mailbox.arrived:
            # The message exists, but the receive ends in the stage of ends all the same, after all messages and tokens of this round.
            mailbox.arrived -= 1
            self._events.push_end(self._events.now, task.npu, TaskEnd(task), (self._events.now,), order)
        else:
            mailbox.posted.append(task)
        if self._rendezvous:
            self._transport.transmit(task.npu, source, CONTROL_BYTES, PointToPointRequest(mailbox), mailbox.flow)

    def _send(self, mailbox: Mailbox, task: TaskRun) -> None:
        sent = PointToPointSent(task) if self._transport.reports_completion else None
        arrival = PointToPointArrival(mailbox, task)
        self._transport.transmit(task.npu, self._peer(task), task.task.bytes, arrival, mailbox.flow, sent=sent)

    def _end(self, task: TaskRun) -> None:
        order = self._events.next_end_order(task.npu)
        self._events.push_end(self._events.now, task.npu, TaskEnd(task), self._events.causal_key, order)

    def _peer(self, task: TaskRun) -> int:
        assert task.task.peer is not None
        return task.task.peer.of(task.npu, self._npus)

    def _mailbox(self, source: int, destination: int, task: Task) -> Mailbox:
        key = source, destination, task.tag, task.bytes
        if key not in self._mailboxes:
            self._mailboxes[key] = Mailbox(self._transport.new_flow())
        return self._mailboxes[key]
