"""The mean time of a job by use, by the complete model.

The complete model of Daly holds for one level of checkpoints: between two of them the job makes T + C of progress, an interruption within
throws it back to the last one, and a restart that is interrupted begins again. Its time is divided here into work, writing, repeated
work, and the parts of restarts. Levels are nested: the time of a level between two of its checkpoints, interruptions of
its own included, is the time between that the next level sees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from astra_sim.errors import InputError

from astra_sim_goodput.closed_forms import daly_interval, erlang_b, young_interval
from astra_sim_goodput.plan import HOUR, GoodputPlan

PARTS = ("useful", "checkpoint", "lost", "detect", "replace", "load", "waiting", "degraded")
"""`lost` is repeated work, `waiting` for a node, `degraded` the loss of fewer nodes and of faults that slow the job."""
BY_INTERRUPTIONS = ("lost", "detect", "replace", "load", "waiting")
"""What interruptions cost."""

_LARGEST_EXPONENT = 500.0
_MOST_IN_REPAIR = 100_000


def shares_of(plan: GoodputPlan, interval_s: float) -> dict[str, float]:
    """The shares of time of `PARTS`, which add up to 1. Raises InputError if a checkpoint is hardly ever reached."""
    waiting, missing = missing_nodes(plan)
    degraded = 1 - (1 - missing) * fault_speed(plan)
    running = _running(plan, interval_s)
    scale = (1 - waiting) * (1 - degraded)
    shares = {part: running.get(part, 0.0) * scale for part in PARTS}
    return shares | {"waiting": waiting, "degraded": (1 - waiting) * degraded}


def best_interval(plan: GoodputPlan) -> float:
    """The work between two checkpoints for which most time is useful: Daly's optimum for one level, else by golden section.

    Infinite if nothing interrupts the job. Raises InputError if writing takes no time, and so any interval is too long.
    """
    mtti, write = plan.mtti_s, sum(level.write_s / level.every for level in plan.levels)
    if math.isinf(mtti):
        return math.inf
    if write <= 0:
        raise InputError(f"{plan.name}: a checkpoint takes no time, so the shorter the interval the better; expected an interval")
    if len(plan.levels) == 1 and plan.drain_s == 0:
        return daly_interval(mtti, write)
    guess = young_interval(mtti, write)
    low, high = math.log(guess / 100), math.log(guess * 30)
    low = max(low, math.log(plan.drain_s / plan.levels[-1].every)) if plan.drain_s else low
    high = max(high, low + 1)
    ratio = (math.sqrt(5) - 1) / 2
    while high - low > 1e-9:
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if _useful(plan, math.exp(a)) < _useful(plan, math.exp(b)):
            low = a
        else:
            high = b
    return math.exp((low + high) / 2)


def _useful(plan: GoodputPlan, interval_s: float) -> float:
    try:
        return _running(plan, interval_s)["useful"]
    except InputError:
        return 0.0


def fault_speed(plan: GoodputPlan) -> float:
    """The mean speed of the job with its faults, 1 without any: the product of exp(-a (1 - s)) over their classes.

    Of each class the number present is Poisson's with mean a, whatever the time of repairs is distributed like (M/G/infinity), and each
    fault slows the job to the share s, faults by themselves: E[s^N] = exp(-a (1 - s)).
    """
    return math.exp(-math.fsum(fault.mean_present * (1 - fault.speed) for fault in plan.faults))


def missing_nodes(plan: GoodputPlan) -> tuple[float, float]:
    """The share of time in which the job waits for a node, and the share of its nodes that it lacks while it runs.

    Nodes in repair are those of a birth-death process: they come at the rate of interruptions while the job runs, and each leaves after
    a repair. With `wait` that is Erlang's loss formula, which holds for repairs of any distribution.
    """
    single = plan.repairs * (sum(plan.rates.values()) - plan.clock.correlated_rate) / HOUR
    batches = [(each.nodes, each.rate / HOUR) for each in plan.clock.correlated]
    if plan.spares is None or plan.repair_s == 0 or not (single or batches):
        return 0.0, 0.0
    if not plan.shrinks and not batches:
        return erlang_b(plan.spares + 1, single * plan.repair_s), 0.0
    away = _nodes_in_repair(plan, [(1, single), *batches])
    lacking = [max(0, number - plan.spares) for number in range(len(away))]
    if not plan.shrinks:
        return math.fsum(share for share, lacks in zip(away, lacking, strict=True) if lacks), 0.0
    return 0.0, math.fsum(share * lacks for share, lacks in zip(away, lacking, strict=True)) / plan.nodes


def _nodes_in_repair(plan: GoodputPlan, batches: Sequence[tuple[int, float]]) -> list[float]:
    """The share of time with each number of nodes in repair, by the recursion of Kaufman (1981) and Roberts: j q(j) = sum k a_k q(j - k).

    `batches` are numbers of nodes k that fail together, and how often (1/s); they come back together, a_k on average. Fewer nodes that run
    fail less often; none do while the job waits, for which the recursion is an approximation if nodes fail together.
    """
    assert plan.spares is not None
    most = min(plan.nodes + plan.spares, _MOST_IN_REPAIR) if plan.shrinks else plan.spares + max(nodes for nodes, _ in batches)
    weights, total = [1.0], 1.0
    mean, widest = sum(nodes * rate for nodes, rate in batches) * plan.repair_s, max(nodes for nodes, _ in batches)
    for away in range(1, most + 1):
        before = ((nodes, rate, away - nodes) for nodes, rate in batches if away >= nodes)
        weights.append(sum(nodes * rate * weights[at] * _running_share(plan, at) for nodes, rate, at in before) * plan.repair_s / away)
        total += weights[-1]
        if plan.shrinks and away > mean + widest and sum(weights[-widest:]) < 1e-18 * total:
            break
        if total > 1e200:
            weights, total = [weight / total for weight in weights], 1.0
    return [weight / total for weight in weights]


def _running_share(plan: GoodputPlan, away: int) -> float:
    """The share of the job's nodes that run, and may fail, while `away` nodes are in repair."""
    lacks = max(0, away - (plan.spares or 0))
    if not lacks:
        return 1.0
    return max(0, plan.nodes - lacks) / plan.nodes if plan.shrinks else 0.0


