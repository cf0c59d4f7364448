"""Steps of PyTorch's profiler: `ProfilerStep#N` in both traces."""

from __future__ import annotations

PROFILER_STEP = "ProfilerStep"


def step_of(name: str) -> int | None:
    """The number of a step of the profiler, by the name of its event or node; None: it is no such event."""
    number = name.removeprefix(f"{PROFILER_STEP}#")
    return int(number) if number != name and number.isdecimal() and len(number) < 19 else None
