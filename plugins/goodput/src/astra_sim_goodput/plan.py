"""The plan of a goodput file: a job, its interruptions, its checkpoints, and its recovery."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from astra_sim.errors import InputError
from astra_sim.files import parse_toml, read_text
from astra_sim.options import option, structure

from astra_sim_goodput.numbers import read_numbers
from astra_sim_goodput.rates import rates_of

HOUR, DAY = 3600.0, 86400.0


@attrs.frozen
class LevelOptions:
    """A level of `[goodput.checkpoint]`: a store of checkpoints."""

    name: str = option("store", help="its name")
    write_s: float | None = option(None, minimum=0, help="how long writing blocks; or `bytes` with a bandwidth", unit="s")
    bytes: float | None = option(None, above=0, help="size of a checkpoint of the whole job", unit="bytes")
    gb_per_s: float | None = option(None, above=0, help="bandwidth of the store", unit="GB/s")
    nic_gb_per_s: float | None = option(None, above=0, help="bandwidth of a node to the store", unit="GB/s")
    recovers: float | None = option(None, minimum=0, maximum=1, help="share of interruptions after which it is loaded; none: all others")
    load_s: float = option(0.0, minimum=0, help="time to load a checkpoint and warm up", unit="s")
    every: int = option(
        1, minimum=1, maximum=1_000_000, help="interval, in checkpoints of the first level, at which they are written here, too"
    )


@attrs.frozen
class AsynchronousOptions:
    """`asynchronous` of `[goodput.checkpoint]`: the last level is written beside the training."""

    stall_s: float = option(minimum=0, help="how long a checkpoint blocks", unit="s")
    drain_s: float = option(minimum=0, help="how long it is written beside training; lost until then", unit="s")
    slowdown: float = option(1.0, minimum=1, maximum=1000, help="how many times as long steps take meanwhile")


@attrs.frozen
class CheckpointOptions:
    """The table `[goodput.checkpoint]`."""

    interval: int | float | str = option(
        "auto", help='work between two checkpoints: seconds, "N steps", or auto: where the goodput is greatest', unit="s"
    )
    levels: tuple[LevelOptions, ...] = option(factory=lambda: (LevelOptions(write_s=0.0),), help="places of checkpoints, the fastest first")
    asynchronous: AsynchronousOptions | None = option(None, help="writing of the last level beside training")


@attrs.frozen
class RecoveryOptions:
    """The table `[goodput.recovery]`."""

    detect_s: float = option(0.0, minimum=0, help="from an interruption until it is noticed", unit="s")
    replace_s: float = option(0.0, minimum=0, help="until the job is scheduled again, with another node", unit="s")
    spares: int | None = option(None, minimum=0, maximum=1_000_000, help="nodes that wait to replace others; none: as many as needed")
    repair_h: float = option(0.0, minimum=0, help="until a node that failed is a spare", unit="h")
    repairs: float = option(1.0, minimum=0, maximum=1, help="share of interruptions after which a node is repaired")
    without_spare: str = option("wait", choices=("wait", "shrink"), help="without a spare the job waits, or goes on with fewer nodes")


@attrs.frozen
class LemonOptions:
    """The table `[goodput.lemons]`: nodes that fail more often than others."""

    share: float = option(minimum=0, maximum=1, help="share of the job's nodes that are lemons")
    multiplier: float = option(minimum=1, maximum=1e6, help="how many times as often as others they fail")
    removed_after: int | None = option(
        None, minimum=1, help="with --seeds: interruptions by one lemon after which another node replaces it for good; none: it stays"
    )


@attrs.frozen
class FaultOptions:
    """A table of `[[goodput.faults]]`: a part whose fault slows the job without interrupting it, such as a link that others replace."""

    name: str = option(help="its name")
    parts: int = option(1, minimum=1, maximum=1_000_000_000, help="how many such parts there are, which are alike")
    rate: float = option(above=0, maximum=1e3, help="faults of a part in an hour")
    repair_h: float = option(above=0, maximum=1e5, help="hours until a part is repaired", unit="h")
    without: dict[str, Any] | None = option(
        None, help="links or nodes that are down, as platform.without: the experiment's step is simulated without them"
    )
    step_s: float | None = option(None, above=0, help="duration of a step with the fault, in place of `without`", unit="s")


@attrs.frozen
class CorrelatedOptions:
    """A table of `[[goodput.correlated]]`: nodes that fail together, as those of a rack or a switch."""

    name: str = option(help="what they share, such as a rack")
    nodes: int = option(minimum=1, maximum=1_000_000, help="nodes that fail together")
    rate: float | None = option(None, above=0, maximum=1e3, help="failures of one group of nodes in an hour; or `mtbf_days`")
    mtbf_days: float | None = option(None, above=0, help="mean time between failures of one group of nodes", unit="days")


@attrs.frozen
class GoodputOptions:
    """The table `[goodput]`."""

    nodes: int = option(minimum=1, maximum=10_000_000, help="nodes of the job")
    gpus_per_node: int = option(8, minimum=1, maximum=100_000, help="GPUs of a node")
    rates: str | dict[str, Any] | None = option(None, help="interruptions in a GPU-hour by component, or a fleet: llama3, rsc1, rsc2")
    mtbf_node_days: float | None = option(None, above=0, help="in place of rates: mean time between failures of a node", unit="days")
    intervals: str | None = option(
        None, path="path", help="in place of rates: a file with hours between interruptions, one a line; random runs draw from them"
    )
    weibull_shape: float = option(1.0, minimum=0.1, maximum=10, help="with --seeds: of times between interruptions; 1: constant rate")
    days: float | None = option(None, above=0, maximum=1e5, help="how long the job runs; or `steps`, or `tokens`", unit="days")
    steps: float | None = option(None, above=0, help="steps until the training has ended")
    tokens: float | None = option(None, above=0, help="tokens until the training has ended")
    step_s: float | None = option(None, above=0, help="duration of a step; or `step_ns`, or `experiment`", unit="s")
    step_ns: float | None = option(None, above=0, help="duration of a step", unit="ns")
    experiment: str | None = option(None, path="path", help="an experiment whose run is a step")
    tokens_per_step: float | None = option(None, above=0, help="tokens of a step; an experiment of the workload llm gives them")
    checkpoint: CheckpointOptions = option(factory=CheckpointOptions, help="how the job is saved")
    recovery: RecoveryOptions = option(factory=RecoveryOptions, help="how it recovers")
    lemons: LemonOptions | None = option(None, help="nodes that fail more often than others; rates are those of the others")
    correlated: tuple[CorrelatedOptions, ...] = option((), help="groups of nodes that fail together, beside the rates")
    faults: tuple[FaultOptions, ...] = option((), help="faults that slow the job until they are repaired, without interrupting it")


@attrs.frozen
class JobCostOptions:
    """The table `[cost]`."""

    gpu_hour_usd: float = option(minimum=0, maximum=1e6, help="price of a GPU-hour, for spares, too", unit="USD")


@attrs.frozen
class _File:
    name: str | None = option(None, help="its name")
    goodput: GoodputOptions = option(help="the job")
    cost: JobCostOptions | None = option(None, help="prices")


@attrs.frozen
class Level:
    """A level of checkpoints: how long a write blocks and a load takes (s), the share of interruptions that it recovers, and how often."""

    name: str
    write_s: float
    load_s: float
    recovers: float
    every: int


@attrs.frozen
class Correlated:
    """Groups of nodes that fail together: failures of all groups in an hour, each of which takes `nodes` nodes."""

    name: str
    nodes: int
    rate: float


@attrs.frozen
class GoodputClock:
    """The distribution of interruptions: the shape of Weibull's distribution of the times between them, and failure-prone nodes.

    `lemons` of the `nodes` fail `multiplier` times as often as others; `removed_after` interruptions by one another node replaces it for
    good, None: it stays. `intervals_s` are times between interruptions (s) of which one is drawn each time; empty: none are given.
    `correlated` are nodes that fail together.
    """

    nodes: int
    weibull_shape: float = 1.0
    lemons: int = 0
    multiplier: float = 1.0
    removed_after: int | None = None
    intervals_s: tuple[float, ...] = ()
    correlated: tuple[Correlated, ...] = ()

    @property
    def correlated_rate(self) -> float:
        """Interruptions of the job in an hour by nodes that fail together."""
        return sum(each.rate for each in self.correlated)

    def factor(self, lemons: int) -> float:
        """The factor by which lemons raise the job's interruptions."""
        return 1 + lemons / self.nodes * (self.multiplier - 1)


