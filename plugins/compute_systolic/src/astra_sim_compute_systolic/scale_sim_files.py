"""SCALE-Sim's configuration (.cfg) and topology (.csv) files."""

from __future__ import annotations

import configparser
import re
from collections.abc import Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion, warn, warn_of_unknown
from astra_sim.shapes import Convolution, Gemm, Shape

from astra_sim_compute_systolic.array import Dataflow, Srams, SystolicArray

_ARRAY = "architecture_presets"
_SECTIONS = ("general", _ARRAY, "layout", "sparsity", "run_presets")
_KNOWN = frozenset(
    "run_name interfacebandwidth arrayheight arraywidth ifmapsramszkb filtersramszkb ofmapsramszkb dataflow bandwidth"
    # The following keys move addresses and sizes of traces, or belong to features that `_ONLY_IN_3` switches on.
    " ifmapoffset filteroffset ofmapoffset memorybanks topologycsvloc readrequestbuffer writerequestbuffer"
    " ifmapsrambankbandwidth ifmapsrambanknum ifmapsrambankport filtersrambankbandwidth filtersrambanknum filtersrambankport"
    " sparserep optimizedmapping blocksize nonzeroelems randomnumbergeneratorseed".split()
)
"""Keys, as the parser returns them."""
_ONLY_IN_3 = {
    "sparsitysupport": "leave out operations on zeros",
    "useramulatortrace": "take DRAM times from a trace of Ramulator",
    "ifmapcustomlayout": "stall on conflicts of SRAM banks",
    "filtercustomlayout": "stall on conflicts of SRAM banks",
}
_KEY = re.compile(r"^[^=:\n]+", re.MULTILINE)
_BLANKS = re.compile(r"(?<=\S)[^\S\n]{2,}")
_MAX_SIDE = 1 << 20
_MAX_NUMBER = 999_999_999


@attrs.frozen
class Configuration:
    """An array with its SRAMs. `bandwidth`: elements per cycle of each interface to DRAM; None: unlimited."""

    name: str
    array: SystolicArray
    srams: Srams
    bandwidth: int | None


def recognises_configuration(text: str) -> bool:
    """Whether a text looks like a configuration: it has the section of the array."""
    return f"[{_ARRAY}]" in text


