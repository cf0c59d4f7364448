"""Schedules: collective algorithms, written as data.

An algorithm is a function from a `Request` (which collective, how many ranks, how many bytes) to a `Schedule`: for every
rank the messages it sends and receives, in order. Two rules give a schedule its meaning in time:

* A rank starts with `starts` tokens under way, and every message it receives is one more. Before a token counts, the rank's
  endpoint handles it (the endpoint delay of the system and, for reductions, a pass through local memory).
* Steps are taken in order. A step is taken as soon as the rank has `after` tokens, by default one for its own and one for
  every earlier send: with `starts=1` each send waits for the previous reception, with `starts=w` up to w are in flight.

Taking a step sends its message and posts its receive. A rank has finished when it has taken every step and counted every token.

Example:

A reduce-scatter on a ring: in each step a rank passes on the piece to which it has just added its data.

    >>> from astra_sim.schedule import Collective, Request, Schedule, exchange, shift
    >>> def ring(request):
    ...     if request.collective is not Collective.REDUCE_SCATTER:
    ...         raise request.unsupported("ring", "it reduces and scatters only")
    ...     n = request.ranks
    ...     steps = [exchange(shift(1), request.bytes // n, reduce=True, pieces=[-k % n]) for k in range(1, n)]
    ...     return Schedule.shared(request, steps)
    >>> schedule = ring(Request(Collective.REDUCE_SCATTER, ranks=4, bytes=4096))
    >>> schedule.total_messages(), schedule.bytes_sent_by_first, schedule.output_bytes
    (12, 3072, 1024)
    >>> ring(Request(Collective.ALL_TO_ALL, ranks=4, bytes=4096))
    Traceback (most recent call last):
    ...
    astra_sim.errors.ScheduleError: ring cannot do all_to_all on 4 ranks: it reduces and scatters only

The ranks that peers mean, seen from rank 6 of 8, and the peer to which a rank is `shift(3)`:

    >>> from astra_sim.schedule import Peer, rank, xor
    >>> [peer.of(6, ranks=8) for peer in (shift(3), shift(-1), xor(4), rank(0))]
    [1, 5, 2, 0]
    >>> shift(3).inverse() == Peer("shift", -3)
    True

An all-reduce over rank 0, which has a program of its own: it adds up what all others send, and then, with a token for each of them and one
from the start, sends the sum back. The others do both in one step. `check_schedule` moves real pieces: at the end rank 3 has, of piece 0,
what each rank contributed once.

    >>> from astra_sim.schedule import RankProgram, Step, receive, send
    >>> from astra_sim.testing import check_schedule
    >>> def star(request):
    ...     n, size = request.ranks, request.bytes
    ...     add_up = [receive(rank(k), size, reduce=True) for k in range(1, n)]
    ...     send_back = [send(rank(k), size, after=n, pieces=range(n)) for k in range(1, n)]
    ...     other = RankProgram((Step(rank(0), rank(0), size, pieces=range(n)),))
    ...     return Schedule.per_rank(request, [RankProgram((*add_up, *send_back)), *[other] * (n - 1)])
    >>> request = Request(Collective.ALL_REDUCE, ranks=4, bytes=4096)
    >>> check_schedule(star(request), request)[3][0]
    Counter({0: 1, 1: 1, 2: 1, 3: 1})
    >>> star(request).total_messages()
    6
"""

from __future__ import annotations

import enum
import functools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakSet

import attrs

from astra_sim._boundary import MAX_PICOSECONDS, shown
from astra_sim._deprecation import FormerName, former_names
from astra_sim.errors import ScheduleError, in_figures
from astra_sim.value_objects import ValueObject

__all__ = [
    "Collective",
    "Peer",
    "RankProgram",
    "Request",
    "Schedule",
    "Step",
    "exchange",
    "rank",
    "receive",
    "send",
    "shift",
    "xor",
]


class Collective(enum.StrEnum):
    """The collective operations."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"


class Peer(NamedTuple):
    """Another rank of the group: by distance (`shift`), by bit pattern (`xor`), or by its number (`rank`)."""

    operator: str
    value: int

    def of(self, rank: int, ranks: int) -> int:
        """The rank meant, seen from `rank` in a group of `ranks`. One beyond the group is no error here (`Schedule.check` finds it)."""
        if self.operator == "shift":
            return (rank + self.value) % ranks
        if self.operator == "xor":
            return rank ^ self.value
        return self.value

    def inverse(self) -> Peer:
        """The peer to which this rank is the peer: it sends to me when I send to this one."""
        return Peer("shift", -self.value) if self.operator == "shift" else self

    def normal(self, ranks: int) -> Peer:
        """The same peer in normal form: distances modulo the group's size."""
        return self if self.operator != "shift" or 0 <= self.value < ranks else Peer("shift", self.value % ranks)

    def moved(self, by: int) -> Peer:
        """The peer whose value is larger by `by`."""
        return Peer(self.operator, self.value + by)

    def __str__(self) -> str:
        return f"{self.operator}({self.value:+d})" if self.operator == "shift" else f"{self.operator}({self.value})"


