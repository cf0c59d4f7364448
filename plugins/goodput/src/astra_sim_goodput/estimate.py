"""The goodput of a job: the share of its time that is useful work, and the losses."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from astra_sim.errors import InputError

from astra_sim_goodput import closed_forms, monte_carlo
from astra_sim_goodput.plan import DAY, HOUR, Fault, GoodputPlan, read_plan
from astra_sim_goodput.shares import BY_INTERRUPTIONS, PARTS, best_interval, fault_speed, shares_of

QUANTILES = (0.05, 0.5, 0.95)
MOST_SEEDS = 100_000


@attrs.frozen
class Spread:
    """A figure of several seeds: its mean with a 99 % interval by Student's t, standard deviation, and quantiles."""

    mean: float
    sd: float
    interval99: tuple[float, float]
    quantiles: dict[str, float]


@attrs.frozen
class MonteCarlo:
    """The estimate over seeds: goodput, interruptions, and days until the work is done or the horizon is reached."""

    seeds: int
    goodput: Spread
    failures: Spread
    days: Spread


@attrs.frozen
class Failures:
    """Interruptions in the time of the job: their mean, in all and by component, and quantiles of Poisson's law.

    `lost_days` is the time that those of each component cost: work done again, restarts, and waiting for nodes. An interruption costs the
    same on average, whatever its component.
    """

    mean: float
    quantiles: dict[str, float]
    by_component: dict[str, float]
    lost_days: dict[str, float]


@attrs.frozen
class FaultLoss:
    """Faults of one class, which slow the job: how many are present on average, the step with one (s), and the lost share of speed."""

    name: str
    mean_present: float
    step_s: float | None
    lost: float


@attrs.frozen
class ClosedForms:
    """The formulas' results for one level of checkpoints: intervals in seconds, and efficiencies at the interval that is used.

    `first_order` is None if that formula does not hold.
    """

    young_s: float
    daly_s: float
    saxena_s: float
    daly: float
    first_order: float | None


@attrs.frozen
class Goodput:
    """The goodput of a job.

    `goodput` is the share of useful work in the time; `shares` divide all the time, and add up to 1. `days` is how long the job
    takes, `work_days` how long it would take without any loss. `ettr` is the effective training time ratio: the share of time in which
    steps are made that count, slower ones with faults included. `mfu` is that of the step times `goodput`, if the step's is known. `cost`
    has USD if prices are given.
    """

    name: str
    gpus: int
    mtti_h: float | None
    failures: Failures
    interval_s: float | None
    goodput: float
    ettr: float
    mfu: float | None
    shares: dict[str, float]
    faults: list[FaultLoss]
    days: float
    work_days: float
    step_s: float | None
    tokens_per_s: float | None
    closed_forms: ClosedForms | None
    cost: dict[str, float] | None
    monte_carlo: MonteCarlo | None

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return attrs.asdict(self)


def goodput(source: str | os.PathLike[str] | Mapping[str, Any] | GoodputPlan, seeds: int = 0) -> Goodput:
    """The goodput of a job in a file, in tables as a file has them, or as a plan; with `seeds` also by that many random runs.

    Raises InputError if the file is wrong or a checkpoint is never reached, RunError if a random run does not end.
    """
    plan = source if isinstance(source, GoodputPlan) else read_plan(source)
    if not 0 <= seeds <= MOST_SEEDS:
        raise InputError(f"seeds is {seeds}; expected 0 to {MOST_SEEDS}")
    interval = best_interval(plan) if plan.interval_s is None else plan.interval_s
    endless = math.isinf(interval)
    if endless:
        speed = fault_speed(plan)
        shares = dict.fromkeys(PARTS, 0.0) | {"useful": speed, "degraded": 1 - speed}
    else:
        shares = shares_of(plan, interval)
    useful = shares["useful"]
    work = plan.work_s
    if work is None:
        assert plan.horizon_s is not None
        wall, work = plan.horizon_s, plan.horizon_s * useful
    elif useful > 0:
        wall = work / useful
    else:
        raise InputError(f"{plan.name}: no work is ever done: an interruption comes before every checkpoint")
    mtti = plan.mtti_s
    running = 1 - shares["waiting"]
    failures = 0.0 if math.isinf(mtti) else wall * running / mtti
    return Goodput(
        name=plan.name,
        gpus=plan.nodes * plan.gpus_per_node,
        mtti_h=None if math.isinf(mtti) else mtti / HOUR,
        failures=_failures(plan, failures, running * wall / HOUR, sum(shares[part] for part in BY_INTERRUPTIONS) * wall / DAY),
        interval_s=None if endless else interval,
        goodput=useful,
        ettr=_ettr(shares),
        mfu=None if plan.step.mfu is None else plan.step.mfu * useful,
        shares=shares,
        faults=[_fault_loss(fault) for fault in plan.faults],
        days=wall / DAY,
        work_days=work / DAY,
        step_s=plan.step.seconds,
        tokens_per_s=_tokens_per_s(plan, useful),
        closed_forms=None if endless else _closed_forms(plan, interval),
        cost=_cost(plan, wall, useful),
        monte_carlo=_monte_carlo(plan, min(interval, 1e15), seeds) if seeds else None,
    )


def _ettr(shares: Mapping[str, float]) -> float:
    """The share of time in which steps count: useful work, and its part of the time that is lost to a lower speed."""
    running = 1 - shares["waiting"] - shares["degraded"]
    return shares["useful"] * (1 + shares["degraded"] / running) if running else 0.0


def _fault_loss(fault: Fault) -> FaultLoss:
    return FaultLoss(fault.name, fault.mean_present, fault.step_s, -math.expm1(-fault.mean_present * (1 - fault.speed)))