def read_configuration(text: str, path: str) -> Configuration:
    """A configuration file. An element is a byte. Raises InputError naming file, key and value."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        # The parser's time is quadratic in the blanks of a key.
        parser.read_string(_KEY.sub(lambda key: _BLANKS.sub(" ", key[0]), text), path)
    except configparser.Error as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None
    reader = _Keys(parser, path)
    mode = reader.text("run_presets", "InterfaceBandwidth")
    if mode not in ("USER", "CALC"):
        raise InputError(f"{path}: InterfaceBandwidth is {mode!r}; expected USER or CALC")
    dataflow = reader.text(_ARRAY, "Dataflow")
    if dataflow not in tuple(Dataflow):
        raise InputError(f"{path}: Dataflow is {dataflow!r}; expected os, ws or is")
    rows, columns = (reader.number(_ARRAY, key, _MAX_SIDE) for key in ("ArrayHeight", "ArrayWidth"))
    array = SystolicArray(rows, columns, Dataflow(dataflow))
    srams = Srams(*(1024 * reader.number(_ARRAY, key) for key in ("IfmapSramSzkB", "FilterSramSzkB", "OfmapSramSzkB")))
    _warn_of_others(parser, path)
    name = parser.get("general", "run_name", fallback="scale_run")
    return Configuration(name, array, srams, reader.number(_ARRAY, "Bandwidth") if mode == "USER" else None)


def _warn_of_others(parser: configparser.ConfigParser, path: str) -> None:
    """Warn of keys that only SCALE-Sim 3 uses, and of unknown keys."""
    warn_of_unknown(path, [f"[{section}]" for section in parser.sections()], [f"[{section}]" for section in _SECTIONS])
    for section in parser.sections():
        warn_of_unknown(f"{path}: [{section}]", parser.options(section), {*_KNOWN, *_ONLY_IN_3})
        for key, value in parser.items(section):
            if key in _ONLY_IN_3 and value.strip().lower() == "true":
                warn(f"{path}: {key} has no effect: SCALE-Sim 3 would {_ONLY_IN_3[key]}; here cycles are those of SCALE-Sim 2")


def read_compute(text: str, path: str) -> dict[str, dict[str, Any]]:
    """A configuration file as the section `compute` of an experiment. Raises InputError."""
    configuration = read_configuration(text, path)
    section: dict[str, Any] = {
        "plugin": "systolic",
        "array_rows": configuration.array.rows,
        "array_cols": configuration.array.columns,
        "dataflow": str(configuration.array.dataflow),
    }
    if configuration.bandwidth is not None:
        section["dram_bandwidth_elements_per_cycle"] = configuration.bandwidth
        for operand in ("ifmap", "filter", "ofmap"):
            section[f"{operand}_sram_kib"] = getattr(configuration.srams, operand) // 1024
    return {"compute": section}


class _Keys:
    def __init__(self, parser: configparser.ConfigParser, path: str) -> None:
        self._parser = parser
        self._path = path

    def text(self, section: str, key: str) -> str:
        if not self._parser.has_section(section):
            raise InputError(f"{self._path}: the section [{section}] is missing; {suggestion(section, self._parser.sections())}")
        if not self._parser.has_option(section, key):
            raise InputError(f"{self._path}: {key} is missing in [{section}]")
        return self._parser.get(section, key).strip()

    def number(self, section: str, key: str, maximum: int = _MAX_NUMBER) -> int:
        """A whole number of at least 1; the first of a list."""
        return _number(self.text(section, key).split(",")[0].strip(), f"{self._path}: {key}", maximum)


@attrs.frozen
class NamedShape:
    """A layer of a topology."""

    name: str
    shape: Shape


_GEMM_COLUMNS = ("M", "N", "K")
_CONVOLUTION_COLUMNS = ("IFMAP height", "IFMAP width", "filter height", "filter width", "channels", "filters", "stride")


def read_topology(text: str, path: str, gemm: bool) -> list[NamedShape]:
    """The layers of a topology file: matrix products, or convolutions. Raises InputError naming file, line and value.

    The first line is a heading. A convolution may have a second stride, for columns. A convolution with `DP` in its name is depth-wise:
    one layer for each channel (SCALE-Sim).
    """
    columns = _GEMM_COLUMNS if gemm else _CONVOLUTION_COLUMNS
    layers: list[NamedShape] = []
    for number, line in enumerate(text.split("\n"), 1):
        cells = [cell.strip() for cell in line.split(",")]
        if number == 1 or not any(cells):
            continue
        where = f"{path}:{number}"
        if len(cells) <= len(columns) or "" in cells[1 : len(columns) + 1]:
            given = sum(1 for cell in cells[1 : len(columns) + 1] if cell)
            other = " (without --gemm a convolution is expected, with it a product of matrices)" if given == 3 or gemm else ""
            raise InputError(f"{where}: {given} numbers follow the name; expected {len(columns)}: {', '.join(columns)}{other}")
        values = [_number(cell, f"{where}: {column}") for cell, column in zip(cells[1:], columns, strict=False)]
        layers += _gemm(cells[0], values) if gemm else _convolutions(cells, values, where)
    if not layers:
        raise InputError(f"{path}: no layer follows the heading")
    return layers


def _gemm(name: str, values: Sequence[int]) -> list[NamedShape]:
    m, n, k = values
    return [NamedShape(name, Gemm(m=m, n=n, k=k))]


def _convolutions(cells: Sequence[str], values: Sequence[int], where: str) -> list[NamedShape]:
    name = cells[0]
    height, width, filter_height, filter_width, channels, filters, stride = values
    stride_width = _number(cells[8], f"{where}: column stride") if len(cells) > 8 and cells[8] else None
    depth_wise = "DP" in name
    try:
        shape = Convolution(
            input_height=height,
            input_width=width,
            filter_height=filter_height,
            filter_width=filter_width,
            channels=1 if depth_wise else channels,
            filters=filters,
            stride=stride,
            stride_width=stride_width,
        )
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return [NamedShape(f"{name}Channel_{channel}", shape) for channel in range(channels)] if depth_wise else [NamedShape(name, shape)]


def _number(text: str, where: str, maximum: int = _MAX_NUMBER) -> int:
    if not text.isdecimal() or not text.isascii() or len(text) > 9 or not 1 <= int(text) <= maximum:
        raise InputError(f"{where} is {text!r}; expected a whole number from 1 to {maximum}")
    return int(text)