class PeerRun(NamedTuple):
    """Peers one after another: `length` of them, from `first` on, the value of each larger by `stride` than that of the one before."""

    first: Peer
    length: int = 1
    stride: int = 0

    def each(self) -> Iterator[Peer]:
        """The peers."""
        return (self.first.moved(number * self.stride) for number in range(self.length))

    def ranks_from(self, rank: int, ranks: int) -> Iterator[int]:
        """The ranks meant, seen from `rank` in a group of `ranks`."""
        operator, value = self.first
        values = range(value, value + self.length * self.stride, self.stride) if self.stride else [value] * self.length
        if operator == "shift":
            return ((rank + each) % ranks for each in values)
        return (rank ^ each for each in values) if operator == "xor" else iter(values)

    def first_back(self, ranks: int) -> Peer | None:
        """The first of these distances that leads back to the rank itself in a group of `ranks`; None if none does."""
        common = math.gcd(self.stride, ranks)
        if self.first.value % common:
            return None
        cycle = ranks // common
        number = -self.first.value // common * pow(self.stride // common, -1, cycle) % cycle
        return self.first.moved(number * self.stride) if number < self.length else None


def shift(distance: int) -> Peer:
    """The rank at `distance`, modulo the group's size."""
    return Peer("shift", distance)


def xor(mask: int) -> Peer:
    """The rank whose number differs from ours in the bits of `mask`."""
    return Peer("xor", mask)


def rank(number: int) -> Peer:
    """The rank with this number, for schedules in which every rank has its own program."""
    return Peer("rank", number)


Pieces = Iterable[Hashable] | Callable[[int], Iterable[Hashable]]


@attrs.define(slots=True)
class Step:
    """One step of a rank's program; use `exchange`, `send` or `receive` to write one.

    `bytes` is the size of each message. `times` repeats the step. `after` is the number of tokens needed (None: one more than
    the sends before it), `after_arrivals` the number of messages that must have met their receives. `reduce`:
    received data is added to local data, `memory_bytes` how many bytes the endpoint charges for it (in local memory),
    `compute_ps` how many picoseconds the rank computes on it besides.
    With a `stride` each repetition has another peer: the value of `send_to` grows by it each time, and `receive_from` moves as the rank to
    which we are that peer does. So `exchange(shift(1), bytes, times=n - 1, stride=1)` is an exchange with each of the others, and costs the
    kernel the cost of one step.
    `pieces` names the parts of the buffer that the message carries, see `astra_sim.testing.check_schedule`. `overhead_bytes` of it carry no
    data (flags, signals, requests): a message of nothing else names no pieces. For `returned` see `RankProgram`.
    """

    send_to: Peer | None
    receive_from: Peer | None
    bytes: int
    times: int = 1
    after: int | None = None
    after_arrivals: int = 0
    reduce: bool = False
    memory_bytes: int = 0
    pieces: Pieces = ()
    returned: bool = False
    compute_ps: int = 0
    stride: int = 0
    overhead_bytes: int = 0

    @property
    def data_bytes(self) -> int:
        """Bytes of each message that carry data."""
        return self.bytes - self.overhead_bytes

    @property
    def targets(self) -> PeerRun | None:
        """The different peers to which it sends, if it does."""
        return None if self.send_to is None else self._peers(self.send_to, self.stride)

    @property
    def sources(self) -> PeerRun | None:
        """The different peers from which it receives, if it does."""
        source = self.receive_from
        return None if source is None else self._peers(source, -self.stride if source.operator == "shift" else self.stride)

    def _peers(self, first: Peer, stride: int) -> PeerRun:
        return PeerRun(first, self.times, stride) if stride else PeerRun(first)

    def peers(self) -> list[PeerRun]:
        """The different peers with which it exchanges messages: those to which it sends, and those from which it receives."""
        return [run for run in (self.targets, self.sources) if run is not None]

    def unrolled(self) -> Iterator[Step]:
        """Its repetitions, as steps that are taken once."""
        if self.times == 1:
            yield self
            return
        for number in range(self.times):
            to, source = (run and run.first.moved(number * run.stride) for run in (self.targets, self.sources))
            pieces = (lambda k, number=number: self.pieces_of(number)) if callable(self.pieces) else self.pieces
            yield Step(
                to, source, self.bytes, 1, self.after, self.after_arrivals, self.reduce, self.memory_bytes, pieces, self.returned,
                self.compute_ps,
            )  # fmt: skip

    def pieces_of(self, repetition: int) -> Iterable[Hashable]:
        """The pieces of a repetition, relative to the sender if the schedule is."""
        return self.pieces(repetition) if callable(self.pieces) else self.pieces