def _running(plan: GoodputPlan, interval_s: float) -> dict[str, float]:
    """The shares while the job has its nodes."""
    mtti, last = plan.mtti_s, plan.levels[-1]
    if plan.drain_s > interval_s * last.every * (1 + 1e-9):
        raise InputError(
            f"{plan.name}: a checkpoint is written for {plan.drain_s:g} s beside training, and the next one of its level follows after"
            f" {interval_s * last.every:g} s of work; expected a longer interval"
        )
    spent = {"useful": interval_s, "checkpoint": 0.0}
    every = 1
    for level in plan.levels:
        spent = {part: time * (level.every // every) for part, time in spent.items()}
        every = level.every
        spent["checkpoint"] += level.write_s
        drain = plan.drain_s if level is last else 0.0
        spent["checkpoint"] += drain * (1 - 1 / plan.slowdown)
        if level.recovers == 0 or math.isinf(mtti):
            continue
        apart = mtti / level.recovers
        nominal = sum(spent.values())
        if nominal / apart > _LARGEST_EXPONENT:
            raise InputError(
                f"{plan.name}: {nominal:g} s pass between two checkpoints of {level.name}, and {apart:g} s between two interruptions after"
                " which it is loaded: none is ever reached; expected a shorter interval"
            )
        interruptions = math.expm1(nominal / apart)
        spent["lost"] = spent.get("lost", 0.0) + apart * interruptions - nominal
        # The last checkpoint may not be complete yet: the one before it is loaded, and its work is repeated like a part of the restart.
        stages = {"detect": plan.detect_s, "replace": plan.replace_s, "load": level.load_s, "lost": drain}
        whole, begin = sum(stages.values()), 0.0
        if whole / mtti > _LARGEST_EXPONENT:
            raise InputError(
                f"{plan.name}: a restart from {level.name} takes {whole:g} s, and {mtti:g} s pass between two interruptions: none is ever"
                " done; expected less time to detect, replace and load"
            )
        for part, lasts in stages.items():
            attempts = math.exp((whole - begin) / mtti) * mtti * -math.expm1(-lasts / mtti)
            spent[part] = spent.get(part, 0.0) + interruptions * attempts
            begin += lasts
    total = sum(spent.values())
    return {part: time / total for part, time in spent.items()}
