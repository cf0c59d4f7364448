"""`torch.compile`: what it would compile runs as it is written, and the recording says so."""

from __future__ import annotations

import os
from typing import Any

import torch

from .events import TorchEvents


def run_eagerly(events: TorchEvents) -> None:
    """Let `torch.compile` return what it is given, with a note about the first call."""
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    warned = False

    def compile(model: Any = None, **_: Any) -> Any:
        nonlocal warned
        if not warned:
            warned = True
            events.notes.append(
                f"{events.line()}: torch.compile is recorded as eager PyTorch: kernels that it fuses are apart, with their memory traffic "
                "and activations, and neither CUDA graphs nor its order of collectives are there"
            )
        if model is None:
            return lambda function: function
        if isinstance(model, torch.nn.Module):
            model.__dict__["_orig_mod"] = model  # not a submodule, which assignment would make of it
        return model

    torch.compile = compile  # type: ignore[assignment]