@attrs.frozen
class Fault:
    """A class of faults that slow the job: faults in an hour, time of a repair (s), and the speed with one of them (1: full).

    `step_s` is the duration of a step with it, if that is known.
    """

    name: str
    rate: float
    repair_s: float
    speed: float
    step_s: float | None = None

    @property
    def mean_present(self) -> float:
        """The mean number of them at any time: rate times repair (Little's law)."""
        return self.rate / HOUR * self.repair_s


@attrs.frozen
class JobStep:
    """A step: its duration (s), tokens, and model FLOPs utilisation; None if unknown."""

    seconds: float | None = None
    tokens: float | None = None
    mfu: float | None = None


@attrs.frozen
class GoodputPlan:
    """A job with all that its goodput follows from. Times in seconds.

    `rates` has interruptions of the whole job in an hour by component, those by lemons and nodes that fail together included; `interval_s`
    is None if the best is wanted; `horizon_s` is how long the job runs, `work_s` how much work it has without any loss: one of them is
    None. Of `asynchronous` writing `drain_s` and `slowdown` are those of the last level. `spares` is None if there are as many as needed.
    """

    name: str
    nodes: int
    gpus_per_node: int
    rates: dict[str, float]
    clock: GoodputClock
    horizon_s: float | None
    work_s: float | None
    step: JobStep
    interval_s: float | None
    levels: tuple[Level, ...]
    drain_s: float
    slowdown: float
    detect_s: float
    replace_s: float
    spares: int | None
    repair_s: float
    repairs: float
    shrinks: bool
    gpu_hour_usd: float | None
    faults: tuple[Fault, ...] = ()

    @property
    def mtti_s(self) -> float:
        """The mean time between interruptions of the job; infinite if nothing interrupts it."""
        rate = sum(self.rates.values())
        return HOUR / rate if rate else float("inf")

    def restart_s(self, level: Level) -> float:
        """From an interruption until work goes on from a checkpoint of a level, if a node is there."""
        return self.detect_s + self.replace_s + level.load_s


