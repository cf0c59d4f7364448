"""Local and remote memory."""

from __future__ import annotations

import json
from pathlib import Path

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.options import structure
from astra_sim_devkit.testing.contracts import MemoryContract
from astra_sim_memory.astra2_file import read, recognises
from astra_sim_memory.local import LocalMemory, LocalOptions
from astra_sim_memory.remote import RemoteMemory, RemoteOptions


class TestLocal(MemoryContract):
    name = "local"


class TestRemote(MemoryContract):
    name = "remote"
    options = {"arrangement": "pool", "bandwidth_gb_per_s": 50, "latency_ns": 100}  # noqa: RUF012


def remote(**options: object) -> RemoteMemory:
    return RemoteMemory(structure(RemoteOptions, options, "remote"))


def test_local_memory_takes_latency_and_bytes_by_bandwidth() -> None:
    memory = LocalMemory(LocalOptions(bandwidth_bytes_per_ns=3, latency_ns=0.5))
    assert memory.access_ps(10, False) == 3000
    exact = LocalMemory(LocalOptions(bandwidth_bytes_per_ns=3, latency_ns=0.5, rounding="picosecond"))
    assert exact.access_ps(10, False) == 3833
    assert exact.remote_port(5) is None
    with pytest.raises(InputError, match="10 bytes are read from remote memory, which memory LocalMemory does not have"):
        exact.remote_access_ps(10, False)


def test_what_does_not_fit_is_an_error() -> None:
    memory = LocalMemory(LocalOptions(capacity_gib=2))
    memory.require(2 << 30, "the model")
    with pytest.raises(InputError, match=r"the model needs 3\.000 GiB of memory; an NPU has 2\.000 GiB"):
        memory.require(3 << 30, "the model")
    LocalMemory(LocalOptions()).require(1 << 60, "the model")


def test_remote_memory_of_each_npu_is_its_own() -> None:
    # ASTRA-sim 2.x: 100 ns, 50 bytes/ns: 1 000 000 bytes take 20 100 ns.
    memory = remote(arrangement="per_npu", bandwidth_gb_per_s=50, latency_ns=100)
    assert memory.remote_access_ps(1_000_000, False) == 20_100_000
    assert memory.remote_access_ps(99, True) == 101_000
    assert memory.remote_port(3) is None


def test_npus_that_share_a_memory_use_it_one_after_another() -> None:
    node = remote(arrangement="per_node", npus_per_node=4, bandwidth_gb_per_s=50, latency_ns=100)
    assert [node.remote_port(npu) for npu in range(9)] == [0, 0, 0, 0, 1, 1, 1, 1, 2]
    assert {remote(arrangement="pool", bandwidth_gb_per_s=50).remote_port(npu) for npu in range(9)} == {0}


def test_received_data_is_reduced_in_local_memory() -> None:
    memory = remote(arrangement="pool", bandwidth_gb_per_s=1, latency_ns=100, local_bandwidth_bytes_per_ns=10, local_latency_ns=1)
    assert memory.reduce_ps(100) == 3 * 11_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arrangement": "per_nod"}, "arrangement is 'per_nod'; did you mean 'per_node'"),
        ({"arrangement": "pool"}, "bandwidth_gb_per_s is missing; the arrangement pool needs it"),
        ({"arrangement": "per_node", "bandwidth_gb_per_s": 1}, "npus_per_node is missing"),
        ({"bandwidth_gb_per_s": 0}, "bandwidth_gb_per_s is 0; expected more than 0"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        remote(**options)


def test_reading_memory_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InputError, match="10 bytes are written to remote memory, but the arrangement is none"):
        remote(arrangement="none").remote_access_ps(10, True)


