"""Records the kernels that torch launches: a dispatch mode above FakeTensorMode, which sees every operator with its tensors."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed.tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from .events import TorchEvents
from .memory import TorchMemory

_NO_KERNEL = {"aten", "prim", "prims", "_c10d_functional", "c10d"}
_TYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8",
    torch.int8: "int8",
}
_ALLOCATIONS = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided", "lift_fresh", "detach", "_local_scalar_dense")
_VIEWS = ("_reshape_alias", "_unsafe_view", "view_as_real")
_GATHERS = ("embedding", "index", "index_select", "gather")
"""Operators that read as much of their first operand as they write."""

_OVERWRITING = (
    "copy_",
    "_foreach_copy_",
    "fill_",
    "zero_",
    "_foreach_zero_",
    "normal_",
    "uniform_",
    "random_",
    "bernoulli_",
    "exponential_",
)
"""Operators in place that do not read what they write."""

_SCATTERS = ("index_put_", "_index_put_impl_", "scatter_", "scatter_add_", "index_add_", "index_copy_")
"""Operators in place that write single elements; if they add to these, they read them, too."""

_NORMS_BACKWARD = ("native_layer_norm_backward", "_fused_rms_norm_backward")
"""Operators that read gradient and input once more for the gradients of weights, in another kernel."""

_FUSED_OPTIMIZERS = ("_fused_adam", "_fused_sgd", "_fused_adagrad")

_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm")
_FUNCTIONAL = {
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_out": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
}


def _tensors(values: Any) -> list[torch.Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, torch.Tensor)]


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of tensors, each of which is read or written once; a broadcast dimension has its elements once."""
    total = 0
    for tensor in tensors:
        elements = math.prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride or size == 0)
        total += int(elements) * tensor.element_size()
    return total


