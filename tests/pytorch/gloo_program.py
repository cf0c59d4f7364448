"""Three steps of a random model on four ranks, distributed in a random way: python gloo_program.py SEED [FILE].

Captured by astra without FILE. With it, one of four real processes that communicate by gloo; the calls of the third step are written
there as JSON: [name, bytes of this rank's operand, the ranks of the group] and [name, bytes, ranks, peer].
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

WORLD = 4
PARALLEL = ("ddp", "fsdp", "hsdp", "tp", "fsdp_tp", "calls")
Call = list[Any]


def size_of(tensors: Any) -> int:
    """Bytes of a tensor, or of those in nested lists."""
    if isinstance(tensors, torch.Tensor):
        return int(tensors.numel() * tensors.element_size())
    return sum(map(size_of, tensors))


def logging_group(calls: list[Call]) -> Callable[..., Any]:
    """Make a backend that lets gloo communicate, and notes what is asked of it."""

    class LoggingGroup(dist.ProcessGroup):
        """A group of gloo. Where torch has two names for a call, both are noted alike."""

        def __init__(self, store: Any, rank: int, size: int) -> None:
            super().__init__(rank, size)
            self._gloo = dist.ProcessGroupGloo(store, rank, size, timeout=timedelta(seconds=120))
            self._ranks = rank, size

        def rank(self) -> int:
            return self._ranks[0]

        def size(self) -> int:
            return self._ranks[1]

        @property
        def group_name(self) -> str:
            return str(dist.distributed_c10d._world.pg_names[self])

        pg_name = group_name

        def getBackendName(self) -> str:  # noqa: N802
            return "logging"

        def _get_backend(self, device: Any) -> Any:
            return self

    def add(names: str, word: str, operand: int) -> None:
        """A call: its names in releases of torch, of which the first is that of gloo."""
        gloo = names.split(maxsplit=1)[0]

        def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
            members = dist.distributed_c10d._world.pg_group_ranks[self]
            peer = [arguments[1]] if word in ("send", "receive") else []
            calls.append([word, size_of(arguments[operand]), sorted(members, key=members.__getitem__), *peer])
            return getattr(self._gloo, gloo)(*arguments, **keywords)

        for name in names.split():
            setattr(LoggingGroup, name, call)

    add("allreduce", "all_reduce", 0)
    add("allreduce_coalesced", "all_reduce", 0)
    add("broadcast", "broadcast", 0)
    add("allgather", "all_gather", 1)
    add("_allgather_base all_gather_single", "all_gather", 1)
    add("reduce_scatter", "reduce_scatter", 1)
    add("_reduce_scatter_base reduce_scatter_single", "reduce_scatter", 1)
    add("alltoall_base all_to_all_single", "all_to_all", 1)
    add("scatter", "scatter", 0)  # of weights, before the steps
    add("send", "send", 0)
    add("recv", "receive", 0)
    return lambda store, rank, size, timeout: LoggingGroup(store, rank, size)


class Block(nn.Module):
    """Two products with a residual, of which some have no bias."""

    def __init__(self, width: int, inner: int, bias: bool) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, inner, bias=bias), nn.Linear(inner, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the shape of `x`."""
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def distributed(model: nn.Sequential, parallel: str, draw: random.Random, device: str) -> nn.Module:
    """The model as one rank has it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if parallel == "ddp":
        views = draw.random() < 0.5
        return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=draw.choice([0.01, 0.1, 25]), gradient_as_bucket_view=views)
    shape = {"fsdp": (WORLD, 1), "tp": (1, WORLD)}.get(parallel, (2, 2))
    mesh = init_device_mesh(device, shape, mesh_dim_names=("data", "tensor"))
    kept = draw.random() < 0.5
    for block in model:
        if isinstance(block, Block) and parallel.endswith("tp"):
            parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        if parallel != "tp" and draw.random() < 0.8:
            fully_shard(block, mesh=mesh if parallel == "hsdp" else mesh["data"], reshard_after_forward=kept)
    if parallel != "tp":
        fully_shard(model, mesh=mesh if parallel == "hsdp" else mesh["data"])
    return model


def random_calls(draw: random.Random, device: str) -> Callable[[], None]:
    """A function that makes some calls in random groups, drawn alike on all ranks."""
    rank = dist.get_rank()
    splits = draw.choice([[[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 3], [1, 2]], [[0, 1, 2], [3]]])
    groups = [(ranks, dist.new_group(ranks)) for ranks in splits]
    ranks, group = next((ranks, group) for ranks, group in groups if rank in ranks)
    kinds = ["reduce", "gather", "scatter", "broadcast", "exchange", "ring", "all"]
    plan = [(draw.choice(kinds), 12 * draw.randint(1, 9)) for _ in range(8)]

    def run() -> None:
        for what, elements in plan:
            x, n = torch.ones(elements, device=device), len(ranks)
            if what == "reduce":
                dist.all_reduce(x, group=group)
            elif what == "gather":
                dist.all_gather_into_tensor(torch.empty(n * elements, device=device), x, group=group)
            elif what == "scatter":
                dist.reduce_scatter_tensor(torch.empty(elements, device=device), torch.ones(n * elements, device=device), group=group)
            elif what == "broadcast":
                dist.broadcast(x, src=ranks[0], group=group)
            elif what == "exchange":
                dist.all_to_all_single(torch.empty_like(x), x, group=group)
            elif what == "all":
                dist.all_gather([torch.empty_like(x) for _ in range(WORLD)], x)
            elif n > 1:
                place = ranks.index(rank)
                sent = dist.isend(x, ranks[(place + 1) % n], group=group)
                dist.recv(torch.empty_like(x), ranks[place - 1], group=group)
                assert sent is not None
                sent.wait()

    return run


def main() -> None:
    """Three steps; with a file, the calls of the last."""
    draw = random.Random(int(sys.argv[1]))
    calls: list[Call] = []
    device = "cpu" if len(sys.argv) > 2 else "cuda"
    if device == "cpu":
        dist.Backend.register_backend("logging", logging_group(calls), devices=["cpu"])
        rank, file = int(os.environ["RANK"]), Path(sys.argv[2])
        dist.init_process_group("logging", init_method=f"file://{file.parent}/store", rank=rank, world_size=WORLD)
    else:
        dist.init_process_group("nccl")
    parallel = PARALLEL[int(sys.argv[1]) % len(PARALLEL)]
    width, inner = 8 * draw.randint(1, 12), 16 * draw.randint(1, 12)
    if parallel == "calls":
        also = random_calls(draw, device)
        model: nn.Module = nn.Linear(4, 4).to(device)
    else:
        blocks = [Block(width, inner, draw.random() < 0.5) for _ in range(draw.randint(1, 4))]
        model = distributed(nn.Sequential(*blocks, nn.Linear(width, 5)).to(device), parallel, draw, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    for _ in range(3):  # DDP plans its buckets anew in the second
        calls.clear()
        x = torch.ones(4, 4 if parallel == "calls" else width, device=device)
        if parallel == "calls":
            also()
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    if device == "cpu":
        file.write_text(json.dumps([parallel, calls]))


if __name__ == "__main__":
    main()
