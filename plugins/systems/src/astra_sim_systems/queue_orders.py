"""Orders of a queue: the place of a chunk that enters. Chunks that have started stay in front.

A chunk in an all-reduce or all-to-all phase is always ordered by priority (ASTRA-sim 1.0).
"""

from __future__ import annotations

from astra_sim.schedule import Collective
from astra_sim.system import Rule, RuleOrder

_PAIR = Collective.REDUCE_SCATTER, Collective.ALL_GATHER


def fifo() -> RuleOrder:
    """By priority; of equal priority, first come, first served."""
    return RuleOrder()


def smallest_first() -> RuleOrder:
    """By bytes of the phase, smallest first; of equal size, the latest first."""
    return _unless_fixed(Rule(lambda kind, size, remaining: size, before_equal=True))


def less_remaining_phase_first() -> RuleOrder:
    """By the number of remaining phases, fewest first; of equal number, the latest first."""
    return _unless_fixed(Rule(lambda kind, size, remaining: remaining, before_equal=True))


def rg() -> RuleOrder:
    """Reduce-scatters and all-gathers in turn, as far as priorities allow."""
    return _unless_fixed(Rule(before_equal=True, in_turn=_PAIR))


def _unless_fixed(rule: Rule) -> RuleOrder:
    """By a rule, except if only priority counts."""
    # All-reduce and all-to-all phases keep the default, priority: ASTRA-sim 1.0 ignores the rule for them.
    return RuleOrder(by_kind=dict.fromkeys(_PAIR, rule))
