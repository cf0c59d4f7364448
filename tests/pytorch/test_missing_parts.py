"""Scripts that need what is not here: data, other ranks, packages for GPUs, and what replaces it (`--data`, `--stub`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from astra_sim.command import cli
from astra_sim.errors import InputError, InputWarning, RunError
from astra_sim_torch.capture_file import RankCapture, load_captures
from astra_sim_torch.recording.batches import BatchTensor, parse_batch, parse_stub
from click.testing import CliRunner
from support import ROOT
from support.torch_scripts import capture, needs_torch, problem_of


def test_options_are_read() -> None:
    assert parse_batch("fake") == []
    assert parse_batch("8x3x32x32:float32, 8:int64") == [BatchTensor("", (8, 3, 32, 32), "float32"), BatchTensor("", (8,), "int64")]
    assert parse_batch("input_ids=2x9:int64") == [BatchTensor("input_ids", (2, 9), "int64")]
    assert parse_stub("wandb") == ("wandb", "")
    assert parse_stub("a.b=c.d") == ("a.b", "c.d")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--data", "real", "--data: 'real' in 'real'; expected fake, or the tensors of a batch"),
        ("--data", "8:int3", "--data: type 'int3' in '8:int3'; expected bool"),
        ("--data", "a=8:int64,9:int64", "--data: names of 'a=8:int64,9:int64'; expected a different one for each tensor"),
        ("--data", "a=8:int64,a=8:int64", "--data: names of"),
        ("--stub", "a.=b", "--stub: 'a.=b'; expected MODULE, MODULE.NAME, or MODULE.NAME=MODULE.FUNCTION"),
        ("--stub", "a=b", "--stub: 'a=b'"),
    ],
)
def test_options_that_cannot_be_read_are_errors(option: str, value: str, message: str) -> None:
    words = ["capture", "torch", "--world", "2", option, value, "--", str(ROOT / "examples/pytorch/gpt.py")]
    done = CliRunner().invoke(cli.astra, words)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)


def recorded(script: str, folder: Path, *options: str) -> RankCapture:
    """The capture of rank 0 of two."""
    (folder / "train.py").write_text(script)
    done = capture("--world", "2", "-o", folder / "out", *options, "--", folder / "train.py")
    assert done.exit_code == 0, (done.output, done.exception)
    return next(iter(load_captures(str(folder / "out"))))


def products(one: RankCapture) -> list[list[int]]:
    """The shapes of the products of a step."""
    return [event["gemm"] for event in one.events if "gemm" in event]


# -- Errors: each names the line of the script, and what replaces it


@needs_torch
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import torch\nif torch.ones(3).sum() > 2:\n    pass\n", r"train.py:2: DataDependentOutputException: .*--item VALUE"),
        ("import torch\nprint(f'{torch.ones(3).mean():.2f}')\n", r"train.py:2: DataDependentOutputException: .*--item VALUE"),
        ("import numpy\nnumpy.memmap('train.bin', mode='r')\n", r"train.py:2: FileNotFoundError: .*--data fake .*--data SHAPES .*--stub"),
        ("raise OSError(\"We couldn't connect to 'https://huggingface.co'\")\n", r"train.py:1: OSError: .*--data fake"),
        ("import torch\nimport flash_attn\n", r"train.py:2: ModuleNotFoundError: .*--stub flash_attn "),
        ("import torch.utils.cpp_extension as c\nc.load_inline('a', '', cuda_sources='x')\n", r"train.py:2: .*--stub NAME=MODULE.FUNCTION"),
        ("import torch\nassert torch.ones(3, device='cuda').is_cuda, 'needs cuda'\n", r"train.py:2: .*--stub NAME=MODULE.FUNCTION"),
        (
            "def leave():\n    raise SystemExit('no GPU')\nleave()\n",
            r"train.py:2: the script ended with status no GPU .*--stub MODULE.NAME",
        ),
        ("import sys\nsys.exit()\n", r"train.py:2: the script ended before it ran a kernel .*--stub MODULE.NAME"),
        ("import os\nos._exit(0)\n", r"train.py:2: the script ended before it ran a kernel"),
        ("def main():\n    pass\n\nmain()\n", r"train.py:4: the script ended before it ran a kernel"),
        (
            "import torch.distributed as dist\ndist.init_process_group('nccl')\ndist.distributed_c10d._get_default_store().get('ready')\n",
            r"train.py:3: DistStoreError: .*other ranks do not run; --stub MODULE.NAME",
        ),
    ],
)
def test_a_script_that_lacks_something_is_told_what_replaces_it(script: str, message: str, tmp_path: Path) -> None:
    problem = problem_of(script, tmp_path)
    assert isinstance(problem, RunError)
    assert re.search(message, str(problem)), problem


@needs_torch
def test_a_line_in_another_file_is_named_beside_that_of_the_script(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import torch\n\ndef loss():\n    return torch.ones(3).sum().item()\n")
    assert re.search(r"train.py:2, in \S*model.py:4: DataDep", str(problem_of("import model\nmodel.loss()\n", tmp_path)))


@needs_torch
def test_a_script_that_waits_in_a_barrier_is_given_up(tmp_path: Path) -> None:
    script = "import threading\nbarrier = threading.Barrier(2)\n\nbarrier.wait()\n"
    assert re.search(
        r"train.py:4: rank 0 did not end within 10 s; .*--stub MODULE.NAME", str(problem_of(script, tmp_path, "--timeout", "10"))
    )


# -- Loaders of data


LOADER = """
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler
torch.distributed.init_process_group("nccl")


