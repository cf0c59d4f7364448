"""The proof of a plan: its messages are moved, and every rank must end with the data that the collective defines.

A rank's data of a piece is the set of ranks whose data are in it, as the bits of a number. Sums are of disjoint sets, so nothing is
added twice. Of an all-to-all a rank's data of another rank is the set of pieces that it has, likewise. Ranks take their steps by the rules
of schedules, so the proof also shows that no rank waits for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping

import attrs
from astra_sim.errors import ScheduleError
from astra_sim.schedule import Collective, Peer, Request, Schedule, Step, lower
from astra_sim.schedule_bytes import Pairs, check_bytes, cut_of, has_parts

Held = dict[Hashable, int]


def prove(schedule: Schedule, request: Request) -> str:
    """Describe the proof of a schedule that has a program for each rank, or `is_one_for_all`. Raises ScheduleError if it is not right."""
    check_bytes(schedule, request)
    pieces = cut_of(schedule)
    run = _OneForAllRun(schedule, request, pieces) if is_one_for_all(schedule, request) else _ProofRun(schedule, request, pieces)
    run.go()
    _check(run.held, request, pieces)
    return f"every rank ends with its {request.ranks * pieces} pieces; {schedule.total_messages()} messages, none added twice"


def is_one_for_all(schedule: Schedule, request: Request) -> bool:
    """Whether one rank proves an all-to-all for all: each does the same, relative to itself, with peers at distances."""
    if not schedule.is_shared or request.collective is not Collective.ALL_TO_ALL or has_parts(schedule):
        return False
    return all(run.first.operator == "shift" for step in schedule.programs[0].steps for run in step.peers())


def named_by_owner(schedule: Schedule, request: Request) -> Schedule:
    """The same reduce-scatter with other names of pieces: those that a rank has summed in the end are its own.

    Algorithms may leave them anywhere. Other collectives are as they were.
    """
    if request.collective is not Collective.REDUCE_SCATTER:
        return schedule
    pieces, everyone = cut_of(schedule), (1 << request.ranks) - 1
    run = _ProofRun(schedule, request, pieces)
    run.go()
    name: dict[Hashable, Hashable] = {}
    for rank, held in enumerate(run.held):
        complete = sorted(piece for piece, ranks in held.items() if ranks == everyone and isinstance(piece, int))
        name |= dict(zip(complete, range(rank * pieces, (rank + 1) * pieces), strict=False))
    programs = [
        attrs.evolve(program, steps=tuple(_renamed(step, name) for step in program.steps))
        for program in schedule.programs
    ]  # fmt: skip
    return attrs.evolve(schedule, programs=tuple(programs))


def _check(held: list[Held], request: Request, pieces: int) -> None:
    """Raise ScheduleError if a rank does not end with the data that the collective defines."""
    n, kind = request.ranks, request.collective
    everyone = (1 << n) - 1
    for rank, has in enumerate(held):
        if kind is Collective.ALL_TO_ALL:
            of_rank = ((1 << pieces) - 1) << rank * pieces
            for source in range(n):
                if has.get(source, 0) & of_rank != of_rank:
                    raise ScheduleError(f"at the end rank {rank} does not hold the data that rank {source} has for it")
            continue
        if kind is Collective.ALL_GATHER:
            wanted: Held = {piece: 1 << piece // pieces for piece in range(n * pieces)}
        elif kind is Collective.REDUCE_SCATTER:
            wanted = dict.fromkeys(range(rank * pieces, (rank + 1) * pieces), everyone)
        else:
            wanted = dict.fromkeys(range(n * pieces), everyone)
        for piece, ranks in wanted.items():
            if has.get(piece, 0) != ranks:
                raise ScheduleError(f"at the end rank {rank} holds piece {piece} of {has.get(piece, 0).bit_count()} ranks")


class _ProofRun:
    """Ranks that take their steps; messages arrive in the order in which they are sent."""

    def __init__(self, schedule: Schedule, request: Request, pieces: int, followed: int | None = None) -> None:
        """Follow all ranks, or the first ones alone."""
        self._ranks = request.ranks
        n = followed or request.ranks
        self._bits: dict[int, int] = {}  # by the address of a list of the schedule, which stays as long as this
        self._by_owner = request.collective is Collective.ALL_TO_ALL
        self._programs = lower(schedule)
        self._steps = [[once for step in schedule.program(r).steps for once in step.unrolled()] for r in range(n)]
        self._reduces = [[step.reduce for step in steps if step.receive_from is not None] for steps in self._steps]
        self._tokens = [schedule.program(r).starts for r in range(n)]
        self._next, self._posted = [0] * n, [0] * n
        self._early: list[dict[int, Held]] = [{} for _ in range(n)]
        self._wire: deque[tuple[int, int, Held]] = deque()
        self.held = [_at_start(r, request, pieces) for r in range(n)]

    def go(self) -> None:
        """Let every rank go on until nothing is under way. Raises ScheduleError if one does not take all its steps."""
        for rank in range(len(self.held)):
            self._advance(rank)
        while self._wire:
            rank, receipt, data = self._wire.popleft()
            if receipt < self._posted[rank]:
                self._absorb(rank, receipt, data)
                self._advance(rank)
            else:
                self._early[rank][receipt] = data
        for rank in range(len(self.held)):
            if self._next[rank] < len(self._steps[rank]) or self._early[rank]:
                raise ScheduleError(f"rank {rank} waits for ever at step {self._next[rank] + 1} of {len(self._steps[rank])}")

    def _advance(self, rank: int) -> None:
        """Take the steps of a rank that it can take."""
        actions = self._programs[rank].actions
        while self._next[rank] < len(actions):
            action, step = actions[self._next[rank]], self._steps[rank][self._next[rank]]
            if self._tokens[rank] < action.after:
                return
            self._next[rank] += 1
            if action.send_to is not None:
                data = self._taken(rank, step.pieces_of(0))
                self._post(rank, action.send_to, action.receipt, data)
            if action.receive_from is not None:
                self._posted[rank] += 1
                if action.own_receipt in self._early[rank]:
                    self._absorb(rank, action.own_receipt, self._early[rank].pop(action.own_receipt))

    def _post(self, rank: int, peer: Peer, receipt: int, data: Held) -> None:
        self._wire.append((peer.of(rank, self._ranks), receipt, data))

    def _taken(self, rank: int, names: Iterable[Hashable]) -> Held:
        """The data of the pieces of a message. Raises ScheduleError if its sender does not hold one."""
        held = self.held[rank]
        if not self._by_owner:
            for piece in names:
                if piece not in held:
                    raise ScheduleError(f"rank {rank} sends piece {piece}, which it does not hold")
            return {piece: held[piece] for piece in names}
        data = self._product(names) if isinstance(names, Pairs) else self._by_one(names)
        for owner, pieces in data.items():
            if held.get(owner, 0) & pieces != pieces:
                raise ScheduleError(f"rank {rank} sends data of rank {owner} that it does not hold")
        return data

    def _product(self, names: Pairs) -> Held:
        """The pieces (a, b) of a message: of each a all b, as bits. Many messages share the list of b."""
        known = self._bits.get(id(names.pieces))
        if known is None:
            known = self._bits[id(names.pieces)] = sum(1 << piece for piece in names.pieces)
        return dict.fromkeys(names.owners, known)

    def _by_one(self, names: Iterable[Hashable]) -> Held:
        """The same of pieces that are listed; those that all ranks share a program for may count from either end."""
        data: Held = {}
        for name in names:
            if not (isinstance(name, tuple) and isinstance(name[0], int) and isinstance(name[1], int)):
                raise ScheduleError(f"a message of an all-to-all carries {name!r}; expected pairs of a rank and a piece")
            owner, piece = name if len(self.held) == self._ranks else (name[0] % self._ranks, name[1] % self._ranks)
            data[owner] = data.get(owner, 0) | 1 << piece
        return data

    def _absorb(self, rank: int, receipt: int, data: Held) -> None:
        self._tokens[rank] += 1
        held, reduces = self.held[rank], self._reduces[rank][receipt]
        for piece, ranks in data.items():
            if reduces and held.get(piece, 0) & ranks:
                raise ScheduleError(f"rank {rank} adds data to piece {piece} that are in it already")
            held[piece] = held.get(piece, 0) | ranks if reduces or self._by_owner else ranks


class _OneForAllRun(_ProofRun):
    """Rank 0 of ranks that all do the same at once: what it sends to a distance comes to it from there, seen from one rank further."""

    def __init__(self, schedule: Schedule, request: Request, pieces: int) -> None:
        super().__init__(schedule, request, pieces, 1)

    def _post(self, rank: int, peer: Peer, receipt: int, data: Held) -> None:
        n, distance = self._ranks, peer.value % self._ranks
        moved: Held = {}
        for owner, pieces in data.items():
            assert isinstance(owner, int)
            moved[(owner - distance) % n] = (pieces >> distance | pieces << n - distance) & (1 << n) - 1
        self._wire.append((rank, receipt, moved))


def _at_start(rank: int, request: Request, pieces: int) -> Held:
    n, contribution = request.ranks, 1 << rank
    if request.collective is Collective.ALL_GATHER:
        return dict.fromkeys(range(rank * pieces, (rank + 1) * pieces), contribution)
    if request.collective is Collective.ALL_TO_ALL:
        return {rank: (1 << n * pieces) - 1}
    return dict.fromkeys(range(n * pieces), contribution)


def _renamed(step: Step, name: Mapping[Hashable, Hashable]) -> Step:
    """A step whose pieces have other names."""
    return attrs.evolve(step, pieces=[name.get(piece, piece) for piece in step.pieces_of(0)])
