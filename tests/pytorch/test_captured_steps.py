"""Captured steps as workloads: closed forms of what is communicated, streams and waits, ranks that were not recorded, wrong files."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.command import cli
from astra_sim.errors import InputError
from astra_sim.files import FileSet
from astra_sim_report.timeline import write_file
from astra_sim_torch.capture_file import load_captures
from astra_sim_torch.memory import peak_of
from click.testing import CliRunner
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
        # A copy of another stream goes next when it may begin, so that its gather runs beside the kernels issued before it.
        (
            [kernel(20), on(0, "mark", 1), kernel(30), kernel(30), on(1, "wait_mark", 1), kernel(10, stream=1), gather(60, 1, stream=1)],
            90,
            0,
        ),
        ([kernel(80, stream=1), on(1, "mark", 1), on(0, "wait_mark", 1), kernel(30)], 110, 0),
        ([on(0, "wait", 9), kernel(30)], 30, 0),  # of a step before
    ],
)
def test_streams_wait_for_what_they_are_told_to(events: list[dict[str, Any]], finish: int, exposed: int, tmp_path: Path) -> None:
    result = run(written(tmp_path, events))
    assert (result.finish_ns, result.exposed_comm_ns) == (finish, exposed)


def test_a_second_step_begins_when_the_first_has_ended(tmp_path: Path) -> None:
    assert run(written(tmp_path, [gather(100, 1), kernel(30)]), passes=3).finish_ns == 300


# -- Memory


def storage(number: int, size: int, holds: str, module: str = "") -> dict[str, Any]:
    return {"kind": "allocate", "stream": 0, "storage": number, "bytes": size, "holds": holds, "module": module, "line": "train.py:1"}


def freed(number: int) -> dict[str, Any]:
    return {"kind": "free", "stream": 0, "storage": number}


MEMORY = [
    storage(1, 1000, "parameters", "up"),
    kernel(100),
    storage(2, 500, "activations", "up"),
    storage(3, 300, "activations", "down"),
    kernel(50),
    freed(2),
    storage(4, 400, "temporaries"),
    on(0, "mark", 1),
    on(1, "wait_mark", 1),
    kernel(25, stream=1),
    freed(4),
    kernel(30),
    freed(3),
]
"""At the peak 1000 + 500 + 300 bytes, after 100 ns; 1700 after 150 ns, where the kernel beside the default stream counts for nothing."""


def test_memory_at_the_peak_is_told_by_kind_and_module(tmp_path: Path) -> None:
    result = run(written(tmp_path, MEMORY, version=2))
    assert [(row["kind"], row["bytes"], row["module"], row["module_bytes"]) for row in result.figures["memory_peak"]] == [
        ("parameters", 1000, "up", 1000),
        ("activations", 800, "up", 500),
    ]
    assert [(row["module"], row["kind"], row["bytes"]) for row in result.figures["memory_holders"]] == [
        ("up", "parameters", 1000),
        ("up", "activations", 500),
        ("down", "activations", 300),
    ]
    assert "device_bytes" not in result.figures["memory_peak"][0]  # the roofline has no memory


@pytest.mark.parametrize("steps", [1, 2])
def test_memory_over_time_follows_the_default_stream(steps: int, tmp_path: Path) -> None:
    result = run(written(tmp_path, MEMORY, version=2), passes=steps)
    totals = {row["at_ns"]: row["total_bytes"] for row in result.figures["memory_over_time"]}
    assert [totals[at] for at in (0, 100, 150)] == [1000, 1800, 1700]
    assert max(totals.values()) == sum(row["bytes"] for row in result.figures["memory_peak"])
    assert totals[result.finish_ns] == 1000
    again = [totals[at + result.finish_ns / 2] for at in (100, 150)] if steps == 2 else [1800, 1700]
    assert again == [1800, 1700]


@pytest.mark.parametrize("name", ["gpt_ddp", "gpt_fsdp", "gpt_fsdp1", "gpt_fsdp_tp"])
def test_the_peak_in_simulated_time_is_that_of_the_recording(name: str) -> None:
    result = astra_sim.simulate(workload=f"plugin:torch_capture?path={EXAMPLES / name}", platform=platform(WORLD), compute=COMPUTE)
    (capture,) = load_captures(str(EXAMPLES / name))
    peak = sum(row["bytes"] for row in result.figures["memory_peak"])
    assert peak == max(row["total_bytes"] for row in result.figures["memory_over_time"]) == sum(capture.peak_bytes.values())
    assert result.figures["memory_bytes"] == peak
    kinds = {row["kind"]: row["bytes"] for row in result.figures["memory_peak"]}
    shards = 1 if name == "gpt_ddp" else WORLD
    if name != "gpt_fsdp_tp":
        assert kinds["parameters"] == pytest.approx(PARAMETERS * FP32 / shards, rel=0.01)
        assert kinds["optimizer"] == pytest.approx(2 * PARAMETERS * FP32 / shards, rel=0.02)  # and step counters
    assert kinds["inputs"] == TOKENS * 8
    assert {"communication", "gathered"} & set(kinds)


@pytest.mark.parametrize(("name", "split"), [("gpt_fsdp", 1), ("gpt_fsdp_tp", 2)])
def test_the_peak_of_sharded_steps_is_that_of_the_formula(name: str, split: int) -> None:
    """The peak is in the backward pass of the last block, when the gradient of its last product is there.

    That block, the embedding and the head are gathered, and the gradients of the block are about to be scattered. Tensor parallelism over
    `split` ranks divides the perceptron: its products, and what is saved of its hidden layer.
    """
    (capture,) = load_captures(str(EXAMPLES / name))
    peak = peak_of(capture)
    assert peak is not None
    block = BLOCK - SPLIT + SPLIT // split
    shards = (LAYERS * block + EMBEDDINGS) // (WORLD // split) * FP32
    saved, heads = TOKENS * WIDTH * FP32, 4
    statistics = (2 * 2 + heads) * TOKENS * FP32  # mean and deviation of both norms, and the sums of attention
    assert peak.kinds["parameters"] == pytest.approx(shards, rel=0.01)  # storages are blocks of 512 bytes
    assert peak.kinds["optimizer"] == pytest.approx(2 * shards, rel=0.02)
    assert peak.kinds["gathered"] == (block + EMBEDDINGS) * FP32
    assert peak.kinds["communication"] == block * FP32
    assert peak.kinds["gradients"] == (4 * WIDTH**2 // split + WIDTH + VOCABULARY * WIDTH) * FP32
    assert peak.kinds["activations"] == LAYERS * ((8 + 8 // split) * saved + statistics) + 1024  # and the loss


def test_a_capture_of_version_1_has_no_memory_over_time(tmp_path: Path) -> None:
    result = run(written(tmp_path, [kernel(100)], peak_bytes={"forward": 700}))
    assert result.figures["memory_bytes"] == 700
    assert "memory_peak" not in result.figures


def test_more_memory_than_the_device_has_is_a_warning_and_explained(tmp_path: Path) -> None:
    gib = 2**30
    path = written(tmp_path, [storage(1, 70 * gib, "parameters", "up"), kernel(1), storage(2, 30 * gib, "activations", "up"), kernel(1)])
    words = ["explain", "--workload", str(path), "--platform", platform(2), "--compute", "plugin:gpu?device=h100", "--no-reruns"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = CliRunner().invoke(cli.astra, words)
        told = json.loads(CliRunner().invoke(cli.astra, [*words, "--json"]).stdout)
    assert done.exit_code == 0, done.output
    usable = told["memory_peak"][0]["device_bytes"] / gib
    excess = f"by {100 - usable:.2f} GiB"
    assert f"It does not fit in {usable:.2f} GiB of the device ({100 / usable:.0%}) {excess}.".replace("%)", " %)") in done.stdout
    assert f"does not fit in {usable:.2f} GiB of the device {excess}" in str(caught[0].message)
    assert "Memory of NPU 0 at its peak" in done.stdout
    assert "up, train.py:1" in done.stdout


def test_the_timeline_has_counters_of_memory(tmp_path: Path) -> None:
    result = run(written(tmp_path, MEMORY, version=2))
    with FileSet() as files:
        write_file(result, str(tmp_path / "timeline.json"), files)
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    values = {(event["ts"], event["args"]["value"]) for event in events if event["name"] == "memory: total (bytes)"}
    assert {(0.0, 1000), (0.1, 1800), (0.15, 1700)} <= values
    assert {event["name"] for event in events if event["name"].startswith("memory: ")} == {
        f"memory: {kind} (bytes)" for kind in ("total", "parameters", "activations", "temporaries")
    }


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
        ({"version": 3}, r"line 1: version is 3; expected 1 or 2"),
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
        (
            {"kind": "allocate", "stream": 0, "storage": 1, "bytes": 5, "holds": "air"},
            r"line 2: holds is 'air'; expected one of parameters",
        ),
        ({"kind": "free", "stream": 0}, r"line 2: storage is None"),
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


@pytest.mark.parametrize(("words", "message"), [("", "missing"), ("?path=a&script=b.py", "both given")])
def test_a_capture_or_a_script_is_needed(words: str, message: str) -> None:
    with pytest.raises(InputError, match=f"path and script are {message}; expected one of them"):
        astra_sim.simulate(workload=f"plugin:torch_capture{words}", platform=platform(2), compute=COMPUTE)


def test_a_file_of_a_capture_is_recognised() -> None:
    path = EXAMPLES / "gpt_fsdp" / "rank_0.jsonl"
    result = astra_sim.simulate(workload=str(path), platform=platform(WORLD), compute=COMPUTE)
    assert result.figures["kernels"] == 91
