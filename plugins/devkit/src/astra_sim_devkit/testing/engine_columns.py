"""The functions of an engine that need no run, against those of the kernel in Python."""

from __future__ import annotations

from random import Random

from astra_sim.engines import EngineType, PhaseStepRecords, ReferenceEngine
from astra_sim.rows import Dependencies, Rows, column, packed

from astra_sim_devkit.testing.requirement import require

_CASES = 50


def check_columns(engine: EngineType) -> None:
    """Raise AssertionError if `computing`, `uses_of` or `repeated` of an engine differ from those in Python on random columns."""
    for seed in range(_CASES):
        random = Random(seed)
        _check_computing(engine, random)
        _check_uses(engine, random)
        _check_repeated(engine, random)


def _check_computing(engine: EngineType, random: Random) -> None:
    count = random.randrange(20)
    kinds = column((random.randrange(3) for _ in range(count)), "I")
    times = column((random.randrange(-1, 21) for _ in range(count)), "q") if random.random() < 0.5 else None
    rows = Rows("abc", kinds, Dependencies.of([()] * count), lambda kind, row, after: kind, times)
    durations = [random.randrange(-1, 21) for _ in range(3)]
    ended = [random.randrange(20, 80) for _ in range(count)]
    expected = ReferenceEngine.computing(rows, durations, ended)
    answer = engine.computing(rows, durations, ended)
    require(answer == expected, f"computing of {durations} with ends {ended} is {answer}; expected {expected}")


def _check_uses(engine: EngineType, random: Random) -> None:
    records = [[0, random.randrange(4), *sorted(random.randrange(60) for _ in range(3)), 0, 0] for _ in range(random.randrange(1, 20))]
    steps = PhaseStepRecords(*zip(*records, strict=True))
    groups = [(0,), (1,), (0, 1), ()]
    seen = [
        (list(counts), [(use.spent, list(use.spans.begins), list(use.spans.ends)) for use in uses])
        for counts, uses in (each.uses_of(steps, groups, 2) for each in (engine, ReferenceEngine))
    ]
    require(seen[0] == seen[1], f"uses_of {records} is {seen[0]}; expected {seen[1]}")


def _check_repeated(engine: EngineType, random: Random) -> None:
    parts = [packed([random.randrange(-9, 9) for _ in range(size)], "q") for size in (2, 0, 3)]
    numbers = column((random.randrange(3) for _ in range(8)), "I")
    offsets = column((random.randrange(-100, 100) for _ in range(8)), "q")
    require(engine.repeated(parts, numbers, offsets) == ReferenceEngine.repeated(parts, numbers, offsets), "repeated gives other columns")
