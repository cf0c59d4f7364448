"""The options of the workload `llm`."""

from __future__ import annotations

from typing import ClassVar

import attrs
from astra_sim import option

from astra_sim_llm.models import Model

CAST_TO = {"fp8": "fp8", "mxfp8": "fp8", "nvfp4": "nvfp4"}
"""The element type of products by precision, if their inputs are cast."""
PRECISIONS = ("fp16", "bf16", *CAST_TO)
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe")
LORA_TARGETS = ("qkv", "projection", "fc1", "fc2")
CUDA_GRAPHS = ("none", "router", "attention", "iteration")
RECOMPUTE_MODULES = ("layernorm", "moe_act", "mla_up_proj", "mlp")
RECOMPUTE = ("none", "selective", "full", "full_early_stop")


@attrs.frozen
class Overlap:
    """Traffic that runs beside compute."""

    tp: str = option(
        "none",
        choices=("none", "gather", "backward", "userbuffers"),
        help="tensor-parallel collectives: beside nothing; gather: the saved input beside the input gradient, as in arXiv 2205.05198 for"
        " sequence parallelism; backward: those of input gradients beside the weight gradients, too; userbuffers: four fifths of each"
        " beside its product, too",
    )
    dp: bool = option(
        False, help="gradients are reduced beside the last backward passes, parameters gathered beside the first forward ones"
    )
    gathers: bool | None = option(
        None, help="parameters of ZeRO-1 and 2 are gathered beside the first forward passes; none: as dp sets it for gradients"
    )
    p2p: bool = option(False, help="the sender of activations goes on while they are under way")
    ep: bool = option(
        False, help="exchanges of experts run beside the compute of another micro-batch, in a forward pass joined to a backward one"
    )
    contention: float = option(0.0, minimum=0, maximum=1, help="share of the shorter of compute and collective by which compute slows"
                               " while a data-parallel or expert collective runs beside it; fits give 0.15 to 0.5")  # fmt: skip

    bucket: int | None = option(
        None,
        minimum=1,
        help="parameters of which gradients are reduced together, at least, block by block; none: 40 million, or a million for each replica"
        " (Megatron-core); DDP of PyTorch: 25 MiB of gradients",
        unit="parameters",
    )

    @property
    def gathers_run(self) -> bool:
        """Whether parameters are gathered beside forward passes: as gradients are reduced, unless `gathers` says."""
        return self.dp if self.gathers is None else self.gathers


@attrs.frozen
class RecomputeLayers:
    """Recomputation of some layers."""

    layers: int = option(minimum=0, help="number of layers of each chunk, the first ones, that are recomputed in full")


@attrs.frozen
class Lora:
    """Adapters beside frozen weights (arXiv 2106.09685)."""

    rank: int = option(16, minimum=1, help="columns of the first matrix of an adapter, rows of the second")
    targets: tuple[str, ...] = option(LORA_TARGETS, choices=LORA_TARGETS, help="products of a block that have adapters")

    def __attrs_post_init__(self) -> None:
        if not self.targets:
            raise ValueError(f"targets is empty; expected some of {', '.join(LORA_TARGETS)}")


