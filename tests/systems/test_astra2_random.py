"""Random experiments of ASTRA-sim 2.x, run by a build of it: every NPU finishes in the same nanosecond.

`astra2_random.jsonl` holds its files, its options, the traces and when each NPU finished there. The traces have computing, collectives on
all NPUs, on some dimensions and in groups, messages, and remote memory; NPUs come to collectives at different times.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim_chakra import Node, NodeType, write_nodes

pytestmark = pytest.mark.filterwarnings("ignore::astra_sim.InputWarning")

CASES = [json.loads(line) for line in (Path(__file__).parent / "astra2_random.jsonl").read_text().splitlines()]
OPTIONS = {"num-queues-per-dim": "queues_per_dim", "rendezvous-protocol": "rendezvous", "injection-scale": "injection_scale"}


def node(fields: dict[str, Any]) -> Node:
    """A node of a trace."""
    lists: dict[str, Any] = {name: tuple(fields[name]) for name in ("data", "control", "involved_dim") if name in fields}
    values: dict[str, Any] = {**fields, **lists}
    return Node(**{**values, "type": NodeType[fields["type"]]})


def simulate(case: dict[str, Any], folder: Path, assignments: Sequence[str] = (), **more: Any) -> astra_sim.Result:
    """Run a case from its files."""
    (folder / "n.yml").write_text(case["network"])
    for name in ("system", "memory", "groups"):
        (folder / f"{name}.json").write_text(json.dumps(case.get(name)))
    npus = len(case["finish_ns"])
    for rank, nodes in enumerate(case.get("ranks") or [case["nodes"]] * npus):
        write_nodes(folder / f"t.{rank}.et", map(node, nodes))
    options = {OPTIONS[name]: json.loads(value) for name, value in (text.removeprefix("--").split("=") for text in case["options"])}
    if "groups" in case:
        options["groups"] = folder / "groups.json"
    return astra_sim.simulate(
        workload=folder / "t",
        system=folder / "system.json",
        network=folder / "n.yml",
        memory=folder / "memory.json",
        set=[f"network.congestion={case['congestion']}", *assignments],
        **options,
        **more,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_every_npu_finishes_when_it_does_there(case: dict[str, Any], tmp_path: Path) -> None:
    assert simulate(case, tmp_path).npu_finish_ns == case["finish_ns"]


@pytest.mark.parametrize("case", CASES[::4], ids=lambda case: case["id"])
def test_on_the_python_engine_and_without_symmetry(case: dict[str, Any], tmp_path: Path) -> None:
    assert simulate(case, tmp_path, engine="python").npu_finish_ns == case["finish_ns"]
    assert simulate(case, tmp_path, symmetry=False).npu_finish_ns == case["finish_ns"]


def test_an_algorithm_of_the_whole_platform_needs_the_first_dimension(tmp_path: Path) -> None:
    """With it ASTRA-sim 2.x runs over the whole platform; without it, it never finishes."""
    case = next(case for case in CASES if "," in case["network"] and "nodes" in case)
    keys = [key for key in case["system"] if key.endswith("-implementation")]
    nodes = [{"id": 0, "type": "COMM_COLL_NODE", "comm_type": 0, "comm_size": 4096, "involved_dim": [True, False]}]
    changed = {**case, "nodes": nodes, "system": {**case["system"], **{key: ["oneRing"] for key in keys}}}
    assert simulate(changed, tmp_path).finish_ns > 0
    nodes[0]["involved_dim"] = [False, True]
    with pytest.raises(astra_sim.InputError, match=r"one_ring runs over the whole platform, and only dimensions \[1\] are"):
        simulate(changed, tmp_path)


def test_an_algorithm_for_groups_can_be_chosen(tmp_path: Path) -> None:
    """On several dimensions groups run rings, unless the system says otherwise."""
    case = next(case for case in CASES if "groups" in case and "," in case["network"] and case["congestion"] == "unaware")
    finished = [
        simulate(case, tmp_path, assignments=[f"system.group_algorithm={choice}"]).npu_finish_ns for choice in ("auto", "ring", "direct")
    ]
    assert finished[0] == finished[1] == case["finish_ns"]
    assert finished[1] != finished[2]
