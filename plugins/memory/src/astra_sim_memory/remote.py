"""Memory outside of the NPUs, as ASTRA-sim 2.x has it."""

from __future__ import annotations

import attrs
from astra_sim import InputError, option
from astra_sim.memory import Memory
from astra_sim.units import PS_PER_NS

from astra_sim_memory.local import LocalMemory, LocalOptions

ARRANGEMENTS = ("none", "per_npu", "per_node", "pool")


@attrs.frozen
class RemoteOptions:
    """Options of remote memory, and of the local memory beside it."""

    arrangement: str = option(
        "per_npu", choices=ARRANGEMENTS, help="who shares a remote memory: none (there is none), per_npu, per_node, pool (all NPUs)"
    )
    bandwidth_gb_per_s: float | None = option(None, above=0, help="bandwidth of one remote memory", unit="10^9 bytes/s")
    latency_ns: float = option(0.0, minimum=0, help="latency of an access", unit="ns")
    npus_per_node: int | None = option(None, minimum=1, help="NPUs of a node, for per_node")
    nodes: int | None = option(None, minimum=1, help="largest number of nodes, for per_node; none: unlimited")
    local_bandwidth_bytes_per_ns: float = option(500_000.0, above=0, help="bandwidth of local memory", unit="bytes/ns = GB/s")
    local_latency_ns: float = option(0.0, minimum=0, help="latency of local memory", unit="ns")


class RemoteMemory(Memory):
    """An access takes latency + bytes / bandwidth, rounded down to whole nanoseconds. NPUs that share a memory use it one after another."""

    def __init__(self, options: RemoteOptions) -> None:
        if options.arrangement != "none" and options.bandwidth_gb_per_s is None:
            raise InputError(f"bandwidth_gb_per_s is missing; the arrangement {options.arrangement} needs it")
        if options.arrangement == "per_node" and options.npus_per_node is None:
            raise InputError("npus_per_node is missing; the arrangement per_node needs it")
        self._options = options
        self._local = LocalMemory(
            LocalOptions(bandwidth_bytes_per_ns=options.local_bandwidth_bytes_per_ns, latency_ns=options.local_latency_ns)
        )

    def access_ps(self, size: int, write: bool) -> int:
        """Picoseconds to read or write `size` bytes of local memory."""
        return self._local.access_ps(size, write)

    def remote_access_ps(self, size: int, write: bool) -> int:
        """Picoseconds to read or write `size` bytes of remote memory. Raises InputError if there is none."""
        bandwidth = self._options.bandwidth_gb_per_s
        if self._options.arrangement == "none" or bandwidth is None:
            raise InputError(f"{size} bytes are {'written to' if write else 'read from'} remote memory, but the arrangement is none")
        return int(self._options.latency_ns + int(size / bandwidth)) * PS_PER_NS

    def remote_port(self, npu: int) -> int | None:
        """The port at which an NPU's accesses queue: that of its node, or of the pool. Raises InputError if the NPU has no node."""
        if self._options.arrangement == "per_node":
            per_node, nodes = self._options.npus_per_node or 1, self._options.nodes
            if nodes is not None and npu >= per_node * nodes:
                raise InputError(f"NPU {npu} has no node: nodes is {nodes}, with npus_per_node {per_node}; expected more nodes")
            return npu // per_node
        return 0 if self._options.arrangement == "pool" else None
