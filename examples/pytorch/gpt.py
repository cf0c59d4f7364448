"""Trains a small GPT as scripts for GPUs do; `--parallel` says how it is distributed. Nothing in it knows of astra."""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

VOCABULARY = 1000


class Block(nn.Module):
    """Attention and a multilayer perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns what has the shape of x: (sequences, tokens, width)."""
        sequences, tokens, _ = x.shape
        heads = [each.view(sequences, tokens, self.heads, -1).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1)]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(sequences, tokens, -1)
        x = x + self.project(mixed)
        return x + self.down(functional.gelu(self.up(self.norm_mlp(x))))


class Gpt(nn.Module):
    """A decoder."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of the next token."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def distributed(model: nn.Module, parallel: str, tensor_parallel: int) -> nn.Module:
    """The model as one rank has it."""
    if parallel == "ddp":
        return nn.parallel.DistributedDataParallel(model, device_ids=[int(os.environ["LOCAL_RANK"])])
    if parallel == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=True)
    if parallel in ("fsdp", "fsdp_tp"):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        size = tensor_parallel if parallel == "fsdp_tp" else 1
        mesh = init_device_mesh("cuda", (dist.get_world_size() // size, size), mesh_dim_names=("dp", "tp"))
        for layer in model.layers:
            if size > 1:
                parallelize_module(layer, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
            fully_shard(layer, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
    return model


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parallel", choices=["none", "ddp", "fsdp1", "fsdp", "fsdp_tp"], default="fsdp")
    for name, default in (("layers", 2), ("width", 256), ("heads", 4), ("tokens", 128), ("sequences", 2), ("tensor-parallel", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    model = distributed(Gpt(options.layers, options.width, options.heads).to(device), options.parallel, options.tensor_parallel)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        tokens = torch.randint(0, VOCABULARY, (options.sequences, options.tokens), device=device)
        loss = functional.cross_entropy(model(tokens).view(-1, VOCABULARY), tokens.view(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
