"""Schedules with a program for each rank that names ranks and pieces by number: the input of a proof, and of a file."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from astra_sim.errors import ScheduleError
from astra_sim.platform import Group, LogicalDimension
from astra_sim.schedule import Peer, RankProgram, Request, Schedule, Step, rank, receive, send
from astra_sim.schedule_bytes import PARTS, UNNAMED, Pairs, has_parts
from astra_sim.system import PhasePlan


def expanded(schedule: Schedule) -> Schedule:
    """The same schedule by numbers. Raises ScheduleError for pieces that a switch joins."""
    n = schedule.ranks
    if not schedule.is_shared and all(map(_is_by_number, schedule.programs)):
        return schedule
    parts = has_parts(schedule)
    programs = []
    for index in range(n):
        program = schedule.program(index)
        steps = _steps(program, index, n, 0, lambda step, index=index: _absolute(step, index, n, parts))  # type: ignore[misc]
        programs.append(RankProgram(tuple(steps), 1))
    return Schedule(n, tuple(programs), schedule.output_bytes, schedule.collective)


def _is_by_number(program: RankProgram) -> bool:
    """Whether each step of a program is one send of pieces to a rank or one receive from it, all by number."""
    if program.starts != 1:
        return False
    for step in program.steps:
        if step.times != 1 or (step.send_to is None) == (step.receive_from is None) or step.after is None or step.after_arrivals:
            return False
        if (step.send_to or step.receive_from or rank(0)).operator != "rank":
            return False
        if not isinstance(step.pieces, Pairs) and any(isinstance(piece, tuple) and piece[0] in PARTS for piece in step.pieces_of(0)):
            return False
    return True


def merged_schedule(request: Request, phases: Sequence[PhasePlan], npus: int) -> Schedule:
    """The phases of a system layer as one schedule of all NPUs. Each rank begins a phase when it has done the one before.

    Of the data only the bytes are known, but for a single phase of all NPUs.
    """
    if len(phases) == 1 and _is_whole(phases[0].logical, npus):
        return expanded(phases[0].schedule)
    steps: list[list[Step]] = [[] for _ in range(npus)]
    received = [0] * npus
    for phase in phases:
        schedule = phase.schedule
        for members in phase.logical.groups(npus):
            for place, npu in enumerate(members):
                program = schedule.program(place)
                own = _steps(program, place, schedule.ranks, received[npu], lambda step: [UNNAMED], members)
                steps[npu] += own
                received[npu] += sum(step.receive_from is not None for step in own)
    return Schedule.per_rank(request, [RankProgram(tuple(each)) for each in steps])


def _is_whole(logical: LogicalDimension | Group, npus: int) -> bool:
    return logical.size == npus and list(logical.group(0)) == list(range(npus))


def _steps(
    program: RankProgram,
    index: int,
    ranks: int,
    before: int,
    pieces: Callable[[Step], list[Hashable]],
    members: Sequence[int] | None = None,
) -> list[Step]:
    """The steps of a rank, after `before` receives of earlier phases; an exchange is a send and a receive."""
    steps: list[Step] = []
    sends = 0
    for step in program.steps:
        for once in step.unrolled():
            needed = sends + 1 if once.after is None else once.after
            after = 1 + before + max(0, needed - program.starts, once.after_arrivals)
            if once.send_to is not None:
                steps.append(send(_peer(once.send_to, index, ranks, members), once.bytes, after=after, pieces=pieces(once)))
                sends += 1
            if once.receive_from is not None:
                peer = _peer(once.receive_from, index, ranks, members)
                wait = after if once.send_to is None and (once.after or once.after_arrivals) else 0
                steps.append(receive(peer, once.bytes, after=wait, reduce=once.reduce, memory_bytes=once.memory_bytes))
    return steps


def _peer(peer: Peer, index: int, ranks: int, members: Sequence[int] | None) -> Peer:
    number = peer.of(index, ranks)
    return rank(number if members is None else members[number])


def _absolute(step: Step, index: int, ranks: int, parts: bool) -> list[Hashable]:
    assert step.send_to is not None
    return [_number(piece, step.send_to, index, ranks, parts) for piece in _named(step)]


def _named(step: Step) -> Iterable[Hashable]:
    return step.pieces_of(0)


def _number(piece: Hashable, peer: Peer, index: int, ranks: int, parts: bool) -> Hashable:
    """The piece of a message by its number, seen from the rank that sends it. Raises ScheduleError."""

    def of(number: object) -> int:
        if not isinstance(number, int):
            raise ScheduleError(f"a message carries {piece!r}; expected pieces by number")
        return number if peer.operator == "rank" else Peer(peer.operator, number).of(index, ranks)

    if not isinstance(piece, tuple):
        return of(piece)
    if parts and piece[0] in PARTS:
        half, whole = PARTS.index(piece[0]), piece[1]
        if isinstance(whole, tuple):
            return of(whole[0]), 2 * of(whole[1]) + half
        return 2 * of(whole) + half
    return of(piece[0]), of(piece[1])
