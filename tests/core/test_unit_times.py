"""How long units of NPUs are busy: kept in pickles and files, and only where it was asked for."""

from __future__ import annotations

import pickle
from pathlib import Path

import astra_sim
import pytest

COLLECTIVE = {"plugin": "collective", "bytes": 1 << 20, "collective": "all_reduce"}
RING = {"dimensions": [{"topology": "ring", "size": 4, "links": 2, "link_bandwidth_gib_per_s": 50, "link_latency_ns": 500}]}


def test_a_collective_keeps_communication_busy_and_nothing_else(tmp_path: Path) -> None:
    result = astra_sim.simulate(workload=COLLECTIVE, platform=RING, npu_times=True)
    (times,) = result.unit_times()
    assert times.npus == (0, 1, 2, 3)
    assert times.communication_ns == times.finish_ns == result.finish_ns
    assert (times.accelerator_ns, times.cpu_ns, times.memory_ns) == (None, None, None)
    assert pickle.loads(pickle.dumps(result)).unit_times() == [times]
    assert result.spooled(str(tmp_path / "spool")).unit_times() == [times]


def test_they_must_be_asked_for() -> None:
    with pytest.raises(astra_sim.InputError, match="npu_times=True"):
        astra_sim.simulate(workload=COLLECTIVE, platform=RING).unit_times()
