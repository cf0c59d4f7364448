"""Devices: peaks, and the measured rates of kernels."""

from __future__ import annotations

import math
import os
import typing
from collections.abc import Mapping
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.errors import located
from astra_sim.options import structure
from astra_sim.shapes import ELEMENT_BYTES
from astra_sim.units import MIB

from astra_sim_compute_gpu import data_files

_MEASURED_ROWS = 512
_ALL_ROWS = 2048
FOLDER = "devices"
REFERENCE_TYPE = "bf16"
"""The element type whose efficiencies hold for types that have none of their own."""


@attrs.frozen
class GemmFit:
    """Measured rates of products of an element type."""

    large: float = option(above=0, maximum=1.5, help="share of the peak that tiles of 256x128 and 128x256 reach")
    medium: float = option(above=0, maximum=1.5, help="the same for tiles of 128x128")
    small: float = option(above=0, maximum=1.5, help="the same for smaller tiles")
    k0: float = option(minimum=0, help="columns of the first factor whose time a tile takes to begin and to write 2 bytes an element")
    tail: float = option(minimum=0, maximum=1, help="how much of a partly filled last wave counts; 1: all of it")
    start_us: float = option(minimum=0, help="start-up time of the kernel", unit="us")
    byte_efficiency: float = option(above=0, maximum=1, help="share of the memory bandwidth that a product reaches at most")


@attrs.frozen
class AttentionFit:
    """Measured rates of flash attention."""

    peak_tera_ops_per_s: float = option(above=0, help="rate of long sequences, forward", unit="10^12 operations/s")
    half_length: float = option(minimum=0, help="keys at which half of that is reached")
    tail: float = option(minimum=0, maximum=1, help="share of the time of the longest rows for which multiprocessors wait at the end")
    start_us: float = option(minimum=0, help="start-up time of the kernel", unit="us")
    small_head: float = option(0.85, above=0, maximum=1, help="factor on the rate for heads of 64 elements or fewer")
    backward: float = option(0.78, above=0, maximum=1.5, help="factor on the rate of the backward kernel")


@attrs.frozen
class PagedAttentionFit:
    """Measured rates of attention of inference servers, whose keys and values are in blocks of a cache."""

    start_us: float = option(minimum=0, help="start-up time of the kernel, including the kernel that combines its parts", unit="us")
    wave_us: float = option(
        minimum=0, help="least time of a key head of a sequence on a multiprocessor, if one query each decodes", unit="us"
    )
    byte_efficiency: float = option(above=0, maximum=1, help="share of the memory bandwidth at which keys and values are read")


@attrs.frozen
class ServedProductFit:
    """Measured rates of products of inference servers, which have few rows."""

    share: float = option(above=0, maximum=2, help="factor on the rates of `gemm`; of single products with up to 512 rows")
    start_us: float = option(minimum=0, help="start-up time of the kernel, including the kernel that scales its first factor", unit="us")
    byte_efficiency: float = option(above=0, maximum=1, help="share of the memory bandwidth that a product reaches at most")

    def share_of(self, rows: int) -> float:
        """The factor of a product with few rows: beyond the measured ones it approaches 1, the rates of training."""
        octaves = math.log2(_ALL_ROWS / _MEASURED_ROWS)
        left = math.log2(_ALL_ROWS / min(max(rows, _MEASURED_ROWS), _ALL_ROWS)) / octaves
        return float(self.share**left)


@attrs.frozen
class DirectAllReduceFit:
    """Measured times of all-reduces in which NPUs of a node read each other's memory, as inference servers do for small sizes.

    The time is the least of one shot (each NPU reads everything of the others) and two (a share of it, and the sums of the others' shares).
    """

    start_us: float = option(minimum=0, help="start-up time of one shot", unit="us")
    gb_per_s: float = option(above=0, help="rate at which an NPU reads in one shot", unit="10^9 bytes/s")
    two_shots_start_us: float = option(minimum=0, help="start-up time of two shots", unit="us")
    two_shots_gb_per_s: float = option(above=0, help="rate at which an NPU reads in two shots", unit="10^9 bytes/s")
    largest_mib: float = option(8.0, above=0, help="largest size for which it is used", unit="MiB")

    def us(self, ranks: int, size: int) -> float | None:
        """Microseconds of an all-reduce of `size` bytes; None if it is too large."""
        if size > self.largest_mib * MIB:
            return None
        one = self.start_us + (ranks - 1) * size / (self.gb_per_s * 1e3)
        two = self.two_shots_start_us + 2 * (ranks - 1) / ranks * size / (self.two_shots_gb_per_s * 1e3)
        return min(one, two)


