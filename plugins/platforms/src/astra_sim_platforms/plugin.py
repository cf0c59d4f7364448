"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl

_HERE = "astra_sim_platforms"
_NODES = {
    "dgx_1": "NVIDIA DGX-1: 8 V100 on rings of NVLink",
    "dgx_2": "NVIDIA DGX-2: 16 V100 around NVSwitch",
    "dgx_a100": "NVIDIA DGX A100: 8 A100 around NVSwitch",
    "dgx_h100": "NVIDIA DGX H100: 8 H100 around NVSwitch",
    "dgx_h200": "NVIDIA DGX H200: 8 H200 around NVSwitch",
    "dgx_b200": "NVIDIA DGX B200: 8 B200 around NVSwitch",
    "hgx_b200": "NVIDIA HGX B200: 8 B200 around NVSwitch",
    "gb200_nvl72": "NVIDIA GB200 NVL72: racks of 72 GPUs around NVLink switches",
    "gb300_nvl72": "NVIDIA GB300 NVL72: racks of 72 GPUs around NVLink switches",
}
_PODS = {
    "tpu_v4": "Google TPU v4: a slice of a pod, a 3-D torus",
    "tpu_v5p": "Google TPU v5p: a slice of a pod, a 3-D torus",
}


@hookimpl
def astra_platforms() -> list[Provider]:
    nodes = [
        Provider(name, summary, f"{_HERE}.machines:{name}", f"{_HERE}.machines:NodeOptions", examples=[{}, {"nodes": 4}])
        for name, summary in _NODES.items()
    ]
    pods = [
        Provider(name, summary, f"{_HERE}.machines:{name}", f"{_HERE}.machines:PodOptions", examples=[{"shape": "4x4x8"}, {"chips": 64}])
        for name, summary in _PODS.items()
    ]
    return nodes + pods
