"""One source of routes: the network says which dimension a message counts in, however much of the platform is simulated."""

from __future__ import annotations

import csv
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import InputError
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Operation, Pass, Receive, Send
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.schedule import Collective, Peer, rank
from astra_sim.setup.components import build
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins
from astra_sim_reports_astra1.tables import backend_end_to_end, detailed, end_to_end
from support import figures
from support.networks import OneWire

RUNS = [(engine, symmetry) for engine in ("python", "compiled") for symmetry in (True, False)]
TORUS = "plugin:torus?sizes=4,4&link_bandwidth_gib_per_s=50&link_latency_ns=500"


@pytest.mark.parametrize(("engine", "symmetry"), RUNS)
@pytest.mark.parametrize(
    ("network", "payload"),
    [
        ("plugin:analytical", [393216, 1572864]),
        ("plugin:analytical?accounting_dimension=lowest", [1572864, 393216]),
        # A message crosses all dimensions in which its ends differ, and enters the lowest first.
        ("plugin:analytical?congestion=aware", [1572864, 393216]),
        ("plugin:packet?deadlock_freedom=bubble&flow_control=cut_through&buffers=64", [1572864, 393216]),
    ],
)
def test_payload_counts_where_the_network_says(network: str, payload: list[int], engine: str, symmetry: bool) -> None:
    """One of 15 peers in each row and column; 3 differ in the first dimension only, 3 in the second, 9 in both."""
    result = astra_sim.simulate(
        workload="plugin:collective?bytes=1048576",
        platform=TORUS,
        network=network,
        set=["system.all_reduce=one_direct"],
        engine=engine,
        symmetry=symmetry,
    )
    assert result.network["payload_bytes_per_dimension"] == payload
    (row,) = csv.DictReader(backend_end_to_end([result]))
    assert [float(row[f"PayloadSize_Dim{dimension}"]) for dimension in (0, 1)] == [size / 2**20 for size in payload]


def test_a_network_and_a_platform_that_differ_are_an_error() -> None:
    experiment = Experiment()
    for kind, value in (("workload", "plugin:collective?bytes=1000"), ("platform", TORUS)):
        experiment.use(kind, value, shared_plugins())
    own = build(experiment, shared_plugins()).platform
    assert astra_sim.simulate(experiment, network=OneWire(own)).npus == 16
    assert astra_sim.simulate(experiment, network=OneWire(own), platform=TORUS).npus == 16
    with pytest.raises(
        InputError, match=r"OneWire is made for a platform of 4 \(ring\) x 4 \(ring\) NPUs, and the platform is .* of 3 \(ring\)"
    ):
        astra_sim.simulate(experiment, network=OneWire(own), platform="plugin:ring?size=3&links=2&link_bandwidth_gb_per_s=1")


# -- groups and messages -----------------------------------------------------------------------------------------------

SHAPE = "plugin:torus?sizes=2,2,4&link_bandwidth_gb_per_s=1&link_latency_ns=100"
DIMENSIONS = (LogicalDimension(2, 1, 0), LogicalDimension(2, 2, 1), LogicalDimension(4, 4, 2))
GROUPS = {"inner": [0, 1], "outer": [0, 4, 8, 12], "both": [0, 1, 4, 5]}


def of_npu_0(*operations: Operation, others: tuple[NpuProgram, ...] = ()) -> ExecutionGraph:
    """A graph in which NPU 0 and the `others` do something, and all that are left compute."""
    busy = {0, *(npu for program in others for npu in program.npus)}
    idle = NpuProgram((Compute((), 1000),), tuple(npu for npu in range(16) if npu not in busy))
    return ExecutionGraph(operations, DIMENSIONS, (), None, (*others, idle))


def in_group(members: list[int]) -> ExecutionGraph:
    """An all-reduce of 8000 bytes among some NPUs."""
    operation = Communicate((), Collective.ALL_REDUCE, 8000, (0, 1, 2), -1, Pass.FORWARD, group=tuple(members))
    return of_npu_0(operation, others=(NpuProgram((operation,), tuple(members[1:])),))


def simulate(graph: ExecutionGraph, **more: Any) -> astra_sim.Result:
    return astra_sim.simulate(workload=graph, platform=SHAPE, **{"system": "plugin:astra2?group_algorithm=ring", **more})


@pytest.mark.parametrize(("engine", "symmetry"), RUNS)
@pytest.mark.parametrize(
    ("group", "network", "sent"),
    [
        ("inner", "plugin:analytical", [8000, 0, 0]),
        ("outer", "plugin:analytical", [0, 0, 12000]),
        ("outer", "plugin:analytical?congestion=aware", [0, 0, 12000]),
        # 0 sends to 1, and the last, 5, to it: over dimensions 0 and 2, of which the network charges the higher or the lower.
        ("both", "plugin:analytical", [12000, 0, 0]),
        ("both", "plugin:analytical?accounting_dimension=lowest", [12000, 0, 0]),
    ],
)
def test_a_group_counts_in_the_dimensions_that_its_messages_take(
    group: str, network: str, sent: list[int], engine: str, symmetry: bool
) -> None:
    result = simulate(in_group(GROUPS[group]), network=network, engine=engine, symmetry=symmetry)
    assert [dimension.bytes for dimension in result.dimensions] == sent
    assert result.network["payload_bytes_per_dimension"] == sent
    used = [number for number in range(3) if sent[number]]
    if group == "both" and network == "plugin:analytical":
        used.append(2)  # what comes from 5
    for number, dimension in enumerate(result.dimensions):
        assert (dimension.utilisation > 0) == (number in used)
        assert (dimension.average_chunk_latency_ns is not None) == (number in used)
    lanes = {interval.lane for interval in result.timeline() if interval.lane.startswith("dimension")}
    assert lanes == {"dimension " + " and ".join(map(str, used))}


