"""Whether the bytes of a schedule fit the pieces that its messages name, and the collective that it is for.

A rank's buffer of `request.bytes` is cut into pieces: `ranks` of them, or `cut` times as many; in an all-gather it is `cut` of those.
Algorithms that halve or divide cut off fractions, so a message may differ from its pieces by two bytes for each of them.

Three names of pieces have a meaning of their own:

* `(PARTS[i], p)`: a part of piece p. A schedule that all ranks share may cut every piece in two such parts.
* `(ALL, p)`: the network joins piece p of all ranks; the message represents the rank's contribution and its result.
* `UNNAMED`: data of which only the bytes are known, or `(UNNAMED, share)`: they are that share of the bytes that they represent, as those
  of compressed data. Messages of that kind are not compared, but counted with all that a rank sends and receives.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from astra_sim.errors import ScheduleError
from astra_sim.schedule import Collective, RankProgram, Request, Schedule, default_output_bytes

ALL = "all"
UNNAMED = "unnamed"
PARTS = "lower", "upper"
_ROUNDING = 2
"""Bytes by which a message may differ from each of its pieces."""


class Pairs(Sequence[tuple[int, int]]):
    """The pieces (a, b) of an all-to-all for each a of some ranks and each b of some pieces, which are not listed one by one."""

    __slots__ = ("owners", "pieces")

    def __init__(self, owners: Sequence[int], pieces: Sequence[int]) -> None:
        self.owners, self.pieces = owners, pieces

    def __len__(self) -> int:
        return len(self.owners) * len(self.pieces)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return itertools.product(self.owners, self.pieces)

    def __getitem__(self, place: Any) -> Any:
        return list(self)[place]


def performed(schedule: Schedule, request: Request) -> Request:
    """The collective that a schedule performs, which may differ from the requested one."""
    if schedule.collective is None:
        return request
    return Request(schedule.collective, request.ranks, request.bytes, request.direction, request.instance, request.in_group)


def check_bytes(schedule: Schedule, request: Request, scales: bool = True) -> None:
    """Raise ScheduleError if messages are larger or smaller than their pieces, or too few bytes are sent or left at the end.

    If messages do not grow with the collective (not `scales`), those of unnamed data have the bytes of the algorithm.
    Of a repeated step only the first and the last message are checked, so that the time grows with the steps, not with the messages.
    """
    if schedule.ranks < 2:
        return
    request = performed(schedule, request)
    cut = cut_of(schedule)
    places = [(program, "every rank" if schedule.is_shared else f"rank {rank}") for rank, program in schedule.first_places()]
    shares = [_compare_messages(program, request, cut, who) for program, who in places]
    smallest = min((share for share in shares if share is not None), default=None)
    if scales or smallest is None:
        for program, who in places:
            _check_totals(program, request, cut, who, smallest)
    expected = default_output_bytes(request)
    if abs(schedule.output_bytes - expected) > _ROUNDING * cut * schedule.ranks:
        raise ScheduleError(f"{_asked(request)}: output_bytes is {schedule.output_bytes}; expected {expected}")


def check_message(size: int, names: Iterable[Hashable], request: Request, cut: int, who: str) -> None:
    """Raise ScheduleError unless a message of `size` bytes can carry the pieces of those names."""
    expected = _expected(_known(names), request, cut)
    if expected is None:
        return
    least, most, count = expected
    if not least <= size <= most:
        pieces = "a piece" if count == 1 else f"{count} pieces"
        raise ScheduleError(f"{_asked(request)}: {who} sends {pieces} in a message of {size} bytes; expected {least} to {most}")


def has_parts(schedule: Schedule) -> bool:
    """Whether the messages of a schedule that all ranks share carry parts of pieces."""
    if not schedule.is_shared:
        return False
    names = next((_known(step.pieces_of(0)) for step in schedule.programs[0].steps if step.send_to is not None), ())
    return bool(names) and isinstance(names[0], tuple) and names[0][0] in PARTS


def cut_of(schedule: Schedule) -> int:
    """Pieces for each rank: one, or as many as the steps name. The parts of pieces count as pieces."""
    if schedule.is_shared:
        return len(PARTS) if has_parts(schedule) else 1
    highest = -1
    for _, program in schedule.first_places():
        for step in program.steps:
            for repetition in range(step.times) if callable(step.pieces) else (0,):
                highest = max(highest, _highest(_known(step.pieces_of(repetition))))
    return max(1, highest // schedule.ranks + 1)


def _asked(request: Request) -> str:
    return f"{request.collective} of {request.bytes} bytes on {request.ranks} ranks"


def _known(names: Iterable[Hashable]) -> Sequence[Hashable]:
    """Names that can be read more than once. Those of an iterator are not read, since that would use them up."""
    if isinstance(names, (range, list, tuple, Pairs)):
        return names
    return () if iter(names) is names else list(names)


def _highest(names: Sequence[Hashable]) -> int:
    if isinstance(names, range):
        return max(names[0], names[-1]) if names else -1
    if isinstance(names, Pairs):
        return max(names.pieces, default=-1)
    numbers = [name[-1] if isinstance(name, tuple) else name for name in names]
    return max((number for number in numbers if isinstance(number, int)), default=-1)


def _expected(names: Sequence[Hashable], request: Request, cut: int) -> tuple[int, int, int] | None:
    """The smallest and the largest message with pieces of those names, and their number; None if that is not known."""
    count = len(names)
    if not count or unnamed_share(names) is not None:
        return None
    pieces = cut if request.collective is Collective.ALL_GATHER else cut * request.ranks
    floor, ceiling = request.bytes // pieces, -(-request.bytes // pieces)
    least = count
    most = count * (ceiling + _ROUNDING)
    if not isinstance(names, (range, Pairs)) and any(isinstance(name, tuple) and name[0] == ALL for name in names):
        # A rank gives its pieces and gets those of the others; one message represents the larger of the two.
        least, most = max(count - cut, 1), max(most, request.bytes)
    return max(0, least * (floor - _ROUNDING)), most, count


def is_unnamed(name: Hashable) -> bool:
    """Whether a name is that of data of which only the bytes are known."""
    return name == UNNAMED or (type(name) is tuple and len(name) == 2 and name[0] == UNNAMED)


def unnamed_share(names: Iterable[Hashable]) -> float | None:
    """The share that the bytes of unnamed data are of those that they represent; None if all pieces have names.

    Raises ScheduleError for a share that cannot be.
    """
    if isinstance(names, (range, Pairs)):
        return None
    for name in names:
        if is_unnamed(name):
            share: Any = name[1] if isinstance(name, tuple) else 1
            if type(share) not in (int, float) or not 0 < share <= 1:
                raise ScheduleError(f"a message names the pieces {name!r}; expected a share above 0 and at most 1")
            return float(share)
    return None


def _is_numbered(name: Hashable) -> bool:
    """Whether a name is that of a piece with a number, of a part of one, or of a piece between two ranks."""
    return type(name) is int or (type(name) is tuple and len(name) == 2 and (type(name[0]) is int or name[0] in PARTS))


def _compare_messages(program: RankProgram, request: Request, cut: int, who: str) -> float | None:
    """Compare messages with their pieces. Returns the smallest share of unnamed data; None if all have names."""
    smallest = None
    one_piece: set[int] = set()  # sizes of messages with one numbered piece that have been compared
    for step in program.steps:
        if step.send_to is None:
            continue
        if type(step.pieces) is list and len(step.pieces) == 1 and _is_numbered(step.pieces[0]):
            if step.data_bytes in one_piece:
                continue
            one_piece.add(step.data_bytes)
        for repetition in {0, step.times - 1} if callable(step.pieces) else (0,):
            names = _known(step.pieces_of(repetition))
            share = unnamed_share(names)
            if share is None:
                check_message(step.data_bytes, names, request, cut, who)
            else:
                smallest = share if smallest is None else min(share, smallest)
    return smallest


def _check_totals(program: RankProgram, request: Request, cut: int, who: str, smallest: float | None) -> None:
    """Compare a rank's sends and receives with the least that the collective needs.

    Unnamed data counts as the bytes it represents: sent, by the share that its message names; received, by the smallest of the schedule.
    """
    sent = received = 0.0
    for step in program.steps:
        size = step.data_bytes * step.times
        if step.receive_from is not None:
            received += size
        if step.send_to is not None:
            sent += size if smallest is None else size / (unnamed_share(_known(step.pieces_of(0))) or 1)
    received /= smallest or 1
    least_sent, least_received = _least(request)
    slack = 2 * _ROUNDING * request.ranks * cut
    remedy = "" if smallest is None else f" (data that is compressed names the piece ({UNNAMED!r}, share of its bytes))"
    for total, least, verb in ((sent, least_sent, "sends"), (received, least_received, "receives")):
        if total < least - slack / (smallest or 1):
            raise ScheduleError(f"{_asked(request)}: {who} {verb} {total:.0f} bytes; expected at least {least}{remedy}")


def _least(request: Request) -> tuple[int, int]:
    """The fewest bytes that a rank can send and receive.

    A rank must send all that it has at least once, reduced or not, but for its own part of the result. It must receive all that it has at
    the end and did not have at the start.
    """
    n, size = request.ranks, request.bytes
    match request.collective:
        case Collective.ALL_REDUCE:
            return size, size
        case Collective.REDUCE_SCATTER:
            return size * (n - 1) // n, size // n
        case Collective.ALL_GATHER:
            return size, size * (n - 1)
        case _:
            return size * (n - 1) // n, size * (n - 1) // n