@attrs.frozen
class InferenceFits:
    """Measured rates of kernels of inference servers, if they differ from those of training."""

    gemm: dict[str, Any] = option(factory=dict, help="products, by element type; fp8_block: of fp8 with a scale for each 128 elements")
    grouped_gemm: dict[str, Any] = option(factory=dict, help="products of experts, by element type")
    all_reduce: DirectAllReduceFit | None = option(None, help="all-reduces by reading memory of other NPUs; none: those of the network")

    def product(self, kind: str, element_type: str, block_scaled: bool) -> ServedProductFit | None:
        """The numbers of a kind of products (`gemm`, `grouped_gemm`) of a type; None if there are none."""
        fits: Mapping[str, ServedProductFit] = getattr(self, kind)
        fit = fits.get(f"{element_type}_block") if block_scaled else None
        return fit or fits.get(element_type)


@attrs.frozen
class MemoryFit:
    """Measured rates of kernels that are bound by memory."""

    efficiency: float = option(above=0, maximum=1.5, help="share of the memory bandwidth")
    start_us: float = option(minimum=0, help="start-up time of the kernel", unit="us")


@attrs.frozen
class MemoryMargin:
    """Memory that a program does not get, or that its allocator cannot use."""

    context_gib: float = option(
        1.4, minimum=0, help="memory that the driver keeps of the stated size, and the context of a process", unit="GiB"
    )
    communicators_gib: float = option(2.0, minimum=0, help="buffers of communicators, such as NCCL's", unit="GiB")
    fragmentation: float = option(0.03, minimum=0, maximum=1, help="share of the memory that the allocator holds and cannot give")


@attrs.frozen
class GpuDevice:
    """A device, from its file."""

    title: str = option(help="the device's full name")
    calibrated: bool = option(help="whether its efficiencies were fitted on kernels measured on it")
    multiprocessors: int = option(minimum=1, help="streaming multiprocessors, compute units or matrix units, each of which runs a tile")
    memory_bandwidth_gb_per_s: float = option(above=0, help="memory bandwidth", unit="10^9 bytes/s")
    memory_gib: float = option(above=0, help="memory in 2^30 bytes, which vendors of GPUs call GB", unit="GiB")
    memory_margin: MemoryMargin = option(MemoryMargin(), help="memory that is not there for a workload")
    peak_tera_ops_per_s: dict[str, Any] = option(help="dense peak rates by element type", unit="10^12 operations/s")
    gemm: dict[str, Any] = option(help="rates of products, by element type")
    sustained: float = option(
        1.0,
        above=0,
        maximum=2,
        help="factor on the rates of products in training, which its power limits for hours; 1: as on an h100, whose stacks have the rest",
    )
    attention: AttentionFit = option(help="rates of flash attention")
    attention_fp8: AttentionFit | None = option(None, help="the same for elements of 8 bits; none: as with 16")
    paged_attention: PagedAttentionFit | None = option(None, help="rates of attention of inference servers; none: as flash attention")
    inference: InferenceFits | None = option(None, help="rates of kernels of inference servers; none: those of training")
    elementwise: MemoryFit = option(help="rates of element-wise kernels and optimizer steps")
    cast: MemoryFit = option(help="rates of casts")
    block_scaling: bool | None = option(None, help="whether it multiplies MX formats (a scale for each 32 elements); none: unknown")
    based_on: str = option("", help="the device of this package, or the file, whose numbers hold where this file has none")
    sources: dict[str, Any] = option(factory=dict, help="where the numbers come from, by key")

    @property
    def margin_gib(self) -> float:
        """All memory that is not there for a workload."""
        margin = self.memory_margin
        return margin.context_gib + margin.communicators_gib + margin.fragmentation * self.memory_gib

    def peak(self, element_type: str) -> float:
        """The peak rate for an element type, in 10^12 operations/s. Raises InputError if the device does not calculate with it."""
        if element_type not in self.peak_tera_ops_per_s:
            raise InputError(f"{self.title} has no peak rate for {element_type}; it has {', '.join(self.peak_tera_ops_per_s)}")
        return float(self.peak_tera_ops_per_s[element_type])

    def gemm_fit(self, element_type: str) -> GemmFit:
        """The rates of products of an element type: its own, or else those of bf16; 4-bit types use 8-bit rates."""
        nearest = (element_type, "fp8", REFERENCE_TYPE) if element_type == "nvfp4" else (element_type, REFERENCE_TYPE)
        fit: GemmFit = next(self.gemm[each] for each in nearest if each in self.gemm)
        return fit

    def attention_fit(self, element_type: str) -> AttentionFit:
        """The rates of flash attention with elements of a type."""
        narrow = self.attention_fp8 if ELEMENT_BYTES[element_type] == 1 else None
        return narrow or self.attention


def names() -> list[str]:
    """The devices of this package."""
    return data_files.names(FOLDER)


def read_table(name: str) -> tuple[dict[str, Any], str]:
    """The table of a device, by its name or path, and the path. Raises InputError.

    The table is complete: keys that a file leaves out are those of the device which it is based on, and `based_on` is then the name of a
    device of this package, if in the end there is one.
    """
    return _read_table(name, ())


