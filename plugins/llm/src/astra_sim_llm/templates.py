"""Passes as rows of a program: a pass that is written once is repeated in columns, because a pipeline does each pass many times.

A template is a list of operations with dependencies: operations of the same template, or the end of the pass before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import attrs
import numpy as np
from astra_sim.graph import Communicate, Composite, Compute, Operation, Pass, Unit, Wait
from astra_sim.rows import Column, Dependencies, Rows, column, view

from astra_sim_llm.steps import LlmExchange, LlmRun, Step

BEFORE = -1
"""A dependency of a row: the end of the pass before."""

FIRE_AND_FORGET = -1
"""The end of the program alone waits for an exchange beside this many kernels."""


@attrs.frozen(eq=False)
class Template:
    """Rows of kinds, each with the rows it waits for (from 0 on, or BEFORE), the row that ends the pass, and those that run on."""

    kinds: Sequence[int]
    waits: Sequence[Sequence[int]]
    end: int
    free: Sequence[int]

    def of_kinds(self, kinds: Sequence[int]) -> Template:
        """The same rows, of other kinds."""
        return Template(kinds, self.waits, self.end, self.free)


@attrs.frozen(eq=False)
class _Part:
    """The common parts of stage composites: rows, numbered by their kind from 0 on, waits, and rows that end them."""

    kind_of: Column
    after: Dependencies
    until: tuple[int, ...]


@attrs.define
class _Local:
    """The different operations of one layout, by their keys; they are described when a template is made of it."""

    keys: dict[Hashable, int] = attrs.field(factory=dict)

    def number(self, key: Hashable) -> int:
        """The number of a key."""
        return self.keys.setdefault(key, len(self.keys))


@attrs.frozen(eq=False)
class _Piece:
    """A row of a template of composites: a part with its kinds and the piece that it continues, or a kind that runs on."""

    part: _Part | None
    kinds: Sequence[int]
    previous: int | None


@attrs.frozen(eq=False)
class _Layout:
    """A template whose kinds are keys of its own: the common part of passes that differ in their names alone.

    With `pieces` its rows, but for a last one that joins, are these.
    """

    keys: Sequence[Hashable]
    rows: Template
    pieces: Sequence[_Piece] | None = None


@attrs.define
class Layouts:
    """The layouts that stages share, and the parts of their composites; `steps` stay here, so that their numbers stay their own."""

    by_key: dict[Hashable, tuple[Sequence[Step], _Layout]] = attrs.field(factory=dict)
    parts: dict[Hashable, _Part] = attrs.field(factory=dict)
    exchanges: dict[LlmExchange, LlmExchange] = attrs.field(factory=dict)

    def part(self, kinds: Sequence[int], waits: Sequence[Sequence[int]], until: tuple[int, ...]) -> _Part:
        """The part of such rows, made if it is new."""
        key = tuple(kinds), tuple(map(tuple, waits)), until
        if key not in self.parts:
            self.parts[key] = _Part(column(kinds, "I"), Dependencies.of(waits), until)
        return self.parts[key]


@attrs.define
class OperationTypes:
    """The different operations of a program, by their equality keys, and the meaning of each: of which parallelism, or compute.

    `within` has those of its composites.
    """

    operations: list[Operation] = attrs.field(factory=list)
    groups: list[str] = attrs.field(factory=list)
    _within: list[OperationTypes] = attrs.field(factory=list)
    _parts: list[_Part] = attrs.field(factory=list)
    _numbers: dict[Hashable, int] = attrs.field(factory=dict)

    def number(self, key: Hashable, group: str, make: Callable[[], Operation]) -> int:
        """The kind of a key, made if it is new."""
        if (key, group) not in self._numbers:
            self._numbers[key, group] = len(self.operations)
            self.operations.append(make())
            self.groups.append(group)
        return self._numbers[key, group]

    def join(self) -> int:
        """A row that ends when all its dependencies have ended."""
        return self.number("join", "join", lambda: Wait((), (), -1, Pass.FORWARD))

    def late(self, late_ps: int) -> int:
        """A row that waits for the slowest node for some time, which counts as bubble (picoseconds)."""
        return self._waiting(late_ps, "late", "slowest node")

    def filling(self, filling_ps: int) -> int:
        """A row that waits until a broadcast reaches the last node, which counts as data parallelism (picoseconds)."""
        return self._waiting(filling_ps, "dp", "broadcast reaches nodes")

    def _waiting(self, duration_ps: int, group: str, name: str) -> int:
        """A row in which the NPU does nothing."""
        wait = partial(Compute, (), duration_ps, -1, Pass.WEIGHT_GRADIENT, idle=True, unit=Unit.NONE, name=name)
        return self.number((name, duration_ps), group, wait)

    @property
    def has_composites(self) -> bool:
        """Whether there are composites."""
        return bool(self._within)

    @property
    def within(self) -> OperationTypes:
        """The operations of composites."""
        if not self._within:
            self._within.append(OperationTypes())
        return self._within[0]

    def from_within(self, kind: int) -> int:
        """The kind of an operation of composites that is outside them."""
        return self.number(("from within", kind), self.within.groups[kind], lambda: self.within.operations[kind])

    def composite(self, part: _Part, kinds: Sequence[int], previous: int | None, name: str) -> int:
        """The kind of a composite, of whose part the operations are those of some kinds from `within`; see `graph.Composite`."""
        key = "composite", id(part), tuple(kinds), previous, name

        def make() -> Operation:
            rows = Rows([self.within.operations[kind] for kind in kinds], part.kind_of, part.after, _operation)
            before = None if previous is None else self.operations[previous]
            assert before is None or isinstance(before, Composite)
            return Composite((), rows, part.until, before, name)

        if part not in self._parts:
            self._parts.append(part)  # kept, so that its number stays its own
        return self.number(key, "composite", make)

    def group_of(self) -> dict[int, str]:
        """The group of each operation, by its identity."""
        return dict(zip(map(id, self.operations), self.groups, strict=True))


GROUPS = {
    **dict.fromkeys(("tp", "etp"), "tp"),
    "cp": "cp",
    **dict.fromkeys(("ep", "ep_node", "ep_nodes"), "ep"),
    **dict.fromkeys(("dp", "all_dp", "replicas", "edp", "all_edp", "expert_replicas"), "dp"),
}
"""The parallelism to which the exchanges of an axis belong."""


class Compiler:
    """Makes templates of steps, with the times that the compute model gives, in one of three details.

    kernel: a row for each kernel; layer: one for the kernels between two exchanges; pass: a composite of the latter for a pass, cut where
    exchanges begin that run on.
    """

    def __init__(
        self,
        kinds: OperationTypes,
        duration_ps: Callable[[LlmRun], int],
        exchange_ps: Callable[[LlmExchange], int],
        dimensions_of: Callable[[str], tuple[int, ...]],
        detail: str,
        contention: float,
        launch_ps: int = 0,
        layouts: Layouts | None = None,
    ) -> None:
        self._kinds = kinds
        self._layouts = layouts or Layouts()
        self._duration_ps = duration_ps
        self._exchange_ps = exchange_ps
        self._dimensions_of = dimensions_of
        self._detail = detail
        self._inner = kinds.within if detail == "pass" else kinds
        self._contention = contention
        self._launch_ps = launch_ps

    def compile(self, steps: Sequence[Step], training_pass: Pass, name: str, group: str = "compute") -> Template:
        """The template of steps, whose kernels count as `group`; exchanges over one rank are left out."""
        key = tuple(map(_identity, steps))
        if key not in self._layouts.by_key:
            real_steps = [step for step in steps if isinstance(step, LlmRun) or (self._dimensions_of(step.axis) and step.bytes)]
            layout = self._layout(real_steps)
            self._layouts.by_key[key] = steps, self._pieces(layout) if self._detail == "pass" else layout
        layout = self._layouts.by_key[key][1]
        numbers = [self._number(each, training_pass, name, group) for each in layout.keys]
        if layout.pieces is None:
            return layout.rows.of_kinds([numbers[kind] for kind in layout.rows.kinds])
        result: list[int] = []
        for piece in layout.pieces:
            kinds = [numbers[kind] for kind in piece.kinds]
            previous = None if piece.previous is None else result[piece.previous]
            one = self._kinds.from_within(kinds[0]) if piece.part is None else self._kinds.composite(piece.part, kinds, previous, name)
            result.append(one)
        result += (self._kinds.join() for _ in range(len(layout.rows.kinds) - len(result)))
        return layout.rows.of_kinds(result)

    def kernels_ps(self, steps: Sequence[Step]) -> int:
        """The time of the kernels of steps, with slowdown and launches (picoseconds)."""
        return sum(self._durations(steps))

    def shared(self, exchange: LlmExchange) -> LlmExchange:
        """The exchange, or an equal one from before: steps are distinguished by identity, so all passes share a layout."""
        return self._layouts.exchanges.setdefault(exchange, exchange)

    def _number(self, key: Any, training_pass: Pass, name: str, group: str) -> int:
        """The kind of an operation of a layout."""
        match key:
            case int(duration), kernel:
                kernel_name = name if kernel is None else kernel
                make = lambda: Compute((), duration, -1, training_pass, name=kernel_name)  # noqa: E731
                return self._inner.number(("compute", duration, training_pass, kernel_name), group, make)
            case collective, size, dimensions, kernel_name, axis:
                whole = collective, size, dimensions, kernel_name, training_pass
                exchange = LlmExchange(kernel_name, axis, collective, size)
                return self._inner.number(whole, GROUPS[axis], lambda: communicate(exchange, dimensions, training_pass))
        return self._inner.join()

    def _layout(self, steps: Sequence[Step]) -> _Layout:
        """The layout of steps, without composites."""
        local = _Local()
        rows = _Rows()
        current: list[int] = [BEFORE]
        overlapped_with: list[list[int]] = []  # exchanges that run: row, kernels that they run beside
        merged, names = 0, None
        free: list[int] = []
        running: dict[str, list[int]] = {}  # the last exchange of a parallelism that runs beside kernels: the next one follows it

        def flush() -> None:
            nonlocal merged, current
            if merged:
                current = [rows.add(local.number((merged, names)), current)]
                merged = 0

        for step, duration in zip(steps, self._durations(steps), strict=True):
            if isinstance(step, LlmRun):
                names = step.name if self._detail == "kernel" else None
                merged += duration
                if not overlapped_with:
                    if self._detail == "kernel":
                        flush()
                    continue
                for one in overlapped_with:
                    one[1] -= 1
                if self._detail == "kernel" or not all(left for _, left in overlapped_with):
                    flush()
                current += [row for row, left in overlapped_with if not left]
                overlapped_with = [one for one in overlapped_with if one[1]]
                continue
            flush()
            group = GROUPS[step.axis]
            waits = sorted({*current, *running[group]}) if group in running else sorted(current)
            key = step.collective, step.bytes, self._dimensions_of(step.axis), step.name, step.axis
            row = rows.add(local.number(key), waits)
            if step.overlapped_with:
                running[group] = [row]
            if step.overlapped_with == 0:
                current = [row]
            elif step.overlapped_with == FIRE_AND_FORGET:
                free.append(row)
            else:
                overlapped_with.append([row, step.overlapped_with])
        flush()
        current += [row for row, _ in overlapped_with]
        result = rows.template(_joining_row(rows, current, partial(local.number, "join")), free)
        return _Layout(list(local.keys), result)

    def _pieces(self, layout: _Layout) -> _Layout:
        """A layout whose rows are composites: those between two exchanges that run on are one."""
        template = layout.rows
        rows = _Rows()
        numbers: dict[int, int] = {}  # rows of the template that are within composites: their numbers there
        free: dict[int, int] = {}  # rows that run on: their rows here
        local = _Local()
        kinds: list[int] = []
        waits: list[list[int]] = []
        pieces: list[_Piece] = []
        previous: int | None = None
        reached: tuple[int, ...] = ()
        current = BEFORE

        def composite(until: Sequence[int]) -> None:
            """Close a composite, which ends when some of its operations have."""
            nonlocal local, kinds, waits, previous, current, reached
            ends = tuple(sorted(numbers[row] for row in until if row in numbers))
            # Two exchanges that begin at one place share the composite before them.
            if not ends or (not kinds and ends == reached):
                return
            reached = ends
            pieces.append(_Piece(self._layouts.part(kinds, waits, ends), list(local.keys), previous))  # type: ignore[arg-type]
            previous = current = rows.add(0, [current])
            local, kinds, waits = _Local(), [], []

        runs_on = set(template.free)
        for row, (kind, each) in enumerate(zip(template.kinds, template.waits, strict=True)):
            if row in runs_on:
                composite(each)
                pieces.append(_Piece(None, [kind], None))
                free[row] = rows.add(0, sorted({current, *(free[other] for other in each if other in free)}))
            else:
                numbers[row] = len(numbers)
                kinds.append(local.number(kind))
                waits.append([numbers[other] for other in each if other in numbers])
        if previous is not None or any(layout.keys[kind] != "join" for kind in local.keys):  # type: ignore[call-overload]
            composite([template.end])
        result = rows.template(_joining_row(rows, [current], lambda: 0), list(free.values()))
        return _Layout(layout.keys, result, pieces)

    def _durations(self, steps: Sequence[Step]) -> list[int]:
        """The time of each kernel (picoseconds; 0 for exchanges), including the slowdown by concurrent data and expert exchanges, and
        the time in which nothing runs before it because the host has not launched it yet.
        """
        runs = {id(step): step for step in steps if isinstance(step, LlmRun)}  # layers share their kernels
        known = {number: self._duration_ps(step) for number, step in runs.items()}
        times = self._slowed(steps, [known.get(id(step), 0) for step in steps])
        return self._launched(steps, times) if self._launch_ps else times

    def _launched(self, steps: Sequence[Step], times: list[int]) -> list[int]:
        """Times with those in which a kernel waits for its launch. The host launches one after another, runs ahead of long kernels and
        exchanges, and loses its lead where it waits for a result (`awaited`). Both begin the pass together.
        """
        host = device = waited = last = 0
        result = list(times)
        for place, step in enumerate(steps):
            if isinstance(step, LlmExchange):
                alone = 0 if step.overlapped_with else self._exchange_ps(step)
                if alone:
                    host += self._launch_ps
                    waited += max(0, host - device)  # which the next kernel counts
                    device = max(device, host) + alone
                continue
            ready = device + times[place]
            if step.launches:
                first, host = host + self._launch_ps, host + step.launches * self._launch_ps
                # Of several kernels the last begins when it has been launched.
                ready = max(max(device, first) + times[place], host + times[place] // step.launches)
            result[place] = ready - device + waited
            device, waited, last = ready, 0, place
            if step.awaited:
                host = max(host, device)
        if waited:
            result[last] += waited
        return result

    def _slowed(self, steps: Sequence[Step], times: list[int]) -> list[int]:
        """Times with the slowdown by exchanges beside kernels. Exchanges run one after another: a kernel, or a part, is beside one."""
        if not self._contention:
            return times
        alone = list(times)
        slower: list[float] = [0.0] * len(steps)
        for place, step in enumerate(steps):
            if isinstance(step, LlmExchange) and step.overlapped_with and GROUPS[step.axis] in ("dp", "ep"):
                kernels = [other for other in range(place + 1, len(steps)) if isinstance(steps[other], LlmRun)]
                left = self._exchange_ps(step)
                for other in kernels if step.overlapped_with == FIRE_AND_FORGET else kernels[: step.overlapped_with]:
                    together = min(alone[other], left)
                    # A part of a kernel is slowed once, however many exchanges it runs beside.
                    alone[other] -= together
                    left -= together
                    slower[other] += self._contention * together
                    if not left:
                        break
        return [time + round(more) for time, more in zip(times, slower, strict=True)]


def _identity(step: Step) -> Hashable:
    """The key by which steps are equal: the number of the step, or the step itself if each pass makes its own."""
    return step if isinstance(step, LlmExchange) and (step.overlapped_with or GROUPS[step.axis] == "dp") else id(step)


def _joining_row(rows: _Rows, current: Sequence[int], join: Callable[[], int]) -> int:
    """One row that ends when all have; the first row of nothing."""
    if len(current) == 1 and current[0] != BEFORE:
        return current[0]
    return rows.add(join(), current)


def communicate(step: LlmExchange, dimensions: tuple[int, ...], training_pass: Pass = Pass.FORWARD) -> Communicate:
    """An exchange as an operation of a graph; it needs no unit, for exchanges of several parallelisms run beside each other."""
    group = GROUPS[step.axis]
    return Communicate(
        after=(),
        collective=step.collective,
        bytes=step.bytes,
        dimensions=dimensions,
        layer=-1,
        training_pass=training_pass,
        name=step.name,
        unit=Unit.NONE,
        parallelism=group,
    )


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

    def __init__(self, kinds: OperationTypes, in_turn: bool = False) -> None:
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
        """Append templates a number of times, one after the other: whole columns at once, unless something runs on from one to the next."""
        key = tuple(templates)
        if key not in self._columns:
            self._columns[key] = _Columns.of(templates)
        one = self._columns[key]
        # Later rows wait for each row that runs on by its number, so these are written one by one.
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
            is_waiting = np.ones(len(flat), bool)
            is_waiting[one.before] = False
            flat = flat[is_waiting]
            rows = np.repeat(np.arange(len(one.counts)), one.counts)[one.before]
            np.subtract.at(counts, rows, 1)
        if len(one.free):
            flat, counts = self._after_last(int(one.free[0]), flat, counts)
            self._free.append(self._rows + one.free)
        self._parts.append((np.tile(one.kinds, times), flat, counts))
        self._end = int(bases[-1]) + one.end
        self._rows += length * times

    def _after_last(self, first: int, flat: Any, counts: Any) -> tuple[Any, Any]:
        """Waits and their numbers, if the first row that runs on also waits for the last one before it: all ranks of a group then
        begin them in one order, as a stream of NCCL does, also if passes that are out of step begin them.
        """
        if not (self._in_turn and self._free):
            return flat, counts
        counts[first] += 1
        return np.insert(flat, int(counts[: first + 1].sum()) - 1, self._free[-1][-1]), counts

    def free(self) -> list[int]:
        """The rows that run on."""
        return [int(row) for each in self._free for row in each]

    def wait_for(self, rows: Sequence[int]) -> None:
        """Let later rows wait for rows that run on, too."""
        if rows:
            waits = np.array([*([self._end] if self._end != BEFORE else []), *rows], np.int64)
            self._parts.append((np.array([self._kinds.join()], np.int64), waits, np.array([len(waits)], np.int64)))
            self._end = self._rows
            self._rows += 1

    def wait_for_free(self) -> None:
        """Let later rows wait for all that run on."""
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
    # Passes repeat one by one in GPipe, in pairs in 1F1B, and by three where weight gradients are passes of their own.
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
    """The period at which the template of a place repeats after others, for periods longer than three."""
    for other in range(place + 4, min(len(templates), place + 600)):
        if templates[other] is templates[place] and templates[other + 1 : other + 2] == templates[place + 1 : place + 2]:
            return [other - place]
    return []


def _column(numbers: Any, code: str) -> Column:
    """Numbers as a column; `code` is Q for 64 bits, I for 32."""
    return view(np.ascontiguousarray(numbers, {"Q": np.uint64, "I": np.uint32}[code]).tobytes(), code)


def _operation(kind: Operation, row: int, after: tuple[int, ...]) -> Operation:
    return attrs.evolve(kind, after=after)
