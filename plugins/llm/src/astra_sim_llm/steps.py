"""The steps of a pass: kernels that a rank runs, and exchanges with other ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import attrs
from astra_sim.schedule import Collective
from astra_sim.shapes import Kernel


@attrs.frozen
class LlmRun:
    """A kernel that a rank runs, or several equal ones: the number of launches by the host (0: a graph launches it with others).

    `weight`: it makes weight gradients, which a zero-bubble schedule may put off. `awaited`: the host launches no more until it has ended.
    """

    name: str
    shape: Kernel
    weight: bool = False
    launches: int = 1
    awaited: bool = False


@attrs.frozen
class LlmExchange:
    """A collective over the ranks of an axis (`tp`, `cp`, `ep`, `etp`), of the bytes that each rank puts in.

    It runs beside the next `overlapped_with` kernels, which begin with it; later kernels wait for it, too.
    """

    name: str
    axis: str
    collective: Collective
    bytes: int
    overlapped_with: int = 0
    weight: bool = False


Step = LlmRun | LlmExchange


def weight_steps(steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """A backward pass as two: the input gradients, and the weight gradients, which may come later.

    An exchange runs beside those of its kernels that stay in its part: what follows there may need it.
    """
    inputs: list[Step] = []
    weights: list[Step] = []
    for place, step in enumerate(steps):
        if isinstance(step, LlmExchange) and step.overlapped_with:
            kernels = (later for later in steps[place + 1 :] if isinstance(later, LlmRun))
            same_part = sum(later.weight is step.weight for later in islice(kernels, step.overlapped_with))
            step = attrs.evolve(step, overlapped_with=same_part)
        (weights if step.weight else inputs).append(step)
    return inputs, weights


def in_graph(steps: Iterable[Step]) -> Iterator[Step]:
    """Steps whose kernels the host does not launch one by one."""
    return (attrs.evolve(step, launches=0) if isinstance(step, LlmRun) else step for step in steps)


def join(*parts: list[Step]) -> list[Step]:
    """Steps one after another."""
    return list(chain.from_iterable(parts))
