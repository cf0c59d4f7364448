"""The command `astra capture torch`: what it records of real scripts, and what it says of those that cannot be recorded."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.command import cli
from astra_sim.errors import InputError, InputWarning, RunError
from astra_sim_torch.capture_file import load_captures
from astra_sim_torch.memory import MEMORY_EVENTS, peak_of
from click.testing import CliRunner
from support import ROOT
from support.torch_scripts import PYTHON, capture, needs_torch, problem_of

EXAMPLES = ROOT / "examples" / "pytorch"


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_it_says_what_to_install() -> None:
    done = CliRunner().invoke(cli.astra, ["capture", "torch", "--world", "8", "--", str(EXAMPLES / "gpt.py")])
    assert isinstance(done.exception, InputError)
    assert "pip install torch" in str(done.exception)


def test_wrong_options_are_errors(tmp_path: Path) -> None:
    for words, message in (
        (("--ranks", "9", "--", EXAMPLES / "gpt.py"), "--ranks is '9'; expected auto, all, or ranks from 0 to 1"),
        (("--ranks", "a", "--", EXAMPLES / "gpt.py"), "--ranks is 'a'"),
        (("--", tmp_path / "none.py"), "none.py: no such file"),
        (("--python", "none", "--", EXAMPLES / "gpt.py"), "--python: 'none' is no program"),
    ):
        done = CliRunner().invoke(cli.astra, ["capture", "torch", "--world", "2", *map(str, words)])
        assert isinstance(done.exception, InputError)
        assert message in str(done.exception)


def as_issued(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event of any release: 2.15 calls a kernel otherwise, and frees two buffers earlier."""
    return {**event} | ({"op": "chunk_cat"} if event.get("op") == "chunk_cat_mixed_dtype" else {})


@needs_torch
@pytest.mark.parametrize("parallel", ["ddp", "fsdp", "fsdp1", "fsdp_tp"])
def test_the_recorded_examples_come_out_again(parallel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = capture("--world", "8", "-o", tmp_path, "--json", "--", "examples/pytorch/gpt.py", "--parallel", parallel)
    assert done.exit_code == 0, done.output
    (new,), (old,) = load_captures(str(tmp_path)), load_captures(str(EXAMPLES / f"gpt_{parallel}"))
    assert [as_issued(event) for event in new.events if event["kind"] not in MEMORY_EVENTS] == [
        as_issued(event) for event in old.events if event["kind"] not in MEMORY_EVENTS
    ]
    kernels = sum(event["kind"] == "kernel" for event in old.events)
    assert json.loads(done.stdout)["ranks"][0]["kernels"] == kernels


@needs_torch
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import torch\n\nx = torch.ones(3)\nprint(x.sum().item())\n", "train.py:4: DataDependentOutputException: .*--item VALUE"),
        ("import torch\ntorch.ones(3) @ torch.ones(4)\n", "train.py:2: RuntimeError"),
        ("import sys\nsys.exit(4)\n", "the script ended with status 4"),
        ("import sys\nsys.exit(0)\n", "train.py:2: the script ended before it ran a kernel or called another rank"),
        ("import torch\ntorch.ones(3).numpy()\n", "train.py:2: RuntimeError: .*tensors have no data here"),
        ("import torch\ntorch.ones(3).nonzero()\n", "train.py:2: DynamicOutputShapeException: .*tensors have no data here"),
        ("import torch\ntorch.cuda.CUDAGraph()\n", "train.py:2: (Runtime|Accelerator)Error: .*code for GPUs alone cannot be recorded"),
        ("open('nothing.txt')\n", "train.py:1: FileNotFoundError"),
        ("import os\nos.abort()\n", "rank 0 was ended by SIGABRT"),
        ("x = (\n", "SyntaxError"),
    ],
)
def test_a_script_that_fails_is_an_error_with_its_line(script: str, message: str, tmp_path: Path) -> None:
    problem = problem_of(script, tmp_path)
    assert isinstance(problem, RunError)
    assert re.search(message, str(problem)), problem


@needs_torch
def test_a_script_that_waits_is_given_up(tmp_path: Path) -> None:
    problem = problem_of("import time\n\nwhile True:\n    time.sleep(1)\n", tmp_path, "--timeout", "10")
    assert "train.py:4: rank 0 did not end within 10 s" in str(problem)


