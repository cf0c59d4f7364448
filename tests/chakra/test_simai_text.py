"""Text workloads of SimAI: transformers with expert parallelism."""

from __future__ import annotations

import json
from pathlib import Path

import astra_sim
import pytest
from astra_sim_chakra import load_trace
from support.commands import Astra, command

PLAIN = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 checkpoints: 0 checkpoint_initiates: 0"
HEAD = PLAIN.replace("checkpoints", "ep: 2 pp: 1 vpp: 8 ga: 1 all_gpus: 8 checkpoints", 1)
LAYERS = """\
norm -1 10 ALLGATHER 4096 20 REDUCESCATTER 0 30 ALLGATHER 8192 100
moe -1 40 ALLTOALL_EP 6144 50 ALLTOALL_EP 6144 60 REDUCESCATTER_DP_EP 2048 100
last -1 70 ALLREDUCE 1024 80 NONE 0 90 ALLREDUCE_DP_EP 512 100
"""
SWITCH = "plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500"


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Astra:
    monkeypatch.chdir(tmp_path)
    return command(capsys)


def written(head: str = HEAD, layers: str = LAYERS, count: int = 3) -> str:
    Path("w.txt").write_text(f"{head}\n{count}\n{layers}")
    return "w.txt"


def test_groups_and_bytes_are_those_of_simai(astra: Astra) -> None:
    """TP groups are neighbours, EP groups neighbouring TP groups; an all-gather of 4096 bytes over 2 has shards of 2048."""
    assert astra("convert", written(), "t.et", "--platform", SWITCH).status == 0
    groups = json.loads(Path("t.groups.json").read_text())
    result = [
        (node.name.split(",")[0].split()[0], node.comm_size, groups[node.pg_name])
        for node in load_trace("t.3.et").nodes()
        if node.comm_size is not None and node.pg_name is not None
    ]
    tensor, expert, data, expert_data = [2, 3], [1, 3], [1, 3, 5, 7], [3, 7]
    assert [(size, ranks) for _, size, ranks in result] == [
        (2048, tensor),
        (6144, expert),
        (1024, tensor),
        (512, expert_data),
        (6144, expert),
        (2048, expert_data),
        (2048, data),
    ]


def test_it_runs_and_says_what_is_not_simulated(astra: Astra, recwarn: pytest.WarningsRecorder) -> None:
    one = astra_sim.simulate(workload=written(), platform=SWITCH)
    assert not recwarn.list
    with pytest.warns(UserWarning, match=r"w\.txt:1: pp is 4; its layers are those of one pipeline stage"):
        staged = astra_sim.simulate(workload=written(HEAD.replace("pp: 1", "pp: 4") + " pp_comm 4096"), platform=SWITCH)
    assert staged.finish_ns == one.finish_ns


def test_it_comes_back_from_toml(astra: Astra) -> None:
    assert astra("convert", written(), "w.toml").status == 0
    assert astra("convert", "w.toml", "again.txt").status == 0
    head, _, *layers = Path("again.txt").read_text().splitlines()
    assert head == "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 checkpoints: 0 checkpoint_initiates: 0"
    assert [layer.split() for layer in layers] == [layer.replace("REDUCESCATTER 0", "NONE 0").split() for layer in LAYERS.splitlines()]
    runs = [astra_sim.simulate(workload=path, platform=SWITCH).finish_ns for path in ("w.txt", "w.toml", "again.txt")]
    assert len(set(runs)) == 1


@pytest.mark.parametrize(
    ("head", "layers", "says"),
    [
        (HEAD.replace("ep: 2", "ep: two", 1), LAYERS, "w.txt:1: ep is 'two'"),
        (HEAD.replace("ep: 2", "ep: 3"), LAYERS, "groups of 6 NPUs do not divide the platform"),
        (HEAD.replace("ep: 2", "ep: 0"), LAYERS, "expert_parallel_npus is 0"),
        (HEAD, LAYERS.replace("ALLTOALL_EP", "ALLTOALL_PP"), "w.txt:4: the collective of layer moe, forward is 'ALLTOALL_PP'"),
        (PLAIN, LAYERS, "w.txt:4: the collective of layer moe, forward is"),
    ],
)
def test_what_is_wrong_is_named(head: str, layers: str, says: str, astra: Astra) -> None:
    done = astra("run", "--workload", written(head, layers), "--platform", SWITCH)
    assert done.status == 2
    assert says in done.error


def test_other_loops_have_no_such_groups(astra: Astra) -> None:
    Path("w.toml").write_text(
        'loop = "data"\n[[layers]]\nname = "a"\nforward = { compute_ns = 1 }\ninput_gradient = { compute_ns = 1 }\n'
        'weight_gradient = { compute_ns = 1, collective = "all_reduce", collective_bytes = 8, collective_group = "expert" }\n'
    )
    done = astra("run", "--workload", "w.toml", "--platform", SWITCH)
    assert "layer a, weight_gradient: collective_group is 'expert', which this loop does not have" in done.error
    done = astra("convert", "w.toml", "w.txt")
    assert "expert parallelism is in the text of SimAI alone" in done.error
