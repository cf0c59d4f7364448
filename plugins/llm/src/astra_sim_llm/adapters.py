"""LoRA (arXiv 2106.09685): adapters of rank r beside frozen products, `y = x W + (alpha / r) (x A) B`, of which A and B alone are trained.

An adapter of a (T x K) times (K x N) product has x A (T x K x r), (x A) B (T x r x N) and a kernel for the scaled sum. Its backward
pass has d(x A) (T x N x r), d(x A) A^T (T x r x K), which a kernel adds to the input gradient, and the weight gradients dB (N x T x r)
and dA (r x T x K). They are in 16 bits whatever the precision of the product, as in Megatron-Bridge, whose names linear_qkv, linear_proj,
linear_fc1 and linear_fc2 are qkv, projection, fc1 and fc2 here.

Tensor ranks share an adapter as its product: by columns, A is whole on each rank and B has the rank's columns; by rows, A has the rank's
rows and B is whole, so that the exchange of the product also sums the adapter's results. Whole matrices have a gradient on each rank, which
are summed once an iteration. (ParallelLinearAdapter of Megatron-Bridge splits both matrices and exchanges x A instead, or the result.)

Frozen products have no weight gradients and no transposed casts. Norms, biases, embedding and head are frozen, too. The input gradient of
the first block is computed, though nothing needs it.
"""

from __future__ import annotations

import attrs
from astra_sim import InputError
from astra_sim.shapes import Elementwise, Gemm

from astra_sim_llm.counts import WHOLE, ParameterCounts, core_flops, forward_flops, key_heads_of_rank, share
from astra_sim_llm.models import Model
from astra_sim_llm.options import Lora
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.steps import LlmRun

BY_COLUMNS = ("qkv", "fc1")
"""Targets whose outputs are shared by tensor ranks; of the others it is the inputs."""

# -- Kernels -----------------------------------------------------------------------------------------------------------


@attrs.frozen
class AdapterKernels:
    """The kernels of an adapter on a rank: x A, (x A) B with the sum, its part of the input gradient with the sum, weight gradients."""

    down: tuple[LlmRun, ...] = ()
    up: tuple[LlmRun, ...] = ()
    inputs: tuple[LlmRun, ...] = ()
    weights: tuple[LlmRun, ...] = ()


NO_ADAPTER = AdapterKernels()


def adapter_kernels(name: str, tokens: int, n: int, k: int, rank: int, element_type: str, adds_fp32: bool) -> AdapterKernels:
    """The kernels of the adapter of a (tokens x k) by (k x n) product; `adds_fp32`: weight gradients are added to fp32 ones."""
    adapter = f"{name} adapter"

    def product(m: int, n: int, k: int) -> LlmRun:
        return LlmRun(adapter, Gemm(m=m, n=n, k=k, element_type=element_type))

    def weight(m: int, n: int) -> LlmRun:
        return LlmRun(adapter, Gemm(m=m, n=n, k=tokens, element_type=element_type, accumulate_fp32=adds_fp32), weight=True)

    def added(elements: int) -> LlmRun:
        return LlmRun(adapter, Elementwise(read_bytes=4 * elements, write_bytes=2 * elements))

    return AdapterKernels(
        down=(product(tokens, rank, k),),
        up=(product(tokens, n, rank), added(tokens * n)),
        inputs=(product(tokens, rank, n), product(tokens, k, rank), added(tokens * k)),
        weights=(weight(n, rank), weight(rank, k)),
    )


# -- Counts ------------------------------------------------------------------------------------------------------------


def target_sizes(model: Model, lora: Lora, parallel: Parallelism = WHOLE) -> dict[str, tuple[int, int]]:
    """The products of a block that have adapters, each as (n, k) on a rank: its outputs and inputs."""
    heads, width = share(model.heads, parallel.tensor), share(model.width, parallel.tensor)
    sizes = {
        "qkv": ((heads + 2 * key_heads_of_rank(model, parallel)) * model.head_size, model.hidden),
        "projection": (model.hidden, heads * model.value_size),
        "fc1": ((model.branches - 1) * width, model.hidden),
        "fc2": (model.hidden, width),
    }
    return {name: size for name, size in sizes.items() if name in lora.targets}


def adapter_parameters(model: Model, lora: Lora | None, parallel: Parallelism = WHOLE) -> ParameterCounts:
    """Parameters of the adapters of a block, r (n + k) each, or of a rank's share of them."""
    if lora is None:
        return ParameterCounts()
    return ParameterCounts(adapters=sum(lora.rank * (n + k) for n, k in target_sizes(model, lora, parallel).values()))


def whole_parameters(model: Model, lora: Lora) -> int:
    """Those of a block that each tensor rank has whole: one matrix of an adapter, r x hidden."""
    return lora.rank * model.hidden * len(target_sizes(model, lora))


def trained(counts: ParameterCounts, lora: Lora | None) -> ParameterCounts:
    """Those among parameters that are trained: with LoRA the adapters alone."""
    return counts if lora is None else ParameterCounts(adapters=counts.adapters)


def lora_flops(model: Model, lora: Lora, sequence: int, causal: bool = True) -> int:
    """Model FLOPs of a token: frozen products forward and for their input gradients, attention cores and adapters as in training.

    Megatron-Bridge counts so, but for adapters, which it leaves out (`flop_utils.py`).
    """
    layers = range(model.layers + model.mtp_layers)
    core = sum(core_flops(model, layer, sequence, causal) for layer in layers)
    adapters = len(layers) * adapter_parameters(model, lora).total
    return 2 * forward_flops(model, sequence, causal) + core + 6 * adapters


def check_lora(lora: Lora, model: Model) -> None:
    """Raise InputError for targets that the model has not, or a rank beyond their sizes."""
    experts = [name for name in ("fc1", "fc2") if name in lora.targets]
    if model.experts and experts:
        raise InputError(f"lora.targets has {' and '.join(experts)}, and the model has experts; expected qkv or projection alone")
    if model.mla is not None and "qkv" in lora.targets:
        raise InputError("lora.targets has qkv, and the model has latent attention; expected projection alone")
    for name, size in target_sizes(model, lora).items():
        if lora.rank > min(size):
            raise InputError(f"lora.rank is {lora.rank}; expected at most {min(size)}, the smaller side of the weights of {name}")