class Recorder(TorchDispatchMode):
    """Adds an event for each kernel and each functional collective. `fixed`: the value of `.item()` for unknown numbers; None: an error."""

    def __init__(self, events: TorchEvents, memory: TorchMemory, fixed: float | None) -> None:
        super().__init__()
        self._events, self._memory, self._fixed = events, memory, fixed
        self._works: dict[int, tuple[Any, int]] = {}
        self._is_aside = False

    def leave_out_propagation(self) -> None:
        """Let DTensor find out the shapes of results without a record: it runs an operator on tensors of the whole shape for that."""
        propagator = ShardingPropagator
        run = propagator._propagate_tensor_meta_non_cached

        @functools.wraps(run)
        def aside(*args: Any, **kwargs: Any) -> Any:
            before, self._is_aside = self._is_aside, True
            try:
                return run(*args, **kwargs)
            finally:
                self._is_aside = before

        propagator._propagate_tensor_meta_non_cached = aside  # type: ignore[method-assign]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, torch.distributed.tensor.DTensor) for kind in types):
            return NotImplemented  # it calls the operators on its local tensor, which are seen then
        kwargs = kwargs or {}
        if self._is_aside:
            return function(*args, **kwargs)
        name = function._schema.name.partition("::")[2]
        if name == "_local_scalar_dense" and self._fixed is not None and isinstance(args[0], FakeTensor):
            return (float if args[0].dtype.is_floating_point else int)(self._fixed)
        # A fake wait makes a tensor, a real one returns its operand.
        result = args[0] if function is torch.ops._c10d_functional.wait_tensor.default else function(*args, **kwargs)
        self._memory.see((each for each in _tensors(result) if isinstance(each, FakeTensor)), _tensors((args, kwargs)))
        namespace = function.namespace
        if namespace == "_c10d_functional":
            self._functional(name, args, kwargs, result)
        elif namespace == "aten" or namespace not in _NO_KERNEL:
            self._kernel(function, name, args, kwargs, result)
        return result

    def _kernel(self, function: Any, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """Add the kernel that an operator launches, if it launches one."""
        if name in _ALLOCATIONS or name in _VIEWS or function.is_view:
            return
        results = [each.name for each in function._schema.arguments if each.kwarg_only and each.alias_info is not None]  # out=
        inputs = _tensors((args, {key: value for key, value in kwargs.items() if key not in results}))
        written = _mutated(function, args, kwargs) if function._schema.is_mutable else _tensors(result)
        if not any(tensor.numel() for tensor in written):
            return
        if not function._schema.is_mutable and all(any(output is each for each in inputs) for output in written):
            return  # an operator that returned its input, such as a reshape of a contiguous tensor
        shape = _shape(name, inputs, args, kwargs)
        flops = _attention_flops(shape) or self._flops(function, args, kwargs, result)
        read, write = _traffic(name, inputs, written, args, kwargs)
        fields: dict[str, Any] = {"op": name, "flops": flops, "read": read, "write": write}
        if (kind := _TYPES.get(written[0].dtype)) is not None:
            fields["type"] = kind
        fields |= shape
        self._events.add_described("kernel", **fields)

    def _flops(self, function: Any, args: Any, kwargs: Any, result: Any) -> int:
        count = flop_registry.get(function._overloadpacket)
        return int(count(*args, **kwargs, out_val=result)) if count is not None else 0

    def _functional(self, name: str, args: Any, kwargs: Any, result: Any) -> None:
        """A functional collective, whose result is waited for by its tensor."""
        if name == "wait_tensor":
            tensor, number = self._works.pop(id(args[0]), (None, None))
            if number is not None:
                self._events.add("wait", work=number)
            return
        base = name.removesuffix("_coalesced").removesuffix("_coalesced_")
        if base not in _FUNCTIONAL:
            raise RuntimeError(f"the functional collective {name} is not known to astra capture")
        group = next(each for each in reversed(args) if isinstance(each, str) and each not in ("sum", "avg", "max", "min", "product"))
        number = self._events.next_work()
        for tensor in _tensors(result):
            self._works[id(tensor)] = tensor, number
        self._events.add_described("collective", op=_FUNCTIONAL[base], bytes=_bytes(_tensors(args[0])), group=group, work=number)


def _traffic(name: str, inputs: list[torch.Tensor], written: list[torch.Tensor], args: Any, kwargs: Any) -> tuple[int, int]:
    """Bytes that the kernels of an operator on a GPU read and write: each operand once, but for operators that do otherwise."""
    read, write = _bytes(inputs), _bytes(written)
    numbers = _bytes(each for each in inputs if not each.dtype.is_floating_point)
    if name in _GATHERS:
        read = write + numbers
    elif name == "all_gather_copy_in":  # of FSDP2: into its own part of a buffer that is an operand
        read = write = _bytes(_tensors(args[0]))
    elif name in _OVERWRITING:
        read -= _bytes(each for each in inputs if any(each is other for other in written))
    elif name in _SCATTERS and (elements := _scattered(name, args)) is not None:
        write = elements * written[0].element_size()
        read = numbers + write * (2 if "add" in name or (len(args) > 3 and args[3] is True) else 1)
    elif name == "nll_loss_forward":  # one score of each row
        read = numbers + args[0].shape[0] * args[0].element_size()
    elif name == "nll_loss_backward":
        read -= _bytes([args[1]])
    elif name in _NORMS_BACKWARD and args[-1][0] and any(args[-1][1:]):
        read += _bytes(args[:2])
    elif name.startswith(_FUSED_OPTIMIZERS) and kwargs.get("grad_scale") is None:
        write -= _bytes(args[1])  # gradients are written where they are unscaled
    return read, write


def _scattered(name: str, args: Any) -> int | None:
    """Elements that an operator of `_SCATTERS` writes; None if its mask decides that, so that it may be all."""
    if "index_put" not in name:
        return int(args[2].numel() if name.startswith("scatter") else args[3].numel())
    indices = [each for each in args[1] if each is not None]
    if any(each.dtype in (torch.bool, torch.uint8) for each in indices):
        return None
    places = [place for place, size in enumerate(args[0].shape) if place >= len(args[1]) or args[1][place] is None]
    return int(math.prod((*torch.broadcast_shapes(*(each.shape for each in indices)), *(args[0].shape[place] for place in places))))


def _attention_flops(shape: dict[str, Any]) -> int:
    """Two for each multiply-add of the two products, or of the five of a backward pass: the whole square, as torch counts. 0: none."""
    if "attention" not in shape:
        return 0
    heads, queries, keys, head_size, value_size, _ = shape["attention"]
    of_keys, of_values = (3, 2) if shape["backward"] else (1, 1)
    return int(2 * heads * queries * keys * (of_keys * head_size + of_values * value_size))


def _mutated(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that an operator in place writes."""
    tensors = []
    for number, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            tensors += _tensors(args[number] if number < len(args) else kwargs.get(argument.name))
    return tensors


def _shape(name: str, inputs: list[torch.Tensor], args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The shape of a product, a convolution or attention: the input of a kernel model."""
    if name in _PRODUCTS:
        left, right = inputs[1:3] if name in ("addmm", "baddbmm") else inputs[:2]
        batch = left.shape[0] if left.dim() == 3 else 1
        return {"gemm": [left.shape[-2], right.shape[-1], left.shape[-1], batch]}
    if "scaled_dot_product" in name:
        backward = name.endswith("backward")
        query, key, value = inputs[1:4] if backward else inputs[:3]
        causal = kwargs.get("is_causal", next((each for each in args if isinstance(each, bool)), False))
        heads, keys = (int(math.prod(tensor.shape[:-2])) for tensor in (query, key))
        sizes = [heads, query.shape[-2], key.shape[-2], query.shape[-1], value.shape[-1], keys]
        return {"attention": sizes, "causal": bool(causal), "backward": backward}
    return {}
