"""Plans of MSCCL++ as loads and stores of cache lines, on the inside of GPUs (`gpu_mesh`)."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.graph import Receive, Send
from astra_sim_collectives.load_store.gpu_mesh import GpuMesh, GpuMeshOptions, gpu_mesh
from astra_sim_collectives.load_store.requests import GpuParts, RequestLimits, Requests
from astra_sim_collectives.load_store.workload import PlanRequests
from astra_sim_collectives.mscclpp_plan import read_plan
from support.mscclpp_files import GpuPlan, all_pairs_all_gather, direct_reduce_scatter, packet_all_reduce, plan, ring_all_reduce

SMALL = "plugin:gpu_mesh?gpus=4&columns=4&rows=2&router_compute_units=1&channels=8&ports=8"
SWITCH = "plugin:switch?size=4&links=1&link_bandwidth_gb_per_s=1&link_latency_ns=1"
NETWORKS = ("plugin:packet", "plugin:analytical?congestion=aware", "plugin:flow", "plugin:roce")


def run(platform: str = SMALL, network: str = "plugin:packet", engine: str = "auto", **options: Any) -> Any:
    """The result of the workload with these options."""
    text = "&".join(f"{name}={value}" for name, value in options.items())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return astra_sim.simulate(workload=f"plugin:load_store?{text}", platform=platform, network=network, engine=engine)


def us(**options: Any) -> float:
    """The time of a run in microseconds."""
    return float(run(**options).finish_ns) / 1000


# -- The platform ------------------------------------------------------------------------------------------------------


def test_the_default_is_the_reference_gpu() -> None:
    """ASTRA-sim 3.0's: 128 compute units, 32 channels of 4 TiB/s and 32 ports of 1 TiB/s in all, 1 us from GPU to GPU."""
    (dimension,), options = gpu_mesh(GpuMeshOptions()), GpuMeshOptions()
    assert dimension.topology.device_parts == {"compute_units": 128, "memory_channels": 32}
    assert dimension.size == 8 * 160
    assert options.channels * options.channel_gib_per_s == 4096
    assert options.ports * options.port_gib_per_s == 1024
    assert options.port_latency_ns == 1000


@pytest.mark.parametrize(
    ("gpus", "columns", "rows", "units", "channels", "ports"), [(1, 3, 2, 1, 5, 4), (2, 1, 1, 2, 3, 1), (3, 4, 3, 1, 6, 7)]
)
def test_routes_lead_along_the_row_then_the_column(gpus: int, columns: int, rows: int, units: int, channels: int, ports: int) -> None:
    mesh = GpuMesh(GpuMeshOptions(gpus=gpus, columns=columns, rows=rows, router_compute_units=units, channels=channels, ports=ports))
    links = mesh.links()
    for source in range(mesh.size):
        for destination in range(mesh.size):
            node, nodes = source, [source]
            while node != destination:
                (number,) = mesh.next_links(node, destination) or ()
                assert links[number].source == node
                node = links[number].target
                nodes.append(node)
            assert len(nodes) == len(set(nodes)) == mesh.hops(source, destination) + 1
            crosses = source // mesh.endpoints != destination // mesh.endpoints
            switches = [each - mesh.size - gpus * columns * rows for each in nodes if each >= mesh.size + gpus * columns * rows]
            assert switches == ([destination % ports] if crosses else [])
            within = [each for each in nodes if mesh.size <= each < mesh.size + columns * rows]  # of GPU 0
            turns = [abs(b - a) == 1 and columns > 1 for a, b in itertools.pairwise(within)]
            assert turns == sorted(turns, reverse=True), "columns before rows"


def test_scaled_links_are_those_of_scaled_options() -> None:
    mesh = GpuMesh(GpuMeshOptions(gpus=2, columns=2, rows=1, channels=2, ports=2))
    for one, other in zip(mesh.links(), mesh.scaled(2, 3).links(), strict=True):
        assert (other.bandwidth, other.latency_ns) == pytest.approx((2 * one.bandwidth, 3 * one.latency_ns))


# -- Requests ----------------------------------------------------------------------------------------------------------


def test_one_line_takes_what_its_messages_take() -> None:
    """A get between two GPUs on links without contention: a request, a line back, a store and its acknowledgement, hop by hop."""
    platform = "plugin:gpu_mesh?gpus=2&columns=1&rows=1&router_compute_units=1&channels=1&ports=1"
    result = run(platform, NETWORKS[1], bytes=256, transfer="get", workgroups=1, line_bytes=128, control_bytes=16)
    near, far = 128 * 2**30 / 1e9, 32 * 2**30 / 1e9

    def message(size: int, widths: list[float]) -> int:
        return sum(int(size / width) for width in widths)  # each link takes whole nanoseconds

    across, inside = [near, far, far, near], [near, near]
    load = message(16, across) + message(128, across) + 2 * (1 + 1000 + 100)
    store = message(128, inside) + message(16, inside) + 2 * (1 + 100)
    assert result.finish_ns == load + store
    assert result.to_dict()["loads_and_stores"] == 4
    assert result.messages == 8


