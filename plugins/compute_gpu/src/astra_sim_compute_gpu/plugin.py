"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl

_HERE = "astra_sim_compute_gpu"


@hookimpl
def astra_computes() -> list[Provider]:
    return [
        Provider(
            "gpu",
            "Kernels of a named GPU or TPU: tiles and waves of products, attention, kernels bound by memory",
            factory=f"{_HERE}.model:gpu",
            options=f"{_HERE}.model:GpuOptions",
            examples=[{"device": "a100-80"}, {"device": "h100", "stack": "megatron-2022"}, {"device": "b200", "element_type": "fp8"}],
        )
    ]


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider(
            "device", "List devices of the gpu compute model, and print a device file to start from.", f"{_HERE}.device_command:device"
        ),
        Provider("calibrate gemm", "Fit a device of the gpu compute model to measured products.", f"{_HERE}.calibrate_command:gemm"),
        Provider(
            "calibrate cluster",
            "Fit a cluster to logs of nccl-tests, products and iterations.",
            f"{_HERE}.cluster_command:cluster",
        ),
        Provider("calibrate attention", "Fit one to measured attention.", f"{_HERE}.calibrate_command:attention"),
    ]
