"""Communication of DistributedDataParallel: its reducer is C++ that reads the data of buckets, and fake tensors have none.

The buckets are those of torch: gradients in the reverse order of the parameters, and from the second pass on in the order in which they
became ready; the first bucket has at most 1 MiB, others `bucket_cap_mb` (25). A bucket is reduced when all of its gradients are ready, and
the pass ends when all buckets are reduced. Buckets stay in memory, beside the gradients unless these are views of them.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from .events import TorchEvents

MIB = 1024**2
FIRST_BUCKET, USUAL_BUCKET = 1 * MIB, 25 * MIB


def _buckets(parameters: Sequence[torch.nn.Parameter], cap: int) -> list[list[torch.nn.Parameter]]:
    """Parameters in buckets, in their order; each is closed by the parameter that fills it, and has elements of one type."""
    result: list[list[torch.nn.Parameter]] = []
    open_buckets: dict[torch.dtype, list[torch.nn.Parameter]] = {}
    limit = min(FIRST_BUCKET, cap)
    for parameter in parameters:
        bucket = open_buckets.setdefault(parameter.dtype, [])
        bucket.append(parameter)
        if sum(map(_bytes, bucket)) >= limit:
            result.append(open_buckets.pop(parameter.dtype))
            limit = cap
    return [*result, *open_buckets.values()]


def _bytes(parameter: torch.nn.Parameter) -> int:
    return int(parameter.numel() * parameter.element_size())


def _memory_of(bucket: Sequence[torch.nn.Parameter]) -> torch.Tensor:
    """The memory of a bucket."""
    return torch.empty(sum(each.numel() for each in bucket), dtype=bucket[0].dtype)


def _view_of(flat: torch.Tensor, bucket: Sequence[torch.nn.Parameter], parameter: torch.nn.Parameter) -> torch.Tensor:
    """The gradient of a parameter as a part of its bucket."""
    before = itertools.takewhile(lambda each: each is not parameter, bucket)
    with torch.no_grad():
        return flat.as_strided(parameter.size(), parameter.stride(), sum(each.numel() for each in before))


class RecordedDataParallel(torch.nn.Module):
    """Stands in for DistributedDataParallel: the same attributes and methods that scripts use, and the same calls of its group."""

    events: TorchEvents

    def __init__(
        self,
        module: torch.nn.Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        *_: Any,
        gradient_as_bucket_view: bool = False,
        **__: Any,
    ) -> None:
        super().__init__()
        self.module = module
        self.process_group = process_group or dist.distributed_c10d._get_default_group()
        self.require_backward_grad_sync = True
        self._views = gradient_as_bucket_view
        self._cap = USUAL_BUCKET if bucket_cap_mb is None else int(bucket_cap_mb * MIB)
        self._parameters_in_order = [each for each in module.parameters() if each.requires_grad]
        self._plan(list(reversed(self._parameters_in_order)))
        self._works: list[Any] = []
        self._ready: list[torch.nn.Parameter] = []
        self._is_planned = False
        for parameter in self._parameters_in_order:
            parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        return self.module(*args, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients without reducing them."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Raises RuntimeError: the communication of a hook is not known."""
        raise RuntimeError("communication hooks of DistributedDataParallel are not captured")

    def _plan(self, order: Sequence[torch.nn.Parameter]) -> None:
        self._bucket_of = {id(each): bucket for bucket in _buckets(order, self._cap) for each in bucket}
        self._missing = {id(bucket): len(bucket) for bucket in self._bucket_of.values()}
        self._memory = {id(bucket): _memory_of(bucket) for bucket in self._bucket_of.values()}

    def _on_gradient(self, parameter: torch.nn.Parameter) -> None:
        """Copy a gradient into its bucket, and reduce the bucket when it is full."""
        if not self.require_backward_grad_sync:
            return
        if not self._ready:
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        self._ready.append(parameter)
        bucket = self._bucket_of[id(parameter)]
        self._missing[id(bucket)] -= 1
        self._copy(_bytes(parameter))
        flat = self._memory[id(bucket)]
        if self._views:
            parameter.grad = _view_of(flat, bucket, parameter)
        if not self._missing[id(bucket)]:
            self._works.append((dist.all_reduce(flat, group=self.process_group, async_op=True), flat))

    def _finish(self) -> None:
        """Wait for all buckets at the end of a backward pass. Raises RuntimeError if a parameter had no gradient."""
        if len(self._ready) < len(self._parameters_in_order):
            missing = len(self._parameters_in_order) - len(self._ready)
            raise RuntimeError(f"{missing} parameters of DistributedDataParallel had no gradient, so that their buckets are not reduced")
        for work, flat in self._works:
            work.wait()
            if not self._views:
                self._copy(flat.numel() * flat.element_size())
        if not self._is_planned:
            self._is_planned = True
            self._plan(self._ready)
        self._missing = {id(bucket): len(bucket) for bucket in self._bucket_of.values()}
        self._works, self._ready = [], []

    def _copy(self, size: int) -> None:
        self.events.add_described("kernel", op="bucket_copy", flops=0, read=size, write=size)


def register(events: TorchEvents) -> None:
    """Let scripts that make a DistributedDataParallel make this one."""
    RecordedDataParallel.events = events
    RecordedDataParallel.__name__ = RecordedDataParallel.__qualname__ = "DistributedDataParallel"
    torch.nn.parallel.DistributedDataParallel = RecordedDataParallel  # type: ignore[misc, assignment]
    torch.nn.parallel.distributed.DistributedDataParallel = RecordedDataParallel  # type: ignore[misc, assignment]
