"""The layers of a model, before they are split over NPUs."""

from __future__ import annotations

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.shapes import Convolution, Gemm, Shape

from astra_sim_compute_systolic.generate.parallelism import LAYER_POLICIES


@attrs.frozen
class ModelLayer:
    """A layer with the shape of its forward pass for the whole batch.

    `weights`: whether the second factor is trained; attention multiplies two inputs. `policy`: its parallelisation, for HYBRID_CUSTOMIZED.
    """

    name: str
    shape: Shape
    weights: bool = True
    policy: str | None = None

    @property
    def parameters(self) -> int:
        """Trained elements."""
        return self.shape.gemm.n * self.shape.gemm.k if self.weights else 0


def with_batch(shape: Shape, batch: int) -> Shape:
    """The shape for a batch of `batch` times as many samples."""
    if isinstance(shape, Convolution):
        return attrs.evolve(shape, batch=shape.batch * batch)
    return attrs.evolve(shape, m=shape.m * batch)


def read_csv(text: str, path: str) -> list[ModelLayer]:
    """Layers from CSV: a heading, then name, m (batch), n (outputs), k (inputs) [, parallelisation]. Raises InputError with the line."""
    layers = []
    for number, line in enumerate(text.split("\n"), 1):
        cells = [cell.strip() for cell in line.split(",")]
        if number == 1 or not any(cells):
            continue
        where = f"{path}:{number}"
        while cells and not cells[-1]:
            cells.pop()
        if len(cells) not in (4, 5) or not cells[0]:
            raise InputError(f"{where}: {line.strip()!r} has {len(cells)} cells; expected name, m, n, k and perhaps a parallelisation")
        policy = cells[4] if len(cells) == 5 else None
        if policy is not None and policy not in LAYER_POLICIES:
            raise InputError(f"{where}: the parallelisation is {policy!r}; {suggestion(policy, LAYER_POLICIES)}")
        m, n, k = (_size(cell, where, column) for cell, column in zip(cells[1:], "mnk", strict=False))
        layers.append(ModelLayer(cells[0], Gemm(m=m, n=n, k=k), policy=policy))
    if not layers:
        raise InputError(f"{path}: no layer follows the heading")
    return layers


def _size(text: str, where: str, column: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 12 or int(text) < 1:
        raise InputError(f"{where}: {column} is {text!r}; expected a whole number of at least 1")
    return int(text)
