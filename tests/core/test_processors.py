"""How many processors a simulation may use: all, or one where its process shares them with others."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

from astra_sim.processors import processors


def test_a_process_by_itself_uses_all_it_is_given() -> None:
    assert processors() == (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())


def test_a_process_of_a_pool_uses_one() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(processors) == 1


def test_a_process_that_shares_them_uses_one() -> None:
    code = "from astra_sim.processors import processors, share_processors; share_processors(); print(processors())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1\n"
