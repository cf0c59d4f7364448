"""Inference serving: `serve` simulates an experiment, request by request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astra_sim_serving.serving import serve

__all__ = ["serve"]


def __getattr__(name: str) -> object:
    if name == "serve":
        from astra_sim_serving.serving import serve

        return serve
    raise AttributeError(name)
