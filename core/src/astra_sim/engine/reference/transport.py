"""Messages on their way: senders hand them over here, and their effects happen when they have arrived.

On a network without contention a message arrives after a delay that its ends and size decide. A network with events takes the messages
that are sent at one level of an instant together, in order, and is asked for the next delivery before anything else happens. Some networks
tell of a message, too, when its sender knows that it has arrived. If processors handle messages, that of the sender comes before the
network, and that of the receiver after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from astra_sim.engine.interface import CausalKey
from astra_sim.engine.reference.events import Departure, EventPayload, Events, Landing, Reception
from astra_sim.engine.reference.processors import Processors
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork, advance, inject, not_under_way


class HandledMessage(NamedTuple):
    """A message on which processors spend time: the argument of `Transport.transmit`."""

    source: int
    destination: int
    bytes: int
    arrival: EventPayload
    flow: int
    queue: int
    sent: EventPayload | None


class Transport:
    """The network as the engine uses it. `messages` counts those that were sent."""

    def __init__(self, events: Events, processors: Processors, network: RouteDelayNetwork | EventNetwork | None) -> None:
        self.messages = 0
        self._events = events
        self._processors = processors
        self._message_delay = network.message_delay if isinstance(network, RouteDelayNetwork) else None
        self._network = network if isinstance(network, EventNetwork) else None
        # Messages that the network has not seen, and those that it has not delivered, with the effects of their arrival.
        self._outbox: list[Message] = []
        self._under_way: dict[int, tuple[int, EventPayload, CausalKey]] = {}
        self._unconfirmed: dict[int, tuple[int, EventPayload, CausalKey]] = {}
        self._flows = 0
        self._class_without_queue = -1
        self._class_of_queue: Sequence[int] = ()
        # A time up to which the network has nothing more to deliver (None: for ever).
        self._quiet_until: int | None = -1
        # When the network delivered last, and the latest causal key of these deliveries.
        self._latest: tuple[int, CausalKey] = (-1, ())

    @property
    def undelivered(self) -> int:
        """Messages that an event network was given and has not delivered."""
        return len(self._under_way)

    @property
    def reports_completion(self) -> bool:
        """Whether the network reports when senders know that their messages have arrived."""
        return self._network is not None and self._network.reports_completion

    def set_traffic_classes(self, without_queue: int, of_queues: Sequence[int]) -> None:
        """The traffic classes of messages in no queue, and of those of each queue. Without this the network chooses (-1)."""
        self._class_without_queue = without_queue
        self._class_of_queue = of_queues

    def new_flow(self) -> int:
        """A number for messages that belong together."""
        self._flows += 1
        return self._flows

    def transmit(
        self, source: int, destination: int, size: int, arrival: EventPayload, flow: int, queue: int = -1, sent: EventPayload | None = None
    ) -> None:
        """Send a message now; `arrival` happens when it is there. It bears its `flow`, and the `queue` of the system layer.

        If the network tells that, `sent` happens when the sender knows that it has arrived.
        """
        if not self._processors.handle_messages:
            self._hand_over(source, destination, size, arrival, flow, queue)
            self._await_sent(source, destination, size, sent)
            return
        message = HandledMessage(source, destination, size, arrival, flow, queue, sent)
        end = self._processors.handle(source, self._events.now, size, receives=False)
        if end == self._events.now:
            self.on_departure(message)
            return
        self._events.push(end, source, Departure(message))
        self._carry(destination, size)

    def on_departure(self, message: HandledMessage) -> None:
        """The processor of its sender has sent a message."""
        ends = message.source, message.destination, message.bytes
        self._hand_over(*ends, Landing(message), message.flow, message.queue)
        self._await_sent(*ends, message.sent)

    def on_landing(self, message: HandledMessage) -> EventPayload | None:
        """A message has reached its destination. Returns its effect now; None: its receiver has to spend time on it first."""
        end = self._processors.handle(message.destination, self._events.now, message.bytes, receives=True)
        if end == self._events.now:
            return message.arrival
        self._events.push(end, message.destination, Reception(message))
        self._carry(message.destination, message.bytes)
        return None

    def on_reception(self, message: HandledMessage) -> EventPayload:
        """The processor of its destination has received a message. Returns its effect."""
        return message.arrival

    def exchange(self) -> None:
        """Hand new messages to the network, and take all that arrive before anything else happens."""
        network = self._network
        if network is None:
            return
        if self._outbox:
            inject(network, self._events.now, self._outbox)
            self._outbox = []
            # A new message may arrive earlier than the time before which the network had nothing to deliver.
            self._quiet_until = -1
        since = self._events.now  # deliveries come in order of time
        while self._quiet_until is not None:
            until = self._events.next_time()
            if until is not None and until <= self._quiet_until:
                return
            delivery = advance(network, since, until)
            if delivery is None:
                self._quiet_until = until
                return
            since, arrived, sent = delivery
            for number in arrived:
                if number not in self._under_way:
                    raise not_under_way(network, number)
                self._deliver_outcome(since, number, self._under_way.pop(number))
            for number in sent:
                # No operation waits for this if the message belongs to a collective.
                if number in self._unconfirmed:
                    self._deliver_outcome(since, -number, self._unconfirmed.pop(number))

    def _hand_over(self, source: int, destination: int, size: int, arrival: EventPayload, flow: int, queue: int) -> None:
        """Give a message to the network."""
        self.messages += 1
        if self._message_delay is not None:
            self._events.push(self._events.now + self._message_delay(source, destination, size), source, arrival)
            if self._events.causes is not None:
                self._events.causes.carry(destination, size)
        else:
            if self._events.causes is not None:
                self._events.causes.send(self.messages, destination, size)
            self._outbox.append(Message(self.messages, source, destination, size, queue, flow, self._class_of(queue)))
            # Its arrival is ordered by when it was sent, as if the time of its arrival were known at once.
            self._under_way[self.messages] = source, arrival, self._events.next_causal_key()

    def _await_sent(self, source: int, destination: int, size: int, sent: EventPayload | None) -> None:
        """The message handed over last may have a sender that waits: `sent` happens when it knows that the message has arrived."""
        if sent is None:
            return
        if self._events.causes is not None:
            self._events.causes.send(-self.messages, destination, size)
        self._unconfirmed[self.messages] = source, sent, self._events.next_causal_key()

    def _carry(self, destination: int, size: int) -> None:
        """The event that was scheduled last is an overhead of such a message."""
        if self._events.causes is not None:
            self._events.causes.carry(destination, size)

    def _class_of(self, queue: int) -> int:
        if queue < 0:
            return self._class_without_queue
        return self._class_of_queue[queue] if queue < len(self._class_of_queue) else -1

    def _deliver_outcome(self, time: int, cause: int, message: tuple[int, EventPayload, CausalKey]) -> None:
        """A message takes effect at a time, after those that the network delivered before it at this time."""
        source, what, causal_key = message
        latest_at, latest = self._latest
        causal_key = max(causal_key, latest) if latest_at == time else causal_key
        self._latest = time, causal_key
        if self._events.causes is not None:
            self._events.causes.deliver(cause)
        self._events.push_with(time, source, what, causal_key, causal_key)
