"""The processors of NPUs, if it takes their time to send a message and to receive one: the overhead o of LogGP.

A processor does one thing after another, in the order of requests, and never interrupts one: so it sends
and receives nothing while it computes, and computes nothing while it sends or receives (Alexandrov, Ionescu, Schauser and Scheiman, SPAA
1995). NPUs may have a processor for messages beside the one that computes: then computing waits for no message, and messages for each
other alone. Without overheads nothing waits.
"""

from __future__ import annotations

from astra_sim.engine.interface import OverheadPs


class Processors:
    """When the processor of each NPU is free. `handle_messages`: whether messages take its time."""

    def __init__(self, npus: int) -> None:
        self.handle_messages = False
        self._overhead_ps: OverheadPs | None = None
        self._compute = False
        self._free_at = [0] * npus

    def set_overheads(self, overhead_ps: OverheadPs, compute: bool) -> None:
        """Set the processors' time per message, and whether they `compute`, too."""
        self.handle_messages = True
        self._overhead_ps = overhead_ps
        self._compute = compute

    def free_from(self, npu: int, now: int) -> int:
        """When a computation begins that is ready now."""
        return max(now, self._free_at[npu]) if self._compute else now

    def compute(self, npu: int, begin: int, duration: int) -> int:
        """Compute from `begin` on (`free_from`). Returns when that ends."""
        if self._compute:
            self._free_at[npu] = begin + duration
        return begin + duration

    def handle(self, npu: int, now: int, size: int, receives: bool) -> int:
        """Send or receive a message of `size` bytes, from now on or after the processor's earlier work. Returns the end."""
        assert self._overhead_ps is not None
        end = self._free_at[npu] = max(now, self._free_at[npu]) + self._overhead_ps(size, receives)
        return end
