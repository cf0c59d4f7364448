"""ASTRA-sim 2.x with both of its analytical networks: when NPUs finish, to the nanosecond, from its own files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import astra_sim
import pytest
from support.astra2 import explained, figures, simulate
from support.references import cases_or_skip

LARGEST = 64 << 20


# Some system files have keys that mean nothing.
pytestmark = pytest.mark.filterwarnings("ignore::astra_sim.InputWarning")


@pytest.fixture(scope="module", name="cases")
def cases_fixture() -> list[dict[str, Any]]:
    """Collectives and traces; 1.0 workloads there went through a converter of another program."""
    return [case for case in cases_or_skip("astra2.jsonl") if case["workload"]["kind"] != "text" and "undefined_behaviour" not in case]


def is_small(case: dict[str, Any]) -> bool:
    return case["workload"].get("bytes", 0) <= LARGEST and "oneDirect" not in case["id"]


def test_npus_finish_when_they_do_there_except_where_the_documentation_explains(cases: list[dict[str, Any]], tmp_path: Path) -> None:
    wrong = {}
    for case in cases:
        if case["status"] == "ok":
            try:
                result: Any = figures(simulate(case, tmp_path), case["finish_cycles_per_sys"])
            except astra_sim.AstraError as error:
                result = str(error)
            if result != case["finish_cycles_per_sys"]:
                wrong[case["id"]] = result
    unexplained = {name: result for name, result in wrong.items() if name not in explained()}
    assert not unexplained
    present = {case["id"] for case in cases if case["status"] == "ok"}
    assert explained() & present <= wrong.keys(), "docs/differences.md lists cases that do not differ"


ANSWERED = {
    "ua_graph_coll_on_cpu",
    "ua_graph_group_dbt",
    "ua_graph_metadata_node",
    "ua_graph_p2p_zero_size",
    "ca_graph_p2p_zero_size",
    "ua_custom_ring_ar_Ring8_s4",
}
"""Cases with which ASTRA-sim stops, and which have a result. So do those with an endpoint delay of 0."""

SAYS = {
    "recv_no_send": ["NPU 1", "receive of 4096 bytes", "waits for a message of NPU 0", "tag 0"],
    "size_mismatch": ["NPU 1", "waits for a message of NPU 0"],
    "tag_mismatch": ["NPU 1", "waits for a message of NPU 0"],
    "all_cycle": ["circle", "node 0 'n0'", "node 1 'n1'"],
    "empty": ["has no nodes"],
    "group_undefined": ["node 0", "no group '9'", "known: 1, 2"],
    "invalid": ["INVALID_NODE"],
    "involved_none": ["involved_dim", "at least one"],
    "mem_none": ["remote memory", "none"],
    "no_impl_key": ["implementation is missing"],
    "no_splits_key": ["preferred-dataset-splits is missing"],
    "reduce": ["comm_type is 1 (REDUCE)", "ALL_REDUCE"],
    "missing_ops": ["node 0", "operations"],
    "zero_tensor": ["node 0", "0 bytes"],
    "halvingDoubling": ["halving_doubling cannot do", "ranks"],
    "ag_0B": ["0 bytes cannot be cut into", "chunks"],
    "ag_1B": ["1 bytes cannot be cut into 4 chunks"],
    "hd_a2a": ["halving_doubling cannot do all_to_all"],
    "doubleBinaryTree": ["double_binary_tree cannot do", "ranks"],
}


def test_what_does_not_finish_there_has_an_answer_or_an_error_that_says_why(cases: list[dict[str, Any]], tmp_path: Path) -> None:
    failing = [case for case in cases if case["status"] != "ok"]
    for case in failing:
        name = case["id"]
        if name in ANSWERED or name.endswith("_ep0"):
            assert simulate(case, tmp_path).finish_ns > 0, name
            continue
        with pytest.raises(astra_sim.AstraError) as caught:
            simulate(case, tmp_path)
        assert caught.value.exit_status in (1, 2)
        result = [words for part, words in SAYS.items() if part in name.partition("_graph_")[2] or (part in name and "_graph_" not in name)]
        assert len(result) == 1, (name, str(caught.value))
        (words,) = result
        for word in words:
            assert word in str(caught.value), (name, word)
    assert failing


def test_neither_symmetry_nor_the_engine_changes_when_npus_finish(cases: list[dict[str, Any]], tmp_path: Path) -> None:
    chosen = [case for case in cases if case["status"] == "ok" and case["id"] not in explained() and is_small(case)]
    for case in chosen[::25]:
        finished = [
            simulate(case, tmp_path, **choice).npu_finish_ns
            for choice in ({"engine": "python"}, {"engine": "compiled"}, {"symmetry": False})
        ]
        assert finished[0] == finished[1] == finished[2], case["id"]