@pytest.mark.parametrize(
    ("collective", "transfer"), [("all_gather", "put"), ("all_gather", "get"), ("reduce_scatter", "put"), ("reduce_scatter", "get")]
)
def test_requests_are_those_of_the_closed_form(collective: str, transfer: str) -> None:
    """Lines of a chunk on n GPUs: a put loads once and stores n - 1 times; sums load what was stored, and store once more."""
    n, workgroups, lines = 4, 2, 8
    result = run(bytes=n * lines * 128, collective=collective, transfer=transfer, workgroups=workgroups, line_bytes=128)
    moved = {
        ("all_gather", "put"): 1 + (n - 1),
        ("all_gather", "get"): 2 * (n - 1),
        ("reduce_scatter", "put"): 2 * (n - 1) + n + 1,
        ("reduce_scatter", "get"): n + 1,
    }[collective, transfer]
    assert result.to_dict()["loads_and_stores"] == n * lines * moved
    counters = n * workgroups * (n - 1) * 3 if transfer == "put" else 0  # a release, an acquire, and its reply for each peer
    assert result.messages == 2 * n * lines * moved + counters


@pytest.mark.parametrize("network", NETWORKS)
def test_it_runs_on_every_network_of_links_and_both_engines_agree(network: str) -> None:
    results = [run(network=network, engine=engine, bytes=8192, collective="reduce_scatter") for engine in ("compiled", "python")]
    assert results[0].finish_ns == results[1].finish_ns
    assert results[0].npu_finish_ns == results[1].npu_finish_ns


# -- Trends of arXiv 2606.10440 ----------------------------------------------------------------------------------------


def test_put_wins_all_gather_and_get_wins_reduce_scatter() -> None:
    """Where requests in flight almost cover the latency. With fewer, put wins both; with more, get, which needs no signal."""
    limits = {"bytes": 65536, "unroll": 16, "outstanding": 256}
    gather = {transfer: us(transfer=transfer, **limits) for transfer in ("put", "get")}
    scatter = {transfer: us(collective="reduce_scatter", transfer=transfer, **limits) for transfer in ("put", "get")}
    assert gather["put"] < gather["get"]
    assert scatter["get"] < scatter["put"]


def test_unrolling_and_outstanding_requests_saturate_and_do_not_help_small_sizes() -> None:
    large = [us(bytes=65536, wavefronts=1, unroll=unroll) for unroll in (1, 2, 4, 16, 32)]
    assert large[0] > 1.4 * large[1] > 1.5 * large[2] > 0
    assert large[-1] == pytest.approx(large[-2], rel=0.02)
    small = [us(bytes=4096, wavefronts=1, unroll=unroll) for unroll in (2, 32)]
    assert small[0] == small[1]
    outstanding = [us(bytes=65536, unroll=64, outstanding=most) for most in (4, 64, 512, 1024)]
    assert outstanding[0] > 5 * outstanding[1] > 5 * outstanding[2]
    assert outstanding[-1] == pytest.approx(outstanding[-2], rel=0.01)


@pytest.mark.parametrize("transfer", ["put", "get"])
def test_time_is_linear_in_bytes(transfer: str) -> None:
    times = [us(bytes=size, transfer=transfer, unroll=16) for size in (1 << 17, 1 << 18, 1 << 19)]
    assert (times[2] - times[1]) / (times[1] - times[0]) == pytest.approx(2, rel=0.01)


def test_the_ring_all_reduce_of_the_paper_is_fourteen_flows() -> None:
    """1 MiB on 8 GPUs: 165.98 us are 14 steps of a flow that takes 11.857 us alone (Clos, 100 Gb/s), here as latency and bandwidth."""
    step_ns, links = 11_857, 2
    latency = (step_ns - (1 << 17) / 12.5) / links
    platform = f"plugin:clos?npus=8&leaf_npus=8&link_bandwidth_gb_per_s=12.5&link_latency_ns={latency}"
    result = astra_sim.simulate(
        workload="plugin:collective?bytes=1048576",
        platform=platform,
        network="plugin:analytical",
        set=["system.all_reduce=ring", "system.splits=1", "system.endpoint_delay_ns=0"],
    )
    assert result.finish_ns == pytest.approx(14 * step_ns, rel=1e-4)
    assert result.finish_ns / 1000 == pytest.approx(165.98, rel=2e-4)
    assert 2 * 7 / 8 * (1 << 20) * 8 / result.finish_ns == pytest.approx(88.45, rel=2e-4)  # Gb/s


