"""Passes as rows of a program: what is written once is repeated in columns, for a pipeline does each pass many times.

A template is a list of operations with what each waits for: operations of the same template, or the end of the pass before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np
from astra_sim.graph import Communicate, Compute, Operation, Pass, Unit, Wait
from astra_sim.rows import Column, Dependencies, Rows, view

from astra_sim_llm.steps import Exchange, Run, Step

BEFORE = -1
"""Among what a row waits for: the end of the pass before."""

FREE = -1
"""An exchange beside so many kernels is waited for by the end of the program alone."""


@attrs.frozen(eq=False)
class Template:
    """Rows of kinds, each with the rows it waits for (from 0 on, or BEFORE), the row that ends the pass, and those that run on."""

    kinds: Sequence[int]
    waits: Sequence[Sequence[int]]
    end: int
    free: Sequence[int]


@attrs.define
class Kinds:
    """The different operations of a program, by what makes them equal, and what each is: of which parallelism, or compute.

    `parts` says of a pass that is one operation how long its exchanges are, by parallelism.
    """

    operations: list[Operation] = attrs.field(factory=list)
    groups: list[str] = attrs.field(factory=list)
    parts: dict[int, dict[str, int]] = attrs.field(factory=dict)
    _numbers: dict[Hashable, int] = attrs.field(factory=dict)

    def number(self, key: Hashable, group: str, make: Callable[[], Operation]) -> int:
        """The kind of a key, made if it is new."""
        if (key, group) not in self._numbers:
            self._numbers[key, group] = len(self.operations)
            self.operations.append(make())
            self.groups.append(group)
        return self._numbers[key, group]

    def join(self) -> int:
        """What ends when all that it waits for has ended."""
        return self.number("join", "join", lambda: Wait((), (), -1, Pass.FORWARD))


GROUPS = {
    **dict.fromkeys(("tp", "etp"), "tp"),
    "cp": "cp",
    **dict.fromkeys(("ep", "ep_node", "ep_nodes"), "ep"),
    **dict.fromkeys(("dp", "all_dp", "replicas", "edp", "all_edp", "expert_replicas"), "dp"),
}
"""The parallelism to which the exchanges of an axis belong."""


class Compiler:
    """Makes templates of steps, with the times that the compute model gives, in one of three details.

    kernel: a row for each kernel; layer: one for the kernels between two exchanges; pass: one for a pass, which has its exchanges in it.
    """

    def __init__(
        self,
        kinds: Kinds,
        duration_ps: Callable[[Run], int],
        exchange_ps: Callable[[Exchange], int],
        dimensions_of: Callable[[str], tuple[int, ...]],
        detail: str,
        contention: float,
        launch_ps: int = 0,
    ) -> None:
        self._kinds = kinds
        self._duration_ps = duration_ps
        self._exchange_ps = exchange_ps
        self._dimensions_of = dimensions_of
        self._detail = detail
        self._contention = contention
        self._launch_ps = launch_ps
        self._group = "compute"

    def compile(self, steps: Sequence[Step], training_pass: Pass, name: str, group: str = "compute") -> Template:
        """The template of steps, whose kernels count as `group`; exchanges over one rank are left out."""
        self._group = group
        steps = [step for step in steps if isinstance(step, Run) or (self._dimensions_of(step.axis) and step.bytes)]
        if self._detail == "pass":
            return self._one(steps, training_pass, name)
        rows = _Rows()
        current: list[int] = [BEFORE]
        beside: list[list[int]] = []  # exchanges that run: row, kernels that they run beside
        merged, names = 0, name
        free: list[int] = []
        running: dict[str, list[int]] = {}  # the last exchange of a parallelism that runs beside kernels: the next one follows it

        def flush() -> None:
            nonlocal merged, current
            if merged:
                current = [rows.add(self._compute(merged, names, training_pass), current)]
                merged = 0

        for step, duration in zip(steps, self._durations(steps), strict=True):
            if isinstance(step, Run):
                names = step.name if self._detail == "kernel" else name
                merged += duration
                for one in beside:
                    one[1] -= 1
                if self._detail == "kernel" or not all(left for _, left in beside):
                    flush()
                current += [row for row, left in beside if not left]
                beside = [one for one in beside if one[1]]
                continue
            flush()
            group = GROUPS[step.axis]
            row = rows.add(self._communicate(step, training_pass), sorted({*current, *running.get(group, ())}))
            if step.beside:
                running[group] = [row]
            if step.beside == 0:
                current = [row]
            elif step.beside == FREE:
                free.append(row)
            else:
                beside.append([row, step.beside])
        flush()
        current += [row for row, _ in beside]
        return rows.template(self._joined(rows, current), free)

    def _one(self, steps: Sequence[Step], training_pass: Pass, name: str) -> Template:
        """A pass as one operation, as long as its kernels and exchanges one after another or beside each other; a free one cuts it."""
        now, cut, parts = 0, 0, dict[str, int]()
        rows, current, free = _Rows(), [BEFORE], list[int]()
        beside: list[list[int]] = []  # exchanges that run: when they end, kernels left, place of the step
        for place, (step, duration) in enumerate(zip(steps, self._durations(steps), strict=True)):
            if isinstance(step, Run):
                now += duration
                for one in beside:
                    one[1] -= 1
                for end, _, which in [one for one in beside if not one[1]]:
                    now = self._wait(now, end, steps[which], parts)
                beside = [one for one in beside if one[1]]
            elif step.beside == 0:
                now = self._wait(now, now + self._exchange_ps(step), step, parts)
            elif step.beside == FREE:
                current, cut, parts = self._cut(rows, current, now - cut, name, training_pass, parts), now, {}
                free.append(rows.add(self._communicate(step, training_pass), [*current, *free[-1:]]))
            else:
                began = max([now, *(one[0] for one in beside if GROUPS[_axis(steps[one[2]])] == GROUPS[step.axis])])
                beside.append([began + self._exchange_ps(step), step.beside, place])
        for end, _, which in beside:
            now = self._wait(now, end, steps[which], parts)
        current = self._cut(rows, current, now - cut, name, training_pass, parts)
        return rows.template(self._joined(rows, current), free)

    def _cut(self, rows: _Rows, current: list[int], duration: int, name: str, training_pass: Pass, parts: dict[str, int]) -> list[int]:
        """One operation of a part of a pass, of which exchanges take `parts`; the row that what follows waits for."""
        if not duration:
            return current
        kind = self._compute(duration, name, training_pass, tuple(sorted(parts.items())))
        self._kinds.parts[kind] = parts
        return [rows.add(kind, current)]

    @staticmethod
    def _wait(now: int, end: int, step: Step, parts: dict[str, int]) -> int:
        if end > now:
            group = GROUPS[_axis(step)]
            parts[group] = parts.get(group, 0) + end - now
        return max(now, end)

    def _durations(self, steps: Sequence[Step]) -> list[int]:
        """How long each kernel takes (picoseconds; 0 for exchanges), with what data and expert exchanges beside it slow it by.

        The last of them waits until the host has launched all.
        """
        times = self._slowed(steps, [self._duration_ps(step) if isinstance(step, Run) else 0 for step in steps])
        launches = sum(step.launches for step in steps if isinstance(step, Run))
        if self._launch_ps and launches:
            alone = sum(self._exchange_ps(step) for step in steps if isinstance(step, Exchange) and not step.beside)
            last = max(place for place, step in enumerate(steps) if isinstance(step, Run))
            times[last] += max(0, launches * self._launch_ps - sum(times) - alone)
        return times

    def _slowed(self, steps: Sequence[Step], times: list[int]) -> list[int]:
        """Times with what exchanges beside kernels slow them by. Exchanges run one after another: a kernel, or a part, is beside one."""
        if not self._contention:
            return times
        alone = list(times)
        slower: list[float] = [0.0] * len(steps)
        for place, step in enumerate(steps):
            if isinstance(step, Exchange) and step.beside and GROUPS[step.axis] in ("dp", "ep"):
                kernels = [other for other in range(place + 1, len(steps)) if isinstance(steps[other], Run)]
                left = self._exchange_ps(step)
                for other in kernels if step.beside == FREE else kernels[: step.beside]:
                    together = min(alone[other], left)
                    alone[other] -= together
                    left -= together
                    slower[other] += self._contention * together
                    if not left:
                        break
        return [time + round(more) for time, more in zip(times, slower, strict=True)]

    def _joined(self, rows: _Rows, current: Sequence[int]) -> int:
        """One row that ends when all have; the first row of nothing."""
        if len(current) == 1 and current[0] != BEFORE:
            return current[0]
        return rows.add(self._kinds.join(), current)

    def _compute(self, duration: int, name: str, training_pass: Pass, parts: Hashable = ()) -> int:
        make = lambda: Compute((), duration, -1, training_pass, name=name)  # noqa: E731
        return self._kinds.number(("compute", duration, training_pass, name, parts), self._group, make)

    def _communicate(self, step: Exchange, training_pass: Pass) -> int:
        key = step.collective, step.bytes, self._dimensions_of(step.axis), step.name, training_pass
        return self._kinds.number(key, GROUPS[step.axis], lambda: communicate(step, self._dimensions_of(step.axis), training_pass))


def communicate(step: Exchange, dimensions: tuple[int, ...], training_pass: Pass = Pass.FORWARD) -> Communicate:
    """An exchange as an operation of a graph; it needs no unit, for exchanges of several parallelisms run beside each other."""
    return Communicate((), step.collective, step.bytes, dimensions, -1, training_pass, name=step.name, unit=Unit.NONE)


def _axis(step: Step) -> str:
    assert isinstance(step, Exchange)
    return step.axis


class _Rows:
    """The rows of a template that is being written."""

    def __init__(self) -> None:
        self._kinds: list[int] = []
        self._waits: list[list[int]] = []

    def add(self, kind: int, waits: Sequence[int]) -> int:
        self._kinds.append(kind)
        self._waits.append(list(waits))
        return len(self._kinds) - 1

    def template(self, end: int, free: Sequence[int]) -> Template:
        return Template(self._kinds, self._waits, end, free)


@attrs.frozen(eq=False)
class _Columns:
    """A template in columns: of each wait its place among all waits, those for BEFORE, and how many waits each row has."""

    kinds: Any
    waits: Any
    before: Any
    counts: Any
    end: int
    free: Any

    @classmethod
    def of(cls, templates: Sequence[Template]) -> _Columns:
        """Templates one after another; each but the first waits for the one before it."""
        kinds: list[int] = []
        waits: list[int] = []
        counts: list[int] = []
        before: list[int] = []
        free: list[int] = []
        end = BEFORE
        for template in templates:
            base = len(kinds)
            for each in template.waits:
                counts.append(len(each))
                for row in each:
                    if row == BEFORE and end == BEFORE:
                        before.append(len(waits))
                    waits.append(end if row == BEFORE else base + row)
            free += (base + row for row in template.free)
            kinds += template.kinds
            end = base + template.end
        number = partial(np.array, dtype=np.int64)
        return cls(number(kinds), number(waits), number(before), number(counts), end, number(free))


class ProgramRows:
    """A program that is written template by template. `in_turn`: rows that run on begin one after another, whatever pass they are of."""

    def __init__(self, kinds: Kinds, in_turn: bool = False) -> None:
        self._kinds = kinds
        self._in_turn = in_turn
        self._parts: list[tuple[Any, Any, Any]] = []
        self._columns: dict[tuple[Template, ...], _Columns] = {}
        self._rows = 0
        self._end = BEFORE
        self._free: list[Any] = []

    def write(self, templates: Sequence[Template]) -> None:
        """Templates one after another. Sequences that repeat are written at once."""
        place = 0
        while place < len(templates):
            period, times = _repeats(templates, place)
            self._write(templates[place : place + period], times)
            place += period * times

    def _write(self, templates: Sequence[Template], times: int) -> None:
        key = tuple(templates)
        if key not in self._columns:
            self._columns[key] = _Columns.of(templates)
        one = self._columns[key]
        if times > 1 and len(one.free):
            for _ in range(times):
                self._write(templates, 1)
            return
        length = len(one.kinds)
        bases = self._rows + length * np.arange(times, dtype=np.int64)
        waits = bases[:, None] + one.waits[None, :]
        if len(one.before):
            waits[1:, one.before] = (bases[1:] - length + one.end)[:, None]
            waits[0, one.before] = self._end
        counts = np.tile(one.counts, times)
        flat = waits.reshape(-1)
        if self._end == BEFORE and len(one.before):  # the first rows wait for nothing
            kept = np.ones(len(flat), bool)
            kept[one.before] = False
            flat = flat[kept]
            rows = np.repeat(np.arange(len(one.counts)), one.counts)[one.before]
            np.subtract.at(counts, rows, 1)
        if len(one.free):
            flat, counts = self._after_last(int(one.free[0]), flat, counts)
            self._free.append(self._rows + one.free)
        self._parts.append((np.tile(one.kinds, times), flat, counts))
        self._end = int(bases[-1]) + one.end
        self._rows += length * times

    def _after_last(self, first: int, flat: Any, counts: Any) -> tuple[Any, Any]:
        """Waits and their numbers, where the first row that runs on also waits for the last one before it: all ranks of a group then
        begin them in one order, as a stream of NCCL does, also where passes that are out of step begin them.
        """
        if not (self._in_turn and self._free):
            return flat, counts
        counts[first] += 1
        return np.insert(flat, int(counts[: first + 1].sum()) - 1, self._free[-1][-1]), counts

    def free(self) -> list[int]:
        """The rows that run on."""
        return [int(row) for each in self._free for row in each]

    def wait_for(self, rows: Sequence[int]) -> None:
        """Let what follows wait for rows that run on, too."""
        if rows:
            waits = np.array([*([self._end] if self._end != BEFORE else []), *rows], np.int64)
            self._parts.append((np.array([self._kinds.join()], np.int64), waits, np.array([len(waits)], np.int64)))
            self._end = self._rows
            self._rows += 1

    def wait_for_free(self) -> None:
        """Let what follows wait for all that runs on."""
        self.wait_for(self.free())
        self._free = []

    def rows(self) -> Rows[Operation]:
        """The program."""
        kinds, waits, counts = (np.concatenate(each) if self._parts else np.zeros(0, np.int64) for each in zip(*self._parts, strict=True))
        after = Dependencies(_column(np.cumsum(counts), "Q"), _column(waits, "I"))
        return Rows(self._kinds.operations, _column(kinds, "I"), after, _operation)


def _repeats(templates: Sequence[Template], place: int) -> tuple[int, int]:
    """The templates from a place on that repeat, as (how many, how often): those by which most is written at once."""
    best = 1, 1
    left = len(templates) - place
    for period in (1, 2, 3, *_later_period(templates, place)):
        if period > left:
            continue
        times = 1
        first = templates[place : place + period]
        while templates[place + period * times : place + period * (times + 1)] == first:
            times += 1
        if times > 1 and period * times > best[0] * best[1]:
            best = period, times
    return best


def _later_period(templates: Sequence[Template], place: int) -> list[int]:
    """Where the template of a place comes again after others, for periods longer than three."""
    for other in range(place + 4, min(len(templates), place + 600)):
        if templates[other] is templates[place] and templates[other + 1 : other + 2] == templates[place + 1 : place + 2]:
            return [other - place]
    return []


def _column(numbers: Any, code: str) -> Column:
    """Numbers as a column; `code` is Q for 64 bits, I for 32."""
    return view(np.ascontiguousarray(numbers, {"Q": np.uint64, "I": np.uint32}[code]).tobytes(), code)


def _operation(kind: Operation, row: int, after: tuple[int, ...]) -> Operation:
    return attrs.evolve(kind, after=after)
