"""Trains blocks of a GPT as Megatron-LM does, in plain PyTorch, or of a Llama; `--parallel` says how. Nothing in it knows of astra."""

import argparse
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module
from torch.nn import functional


class Block(nn.Module):
    """Attention and a perceptron, each behind a norm. A GPT has biases and GELU, a Llama groups of heads, rotated, and a gate."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__()
        width, inner, llama = options.width, options.inner, options.model == "llama"
        self.head_size, self.is_gated = width // options.heads, llama
        outputs = (options.heads + 2 * options.key_heads) * self.head_size
        self.shares = [options.heads * self.head_size, options.key_heads * self.head_size, options.key_heads * self.head_size]
        norm: Callable[[int], nn.Module] = nn.RMSNorm if llama else nn.LayerNorm
        self.norm, self.norm_mlp = norm(width), norm(width)
        self.qkv, self.project = nn.Linear(width, outputs, bias=not llama), nn.Linear(width, width, bias=not llama)
        self.up, self.down = nn.Linear(width, (1 + llama) * inner, bias=not llama), nn.Linear(inner, width, bias=not llama)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns what has the shape of x: (tokens, sequences, width); with sequence parallelism a part of the tokens."""
        qkv = self.qkv(self.norm(x))
        tokens, sequences, outputs = qkv.shape
        shares = [share * outputs // sum(self.shares) for share in self.shares]  # of a rank
        query, key, value = (each.view(tokens, sequences, -1, self.head_size) for each in qkv.split(shares, -1))
        if self.is_gated:
            query, key = rotated(query), rotated(key)
        heads = [each.permute(1, 2, 0, 3) for each in (query, key, value)]
        mixed = functional.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=shares[0] > shares[1])
        x = x + self.project(mixed.permute(2, 0, 1, 3).reshape(tokens, sequences, -1))
        hidden = self.up(self.norm_mlp(x))
        if self.is_gated:
            gate, hidden = hidden.chunk(2, -1)
            return x + self.down(functional.silu(gate) * hidden)
        return x + self.down(functional.gelu(hidden))


