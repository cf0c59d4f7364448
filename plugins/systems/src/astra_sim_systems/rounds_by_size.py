"""The rounds of schedules that differ in their bytes alone, from one schedule for bytes that have no value.

`auto` compares the schedules of all algorithms for each size of a collective. In most of them the rounds follow from the number of ranks,
and the bytes of a message from those of the request by a few operations on whole numbers. So an algorithm is asked once for a schedule of
`UnknownBytes`, which record these operations. One that needs their value, to compare or to count with, fails, and is asked for each size.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
from astra_sim.context import Algorithm
from astra_sim.memo import ObjectCaches
from astra_sim.schedule import PeerRun, Request, Schedule

from astra_sim_systems.rounds import Round, RoundSends, rounds_of, shared_rounds

LARGEST = 1 << 40
"""Bytes of a request. Of more, an algorithm may be refused because a number in its schedule is too large."""
MOST_KNOWN = 256
"""Requests of an algorithm that differ in more than their bytes."""

Rule = int | tuple[Callable[[int, int], int], Any, Any] | None
"""How a number follows from the bytes of a request: a constant, an operation on two rules, or (None) the bytes themselves."""


@attrs.frozen(eq=False)
class UnknownBytes:
    """The bytes of a request without a value. Sums, differences, products, quotients and shifts are unknown as well."""

    rule: Rule = None

    def __add__(self, other: UnknownBytes | int) -> UnknownBytes:
        return UnknownBytes((operator.add, self.rule, _rule(other)))

    def __radd__(self, other: int) -> UnknownBytes:
        return UnknownBytes((operator.add, _rule(other), self.rule))

    def __sub__(self, other: UnknownBytes | int) -> UnknownBytes:
        return UnknownBytes((operator.sub, self.rule, _rule(other)))

    def __rsub__(self, other: int) -> UnknownBytes:
        return UnknownBytes((operator.sub, _rule(other), self.rule))

    def __mul__(self, other: UnknownBytes | int) -> UnknownBytes:
        return UnknownBytes((operator.mul, self.rule, _rule(other)))

    def __rmul__(self, other: int) -> UnknownBytes:
        return UnknownBytes((operator.mul, _rule(other), self.rule))

    def __floordiv__(self, other: int) -> UnknownBytes:
        return UnknownBytes((operator.floordiv, self.rule, _positive(other)))

    def __mod__(self, other: int) -> UnknownBytes:
        return UnknownBytes((operator.mod, self.rule, _positive(other)))

    def __lshift__(self, other: int) -> UnknownBytes:
        return UnknownBytes((operator.lshift, self.rule, _positive(other + 1) - 1))

    def __rshift__(self, other: int) -> UnknownBytes:
        return UnknownBytes((operator.rshift, self.rule, _positive(other + 1) - 1))

    def __eq__(self, other: object) -> bool:
        raise TypeError("the bytes are not known")

    def __bool__(self) -> bool:
        raise TypeError("the bytes are not known")

    def __str__(self) -> str:
        raise TypeError("the bytes are not known")

    __hash__ = None  # type: ignore[assignment]


def _rule(number: UnknownBytes | int) -> Rule:
    if isinstance(number, UnknownBytes):
        return number.rule
    if type(number) is not int:
        raise TypeError(f"{number!r} is not a whole number")
    return number


def _positive(number: int) -> int:
    if type(number) is not int or number < 1:
        raise TypeError(f"{number!r} is not a whole number of at least 1")
    return number


def _value(rule: Rule, size: int) -> int:
    """The number that a rule gives for some bytes."""
    if rule is None or isinstance(rule, int):
        return size if rule is None else rule
    operation, left, right = rule
    return operation(_value(left, size), _value(right, size))


class ScheduleRounds(NamedTuple):
    """The different rounds of a schedule, with how often each comes, and the messages of a rank."""

    rounds: Mapping[Round, int]
    messages: int


class _Sends(NamedTuple):
    """Messages of a round to some peers, a number of times as many bytes as a rule gives."""

    pattern: PeerRun
    rule: Rule
    times: int


@attrs.frozen(eq=False)
class _RoundsBySize:
    """The rounds of schedules that differ in bytes alone."""

    rounds: Mapping[tuple[_Sends, ...], int]
    rules: Sequence[Rule]
    messages: int

    def of(self, size: int) -> ScheduleRounds:
        """Those for some bytes."""
        values = {rule: _value(rule, size) for rule in self.rules}
        result = Counter[Round]()
        for sends, repeats in self.rounds.items():
            result[tuple([RoundSends(pattern, values[rule] * times) for pattern, rule, times in sends])] += repeats
        return ScheduleRounds(result, self.messages)


def _rounds_by_size(algorithm: Algorithm, request: Request) -> _RoundsBySize | None:
    """The rounds for any bytes; None if the algorithm has to know these, or not all ranks do the same."""
    without_value: Any = UnknownBytes()
    try:
        schedule = algorithm.unchecked(attrs.evolve(request, bytes=without_value))
        rounds = None if schedule.exchanges is None else shared_rounds(schedule.programs[0], schedule.ranks)
        if rounds is None:
            return None
        result = Counter[tuple[_Sends, ...]]()
        for sends, repeats in rounds:
            result[tuple(_Sends(each.pattern, _rule(each.step.bytes), each.messages) for each in sends)] += repeats
    except Exception:  # whatever an algorithm raises that expects a number: it is asked again with one
        return None
    rules = dict.fromkeys(each.rule for sends in result for each in sends)
    return _RoundsBySize(result, tuple(rules), schedule.total_messages() // schedule.ranks)


@attrs.define(eq=False)
class _Asked:
    """What is known of requests that differ in bytes alone."""

    schedules: int = 0
    by_size: _RoundsBySize | None = None


_known: ObjectCaches[Hashable, _Asked] = ObjectCaches("systems: rounds", MOST_KNOWN)


def rounds_for(algorithm: Algorithm, request: Request) -> ScheduleRounds | None:
    """The rounds of the schedule for a request, as `rounds_of` finds them. Raises ScheduleError if the algorithm refuses the request."""
    key = request.collective, request.ranks, request.direction, request.instance, request.in_group
    asked = _known.of(algorithm).value(key, _Asked)
    if asked.schedules == 1:  # a schedule without a value is worth its while from the second request on
        asked.schedules, asked.by_size = 2, _rounds_by_size(algorithm, request)
    if asked.by_size is not None and request.bytes <= LARGEST:
        return asked.by_size.of(request.bytes)
    schedule = algorithm.schedule(request)
    asked.schedules += 1
    return scheduled(schedule)


def scheduled(schedule: Schedule) -> ScheduleRounds | None:
    """The rounds of a schedule, as `rounds_of` finds them."""
    rounds = rounds_of(schedule)
    return None if rounds is None else ScheduleRounds(rounds, schedule.total_messages() // schedule.ranks)