# -- Plans in files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [ring_all_reduce(4), ring_all_reduce(4, "get"), all_pairs_all_gather(4), direct_reduce_scatter(4)])
def test_plans_of_files_run(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    result = run(bytes=4096, file=path)
    assert result.finish_ns > 1000
    assert result.to_dict()["busbw_gb_per_s"] > 0


def test_signals_of_channels_are_counted_apart(tmp_path: Path) -> None:
    """Each channel of two GPUs has a counter: the reply to a wait leaves after the signal of its own channel, though others came before."""
    gpus = [GpuPlan(rank, 2, (2, 2), blocks=2) for rank in range(2)]
    for block in range(2):
        gpus[0].add(block, "signal", to=[1])
        gpus[1].add(block, "wait", to=[0])
    path = tmp_path / "plan.json"
    path.write_text(plan("allgather", gpus))
    parts = GpuParts(units=2, channels=1)
    limits = RequestLimits(line_bytes=128, control_bytes=16, loads=1, stores=1, add_ps_per_byte=0)
    channel = PlanRequests(read_plan(str(path)), Requests(parts, limits), 128).written().programs[parts.channel(1, 0)]
    replies = [each for each in channel if isinstance(each, Send)]
    assert [reply.to.value for reply in replies] == [parts.unit(1, 0), parts.unit(1, 1)]
    for block, reply in enumerate(replies):
        asked, signalled = (channel[number] for number in reply.after)
        assert isinstance(asked, Receive)
        assert isinstance(signalled, Receive)
        assert (asked.source.value, signalled.source.value) == (parts.unit(1, block), parts.unit(0, block))


def test_barriers_hold_all_thread_blocks(tmp_path: Path) -> None:
    gpus = [GpuPlan(rank, 2, (1, 2), blocks=2) for rank in range(2)]
    for rank, gpu in enumerate(gpus):
        other = 1 - rank
        gpu.add(0, "put", [("o", rank, 1)], [(other, "o", rank, 1)], to=[other])
        gpu.add(0, "signal", to=[other])
        gpu.add(0, "wait", to=[other])
        for block in range(2):
            gpu.add(block, "barrier", barrier_id=0)
    path = tmp_path / "plan.json"
    path.write_text(plan("allgather", gpus))
    platform = "plugin:gpu_mesh?gpus=2&columns=2&rows=1&router_compute_units=1&channels=2&ports=2"
    result = run(platform, bytes=4096, file=path)
    assert result.npu_finish_ns[0] == pytest.approx(result.npu_finish_ns[1], abs=50)  # the compute units of GPU 0


# -- Errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "platform", "message"),
    [
        ({"bytes": 100}, SMALL, r"bytes is 100; expected a multiple of 16, the chunks of put of all pairs"),
        ({"bytes": 160, "workgroups": 10}, SMALL, r"has 10 thread blocks, and a GPU of the platform 8 compute units"),
        (
            {"bytes": 64},
            "plugin:switch?size=4&links=1&link_bandwidth_gb_per_s=1&link_latency_ns=1",
            "are whole devices; expected --platform plugin:gpu_mesh, or compute_units and channels",
        ),
        ({"bytes": 64, "compute_units": 5}, SMALL, "compute_units is 5, and a GPU of this platform has 8; expected to leave it out"),
        ({"bytes": 64, "compute_units": 2, "channels": 1}, SWITCH, "4 NPUs are no whole number of GPUs with 2 compute units and 1"),
        ({"bytes": 64, "file": "plan.json", "transfer": "get"}, SMALL, "file has the plan, and transfer is 'get'; expected one of the two"),
        ({"bytes": 1 << 30}, SMALL, r"33554432 loads and stores; expected at most 1000000: fewer bytes, or a larger line_bytes"),
        ({"bytes": 64, "collective": "all_reduce"}, SMALL, "collective is 'all_reduce'; known: all_gather, reduce_scatter"),
    ],
)
def test_options_that_do_not_fit_are_named(options: dict[str, Any], platform: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(platform, **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (lambda: packet_all_reduce(4), r"ops\[0\]: ppkt reads data by their flags; expected operations that signal and wait"),
        (lambda: ring_all_reduce(2), r"plan\.json is for 2 GPUs, and the platform has 4; expected as many"),
        (lambda: all_pairs_all_gather(4).replace('"signal"', '"nop"'), "waits for gpu"),
    ],
)
def test_plans_that_do_not_fit_are_named(tmp_path: Path, text: Callable[[], str], message: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text())
    with pytest.raises(InputError, match=message):
        run(bytes=4096, file=path)