def read_plan(source: str | os.PathLike[str] | Mapping[str, Any]) -> GoodputPlan:
    """The plan in a file, or in tables as a file has them. Runs the experiment that it names. Raises InputError."""
    if isinstance(source, Mapping):
        where, folder, table = "goodput", Path(), dict(source)
    else:
        where, folder = os.fspath(source), Path(source).parent
        table = parse_toml(read_text(where), where)
    if "goodput" not in table:
        raise InputError(f"{where}: no table [goodput]; expected one (an experiment is simulated by: astra FILE)")
    file: _File = structure(_File, table, where)
    return _plan(file, where, folder, file.name or (Path(where).stem if not isinstance(source, Mapping) else "goodput"))


def _plan(file: _File, where: str, folder: Path, name: str) -> GoodputPlan:
    """The plan of a file whose options have been read. Raises InputError for options that contradict each other."""
    options, recovery = file.goodput, file.goodput.recovery
    step = _step(options, where, folder)
    step_s, tokens_per_step = step.seconds, step.tokens
    horizon_s, work_s = _length(options, step_s, tokens_per_step, where)
    asynchronous = options.checkpoint.asynchronous
    levels = _levels(options, where)
    if asynchronous is not None:
        levels = (*levels[:-1], attrs.evolve(levels[-1], write_s=asynchronous.stall_s))
    if recovery.spares is not None and recovery.repair_h == 0:
        raise InputError(f"{where}: goodput: recovery: spares is {recovery.spares}, and repair_h is missing; expected hours of a repair")
    clock = attrs.evolve(_clock(options, where, folder), correlated=_correlated(options, where))
    factor = clock.factor(clock.lemons)
    rates = {component: rate * factor for component, rate in _rates(options, clock, where).items()}
    for each in clock.correlated:
        if each.name in rates:
            raise InputError(f"{where}: goodput: correlated: {each.name!r} is the name of another component; expected one of its own")
        rates[each.name] = each.rate
    return GoodputPlan(
        name=name,
        nodes=options.nodes,
        gpus_per_node=options.gpus_per_node,
        rates=rates,
        clock=clock,
        horizon_s=horizon_s,
        work_s=work_s,
        step=step,
        interval_s=_interval(options.checkpoint.interval, step_s, where),
        levels=levels,
        drain_s=0.0 if asynchronous is None else asynchronous.drain_s,
        slowdown=1.0 if asynchronous is None else asynchronous.slowdown,
        detect_s=recovery.detect_s,
        replace_s=recovery.replace_s,
        spares=recovery.spares,
        repair_s=recovery.repair_h * HOUR,
        repairs=recovery.repairs,
        shrinks=recovery.without_spare == "shrink",
        gpu_hour_usd=None if file.cost is None else file.cost.gpu_hour_usd,
        faults=tuple(_fault(each, number, options, step_s, where, folder) for number, each in enumerate(options.faults)),
    )