def _read_table(name: str, before: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    """The table of a device, merged over those it is based on, and if it is. Raises InputError for a circle."""
    table, where = data_files.read(FOLDER, name, "device")
    if "based_on" not in table:
        return table, where
    base = table["based_on"]
    if not isinstance(base, str) or not base:
        raise InputError(f"{where}: based_on is {base!r}; expected a device ({', '.join(names())}) or the path of a file")
    path = os.path.join(os.path.dirname(name), base) if base.endswith(data_files.SUFFIX) else base
    chain = (*before, os.path.normpath(name))
    if os.path.normpath(path) in chain:
        raise InputError(f"{where}: based_on is {base!r}, and so the device is based on itself")
    try:
        whole, _ = _read_table(path, chain)
    except InputError as error:
        raise located(error, f"{where}: based_on") from None
    root = whole.pop("based_on", "") if base.endswith(data_files.SUFFIX) else base
    # Efficiencies that were fitted on another device are no fit of this one; its title is its own, too.
    whole = {**whole, "title": os.path.basename(name).removesuffix(data_files.SUFFIX), "calibrated": False}
    merged = {key: value for key, value in _over(whole, table).items() if key != "based_on"}
    return {**merged, **({"based_on": root} if root else {})}, where


def _over(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A table whose values take the place of those of another, in tables within it, too."""
    result = dict(base)
    for key, value in overrides.items():
        there = base.get(key)
        result[key] = _over(there, value) if isinstance(value, Mapping) and isinstance(there, Mapping) else value
    return result


def read_device(name: str) -> GpuDevice:
    """The device of a name, or of a TOML file. Raises InputError."""
    return device_of(*read_table(name))


def device_of(table: dict[str, Any], where: str) -> GpuDevice:
    """The device of a table. Raises InputError, which names all keys that are missing."""
    try:
        return _device_of(table, where)
    except InputError as error:
        absent = _missing(table)
        if not absent or "unknown key" in str(error):  # a misspelt key explains a missing one
            raise
        words = ", ".join(absent)
        raise InputError(f"{where}: missing: {words}; astra device shows all keys, and based_on = DEVICE gives their values") from None


def missing_keys(cls: Any, table: Any, prefix: str = "") -> list[str]:
    """The keys that a table of an attrs class needs and does not have, with those of tables in it; none of other values."""
    if not isinstance(table, Mapping):
        return []
    absent: list[str] = []
    kinds = typing.get_type_hints(cls)
    for field in attrs.fields(cls):
        value, kind = table.get(field.name), kinds[field.name]
        if field.name not in table:
            absent += [f"{prefix}{field.name}"] if field.default is attrs.NOTHING else []
            continue
        for part in (kind, *typing.get_args(kind)):
            if isinstance(part, type) and attrs.has(part) and typing.get_origin(kind) is not tuple:
                absent += missing_keys(part, value, f"{prefix}{field.name}.")
    return absent


def _missing(table: dict[str, Any]) -> list[str]:
    """The keys that a device needs and a table does not have, with those of tables in it."""
    fits = table.get("gemm")
    absent = missing_keys(GpuDevice, table)
    if isinstance(fits, Mapping):
        absent += [key for name, fit in fits.items() for key in missing_keys(GemmFit, fit, f"gemm.{name}.")]
        absent += [] if REFERENCE_TYPE in fits else [f"gemm.{REFERENCE_TYPE}"]
    return absent


def _device_of(table: dict[str, Any], where: str) -> GpuDevice:
    """The device of a table. Raises InputError for unknown element types and rates that are not above 0."""
    device: GpuDevice = structure(GpuDevice, table, where)
    for key in ("peak_tera_ops_per_s", "gemm"):
        for element_type in getattr(device, key):
            if element_type not in ELEMENT_BYTES:
                raise InputError(f"{where}: {key} has {element_type!r}; known: {', '.join(ELEMENT_BYTES)}")
    for element_type, rate in device.peak_tera_ops_per_s.items():
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < 1e9:
            raise InputError(f"{where}: peak_tera_ops_per_s: {element_type} is {rate!r}; expected a number above 0")
    fits = {name: structure(GemmFit, fit, f"{where}: gemm: {name}") for name, fit in device.gemm.items()}
    if REFERENCE_TYPE not in fits:
        raise InputError(f"{where}: gemm has no {REFERENCE_TYPE}, whose efficiencies hold for types that are not given")
    return attrs.evolve(device, gemm=fits, inference=_inference_of(device.inference, f"{where}: inference"))


def _inference_of(fits: InferenceFits | None, where: str) -> InferenceFits | None:
    """The numbers of inference servers with those of products structured. Raises InputError."""
    if fits is None:
        return None
    known = [*ELEMENT_BYTES, "fp8_block"]
    for kind, table in (("gemm", fits.gemm), ("grouped_gemm", fits.grouped_gemm)):
        for element_type, fit in table.items():
            if element_type not in known:
                raise InputError(f"{where}: {kind} has {element_type!r}; known: {', '.join(known)}")
            table[element_type] = structure(ServedProductFit, fit, f"{where}: {kind}: {element_type}")
    return fits
