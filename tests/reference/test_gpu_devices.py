"""The fitted devices of the gpu compute model against measured kernels, half of which were held out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from astra_sim.compute import Work
from astra_sim.shapes import Attention, Cast, Gemm
from astra_sim_compute_gpu.device import read_device
from astra_sim_compute_gpu.fitting import Measurement, error_over, split
from astra_sim_compute_gpu.kernel_fits import fit_gemm
from astra_sim_compute_gpu.model import Gpu, GpuOptions
from support import ROOT

FILE = Path(os.environ.get("ASTRA_REFERENCE", ROOT.parent / "shared" / "reference")) / "measurements.jsonl"
NAMES = {"a100-80": "A100-SXM4-80GB", "h100": "H100-SXM5-80GB", "h200": "H200", "b200": "B200-SXM"}

pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="the measurements are not here")


def products(device: str, element_type: str, library: str) -> list[Measurement]:
    """Measured products; times of FP8 include the cast of the first factor."""
    found = []
    for row in _kernels(device, "gemm"):
        if row["dtype"].replace("bfloat", "bf") == element_type and f"/{library}/" in row["source"]["path"]:
            shape = Gemm(m=row["m"], n=row["n"], k=row["k"], element_type=element_type)
            found.append(Measurement(shape, row["value"], cast=element_type == "fp8"))
    return found


def attention(device: str) -> list[Measurement]:
    """Measured kernels of flash attention."""
    return [
        Measurement(
            Attention(
                heads=row["batch"] * row["heads"],
                key_heads=row["batch"] * row["kv_heads"],
                query_length=row["seq"],
                key_length=row["seq"],
                head_size=row["head_dim"],
                causal=True,
            ),
            row["value"],
        )
        for row in _kernels(device, "causal attention forward (flash)")
    ]


def _kernels(device: str, what: str) -> list[dict]:  # type: ignore[type-arg]
    rows = [json.loads(line) for line in FILE.read_text().splitlines() if '"kernel"' in line]
    return [row for row in rows if row["kind"] == "kernel" and row["gpu"] == NAMES[device] and row["what"] == what]


def microseconds(model: Gpu, row: Measurement) -> float:
    took = model.duration_ns(Work(shape=row.shape))
    if row.cast:
        assert isinstance(row.shape, Gemm)
        took += model.duration_ns(Work(shape=Cast(elements=row.shape.input_elements)))
    return took / 1000


@pytest.mark.parametrize(
    ("device", "element_type", "library", "bound", "bound_of_large"),
    [
        ("a100-80", "bf16", "sglang", 0.06, 0.04),
        ("h100", "bf16", "trtllm", 0.05, 0.045),
        ("h100", "fp8", "trtllm", 0.045, 0.04),
        ("h200", "bf16", "trtllm", 0.045, 0.045),
        ("h200", "fp8", "trtllm", 0.04, 0.04),
        ("b200", "bf16", "trtllm", 0.08, 0.07),
        ("b200", "fp8", "trtllm", 0.06, 0.055),
    ],
)
def test_held_out_products(device: str, element_type: str, library: str, bound: float, bound_of_large: float) -> None:
    model, held_out = Gpu(GpuOptions(device=device)), split(products(device, element_type, library))[1]
    assert len(held_out) >= 30
    assert error_over(held_out, lambda row: microseconds(model, row)).mean < bound
    large = [row for row in held_out if row.shape.operations > 1e11]
    assert error_over(large, lambda row: microseconds(model, row)).mean < bound_of_large


@pytest.mark.parametrize(("device", "bound"), [("a100-80", 0.06), ("h100", 0.13), ("h200", 0.12)])
def test_held_out_attention(device: str, bound: float) -> None:
    model, held_out = Gpu(GpuOptions(device=device)), split(attention(device))[1]
    assert error_over(held_out, lambda row: microseconds(model, row)).mean < bound


def test_a_table_of_another_library_that_was_not_fitted() -> None:
    model, rows = Gpu(GpuOptions(device="a100-80")), products("a100-80", "bf16", "trtllm")
    assert error_over(rows, lambda row: microseconds(model, row)).mean < 0.11


def test_the_fit_gives_the_numbers_of_the_device_file() -> None:
    device = read_device("h100")
    found = fit_gemm(device, "bf16", products("h100", "bf16", "trtllm")).values
    assert {name: getattr(device.gemm_fit("bf16"), name) for name in found} == pytest.approx(found, rel=1e-3)
