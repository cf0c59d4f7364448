"""Software stacks: the share of a device's kernel rates that a training program sustains.

A stack is a few numbers, of which a fit changes four at most. Who reads which:

| number | read by |
|---|---|
| gemm_share | the compute model `gpu`: rate of products, grouped and batched ones included |
| elementwise_share | the compute model `gpu`: memory bandwidth of element-wise kernels, casts and optimizer steps |
| attention_rate | the compute model `gpu`: rate of flash attention |
| collective_share | the kernel: bandwidth of all dimensions of the platform but the innermost, before the network is made |
| launch_us | the workload `llm`: a pass takes at least as long as the host launches its kernels |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.options import structure
from astra_sim.platform import device_family

from astra_sim_compute_gpu import data_files

FOLDER = "stacks"
AUTO, KERNELS = "auto", "kernels"


@attrs.frozen
class Stack:
    """A stack profile. A number is a factor on the rates of the device's kernels; a fit may give more than 1."""

    title: str = option("", help="which software")
    gemm_share: float = option(1.0, above=0, maximum=2, help="factor on the rate of products")
    elementwise_share: float = option(1.0, above=0, maximum=2, help="factor on the memory bandwidth of other kernels")
    attention_rate: float = option(1.0, above=0, maximum=2, help="factor on the rate of flash attention")
    collective_share: float = option(1.0, above=0, maximum=2, help="factor on the bandwidth between nodes")
    launch_us: float = option(0.0, minimum=0, help="time in which the host launches a kernel; 0: no time", unit="us")
    devices: tuple[str, ...] = option((), help="devices on which the fitted iterations ran; none: it is not fitted")
    experts: bool = option(False, help="whether it was fitted to mixtures of experts")
    newest_on: tuple[str, ...] = option(
        (), help="devices on which it is the stack of training that names none, of dense models or with experts"
    )
    undetermined: tuple[str, ...] = option(
        (), help="numbers that the fitted iterations do not determine: on a bound of the fit, or at its start; a run warns"
    )
    precisions: tuple[str, ...] = option((), help="precisions of the fitted iterations; none: any")
    workload: dict[str, Any] = option(
        factory=dict, help="options of workloads with which it was fitted, by plugin: a workload takes those that it is not given"
    )
    held_out_error: float | None = option(None, minimum=0, help="mean relative error on iterations that were not fitted")
    held_out_lines: int | None = option(None, minimum=1, help="how many these were")
    source: str = option("", help="where the numbers come from")

    def mismatches(self, name: str, device: str, precision: str) -> list[str]:
        """Describe why the stack was not fitted for a device or a precision ("": unknown)."""
        result = []
        known = {device_family(each) for each in self.devices}
        if known and device and device_family(device) not in known:
            result.append(f"stack {name} was fitted on {_words(self.devices)}, and the device is {device}")
        # An iteration in 8 bits runs kernels of 16 bits, too: attention, the head, all that is no product.
        narrowest = min((BITS[each] for each in self.precisions if each in BITS), default=0)
        if BITS.get(precision, narrowest) < narrowest:
            result.append(f"stack {name} was fitted with {_words(self.precisions)}, and the precision of the workload is {precision}")
        return result


BITS = {"fp16": 16, "bf16": 16, "fp8": 8, "mxfp8": 8, "nvfp4": 4}
"""Bits of an element of the products' inputs, by precision."""


def _words(names: Sequence[str]) -> str:
    return " and ".join(names) if len(names) < _FEW else f"{', '.join(names[:-1])} and {names[-1]}"


_FEW = 3


def names() -> list[str]:
    """The stacks of this package, and how one is chosen."""
    return [AUTO, *data_files.names(FOLDER)]


def newest_stack(device: str, workload: str, traits: Collection[str] = ()) -> str | None:
    """The stack for a workload that names none on a device; None: none was fitted to such workloads there.

    `traits` of the workload are "experts" and its precision. One that was fitted to experts is for these alone, one that was fitted to
    products of four bits for these alone; if none was, it is that of dense models in more bits.
    """
    wanted = ("experts" in traits, FOUR_BITS in traits)
    result: dict[tuple[bool, bool], str] = {}
    for name in data_files.names(FOLDER):
        stack = read_stack(name)
        if workload in stack.workload and device in stack.newest_on:
            result[stack.experts, FOUR_BITS in stack.precisions] = name
    return result.get(wanted) or result.get((False, wanted[1])) or result.get((False, False))


FOUR_BITS = "nvfp4"


def read_stack(name: str | Stack) -> Stack:
    """The stack of a name, of a TOML file, or as it is given. Raises InputError."""
    if isinstance(name, Stack):
        return name
    table, where = data_files.read(FOLDER, name, "stack")
    stack: Stack = structure(Stack, table, where)
    for plugin, options in stack.workload.items():
        if not isinstance(options, Mapping):
            raise InputError(f"{where}: workload: {plugin} is {options!r}; expected a table of options of that workload")
    return stack