SHARED_OBJECTS = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
gathered, chosen = [None] * 2, [8 if dist.get_rank() == 1 else None]
dist.all_gather_object(gathered, {"rows": 4})
dist.broadcast_object_list(chosen, src=1)
torch.ones(gathered[1]["rows"], chosen[0]).mul_(2)
weight = torch.nn.init.trunc_normal_(torch.empty(16))
"""


@needs_torch
def test_objects_are_shared_and_weights_initialized_without_numbers(tmp_path: Path) -> None:
    (tmp_path / "objects.py").write_text(SHARED_OBJECTS)
    assert capture("--world", "2", "--ranks", "0", "-o", tmp_path / "out", "--", tmp_path / "objects.py").exit_code == 0
    (result,) = load_captures(str(tmp_path / "out"))
    written = [event["write"] for event in result.events if event["kind"] == "kernel" and event["op"] in ("mul_", "normal_")]
    assert written == [4 * 8 * 4, 16 * 4]


TRAFFIC = """
import torch
from torch import nn
from torch.nn import functional
torch.distributed.init_process_group("nccl")
model = nn.Sequential(nn.RMSNorm(256), nn.RMSNorm(256), nn.Linear(256, 512, bias=False)).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _ in range(3):
    scores = torch.utils.checkpoint.checkpoint(model, torch.randn(64, 256, device="cuda").bfloat16(), use_reentrant=False).float()
    scores.detach()[torch.arange(64, device="cuda"), torch.zeros(64, dtype=torch.int64, device="cuda")] = 0
    functional.cross_entropy(scores, torch.zeros(64, dtype=torch.int64, device="cuda")).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@needs_torch
def test_operators_read_and_write_what_their_kernels_do_on_gpus(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAFFIC)
    assert capture("--world", "2", "-o", tmp_path / "out", "--", tmp_path / "train.py").exit_code == 0
    (result,) = load_captures(str(tmp_path / "out"))
    traffic: dict[str, list[tuple[int, int]]] = {}
    for event in result.events:
        if event["kind"] == "kernel":
            traffic.setdefault(event["op"], []).append((event["read"], event["write"]))
    rows, scores, parameters = 64 * 256 * 2, 64 * 512 * 4, 2 * 256 + 256 * 512
    assert traffic["_fused_rms_norm"] == [(rows + 512, rows + 256)] * 4  # again in the backward pass
    # The first has no gradient of its input; the other has two kernels, both of which read gradient and input.
    assert traffic["_fused_rms_norm_backward"] == [(4 * rows + 256 + 512, rows + 512), (2 * rows + 256 + 512, 512)]
    assert traffic["index_put_"] == [(2 * 64 * 8 + 64 * 4, 64 * 4)]
    assert traffic["nll_loss_forward"] == [(64 * 8 + 64 * 4, 8)]
    assert [written for _, written in traffic["nll_loss_backward"]] == [scores]
    steps = 3 * 4
    assert traffic["_fused_adamw_"] == [(parameters * 2 * 4 + steps, parameters * 2 * 3)]


SHARDED_OPTIMIZER = """
import torch
from torch import nn
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
dist.init_process_group("nccl")


class Both(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.inner = torch.optim.AdamW(parameters, fused=True)

    def step(self):
        self.inner.step()


model = fully_shard(nn.Linear(1024, 1024, bias=False).to("cuda"))
optimizer = Both(list(model.parameters()))
for _ in range(3):
    model(torch.randn(16, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@needs_torch
@pytest.mark.parametrize("step", [1, 2])
def test_an_optimizer_of_an_optimizer_steps_once_and_runs_on_shards(step: int, tmp_path: Path) -> None:
    (tmp_path / "sharded.py").write_text(SHARDED_OPTIMIZER)
    assert capture("--world", "8", "--step", str(step), "-o", tmp_path / "out", "--", tmp_path / "sharded.py").exit_code == 0
    (result,) = load_captures(str(tmp_path / "out"))
    updates = [event for event in result.events if event["kind"] == "kernel" and event["op"] == "_fused_adamw_"]
    assert len(updates) == 1
    assert max(event["write"] for event in result.events if event.get("phase") == "optimizer" and "write" in event) <= 4 * 2**20 // 8 * 4
    gathered = [event["bytes"] for event in result.events if event["kind"] == "collective" and event["op"] == "all_gather"]
    assert gathered
    assert set(gathered) == {4 * 2**20 // 8}


@needs_torch
def test_a_sweep_captures_a_script_with_changed_arguments() -> None:
    python = f"&python={PYTHON}" if PYTHON else ""
    communicated = {}
    for parallel in ("ddp", "fsdp"):
        result = astra_sim.simulate(
            workload=f"plugin:torch_capture?script={EXAMPLES / 'gpt.py'}{python}",
            platform="plugin:switch?size=8&link_bandwidth_gb_per_s=1&link_latency_ns=0",
            compute="plugin:roofline?peak_tera_ops_per_s=1&memory_bandwidth_gb_per_s=1",
            set=[f"workload.arguments=--parallel {parallel}"],
        )
        communicated[parallel] = set(result.figures["collective_input_bytes"])
    assert communicated == {"ddp": {"all_reduce"}, "fsdp": {"all_gather", "reduce_scatter"}}


SENDING = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1000)
if dist.get_rank() == 0:
    dist.send(x, 1)
else:
    dist.recv(x, 0)
    x.mul_(2)
"""