def exchange(
    to: Peer,
    bytes: int,
    *,
    times: int = 1,
    after: int | None = None,
    after_arrivals: int = 0,
    reduce: bool = False,
    memory_bytes: int | None = None,
    pieces: Pieces = (),
    stride: int = 0,
) -> Step:
    """Send `bytes` to `to`, and receive as many from the rank whose `to` we are.

    For programs that all ranks share. `memory_bytes` defaults to `bytes` if `reduce` is set, else to 0. For `stride` see `Step`.
    """
    charged = (bytes if reduce else 0) if memory_bytes is None else memory_bytes
    return Step(to, to.inverse(), bytes, times, after, after_arrivals, reduce, charged, pieces, stride=stride)


def send(to: Peer, bytes: int, *, after: int | None = None, pieces: Pieces = (), overhead_bytes: int = 0) -> Step:
    """Send a message of `bytes` bytes, once the rank has `after` tokens (None: one more than its sends before this one).

    `overhead_bytes` of it carry no data.
    """
    return Step(to, None, bytes, after=after, pieces=pieces, overhead_bytes=overhead_bytes)


def receive(
    source: Peer,
    bytes: int,
    *,
    after: int | None = None,
    reduce: bool = False,
    memory_bytes: int | None = None,
    returned: bool = False,
    compute_ps: int = 0,
) -> Step:
    """Post the receive of a message of `bytes` bytes; its pieces are those that the sender names.

    For `after`, `memory_bytes` (as for `exchange`), `compute_ps` (picoseconds) and `returned` see `Step`.
    """
    charged = (bytes if reduce else 0) if memory_bytes is None else memory_bytes
    return Step(None, source, bytes, after=after, reduce=reduce, memory_bytes=charged, returned=returned, compute_ps=compute_ps)


@attrs.frozen(eq=False, repr=False)
class Request(ValueObject):
    """A request for a schedule.

    Each rank holds `bytes` bytes at the start. `direction` is +1 or -1, the direction of a queue.
    `instance` counts the phases of this collective on this dimension, for algorithms that alternate. `in_group`: the ranks are a
    communicator group, not a dimension.
    """

    collective: Collective
    ranks: int
    bytes: int
    direction: int = 1
    instance: int = 0
    in_group: bool = False

    def unsupported(self, algorithm: str, reason: str) -> ScheduleError:
        """The error to raise when an algorithm cannot serve this request."""
        return ScheduleError(f"{algorithm} cannot do {self.collective} on {self.ranks} ranks: {reason}")