def test_the_memory_file_of_astra_sim_2_is_read(tmp_path: Path) -> None:
    keys = {"remote-mem-latency": 100, "remote-mem-bw": 50, "num-nodes": 2, "num-npus-per-node": 4}
    text = json.dumps({"memory-type": "PER_NODE_MEMORY_EXPANSION", **keys})
    assert recognises(text)
    section = {"plugin": "remote", "arrangement": "per_node", "latency_ns": 100, "bandwidth_gb_per_s": 50, "npus_per_node": 4, "nodes": 2}
    assert read(text, "m.json") == {"memory": section}
    path = tmp_path / "m.json"
    path.write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    ring = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=50"
    result = astra_sim.simulate(workload="plugin:collective?bytes=1048576", platform=ring, memory=str(path))
    assert result.finish_ns == astra_sim.simulate(workload="plugin:collective?bytes=1048576", platform=ring).finish_ns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"memory-type": "MEMORY_POL"}', "m.json: memory-type is 'MEMORY_POL'; did you mean 'MEMORY_POOL'"),
        ('{"memory-type": "MEMORY_POOL", "remote-mem-bandwidth": 1}', "m.json: unknown key 'remote-mem-bandwidth'"),
        ('{"memory-type": "MEMORY_POOL", "remote-mem-bw": "fast"}', "m.json: remote-mem-bw is 'fast'; expected a number"),
        ('{"memory-type": "MEMORY_POOL",\n}', "m.json:2: not JSON"),
    ],
)
def test_wrong_memory_files_are_errors(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text, "m.json")


def test_other_files_are_not_taken_for_memory() -> None:
    assert not recognises('{"dimensions-count": 1}')
    assert not recognises("memory-type")


RING = "plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=50"


def _layer(**forward: object) -> dict[str, object]:
    return {
        "plugin": "layers",
        "loop": "data",
        "layers": [{"name": "only", **{name: {"compute_ns": 0} for name in ("input_gradient", "weight_gradient")}, "forward": forward}],
    }


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize(
    ("memory", "turns"), [("per_npu", 1), ("per_node&npus_per_node=4", 4), ("pool", 8), ("per_node&npus_per_node=3", 3)]
)
def test_npus_wait_for_their_turn_at_a_shared_memory(memory: str, turns: int, engine: str) -> None:
    """NPU 0 goes first in the forward pass; all wait in the collective for the last one of the slowest node."""
    workload = _layer(compute_ns=0, remote_read_bytes=1_000_000)
    workload["layers"][0]["weight_gradient"] = {"compute_ns": 0, "collective": "all_reduce", "collective_bytes": 8}  # type: ignore[index]
    spec = f"plugin:remote?bandwidth_gb_per_s=50&latency_ns=100&arrangement={memory}"
    alone = astra_sim.simulate(workload=_layer(compute_ns=0), platform=RING, engine=engine)
    collective = {**workload, "layers": [{**workload["layers"][0], "forward": {"compute_ns": 0}}]}  # type: ignore[index]
    without = astra_sim.simulate(workload=collective, platform=RING, engine=engine)
    result = astra_sim.simulate(workload=workload, platform=RING, memory=spec, engine=engine)
    assert alone.finish_ns < without.finish_ns
    assert result.finish_ns - without.finish_ns == turns * 20_100
    assert result.simulated_npus == (1 if turns == 1 else 8)


def test_a_write_to_remote_memory_takes_its_time_after_computing() -> None:
    spec = "plugin:remote?bandwidth_gb_per_s=50&latency_ns=100"
    without, with_write = (
        astra_sim.simulate(workload=_layer(compute_ns=10, remote_write_bytes=size), platform=RING, memory=spec) for size in (0, 5000)
    )
    assert with_write.finish_ns - without.finish_ns == 200


def test_remote_memory_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match=r"10 bytes are read from remote memory, which memory LocalMemory does not have"):
        astra_sim.simulate(workload=_layer(compute_ns=0, remote_read_bytes=10), platform=RING)


def test_a_workload_that_does_not_fit_is_an_error() -> None:
    workload = {**_layer(compute_ns=0), "footprint_bytes": 3 << 30}
    astra_sim.simulate(workload=workload, platform=RING, memory="plugin:local?capacity_gib=3")
    with pytest.raises(InputError, match=r"workload needs 3\.000 GiB of memory; an NPU has 2\.000 GiB"):
        astra_sim.simulate(workload=workload, platform=RING, memory="plugin:local?capacity_gib=2")