@needs_torch
def test_ranks_that_receive_are_recorded_too(tmp_path: Path) -> None:
    (tmp_path / "send.py").write_text(SENDING)
    assert capture("--world", "2", "-o", tmp_path / "out", "--", tmp_path / "send.py").exit_code == 0
    first, second = load_captures(str(tmp_path / "out"))
    sent, received = ([event for event in each.events if event["kind"] not in MEMORY_EVENTS] for each in (first, second))
    assert [event["kind"] for event in sent] == ["kernel", "send", "wait"]
    assert [event["kind"] for event in received] == ["kernel", "receive", "wait", "kernel"]
    assert [event["bytes"] for event in (sent[1], received[1])] == [4000, 4000]


PIPELINE = """
import os, torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
dist.init_process_group("nccl")
stages = init_device_mesh("cuda", (2, 2), mesh_dim_names=("pp", "dp"))["pp"]
stage = stages.get_local_rank()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = nn.Linear(256, 256).to("cuda")
shape = torch.empty(8, 256, device="cuda", requires_grad=stage > 0), torch.empty(8, 256, device="cuda", requires_grad=True)
part = PipelineStage(model, stage, 2, torch.device("cuda"), input_args=shape[:1], output_args=shape[1:], group=stages.get_group())
schedule = Schedule1F1B(part, n_microbatches=4, loss_fn=lambda y, t: ((y - t) ** 2).mean())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    schedule.step(torch.randn(32, 256, device="cuda")) if stage == 0 else schedule.step(target=torch.randn(32, 256, device="cuda"))
    optimizer.step()
"""


@needs_torch
@pytest.mark.parametrize("shapes", ["given", "inferred"])
def test_stages_of_a_pipeline_exchange_micro_batches_in_both_directions(shapes: str, tmp_path: Path) -> None:
    given = "input_args=shape[:1], output_args=shape[1:], "
    (tmp_path / "pipeline.py").write_text(PIPELINE if shapes == "given" else PIPELINE.replace(given, ""))
    assert capture("--world", "4", "-o", tmp_path / "out", "--", tmp_path / "pipeline.py").exit_code == 0
    captures = load_captures(str(tmp_path / "out"))
    assert [each.rank for each in captures] == [0, 2]
    messages = [[(event["kind"], event["bytes"]) for event in each.events if "peer" in event] for each in captures]
    assert sorted(messages[0]) == [("receive", 8 * 256 * 4)] * 4 + [("send", 8 * 256 * 4)] * 4 == sorted(messages[1])
    platform = "plugin:switch?size=4&link_bandwidth_gb_per_s=1&link_latency_ns=0"
    results: dict[str, Any] = {"platform": platform, "compute": "plugin:roofline?peak_tera_ops_per_s=1&memory_bandwidth_gb_per_s=1"}
    result = astra_sim.simulate(workload=f"plugin:torch_capture?path={tmp_path / 'out'}", **results)
    assert result.finish_ns > 5 * 8 * 256 * 4
    assert {row["npu"] for row in result.figures["memory_peak"]} == {0, 2}


OBJECTS = """
import torch.distributed as dist
dist.init_process_group("gloo")
objects = [None]
dist.recv_object_list(objects, src=1 - dist.get_rank())
"""


@needs_torch
def test_ranks_that_wait_for_objects_of_each_other_are_an_error(tmp_path: Path) -> None:
    assert "rank 0 waits for an object of rank 1, which does not send it" in str(problem_of(OBJECTS, tmp_path))


PARALLELISMS = ["none", "checkpoint", "ddp", "ddp_views", "fsdp", "fsdp_kept", "fsdp_checkpoint", "tp"]


