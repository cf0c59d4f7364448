"""When tasks end that take time by themselves: after their delay, a time that is asked for, or their use of a processor or a port."""

from __future__ import annotations

from collections.abc import Sequence

from astra_sim.engine.interface import ACCESS, COMPUTE, ComputePs, Task, check_ports
from astra_sim.engine.reference.processors import Processors


class Ports:
    """The ports through which NPUs access memory. NPUs that have the same port use it one after another."""

    __slots__ = ("free_at", "port_of")

    def __init__(self) -> None:
        self.port_of: Sequence[int] = ()
        self.free_at: dict[int, int] = {}

    def add(self, ports: Sequence[int], npus: int) -> bool:
        """Say which port each NPU uses, or -1. Returns whether some NPUs share one. Raises ValueError."""
        check_ports(ports, npus)
        self.port_of = ports
        used = [port for port in ports if port >= 0]
        return len(set(used)) < len(used)

    def use(self, npu: int, now: int, delay: int) -> int:
        """An NPU uses its port for so long, from now on or when it is free. Returns when that ends."""
        port = self.port_of[npu] if self.port_of else -1
        if port < 0:
            return now + delay
        end = self.free_at[port] = max(now, self.free_at.get(port, 0)) + delay
        return end


class TaskDurations:
    """How long tasks take that send and receive nothing, on the processors and ports of their NPUs."""

    def __init__(self, processors: Processors, npus: int) -> None:
        self._processors = processors
        self._npus = npus
        self._ports = Ports()
        self._compute_ps: ComputePs | None = None

    def add_ports(self, ports: Sequence[int]) -> bool:
        """Say which port each NPU uses. Returns whether some NPUs share one. Raises ValueError."""
        return self._ports.add(ports, self._npus)

    def set_compute_times(self, compute_ps: ComputePs) -> None:
        """Say who is asked for the times of COMPUTE tasks."""
        self._compute_ps = compute_ps

    def end_of(self, npu: int, number: int, task: Task, now: int) -> int:
        """When a task ends that an NPU begins now; it takes its processor or port until then."""
        if task.kind == ACCESS:
            return self._ports.use(npu, now, task.delay)
        if task.kind != COMPUTE:
            return now + task.delay
        # The time of a slow NPU may depend on the moment, so it is asked for when the processor is free, not when the task is ready.
        begin = self._processors.free_from(npu, now)
        duration = task.delay if self._compute_ps is None else self._compute_ps(npu, number, begin)
        return self._processors.compute(npu, begin, duration)
