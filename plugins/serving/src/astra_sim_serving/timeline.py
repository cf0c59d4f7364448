"""What the instances do over time, as a table with commas."""

from __future__ import annotations

import attrs

from astra_sim_serving.instance import Instance

COLUMNS = "time_s,instance,running,waiting,kv_blocks,iterations,tokens"


@attrs.define
class TimelineWriter:
    """Collects a row whenever an instance has begun iterations: requests, blocks, and the iterations and their tokens."""

    rows: list[str] = attrs.field(factory=list)

    def __call__(self, instance: Instance, now: float) -> None:
        """Take a row."""
        scheduler, under_way = instance.scheduler, instance.under_way
        count = under_way[-1].count if under_way else 0
        tokens = sum(each for _, each in under_way[-1].batch) if under_way else 0
        self.rows.append(
            f"{now:.9g},{instance.number},{len(scheduler.running)},{len(scheduler.waiting)},{scheduler.cache.used_blocks},{count},{tokens}"
        )

    def text(self) -> str:
        """The whole table."""
        return "\n".join([COLUMNS, *self.rows]) + "\n"
