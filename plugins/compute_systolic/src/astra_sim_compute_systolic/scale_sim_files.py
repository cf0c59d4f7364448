"""SCALE-Sim's configuration (.cfg) and topology (.csv) files."""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion, warn, warn_of_unknown
from astra_sim.files import csv_rows, whole_number
from astra_sim.limits import MAX_LAYERS
from astra_sim.shapes import Convolution, Gemm, Shape

from astra_sim_compute_systolic.array import Dataflow, Srams, SystolicArray
from astra_sim_compute_systolic.columns import Columns, columns_of, is_known, row_of

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
class ArrayConfiguration:
    """An array with its SRAMs. `bandwidth`: elements per cycle of each interface to DRAM; None: unlimited."""

    name: str
    array: SystolicArray
    srams: Srams
    bandwidth: int | None


def recognises_configuration(text: str) -> bool:
    """Whether a text looks like a configuration: it has the section of the array."""
    return f"[{_ARRAY}]" in text


def read_configuration(text: str, path: str) -> ArrayConfiguration:
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
    return ArrayConfiguration(name, array, srams, reader.number(_ARRAY, "Bandwidth") if mode == "USER" else None)


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
        return whole_number(self.text(section, key).split(",")[0].strip(), f"{self._path}: {key}", least=1, most=maximum)


@attrs.frozen
class NamedShape:
    """A layer of a topology."""

    name: str
    shape: Shape


_NAME = {"name": ("layer", "layer name", "layers", "layer id")}
_GEMM_COLUMNS = {"M": (), "N": (), "K": ()}
_CONVOLUTION_COLUMNS = {
    "IFMAP height": ("input height", "ifmap h"),
    "IFMAP width": ("input width", "ifmap w"),
    "filter height": ("filter h",),
    "filter width": ("filter w",),
    "channels": ("channel", "num channels"),
    "filters": ("num filter", "num filters", "number of filters"),
    "stride": ("strides", "stride height", "strides height", "stride h"),
}
_OTHERS = {"column stride": ("stride width", "strides width", "stride w"), "sparsity": ("sparsity support", "sparsity ratio")}
_MAX_CHANNELS = 1 << 16


def read_topology(text: str, path: str, gemm: bool) -> list[NamedShape]:
    """The layers of a topology file: matrix products, or convolutions. Raises InputError naming file, line and value.

    The first line is a heading, by whose names columns are found; one that has none of the names has no meaning, and columns are in the
    order of SCALE-Sim. A convolution may have a second stride, for columns. A convolution with `DP` in its name is depth-wise: one layer
    for each channel (SCALE-Sim).
    """
    needed = _GEMM_COLUMNS if gemm else _CONVOLUTION_COLUMNS
    layers: list[NamedShape] = []
    rows = csv_rows(text, path)
    first, heading = next(rows, (1, []))
    columns = _topology_columns(heading, f"{path}:{first}", needed, gemm)
    for number, cells in rows:
        where = f"{path}:{number}"
        row = row_of(columns, cells, where)
        total = sum(1 for column in needed if row[column])
        if total < len(needed):
            other = " (without --gemm a convolution is expected, with it a product of matrices)" if total == 3 or gemm else ""
            raise InputError(f"{where}: {total} numbers follow the name; expected {len(needed)}: {', '.join(needed)}{other}")
        values = [whole_number(row[column], f"{where}: {column}", least=1, most=_MAX_NUMBER) for column in needed]
        layers += _gemm(row["name"], values) if gemm else _convolutions(row, values, where)
        if len(layers) > MAX_LAYERS:
            raise InputError(f"{where}: more than {MAX_LAYERS} layers; expected at most that")
    if not layers:
        raise InputError(f"{path}: no layer follows the heading")
    return layers


def _topology_columns(heading: Sequence[str], where: str, needed: Mapping[str, Sequence[str]], gemm: bool) -> Columns:
    """The index of each column. An unknown heading names none: columns are then taken by their order, as SCALE-Sim does."""
    if any(cell.isdecimal() for cell in heading[1:]):
        raise InputError(f"{where}: the first line is {','.join(heading)!r:.80}; expected a heading, which is no layer")
    names = {**_NAME, **needed}
    if is_known(heading, needed):
        columns = columns_of(heading, where, names, {} if gemm else _OTHERS)
        behind = {} if gemm else {"column stride": columns["stride"] + 1}
        return {**behind, **columns} if behind.get("column stride") not in columns.values() else columns
    other = _CONVOLUTION_COLUMNS if gemm else _GEMM_COLUMNS
    if is_known(heading, other):
        hint = f"{'without' if gemm else 'with'} --gemm the other"
        raise InputError(f"{where}: the columns are {', '.join(other)}; expected {', '.join(needed)} ({hint})")
    places = [*names, *([] if gemm else _OTHERS)]
    return {name: place for place, name in enumerate(places)} | {f"{place}": place for place in range(len(places), len(heading))}


def _gemm(name: str, values: Sequence[int]) -> list[NamedShape]:
    m, n, k = values
    return [NamedShape(name, Gemm(m=m, n=n, k=k))]


def _convolutions(row: Mapping[str, str], values: Sequence[int], where: str) -> list[NamedShape]:
    """The layers of a row. One with DP in its name is depth-wise: a layer with one channel for each of its channels."""
    name = row["name"]
    height, width, filter_height, filter_width, channels, filters, stride = values
    stride_width = (
        whole_number(row["column stride"], f"{where}: column stride", least=1, most=_MAX_NUMBER) if row.get("column stride") else None
    )
    depth_wise = "DP" in name
    if depth_wise and channels > _MAX_CHANNELS:
        raise InputError(f"{where}: channels is {channels}, each a layer of its own; expected at most {_MAX_CHANNELS}")
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
