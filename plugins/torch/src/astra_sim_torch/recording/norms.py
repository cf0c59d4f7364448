"""The root-mean-square norm as GPUs run it: one kernel forward, `_fused_rms_norm`, which torch has for CPUs only in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate

_NAMESPACE = "astra"
_in_parts = torch.rms_norm


def register() -> None:
    """Make the operators known: they have shapes and gradients, and no numbers."""
    library = torch.library
    library.define(f"{_NAMESPACE}::_fused_rms_norm", "(Tensor input, int[] shape, Tensor? weight) -> (Tensor, Tensor)")
    library.define(
        f"{_NAMESPACE}::_fused_rms_norm_backward",
        "(Tensor gradient, Tensor input, Tensor deviation, Tensor? weight, int[] shape, bool[2] mask) -> (Tensor, Tensor)",
    )
    library.register_fake(f"{_NAMESPACE}::_fused_rms_norm", _forward)
    library.register_fake(f"{_NAMESPACE}::_fused_rms_norm_backward", _backward)
    library.register_autograd(f"{_NAMESPACE}::_fused_rms_norm", _gradients, setup_context=_save)
    torch.rms_norm = rms_norm  # a mode for functions of torch would miss those that a backward pass repeats


def _forward(input: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [*input.shape[: input.dim() - len(shape)], *(1 for _ in shape)]
    return torch.empty_like(input), input.new_empty(rows, dtype=torch.float32)


def _backward(
    gradient: torch.Tensor,
    input: torch.Tensor,
    deviation: torch.Tensor,
    weight: torch.Tensor | None,
    shape: Sequence[int],
    mask: Sequence[bool],
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(input) if mask[0] else input.new_empty([0]), input.new_empty(list(shape) if mask[1] else [0])


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    input, ctx.shape, weight = inputs
    ctx.save_for_backward(input, output[1], weight)
    ctx.set_materialize_grads(False)


def _gradients(context: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, None, Any]:
    input, deviation, weight = context.saved_tensors
    mask = context.needs_input_grad[0], context.needs_input_grad[2]
    of_input, of_weight = getattr(torch.ops, _NAMESPACE)._fused_rms_norm_backward(gradient, input, deviation, weight, context.shape, mask)
    return of_input if mask[0] else None, None, of_weight if mask[1] else None


def rms_norm(input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None = None, eps: float | None = None) -> Any:
    """The norm of a tensor, or of the part of a DTensor that this rank has. What GPUs run in parts, too, is left to torch."""
    if weight is not None and weight.dtype != input.dtype:
        return _in_parts(input, normalized_shape, weight, eps)
    if not isinstance(input, DTensor):
        return getattr(torch.ops, _NAMESPACE)._fused_rms_norm(input, normalized_shape, weight)[0]
    whole = input.dim() - len(normalized_shape)
    if any(each.is_partial() or (each.is_shard() and each.dim >= whole) for each in input.placements):  # type: ignore[attr-defined]
        return _in_parts(input, normalized_shape, weight, eps)
    if isinstance(weight, DTensor):
        sums = [Replicate() if each.is_replicate() else Partial() for each in input.placements]
        weight = weight.to_local(grad_placements=sums)
    return DTensor.from_local(rms_norm(input.to_local(), normalized_shape, weight, eps), input.device_mesh, input.placements)
