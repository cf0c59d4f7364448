"""Runs of the workload `llm` as Chakra traces: read back, they end at the same time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.toml_text import to_toml
from astra_sim_chakra import NodeType, load_ranks
from astra_sim_chakra.convert import convert

from llm.runs import EXPERTS, MODEL, ROOFLINE, platform

RINGS = {"all_reduce": "ring", "all_gather": "ring", "reduce_scatter": "ring", "all_to_all": "ring"}
SYSTEM = {"plugin": "astra2", "one_at_a_time": False, **RINGS}
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "stages": ((4,), {"pipeline_parallel": 4}),
    "stages with chunks": ((2,), {"pipeline_parallel": 2, "virtual_stages": 2}),
    "stages without bubbles": ((2,), {"pipeline_parallel": 2, "schedule": "zb-v"}),
    "both ends": ((2,), {"pipeline_parallel": 2, "schedule": "dualpipe"}),
    "replicas": ((4,), {"zero": 1}),
    "tensors": ((4,), {"tensor_parallel": 4}),
    "all, each on a dimension": ((2, 2, 2), {"tensor_parallel": 2, "pipeline_parallel": 2}),
    "all on one dimension": ((8,), {"tensor_parallel": 2, "pipeline_parallel": 2}),
    "sharded weights beside compute": ((4,), {"zero": 3, "overlap": {"dp": True}}),
    "experts": ((4,), {"model": EXPERTS, "expert_parallel": 2}),
    "tokens": ((4,), {"mode": "decode", "decode_tokens": 3, "pipeline_parallel": 2, "tensor_parallel": 2}),
    "two iterations": ((4,), {"pipeline_parallel": 2, "model": MODEL | {"tied": True}}),
    "passes": ((2, 2, 2), {"tensor_parallel": 2, "pipeline_parallel": 2, "detail": "pass"}),
}


def converted(folder: Path, sizes: tuple[int, ...], options: dict[str, Any], passes: int) -> tuple[dict[str, Any], Path]:
    """An experiment, and the prefix of the traces that `astra convert` writes of it."""
    workload = {"plugin": "llm", "model": MODEL, "global_batch": 8, "check_memory": False} | options
    experiment = {"platform": platform(*sizes), "system": SYSTEM, "compute": ROOFLINE, "workload": workload, "passes": passes}
    source = folder / "e.toml"
    source.write_text(to_toml({key: value for key, value in experiment.items() if key != "passes"}))
    assert convert.main([str(source), str(folder / "t.et"), "--passes", str(passes)], standalone_mode=False) is None
    return experiment, folder / "t"


@pytest.mark.parametrize("symmetry", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_traces_end_when_the_run_ends(case: str, symmetry: bool, tmp_path: Path) -> None:
    sizes, options = CASES[case]
    experiment, prefix = converted(tmp_path, sizes, options, 2 if case == "two iterations" else 1)
    groups = tmp_path / "t.groups.json"
    traces: dict[str, Any] = {
        "workload": {"plugin": "chakra", "prefix": str(prefix)},
        "passes": 1,
        "groups": groups if groups.exists() else None,
    }
    direct = astra_sim.simulate(**experiment, symmetry=symmetry)
    traces["compute"] = "plugin:recorded"  # the times in the traces
    read_back = astra_sim.simulate(**experiment | traces, symmetry=symmetry)
    assert (read_back.finish_ns, read_back.compute_ns) == (direct.finish_ns, direct.compute_ns)
    # Tiny collectives are rounded up to the ranks of their group.
    assert read_back.network["payload_bytes"] == pytest.approx(direct.network["payload_bytes"], abs=16)


def test_ranks_have_their_own_peers_and_groups(tmp_path: Path) -> None:
    _, prefix = converted(tmp_path, (8,), {"tensor_parallel": 2, "pipeline_parallel": 2}, 1)
    ranks = load_ranks(str(prefix))
    assert ranks.ranks == 8
    assert len(ranks.programs) == 2  # one for each stage
    first, last = ranks.trace(1), ranks.trace(5)
    sends = [row for row in range(len(first)) if first.type[row] == NodeType.COMM_SEND_NODE]
    receives = [row for row in range(len(last)) if last.type[row] == NodeType.COMM_RECV_NODE]
    assert {first.comm.dst[row] for row in sends} == {5}
    assert {last.comm.src[row] for row in receives} == {1}
    known = json.loads((tmp_path / "t.groups.json").read_text())
    assert {name for trace in (first, last) for name in trace.comm.groups} <= set(known)
    assert known[first.comm.groups[0]] == [0, 1]
