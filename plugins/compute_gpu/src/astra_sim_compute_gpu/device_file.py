"""Device files to start from: the numbers of a device with the meaning of each."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from astra_sim.toml_text import to_toml

from astra_sim_compute_gpu.device import DirectAllReduceFit, GemmFit, GpuDevice, InferenceFits, ServedProductFit, read_table

_NOT_SHOWN = ("title", "calibrated", "based_on", "sources")


def template(name: str, whole: bool = False) -> str:
    """The text of a file that is based on a device, with all its numbers as comments; `whole`: with the numbers themselves.

    Raises InputError if there is no such device.
    """
    table, where = read_table(name)
    base = table.get("based_on", name)
    lines = ["# A device of the gpu compute model: --compute 'plugin:gpu?device=THIS_FILE.toml'", ""]
    if whole:
        lines.append(f'title = "like {table["title"]}"')
    else:
        lines += [f'based_on = "{name}"  # values not given here are those of {where}', f'title = "based on {base}"']
    lines += ["calibrated = false  # true: the efficiencies were fitted to kernels measured on this very device", ""]
    lines += _keys(GpuDevice, table, "" if whole else "# ")
    return "\n".join(lines) + "\n"


def _keys(cls: Any, table: Mapping[str, Any], mark: str) -> Iterator[str]:
    """The lines of the keys of a table, plain ones first, each with its help and unit."""
    fields = attrs.fields_dict(cls)
    plain = [name for name in fields if name in table and name not in _NOT_SHOWN and not isinstance(table[name], Mapping)]
    yield from _values({name: table[name] for name in plain}, fields, mark)
    for name, field in fields.items():
        if name in _NOT_SHOWN or not isinstance(table.get(name), Mapping):
            continue
        inner = table[name]
        if name == "gemm":
            yield from _fits("gemm", inner, field, GemmFit, mark)
            continue
        if name == "inference":
            yield from _inference(inner, mark)
            continue
        kinds = [kind for kind in typing.get_args(_kind(cls, name)) or (_kind(cls, name),) if isinstance(kind, type) and attrs.has(kind)]
        known = attrs.fields_dict(kinds[0]) if kinds else {}
        yield from ("", f"# {_words(field)}", f"[{name}]", *_values(inner, known, mark))


def _fits(name: str, fits: Mapping[str, Any], field: Any, cls: Any, mark: str) -> Iterator[str]:
    """A table for each element type."""
    for element_type, fit in fits.items():
        yield from ("", f"# {_words(field)}", f"[{name}.{element_type}]", *_values(fit, attrs.fields_dict(cls), mark))


def _inference(table: Mapping[str, Any], mark: str) -> Iterator[str]:
    """The tables of kernels of servers."""
    fields = attrs.fields_dict(InferenceFits)
    for name in ("gemm", "grouped_gemm"):
        yield from _fits(f"inference.{name}", table.get(name, {}), fields[name], ServedProductFit, mark)
    if "all_reduce" in table:
        numbers = _values(table["all_reduce"], attrs.fields_dict(DirectAllReduceFit), mark)
        yield from ("", f"# {_words(fields['all_reduce'])}", "[inference.all_reduce]", *numbers)


def _kind(cls: Any, name: str) -> Any:
    return typing.get_type_hints(cls)[name]


def _values(table: Mapping[str, Any], fields: Mapping[str, Any], mark: str) -> Iterator[str]:
    for name, value in table.items():
        words = f"  # {_words(fields[name])}" if name in fields else ""
        yield f"{mark}{to_toml({name: value}).strip()}{words}"


def _words(field: Any) -> str:
    unit = field.metadata["unit"]
    return f"{field.metadata['help']}{f' ({unit})' if unit else ''}"
