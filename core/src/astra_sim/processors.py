"""Processors of this machine: how many a simulation may use."""

from __future__ import annotations

import os
import sys


class _Process:
    shares = False
    """It is one of several that use all processors together."""


def processors() -> int:
    """The number of processors that this process may use for one simulation: all that the system gives it, or one if it shares them."""
    pools = sys.modules.get("multiprocessing")  # a process of a pool has it
    if _Process.shares or (pools is not None and pools.parent_process() is not None):
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def share_processors() -> None:
    """Say that this process is one of several that use all processors together, such as a worker of a sweep."""
    _Process.shares = True