@pytest.mark.parametrize(("engine", "symmetry"), RUNS)
def test_a_message_counts_in_the_dimension_it_takes(engine: str, symmetry: bool) -> None:
    """Two messages of 5000 bytes, the second from the NPU's only unit: it begins when the first has arrived."""
    sends: list[Operation] = [Send((), rank(8), 5000, 0), Send((), rank(8), 5000, 1)]
    receives = NpuProgram((Receive((), rank(0), 5000, 0), Receive((), rank(0), 5000, 1)), (8,))
    result = simulate(of_npu_0(*sends, others=(receives,)), engine=engine, symmetry=symmetry)
    outer = result.dimensions[2]
    # Two hops of 100 ns; a message on a ring has the bandwidth of one direction.
    assert (outer.bytes, outer.average_chunk_latency_ns) == (10000, 200 + 5000)
    assert outer.utilisation == 1
    assert result.busy_ns == [[], [], [(0, 10400)]]
    assert [dimension.average_chunk_latency_ns for dimension in result.dimensions[:2]] == [None, None]
    assert result.network["payload_bytes_per_dimension"] == [0, 0, 10000]


def test_requests_of_messages_count_as_those_of_collectives() -> None:
    """Under the rendezvous protocol the receiver asks for the message with 8192 bytes."""
    receives: list[Operation] = [Receive((), rank(4), 5000)]
    result = simulate(of_npu_0(*receives, others=(NpuProgram((Send((), rank(0), 5000),), (4,)),)), rendezvous=True)
    assert result.network["payload_bytes_per_dimension"] == [0, 0, 8192]
    assert result.messages == 2


def test_reports_of_a_run_without_layers() -> None:
    result = simulate(in_group(GROUPS["outer"]), run_name="trace")
    head, row, *_ = csv.reader("".join(end_to_end([result])).splitlines())
    table = dict(zip(head[2:], row[2:], strict=True))
    assert row[:2] == ["", "trace"]
    assert table["workload finished at"] == f"{result.finish_ns / 1000:.6f}"
    assert table["total comp"] == "0.000000"
    assert table["total exposed comm"] == table["workload finished at"]
    assert table["fwd compute"] == ""
    head, row, *_ = csv.reader("".join(detailed([result])).splitlines())
    latency = result.dimensions[2].average_chunk_latency_ns
    assert latency is not None
    assert row[1:5] == ["trace", "-nan", "-nan", f"{latency / 1000:.6f}"]
    assert head[2:5] == [f"avg chunk delay dimension {number}" for number in (1, 2, 3)]


# -- what is not as symmetric as it seems ------------------------------------------------------------------------------


@attrs.frozen
class Lying:
    """A topology that says that all its NPUs are alike, though one hop is long."""

    name: str = "lying"

    def hops(self, source: int, destination: int) -> int:
        return 7 if source == 2 else 1

    def is_symmetric(self, peer: Peer) -> bool:
        return True

    def links_per_message(self) -> int:
        return 1

    def links_per_npu(self) -> int:
        return 1


@pytest.mark.parametrize("npus", [4, 300])
@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_without_symmetry_every_route_is_asked_for(npus: int, algorithm: str) -> None:
    """300 NPUs have more routes under `direct` than an engine compares beforehand; then each message asks."""
    result: dict[str, Any] = {
        "workload": "plugin:collective?bytes=30000&collective=all_gather",
        "platform": Platform((Dimension(Lying(), npus, 1, 1.0, 1000.0),)),
        "set": [f"system.all_gather={algorithm}"],
    }
    blind = astra_sim.simulate(**result)
    runs = [
        astra_sim.simulate(**result, engine=engine, symmetry=False) for engine in (("compiled", "python") if npus == 4 else ("compiled",))
    ]
    assert all(run.finish_ns >= blind.finish_ns + 6000 for run in runs)
    assert all(figures(run) == figures(runs[0]) for run in runs)


def test_groups_of_a_split_dimension_that_differ_are_all_simulated() -> None:
    """A ring of four, and one that hangs on it whose numbers go round another way."""
    exchange = {"compute_ns": 5, "collective": "all_reduce", "collective_bytes": 40000}
    links = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (4, 6), (6, 5), (5, 7), (7, 4)]
    experiment: dict[str, Any] = {
        "workload": {
            "plugin": "layers",
            "loop": "hybrid_transformer",
            "loop_options": {"model_parallel_npus": 4},
            "layers": [{"name": "l", **dict.fromkeys(Pass, exchange)}],
        },
        "system": "plugin:astra1?all_reduce=ring",
    }
    topology = _Graph(8, tuple(links))
    runs = [
        astra_sim.simulate(**experiment, platform=Platform((Dimension(topology, 8, 2, 1.0, 100.0),)), engine=engine, symmetry=symmetry)
        for engine, symmetry in RUNS
    ]
    assert {run.simulated_npus for run in runs} == {8}
    assert all(figures(run) == figures(runs[0]) for run in runs)


@attrs.frozen
class _Graph:
    """NPUs joined both ways by the links of a list."""

    size: int
    links: tuple[tuple[int, int], ...]
    name: str = "joined"

    def hops(self, source: int, destination: int) -> int:
        reached, hops = {source}, 0
        while destination not in reached:
            reached |= {b for a, b in (*self.links, *((b, a) for a, b in self.links)) if a in reached}
            hops += 1
        return hops

    def is_symmetric(self, peer: Peer) -> bool:
        return False

    def links_per_message(self) -> int:
        return 1

    def links_per_npu(self) -> int:
        return 1
