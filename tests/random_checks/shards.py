"""Shards of random sweeps: whatever their number, and however often each is killed and resumed, merged they are the whole sweep."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from astra_sim import AstraError
from astra_sim_sweep.outcomes import SweepOutcome
from astra_sim_sweep.plan import SweepPlan, read_plan
from astra_sim_sweep.running import Files, Merge, Sweep
from astra_sim_sweep.shards import Shard
from support.sweeps import PLATFORM, read_rows, steady

IN_TESTS = 5
IN_NIGHTLY = 200

BASE = {"platform": PLATFORM, "workload": "plugin:collective"}


class _Killed(BaseException):
    """The end of a process, as far as this check has one."""


class _Answers:
    """A scheduler whose outcomes follow from the keys of points; it is killed after a number of them."""

    def __init__(self, plan: SweepPlan, draw: random.Random, after: int | None = None) -> None:
        self._plan, self._draw, self._after = plan, draw, after
        self.asked: Counter[bytes] = Counter()

    def outcomes(self, numbers: Iterator[int | None]) -> Iterator[list[SweepOutcome]]:
        held: list[int] = []
        for number in numbers:
            if number is None:
                yield []
                continue
            self.asked[self._plan.point(number).key] += 1
            held.append(number)
            while len(held) > self._draw.randrange(1, 6):
                yield [self._answer(held.pop(self._draw.randrange(len(held))))]
        self._draw.shuffle(held)
        for number in held:
            yield [self._answer(number)]

    def _answer(self, number: int) -> SweepOutcome:
        if self._after is not None:
            if self._after == 0:
                raise _Killed
            self._after -= 1
        return _outcome(number, self._plan.point(number).key, self._draw.random())


def _outcome(number: int, key: bytes, wall_s: float) -> SweepOutcome:
    """What comes of an experiment: the same whoever runs it, but for the time that takes."""
    value = int.from_bytes(hashlib.blake2b(key, digest_size=4).digest(), "big")
    if value % 7 == 0:
        return SweepOutcome(number, None, f"no luck with {value}", wall_s)
    figures: dict[str, Any] = {"finish_ns": value % 1000, "audit": ""}
    if value % 3 == 0:
        figures = {"odd": value % 2 == 1, **figures, "share": value / 7}
    return SweepOutcome(number, figures, None, wall_s)


def _random_tables(draw: random.Random) -> dict[str, Any]:
    """The tables of a sweep: options, names of its own, axes in step, drawn points, derived values with errors, skipped points."""
    axes: dict[str, Any] = {"workload.bytes": {"values": sorted(draw.sample(range(1, 99), draw.randrange(1, 6))), "name": "bytes"}}
    tables: dict[str, Any] = {"base": BASE, "axes": axes, "derive": {}, "skip": {}}
    if draw.random() < 0.6:
        axes["system.splits"] = {"values": [1, 2, 4][: draw.randrange(1, 4)], "name": "splits"}
    if draw.random() < 0.5:
        # Points of other values have the same experiments.
        axes["note"] = {"values": list("abc")[: draw.randrange(1, 4)]}
        tables["derive"]["mark"] = "bytes if note == 'a' else 0"
    if draw.random() < 0.4:
        axes["step"] = {"values": [10 * value for value in axes["workload.bytes"]["values"]], "zip": "bytes"}
    if draw.random() < 0.3:
        tables["derive"]["ratio"] = f"100 / (bytes - {draw.choice(axes['workload.bytes']['values'])})"
    if draw.random() < 0.4:
        tables["skip"]["odd"] = "bytes % 2 == 1"
    if draw.random() < 0.3:
        axes["share"] = {"uniform": [0, 1]}
        drawn = [axis for axis in ("share", "bytes") if axis == "share" or ("step" not in axes and draw.random() < 0.5)]
        tables["sample"] = {"method": draw.choice(["random", "latin_hypercube"]), "points": draw.randrange(1, 9), "axes": drawn}
        tables["derive"]["system.endpoint_delay_ns"] = "floor(share * 4)"
    return tables


def _run(plan: SweepPlan, path: Path, shard: Shard | None, draw: random.Random, kills: int) -> Counter[bytes]:
    """Run a sweep or a shard of it to its end; before that it is killed a number of times. Returns how often each key was asked for."""
    asked: Counter[bytes] = Counter()
    for _ in range(kills):
        scheduler = _Answers(plan, draw, draw.randrange(0, 6))
        files = Files.of(path, shard=shard)
        sweep = Sweep(plan, scheduler, files, shard=shard)
        try:
            for _row in sweep:
                # What is there at this instant is what a killed process leaves.
                if draw.random() < 0.2:
                    _snapshot(files.journal)
                    iter(sweep).close()
                    _restore(files.journal)
                    break
        except _Killed:
            pass
        asked += scheduler.asked
    scheduler = _Answers(plan, draw)
    Sweep(plan, scheduler, Files.of(path, shard=shard), shard=shard).finish()
    return asked + scheduler.asked


def _snapshot(journal: str) -> None:
    for ending in ("", "-wal"):
        if os.path.exists(journal + ending):
            shutil.copy(journal + ending, f"{journal}{ending}.copy")


def _restore(journal: str) -> None:
    for ending in ("-shm", "", "-wal"):
        if os.path.exists(journal + ending):
            os.unlink(journal + ending)
        if os.path.exists(f"{journal}{ending}.copy"):
            os.rename(f"{journal}{ending}.copy", journal + ending)


def check(seed: int, folder: Path) -> list[str]:
    """Run a random sweep whole and in shards, and compare the tables."""
    draw = random.Random(seed)
    plan = read_plan(_random_tables(draw))
    whole, merged = folder / "whole.csv", folder / "merged.csv"
    asked = _run(plan, whole, None, draw, kills=0)
    of = draw.choice([1, 2, 3, 5, 8])
    shards = [Shard(number, of) for number in range(1, of + 1)]
    result = ["a point is run twice"] if asked and max(asked.values()) > 1 else []
    owners = Counter(number for shard in shards for number in shard.numbers(plan.points.count))
    if owners != Counter(range(plan.points.count)):
        result.append(f"points are not in one of {of} shards each: {owners}")
    if any(len(list(shard.numbers(plan.points.count))) != shard.count(plan.points.count) for shard in shards):
        result.append("a shard counts other points than it has")
    draw.shuffle(shards)
    for place, shard in enumerate(shards):
        if place and draw.random() < 0.3:
            result += _merge_too_early(plan, merged, [*shards[place:]])
        _run(plan, merged, shard, draw, kills=draw.choice([0, 0, 0, 1, 2]))
    for _ in range(draw.choice([1, 2])):
        counts = Merge(plan, Files.of(merged)).finish()
        if steady(read_rows(merged)) != steady(read_rows(whole)):
            result.append(f"{of} shards merged are not the whole sweep")
        if counts.run != sum(point.error is not None for point in plan if point.skipped_by is None) and counts.run:
            result.append(f"{counts.run} points were run by a merge")
    return result


def _merge_too_early(plan: SweepPlan, path: Path, left: list[Shard]) -> list[str]:
    """Merge while shards are left: an error and no table, unless these have nothing to run that others have not."""
    count = plan.points.count
    keys = {plan.point(n).key for shard in left for n in shard.numbers(count) if _is_run(plan, n)}
    others = {plan.point(n).key for n in range(count) if not any(shard.has(n, count) for shard in left) and _is_run(plan, n)}
    try:
        Merge(plan, Files.of(path)).finish()
    except AstraError as error:
        if keys <= others:
            return [f"a merge of all points fails: {error}"]
        return ["a merge that fails leaves a table"] if path.exists() else []
    if not keys <= others:
        return ["a merge of some points does not fail"]
    path.unlink()
    return []


def _is_run(plan: SweepPlan, number: int) -> bool:
    point = plan.point(number)
    return point.skipped_by is None and point.error is None
