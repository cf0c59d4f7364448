"""Pipeline schedules: in which order a stage does the passes of its micro-batches.

Layers are in virtual stages, which follow each other. If a stage has several chunks of layers, chunk c of stage r is virtual stage
c p + r, or, for schedules in the form of a V, r and 2p - 1 - r. Sources: GPipe (arXiv 1811.06965), 1F1B (PipeDream-flush, arXiv
2006.09503), interleaved 1F1B (arXiv 2104.04473), ZB-H1 (arXiv 2401.10241), ZB-V (arXiv 2405.15362), DualPipe (arXiv 2412.19437).
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from astra_sim import InputError


class PassKind(enum.StrEnum):
    """The kind of a pass. BACKWARD makes all gradients; INPUT and WEIGHT are its two halves."""

    FORWARD = "F"
    BACKWARD = "B"
    INPUT = "I"
    WEIGHT = "W"


class ScheduleStep(NamedTuple):
    """A pass of a stage: the micro-batch and the chunk of layers. A forward pass may be `joined` to the backward pass that follows it."""

    kind: PassKind
    micro_batch: int
    chunk: int = 0
    with_forward: bool = False


F, B, I, W = PassKind.FORWARD, PassKind.BACKWARD, PassKind.INPUT, PassKind.WEIGHT  # noqa: E741

Order = list[list[ScheduleStep]]
"""The passes of each stage."""


def gpipe(stages: int, micro_batches: int) -> Order:
    """All forward passes, then all backward passes."""
    passes = range(micro_batches)
    return [[*(ScheduleStep(F, i) for i in passes), *(ScheduleStep(B, i) for i in passes)] for _ in range(stages)]


def one_forward_one_backward(stages: int, micro_batches: int, extra_ahead: int = 0) -> Order:
    """1F1B: forward passes until the first gradient can come, and `extra_ahead` more, then forward and backward in turn.

    With one more ahead both can run at the same time: they are joined.
    """
    order = []
    for stage in range(stages):
        # As many as there are stages behind this one: only then has the first gradient come back.
        ahead = min(micro_batches, stages - 1 - stage + extra_ahead)
        steps = [ScheduleStep(F, i) for i in range(ahead)]
        for i in range(micro_batches - ahead):
            steps += ScheduleStep(F, ahead + i, with_forward=extra_ahead > 0), ScheduleStep(B, i)
        order.append(steps + [ScheduleStep(B, i) for i in range(micro_batches - ahead, micro_batches)])
    return order


def interleaved(stages: int, micro_batches: int, chunks: int, extra_ahead: int = 0) -> Order:
    """Interleaved 1F1B: each stage has several chunks; groups of as many micro-batches as stages go through one after another.

    `extra_ahead` forward passes more come first, if the exchanges of experts are hidden; then those in turn with backward passes are
    joined to them. Raises InputError if stages do not divide micro-batches.
    """
    if micro_batches % stages:
        raise InputError(
            f"the schedule interleaved has {micro_batches} micro-batches for {stages} stages;"
            " expected a multiple (global_batch / micro_batch / data_parallel)"
        )
    total, order = micro_batches * chunks, []
    for stage in range(stages):
        # Megatron-LM warms up twice as deep as 1F1B and a round for each further chunk,
        # or with all passes if there are as many micro-batches as stages.
        ahead = total if micro_batches == stages else min(2 * (stages - 1 - stage) + (chunks - 1) * stages + extra_ahead, total)
        forward = [ScheduleStep(F, *_place(k, stages, chunks)) for k in range(total)]
        places = (_place(k, stages, chunks) for k in range(total))
        backward = [ScheduleStep(B, micro_batch, chunks - 1 - chunk) for micro_batch, chunk in places]
        steps = forward[:ahead]
        for k in range(total - ahead):
            steps += forward[ahead + k]._replace(with_forward=extra_ahead > 0), backward[k]
        order.append(steps + backward[total - ahead :])
    return order


def _place(k: int, stages: int, chunks: int) -> tuple[int, int]:
    """Micro-batch and chunk of the k-th virtual micro-batch."""
    group, rest = divmod(k, stages * chunks)
    return group * stages + rest % stages, rest // stages


def zero_bubble_h1(stages: int, micro_batches: int) -> Order:
    """ZB-H1: 1F1B, in which stage r defers the weight gradients of r micro-batches, and fills waits with them."""
    order = []
    for stage in range(stages):
        ahead = min(micro_batches, stages - 1 - stage)
        steps, put_off = [ScheduleStep(F, i) for i in range(ahead)], 0
        for i in range(micro_batches):
            if ahead + i < micro_batches:
                steps.append(ScheduleStep(F, ahead + i))
            steps.append(ScheduleStep(I, i))
            # Once there is no forward pass left, weight gradients fill the wait for each input gradient.
            if i >= stage or ahead + i >= micro_batches:
                steps.append(ScheduleStep(W, put_off))
                put_off += 1
        order.append(steps + [ScheduleStep(W, i) for i in range(put_off, micro_batches)])
    return order


class PassTimes(NamedTuple):
    """The times of passes of a chunk, in any unit."""

    forward: int = 1
    inputs: int = 1
    weights: int = 1

    def by_kind(self) -> dict[PassKind, int]:
        """The times of kinds of passes."""
        return {F: self.forward, I: self.inputs, W: self.weights, B: self.inputs + self.weights}


EQUAL_TIMES = PassTimes()


def zero_bubble_v(stages: int, micro_batches: int, times: PassTimes = EQUAL_TIMES) -> Order:
    """ZB-V: two chunks in the form of a V. If passes take equal times, a stage waits at its start alone.

    With other times the order of equal ones would wait in every micro-batch. So the authors make it of measured times, and take the best
    of several (sail-sg/zero-bubble-pipeline-parallelism, v_schedule.py); here it is the shortest of three.
    """
    order = _placed(stages, micro_batches, EQUAL_TIMES, _FORWARD_FIRST)
    if times == EQUAL_TIMES:
        return order
    orders = [order, *(_placed(stages, micro_batches, times, choices) for choices in (_FORWARD_FIRST, _BACKWARD_FIRST))]
    return min(orders, key=lambda order: makespan(order, "zb-v", times.by_kind()))


_FORWARD_FIRST = ((F, 1), (F, 0), (I, 0), (I, 1), (W, 1), (W, 0))
_BACKWARD_FIRST = ((I, 1), (I, 0), (F, 1), (F, 0), (W, 1), (W, 0))
"""Which of the passes that can begin goes first: (kind, chunk)."""


def _placed(stages: int, micro_batches: int, times: PassTimes, choices: Sequence[tuple[PassKind, int]]) -> Order:
    """Passes of ZB-V of these times, placed one after another, each as soon as its dependencies have ended.

    At most 2p forward passes of chunks are ahead of their weight gradients, as much as 1F1B keeps in its first stage; at most 2p - 1 are
    of the first chunk, which leaves a place for the second chunk of the oldest micro-batch: it can always go on.
    """
    last, limit, durations = 2 * stages - 1, 2 * stages, times.by_kind()
    ended: dict[tuple[PassKind, int, int], int] = {}  # (kind, micro-batch, virtual stage) -> when it ends
    counts = [dict.fromkeys(choices, 0) for _ in range(stages)]
    order: Order = [[] for _ in range(stages)]

    def needed(kind: PassKind, place: int) -> tuple[PassKind, int] | None:
        """The pass that a pass of a virtual stage waits for: its kind, for the same micro-batch, and its virtual stage."""
        if kind is F:
            return (F, place - 1) if place else None
        return (I, place + 1) if place < last else (F, place)

    def can_begin(stage: int, kind: PassKind, chunk: int, now: int) -> bool:
        done = counts[stage]
        micro_batch = done[kind, chunk]
        if kind is W:
            return micro_batch < done[I, chunk]
        if micro_batch == micro_batches:
            return False
        if kind is F:
            ahead = [done[F, c] - done[W, c] for c in (0, 1)]
            if sum(ahead) >= limit or (chunk == 0 and ahead[0] >= limit - 1):
                return False
        need = needed(kind, virtual_stage("zb-v", stage, chunk, stages))
        return need is None or ended.get((need[0], micro_batch, need[1]), now + 1) <= now

    busy_until = [0] * stages
    looks = [(0, stage) for stage in range(stages)]  # when a stage looks for its next pass: after its own ones and those it waits for
    while looks:
        now, stage = heapq.heappop(looks)
        choice = next((choice for choice in choices if can_begin(stage, *choice, now)), None) if busy_until[stage] <= now else None
        if choice is None:
            continue
        (kind, chunk), micro_batch = choice, counts[stage][choice]
        counts[stage][choice] += 1
        order[stage].append(ScheduleStep(kind, micro_batch, chunk))
        place = virtual_stage("zb-v", stage, chunk, stages)
        follower = place + {F: 1, I: -1, W: 0}[kind]
        other = min(follower, last - follower) if 0 <= follower <= last else stage
        end = now + max(1, durations[kind])
        busy_until[stage] = ended[kind, micro_batch, place] = end
        for each in dict.fromkeys((stage, other)):
            heapq.heappush(looks, (end, each))
    return order


def dualpipe(stages: int, micro_batches: int) -> Order:
    """DualPipe: micro-batches come from both ends; each stage has chunk 0 of the way down and chunk 1, that of the way up.

    The first half of micro-batches goes down, the second up. Raises InputError unless stages and micro-batches are even and there are
    twice as many micro-batches as stages.
    """
    if stages % 2 or micro_batches % 2 or micro_batches < 2 * stages:
        raise InputError(
            f"the schedule dualpipe has {stages} stages and {micro_batches} micro-batches;"
            " expected even numbers, and at least twice as many micro-batches as stages"
        )
    half, order = micro_batches // 2, []
    for stage in range(stages):
        upper = stage >= stages // 2
        place = min(stage, stages - 1 - stage)
        writer = _DualWriter(half, upper)
        deep = stages // 2 - place - 1
        # The eight steps of deepseek-ai/DualPipe: forward passes of the direction that begins nearer to this stage,
        for _ in range(2 * deep):
            writer.add(F, 0)
        # forward passes of both directions,
        for _ in range(place + 1):
            writer.add(F, 0)
            writer.add(F, 1)
        # backward passes whose weight gradients follow at once, so that the next stage gets its gradient earlier,
        for _ in range(deep):
            writer.add(I, 1)
            writer.add(W, 1)
            writer.add(F, 1)
        # the main part, in which every forward pass runs beside a backward one (the first of the middle stages does not: a smaller bubble),
        for k in range(half - stages + place + 1):
            writer.join(0, 1, alone=k == 0 and not deep and place == stages // 2 - 1)
            writer.join(1, 0)
        # the same while forward passes of the other direction are left,
        for _ in range(deep):
            writer.add(B, 1)
            writer.join(1, 0)
        # backward passes of both, whose second half puts weight gradients off,
        for k in range(place + 1):
            writer.add(I if 2 * k >= place + 1 else B, 1)
            writer.add(I if 2 * k + 1 >= place + 1 else B, 0)
        # and these between the last input gradients, and at the end.
        for _ in range(deep):
            writer.add_put_off()
            writer.add(I, 0)
        writer.finish()
        order.append(writer.steps)
    return order


class _DualWriter:
    """Writes the passes of a stage; way 0 is the one on which this half of the stages comes first."""

    def __init__(self, half: int, upper: bool) -> None:
        self.steps: list[ScheduleStep] = []
        self._half = half
        self._upper = upper
        self._next: dict[tuple[PassKind, int], int] = {}
        self._put_off: list[tuple[int, int]] = []

    def add(self, kind: PassKind, way: int, with_forward: bool = False) -> None:
        """The next pass of a kind on a way."""
        chunk = way ^ self._upper
        if kind is W:
            self.add_put_off()
            return
        key = (F if kind is F else B), chunk
        number = self._next.get(key, 0)
        self._next[key] = number + 1
        micro_batch = number + chunk * self._half
        self.steps.append(ScheduleStep(kind, micro_batch, chunk, with_forward))
        if kind is I:
            self._put_off.append((micro_batch, chunk))

    def join(self, forward: int, backward: int, alone: bool = False) -> None:
        """A forward pass joined to a backward one."""
        self.add(F, forward, with_forward=not alone)
        self.add(B, backward)

    def add_put_off(self) -> None:
        """The oldest weight gradients that were put off."""
        if self._put_off:
            micro_batch, chunk = self._put_off.pop(0)
            self.steps.append(ScheduleStep(W, micro_batch, chunk))

    def finish(self) -> None:
        """All that is left."""
        while self._put_off:
            self.add_put_off()


def virtual_stage(schedule: str, stage: int, chunk: int, stages: int) -> int:
    """The virtual stage that a chunk of a stage is."""
    if schedule in ("zb-v", "dualpipe"):
        return stage if chunk == 0 else (2 * stages - 1 - stage if schedule == "zb-v" else stages - 1 - stage)
    return chunk * stages + stage


def order_of(
    schedule: str,
    stages: int,
    micro_batches: int,
    chunks: int,
    extra_ahead: int = 0,
    times: PassTimes = EQUAL_TIMES,
) -> Order:
    """The order of a schedule by name; that of ZB-V follows from the `times` of passes of a chunk. Raises InputError if it cannot be."""
    if schedule == "interleaved":
        return interleaved(stages, micro_batches, chunks, extra_ahead)
    plain: dict[str, Callable[[int, int], Order]] = {
        "gpipe": gpipe,
        "1f1b": lambda stages, micro_batches: one_forward_one_backward(stages, micro_batches, extra_ahead),
        "zb-h1": zero_bubble_h1,
        "zb-v": lambda stages, micro_batches: zero_bubble_v(stages, micro_batches, times),
        "dualpipe": dualpipe,
    }
    return plain[schedule](stages, micro_batches)


def makespan(order: Sequence[Sequence[ScheduleStep]], schedule: str, times: Mapping[PassKind, float], send: float = 0.0) -> float:
    """The time of an order if passes of a kind take one time on all stages; a joined pair the sum. For closed forms and tests.

    Raises ValueError if the order waits for itself.
    """
    stages = len(order)
    chunks = 1 + max(step.chunk for steps in order for step in steps)
    last = {"zb-v": 2 * stages, "dualpipe": stages}.get(schedule, stages * chunks) - 1
    ends: dict[tuple[str, int, int, int], float] = {}
    clock, place = [0.0] * stages, [0] * stages
    moved = True
    while moved:
        moved = False
        for stage, steps in enumerate(order):
            while place[stage] < len(steps):
                step = steps[place[stage]]
                at = virtual_stage(schedule, stage, step.chunk, stages)
                way = step.chunk if schedule == "dualpipe" else 0
                need: tuple[str, int, int, int] | None = None
                if step.kind is F:
                    need = ("F", step.micro_batch, at - 1, way) if at else None
                elif step.kind in (B, I):
                    need = ("B", step.micro_batch, at + 1, way) if at < last else ("F", step.micro_batch, at, way)
                if need is not None and need not in ends:
                    break
                began = max(clock[stage], ends[need] + (send if need[2] != at else 0.0) if need else 0.0)
                clock[stage] = began + times[step.kind]
                if step.kind is not W:
                    ends["F" if step.kind is F else "B", step.micro_batch, at, way] = clock[stage]
                place[stage] += 1
                moved = True
    if any(place[stage] < len(steps) for stage, steps in enumerate(order)):
        raise ValueError(f"the order of {schedule} waits for itself")
    return max(clock)
