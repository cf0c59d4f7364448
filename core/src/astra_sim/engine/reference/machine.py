"""The engine: owns its parts, and dispatches events. Its input is described in `astra_sim.engine.interface`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_sim.engine import columns
from astra_sim.engine.interface import (
    BusOptions,
    ComputePs,
    Issue,
    LinkKind,
    OverheadPs,
    Task,
)
from astra_sim.engine.orders import Order
from astra_sim.engine.reference.agreement import Agreements
from astra_sim.engine.reference.causes import Label
from astra_sim.engine.reference.chunks import Chunks
from astra_sim.engine.reference.collectives import Collectives
from astra_sim.engine.reference.durations import TaskDurations
from astra_sim.engine.reference.events import (
    BusCall,
    Departure,
    EventPayload,
    Events,
    Landing,
    Meeting,
    MessageArrival,
    PointToPointArrival,
    PointToPointRequest,
    PointToPointSent,
    Reception,
    RequestArrival,
    StepEnd,
    TaskEnd,
    TokenReady,
)
from astra_sim.engine.reference.phase_kinds import PhaseKinds
from astra_sim.engine.reference.phases import Phases
from astra_sim.engine.reference.point_to_point import PointToPoint
from astra_sim.engine.reference.processors import Processors
from astra_sim.engine.reference.record import ReferenceRecord
from astra_sim.engine.reference.tasks import TaskRun, Tasks
from astra_sim.engine.reference.transport import HandledMessage, Transport
from astra_sim.network import EventNetwork, RouteDelayNetwork
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import LoweredProgram

_OF_RANK = {
    MessageArrival: LinkKind.MESSAGE,
    RequestArrival: LinkKind.REQUEST,
    TokenReady: LinkKind.TOKEN,
    Meeting: LinkKind.MEETING,
}
"""The event of a rank."""


class ReferenceEngine:
    """Runs programs on NPUs 0 to `npus` - 1.

    `network` moves messages (None if all steps take a given time), `endpoint_ps` is the time an endpoint needs for a token,
    `memory_ps` the time it needs to reduce received bytes. With `rendezvous` a message waits for a request from its receiver.
    With a `bus`, endpoints share it instead of taking `endpoint_ps`.
    """

    computing = staticmethod(columns.computing)
    uses_of = staticmethod(columns.uses_of)
    repeated = staticmethod(columns.repeated)

    def __init__(
        self,
        npus: int,
        network: RouteDelayNetwork | EventNetwork | None = None,
        endpoint_ps: int = 0,
        memory_ps: Callable[[int], int] | None = None,
        rendezvous: bool = False,
        bus: BusOptions | None = None,
    ) -> None:
        self._events = Events(contended=isinstance(network, EventNetwork))
        self._processors = Processors(npus)
        self._transport = Transport(self._events, self._processors, network)
        self._phase_kinds = PhaseKinds(npus, endpoint_ps)
        self._phases = Phases(self._events, self._transport, self._phase_kinds, memory_ps or (lambda size: 0), rendezvous, bus)
        agreements = Agreements()
        self._chunks = Chunks(self._events, self._phases, agreements, npus, self._chunk_ended)
        self._collectives = Collectives(self._events, self._phases, self._chunks)
        self._point_to_point = PointToPoint(self._events, self._transport, npus, rendezvous)
        self._durations = TaskDurations(self._processors, npus)
        self._tasks = Tasks(self._events, self._durations, self._collectives, self._point_to_point, agreements, npus)
        self.record = ReferenceRecord(self._events, self._phase_kinds, self._chunks, self._collectives, self._point_to_point, self._tasks)
        self._handlers: dict[type, Callable[..., None]] = {
            MessageArrival: self._phases.on_arrival,
            RequestArrival: self._phases.on_request,
            TokenReady: self._phases.on_token,
            Meeting: self._phases.on_meeting,
            Departure: self._transport.on_departure,
            Landing: self._land,
            Reception: lambda message: self._handle(self._transport.on_reception(message)),
            BusCall: lambda call: call(),
            PointToPointArrival: self._point_to_point.on_arrival,
            PointToPointSent: self._point_to_point.on_sent,
            PointToPointRequest: self._point_to_point.on_request,
            StepEnd: self._chunks.finish,
            TaskEnd: self._tasks.finish,
        }
        """Which part each kind of event belongs to."""

    @property
    def now(self) -> int:
        """Picoseconds since the start."""
        return self._events.now

    @property
    def events(self) -> int:
        """Events that have happened."""
        return self._events.happened

    @property
    def messages(self) -> int:
        """Messages that were sent."""
        return self._transport.messages

    @property
    def ended(self) -> int:
        """Tasks that have ended, of all NPUs."""
        return self._tasks.ended

    @property
    def undelivered(self) -> int:
        """Messages that an event network was given and has not delivered."""
        return self._transport.undelivered

    # -- building ------------------------------------------------------------------------------------------------------

    def add_queues(self, queues: Sequence[tuple[int, Order]]) -> None:
        """Give every NPU queues: the slots and the order of each."""
        self._chunks.add_queues(queues)

    def set_traffic_classes(self, without_queue: int, of_queues: Sequence[int]) -> None:
        """Say which traffic class messages in no queue, and those of each queue, ask for (-1: the network chooses)."""
        self._transport.set_traffic_classes(without_queue, of_queues)

    def add_ports(self, ports: Sequence[int]) -> None:
        """Say which port each NPU uses (from 0 on; -1: its accesses never wait)."""
        if self._durations.add_ports(ports):
            self._events.contend()

    def set_compute_times(self, compute_ps: ComputePs) -> None:
        """Say who is asked for the times of COMPUTE tasks."""
        self._durations.set_compute_times(compute_ps)

    def set_overheads(self, overhead_ps: OverheadPs, compute: bool) -> None:
        """Let processors send and receive messages, those that `compute` or others beside them."""
        self._processors.set_overheads(overhead_ps, compute)

    def add_program(self, tasks: Sequence[Task], npus: Sequence[int], issue: Issue, agreement: int = -1) -> None:
        """Let NPUs run a program. `issue` is called for each collective when the first of them has come to it."""
        self._tasks.add_program(tasks, npus, issue, agreement)

    def add_groups(self, groups: Sequence[Sequence[int]], dimension: LogicalDimension | None = None, loop_back: bool = False) -> int:
        """Groups that run phases together; with `loop_back` the first NPU represents all. Returns their number."""
        return self._phase_kinds.add_groups(groups, loop_back)

    def add_schedule(self, programs: Sequence[LoweredProgram], groups: int) -> int:
        """A schedule for groups: one program for all ranks or one for each. Returns its number."""
        return self._phase_kinds.add_schedule(programs, groups)

    def add_phase(
        self, schedule: int, queue: int = -1, together: bool = True, endpoint_ps: int | None = None, barrier: bool = False
    ) -> int:
        """A phase that runs a schedule. Returns its number."""
        return self._phase_kinds.add_phase(schedule, queue, together, endpoint_ps, barrier)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, events: int | None = None) -> bool:
        """Run until nothing is left to do, or for some `events` and the rest of their instant; returns whether something is left."""
        queue, handlers = self._events, self._handlers
        self._tasks.start_all()
        limit = self.events + events if events is not None else -1
        while True:
            # Between any two levels: the network takes all that one level sends together, and may deliver before the next event here.
            self._transport.exchange()
            if queue.next_time() is None:
                return False
            if self.events >= limit >= 0:
                return True
            for event in queue.next_level():
                queue.happens(event)
                if queue.causes is not None:
                    queue.label(event, self._label(event.what))
                handlers[type(event.what)](*event.what)

    def _handle(self, what: EventPayload) -> None:
        """Dispatch an event to the part that it belongs to."""
        self._handlers[type(what)](*what)

    def _land(self, message: HandledMessage) -> None:
        """A message has reached its destination."""
        arrival = self._transport.on_landing(message)
        if arrival is not None:
            self._handle(arrival)

    def _label(self, what: EventPayload) -> Label:
        """The identity of an event."""
        match what:
            case MessageArrival(rank) | RequestArrival(rank) | TokenReady(rank) | Meeting(rank):
                return self._chunks.label(_OF_RANK[type(what)], rank.step)
            case BusCall():
                return Label(LinkKind.BUS)
            case Departure() | Reception():
                return Label(LinkKind.OVERHEAD)
            case Landing(message):
                return self._label(message.arrival)
            case PointToPointArrival(_, sender) | PointToPointSent(sender):
                return Label(LinkKind.POINT_TO_POINT, sender.number)
            case PointToPointRequest():
                return Label(LinkKind.POINT_TO_POINT_REQUEST)
            case TaskEnd(task):
                return Label(LinkKind.TASK, task.number)
            case StepEnd(step):
                return self._chunks.label(LinkKind.STEP, step)

    def _chunk_ended(self, task: TaskRun) -> None:
        """The one way back up: the last chunk of a collective lets its task end."""
        self._tasks.chunk_ended(task)
