"""Which numbers of a device are fitted to which kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.shapes import ELEMENT_BYTES, Attention, Cast, Gemm

from astra_sim_compute_gpu.attention import flash_us
from astra_sim_compute_gpu.device import AttentionFit, GemmFit, GpuDevice
from astra_sim_compute_gpu.fitting import KernelFit, KernelMeasurement, Parameter, fit
from astra_sim_compute_gpu.gemm import gemm_us

_EFFICIENCIES = tuple(Parameter(name, (0.7, 0.85, 0.6), 0.02, 1.2) for name in ("large", "medium", "small"))
_GEMM = (
    *_EFFICIENCIES,
    Parameter("k0", (150, 100, 300), 1, 2000),
    Parameter("tail", (0.4, 0.6, 0.2), 0.01, 1),
)
_BYTES = Parameter("byte_efficiency", (0.75, 0.6, 0.9), 0.2, 1)
_LEAST_BOUND_BY_BYTES = 0.2
_BACKWARD = Parameter("backward", (0.78, 0.6, 0.9), 0.2, 1.5)
_START = Parameter("start_us", (4, 2, 6), 0.05, 6)
_CAST = (Parameter("cast_efficiency", (0.4, 0.3, 0.7), 0.02, 1.2), Parameter("cast_start_us", (10, 5, 15), 0.05, 100))


def fit_gemm(device: GpuDevice, element_type: str, rows: Sequence[KernelMeasurement]) -> KernelFit:
    """Fit the rates of products of an element type on a device; with the cast of the first factor if the times include it.

    Raises InputError if only some of them do, or if a product was faster than the device's peak.
    """
    _check_peak(device, element_type, rows)
    with_cast = {row.cast for row in rows}
    if len(with_cast) > 1:
        raise InputError(f"some times of {element_type} include a cast and some do not; expected all or none")
    peak, bytes_per_us = device.peak(element_type) * 1e6, device.memory_bandwidth_gb_per_s * 1e3
    cast, width = True in with_cast, ELEMENT_BYTES[element_type]
    bound_by_bytes = sum(row.shape.operations / peak < row.shape.count_bytes(width) / bytes_per_us for row in rows)
    fits_bytes = bound_by_bytes >= _LEAST_BOUND_BY_BYTES * len(rows)
    result = {"start_us": device.gemm_fit("bf16").start_us, "byte_efficiency": device.elementwise.efficiency}

    def predict(values: dict[str, float], row: KernelMeasurement) -> float:
        assert isinstance(row.shape, Gemm)
        numbers = {name: value for name, value in values.items() if not name.startswith("cast_")}
        gemm_fit = GemmFit(**{**result, **numbers})
        took = gemm_fit.start_us + gemm_us(
            gemm=row.shape,
            element_type=element_type,
            fit=gemm_fit,
            ops_per_us=peak,
            multiprocessors=device.multiprocessors,
            bytes_per_us=bytes_per_us,
        )
        if not cast:
            return took
        size = Cast(elements=row.shape.input_elements, to_type=element_type).count_bytes(0)
        return took + values["cast_start_us"] + size / (bytes_per_us * values["cast_efficiency"])

    return fit(rows, (*_GEMM, *((_BYTES,) if fits_bytes else ()), *(_CAST if cast else (_START,))), predict)


def fit_attention(device: GpuDevice, element_type: str, rows: Sequence[KernelMeasurement]) -> KernelFit:
    """Fit the rates of flash attention on a device; its backward rate, too, if rows of both passes are there.

    Raises InputError if a kernel was faster than the device's peak.
    """
    _check_peak(device, element_type, rows)
    peak = device.peak(element_type)
    bytes_per_us = device.memory_bandwidth_gb_per_s * 1e3 * device.elementwise.efficiency
    fits_backward = len({row.shape.backward for row in rows if isinstance(row.shape, Attention)}) > 1
    others = {"small_head": device.attention.small_head, **({} if fits_backward else {"backward": device.attention.backward})}

    def predict(values: dict[str, float], row: KernelMeasurement) -> float:
        assert isinstance(row.shape, Attention)
        attention_fit = AttentionFit(**values, **others)
        return attention_fit.start_us + flash_us(
            attention=row.shape,
            element_type=element_type,
            fit=attention_fit,
            share=1.0,
            multiprocessors=device.multiprocessors,
            bytes_per_us=bytes_per_us,
        )

    rate = Parameter("peak_tera_ops_per_s", (0.6 * peak, 0.4 * peak, 0.8 * peak), 0.01 * peak, 1.2 * peak)
    lengths = Parameter("half_length", (500, 200, 1000), 1, 20000), Parameter("tail", (0.5, 0.3, 0.8), 0.01, 1)
    return fit(rows, (rate, *lengths, _START, *((_BACKWARD,) if fits_backward else ())), predict)


def _check_peak(device: GpuDevice, element_type: str, rows: Sequence[KernelMeasurement]) -> None:
    """Raise InputError if a kernel was faster than the device can be: its time is wrong, or it calculated less than its shape."""
    peak = device.peak(element_type)
    for row in rows:
        rate = row.shape.operations / row.microseconds / 1e6
        if rate > peak:
            raise InputError(
                f"{row.text} in {row.microseconds:g} us is {rate:.0f} * 10^12 operations/s; expected at most the peak, {peak:g}"
            )


def with_gemm(table: dict[str, Any], element_type: str, fitted: KernelFit) -> dict[str, Any]:
    """The table of a device with fitted numbers for products of an element type."""
    numbers = {name: value for name, value in fitted.values.items() if not name.startswith("cast_")}
    numbers.setdefault("start_us", table["gemm"]["bf16"]["start_us"])
    numbers.setdefault("byte_efficiency", table["elementwise"]["efficiency"])
    ordered = {field.name: numbers[field.name] for field in attrs.fields(GemmFit)}
    changed = {**table, "gemm": {**table["gemm"], element_type: ordered}}
    if "cast_efficiency" in fitted.values:
        changed["cast"] = {"efficiency": fitted.values["cast_efficiency"], "start_us": fitted.values["cast_start_us"]}
    return changed


def attention_key(element_type: str) -> str:
    """The key of the flash-attention rates of an element type in the table of a device."""
    return "attention_fp8" if ELEMENT_BYTES[element_type] == 1 else "attention"


def with_attention(table: dict[str, Any], element_type: str, fitted: KernelFit) -> dict[str, Any]:
    """The table of a device with fitted numbers for flash attention with elements of a type."""
    key = attention_key(element_type)
    return {**table, key: {**table["attention"], **table.get(key, {}), **fitted.values}}