def _correlated(options: GoodputOptions, where: str) -> tuple[Correlated, ...]:
    """The groups of nodes that fail together, as many of each as the job has nodes for. Raises InputError."""
    result = []
    for number, each in enumerate(options.correlated):
        key = f"{where}: goodput: correlated {number}"
        if (each.rate is None) == (each.mtbf_days is None):
            raise InputError(f"{key}: expected one of rate and mtbf_days")
        if each.nodes > options.nodes:
            raise InputError(f"{key}: nodes is {each.nodes}; expected at most the {options.nodes} nodes of the job")
        rate = each.rate if each.rate is not None else 1 / ((each.mtbf_days or 0.0) * 24)
        result.append(Correlated(each.name, each.nodes, rate * options.nodes / each.nodes))
    return tuple(result)


def _fault(fault: FaultOptions, number: int, options: GoodputOptions, step_s: float | None, where: str, folder: Path) -> Fault:
    """A class of faults, with the step that is given or simulated. Raises InputError."""
    key = f"{where}: goodput: faults {number}"
    if (fault.without is None) == (fault.step_s is None):
        raise InputError(f"{key}: expected one of without and step_s")
    if step_s is None:
        raise InputError(f"{key}: the step without a fault is missing; expected goodput.step_s or goodput.experiment")
    slow_s = fault.step_s
    if slow_s is None:
        if options.experiment is None:
            raise InputError(f"{key}: without needs goodput.experiment, whose step is simulated without these parts")
        slow_s = _simulated(folder / options.experiment, fault.without, f"{key}: without").seconds
    assert slow_s is not None
    return Fault(fault.name, fault.rate * fault.parts, fault.repair_h * HOUR, min(1.0, step_s / slow_s), slow_s)


def _clock(options: GoodputOptions, where: str, folder: Path) -> GoodputClock:
    """The distribution of interruptions. Raises InputError for options that need another one."""
    lemons = options.lemons
    if options.intervals is not None:
        for name, used in (("lemons", lemons), ("correlated", options.correlated), ("weibull_shape", options.weibull_shape != 1)):
            if used:
                raise InputError(
                    f"{where}: goodput: {name} is given beside intervals, which say all about interruptions; expected one of them"
                )
        return GoodputClock(options.nodes, intervals_s=tuple(HOUR * each for each in read_numbers(str(folder / options.intervals))))
    if lemons is None:
        return GoodputClock(options.nodes, options.weibull_shape)
    return GoodputClock(options.nodes, options.weibull_shape, round(lemons.share * options.nodes), lemons.multiplier, lemons.removed_after)


def _rates(options: GoodputOptions, clock: GoodputClock, where: str) -> dict[str, float]:
    """Interruptions of the job in an hour by component."""
    names = [name for name in ("rates", "mtbf_node_days", "intervals") if getattr(options, name) is not None]
    if len(names) != 1:
        raise InputError(f"{where}: goodput: {' and '.join(names) or 'nothing'} given; expected one of rates, mtbf_node_days and intervals")
    if options.intervals is not None:
        return {"interruption": HOUR * len(clock.intervals_s) / sum(clock.intervals_s)}
    if options.mtbf_node_days is not None:
        return {"node": options.nodes / (options.mtbf_node_days * 24)}
    assert options.rates is not None
    gpus = options.nodes * options.gpus_per_node
    return {name: rate * gpus for name, rate in rates_of(options.rates, f"{where}: goodput").items()}


def _step(options: GoodputOptions, where: str, folder: Path) -> JobStep:
    """The step of the job: as given, or that of a run."""
    names = [name for name in ("step_s", "step_ns", "experiment") if getattr(options, name) is not None]
    if len(names) > 1:
        raise InputError(f"{where}: goodput: {' and '.join(names)} are given; expected one of them")
    if options.experiment is None:
        return JobStep(options.step_s if options.step_ns is None else options.step_ns / 1e9, options.tokens_per_step)
    step = _simulated(folder / options.experiment)
    return step if options.tokens_per_step is None else attrs.evolve(step, tokens=options.tokens_per_step)


