"""Runs a JAX script with the devices of an accelerator that is not there, and writes each module that it compiles for them.

Run by path in a process of its own: `compiling.py FOLDER TARGET DEVICES SCRIPT ARGUMENTS...`, where TARGET is `gpu:NAME` or `tpu:TOPOLOGY`.
The compilers are those of XLA for these devices, which need no device to compile (`jax.experimental.topologies`).
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

FAILED = 5
"""Exit status if there is no compiler for the target; the last line of standard error says why."""

_PER_NODE = 8
_COMMON = (
    "threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048 shared_memory_per_block: 49152 "
    "block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535 registers_per_core_limit: 65536 "
    "registers_per_block_limit: 65536"
)
_GPUS = {
    "a100": ("8", "0", 108, 64, 167936, 166912, 41943040, 1.41, 2039e9, 80, "A100-SXM4-80GB"),
    "h100": ("9", "0", 132, 128, 233472, 232448, 52428800, 1.98, 3352e9, 80, "H100 80GB HBM3"),
    "b200": ("10", "0", 148, 128, 233472, 232448, 132120576, 1.965, 8000e9, 180, "B200"),
}
"""Of each GPU: compute capability, multiprocessors and their units for fp32, shared memory of one and of a block (bytes), second-level
cache (bytes), clock (GHz), memory bandwidth (bytes/s), memory (GB), and name; from NVIDIA's data sheets and programming guide."""


def _target_config(name: str) -> str:
    """The description of a GPU that XLA's compiler asks for, as text of its protocol buffer."""
    major, minor, cores, units, per_core, per_block, cache, clock, bandwidth, memory, title = _GPUS[name]
    return (
        f"gpu_device_info {{ {_COMMON} core_count: {cores} fpus_per_core: {units} shared_memory_per_core: {per_core} "
        f"shared_memory_per_block_optin: {per_block} l2_cache_size: {cache} clock_rate_ghz: {clock} memory_bandwidth: {bandwidth:.0f} "
        f"device_memory_size: {memory * 10**9} cuda_compute_capability {{ major: {major} minor: {minor} }} }} "
        f'platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 8 }} device_description_str: "NVIDIA {title}"'
    )


def devices_of(target: str, count: int) -> Any:
    """The devices of a target. Raises ValueError that says what is wrong."""

    kind, _, name = target.partition(":")
    if kind == "gpu":
        if name not in _GPUS:
            raise ValueError(f"--target: no GPU {name!r}; expected {', '.join(_GPUS)}")
        nodes, last = divmod(count, _PER_NODE)
        shape = f"1x{nodes}x{_PER_NODE}" if nodes and not last else f"1x1x{count}"
        devices = _described(target, name, "cuda", target_config=_target_config(name), topology=shape)
    else:
        devices = _described(target, name, "tpu")
    if len(devices) != count:
        raise ValueError(f"--target {target} has {len(devices)} devices, --devices is {count}; expected the same")
    return devices


def _described(target: str, name: str, platform: str, **more: str) -> Any:
    """The devices of a topology. Raises ValueError with what jax says if it has none."""
    from jax.experimental import topologies

    try:
        return topologies.get_topology_desc(name, platform, **more).devices
    except Exception as problem:
        package = "cuda12" if platform == "cuda" else "tpu"
        reason = str(problem).strip().splitlines()[0]
        raise ValueError(f'--target {target}: {reason}; the compiler comes with: pip install "jax[{package}]"') from None


def main(words: list[str]) -> None:
    """Compile a script's programs: see above."""
    folder, target, count, *script = words
    import jax

    try:
        devices = devices_of(target, int(count))
    except ValueError as problem:
        sys.stderr.write(f"\n{problem}\n")
        sys.exit(FAILED)
    jax.devices = jax.local_devices = lambda *_, **__: list(devices)
    jax.device_count = jax.local_device_count = lambda *_, **__: len(devices)
    jax._src.xla_bridge.devices = jax.devices  # that of `jax.make_mesh`
    compile_lowered, written = jax.stages.Lowered.compile, 0

    def compiled(lowered: Any, *args: Any, **keywords: Any) -> Any:
        nonlocal written
        result = compile_lowered(lowered, *args, **keywords)
        written += 1
        Path(folder, f"{written:04}.txt").write_text(result.as_text())
        return result

    jax.stages.Lowered.compile = compiled
    sys.argv = script
    sys.path[0] = os.path.dirname(os.path.abspath(script[0]))
    runpy.run_path(script[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
