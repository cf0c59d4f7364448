"""Algorithms of single nodes of a trace, as `per-node-custom-implementation` of ASTRA-sim 2.x has them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError, InputWarning
from astra_sim_chakra import Node, NodeType, write_nodes

SIZE = 131072
RING = "plugin:ring?both_ways=true&size=4&links=2&link_bandwidth_gib_per_s=25&link_latency_ns=500"
TORUS = "plugin:torus?both_ways=true&sizes=2,2&link_bandwidth_gib_per_s=25&link_latency_ns=500"
SYSTEM: dict[str, Any] = {
    "endpoint-delay": 10,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["direct"],
}
ENGINES = [{"engine": "python"}, {"engine": "compiled"}, {"symmetry": False}]


def write_ring(folder: Path, ranks: int) -> str:
    """The traces of an all-gather in a ring; returns their prefix."""
    for rank in range(ranks):
        nodes: list[Node] = []
        for step in range(ranks - 1):
            before = (2 * step - 1,) if step else ()
            to, source = (rank + 1) % ranks, (rank - 1) % ranks
            nodes.append(Node(id=2 * step, type=NodeType.COMM_SEND_NODE, comm_dst=to, comm_size=SIZE, data=before))
            nodes.append(Node(id=2 * step + 1, type=NodeType.COMM_RECV_NODE, comm_src=source, comm_size=SIZE, data=(2 * step,)))
        write_nodes(folder / f"ring{ranks}.{rank}.et", nodes)
    return str(folder / f"ring{ranks}")


def write_workload(folder: Path, ids: Sequence[int], groups: Sequence[str | None] = (None,) * 4) -> str:
    """All-reduces one after another, by their ids, in the group of each rank."""
    for rank, group in enumerate(groups):
        nodes = [
            Node(id=id_, type=NodeType.COMM_COLL_NODE, comm_type=0, comm_size=1 << 20, pg_name=group, data=tuple(ids[:place]))
            for place, id_ in enumerate(ids)
        ]
        write_nodes(folder / f"w.{rank}.et", nodes)
    return str(folder / "w")


def simulate(folder: Path, platform: str = RING, nodes: str = "", system: dict[str, Any] | None = None, **more: Any) -> astra_sim.Result:
    """Run the workload in a folder with a system file that names algorithms of single nodes."""
    keys = dict(SYSTEM if system is None else system)
    if nodes:
        (folder / "nodes.yml").write_text(nodes)
        keys["per-node-custom-implementation"] = str(folder / "nodes.yml")
    (folder / "s.json").write_text(json.dumps(keys))
    return astra_sim.simulate(workload=str(folder / "w"), system=folder / "s.json", platform=platform, **more)


def message_ns(hops: int = 1) -> int:
    """How long a message of the trace takes over both links of a ring; there is no endpoint delay."""
    return int(500 * hops) + int(SIZE / (2 * 25 * 2**30 / 1e9))


@pytest.mark.parametrize("choice", ENGINES)
def test_the_algorithm_of_a_node_goes_before_all_others(tmp_path: Path, choice: dict[str, Any]) -> None:
    prefix = write_ring(tmp_path, 4)
    write_workload(tmp_path, [3, 7, 9])
    native = simulate(tmp_path, **choice).finish_ns / 3
    mixed = simulate(tmp_path, nodes=f"7: {prefix}\n", **choice)
    assert mixed.finish_ns == 2 * native + 3 * message_ns()
    everywhere = {**SYSTEM, "all-reduce-implementation-custom": [f"{tmp_path}/no-such"]}
    last = simulate(tmp_path, nodes=f"3: {prefix}\n7: {prefix}\n9: {prefix}\n", system=everywhere, **choice)
    assert last.finish_ns == 9 * message_ns()


@pytest.mark.parametrize("choice", ENGINES)
def test_it_is_that_of_the_whole_platform_and_what_the_file_names_for_all_nodes(tmp_path: Path, choice: dict[str, Any]) -> None:
    """One trace covers all dimensions, whatever `preferred-dataset-splits` says."""
    prefix = write_ring(tmp_path, 4)
    write_workload(tmp_path, [0])
    two = {key: value * 2 if key.endswith("-implementation") else value for key, value in SYSTEM.items()}
    of_node = simulate(tmp_path, TORUS, nodes=f"0: {prefix}", system=two, **choice)
    of_all = simulate(tmp_path, TORUS, system={**two, "all-reduce-implementation-custom": [prefix]}, **choice)
    one_chunk = simulate(tmp_path, TORUS, system={**two, "preferred-dataset-splits": 1}, nodes=f"0: {prefix}", **choice)
    assert of_node.finish_ns == of_all.finish_ns == one_chunk.finish_ns == 3 * message_ns()


@pytest.mark.parametrize("choice", ENGINES)
def test_in_a_group_its_members_run_it(tmp_path: Path, choice: dict[str, Any]) -> None:
    prefix = write_ring(tmp_path, 2)
    write_workload(tmp_path, [4, 5], ["1", "2", "1", "2"])
    groups = {"1": [0, 2], "2": [1, 3]}
    native = simulate(tmp_path, groups=groups, **choice).finish_ns / 2
    mixed = simulate(tmp_path, nodes=f"5: {prefix}", groups=groups, **choice)
    assert mixed.finish_ns == native + message_ns(hops=2)


def test_programs_of_which_one_has_an_algorithm_of_its_own_do_not_share_a_collective(tmp_path: Path) -> None:
    prefix = write_ring(tmp_path, 4)
    for rank in range(4):
        id_ = 1 if rank else 0
        write_nodes(tmp_path / f"w.{rank}.et", [Node(id=id_, type=NodeType.COMM_COLL_NODE, comm_type=0, comm_size=1 << 20)])
    assert simulate(tmp_path).finish_ns > 0
    with pytest.raises(InputError, match=r"NPU 1: .* by chakra.prefix=.* is collective number 1 of its group, but that of NPU 0 is"):
        simulate(tmp_path, nodes=f"1: {prefix}")


def test_ids_that_no_collective_has_are_named(tmp_path: Path) -> None:
    prefix = write_ring(tmp_path, 4)
    write_workload(tmp_path, [3])
    with pytest.warns(InputWarning, match=r"s\.json: the algorithms of single nodes have no effect: no collective .* has the id 8, 12"):
        simulate(tmp_path, nodes=f"8: {prefix}\n12: {prefix}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nodes.yml: not a YAML mapping; expected the ids of nodes"),
        ("- 3\n", "nodes.yml: not a YAML mapping"),
        ("3: a\n[4]: b\n", "nodes.yml:2: .* is not the id of a node"),
        ("conv: a\n", "nodes.yml:1: 'conv' is not the id of a node"),
        ("-3: a\n", "nodes.yml:1: '-3' is not the id of a node"),
        ("3: [a]\n", "nodes.yml:1: node 3 has no path prefix"),
        ("3:\n", "nodes.yml:1: node 3 has no path prefix"),
        ("3: a\n03: b\n", "nodes.yml:2: node 3 is given twice"),
        ("3: 'a\n", "nodes.yml:2: not YAML"),
        ("3: a\x07\n", "nodes.yml: not YAML"),
        ("a: &x [*x, *x]\n", "nodes.yml:1: 'a' is not the id"),
    ],
)
def test_a_wrong_file_is_named_with_the_line(tmp_path: Path, text: str, words: str) -> None:
    write_workload(tmp_path, [3])
    (tmp_path / "nodes.yml").write_text(text)
    with pytest.raises(InputError, match=words):
        simulate(tmp_path, system={**SYSTEM, "per-node-custom-implementation": str(tmp_path / "nodes.yml")})


def test_the_option_takes_ids_and_algorithms(tmp_path: Path) -> None:
    prefix = write_ring(tmp_path, 4)
    write_workload(tmp_path, [3])
    choice: dict[str, Any] = {"workload": str(tmp_path / "w"), "platform": RING}
    system = {"plugin": "astra2", "splits": 4, "all_reduce": "ring"}
    by_option = astra_sim.simulate(system=system, set=[f"system.node_algorithms.3=chakra?prefix={prefix}"], **choice)
    assert by_option.finish_ns == simulate(tmp_path, nodes=f"3: {prefix}").finish_ns
    for key, value, words in (("x", "ring", "'x' is not the id of a node"), ("3", "rong", "node_algorithms.*rong")):
        with pytest.raises(InputError, match=words):
            astra_sim.simulate(system={**system, "node_algorithms": {key: value}}, **choice)
