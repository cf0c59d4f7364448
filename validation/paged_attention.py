"""Attention of inference servers: what `paged_attention` of a device is fitted on, and how far it is from the other half."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from astra_sim.commands import shared_plugins
from astra_sim.experiments import component
from astra_sim.shapes import Attention
from astra_sim_compute_gpu.attention import paged_us
from astra_sim_compute_gpu.device import PagedAttentionFit
from astra_sim_compute_gpu.model import Gpu

DEVICES = {"h100_sxm": "h100", "h200_sxm": "h200", "b200_sxm": "b200", "a100_sxm": "a100-80"}
"""Devices by their names in the tables of kernels."""

GRID = {
    "start_us": (4, 5, 6, 7, 7.5, 8, 8.5, 9, 9.5, 10, 11, 12, 14),
    "wave_us": (0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6),
    "byte_efficiency": (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
}


@attrs.frozen
class KernelLine:
    """A measured kernel; `fits`: it is of the half on which numbers are fitted."""

    shape: Attention
    us: float
    fits: bool


def attention_lines(lines: Iterable[Mapping[str, Any]], system: str, metric: str) -> list[KernelLine]:
    """Kernels of attention of a device: `generation_attention` (one query a sequence) or `context_attention`. Halves go by a hash."""
    kernel_lines = []
    for line in lines:
        value = line.get("config", {})
        if line.get("metric") != metric or value.get("system") != system or value.get("window_size"):
            continue
        sequences = value["batch_size"]
        decodes = metric == "generation_attention"
        shape = Attention(
            heads=value["num_heads"] * sequences,
            query_length=1 if decodes else value["isl"],
            key_length=value.get("step", 0) + (1 if decodes else value["isl"]),
            head_size=value["head_dim"],
            key_heads=value["num_key_value_heads"] * sequences,
            causal=True,
            paged=True,
            element_type="fp8" if value["kv_cache_dtype"] == "fp8" else "bf16",
        )
        digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).digest()
        kernel_lines.append(KernelLine(shape, line["value"] * 1e3, digest[-1] % 2 == 0))
    return kernel_lines


def device_of(system: str) -> Gpu:
    """The compute model of a device."""
    gpu: Gpu = component("compute", f"gpu?device={DEVICES[system]}", shared_plugins(), "validation")
    return gpu


def simulated_us(compute: Gpu, shape: Attention, fit: PagedAttentionFit) -> float:
    """The time of a kernel with other numbers of paged attention."""
    profile, kind = compute.profile, shape.element_type or "bf16"
    bandwidth = profile.memory_bandwidth_gb_per_s * 1e3
    return paged_us(shape, kind, (profile.attention_fit("bf16"), fit), compute.stack.attention_rate, profile.multiprocessors, bandwidth)


def fitted(compute: Gpu, lines: Sequence[KernelLine]) -> PagedAttentionFit:
    """The numbers of `GRID` with the least mean absolute logarithm of simulated over measured, on the half that fits."""
    candidates = (PagedAttentionFit(**dict(zip(GRID, values, strict=True))) for values in itertools.product(*GRID.values()))
    own = [line for line in lines if line.fits]
    return min(candidates, key=lambda fit: sum(abs(math.log(simulated_us(compute, line.shape, fit) / line.us)) for line in own))


def error_of(compute: Gpu, lines: Sequence[KernelLine], fit: PagedAttentionFit) -> tuple[float, float]:
    """Mean and mean absolute error on the half that does not fit."""
    errors = [simulated_us(compute, line.shape, fit) / line.us - 1 for line in lines if not line.fits]
    return sum(errors) / len(errors), sum(map(abs, errors)) / len(errors)