def progress_rows(plan: GoodputPlan, interval: float | None, seeds: int) -> Iterator[str]:
    """The lines of a table of random runs: seed, days, and days of work that count then, at each interruption and restart."""
    yield "seed,days,work_days\n"
    for seed in range(seeds):
        for wall, work in monte_carlo.run(plan, 1e15 if interval is None else interval, seed, progress=True).progress:
            yield f"{seed},{wall / DAY:.9g},{work / DAY:.9g}\n"


def _failures(plan: GoodputPlan, mean: float, hours: float, lost_days: float) -> Failures:
    counts = {name: rate * hours for name, rate in plan.rates.items()}
    lost = {name: lost_days * count / mean if mean else 0.0 for name, count in counts.items()}
    return Failures(mean, {_name(each): _poisson(mean, each) for each in QUANTILES}, counts, lost)


def _name(quantile: float) -> str:
    return f"p{round(100 * quantile)}"


def _normal(share: float) -> float:
    """A quantile of the normal distribution."""
    from statistics import NormalDist  # here, since packages are imported whenever a command starts

    return NormalDist().inv_cdf(share)


def _poisson(mean: float, share: float) -> float:
    """A quantile of Poisson's distribution; by the normal distribution above 10 000."""
    if mean > 10_000:
        return float(max(0, round(mean + math.sqrt(mean) * _normal(share))))
    term = total = math.exp(-mean) if mean < 700 else 0.0
    if mean >= 700:  # sums of logarithms, since the first terms are none
        count, total = max(0, int(mean - 12 * math.sqrt(mean))), 0.0
        term = math.exp(count * math.log(mean) - mean - math.lgamma(count + 1))
        total = term
    else:
        count = 0
    while total < share and count < mean + 40 * math.sqrt(mean) + 40:
        count += 1
        term *= mean / count
        total += term
    return float(count)


def _tokens_per_s(plan: GoodputPlan, useful: float) -> float | None:
    if plan.step.tokens is None or plan.step.seconds is None:
        return None
    return plan.step.tokens / plan.step.seconds * useful


def _closed_forms(plan: GoodputPlan, interval: float) -> ClosedForms | None:
    """The published formulas beside the model; None if they do not hold: several levels, drains, no failures."""
    mtti, level = plan.mtti_s, plan.levels[-1]
    if len(plan.levels) > 1 or plan.drain_s or math.isinf(mtti) or level.write_s <= 0:
        return None
    restart = plan.restart_s(level)
    try:
        first = closed_forms.first_order_efficiency(mtti, level.write_s, restart, interval)
    except InputError:
        first = None
    return ClosedForms(
        young_s=closed_forms.young_interval(mtti, level.write_s),
        daly_s=closed_forms.daly_interval(mtti, level.write_s),
        saxena_s=closed_forms.saxena_interval(mtti, level.write_s, restart),
        daly=closed_forms.daly_efficiency(mtti, level.write_s, restart, interval),
        first_order=first,
    )


def _cost(plan: GoodputPlan, wall: float, useful: float) -> dict[str, float] | None:
    if plan.gpu_hour_usd is None:
        return None
    gpus = (plan.nodes + (plan.spares or 0)) * plan.gpus_per_node
    usd = plan.gpu_hour_usd * gpus * wall / HOUR
    steps = None if plan.step.seconds is None else wall * useful / plan.step.seconds
    per_step = {} if steps is None else {"usd_per_step": usd / steps}
    return {"usd": usd, "usd_lost": usd * (1 - useful * plan.nodes * plan.gpus_per_node / gpus), **per_step}


def _monte_carlo(plan: GoodputPlan, interval: float, seeds: int) -> MonteCarlo:
    outcomes = [monte_carlo.run(plan, interval, seed) for seed in range(seeds)]
    return MonteCarlo(
        seeds=seeds,
        goodput=spread([each.work_s / each.wall_s for each in outcomes]),
        failures=spread([float(each.interruptions) for each in outcomes]),
        days=spread([each.wall_s / DAY for each in outcomes]),
    )


def spread(values: Sequence[float]) -> Spread:
    """Mean, deviation, interval and quantiles of some values."""
    count, ordered = len(values), sorted(values)
    mean = math.fsum(values) / count
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1)) if count > 1 else 0.0
    half = student_t(count - 1) * sd / math.sqrt(count) if count > 1 else 0.0
    return Spread(mean, sd, (mean - half, mean + half), {_name(each): ordered[min(count - 1, int(each * count))] for each in QUANTILES})


_EXPANDED = 200


def _within(t: float, degrees: int) -> float:
    """The probability that Student's t is between -t and t."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine, odd = math.cos(angle), degrees % 2
    term = cosine if odd else 1.0
    total = 0.0
    for number in range(1 + odd, degrees, 2):
        total += term
        term *= cosine * cosine * number / (number + 1)
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def student_t(degrees: int, share: float = 0.995) -> float:
    """A quantile of Student's t, of a share above a half.

    By bisection of its distribution, or from 200 degrees of freedom on by the expansion of Cornish and Fisher, which then has 10 digits
    (Abramowitz and Stegun, 26.7.3, 26.7.4 and 26.7.5).
    """
    if degrees < _EXPANDED:
        low, high = 0.0, 1e9
        while (middle := (low + high) / 2) not in (low, high):
            low, high = (middle, high) if _within(middle, degrees) < 2 * share - 1 else (low, middle)
        return middle
    z = _normal(share)
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + math.fsum(term / float(degrees ** (power + 1)) for power, term in enumerate(terms))
