"""The memory of tensors over a step: the allocations at its peak, by the phase in which they were made.

Storages count in blocks of 512 bytes, as PyTorch's allocator for GPUs hands them out; the allocator's own memory is not counted.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch

BLOCK = 512


class TorchMemory:
    """Live bytes by phase, and those at the peak since the last `restart`. `phase` is the phase of an allocation."""

    def __init__(self, phase: Callable[[], str]) -> None:
        self._phase = phase
        self._known: dict[int, tuple[str, int]] = {}
        self._live: Counter[str] = Counter()
        self._total = 0
        self.peak: dict[str, int] = {}
        self._highest = 0
        self._watch_resizing()

    def restart(self) -> None:
        """Forget the peak until now."""
        self._highest, self.peak = self._total, dict(self._live)

    def see(self, tensors: Iterable[torch.Tensor]) -> None:
        """Count the storages of tensors that are new, until they are freed."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in self._known:
                self._known[key] = self._phase(), 0
                weakref.finalize(storage, self._forget, key)
                self._resize(key, storage.nbytes())

    def _resize(self, key: int, size: int) -> None:
        phase, before = self._known[key]
        blocks = -(-size // BLOCK) * BLOCK
        self._known[key] = phase, blocks
        self._live[phase] += blocks - before
        self._total += blocks - before
        if self._total > self._highest:
            self._highest, self.peak = self._total, dict(self._live)

    def _forget(self, key: int) -> None:
        self._resize(key, 0)
        del self._known[key]

    def _watch_resizing(self) -> None:
        """Follow storages that are resized, as FSDP does with gathered parameters."""
        resize = torch.UntypedStorage.resize_

        def resized(storage: Any, size: int) -> Any:
            result = resize(storage, size)
            if storage._cdata in self._known:
                self._resize(storage._cdata, size)
            return result

        torch.UntypedStorage.resize_ = resized  # type: ignore[method-assign]
