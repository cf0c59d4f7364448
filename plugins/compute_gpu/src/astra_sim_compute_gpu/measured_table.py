"""Tables of measured kernels: CSV files with a heading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from astra_sim import InputError
from astra_sim.files import csv_table, finite_number
from astra_sim.options import Typed, structure
from astra_sim.shapes import ELEMENT_BYTES, Attention, Gemm

from astra_sim_compute_gpu.fitting import KernelMeasurement

_TIME = "microseconds"
_SIDE = "held_out"
_YES, _NO = ("1", "true", "yes"), ("", "0", "false", "no")


def read_gemms(text: str, path: str) -> dict[str, list[KernelMeasurement]]:
    """Products by element type. Columns: m n k microseconds [batch accumulate_fp32 element_type cast held_out].

    Raises InputError with the line.
    """
    columns = ("m", "n", "k", "batch", "accumulate_fp32", "element_type")
    return _read(text, path, ("m", "n", "k", _TIME), (*columns[3:], "cast", _SIDE), lambda cells, where: _gemm(cells, columns, where))


def read_attention(text: str, path: str) -> dict[str, list[KernelMeasurement]]:
    """Flash attention by element type, in the columns of the shape and microseconds. Raises InputError with the line."""
    needed = ("heads", "query_length", "key_length", "head_size")
    optional = ("value_size", "key_heads", "causal", "backward", "element_type")
    return _read(text, path, (*needed, _TIME), (*optional, _SIDE), lambda cells, where: _attention(cells, (*needed, *optional), where))


def _gemm(cells: Mapping[str, str], columns: Sequence[str], where: str) -> KernelMeasurement:
    shape = structure(Gemm, _typed(cells, columns), where)
    return KernelMeasurement(shape, _microseconds(cells, where), _yes(cells, "cast", where), _side(cells, where))


def _attention(cells: Mapping[str, str], columns: Sequence[str], where: str) -> KernelMeasurement:
    return KernelMeasurement(structure(Attention, _typed(cells, columns), where), _microseconds(cells, where), held_out=_side(cells, where))


def _microseconds(cells: Mapping[str, str], where: str) -> float:
    return finite_number(cells[_TIME], f"{where}: {_TIME}", above=0, most=1e12)


def _yes(cells: Mapping[str, str], column: str, where: str) -> bool:
    """The truth value of a cell; false if it is empty."""
    cell = cells.get(column, "").lower()
    if cell not in (*_YES, *_NO):
        raise InputError(f"{where}: {column} is {cells[column]!r}; expected yes or no")
    return cell in _YES


def _side(cells: Mapping[str, str], where: str) -> bool | None:
    """Whether a row is held out; None if the table does not have it."""
    return _yes(cells, _SIDE, where) if _SIDE in cells else None


def _typed(cells: Mapping[str, str], columns: Sequence[str]) -> dict[str, Typed]:
    """The cells of a shape that are not empty."""
    return {name: Typed(cells[name]) for name in columns if cells.get(name)}


def _read(
    text: str, path: str, needed: Sequence[str], optional: Sequence[str], measurement: Callable[[Mapping[str, str], str], KernelMeasurement]
) -> dict[str, list[KernelMeasurement]]:
    """Rows by element type, bf16 if none is given. Lines that begin with # are comments."""
    result: dict[str, list[KernelMeasurement]] = {}
    for where, cells in csv_table(text, path, needed, optional):
        row = measurement(cells, where)
        result.setdefault(row.shape.element_type or "bf16", []).append(row)
    if not result:
        raise InputError(f"{path}: it has a heading and no rows; expected a row for each measured kernel")
    # From wide types to narrow ones, as ELEMENT_BYTES lists them: the start-up time of bf16 holds for types whose times include a cast.
    return {name: result[name] for name in ELEMENT_BYTES if name in result}
