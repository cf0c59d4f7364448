"""Options that nothing would read: who sets them expects something that does not happen, so they are refused."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from astra_sim import InputError

from astra_sim_llm.models import Model
from astra_sim_llm.options import LlmOptions, Overlap
from astra_sim_llm.parallelism import Parallelism

_OF_TRAINING = ("schedule", "zero", "accumulation", "reduction", "recompute", "gradients", "fused_gradients", "optimizer_bytes")
_OF_TRAINING_OVERLAP = ("dp", "gathers", "p2p", "ep", "contention")
_OF_DECODING = ("decode_tokens", "kv_length")
_OF_EXPERTS = ("expert_tensor_parallel", "expert_skew", "capacity_factor", "node_limit", "dispatch", "fused_experts")


def check_all_used(options: LlmOptions, model: Model, parallel: Parallelism) -> None:
    """Raise InputError for an option that is set and has no effect beside the others, with what it would need."""
    for name, needs in _unused(options, model, parallel):
        value = attrs.asdict(options)
        for key in name.split("."):
            value = value[key]
        raise InputError(f"{name} is {str(value).lower() if isinstance(value, bool) else value}, which has no effect {needs}")


def _unused(options: LlmOptions, model: Model, parallel: Parallelism) -> Iterator[tuple[str, str]]:
    """Options without effect, with the reason."""
    given = set(_set(LlmOptions, options))
    overlap = set(_set(Overlap, options.overlap))
    if options.mode != "train":
        why = f"where mode is {options.mode}; expected mode = train"
        yield from ((name, why) for name in _OF_TRAINING if name in given)
        yield from ((f"overlap.{name}", why) for name in _OF_TRAINING_OVERLAP if name in overlap)
        if options.overlap.tp == "backward":
            yield "overlap.tp", why
        if options.fused_loss:
            yield "fused_loss", why
    if options.mode != "decode":
        yield from ((name, f"where mode is {options.mode}; expected mode = decode") for name in _OF_DECODING if name in given)
    elif options.sequence_parallel:
        yield "sequence_parallel", "where mode is decode: a token cannot be shared; expected false"
    if not model.experts:
        why = "on a model without experts"
        yield from ((name, why) for name in _OF_EXPERTS if name in given)
        if options.overlap.ep:
            yield "overlap.ep", why
        if options.cuda_graphs == "router":
            yield "cuda_graphs", why
    if options.fp8_attention and options.precision not in ("fp8", "mxfp8"):
        yield "fp8_attention", f"with precision {options.precision}; expected fp8 or mxfp8"
    if options.fp8_attention and options.attention == "unfused":
        yield "fp8_attention", "with attention unfused; expected flash"
    if options.node_limit is not None and parallel.expert == 1:
        yield "node_limit", "where expert_parallel is 1; expected several ranks"
    if options.dispatch == "ranks" and parallel.expert == 1:
        yield "dispatch", "where expert_parallel is 1; expected several ranks"
    if options.overlap.ep and parallel.expert == 1:
        yield "overlap.ep", "where expert_parallel is 1; expected several ranks"
    if options.capacity_factor is not None and "expert_skew" in given:
        yield "expert_skew", "beside capacity_factor, which drops what is over it; expected one of them"
    if options.reduction == "all" and options.zero not in (1, 2):
        yield "reduction", f"where zero is {options.zero}; expected 1 or 2"
    if "accumulation" in given and options.zero < 2:
        yield "accumulation", f"where zero is {options.zero}; expected 2 or 3"
    if options.overlap.gathers is not None and options.zero not in (1, 2):
        yield "overlap.gathers", f"where zero is {options.zero}; expected 1 or 2"
    if options.context == "ulysses" and parallel.context == 1:
        yield "context", "where context_parallel is 1; expected several ranks"
    if options.overlap.contention and not (options.overlap.dp or options.overlap.ep):
        yield "overlap.contention", "where neither overlap.dp nor overlap.ep is true"


def _set(cls: type[attrs.AttrsInstance], options: attrs.AttrsInstance) -> Iterator[str]:
    """Options that differ from their defaults."""
    return (field.name for field in attrs.fields(cls) if getattr(options, field.name) != field.default)