@needs_torch
@pytest.mark.parametrize("parallel", PARALLELISMS)
def test_the_peak_of_memory_is_that_of_torchs_tracker(parallel: str, tmp_path: Path) -> None:
    script = str(Path(__file__).with_name("memory_program.py"))
    words = [PYTHON or sys.executable, script, parallel, "--tracker"]
    tracked = subprocess.run(words, capture_output=True, text=True, check=True)
    assert capture("--world", "8", "-o", tmp_path, "--", script, parallel).exit_code == 0
    (result,) = load_captures(str(tmp_path))
    peak = peak_of(result)
    assert peak is not None
    assert peak.total == sum(result.peak_bytes.values()) == pytest.approx(int(tracked.stdout.split()[-1]), rel=0.01)


KINDS = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(1000, 2000, bias=False), nn.ReLU(), nn.Linear(2000, 10, bias=False)).to("cuda")
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    x = torch.randn(300, 1000, device="cuda")
    model(x).sum().backward()
    optimizer.step()
"""


@needs_torch
def test_storages_say_what_they_hold_and_for_which_module(tmp_path: Path) -> None:
    (tmp_path / "kinds.py").write_text(KINDS)
    assert capture("--world", "1", "-o", tmp_path / "out", "--", tmp_path / "kinds.py").exit_code == 0
    (result,) = load_captures(str(tmp_path / "out"))
    sizes: dict[tuple[str, str], set[int]] = {}
    for event in result.events:
        if event["kind"] == "allocate" and event["bytes"] > 1024:
            sizes.setdefault((event["holds"], event["module"]), set()).add(event["bytes"])
    large, small, hidden, scores, inputs = (
        -(-elements * 4 // 512) * 512 for elements in (1000 * 2000, 2000 * 10, 300 * 2000, 300 * 10, 300 * 1000)
    )
    assert sizes["inputs", ""] == {inputs}
    assert {kind for kind, module in sizes if module == "0"} >= {"parameters", "gradients", "optimizer", "activations"}
    assert sizes["parameters", "0"] == sizes["gradients", "0"] == sizes["optimizer", "0"] == {large}
    assert sizes["parameters", "2"] == sizes["gradients", "2"] == sizes["optimizer", "2"] == {small}
    assert sizes["activations", "0"] == sizes["activations", "1"] == {hidden}
    assert sizes["activations", "2"] == {scores}
    assert large in sizes["temporaries", ""]  # of the optimizer, in which there are no modules


COMPILED = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(100, 200), nn.GELU(), nn.Linear(200, 10)).to("cuda")
@torch.compile(fullgraph=True)
def loss_of(x):
    return x.softmax(-1).square().sum()
model.compile(mode="max-autotune")
model = torch.compile(model)
optimizer = torch.optim.SGD(model._orig_mod.parameters(), lr=0.1)
loss_of(model(torch.randn(30, 100, device="cuda"))).backward()
optimizer.step()
"""


@needs_torch
def test_what_would_be_compiled_is_recorded_as_eager_with_a_warning(tmp_path: Path) -> None:
    eager = [line for line in COMPILED.splitlines() if "compile" not in line]
    (tmp_path / "compiled.py").write_text(COMPILED)
    (tmp_path / "eager.py").write_text("\n".join(eager).replace("_orig_mod.", ""))
    with pytest.warns(InputWarning, match=r"compiled.py:5: torch.compile is recorded as eager PyTorch"):
        assert capture("--world", "1", "-o", tmp_path / "compiled", "--", tmp_path / "compiled.py").exit_code == 0
    assert capture("--world", "1", "-o", tmp_path / "eager", "--", tmp_path / "eager.py").exit_code == 0
    kernels = []
    for name in ("compiled", "eager"):
        (result,) = load_captures(str(tmp_path / name))
        kernels.append([(event["op"], event["read"], event["module"]) for event in result.events if event["kind"] == "kernel"])
    assert kernels[0] == kernels[1]


GRAPH = """
import torch
from torch.utils.flop_counter import FlopCounterMode
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
convolution = torch.nn.Conv1d(64, 64, 3)
with FlopCounterMode(display=False) as counter:
    x = layer(torch.randn(2, 10, 64)).transpose(1, 2)
    convolution(x).sum().backward()
print(counter.get_total_flops())
"""


@needs_torch
def test_operations_of_products_and_convolutions_are_those_of_torchs_counter(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "graph.py").write_text(GRAPH)
    assert capture("--world", "1", "-o", tmp_path / "out", "--", tmp_path / "graph.py").exit_code == 0
    (result,) = load_captures(str(tmp_path / "out"))
    flops = sum(event["flops"] for event in result.events if event["kind"] == "kernel" and "attention" not in event)
    assert flops == int(capfd.readouterr().out.split()[-1]) > 0
