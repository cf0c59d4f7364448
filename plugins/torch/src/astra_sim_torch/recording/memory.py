"""The memory of tensors over a step: when storages are allocated and freed, what they hold, and who allocated them.

Storages count in blocks of 512 bytes, as PyTorch's allocator for GPUs hands them out; the allocator's own memory is not counted. What a
storage holds is known best when it is used: as the gradient of a parameter, say. So the events of a storage are completed until its step is
written.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.weak import WeakIdKeyDictionary

from .events import Event, TorchEvents
from .modules import Modules

BLOCK = 512
KINDS = ("activations", "inputs", "temporaries", "communication", "parameters", "gathered", "gradients", "optimizer")
"""What storages hold. Of two claims the later in this order holds: a parameter in a buffer of FSDP is `gathered`, not a parameter."""

_COMMUNICATING = (
    "torch/distributed/fsdp/",
    "torch/distributed/_composable/",
    "torch/distributed/pipelining/",
    "recording/data_parallel.py",
)
"""Code whose allocations are buffers of communication."""


@dataclass(eq=False)
class _Storage:
    """A storage: its number in events, its blocks in bytes, the phase and place of its last allocation, and the event of that."""

    number: int
    claim: int
    phase: str
    place: dict[str, str]
    blocks: int = 0
    event: Event | None = None


class TorchMemory:
    """Adds events of storages. `peak` has the bytes at the peak since the last `restart`, by the phase in which they were allocated."""

    def __init__(self, events: TorchEvents, modules: Modules) -> None:
        self._events, self._modules = events, modules
        self._known: dict[int, _Storage] = {}
        self._live: Counter[str] = Counter()
        self._count = self._total = self._highest = 0
        self.peak: dict[str, int] = {}
        self._hooked = WeakIdKeyDictionary()
        self._watch_resizing()
        modules.on_module, modules.on_optimizer = self._look_at_module, self._look_at_optimizer

    def restart(self) -> None:
        """Forget the peak until now: the step that begins finds the storages of the step before."""
        self._highest, self.peak = self._total, dict(self._live)
        for storage in self._known.values():
            if storage.blocks:
                self._allocate(storage)

    def see(self, tensors: Iterable[torch.Tensor], operands: Iterable[torch.Tensor]) -> None:
        """Count the storages of tensors that are new, until they are freed. `operands`: those of the operator that made them."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in self._known:
                self._count += 1
                place = self._modules.describe()
                claim = KINDS.index(self._first_claim(place, operands))
                self._known[key] = _Storage(self._count, claim, self._modules.phase_of_memory, place)
                weakref.finalize(storage, self._forget, key)
                self._resize(key, storage.nbytes())

    def _first_claim(self, place: dict[str, str], operands: Iterable[torch.Tensor]) -> str:
        """What a storage holds for all that is known when it is allocated."""
        if _is_communicating():
            return "communication"
        if self._modules.recomputes:
            return "activations"
        if place["phase"] != "forward":
            return "temporaries"
        return "activations" if place["module"] or any(each.requires_grad for each in operands) else "inputs"

    def claim(self, tensor: Any, kind: str, module: str | None = None) -> None:
        """Say what the storages of a tensor hold, and for which module."""
        for each in _plain(tensor):
            storage = self._known.get(each.untyped_storage()._cdata)
            if storage is not None and KINDS.index(kind) >= storage.claim:
                storage.claim = KINDS.index(kind)
                if module is not None:
                    storage.place = {**storage.place, "module": module}
                if storage.event is not None:
                    storage.event |= _described(storage)

    def _resize(self, key: int, size: int) -> None:
        """Let a storage have some bytes, which are freed before others are allocated; 0: none."""
        storage, blocks = self._known[key], -(-size // BLOCK) * BLOCK
        if blocks == storage.blocks:
            return
        if storage.blocks:
            self._events.add("free", storage=storage.number)
            storage.event = None
        self._live[storage.phase] += blocks - storage.blocks
        self._total += blocks - storage.blocks
        storage.blocks = blocks
        if blocks:
            self._allocate(storage)
        if self._total > self._highest:
            self._highest, self.peak = self._total, dict(self._live)

    def _allocate(self, storage: _Storage) -> None:
        self._events.add("allocate", storage=storage.number, bytes=storage.blocks, **_described(storage))
        storage.event = self._events.steps[-1][-1]

    def _forget(self, key: int) -> None:
        self._resize(key, 0)
        del self._known[key]

    def _watch_resizing(self) -> None:
        """Follow storages that are resized, as FSDP does with gathered parameters."""
        resize = torch.UntypedStorage.resize_

        def resized(storage: Any, size: int) -> Any:
            result = resize(storage, size)
            known = self._known.get(storage._cdata)
            if known is not None:
                known.claim = max(known.claim, KINDS.index("gathered"))
                known.place = {**self._modules.describe(), "module": known.place["module"] or self._modules.current}
                self._resize(storage._cdata, size)
            return result

        torch.UntypedStorage.resize_ = resized  # type: ignore[method-assign]

    # -- What is seen of storages later

    def _look_at_module(self, module: torch.nn.Module, inputs: Any, path: str, is_outermost: bool) -> None:
        """A module begins: its parameters and buffers, and if the script calls it, its inputs and all that it has."""
        self._look_at_tensors(module, path)
        if is_outermost:
            for name, part in module.named_modules():
                self._look_at_tensors(part, name or path)
            for value in inputs:
                if isinstance(value, torch.Tensor) and not value.requires_grad:
                    self.claim(value, "inputs")

    def _look_at_tensors(self, module: torch.nn.Module, path: str) -> None:
        """Parameters and buffers of a module, and the gradients that parameters get."""
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None:
                self.claim(tensor, "parameters", path)
                if isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad and tensor.is_leaf and tensor not in self._hooked:
                    self._hooked[tensor] = True
                    tensor.register_post_accumulate_grad_hook(lambda each, path=path: self.claim(each.grad, "gradients", path))

    def _look_at_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer begins or ends a step: its parameters, their gradients, and its state."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.claim(parameter, "parameters")
                self.claim(parameter.grad, "gradients", self._module_of(parameter))
                for value in optimizer.state.get(parameter, {}).values():
                    self.claim(value, "optimizer", self._module_of(parameter))

    def _module_of(self, parameter: torch.Tensor) -> str | None:
        """The module of a parameter, by that of its storage."""
        storages = [self._known.get(each.untyped_storage()._cdata) for each in _plain(parameter)]
        return next((each.place["module"] for each in storages if each is not None), None)


def _described(storage: _Storage) -> dict[str, str]:
    return {"holds": KINDS[storage.claim], **storage.place}


def _plain(value: Any) -> Iterator[torch.Tensor]:
    """The tensors that a tensor consists of, such as the local one of a DTensor; none of other values."""
    if not isinstance(value, torch.Tensor):
        return
    if is_traceable_wrapper_subclass(value):
        for name in value.__tensor_flatten__()[0]:
            yield from _plain(getattr(value, name))
    else:
        yield value


def _is_communicating() -> bool:
    """Whether code that communicates allocates: it is the innermost besides torch's functions."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        communicates = _communicates(frame.f_code.co_filename)
        if communicates is not None:
            return communicates
        frame = frame.f_back
    return False


@functools.cache
def _communicates(file: str) -> bool | None:
    """Whether a file has code that communicates; None if that depends on who calls it."""
    if any(part in file for part in _COMMUNICATING):
        return True
    return False if "/torch/nn/modules/" in file or ("/torch/" not in file and "recording/" not in file) else None
