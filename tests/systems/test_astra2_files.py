"""The system file of ASTRA-sim 2.x, and files of communicator groups."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.graph import Communicate, ExecutionGraph, Pass
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective
from astra_sim.setup.groups import check_groups, members_of, read_groups
from astra_sim_chakra import Node, NodeType, write_nodes
from hypothesis import given, settings
from hypothesis import strategies as st

RING = "plugin:ring?both_ways=true&size=8&links=2&link_bandwidth_gb_per_s=0.5&link_latency_ns=100"
SYSTEM: dict[str, Any] = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 2,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["direct"],
    "reduce-scatter-implementation": ["halvingDoubling"],
    "all-to-all-implementation": ["direct4"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 50,
}


def run(folder: Path, system: Any, **more: Any) -> astra_sim.Result:
    path = folder / "system.json"
    path.write_text(system if isinstance(system, str) else json.dumps(system))
    return astra_sim.simulate(system=path, **{"platform": RING, "workload": "plugin:collective?bytes=8000", **more})


IDLE = [Node(id=0, type=NodeType.COMP_NODE, duration_ns=1)]


def test_a_system_file_is_the_system_astra2(tmp_path: Path) -> None:
    options = "splits=2&all_reduce=ring&all_gather=direct&reduce_scatter=halving_doubling&all_to_all=direct&local_memory_gb_per_s=50"
    assert (
        run(tmp_path, SYSTEM).finish_ns
        == astra_sim.simulate(workload="plugin:collective?bytes=8000", system=f"plugin:astra2?{options}", platform=RING).finish_ns
    )


def test_two_chunks_of_a_ring_all_reduce_by_hand(tmp_path: Path) -> None:
    """E + 2 (n - 1) (L + E) + (n - 1) R for each chunk, one after another: 500 bytes a message, R = 3 * 10 ns."""
    assert run(tmp_path, SYSTEM).finish_ns == 2 * (10 + 14 * (100 + 500 + 10) + 7 * 30)


def test_a_file_that_asks_for_a_roofline_brings_it(tmp_path: Path) -> None:
    layer = {"name": "only", "forward": {"operations": 3e6, "memory_bytes": 1e3}}
    others = {name: {"operations": 0, "memory_bytes": 1} for name in ("input_gradient", "weight_gradient")}
    workload = {"plugin": "layers", "loop": "data", "layers": [{**layer, **others}]}
    result = run(tmp_path, {**SYSTEM, "roofline-enabled": 1, "peak-perf": 3}, workload=workload)
    assert result.layers[0].forward.compute_ns == 1000


def test_an_unknown_key_is_ignored_and_said(tmp_path: Path) -> None:
    with pytest.warns(astra_sim.InputWarning, match=r"system.json: no-such-key is not known, and has no effect"):
        run(tmp_path, {**SYSTEM, "no-such-key": 1})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scheduling-policy": "LIFOO"}, "scheduling-policy is 'LIFOO'; did you mean 'LIFO'"),
        ({"scheduling-policy": ["LIFO"]}, "scheduling-policy is"),
        ({"endpoint-delay": -1}, "endpoint-delay is -1; expected a whole number of at least 0"),
        ({"endpoint-delay": 1.5}, "endpoint-delay is 1.5; expected a whole number"),
        ({"preferred-dataset-splits": 0}, "splits is 0; expected at least 1"),
        ({"preferred-dataset-splits": None}, "preferred-dataset-splits is None"),
        ({"all-reduce-implementation": "ring"}, "all-reduce-implementation is 'ring'; expected a list of names"),
        ({"all-reduce-implementation": ["rong"]}, "rong"),
        ({"all-reduce-implementation": ["ring", "ring"]}, "2 algorithms"),
        ({"local-mem-bw": 0}, "local-mem-bw is 0; expected more than 0"),
        ({"local-mem-bw": True}, "local-mem-bw is True"),
        ({"roofline-enabled": 2}, "roofline-enabled is 2; expected 0 or 1"),
        ({"all-reduce-implementation-custom": []}, "all-reduce-implementation-custom is .*; expected a list of one path prefix"),
    ],
)
def test_wrong_values_are_errors(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run(tmp_path, {**SYSTEM, **change})


def test_a_whole_number_may_have_a_point(tmp_path: Path) -> None:
    floats = {key: float(value) if type(value) is int else value for key, value in SYSTEM.items()}
    assert run(tmp_path, floats).finish_ns == run(tmp_path, SYSTEM).finish_ns


@pytest.mark.parametrize("names", [["oneRing", "oneRing"], ["oneRing", "ring", "direct"]])
def test_what_follows_an_algorithm_of_the_whole_platform_has_no_effect(names: list[str], tmp_path: Path) -> None:
    one, several = (run(tmp_path, {**SYSTEM, "all-reduce-implementation": each}).finish_ns for each in (["oneRing"], names))
    assert one == several


@pytest.mark.parametrize("change", [{"inter": "baseline"}, {"inter": "roundRobin"}, {"intra": "RG"}, {"intra": "FIFO", "inter": "themis"}])
def test_no_release_reads_orders_of_queues_and_dimensions(change: dict[str, str], tmp_path: Path) -> None:
    keys = {f"{name}-dimension-scheduling": value for name, value in change.items()}
    with pytest.warns(astra_sim.InputWarning) as results:
        result = run(tmp_path, {**SYSTEM, **keys})
    for key in keys:
        option = key.replace("-", "_")
        assert any(
            f"{key} has no effect: no release of ASTRA-sim 2.x reads it (--set system.{option}=" in str(each.message) for each in results
        )
    assert result.finish_ns == run(tmp_path, SYSTEM).finish_ns


MISSING = ["all-gather-implementation", "reduce-scatter-implementation", "all-to-all-implementation"]


@pytest.mark.parametrize("key", MISSING)
def test_a_collective_that_the_workload_does_not_have_needs_no_algorithm(key: str, tmp_path: Path) -> None:
    others = {name: value for name, value in SYSTEM.items() if name != key}
    expected = run(tmp_path, SYSTEM).finish_ns
    assert run(tmp_path, others).finish_ns == run(tmp_path, {**SYSTEM, key: []}).finish_ns == expected
    workload = {"plugin": "collective", "bytes": 8000, "collective": key.removesuffix("-implementation").replace("-", "_")}
    for system in (others, {**SYSTEM, key: []}):
        with pytest.raises(InputError, match=f"has 0 algorithms .*{key} is missing"):
            run(tmp_path, system, workload=workload)


def test_too_few_algorithms_are_an_error_where_the_workload_has_the_collective(tmp_path: Path) -> None:
    square = "plugin:torus?sizes=4,2&link_bandwidth_gib_per_s=50"
    two = {key: [*value, "ring"] if isinstance(value, list) else value for key, value in SYSTEM.items()}
    few = {**two, "all-gather-implementation": ["ring"]}
    assert run(tmp_path, few, platform=square).finish_ns == run(tmp_path, two, platform=square).finish_ns
    with pytest.raises(InputError, match=r"all_gather has 1 algorithms \(ring\) for 2 dimensions"):
        run(tmp_path, few, platform=square, workload="plugin:collective?bytes=8000&collective=all_gather")


def test_a_roofline_without_a_peak_is_an_error_where_a_node_computes(tmp_path: Path) -> None:
    system = {**SYSTEM, "roofline-enabled": 1}
    for rank in range(8):
        write_nodes(tmp_path / f"c.{rank}.et", [Node(id=0, type=NodeType.COMM_COLL_NODE, comm_type=0, comm_size=8000)])
        write_nodes(tmp_path / f"t.{rank}.et", [Node(id=0, type=NodeType.COMP_NODE, num_ops=10, tensor_size=10)])
    assert run(tmp_path, system, workload=tmp_path / "c").finish_ns == run(tmp_path, SYSTEM, workload=tmp_path / "c").finish_ns
    with pytest.raises(InputError, match=r"node 0.*peak_tera_ops_per_s \(peak-perf\) is missing"):
        run(tmp_path, system, workload=tmp_path / "t")


def test_groups_that_no_node_names_are_said(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text('{"1": [0, 1]}')
    for rank in range(8):
        named = {"pg_name": "1"} if rank < 2 else {}
        for prefix, more in (("c", {}), ("n", named)):
            fields: dict[str, Any] = {"comm_type": 0, "comm_size": 8000, **more}
            write_nodes(
                tmp_path / f"{prefix}.{rank}.et", [Node(id=0, type=NodeType.COMM_COLL_NODE, **fields)] if more or prefix == "c" else IDLE
            )
    with pytest.warns(astra_sim.InputWarning, match=r"g\.json: has no effect: no operation of the workload names one of these"):
        run(tmp_path, SYSTEM, workload=tmp_path / "c", groups=tmp_path / "g.json")
    assert run(tmp_path, SYSTEM, workload=tmp_path / "n", groups=tmp_path / "g.json").finish_ns > 0


def test_traces_of_more_ranks_than_npus_are_left_out(tmp_path: Path) -> None:
    for rank in range(11):
        write_nodes(tmp_path / f"t.{rank}.et", [Node(id=0, type=NodeType.COMP_NODE, duration_ns=1000 if rank < 8 else 9000)])
    with pytest.warns(astra_sim.InputWarning, match=r"t\.10\.et: there are traces for 11 ranks; only those of ranks 0 to 7 run"):
        assert run(tmp_path, SYSTEM, workload=tmp_path / "t").finish_ns == 1000


@pytest.mark.parametrize("key", ["preferred-dataset-splits", "all-reduce-implementation"])
def test_missing_keys_are_errors(tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError, match=f"{key} is missing"):
        run(tmp_path, {name: value for name, value in SYSTEM.items() if name != key})


def test_a_roofline_may_give_no_time(tmp_path: Path) -> None:
    """A recorded time of 0 is a nanosecond; what a roofline gives stays as it is."""
    for rank in range(8):
        write_nodes(tmp_path / f"t.{rank}.et", [Node(id=0, type=NodeType.COMP_NODE, num_ops=10, tensor_size=10)])
    assert run(tmp_path, SYSTEM, workload=tmp_path / "t").finish_ns == 1
    assert run(tmp_path, {**SYSTEM, "roofline-enabled": 1, "peak-perf": 10}, workload=tmp_path / "t").finish_ns == 0


@pytest.mark.parametrize("text", ['{\n"L": 1,\n"o" 2}', '{\n"splits": 1,\n"endpoint-delay": }'])
def test_the_line_of_broken_json_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"system\.json:3: not JSON"):
        run(tmp_path, text)


@settings(max_examples=150, deadline=None)
@given(place=st.integers(0, 400), what=st.sampled_from(["cut", "flip", "double"]), character=st.characters(codec="utf-8"))
def test_spoilt_files_give_an_answer_or_an_error(tmp_path_factory: pytest.TempPathFactory, place: int, what: str, character: str) -> None:
    text = json.dumps(SYSTEM)
    place %= len(text)
    reason = "it ran"
    changed = {"cut": text[:place], "flip": text[:place] + character + text[place + 1 :], "double": text[:place] + text[place // 2 :]}[what]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", astra_sim.InputWarning)
            assert run(tmp_path_factory.mktemp("spoilt"), changed).finish_ns > 0
    except astra_sim.AstraError as error:
        reason = str(error)
    assert reason


# -- Groups ------------------------------------------------------------------------------------------------------------


def all_reduce(group: tuple[int, ...] | None) -> ExecutionGraph:
    operation = Communicate((), Collective.ALL_REDUCE, 4000, (0,), -1, Pass.FORWARD, group=group)
    return ExecutionGraph((operation,), (LogicalDimension(8, 1, 0),), ())


def test_groups_are_read_from_json_and_toml(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text('{"1": [0, 1], "2": [3, 2]}')
    (tmp_path / "g.toml").write_text("1 = [0, 1]\n2 = [3, 2]\n")
    read = [check_groups(read_groups(tmp_path / name), 4, name) for name in ("g.json", "g.toml")]
    assert read[0] == read[1] == {"1": (0, 1), "2": (3, 2)}
    assert members_of(read[0], "2", "here") == (3, 2)
    assert members_of(read[0], "0", "here") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"1": [0, 9]}', "group '1' has NPU 9; expected 0 to 7"),
        ('{"1": [0, 0]}', "group '1' has NPU 0 twice"),
        ('{"1": []}', "group '1' is .*; expected a list of NPUs"),
        ('{"1": 3}', "group '1' is 3; expected a list of NPUs"),
        ('{"1": ["a"]}', "expected a list of NPUs"),
        ('{"0": [1, 2]}', "group '0' is the group of all NPUs"),
        ("[1]", "expected a JSON object"),
        ('{"1": [0, 1', "g.json:1: not JSON"),
    ],
)
def test_wrong_groups_are_errors(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "g.json").write_text(text)
    with pytest.raises(InputError, match=words):
        astra_sim.simulate(workload="plugin:collective?bytes=8", platform=RING, groups=tmp_path / "g.json")


def test_a_file_of_groups_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InputError, match=r"nowhere\.json"):
        astra_sim.simulate(workload="plugin:collective?bytes=8", platform=RING, groups="nowhere.json")


@pytest.mark.parametrize("system", ["astra1", "astra2"])
def test_a_group_of_all_is_everybody(system: str) -> None:
    whole = astra_sim.simulate(workload=all_reduce(None), platform=RING, system=f"plugin:{system}?splits=1&all_reduce=ring")
    same = astra_sim.simulate(workload=all_reduce(tuple(range(8))), platform=RING, system=f"plugin:{system}?splits=1&all_reduce=ring")
    assert whole.finish_ns == same.finish_ns


def test_an_unknown_group_is_named() -> None:
    with pytest.raises(InputError, match=r"here: there is no group '7'; no groups are given \(--groups FILE\)"):
        members_of({}, "7", "here")
