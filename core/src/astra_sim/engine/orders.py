"""Orders of queues: the place of a job that enters a queue.

An order is a function that is asked about the jobs in the queue, or rules (`RuleOrder`), by which an engine finds the place itself,
in a time that hardly grows with the queue.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from astra_sim._boundary import FLAG, FUNCTION, Expected, Lazily, call, function_name, of_type, shown
from astra_sim.errors import PluginError
from astra_sim.schedule import Collective
from astra_sim.value_objects import ValueObject


class Job(NamedTuple):
    """The state of a queued chunk in one of its phases, as queue orders see it.

    `kind` is the phase's collective, `remaining` the number of phases after this one. Higher `priority` goes first; priorities may only be
    compared with one another.
    """

    priority: int
    kind: str
    bytes: int
    remaining: int


Order = Callable[[Sequence[Job], int, Job], int]
"""The index of a new job in a queue: (jobs in the queue, how many of them have started, the new one) -> index.

The answer depends on nothing else, and on priorities only by which are higher: an engine may remember it. A function is called for every
job that enters a queue, and costs as many steps as jobs it inspects. A `RuleOrder` is an order, too, and is not called: engines follow its
rules.
"""

Key = Callable[[str, int, int], int]
"""The sort key of a rule: (kind, bytes, remaining) of a job -> an integer of at most `MAX_KEY`; it must be a pure function."""

MAX_KEY = 2**63 - 1
"""Keys are 64-bit numbers with a sign."""


def _kinds(kinds: Iterable[str]) -> tuple[Collective, ...]:
    """Kinds of collectives. Raises ValueError for an unknown name."""
    return tuple(map(Collective, kinds))


@attrs.frozen(eq=False, repr=False)
class Rule(ValueObject):
    """A new job goes before the first waiting one whose key is higher than its own, or behind all.

    Without a `key` priorities are compared: the job goes before the first waiting one of a lower priority. With `before_equal` it goes
    before one of the same key or priority, too. Jobs of the two kinds `in_turn` take turns: if two neighbours are of one kind each,
    no job goes between them; and while jobs run, the next one to start stays the next.
    """

    key: Key | None = attrs.field(default=None, validator=FUNCTION.optional())
    before_equal: bool = attrs.field(default=False, validator=FLAG)
    in_turn: tuple[str, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(_kinds))

    @in_turn.validator
    def _check(self, attribute: object, kinds: tuple[str, ...] | None) -> None:
        if kinds is not None and len(set(kinds)) != 2:
            raise ValueError(f"{len(kinds)} kinds take turns: {', '.join(kinds)}; expected two different ones")

    def key_of(self, job: Job) -> int:
        """The key of a job. Raises PluginError unless it is a whole number of 64 bits."""
        if self.key is None:
            return -job.priority
        what = Lazily(lambda: "the key of a queue's order" + function_name(self.key))
        key = call(what, self.key, *job[1:])
        if type(key) is not int or abs(key) > MAX_KEY:
            raise PluginError(f"{what} is {shown(key)} for {job.kind} of {job.bytes} bytes; expected a whole number of 64 bits")
        return key

    def side_of(self, kind: str) -> int:
        """Which of the kinds that take turns a kind is: 1 or 2, or 0 for another."""
        return self.in_turn.index(kind) + 1 if self.in_turn is not None and kind in self.in_turn else 0


class Standing(NamedTuple):
    """A job as the rules of an order see it: the number of the rule that places it, and its key and side by each rule.

    If a rule goes by priority the key is 0 and the job's priority counts.
    """

    rule: int
    keys: tuple[int, ...]
    sides: tuple[int, ...]


def _are_rules(rules: Any, order: Any) -> bool:
    return isinstance(rules, Mapping) and all(isinstance(rule, Rule) for rule in rules.values())


@attrs.frozen(eq=False, repr=False)
class RuleOrder(ValueObject):
    """An order of rules: one for each kind of collective in `by_kind`, and one for all others.

    Called like any order it gives the same place that an engine finds.
    """

    otherwise: Rule = attrs.field(default=Rule(), validator=of_type("a Rule", Rule))
    by_kind: Mapping[str, Rule] = attrs.field(factory=dict, validator=Expected("rules by kind of collective", _are_rules))

    def __attrs_post_init__(self) -> None:
        _kinds(self.by_kind)

    @functools.cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The different rules; that for other kinds is the first."""
        return tuple(dict.fromkeys((self.otherwise, *self.by_kind.values())))

    def standing(self, job: Job) -> Standing:
        """The job as the rules see it. Raises PluginError for a key that is no integer of 64 bits."""
        rules = self.rules
        keys = tuple(0 if rule.key is None else rule.key_of(job) for rule in rules)
        return Standing(rules.index(self._rule_of(job)), keys, tuple(rule.side_of(job.kind) for rule in rules))

    def __call__(self, jobs: Sequence[Job], started: int, job: Job) -> int:
        """Rules compiled to a function: the place of a new job."""
        rule = self._rule_of(job)
        key = rule.key_of(job)
        place = started + 1 if rule.in_turn and started else started
        while place < len(jobs):
            other = rule.key_of(jobs[place])
            sides = {rule.side_of(jobs[place - 1].kind), rule.side_of(jobs[place].kind)} if place > started else set()
            if (other > key or (rule.before_equal and other == key)) and sides != {1, 2}:
                return place
            place += 1
        return len(jobs)

    def _rule_of(self, job: Job) -> Rule:
        return self.by_kind.get(job.kind, self.otherwise)


def place_of(order: Order, jobs: Sequence[Job], running: int, job: Job) -> int:
    """Ask a queue's order for the place of a job. Raises PluginError unless it answers with a place among those that wait."""
    what = Lazily(lambda: "the order of a queue" + function_name(order))
    place = call(what, order, jobs, running, job)
    if type(place) is not int or not running <= place <= len(jobs):
        raise PluginError(f"{what} gave the place {shown(place)}; expected {running} to {len(jobs)}")
    return place
