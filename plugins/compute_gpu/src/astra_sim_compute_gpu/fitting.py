"""Fits of cost models to measured kernels, by the procedure in validation/KERNELS.md."""

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
class KernelMeasurement:
    """A measured kernel. `cast`: the time includes the cast of the first factor to the element type.

    `held_out`: whether it is held out of fits; None: the hash of its shape decides.
    """

    shape: Gemm | Attention
    microseconds: float
    cast: bool = False
    held_out: bool | None = None

    @property
    def text(self) -> str:
        """The shape as text, which separates fitted and held-out shapes; without the element type."""
        shape = self.shape
        if isinstance(shape, Gemm):
            return f"gemm {shape.batch} {shape.m} {shape.n} {shape.k}"
        lengths = f"{shape.heads} {shape.query_length} {shape.key_length} {shape.head_size}"
        return f"attention {lengths} {int(shape.causal)} {int(shape.backward)}"


@attrs.frozen
class Parameter:
    """A number to be fitted: three starting points of the fit, and its bounds."""

    name: str
    starts: tuple[float, float, float]
    lowest: float
    highest: float

    def bounded(self, logarithm: float) -> float:
        """The value of a logarithm, within the bounds."""
        return min(self.highest, max(self.lowest, math.exp(min(logarithm, 100.0))))


@attrs.frozen
class KernelFit:
    """Fitted numbers by name, and the errors with them."""

    values: dict[str, float]
    fitted: ErrorOf
    held_out: ErrorOf
    held_out_large: ErrorOf


Predict = Callable[[dict[str, float], KernelMeasurement], float]
"""Microseconds of a kernel, from the numbers by name."""


def split(rows: Sequence[KernelMeasurement]) -> tuple[list[KernelMeasurement], list[KernelMeasurement]]:
    """Rows to fit and rows that are held out: by their own column, or half of the distinct shapes each, by the SHA-256 of their text.

    Raises InputError if only some rows have it, or if a shape is on both sides.
    """
    if any(row.held_out is not None for row in rows):
        return _split_as_given(rows)
    texts = sorted({row.text for row in rows}, key=lambda text: hashlib.sha256(text.encode()).digest())
    chosen = set(texts[: (len(texts) + 1) // 2])
    return [row for row in rows if row.text in chosen], [row for row in rows if row.text not in chosen]


def _split_as_given(rows: Sequence[KernelMeasurement]) -> tuple[list[KernelMeasurement], list[KernelMeasurement]]:
    if any(row.held_out is None for row in rows):
        raise InputError("held_out is given for some rows and not for others; expected it for all or for none")
    fitting, held_out = [row for row in rows if not row.held_out], [row for row in rows if row.held_out]
    both = {row.text for row in fitting} & {row.text for row in held_out}
    if both:
        raise InputError(f"{min(both)} is held out in one row and fitted in another; expected one shape on one side")
    for what, part in (("fitted", fitting), ("held out", held_out)):
        if len({row.text for row in part}) < LEAST_SHAPES // 2:
            raise InputError(f"{len({row.text for row in part})} shapes are {what}; expected at least {LEAST_SHAPES // 2}")
    return fitting, held_out


def fit(rows: Sequence[KernelMeasurement], parameters: Sequence[Parameter], predict: Predict) -> KernelFit:
    """Fit numbers to half of the shapes and hold the other half against them. Raises InputError if there are too few shapes."""
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
    best, _ = min((minimise(distance, [math.log(value) for value in start]) for start in starts), key=lambda minimum: minimum[1])
    values = {name: float(f"{value:.4g}") for name, value in named(best).items()}
    large = [row for row in held_out if row.shape.operations > LARGE_OPERATIONS]
    return KernelFit(values, *(error_over(part, lambda row: predict(values, row)) for part in (fitting, held_out, large)))


def _first_shapes(rows: Sequence[KernelMeasurement]) -> list[KernelMeasurement]:
    """The rows of as many shapes as are fitted, in the order of the split."""
    texts = sorted({row.text for row in rows}, key=lambda text: hashlib.sha256(text.encode()).digest())
    chosen = set(texts[:MOST_FITTED])
    return [row for row in rows if row.text in chosen]


def error_over(rows: Sequence[KernelMeasurement], microseconds: Callable[[KernelMeasurement], float]) -> ErrorOf:
    """The error of a model over rows, with its interval over their shapes."""
    return error_of((row.text, abs(microseconds(row) / row.microseconds - 1)) for row in rows)
