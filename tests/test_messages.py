"""What the command line and errors say: of every input, on every stream, and where a run cannot finish."""

from __future__ import annotations

import astra_sim
import pytest
from astra_sim.errors import DeadlockError
from astra_sim.graph import Compute, ExecutionGraph, RankProgram, Send
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import rank

RING = "plugin:ring?size=2&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100"


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_send_that_waits_for_its_unit_is_not_said_to_wait_for_a_receive(engine: str) -> None:
    """Under the rendezvous protocol a send waits for its receive; the next one waits for the communication of its NPU to be free."""
    sends = (Send((), rank(1), 64, 1, name="first"), Send((), rank(1), 64, 2, name="second"))
    others = (RankProgram((Compute((), 1000),), (1,)),)
    graph = ExecutionGraph(sends, (LogicalDimension(2, 1, 0),), (), None, others)
    with pytest.raises(DeadlockError) as caught:
        astra_sim.simulate(workload=graph, platform=RING, system="plugin:astra2", rendezvous=True, engine=engine)
    first, second = caught.value.waiting
    assert first == "NPU 0: operation 0 (send of 64 bytes, 'first') waits for a receive of NPU 1 with tag 1"
    assert second == "NPU 0: operation 1 (send of 64 bytes, 'second') waits for operation 0 (send of 64 bytes, 'first')"
