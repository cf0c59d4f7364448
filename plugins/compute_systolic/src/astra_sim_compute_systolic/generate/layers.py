"""The layers of a model, before they are split over NPUs."""

from __future__ import annotations

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.files import csv_rows
from astra_sim.shapes import Convolution, Gemm, Shape

from astra_sim_compute_systolic.columns import columns_of, row_of
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
    """Layers from CSV with a heading: layer (or name), m (batch), n (outputs), k (inputs) and perhaps parallelisation, in any order.

    Raises InputError with the line.
    """
    layers = []
    rows = csv_rows(text, path)
    first, heading = next(rows, (1, []))
    columns = columns_of(heading, f"{path}:{first}", _COLUMNS, {"parallelisation": _POLICY})
    for number, cells in rows:
        where = f"{path}:{number}"
        row = row_of(columns, cells, where)
        if not row["layer"]:
            raise InputError(f"{where}: the layer has no name; expected one")
        policy = row.get("parallelisation") or None
        if policy is not None and policy not in LAYER_POLICIES:
            raise InputError(f"{where}: the parallelisation is {policy!r}; {suggestion(policy, LAYER_POLICIES)}")
        m, n, k = (_size(row[column], where, column) for column in "mnk")
        layers.append(ModelLayer(row["layer"], Gemm(m=m, n=n, k=k), policy=policy))
    if not layers:
        raise InputError(f"{path}: no layer follows the heading")
    return layers


_COLUMNS = {"layer": ("layername", "name", "layers"), "m": (), "n": (), "k": ()}
_POLICY = ("parallelization", "customizedparallelization", "parallel", "policy", "parallelism")


def _size(text: str, where: str, column: str) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 12 or int(text) < 1:
        raise InputError(f"{where}: {column} is {text!r}; expected a whole number of at least 1")
    return int(text)