def _simulated(path: Path, without: Mapping[str, Any] | None = None, where: str = "") -> JobStep:
    """The step of an experiment, of a platform without some parts. Raises InputError."""
    import astra_sim

    experiment = astra_sim.load_experiment(str(path))
    if without is not None:
        platform = experiment.sections.get("platform")
        if not isinstance(platform, Mapping):
            raise InputError(f"{where}: {path} has no platform of its own; expected one")
        experiment.sections["platform"] = {**platform, "without": without}
    figures = astra_sim.simulate(experiment).to_dict()
    seconds = figures.get("iteration_s") or figures["finish_ns"] / 1e9
    tokens = figures["tokens_per_s"] * seconds if "tokens_per_s" in figures else None
    return JobStep(seconds, tokens, figures.get("mfu"))


def _length(options: GoodputOptions, step_s: float | None, tokens_per_step: float | None, where: str) -> tuple[float | None, float | None]:
    """The duration of the job, or of its work; in seconds."""
    names = [name for name in ("days", "steps", "tokens") if getattr(options, name) is not None]
    if len(names) != 1:
        raise InputError(f"{where}: goodput: {' and '.join(names) or 'nothing'} is given; expected one of days, steps and tokens")
    if options.days is not None:
        return options.days * DAY, None
    if step_s is None:
        raise InputError(f"{where}: goodput: {names[0]} needs step_s or experiment")
    if options.steps is not None:
        return None, options.steps * step_s
    assert options.tokens is not None
    if tokens_per_step is None:
        raise InputError(f"{where}: goodput: tokens needs tokens_per_step, or an experiment of the workload llm")
    return None, options.tokens / tokens_per_step * step_s


def _interval(interval: float | str, step_s: float | None, where: str) -> float | None:
    """Seconds of work between two checkpoints; None: the best."""
    key = f"{where}: goodput: checkpoint: interval"
    if interval == "auto":
        return None
    if isinstance(interval, str):
        count, _, unit = interval.partition(" ")
        if unit not in ("steps", "step") or not count.isdecimal() or not 0 < int(count) < 1_000_000_000:
            raise InputError(f'{key} is {interval!r}; expected seconds, "N steps" or "auto"')
        if step_s is None:
            raise InputError(f"{key} is {interval!r}, which needs step_s or experiment")
        return int(count) * step_s
    if not interval > 0:
        raise InputError(f"{key} is {interval!r}; expected more than 0 s")
    return float(interval)


def _levels(options: GoodputOptions, where: str) -> tuple[Level, ...]:
    """The checkpoint levels. Raises InputError unless the shares that they recover add up to 1 and periods nest."""
    key = f"{where}: goodput: checkpoint: levels"
    listed = options.checkpoint.levels
    if not listed:
        raise InputError(f"{key} is empty; expected a level at least")
    left, before, result = 1.0, 1, []
    for number, level in enumerate(listed):
        last = number == len(listed) - 1
        if level.recovers is None and not last:
            raise InputError(f"{key} {number}: recovers is missing; expected the share of interruptions, since another level follows")
        recovers = left if level.recovers is None else level.recovers
        left -= recovers
        if left < -1e-9 or (last and left > 1e-9):
            raise InputError(f"{key} {number}: the shares that levels recover add up to {1 - left:g}; expected 1")
        if (number == 0 and level.every != 1) or level.every % before:
            raise InputError(f"{key} {number}: every is {level.every}; expected a multiple of {before}" + (", 1" if number == 0 else ""))
        before = level.every
        result.append(Level(level.name, _write_s(level, options, f"{key} {number}", last), level.load_s, max(0.0, recovers), level.every))
    return tuple(result)


def _write_s(level: LevelOptions, options: GoodputOptions, key: str, last: bool) -> float:
    """The blocking time of a write: as given, or by bytes over the bandwidth of the store, or of the nodes if that is less."""
    bandwidths = level.gb_per_s is not None or level.nic_gb_per_s is not None
    if level.write_s is not None:
        if bandwidths or level.bytes is not None:
            raise InputError(f"{key}: write_s and bytes with bandwidths are both given; expected one of them")
        return level.write_s
    if level.bytes is None and last and options.checkpoint.asynchronous is not None:
        return 0.0
    if level.bytes is None or not bandwidths:
        raise InputError(f"{key}: expected write_s, or bytes with gb_per_s or nic_gb_per_s")
    store = 0.0 if level.gb_per_s is None else level.bytes / (level.gb_per_s * 1e9)
    nodes = 0.0 if level.nic_gb_per_s is None else level.bytes / options.nodes / (level.nic_gb_per_s * 1e9)
    return max(store, nodes)