class Images(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        image = torch.from_numpy(np.random.rand(12).astype(np.float32))
        return (image - image.mean().item()) / 2, int(torch.tensor(index)) % 3


model = torch.nn.Linear(12, 8).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = Images()
loader = DataLoader(data, batch_size=4, SHUFFLED, num_workers=2, pin_memory=True, persistent_workers=True, multiprocessing_context="fork")
loader = DataLoader(data, loader.batch_size, sampler=loader.sampler, num_workers=loader.num_workers, prefetch_factor=loader.prefetch_factor)
for image, label in loader:
    torch.nn.functional.cross_entropy(model(image.cuda(non_blocking=True)), label.cuda()).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@needs_torch
@pytest.mark.parametrize("shuffled", ["shuffle=True", "sampler=DistributedSampler(data)"])
def test_a_loader_runs_on_the_host_with_its_data(shuffled: str, tmp_path: Path) -> None:
    """Its samplers and data sets have numbers, and none of its operators is a kernel; its batches are inputs."""
    result = recorded(LOADER.replace("SHUFFLED", shuffled), tmp_path)
    assert products(result) == [[4, 8, 12, 1], [8, 12, 4, 1]]
    names = [event["op"] for event in result.events if event["kind"] == "kernel"]
    assert names[0] == "addmm"
    assert not {"sub", "div", "stack", "mean"} & set(names)
    inputs = [event["bytes"] for event in result.events if event["kind"] == "allocate" and event["holds"] == "inputs"]
    assert inputs == [512] * 4  # the batch of the step before is there until the loop has the next


SCALED = """
import torch
model = torch.nn.Linear(12, 8).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for _ in range(3):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.randn(4, 12, device="cuda")).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    torch.cuda.nvtx.range_push(torch.cuda.memory_summary())
"""


@needs_torch
def test_a_gradient_scaler_takes_its_step(tmp_path: Path) -> None:
    result = recorded(SCALED, tmp_path)
    names = [event["op"] for event in result.events if event["kind"] == "kernel"]
    assert "_amp_foreach_non_finite_check_and_unscale_" in names
    assert any(event.get("phase") == "optimizer" for event in result.events)


REPLACED = """
import torch
import wandb
import flash_attn
from flash_attn.layers import Rotary
from flash_attn import flash_attn_func
from torch.utils.data import DataLoader
import corpus


class Callback(wandb.Callback):
    def __init__(self):
        super().__init__("name", size=3)


run = wandb.init(project="x", settings=wandb.Settings(mode="offline"))
run.config["rows"] = len(wandb.history()) + sum(1 for _ in run)
with run as entered, Callback().table("losses"):
    assert not isinstance(entered, wandb.Run) and not entered.is_active
rotary = Rotary(32)
model = torch.nn.Linear(12, 12).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for BATCH in DataLoader(corpus.Corpus("missing"), batch_size=2):
    x = model(X.cuda()).unflatten(-1, (3, 4))
    flash_attn_func(x, x, x, causal=True).sum().backward()
    optimizer.step()
    run.log({"loss": 1})
"""
ATTENTION = """
from torch.nn.functional import scaled_dot_product_attention

def attention(q, k, v, causal=False):
    q, k, v = (each.transpose(1, 2) for each in (q, k, v))
    return scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)
"""


@needs_torch
@pytest.mark.parametrize(
    ("batch", "variables"),
    [
        ("ids=2x7x12:float32,more=2:int64", ("batch", "batch['ids']")),
        ("2x7x12:float32,2:int64", ("(x, y)", "x")),
        ("2x7x12:float32", ("x", "x")),
    ],
)
def test_parts_of_a_script_are_replaced(batch: str, variables: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "replacing.py").write_text(ATTENTION)
    (tmp_path / "corpus.py").write_text("class Corpus:\n    def __init__(self, path):\n        open(path)\n")
    script = REPLACED.replace("BATCH", variables[0]).replace("X.cuda", f"{variables[1]}.cuda")
    stubs = ["--stub", "wandb", "--stub", "flash_attn.flash_attn_func=replacing.attention", "--stub", "corpus.Corpus"]
    with pytest.warns(InputWarning) as warnings:
        result = recorded(script, tmp_path, *stubs, "--data", batch)
    texts = {str(each.message) for each in warnings}
    assert f"loaders yield batches of {batch} (--data)" in texts
    assert any(text.endswith("is not recorded: wandb, flash_attn.flash_attn_func=replacing.attention, corpus.Corpus") for text in texts)
    assert products(result) == [[14, 12, 12, 1], [12, 12, 14, 1]]
    assert [event["attention"] for event in result.events if "attention" in event] == [[6, 7, 7, 4, 4, 6]] * 2


@needs_torch
@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("import torch\n", ["--stub", "torch.nothing.at_all"], "--stub torch.nothing.at_all: No module named 'torch.nothing'"),
        ("import torch\n", ["--stub", "torch.nothing"], "--stub torch.nothing: .* has no attribute 'nothing'"),
        ("import torch\n", ["--stub", "torch.add=mine.add"], "--stub torch.add=mine.add: No module named 'mine'"),
        (
            "import torch\nimport flash_attn\ntorch.ones(3) + flash_attn.mean(3)\n",
            ["--stub", "flash_attn"],
            r"train.py:3: TypeError: .*the result of a stub is used; .*--stub NAME=MODULE.FUNCTION",
        ),
    ],
)
def test_stubs_that_do_not_fit_are_errors(script: str, options: list[str], message: str, tmp_path: Path) -> None:
    assert re.search(message, str(problem_of(script, tmp_path, *options)))


TOKENS = """
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset):
    def __init__(self):
        self.data = np.memmap("missing.bin", dtype=np.uint16, mode="r")

    def __len__(self):
        return len(self.data) // 8

    def __getitem__(self, index):
        start = torch.randint(len(self.data) - 8, (1,)).item()
        return torch.from_numpy(self.data[start : start + 8].astype(np.int64))


x = next(iter(DataLoader(Tokens(), batch_size=4)))
torch.nn.functional.embedding(x, torch.randn(100, 16)).square()
"""


@needs_torch
def test_missing_arrays_are_zeros(tmp_path: Path) -> None:
    with pytest.warns(InputWarning, match="data sets and tokenizers are synthetic"):
        result = recorded(TOKENS, tmp_path, "--data", "fake")
    written: dict[str, Any] = {event["op"]: event["write"] for event in result.events if event["kind"] == "kernel"}
    assert written["embedding"] == 4 * 8 * 16 * 4