@attrs.frozen(eq=False, repr=False)
class RankProgram(ValueObject):
    """The program of one rank: `starts` tokens at the start, then `steps` in order.

    With a `cycle`, endpoints charge for messages in the order in which they come: the k-th message to come costs as much as step k. Without
    one, each message costs as much as its own step.

    The rest matters on a shared bus only (`engine.shared_bus`). Of the tokens in each `cycle`, the first ones are carried from the NPU
    to memory, the others from memory to the NPU and, but for the last, back. Without a cycle, the tokens at the start go to memory and all
    others to the NPU, and the steps mark those that are `returned`. A token carries the bytes of the send that it allows;
    those after the last send carry `last_bytes` (None: as many as the last send).
    """

    steps: tuple[Step, ...]
    starts: int = 1
    cycle: tuple[int, int] | None = None
    last_bytes: int | None = None

    @functools.cached_property
    def different_steps(self) -> tuple[Step, ...]:
        """One step for all that exchange messages with the same peers: of a ring in both directions two of 4 (n - 1)."""
        return tuple({(step.send_to, step.receive_from, step.stride, step.stride and step.times): step for step in self.steps}.values())

    @functools.cached_property
    def peers(self) -> tuple[PeerRun, ...]:
        """The different peers with which it exchanges messages, in the order of its steps."""
        return tuple(dict.fromkeys(run for step in self.different_steps for run in step.peers()))

    def check(self) -> None:
        """Raise ScheduleError unless its steps are steps with peers, with the fields that a shared bus needs."""
        if not isinstance(self.steps, tuple):
            raise ScheduleError(f"a program has the steps {shown(self.steps)}; expected a tuple of steps")
        for step in self.steps:
            if not isinstance(step, Step):
                raise ScheduleError(f"{shown(step)} is not a step")
            if type(step.stride) is not int:
                raise ScheduleError(f"a schedule has stride {shown(step.stride)}; expected a whole number")
            for peer in (step.send_to, step.receive_from):
                if peer is not None and not (isinstance(peer, Peer) and peer.operator in _OPERATORS and type(peer.value) is int):
                    raise ScheduleError(f"a step has the peer {shown(peer)}; expected shift, xor or rank of a whole number")
            if not isinstance(step.reduce, bool) or not isinstance(step.returned, bool):
                raise ScheduleError(f"a step has reduce {shown(step.reduce)} and returned {shown(step.returned)}; expected True or False")
        if self.last_bytes is not None:
            _check_count(self.last_bytes, "last_bytes", 0)
        if self.cycle is not None:
            if not isinstance(self.cycle, tuple) or len(self.cycle) != 2:
                raise ScheduleError(f"a program has the cycle {shown(self.cycle)}; expected two whole numbers")
            for number in self.cycle:
                _check_count(number, "cycle", 0)


