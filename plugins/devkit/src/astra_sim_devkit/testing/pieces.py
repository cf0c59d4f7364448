"""Moves pieces of data along a schedule, to prove that a collective does what its name promises.

Pieces are named by the steps that carry them. For all-reduce, reduce-scatter and all-gather a buffer of n ranks has the pieces 0 to
n - 1; for all-to-all piece (a, b) is the data of rank a for rank b. In programs that all ranks share the numbers are relative to the rank,
in the way of the step's peer: offsets for `shift`, bit patterns for `xor`.

A buffer may be cut finer: if ranks have programs of their own that name higher pieces, it has k * n of them, as few as that takes, and
rank r has the k from r * k on. Three names have a meaning of their own (see `astra_sim.schedule_bytes`):

* `("lower", p)` and `("upper", p)`: the two parts of piece p. All messages of a program that all ranks share may carry such parts.
* `(ALL, p)`: the network joins piece p of all ranks, as they have it at the start; the message brings the sum.
* `UNNAMED` or `(UNNAMED, share)`: data of which only the bytes are known. Then the check is that every rank hears of every other, and
  that enough bytes are sent in all; of messages that do not grow with the collective (not `scales`) not even that.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable

from astra_sim.errors import ScheduleError
from astra_sim.schedule import Collective, LoweredProgram, Peer, Request, Schedule, Step, lower
from astra_sim.schedule_bytes import ALL, PARTS, UNNAMED, check_bytes, check_message, cut_of, has_parts, is_unnamed

from astra_sim_devkit.testing.requirement import require

Contents = dict[Hashable, Counter[int]]
"""The data of a rank: for each piece, the count of each rank's contribution."""


def check_schedule(schedule: Schedule, request: Request, scales: bool = True) -> list[Contents]:
    """Run a schedule and check its outcome. Returns the final pieces of each rank.

    After an all-reduce every rank holds every rank's contribution to every piece exactly once; after a reduce-scatter the ranks hold one
    complete piece each; after an all-gather every rank holds every piece; after an all-to-all its pieces from all others. Every message is
    as large as its pieces. Raises AssertionError if not, or if a rank does not finish.
    """
    try:
        contents = _checked(schedule, request)
        check_bytes(schedule, request, scales)
    except ScheduleError as error:
        raise AssertionError(str(error)) from None
    return contents