@attrs.frozen
class LlmOptions:
    """Training or inference of a large language model. `docs/llm.md` has the sources of defaults."""

    removed_options: ClassVar[dict[str, str]] = {"rank_order": "ranks are always numbered tp-cp-ep-dp-pp, the first fastest"}

    model: str | Model = option(help="a model by name (gpt3-175b, megatron-1t, llama3-405b, mixtral-8x7b, qwen3-235b-a22b, deepseek-v3,"
                                " ...), the path of a Hugging Face config.json or of its folder, or a table of its dimensions",
                                path="name or path", names="astra_sim_llm.models:names")  # fmt: skip
    sequence: int | None = option(None, minimum=1, help="tokens of a sequence; none: the model's", unit="tokens")
    global_batch: int = option(minimum=1, help="sequences of an iteration, over all replicas", unit="sequences")
    micro_batch: int = option(1, minimum=1, help="sequences of a micro-batch", unit="sequences")
    precision: str = option("bf16", choices=PRECISIONS, help="type of the inputs of products; activations are fp16 or bf16")
    gradients: str = option("fp32", choices=("fp32", "same"), help="type in which gradients are kept and reduced; same: 16 bits")
    mode: str = option("train", choices=("train", "prefill", "decode"), help="an iteration of training, the pass over a prompt, or one"
                       " that makes tokens")  # fmt: skip
    decode_tokens: int = option(1, minimum=1, help="tokens that decoding makes one after another", unit="tokens")
    kv_length: int | None = option(None, minimum=1, help="tokens in the cache before decoding; none: sequence", unit="tokens")
    tensor_parallel: int = option(1, minimum=1, help="ranks that share each product", unit="ranks")
    sequence_parallel: bool | None = option(
        None, help="tensors between products are shared over the tensor ranks; none: if there are several"
    )
    pipeline_parallel: int = option(1, minimum=1, help="stages of the pipeline", unit="ranks")
    virtual_stages: int = option(1, minimum=1, help="chunks of layers of a stage, for the schedule interleaved", unit="chunks")
    context_parallel: int = option(1, minimum=1, help="ranks that share a sequence", unit="ranks")
    expert_parallel: int = option(1, minimum=1, help="ranks that share the experts", unit="ranks")
    expert_tensor_parallel: int | None = option(None, minimum=1, help="ranks that share an expert; none: tensor_parallel", unit="ranks")
    data_parallel: int | str = option("fill", help="replicas; fill: as many as the platform has", unit="ranks")
    zero: int = option(
        0, minimum=0, maximum=3, help="state that is sharded over replicas: 1 optimizer states, 2 gradients too, 3 weights too (FSDP)"
    )
    accumulation: str = option(
        "shards",
        choices=("shards", "whole"),
        help="gradients of ZeRO-2 and 3 between micro-batches: shards, for which each backward pass reduces and scatters them; whole,"
        " reduced once an iteration (with ZeRO-2 as ZeRO-1, with 3 as FSDP with no_sync)",
    )
    shard_group: int | None = option(
        None, minimum=1, help="ranks of a group that shards, the groups being replicas (HSDP); none: all", unit="ranks"
    )
    reduction: str = option(
        "shards",
        choices=("shards", "all"),
        help="which ranks get the sums of gradients: those that keep a shard of ZeRO-1 or 2, or all (DeepSpeed's bf16, InternEvo)",
    )
    update: str = option(
        "gather",
        choices=("gather", "broadcast"),
        help="how ranks get parameters that ZeRO-1 or 2 has updated: from one all-gather, or from broadcasts, in which each rank in turn"
        " sends whole tensors to all (InternEvo)",
    )
    nics: int | None = option(
        None, minimum=1, help="NICs of a node that broadcasts of parameters use; none: as many as the group has ranks in it", unit="NICs"
    )
    scatter: float = option(
        0.0,
        minimum=0,
        help="coefficient of variation, between nodes, of the time of the passes of an iteration: reductions of gradients wait for the"
        " slowest of the nodes that have replicas; measured: 0.006",
    )
    schedule: str | None = option(None, choices=SCHEDULES, help="order of passes; none: 1f1b, or interleaved with virtual stages")
    recompute: str | RecomputeLayers = option("none", help="none | selective | full | full_early_stop, or a table: {layers = N}")
    recompute_modules: tuple[str, ...] = option(
        (),
        choices=RECOMPUTE_MODULES,
        help="parts that are recomputed besides (Megatron-core): norms, activations of experts, the products from latents to queries, keys"
        " and values, feed-forward parts of layers without experts",
    )
    attention: str = option("flash", choices=("flash", "unfused"), help="one fused kernel, or products and softmax apart")
    fp8_attention: bool = option(False, help="queries, keys and values of fused attention are cast to fp8, where products have it")
    context: str = option("ring", choices=("ring", "ulysses"), help="context parallelism: keys and values go round, or heads are exchanged")
    overlap: Overlap = option(Overlap(), help="communication that runs beside compute")
    detail: str = option(
        "layer",
        choices=("kernel", "layer", "pass"),
        help="an operation a kernel, one between two collectives, or one a pass, which takes as long on a network without contention,"
        " if all ranks of a stage are in step",
    )
    stages: str | tuple[int, ...] = option("even", help="layers of each chunk: even, embedding_as_layer (embedding and head count as one"
                                           " each), weighted (by time), or a list")  # fmt: skip
    expert_skew: float = option(1.0, minimum=1, help="tokens of the busiest expert rank over the mean")
    capacity_factor: float | None = option(None, above=0, help="tokens for which an expert has room over the mean; none: all that come")
    node_limit: int | None = option(None, minimum=1, help="nodes to which a token is sent at most; none: no limit", unit="nodes")
    expert_groups: tuple[int, int] | None = option(
        None, minimum=1, help="groups of experts, and in how many of them those of a token are (DeepSeek-V3: [8, 4]); none: in any"
    )
    optimizer_bytes: float | None = option(
        None, above=0, help="traffic of a parameter that is updated; none: 58 with fp16 (loss scaling), else 46", unit="bytes"
    )
    fused_gradients: bool = option(True, help="weight gradients are added to those before by the product itself; false: by another kernel")
    collective_buffers: str = option(
        "views",
        choices=("views", "copies"),
        help="gradients and gathered weights are views of buffers of collectives (Megatron-core), or kernels copy them: 16-bit gradients"
        " into buffers that are reduced (DDP and FSDP2 of PyTorch), weights into those that are gathered and out of them (FSDP2)",
    )
    saved_inputs: str = option(
        "shards",
        choices=("shards", "whole"),
        help="inputs of products that sequence parallelism keeps for backward passes: shards, which are gathered again (Megatron-core), or"
        " whole ones (DTensor of PyTorch)",
    )
    dispatch: str = option(
        "experts",
        choices=("experts", "ranks", "nodes"),
        help="how often a token is sent: once for each of its experts; once for each rank that has some of them; or once for each node, and"
        " there once for each rank (DeepEP, HybridEP)",
    )
    fused_experts: bool = option(False, help="activations of experts, and the casts of their results, are part of the products before them")
    fused_loss: bool = option(False, help="the loss is one fused kernel over 16-bit logits, not several in fp32")
    cuda_graphs: str = option(
        "none",
        choices=CUDA_GRAPHS,
        help="kernels that the host does not launch one by one, if the compute model knows the time of a launch: those of routers,"
        " of attention and routers, or of the whole iteration",
    )
    lora: Lora | None = option(None, help="train adapters beside frozen weights; none: train all weights")
    causal_flops: bool = option(True, help="model FLOPs count half of the attention square, which a causal mask leaves; false: all of it")
    check_memory: bool = option(True, help="refuse setups that do not fit the memory of the compute model's device, if it is known")
    memory_margin: float | None = option(
        None,
        minimum=0,
        help="memory of the device that is left free for uncounted uses: driver, communicators, fragmentation; none: as the compute"
        " model sets for its device",
        unit="GiB",
    )
