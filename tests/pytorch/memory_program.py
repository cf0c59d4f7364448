"""A step of a GPT as one of eight ranks, distributed in one of several ways: captured by astra, or with --tracker measured by torch itself.

With --tracker it runs on fake tensors with torch's fake process group, and prints the bytes at the peak of the second step as
`torch.distributed._tools.mem_tracker.MemTracker` counts them. DDP, whose reducer reads data, runs on real tensors there, as the only rank:
its buckets have the same size.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WORLD, LAYERS, WIDTH, HEADS, VOCABULARY, SEQUENCES, TOKENS = 8, 3, 256, 4, 2000, 4, 128


class Attention(nn.Module):
    """Causal attention as GPT-2 of Hugging Face has it: one product for queries, keys and values, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.attend, self.project, self.dropout = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns (sequences, tokens, width)."""
        heads = [each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in self.attend(x).chunk(3, -1)]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.dropout(self.project(mixed.transpose(1, 2).flatten(2)))


class Perceptron(nn.Module):
    """A multilayer perceptron with GPT-2's GELU in four kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns (sequences, tokens, width)."""
        y = self.up(x)
        return self.down(0.5 * y * (1.0 + torch.tanh(0.8 * (y + 0.044715 * torch.pow(y, 3.0)))))


class Block(nn.Module):
    """A block, whose activations may be recomputed."""

    def __init__(self, recompute: bool) -> None:
        super().__init__()
        self.norm, self.attention, self.norm_mlp, self.mlp = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), Perceptron()
        self.recompute = recompute

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns (sequences, tokens, width)."""
        return checkpoint(self.run, x, use_reentrant=False) if self.recompute else self.run(x)

    def run(self, x: torch.Tensor) -> torch.Tensor:
        """The same, with all activations."""
        x = x + self.attention(self.norm(x))
        return x + self.mlp(self.norm_mlp(x))


class Gpt(nn.Module):
    """A decoder with positions and tied embeddings, as GPT-2."""

    def __init__(self, recompute: bool) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(Block(recompute) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of the next token."""
        x = self.tokens(tokens) + self.positions(torch.arange(TOKENS, device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def mesh_of(parallel: str, device: str) -> Any:
    """The ranks by data and tensor parallelism."""
    from torch.distributed.device_mesh import init_device_mesh

    ranks = {"tp": WORLD, "fsdp_tp": 2}.get(parallel, 1)
    return init_device_mesh(device, (WORLD // ranks, ranks), mesh_dim_names=("data", "tensor"))


def distributed(model: nn.Module, parallel: str, mesh: Any) -> nn.Module:
    """The model as one rank has it."""
    if parallel.startswith("ddp"):
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=parallel == "ddp_views")
    if parallel.startswith(("fsdp", "tp")):
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        for layer in model.layers:
            if parallel.endswith("tp"):
                parallelize_module(layer, mesh["tensor"], {"mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()})
            if parallel != "tp":
                fully_shard(layer, mesh=mesh["data"], reshard_after_forward=parallel != "fsdp_kept")
        if parallel != "tp":
            fully_shard(model, mesh=mesh["data"])
    return model


def main() -> None:
    """Train two steps; with --tracker print the peak of the second."""
    parallel, tracked = sys.argv[1], "--tracker" in sys.argv
    device = "cpu" if tracked else "cuda"
    tracker: Any = contextlib.nullcontext()
    fake: Any = contextlib.nullcontext()
    if tracked:
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.distributed._tools.mem_tracker import MemTracker
        from torch.testing._internal.distributed.fake_pg import FakeStore

        tracker = MemTracker()
        if parallel.startswith("ddp"):
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        else:
            dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORLD)
            fake = FakeTensorMode(allow_non_fake_inputs=True)
    else:
        dist.init_process_group("nccl")
    mesh = mesh_of(parallel, device) if parallel.startswith(("fsdp", "tp")) else None
    with fake:
        with tracker:
            with torch.device(device):
                model = distributed(Gpt("checkpoint" in parallel), parallel, mesh)
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=parallel != "tp")  # it mixes tensors and DTensors
            step(model, optimizer, device)
        if tracked:
            tracker.reset_mod_stats()
        with tracker:
            step(model, optimizer, device)
    if tracked:
        (snapshot,) = tracker.get_tracker_snapshot("peak").values()
        print(snapshot["Total"])


def step(model: nn.Module, optimizer: torch.optim.Optimizer, device: str) -> None:
    """A step, which frees gradients before it begins."""
    optimizer.zero_grad()
    tokens = torch.randint(0, VOCABULARY, (SEQUENCES, TOKENS), device=device)
    functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()


if __name__ == "__main__":
    main()
