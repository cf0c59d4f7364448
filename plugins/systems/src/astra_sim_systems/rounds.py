"""The rounds of a schedule: messages that are on their way at once if each takes as long as any other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from astra_sim.schedule import Peer, PeerRun, RankProgram, Schedule, Step

MOST_MESSAGES = 1 << 16
"""Of a schedule with a program for each rank, that are looked at."""

Pairs = tuple[tuple[int, int], ...]
"""The ranks that send and receive a message each."""


class RoundSends(NamedTuple):
    """Messages of a round, all of `bytes` bytes: of every rank to some peers, or those of some pairs of ranks."""

    pattern: PeerRun | Pairs
    bytes: int


Round = tuple[RoundSends, ...]


class SharedSends(NamedTuple):
    """What every rank sends in a round by a step that all share: a number of messages, each of its bytes, to each of some peers."""

    pattern: PeerRun
    step: Step
    messages: int


def rounds_of(schedule: Schedule) -> Mapping[Round, int] | None:
    """The different rounds, with how often each comes. None if there are too many messages to look at, or a rank waits for ever."""
    if schedule.exchanges is None:
        return _pair_rounds(schedule) if schedule.total_messages() <= MOST_MESSAGES else None
    rounds = shared_rounds(schedule.programs[0], schedule.ranks)
    if rounds is None:
        return None
    result = Counter[Round]()
    for sends, repeats in rounds:
        result[tuple(RoundSends(each.pattern, each.step.bytes * each.messages) for each in sends)] += repeats
    return result


class _Taken(NamedTuple):
    """Repetitions of a step, one after another."""

    step: Step
    first: int
    times: int


class _RoundRank:
    """The progress of a rank in its program."""

    def __init__(self, program: RankProgram) -> None:
        self._steps = program.steps
        self._at = self._repetition = self._sent = 0
        self.tokens, self.arrivals = program.starts, 0

    @property
    def has_ended(self) -> bool:
        """Whether all steps are taken."""
        return self._at == len(self._steps)

    def arrive(self, messages: int) -> None:
        """Messages have arrived."""
        self.tokens += messages
        self.arrivals += messages

    def take(self) -> Iterator[_Taken]:
        """Take all steps that can be taken."""
        while not self.has_ended:
            step, sends = self._steps[self._at], self._steps[self._at].send_to is not None
            times = step.times - self._repetition
            if step.after_arrivals > self.arrivals or (step.after is not None and step.after > self.tokens):
                return
            if step.after is None:
                spare = self.tokens - self._sent
                times = min(times, spare) if sends else times * (spare > 0)
            if times <= 0:
                return
            yield _Taken(step, self._repetition, times)
            self._sent += times * sends
            self._repetition += times
            if self._repetition == step.times:
                self._at, self._repetition = self._at + 1, 0

    def repeat(self, taken: _Taken) -> int:
        """The number of times that received data are sent on: alone, and each time when they have arrived."""
        step = taken.step
        if step.stride or step.after is not None or not self._repetition or self.tokens - self._sent != taken.times:
            return 0
        # The 2046 equal rounds of an all-reduce on a ring of 1024 ranks are counted at once.
        more = (step.times - self._repetition) // taken.times
        self._repetition += more * taken.times
        self._sent += more * taken.times
        self.arrive(more * taken.times)
        if self._repetition == step.times:
            self._at, self._repetition = self._at + 1, 0
        return more


def shared_rounds(program: RankProgram, ranks: int) -> Sequence[tuple[Sequence[SharedSends], int]] | None:
    """Those of a program that all ranks share, one after another: a rank receives as much in a round as it sends.

    Each is with how often it comes then. None if a rank waits for ever. Bytes have no influence.
    """
    rank, result = _RoundRank(program), []
    while not rank.has_ended:
        taken = list(rank.take())
        if not taken:
            return None
        rank.arrive(sum(each.times for each in taken))
        again = rank.repeat(taken[0]) if len(taken) == 1 else 0
        result.append(([_shared_sends(each, ranks) for each in taken], 1 + again))
    return result


def _shared_sends(taken: _Taken, ranks: int) -> SharedSends:
    to, (step, first, times) = taken.step.send_to, taken
    assert to is not None
    peer: Peer = to.moved(first * step.stride).normal(ranks)
    return SharedSends(PeerRun(peer, times, step.stride), step, 1) if step.stride and times > 1 else SharedSends(PeerRun(peer), step, times)


def _pair_rounds(schedule: Schedule) -> Mapping[Round, int] | None:
    """Those of a schedule whose ranks do different things."""
    ranks, result = [_RoundRank(schedule.program(number)) for number in range(schedule.ranks)], Counter[Round]()
    while not all(rank.has_ended for rank in ranks):
        sent: dict[int, list[tuple[int, int]]] = {}
        moved = False
        for number, rank in enumerate(ranks):
            for step, first, times in rank.take():
                moved = True
                if step.send_to is not None:
                    for k in range(first, first + times):
                        target = step.send_to.moved(k * step.stride).of(number, schedule.ranks)
                        sent.setdefault(step.bytes, []).append((number, target))
        if not moved:
            return None
        # Messages arrive when all ranks have sent: else a rank with a higher number would answer within the same round.
        for pairs in sent.values():
            for _, target in pairs:
                ranks[target].arrive(1)
        if sent:
            result[tuple(RoundSends(tuple(pairs), size) for size, pairs in sorted(sent.items()))] += 1
    return result
