"""Options that nothing would read: who sets them expects something that does not happen, so they are refused."""

from __future__ import annotations

from collections.abc import Container, Iterator

import attrs
from astra_sim import InputError

from astra_sim_llm.models import Model
from astra_sim_llm.options import CAST_TO, LlmOptions, Overlap
from astra_sim_llm.parallelism import Parallelism

_OF_TRAINING = (
    *(
        "schedule",
        "zero",
        "accumulation",
        "reduction",
        "update",
        "scatter",
        "recompute",
        "recompute_modules",
        "gradients",
        "fused_gradients",
        "collective_buffers",
        "saved_inputs",
        "optimizer_bytes",
    ),
    *("overlap.dp", "overlap.gathers", "overlap.bucket", "overlap.p2p", "overlap.ep", "overlap.contention"),
)
_OF_DECODING = ("decode_tokens", "kv_length")
_OF_EXPERTS = ("expert_tensor_parallel", "expert_skew", "capacity_factor", "node_limit", "dispatch", "expert_groups", "fused_experts")


def check_all_used(options: LlmOptions, model: Model, parallel: Parallelism) -> None:
    """Raise InputError for an option that is set and has no effect beside the others, with its requirement."""
    for name, needs in _unused(options, model, parallel):
        value = attrs.asdict(options)
        for key in name.split("."):
            value = value[key]
        raise InputError(f"{name} is {str(value).lower() if isinstance(value, bool) else value}, which has no effect {needs}")


Unused = Iterator[tuple[str, str]]
"""Options without effect, each with its requirement."""


def _unused(options: LlmOptions, model: Model, parallel: Parallelism) -> Unused:
    """Options without effect, those that a mode or a model rules out first: their other requirements do not matter then."""
    result = {*_set(LlmOptions, options), *(f"overlap.{name}" for name in _set(Overlap, options.overlap))}
    yield from _beside_the_mode(options, result)
    if not model.experts:
        yield from _without_experts(options, result)
    yield from _of_fp8_attention(options)
    yield from _of_one_rank(options, parallel)
    yield from _beside_others(options, result, model)


def _beside_the_mode(options: LlmOptions, names: Container[str]) -> Unused:
    """Options of training in inference, and those of decoding elsewhere."""
    why = f"where mode is {options.mode}; expected mode = "
    if options.mode != "train":
        yield from ((name, f"{why}train") for name in _OF_TRAINING if name in names)
        if options.overlap.tp == "backward":
            yield "overlap.tp", f"{why}train"
        if options.fused_loss:
            yield "fused_loss", f"{why}train"
        if options.lora is not None:
            yield "lora.rank", f"{why}train"
    if options.mode != "decode":
        yield from ((name, f"{why}decode") for name in _OF_DECODING if name in names)
    elif options.sequence_parallel:
        yield "sequence_parallel", "where mode is decode: a token cannot be shared; expected false"


def _without_experts(options: LlmOptions, names: Container[str]) -> Unused:
    """Options of experts on a model that has none."""
    why = "on a model without experts"
    yield from ((name, why) for name in _OF_EXPERTS if name in names)
    if options.overlap.ep:
        yield "overlap.ep", why
    if options.cuda_graphs == "router":
        yield "cuda_graphs", why


def _of_fp8_attention(options: LlmOptions) -> Unused:
    """Attention in fp8 beside products or kernels that cannot have it."""
    if options.fp8_attention and options.precision not in CAST_TO:
        yield "fp8_attention", f"with precision {options.precision}; expected fp8, mxfp8 or nvfp4"
    if options.fp8_attention and options.attention == "unfused":
        yield "fp8_attention", "with attention unfused; expected flash"


def _of_one_rank(options: LlmOptions, parallel: Parallelism) -> Unused:
    """Options of exchanges over an axis that has one rank."""
    used = {
        "node_limit": options.node_limit is not None,
        "dispatch": options.dispatch != "experts",
        "overlap.ep": options.overlap.ep,
    }
    if parallel.expert == 1:
        yield from ((name, "where expert_parallel is 1; expected several ranks") for name, is_chosen in used.items() if is_chosen)
    if options.scatter and parallel.data == 1:
        yield "scatter", "where data_parallel is 1; expected several replicas"
    if options.collective_buffers == "copies" and parallel.data == 1:
        yield "collective_buffers", "where data_parallel is 1; expected several replicas"
    if options.saved_inputs == "whole" and not (parallel.sequence and parallel.tensor > 1):
        yield "saved_inputs", "without sequence parallelism of several tensor ranks"
    if options.context == "ulysses" and parallel.context == 1:
        yield "context", "where context_parallel is 1; expected several ranks"


def _of_recomputed_modules(options: LlmOptions, model: Model) -> Unused:
    """Recomputed modules that the model does not have, or that are recomputed with all others."""
    if options.recompute_modules and options.recompute not in ("none", "selective"):
        yield "recompute_modules", "beside full recomputation; expected recompute = none or selective"
    has = {"mla_up_proj": model.mla is not None, "moe_act": bool(model.experts), "mlp": model.has_dense_layers}
    for module in options.recompute_modules:
        if not has.get(module, True):
            yield "recompute_modules", f"in {module}, which the model does not have"
    if "moe_act" in options.recompute_modules and options.fused_experts:
        yield "recompute_modules", "in moe_act, which is part of the products before (fused_experts)"


def _beside_others(options: LlmOptions, names: Container[str], model: Model) -> Unused:
    """Options that others leave without effect."""
    if options.capacity_factor is not None and "expert_skew" in names:
        yield "expert_skew", "beside capacity_factor, which drops tokens over it; expected one of them"
    if options.reduction == "all" and options.zero not in (1, 2):
        yield "reduction", f"where zero is {options.zero}; expected 1 or 2"
    if options.expert_groups is not None and options.dispatch == "experts":
        yield "expert_groups", "where dispatch is experts; expected ranks or nodes"
    if options.update == "broadcast" and (options.zero not in (1, 2) or options.overlap.gathers_run):
        yield "update", "unless zero is 1 or 2 and overlap.gathers is false"
    if options.nics is not None and options.update != "broadcast":
        yield "nics", f"where update is {options.update}; expected broadcast"
    yield from _of_recomputed_modules(options, model)
    if "accumulation" in names and options.zero < 2:
        yield "accumulation", f"where zero is {options.zero}; expected 2 or 3"
    if options.overlap.gathers is not None and options.zero not in (1, 2):
        yield "overlap.gathers", f"where zero is {options.zero}; expected 1 or 2"
    if options.overlap.bucket is not None and (options.zero == 3 or not (options.overlap.dp or options.overlap.gathers_run)):
        yield "overlap.bucket", "unless overlap.dp is true and zero at most 2"
    if options.overlap.contention and not (options.overlap.dp or options.overlap.ep):
        yield "overlap.contention", "where neither overlap.dp nor overlap.ep is true"


def _set(cls: type[attrs.AttrsInstance], options: attrs.AttrsInstance) -> Iterator[str]:
    """Options that differ from their defaults."""
    return (field.name for field in attrs.fields(cls) if getattr(options, field.name) != field.default)
