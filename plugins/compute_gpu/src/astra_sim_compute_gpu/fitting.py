"""Fits of cost models to measured kernels, by the procedure in docs/compute.md."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

import attrs
from astra_sim import InputError
from astra_sim.fitting import ErrorOf, error_of, minimise
from astra_sim.shapes import Attention, Gemm

MOST_FITTED = 1000
LEAST_SHAPES = 10
LARGE_OPERATIONS = 1e11


@attrs.frozen
class Measurement:
    """A measured kernel. `cast`: the time includes the cast of the first factor to the element type."""

    shape: Gemm | Attention
    microseconds: float
    cast: bool = False

    @property
    def text(self) -> str:
        """The shape as text, by which fitting and held-out shapes are told apart; the element type is not part of it."""
        shape = self.shape
        if isinstance(shape, Gemm):
            return f"gemm {shape.batch} {shape.m} {shape.n} {shape.k}"
        lengths = f"{shape.heads} {shape.query_length} {shape.key_length} {shape.head_size}"
        return f"attention {lengths} {int(shape.causal)} {int(shape.backward)}"


@attrs.frozen
class Parameter:
    """A number to be fitted: where the fit starts, three times, and its bounds."""

    name: str
    starts: tuple[float, float, float]
    lowest: float
    highest: float

    def bounded(self, logarithm: float) -> float:
        """The value of a logarithm, within the bounds."""
        return min(self.highest, max(self.lowest, math.exp(min(logarithm, 100.0))))


@attrs.frozen
class Fit:
    """Fitted numbers by name, and the errors with them."""

    values: dict[str, float]
    fitted: ErrorOf
    held_out: ErrorOf
    held_out_large: ErrorOf


Predict = Callable[[dict[str, float], Measurement], float]
"""Microseconds of a kernel, from the numbers by name."""


def split(rows: Sequence[Measurement]) -> tuple[list[Measurement], list[Measurement]]:
    """Rows to fit and rows that are held out: half of the distinct shapes each, by the SHA-256 of their text."""
    texts = sorted({row.text for row in rows}, key=lambda text: hashlib.sha256(text.encode()).digest())
    chosen = set(texts[: (len(texts) + 1) // 2])
    return [row for row in rows if row.text in chosen], [row for row in rows if row.text not in chosen]


def fit(rows: Sequence[Measurement], parameters: Sequence[Parameter], predict: Predict) -> Fit:
    """Fit numbers to half of the shapes and hold the other half against them. Raises InputError where there are too few shapes."""
    shapes = len({row.text for row in rows})
    if shapes < LEAST_SHAPES:
        raise InputError(f"{shapes} different shapes; expected at least {LEAST_SHAPES}, half of which are held out")
    fitting, held_out = split(rows)
    used = _first_shapes(fitting)

    def named(logarithms: Sequence[float]) -> dict[str, float]:
        return {parameter.name: parameter.bounded(value) for parameter, value in zip(parameters, logarithms, strict=True)}

    def distance(logarithms: Sequence[float]) -> float:
        values = named(logarithms)
        return sum(abs(math.log(predict(values, row) / row.microseconds)) for row in used) / len(used)

    starts = zip(*(parameter.starts for parameter in parameters), strict=True)
    best, _ = min((minimise(distance, [math.log(value) for value in start]) for start in starts), key=lambda found: found[1])
    values = {name: float(f"{value:.4g}") for name, value in named(best).items()}
    large = [row for row in held_out if row.shape.operations > LARGE_OPERATIONS]
    return Fit(values, *(error_over(part, lambda row: predict(values, row)) for part in (fitting, held_out, large)))


def _first_shapes(rows: Sequence[Measurement]) -> list[Measurement]:
    """The rows of so many shapes as are fitted, in the order of the split."""
    texts = sorted({row.text for row in rows}, key=lambda text: hashlib.sha256(text.encode()).digest())
    chosen = set(texts[:MOST_FITTED])
    return [row for row in rows if row.text in chosen]


def error_over(rows: Sequence[Measurement], microseconds: Callable[[Measurement], float]) -> ErrorOf:
    """The error of a model over rows, with its interval over their shapes."""
    return error_of((row.text, abs(microseconds(row) / row.microseconds - 1)) for row in rows)