def _checked(schedule: Schedule, request: Request) -> list[Contents]:
    """The same, but for the bytes that the collective needs in all."""
    n, cut = schedule.ranks, 1 if has_parts(schedule) else cut_of(schedule)
    contents = _move(schedule, request, cut)
    if any(UNNAMED in held for held in contents):
        for rank, held in enumerate(contents):
            missing = [other for other in range(n) if other not in held.get(UNNAMED, Counter([rank]))]
            require(not missing, f"rank {rank} never hears of ranks {missing}")
        return contents
    complete = Counter(range(n))
    for rank, held in enumerate(contents):
        if request.collective is Collective.ALL_REDUCE:
            for piece in range(n * cut):
                require(held[piece] == complete, f"rank {rank} holds {_words(held[piece])} of piece {piece}")
        elif request.collective is Collective.ALL_GATHER:
            for piece in range(n * cut):
                require(held.get(piece) == Counter([piece // cut]), f"rank {rank} does not hold piece {piece}")
        elif request.collective is Collective.ALL_TO_ALL:
            for source in range(n):
                for piece in range(rank * cut, (rank + 1) * cut):
                    whole = held.get((source, piece)) == Counter([source])
                    require(whole, f"rank {rank} does not hold the data that rank {source} has for it")
    if request.collective is Collective.REDUCE_SCATTER:
        whole_of = [{piece for piece in range(n * cut) if held[piece] == complete} for held in contents]
        for rank, pieces in enumerate(whole_of):
            require(len(pieces) == cut, f"rank {rank} holds {len(pieces)} complete pieces; expected {'one' if cut == 1 else cut}")
        require(set().union(*whole_of) == set(range(n * cut)), "some piece is complete on no rank")
    return contents


def _merged(held: Contents) -> Contents:
    """The data of a rank in whole pieces, of parts of pieces: contributions that are in both."""
    lower, upper = ({name[1]: held[name] for name in held if isinstance(name, tuple) and name[0] == part} for part in PARTS)
    return {piece: lower[piece] & upper[piece] for piece in lower.keys() & upper.keys()}


def _words(held: Counter[int]) -> str:
    return ", ".join(f"the contribution of rank {rank} {times} times" for rank, times in sorted(held.items()))


def _initial(rank: int, request: Request, cut: int) -> Contents:
    n = request.ranks
    if request.collective is Collective.ALL_GATHER:
        return {piece: Counter([rank]) for piece in range(rank * cut, (rank + 1) * cut)}
    if request.collective is Collective.ALL_TO_ALL:
        return {(rank, piece): Counter([rank]) for piece in range(n * cut)}
    return {piece: Counter([rank]) for piece in range(n * cut)}


def _absolute(piece: Hashable, peer: Peer, rank: int, ranks: int) -> Hashable:
    if isinstance(piece, tuple):
        return tuple(_absolute(part, peer, rank, ranks) for part in piece)
    if peer.operator == "rank" or not isinstance(piece, int):
        return piece
    return Peer(peer.operator, piece).of(rank, ranks)


class _PieceRank:
    def __init__(self, schedule: Schedule, index: int, held: Contents) -> None:
        steps = schedule.program(index).steps
        self.index = index
        self.steps = [once for step in steps for once in step.unrolled()]
        self.reduces = [step.reduce for step in self.steps if step.receive_from is not None]
        self.tokens = schedule.program(index).starts
        self.arrivals = 0
        self.next_step = 0
        self.posted = 0
        self.held = held
        self.early: dict[int, Contents] = {}
        self.awaited: set[int] = set()

    def absorb(self, receipt: int, data: Contents) -> None:
        """Add the content of a message, according to its receive, for one more token."""
        for piece, contribution in data.items():
            if piece == UNNAMED:
                self.held[piece] = self.held.get(piece, Counter([self.index])) | contribution
            elif self.reduces[receipt]:
                self.held[piece] = self.held.get(piece, Counter()) + contribution
            else:
                self.held[piece] = contribution
        self.tokens += 1
        self.arrivals += 1


def _move(schedule: Schedule, request: Request, cut: int) -> list[Contents]:
    """Run the schedule with messages delivered in the order they are sent."""
    delivery = _PieceDelivery(schedule, request, cut)
    delivery.run()
    return delivery.contents()


class _PieceDelivery:
    """Ranks that take the steps of a schedule, and the messages between them that are under way."""

    def __init__(self, schedule: Schedule, request: Request, cut: int) -> None:
        self._request, self._size_cut = request, cut_of(schedule)
        self._count = schedule.ranks
        self._programs = lower(schedule)
        self._has_parts = has_parts(schedule)
        initial = [_initial(index, request, cut) for index in range(self._count)]
        if self._has_parts:
            initial = [{(part, piece): Counter(count) for part in PARTS for piece, count in held.items()} for held in initial]
        self._initial = initial
        self._ranks = [_PieceRank(schedule, index, dict(held)) for index, held in enumerate(initial)]
        self._wire: deque[tuple[int, int, Contents]] = deque()

    def run(self) -> None:
        """Let every rank go on until nothing is under way."""
        for index in range(self._count):
            self._advance(index)
        while self._wire:
            target, receipt, data = self._wire.popleft()
            state = self._ranks[target]
            if receipt in state.awaited:
                state.awaited.remove(receipt)
                state.absorb(receipt, data)
            else:
                state.early[receipt] = data
            self._advance(target)

    def contents(self) -> list[Contents]:
        """The final data of each rank. Raises AssertionError if one has not done all its steps."""
        for index, state in enumerate(self._ranks):
            program = self._program(index)
            require(state.next_step == len(program.actions), f"rank {index} stops at step {state.next_step + 1} of {len(program.actions)}")
            require(state.tokens == program.tokens, f"rank {index} waits for {len(state.awaited)} messages that never come")
        return [_merged(state.held) if self._has_parts else state.held for state in self._ranks]

    def _program(self, index: int) -> LoweredProgram:
        return self._programs[index % len(self._programs)]

    def _advance(self, index: int) -> None:
        """Take the steps of a rank for which it has all tokens."""
        state, program = self._ranks[index], self._program(index)
        while state.next_step < len(program.actions):
            action = program.actions[state.next_step]
            if state.tokens < action.after or state.arrivals < action.after_arrivals:
                return
            step = state.steps[state.next_step]
            state.next_step += 1
            if action.send_to is not None:
                self._wire.append((action.send_to.of(index, self._count), action.receipt, self._message(index, step)))
            if action.receive_from is not None:
                if action.own_receipt in state.early:
                    state.absorb(action.own_receipt, state.early.pop(action.own_receipt))
                else:
                    state.awaited.add(action.own_receipt)

    def _message(self, index: int, step: Step) -> Contents:
        """The data of a rank's message."""
        to, held = step.send_to or Peer("shift", 0), self._ranks[index].held
        names = [UNNAMED if is_unnamed(piece) else _absolute(piece, to, index, self._count) for piece in step.pieces_of(0)]
        data_bytes = step.data_bytes
        require(data_bytes >= 0, f"rank {index} sends {step.bytes} bytes to {step.send_to}, of which {step.overhead_bytes} carry no data")
        if not names and not data_bytes:
            return {}
        require(bool(names), f"rank {index} sends a message to {step.send_to} that names no pieces")
        check_message(data_bytes, names, self._request, self._size_cut, f"rank {index}")
        data: Contents = {}
        for name in names:
            if name == UNNAMED:
                data[name] = held.setdefault(UNNAMED, Counter([index]))
            elif isinstance(name, tuple) and name[0] == ALL:
                data[name[1]] = sum((contents.get(name[1], Counter()) for contents in self._initial), Counter())
            else:
                require(name in held, f"rank {index} sends piece {name}, which it does not hold")
                data[name] = held[name]
        return data