def rotated(x: torch.Tensor) -> torch.Tensor:
    """Rotary positions of (tokens, sequences, heads, head_size), as Llama's code has them."""
    angles = torch.outer(torch.arange(x.shape[0], device=x.device), 10000.0 ** -torch.linspace(0, 1, x.shape[3] // 2, device=x.device))
    turns = torch.polar(torch.ones_like(angles), angles)[:, None, None]
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


class Gpt(nn.Module):
    """Some blocks of a decoder, before them the embedding, and behind them the head."""

    def __init__(self, options: argparse.Namespace, layers: int, is_first: bool = True, is_last: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(options.vocabulary, options.width) if is_first else None
        self.positions = nn.Embedding(options.tokens, options.width) if is_first and options.model == "gpt" else None
        self.layers = nn.ModuleList(Block(options) for _ in range(layers))
        self.norm = (nn.RMSNorm if options.model == "llama" else nn.LayerNorm)(options.width) if is_last else None
        self.head = nn.Linear(options.width, options.vocabulary, bias=False) if is_last else None
        self.first_token = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the next token, (tokens, sequences, vocabulary), of (sequences, tokens), or what the next stage needs."""
        if self.embedding is not None:
            x = self.embedding(x.t())
        if self.positions is not None:
            x = x + self.positions(torch.arange(self.first_token, self.first_token + x.shape[0], device=x.device))[:, None]
        for layer in self.layers:
            x = layer(x)
        return x if self.head is None or self.norm is None else self.head(self.norm(x))


class Loss(torch.autograd.Function):
    """The cross-entropy of scores that ranks of a group share by vocabulary, operator by operator as in Megatron-LM."""

    @staticmethod
    def forward(context: Any, scores: torch.Tensor, targets: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
        """The loss of each target."""
        scores, size = scores.float(), scores.shape[-1]
        most = scores.max(-1).values
        if group is not None:
            dist.all_reduce(most, dist.ReduceOp.MAX, group)
        scores.sub_(most[:, None])
        local = targets - size * (0 if group is None else dist.get_rank(group))
        outside = (local < 0) | (local >= size)
        local = local.masked_fill(outside, 0)[:, None]
        chosen = scores.gather(-1, local)[:, 0].masked_fill(outside, 0)
        if group is not None:
            dist.all_reduce(chosen, group=group)
        total = scores.exp_().sum(-1)
        if group is not None:
            dist.all_reduce(total, group=group)
        context.save_for_backward(scores.div_(total[:, None]), local, outside)
        return total.log() - chosen

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """The gradient of the scores, in 16 bits."""
        probabilities, local, outside = context.saved_tensors
        probabilities.scatter_add_(-1, local, (outside.float() - 1)[:, None])
        return probabilities.mul_(gradient[:, None]).to(torch.bfloat16), None, None


class MainOptimizer(torch.optim.Optimizer):
    """Adam on fp32 copies of 16-bit parameters, with gradients clipped by their norm over some groups of ranks."""

    def __init__(self, parameters: list[nn.Parameter], groups: list[dist.ProcessGroup], replicas: dist.ProcessGroup | None) -> None:
        self.parameters, self.groups, self.replicas = parameters, groups, replicas
        self.main = [local(each.detach()).float() for each in self.parameters]
        self.inner = torch.optim.AdamW(self.main, lr=1e-4, fused=True)
        super().__init__(self.parameters, {})

    def step(self) -> None:
        """Update the parameters."""
        with torch.no_grad():
            self._update()

    def _update(self) -> None:
        for main, each in zip(self.main, gradients(self.parameters, self.replicas), strict=True):
            main.grad = each.float()
        clip([each.grad for each in self.main], self.groups)
        self.inner.step()
        torch._foreach_copy_([local(each) for each in self.parameters], self.main)


def clip(gradients: list[torch.Tensor], groups: list[dist.ProcessGroup]) -> None:
    """Scale gradients such that their norm over groups of ranks is 1 at most."""
    total = torch.stack(torch._foreach_norm(gradients)).square().sum()
    for group in groups:
        dist.all_reduce(total, group=group)
    torch._foreach_mul_(gradients, (1 / (total.sqrt() + 1e-6)).clamp(max=1.0))


def gradients(parameters: list[nn.Parameter], replicas: dist.ProcessGroup | None = None) -> list[torch.Tensor]:
    """The gradients of the parts of parameters that this rank has, the mean over replicas.

    Those of norms are sums over ranks that have other tokens; that of a shared embedding is whole at first.
    """
    given = [(each, each.grad) for each in parameters if each.grad is not None]
    parts = [each for _, each in given if isinstance(each, DTensor) and each.placements[0].is_partial()]
    sums = reduce_together([local(each) for each in parts], dist.ReduceOp.SUM, parts[0].device_mesh.get_group()) if parts else []
    whole = dict(zip(map(id, parts), sums, strict=True))
    mine = [whole[id(each)] if id(each) in whole else local(placed_as(one, each)) for one, each in given]
    return mine if replicas is None else reduce_together(mine, dist.ReduceOp.AVG, replicas)


def placed_as(parameter: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """A gradient, shared by ranks as its parameter is."""
    return gradient.redistribute(placements=parameter.placements) if isinstance(parameter, DTensor) else gradient


def reduce_together(tensors: list[torch.Tensor], how: dist.ReduceOp, group: dist.ProcessGroup) -> list[torch.Tensor]:
    """Tensors reduced in one buffer."""
    buffer = torch.cat([each.flatten() for each in tensors])
    dist.all_reduce(buffer, how, group)
    return [each.view_as(one) for each, one in zip(buffer.split([each.numel() for each in tensors]), tensors, strict=True)]


def local(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that this rank has."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def split(model: Gpt, mesh: DeviceMesh, by_sequence: bool) -> None:
    """Let the ranks of a mesh share products, and with `by_sequence` what is between them."""
    between = Shard(0) if by_sequence else Replicate()
    plan = {"qkv": ColwiseParallel(), "project": RowwiseParallel(output_layouts=between)}
    plan |= {"up": ColwiseParallel(), "down": RowwiseParallel(output_layouts=between)}
    if by_sequence:
        plan |= {
            "norm": SequenceParallel(sequence_dim=0, use_local_output=True),
            "norm_mlp": SequenceParallel(sequence_dim=0, use_local_output=True),
        }
        plan |= {"qkv": ColwiseParallel(input_layouts=between), "up": ColwiseParallel(input_layouts=between)}
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)
    ends = {"embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=between)}
    ends |= {"head": ColwiseParallel(input_layouts=between, output_layouts=Shard(-1))}
    ends |= {"norm": SequenceParallel(sequence_dim=0, use_local_output=True)} if by_sequence else {}
    parallelize_module(model, mesh, ends)


def options_of() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["gpt", "llama"], default="gpt")
    parser.add_argument("--parallel", choices=["ddp", "fsdp", "tp", "pp"], default="ddp")
    parser.add_argument("--sequence-parallel", action="store_true")
    numbers = {"layers": 4, "width": 4096, "heads": 32, "key-heads": 32, "inner": 16384, "vocabulary": 51200, "tokens": 2048}
    for name, default in (numbers | {"sequences": 4, "micro-batches": 1, "ranks": 8}).items():
        parser.add_argument(f"--{name}", type=int, default=default, help="of the model axis (tp, pp)" if name == "ranks" else None)
    return parser.parse_args()


def main() -> None:
    """Train."""
    options = options_of()
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    inner = options.ranks if options.parallel in ("tp", "pp") else 1
    mesh = init_device_mesh("cuda", (dist.get_world_size() // inner, inner), mesh_dim_names=("dp", "model"))
    replicas, shares = mesh["dp"], mesh["model"]
    group = shares.get_group() if options.parallel == "tp" else None
    stage, stages = (shares.get_local_rank(), inner) if options.parallel == "pp" else (0, 1)
    dtype = torch.float32 if options.parallel == "fsdp" else torch.bfloat16
    model: nn.Module = Gpt(options, options.layers // stages, stage == 0, stage == stages - 1).to(device, dtype)
    if options.parallel == "fsdp":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        begin = [each for each in (model.embedding, model.positions) if each is not None]
        for each in (begin, *model.layers):
            fully_shard(each, mesh=replicas, mp_policy=policy)
        fully_shard([model.norm, model.head], mesh=replicas, mp_policy=policy, reshard_after_forward=False)
        fully_shard(model, mesh=replicas, mp_policy=policy)
    if options.parallel == "tp":
        split(model, shares, options.sequence_parallel)
        if options.sequence_parallel:
            model.first_token = shares.get_local_rank() * options.tokens // inner
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True) if options.parallel == "fsdp" else None
    by_hand = options.parallel != "ddp" and replicas.size() > 1
    optimizer = optimizer or MainOptimizer(parameters, [shares.get_group()] if inner > 1 else [], replicas.get_group() if by_hand else None)
    if options.parallel == "ddp":
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index], gradient_as_bucket_view=True)

    def loss_of(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        losses: torch.Tensor = Loss.apply(scores.flatten(0, -2), targets.t().flatten(), group)  # type: ignore[no-untyped-call]
        return losses.mean()

    if options.parallel == "pp":
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        part = PipelineStage(model, stage, stages, device, group=shares.get_group())
        schedule = Schedule1F1B(part, options.micro_batches, loss_of, scale_grads=False)
    shape = options.sequences * options.micro_batches, options.tokens
    for _ in range(3):
        tokens = torch.randint(0, options.vocabulary, shape, device=device)
        if options.parallel == "pp":
            schedule.step(*([tokens] if stage == 0 else []), target=tokens if stage == stages - 1 else None, return_outputs=False)
        else:
            for one in tokens.chunk(options.micro_batches):
                loss_of(model(one), one).backward()
        if options.parallel == "fsdp":
            clip(gradients(parameters), [replicas.get_group()])
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