@attrs.frozen(eq=False)
class Schedule:
    """The programs of all ranks of a group: one that all share (with relative peers), or one per rank.

    Ranks that do the same, each relative to itself, may share one program: work by program then costs as much as
    the different ones. Each rank holds `output_bytes` at the end. `collective` is the one that the schedule performs, if that differs from
    the request.
    """

    ranks: int
    programs: tuple[RankProgram, ...]
    output_bytes: int
    collective: Collective | None = None

    def check(self, ranks: int) -> None:
        """Raise ScheduleError unless this is a schedule for `ranks` ranks whose steps have valid sizes, counts and peers."""
        if self in _CHECKED and self.ranks == ranks:
            return
        if type(self.ranks) is not int or self.ranks != ranks:
            raise ScheduleError(f"a schedule for {self.ranks} ranks was given for {ranks}")
        if not isinstance(self.programs, tuple) or not all(isinstance(program, RankProgram) for program in self.programs):
            raise ScheduleError(f"a schedule has the programs {shown(self.programs)}; expected a tuple of RankProgram")
        if self.collective is not None and not isinstance(self.collective, Collective):
            raise ScheduleError(f"a schedule is for {shown(self.collective)}; expected a Collective, or None")
        for program in {id(program): program for program in self.programs}.values():
            program.check()
        if len(self.programs) not in (1, ranks):
            raise ScheduleError(f"a schedule of {ranks} ranks has {len(self.programs)} programs; expected 1 or {ranks}")
        _check_count(self.output_bytes, "output_bytes", 0)
        for index, program in self.first_places():
            _check_count(program.starts, "starts", 0)
            for step in program.steps:
                counts = step.bytes, step.times, step.after or 0, step.after_arrivals, step.memory_bytes, step.compute_ps
                for number, name in zip(counts, _COUNTS, strict=True):
                    if type(number) is not int or not 0 <= number <= MAX_PICOSECONDS:
                        _check_count(number, name, 0)
                _check_count(step.times, "times", 1)
            _check_peers(program, index, ranks)
        if self.is_shared and ranks > 1:
            _check_shared_peers(self.programs[0], ranks)
        _CHECKED.add(self)

    @classmethod
    def shared(
        cls,
        request: Request,
        steps: Iterable[Step],
        *,
        starts: int = 1,
        output_bytes: int | None = None,
        cycle: tuple[int, int] | None = None,
        last_bytes: int | None = None,
    ) -> Schedule:
        """A schedule in which all ranks do the same, each relative to itself."""
        size = default_output_bytes(request) if output_bytes is None else output_bytes
        return cls(request.ranks, (RankProgram(tuple(steps), starts, cycle, last_bytes),), size)

    @classmethod
    def per_rank(
        cls,
        request: Request,
        programs: Iterable[RankProgram],
        *,
        output_bytes: int | None = None,
        collective: Collective | None = None,
    ) -> Schedule:
        """A schedule of a program for each rank, in order. Those with the same object do the same, each relative to itself."""
        size = default_output_bytes(request) if output_bytes is None else output_bytes
        return cls(request.ranks, tuple(programs), size, collective)

    @property
    def is_shared(self) -> bool:
        """Whether all ranks share one program."""
        return len(self.programs) == 1

    def program(self, index: int) -> RankProgram:
        """The program of rank `index`."""
        return self.programs[0] if self.is_shared else self.programs[index]

    def first_places(self) -> Iterator[tuple[int, RankProgram]]:
        """Each program with the first rank that runs it; one that names other ranks by number with every rank that does."""
        seen: set[int] = set()
        for index, program in enumerate(self.programs):
            if id(program) not in seen:
                yield index, program
                if _is_relative(program):
                    seen.add(id(program))

    def sends_of(self, index: int) -> int:
        """Messages that rank `index` sends."""
        return sum(step.times for step in self.program(index).steps if step.send_to is not None)

    @functools.cached_property
    def sent_by_first(self) -> tuple[tuple[PeerRun, int], ...]:
        """The peers to which rank 0 sends, step by step, with the bytes that it sends to each."""
        sends = ((step, step.targets) for step in self.program(0).steps)
        return tuple((to, step.bytes * step.times // to.length) for step, to in sends if to is not None)

    @functools.cached_property
    def bytes_sent_by_first(self) -> int:
        """Bytes that rank 0 sends."""
        return sum(step.bytes * step.times for step in self.program(0).steps if step.send_to is not None)

    @functools.cached_property
    def reduced_bytes(self) -> tuple[int, ...]:
        """The different sizes for which endpoints charge a reduction."""
        return tuple(sorted({step.memory_bytes for _, program in self.first_places() for step in program.steps} - {0}))

    @functools.cached_property
    def exchanges(self) -> frozenset[tuple[PeerRun, PeerRun]] | None:
        """The peers to which ranks send, with those from which they receive then, if all ranks do the same and only exchange messages.

        None if they do not: programs differ, or a step sends to another than the one whose peer it is.
        """
        if not self.is_shared:
            return None
        result = set()
        for step in self.programs[0].different_steps:
            to, source = step.targets, step.sources
            if to is None or source is None or source.first.inverse() != to.first:
                return None
            result.add((to, source))
        return frozenset(result)

    def total_messages(self) -> int:
        """Messages that all ranks send together."""
        return self._total_messages

    @functools.cached_property
    def _total_messages(self) -> int:
        ranks_of = Counter(map(id, self.programs))
        sends_of = {id(program): self.sends_of(index) for index, program in self.first_places()}
        return self.ranks // len(self.programs) * sum(sends * ranks_of[number] for number, sends in sends_of.items())


_OPERATORS = ("shift", "xor", "rank")
_CHECKED: WeakSet[Schedule] = WeakSet()
"""Checked schedules, which never change."""
_COUNTS = ("bytes", "times", "after", "after_arrivals", "memory_bytes", "compute_ps")


def _check_count(value: object, name: str, minimum: int) -> None:
    if type(value) is not int or value < minimum:
        raise ScheduleError(f"a schedule has {name} {shown(value)}; expected a whole number of at least {minimum}")
    if value > MAX_PICOSECONDS:
        raise ScheduleError(f"a schedule has {name} {in_figures(value)}; expected less than 2^63")


def default_output_bytes(request: Request) -> int:
    """Bytes each rank holds after the collective: a reduce-scatter leaves bytes // ranks, an all-gather bytes * ranks."""
    if request.collective is Collective.REDUCE_SCATTER:
        return request.bytes // request.ranks
    if request.collective is Collective.ALL_GATHER:
        return request.bytes * request.ranks
    return request.bytes


class Action(NamedTuple):
    """A step in the engine's terms.

    The message to `send_to` meets receive number `receipt` there; the receive from `receive_from` is the rank's receive number
    `own_receipt`.
    """

    after: int
    after_arrivals: int
    send_to: Peer | None
    receipt: int
    receive_from: Peer | None
    own_receipt: int
    bytes: int


class BusTransfer(NamedTuple):
    """The travel of a token over a shared bus: its bytes, its direction (from memory to the NPU, or to memory), and whether it returns."""

    bytes: int
    to_npu: bool
    returned: bool


class ActionRun(NamedTuple):
    """Actions one after another: `times` of them, of which the first is given. For each, both receipts are one higher.

    `after` grows by `after_grows` with each, the value of a peer by its stride. `memory_bytes`, `compute_ps` and `returned` are those of
    the step.
    """

    after: int
    after_grows: int
    after_arrivals: int
    send_to: Peer | None
    receipt: int
    receive_from: Peer | None
    own_receipt: int
    bytes: int
    memory_bytes: int
    compute_ps: int
    returned: bool
    times: int = 1
    to_stride: int = 0
    from_stride: int = 0

    def actions(self) -> Iterator[Action]:
        """The actions."""
        for k in range(self.times):
            to = self.send_to and self.send_to.moved(k * self.to_stride)
            source = self.receive_from and self.receive_from.moved(k * self.from_stride)
            receipt = -1 if to is None else self.receipt + k
            yield Action(self.after + k * self.after_grows, self.after_arrivals, to, receipt, source, self.own_receipt + k, self.bytes)


@attrs.frozen(eq=False)
class LoweredProgram:
    """A rank's program, ready to run: messages matched with the receives that meet them, as runs of actions.

    `tokens` is the number of tokens at which the rank has finished. For `cycle` and `last_bytes` see `RankProgram`. Values that follow from
    the runs for each action, receive or token is listed when it is asked for.
    """

    starts: int
    runs: tuple[ActionRun, ...]
    cycle: tuple[int, int] | None = None
    last_bytes: int | None = None

    @functools.cached_property
    def actions(self) -> tuple[Action, ...]:
        """The actions in order."""
        return tuple(action for run in self.runs for action in run.actions())

    @functools.cached_property
    def tokens(self) -> int:
        """The tokens at the start, and one for each receive."""
        return self.starts + sum(run.times for run in self._receiving())

    @functools.cached_property
    def memory_bytes(self) -> tuple[int, ...]:
        """Bytes that the endpoint charges for each receipt; if it charges `in_turn`, for each message in the order of coming."""
        return tuple(run.memory_bytes for run in self._receiving() for _ in range(run.times))

    @functools.cached_property
    def compute_ps(self) -> tuple[int, ...]:
        """Picoseconds that the rank computes on each, by the same number."""
        return tuple(run.compute_ps for run in self._receiving() for _ in range(run.times))

    @functools.cached_property
    def bus_transfers(self) -> tuple[BusTransfer, ...]:
        """The order of tokens on a shared bus, first the `starts`."""
        return tuple(_bus_transfers(self))

    carriages = FormerName("bus_transfers", "a lowered program", "0.3")

    @property
    def in_turn(self) -> bool:
        """Whether messages are charged in the order in which they come, not by the receipts that they meet."""
        return self.cycle is not None

    def _receiving(self) -> Iterator[ActionRun]:
        return (run for run in self.runs if run.receive_from is not None)


def lower(schedule: Schedule) -> tuple[LoweredProgram, ...]:
    """Match every send with its receive and unroll repetitions. The k-th message to a peer meets the k-th receive from it.

    Raises ScheduleError if a rank sends to itself or outside of the group, or sends and receives do not match in
    number or size.
    """
    ranks = schedule.ranks
    if schedule.is_shared and _only_exchanges(schedule.programs[0], ranks):
        _check_peers(schedule.programs[0], 0, ranks)
        return (_lower_exchanges(schedule.programs[0]),)
    if schedule.is_shared and not _mixes_operators(schedule.programs[0]):
        # One program for all: its sends to a peer meet its receives from that peer's inverse.
        program = schedule.programs[0]
        _check_peers(program, 0, ranks)
        receives = _receives(program, lambda peer: peer.normal(ranks))
        sends = {peer.inverse().normal(ranks) for peer in _targets(program)}
        for source in receives.keys() - sends:
            raise ScheduleError(f"every rank posts {len(receives[source])} receives from {source}, which sends 0 messages")
        return (
            _lower(program, lambda peer: peer.normal(ranks), lambda peer: receives.get(peer.inverse().normal(ranks), []), "every rank"),
        )
    if all(_is_relative(program) for _, program in schedule.first_places()):
        return _lower_relative(schedule)
    posted: list[_Receives] = []
    for index in range(ranks):
        _check_peers(schedule.program(index), index, ranks)
        posted.append(_receives(schedule.program(index), partial(_absolute, index, ranks)))
    targets = [{peer.of(index, ranks) for peer in _targets(schedule.program(index))} for index in range(ranks)]
    for index, receives in enumerate(posted):
        for source, receipts in receives.items():
            if index not in targets[source]:
                raise ScheduleError(f"rank {index} posts {len(receipts)} receives from rank {source}, which sends 0 messages")
    return tuple(
        _lower(
            schedule.program(index),
            partial(_absolute, index, ranks),
            lambda peer, index=index: posted[peer.of(index, ranks)].get(index, []),  # type: ignore[misc]
            f"rank {index}",
        )
        for index in range(ranks)
    )


def _only_exchanges(program: RankProgram, ranks: int) -> bool:
    """Whether each step of a program that all ranks share sends to the rank whose message it receives, by peers of one operator."""
    operators: set[str] = set()
    for step in program.steps:
        to, source = step.send_to, step.receive_from
        if to is None or source is None or to.operator == "rank" or to.operator != source.operator:
            return False
        operators.add(to.operator)
        if (to.value + source.value) % ranks if to.operator == "shift" else to.value != source.value:
            return False
    return len(operators) < 2


def _lower_exchanges(program: RankProgram) -> LoweredProgram:
    """The same for such a program: a message meets the receive of its own step.

    In each step every rank sends to one rank and receives from one, so the k-th step in which a rank sends to another is the k-th in
    which that one receives from it.
    """
    runs = []
    number = 0
    for step in program.steps:
        runs.append(_run(step, number, number, number))
        number += step.times
    return LoweredProgram(program.starts, tuple(runs), program.cycle, program.last_bytes)


def _run(step: Step, sends: int, receipt: int, own_receipt: int) -> ActionRun:
    """The actions of a step after `sends` sends, the first with these receipts."""
    to, source = step.targets, step.sources
    grows = step.after is None and to is not None
    return ActionRun(
        sends + 1 if step.after is None else step.after,
        int(grows),
        step.after_arrivals,
        step.send_to,
        receipt,
        step.receive_from,
        own_receipt,
        step.bytes,
        step.memory_bytes,
        step.compute_ps,
        step.returned,
        step.times,
        to.stride if to else 0,
        source.stride if source else 0,
    )


def _lower_relative(schedule: Schedule) -> tuple[LoweredProgram, ...]:
    """The same if all peers are distances: ranks with the same program and equal distances share the result."""
    ranks, programs = schedule.ranks, schedule.programs
    receives: dict[int, _Receives] = {}
    distances: dict[int, tuple[int, ...]] = {}
    for index, program in schedule.first_places():
        _check_peers(program, index, ranks)
        receives[id(program)] = _receives(program, lambda peer: peer.normal(ranks))
        distances[id(program)] = tuple({peer.normal(ranks).value for run in program.peers for peer in run.each()})
    known: dict[tuple[int, ...], LoweredProgram] = {}
    result = []
    numbers = [id(program) for program in programs]
    for index, number in enumerate(numbers):
        key = (number, *[numbers[(index + distance) % ranks] for distance in distances[number]])
        lowered = known.get(key)
        if lowered is None:
            lowered = known[key] = _lower_at(schedule, index, receives)
        result.append(lowered)
    return tuple(result)


def _lower_at(schedule: Schedule, index: int, receives: dict[int, _Receives]) -> LoweredProgram:
    """The program of a rank, lowered. `receives` are those of the programs by their id, by distance."""
    ranks = schedule.ranks

    def program_of(peer: Peer) -> RankProgram:
        return schedule.program(peer.of(index, ranks))

    program = schedule.program(index)
    for source, receipts in receives[id(program)].items():
        if source.inverse().normal(ranks) not in {peer.normal(ranks) for peer in _targets(program_of(source))}:
            where = source.of(index, ranks)
            raise ScheduleError(f"rank {index} posts {len(receipts)} receives from rank {where}, which sends 0 messages")
    return _lower(
        program,
        lambda peer: peer.normal(ranks),
        lambda peer: receives[id(program_of(peer))].get(peer.inverse().normal(ranks), []),
        f"rank {index}",
    )


_Receives = dict[Any, list[tuple[int, int]]]
"""The (receipt, bytes) of receives in order, by the peer they come from."""


def _absolute(index: int, ranks: int, peer: Peer) -> int:
    return peer.of(index, ranks)


def _targets(program: RankProgram) -> Iterable[Peer]:
    """The different peers to which a program sends."""
    runs = dict.fromkeys(run for step in program.steps if (run := step.targets) is not None)
    return dict.fromkeys(peer for run in runs for peer in run.each())


def _is_relative(program: RankProgram) -> bool:
    """Whether all its peers are distances, so that the same program does for ranks anywhere in a group."""
    return all(run.first.operator == "shift" for run in program.peers)


def _mixes_operators(program: RankProgram) -> bool:
    return len({run.first.operator for run in program.peers}) > 1


def _check_peers(program: RankProgram, index: int, ranks: int) -> None:
    """Raise ScheduleError unless each peer of the program of rank `index` is another rank of the group."""
    for run in program.peers:
        if run.first.operator == "shift":
            back = run.first_back(ranks)
            if back is not None:
                raise ScheduleError(f"rank {index} of {ranks} has {back} as its peer, which is itself")
            continue
        for peer in run.each():
            other = peer.of(index, ranks)
            if other == index or not 0 <= other < ranks:
                which = "itself" if other == index else f"rank {other}"
                raise ScheduleError(f"rank {index} of {ranks} has {peer} as its peer, which is {which}")


def _check_shared_peers(program: RankProgram, ranks: int) -> None:
    """Raise ScheduleError unless the peers of a program that all ranks share exist for every rank."""
    runs = {run for run in program.peers if run.first.operator != "shift"}
    for peer in {peer for run in runs for peer in run.each()}:
        if peer.operator == "rank":
            raise ScheduleError(f"all ranks share a program that names {peer}; expected shift and xor")
        if peer.operator == "xor" and ranks & (ranks - 1):
            for index in range(ranks):
                if peer.of(index, ranks) >= ranks:
                    raise ScheduleError(f"rank {index} of {ranks} has {peer} as its peer, which is rank {peer.of(index, ranks)}")


def _receives(program: RankProgram, key: Callable[[Peer], Hashable]) -> _Receives:
    receives: _Receives = {}
    receipt = 0
    for step in program.steps:
        if step.sources is not None:
            each = step.times // step.sources.length
            for source in step.sources.each():
                receives.setdefault(key(source), []).extend((receipt + k, step.bytes) for k in range(each))
                receipt += each
    return receives


def _lower(
    program: RankProgram, key: Callable[[Peer], Hashable], receives_at: Callable[[Peer], list[tuple[int, int]]], who: str
) -> LoweredProgram:
    """Match each send with the receive that its target posts for it. Raises ScheduleError if bytes or numbers differ."""
    runs: list[ActionRun] = []
    sent: Counter[Hashable] = Counter()
    sends = received = 0
    for step in program.steps:
        for once in step.unrolled():
            receipt = -1
            if once.send_to is not None:
                waiting, ordinal = receives_at(once.send_to), sent[key(once.send_to)]
                if ordinal >= len(waiting):
                    raise ScheduleError(f"{who} sends {ordinal + 1} messages to {once.send_to}, which posts {len(waiting)} receives")
                receipt, expected = waiting[ordinal]
                if expected != once.bytes:
                    raise ScheduleError(f"{who} sends {once.bytes} bytes to {once.send_to}, which expects {expected} bytes")
                sent[key(once.send_to)] += 1
            runs.append(_run(once, sends, receipt, received))
            sends += once.send_to is not None
            received += once.receive_from is not None
    for peer in _targets(program):
        if sent[key(peer)] < len(receives_at(peer)):
            raise ScheduleError(f"{who} sends {sent[key(peer)]} messages to {peer}, which posts {len(receives_at(peer))} receives")
    return LoweredProgram(program.starts, tuple(runs), program.cycle, program.last_bytes)


def _bus_transfers(program: LoweredProgram) -> Iterable[BusTransfer]:
    """The bus transfers of each token of the program; equal entries share an object."""
    sends = [run.bytes for run in program.runs if run.send_to is not None for _ in range(run.times)]
    last = program.last_bytes
    if last is None:
        last = sends[-1] if sends else program.runs[-1].bytes if program.runs else 0
    returned = [run.returned for run in program.runs if run.receive_from is not None for _ in range(run.times)]
    known: dict[BusTransfer, BusTransfer] = {}  # many are equal, and share an object
    for number in range(program.tokens):
        size = sends[number] if number < len(sends) else last
        if program.cycle is None:
            to_npu = number >= program.starts
            comes_back = to_npu and returned[number - program.starts]
        else:
            first, others = program.cycle
            place = number % (first + others)
            to_npu = place >= first
            comes_back = to_npu and others > place
        transfer = BusTransfer(size, to_npu, comes_back)
        yield known.setdefault(transfer, transfer)


__getattr__ = former_names(__name__, {"Carriage": "BusTransfer"}, "0.3")
