"""Captured steps as workloads: closed forms of what is communicated, streams and waits, ranks that were not recorded, wrong files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.errors import InputError
from astra_sim_torch.capture_file import load_captures
from support import ROOT, figures

EXAMPLES = ROOT / "examples" / "pytorch"
COMPUTE = "plugin:roofline?peak_tera_ops_per_s=1&memory_bandwidth_gb_per_s=1"
LAYERS, WIDTH, VOCABULARY, TOKENS, WORLD, FP32 = 2, 256, 1000, 2 * 128, 8, 4
BLOCK = 12 * WIDTH**2 + 13 * WIDTH
"""Parameters of a block: four products with their biases, and two norms."""
EMBEDDINGS = 2 * VOCABULARY * WIDTH
PARAMETERS = LAYERS * BLOCK + EMBEDDINGS
SPLIT = 8 * WIDTH**2 + 4 * WIDTH
"""Parameters of a block that tensor parallelism splits: the products of its perceptron, and the bias of the first."""


def platform(npus: int) -> str:
    """A switch with links of 1 GB/s, one byte a nanosecond."""
    return f"plugin:switch?size={npus}&link_bandwidth_gb_per_s=1&link_latency_ns=0"


def communicated(name: str) -> dict[str, int]:
    """What a rank of an example communicates, by kind."""
    result = astra_sim.simulate(workload=f"plugin:torch_capture?path={EXAMPLES / name}", platform=platform(WORLD), compute=COMPUTE)
    return dict(result.figures["collective_input_bytes"])


def test_data_parallelism_reduces_each_gradient_once() -> None:
    assert communicated("gpt_ddp") == {"all_reduce": PARAMETERS * FP32}


@pytest.mark.parametrize("name", ["gpt_fsdp", "gpt_fsdp1"])
def test_sharded_data_parallelism_gathers_blocks_twice_and_scatters_gradients_once(name: str) -> None:
    gathered = (PARAMETERS + LAYERS * BLOCK) // WORLD
    assert communicated(name) == {"all_gather": gathered * FP32, "reduce_scatter": PARAMETERS * FP32}


def test_tensor_parallelism_reduces_activations_once_in_each_direction() -> None:
    ranks = WORLD // 2
    block = BLOCK - SPLIT // 2
    assert communicated("gpt_fsdp_tp") == {
        "all_reduce": 2 * LAYERS * TOKENS * WIDTH * FP32,
        "all_gather": (2 * LAYERS * block + EMBEDDINGS) // ranks * FP32,
        "reduce_scatter": (LAYERS * block + EMBEDDINGS) * FP32,
    }


@pytest.mark.parametrize("name", ["gpt_ddp", "gpt_fsdp", "gpt_fsdp1"])
def test_operations_are_those_of_the_formula(name: str) -> None:
    (capture,) = load_captures(str(EXAMPLES / name))
    products = sum(event["flops"] for event in capture.events if "gemm" in event)
    assert products == 3 * 2 * TOKENS * (LAYERS * 12 * WIDTH**2 + VOCABULARY * WIDTH)
    attention = [event["flops"] for event in capture.events if "attention" in event]
    scores = 2 * 128 * 128 * WIDTH * 2  # of two sequences: queries times keys
    assert attention == [2 * scores] * LAYERS + [5 * scores] * LAYERS  # torch counts the whole square, and recomputation


@pytest.mark.parametrize("name", ["gpt_ddp", "gpt_fsdp", "gpt_fsdp_tp"])
def test_neither_the_engine_nor_symmetry_changes_a_figure(name: str) -> None:
    result: dict[str, Any] = {"workload": f"plugin:torch_capture?path={EXAMPLES / name}", "platform": platform(WORLD), "compute": COMPUTE}
    first = figures(astra_sim.simulate(**result))
    assert figures(astra_sim.simulate(**result, engine="python")) == first
    whole = figures(astra_sim.simulate(**result, symmetry=False))
    assert {key: whole[key] for key in ("finish_ns", "compute_ns")} == {key: first[key] for key in ("finish_ns", "compute_ns")}


# -- Streams, by hand: a kernel of n bytes takes n ns, an all-gather of n bytes of each of 2 ranks as long


def kernel(size: int, stream: int = 0, **more: Any) -> dict[str, Any]:
    return {"kind": "kernel", "stream": stream, "op": "add", "flops": 0, "read": size, "write": 0, **more}


def gather(size: int, work: int, stream: int = 0, group: str = "0") -> dict[str, Any]:
    return {"kind": "collective", "stream": stream, "op": "all_gather", "bytes": size, "group": group, "work": work}


def on(stream: int, kind: str, number: int) -> dict[str, Any]:
    return {"kind": kind, "stream": stream, ("work" if kind == "wait" else "mark"): number}


def written(folder: Path, events: list[dict[str, Any]], rank: int = 0, **head: Any) -> Path:
    """A capture of one rank."""
    path = folder / f"rank_{rank}.jsonl"
    first = {"format": "astra torch capture", "version": 1, "world": 2, "rank": rank, "groups": {"0": [0, 1]}, "made": [], **head}
    path.write_text("".join(json.dumps(line) + "\n" for line in (first, *events)))
    return path


def run(path: Path, npus: int = 2, **options: Any) -> Any:
    result = {"platform": platform(npus), "compute": COMPUTE, "system": "plugin:astra2?all_gather=direct&endpoint_delay_ns=0", **options}
    return astra_sim.simulate(workload=f"plugin:torch_capture?path={path}", **result)


@pytest.mark.parametrize(
    ("events", "finish", "exposed"),
    [
        ([kernel(100), kernel(50)], 150, 0),
        ([gather(100, 1), kernel(30)], 100, 70),
        ([gather(100, 1), on(0, "wait", 1), kernel(30)], 130, 100),
        ([gather(100, 1), kernel(40), on(0, "wait", 1), kernel(30)], 130, 60),
        ([gather(100, 1), gather(100, 2), kernel(30)], 200, 170),  # one after the other: NCCL has a stream for each group
        ([kernel(20), on(0, "mark", 1), on(1, "wait_mark", 1), gather(100, 1, stream=1), kernel(50)], 120, 50),
        ([gather(100, 1, 1), on(1, "wait", 1), on(1, "mark", 5), kernel(30), on(0, "wait_mark", 5), kernel(30)], 130, 70),
        ([kernel(80, stream=1), kernel(30)], 110, 0),
        ([kernel(80, stream=1), on(1, "mark", 1), on(0, "wait_mark", 1), kernel(30)], 110, 0),
        ([on(0, "wait", 9), kernel(30)], 30, 0),  # of a step before
    ],
)
def test_streams_wait_for_what_they_are_told_to(events: list[dict[str, Any]], finish: int, exposed: int, tmp_path: Path) -> None:
    result = run(written(tmp_path, events))
    assert (result.finish_ns, result.exposed_comm_ns) == (finish, exposed)


def test_a_second_step_begins_when_the_first_has_ended(tmp_path: Path) -> None:
    assert run(written(tmp_path, [gather(100, 1), kernel(30)]), passes=3).finish_ns == 300


# -- Ranks that were not recorded


def test_groups_of_other_ranks_are_those_that_the_script_made(tmp_path: Path) -> None:
    groups = {"0": [0, 1, 2, 3], "1": [0, 2]}
    events = [gather(100, 1, group="1")]
    path = written(tmp_path, events, world=4, groups=groups, made=[[0, 2], [1, 3]])
    assert run(path, 4).finish_ns == 100
    written(tmp_path, events, world=4, groups=groups, made=[[0, 2]])
    with pytest.raises(InputError, match=r"group 1 has ranks 0, 2, and the capture represents ranks outside of it"):
        run(path, 4)


def message(kind: str, peer: int, work: int, group: str = "0") -> dict[str, Any]:
    return {"kind": kind, "stream": 0, "bytes": 100, "peer": peer, "tag": 0, "group": group, "work": work}


def test_stages_of_a_pipeline_have_captures_of_their_own(tmp_path: Path) -> None:
    groups = {"stages": [0, 2]}
    written(tmp_path, [kernel(50), message("send", 1, 1, "stages")], world=4, groups=groups)
    with pytest.raises(InputError, match="no capture represents rank 2"):
        run(tmp_path, 4)
    written(tmp_path, [message("receive", 0, 1, "stages"), on(0, "wait", 1), kernel(30)], rank=2, world=4, groups=groups)
    assert run(tmp_path, 4).finish_ns == 50 + 100 + 30


def test_all_ranks_may_differ(tmp_path: Path) -> None:
    written(tmp_path, [kernel(50), message("send", 1, 1)])
    written(tmp_path, [message("receive", 0, 1), on(0, "wait", 1), kernel(30)], rank=1)
    assert run(tmp_path).finish_ns == 180


# -- Wrong files


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, r"line 1: version is 2; expected 1"),
        ({"world": 0}, r"line 1: rank is 0; expected less than world, which is 0"),
        ({"rank": -1}, r"line 1: rank is -1; expected a whole number of at least 0"),
        ({"groups": {"0": [0, 0]}}, r"line 1: group 0 has a rank twice"),
        ({"groups": {"0": [0, 5]}}, r"line 1: group 0 is \[0, 5\]; expected ranks from 0 to 1"),
        ({"groups": None}, r"line 1: groups is None"),
        ({"format": "other"}, r"line 1: expected the head of a capture"),
    ],
)
def test_a_wrong_head_is_an_error(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        run(written(tmp_path, [kernel(1)], **change))


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"kind": "dance"}, r"line 2: kind is 'dance'; expected one of kernel"),
        ({"kind": "kernel", "stream": 0, "flops": 1, "read": -1, "write": 0}, r"line 2: read is -1; expected a whole number"),
        ({"kind": "wait", "stream": 0}, r"line 2: work is None"),
        (kernel(1, gemm=[1, 2]), r"line 2: gemm is \[1, 2\]; expected 4 numbers"),
        (gather(1, 1, group="9"), r"line 2: group is '9'; expected one of the head: 0"),
        ({**gather(1, 1), "op": "sing"}, r"the collective 'sing' is not known"),
        ([], r"line 2: kind is ''"),
    ],
)
def test_a_wrong_event_is_an_error(event: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        run(written(tmp_path, [event]))


def test_other_mistakes_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no capture; expected files rank_N\.jsonl"):
        run(tmp_path)
    path = written(tmp_path, [kernel(1)])
    with pytest.raises(InputError, match="captured for 2 ranks, the platform has 4 NPUs"):
        run(path, 4)
    path.write_text(path.read_text() + "{\n")
    with pytest.raises(InputError, match="line 3: no JSON"):
        run(path)
    written(tmp_path, [kernel(1)], world=3)
    written(tmp_path, [kernel(1)], rank=1)
    with pytest.raises(InputError, match="captures of worlds of 2, 3 ranks"):
        run(tmp_path)


def test_a_file_of_a_capture_is_recognised() -> None:
    path = EXAMPLES / "gpt_fsdp" / "rank_0.jsonl"
    result = astra_sim.simulate(workload=str(path), platform=platform(WORLD), compute=COMPUTE)
    assert result.figures["kernels"] == 91
