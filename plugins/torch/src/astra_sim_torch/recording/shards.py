"""Shards of FSDP, made when they are used: it cuts each parameter into as many as there are ranks, and keeps its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import torch

from .replacing import replace


class _Chunks(Sequence[torch.Tensor]):
    """The chunks of a tensor along a dimension, as `torch.chunk` makes them, and empty ones up to their number."""

    def __init__(self, tensor: torch.Tensor, number: int, dim: int) -> None:
        self._tensor, self._number, self._dim = tensor, number, dim
        self._step = -(-tensor.size(dim) // number)

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, index: int) -> torch.Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> list[torch.Tensor]: ...

    def __getitem__(self, index: Any) -> Any:
        """A chunk, or several."""
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._number))]
        place = range(self._number)[index]
        start, size = place * self._step, self._tensor.size(self._dim)
        if start >= size:
            return self._tensor.new_empty(0)
        return self._tensor.narrow(self._dim, start, min(self._step, size - start))


def register() -> None:
    """Let FSDP make the chunks that it uses, not one for each of thousands of ranks."""
    from torch.distributed.fsdp._fully_shard import _fsdp_common, _fsdp_param  # noqa: F401

    cut = getattr(_fsdp_common, "_chunk_with_empty", None)
    if cut is not None:

        def chunk(tensor: torch.Tensor, num_chunks: int, dim: int) -> Any:
            return _Chunks(tensor, num_chunks, dim) if tensor.size(dim) else cut(tensor, num_chunks, dim)

        replace(cut, chunk)
