"""Software stacks: how much of what a device's kernels reach a training program sustains.

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

import attrs
from astra_sim import option
from astra_sim.options import structure

from astra_sim_compute_gpu import data_files

FOLDER = "stacks"


@attrs.frozen
class Stack:
    """A stack profile. A number is a factor on what the device's kernels reach; a fit may give more than 1."""

    title: str = option("", help="which software")
    gemm_share: float = option(1.0, above=0, maximum=2, help="factor on the rate of products")
    elementwise_share: float = option(1.0, above=0, maximum=2, help="factor on the memory bandwidth of other kernels")
    attention_rate: float = option(1.0, above=0, maximum=2, help="factor on the rate of flash attention")
    collective_share: float = option(1.0, above=0, maximum=2, help="factor on the bandwidth between nodes")
    launch_us: float = option(0.0, minimum=0, help="time in which the host launches a kernel; 0: no time", unit="us")
    source: str = option("", help="where the numbers come from")


def names() -> list[str]:
    """The stacks of this package."""
    return data_files.names(FOLDER)


def read_stack(name: str | Stack) -> Stack:
    """The stack of a name, of a TOML file, or as it is given. Raises InputError."""
    if isinstance(name, Stack):
        return name
    table, where = data_files.read(FOLDER, name, "stack")
    stack: Stack = structure(Stack, table, where)
    return stack
