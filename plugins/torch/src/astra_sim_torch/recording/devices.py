"""The simulated accelerator: tensors of `cuda` are fake tensors of the CPU, and `torch.cuda` answers as a machine with GPUs would."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .replacing import replace
from .stubs import Nothing

GIB = 1024**3


class Properties:
    """Properties of the device, as `torch.cuda.get_device_properties` gives them."""

    def __init__(self, name: str, memory_bytes: int) -> None:
        self.name, self.total_memory = name, memory_bytes
        self.major, self.minor, self.multi_processor_count = 9, 0, 132


def _to_cpu(value: Any) -> Any:
    """A device that is not an accelerator; other values as they are."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "cpu"
    return value


class OnCpu(TorchFunctionMode):
    """Replaces `cuda` by `cpu` in the arguments of torch's functions."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(function, "__name__", "") in ("cuda", "pin_memory"):
            return args[0]
        if function is torch.device and args and (isinstance(args[0], int) or _to_cpu(args[0]) != args[0]):
            return torch.device("cpu")
        if getattr(function, "__name__", "") == "to" and len(args) > 1 and type(args[1]) is int:
            args = args[0], torch.device("cpu"), *args[2:]
        if type(kwargs.get("device")) is int:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        return function(*map(_to_cpu, args), **{key: _to_cpu(value) for key, value in kwargs.items()})


def stub_accelerator(streams: Mapping[str, Any], gpus_per_node: int, memory_gib: float) -> None:
    """Let `torch.cuda` be a machine with GPUs that does nothing, and streams of the CPU be recorded."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    properties = Properties("astra", int(memory_gib * GIB))
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "device_count": gpus_per_node,
        "current_device": 0,
        "get_device_name": properties.name,
        "get_device_properties": properties,
        "get_device_capability": (properties.major, properties.minor),
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "mem_get_info": (properties.total_memory, properties.total_memory),
        "memory_stats": {},
        "utilization": 0,
        "get_rng_state": None,
        "memory_summary": "",
        "memory_snapshot": [],
        "cudart": Nothing("torch.cuda.cudart"),
    }
    nothing = ["init", "set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated"]
    nothing += ["manual_seed", "manual_seed_all", "ipc_collect", "set_rng_state", "_lazy_init", "_sleep"]
    for name, answer in answers.items():
        setattr(torch.cuda, name, functools.partial(_answer, answer))
    for name in nothing:
        setattr(torch.cuda, name, functools.partial(_answer, None))
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(torch.cuda.nvtx, name, functools.partial(_answer, None))
    for name in ("_record_memory_history", "_dump_snapshot"):
        setattr(torch.cuda.memory, name, functools.partial(_answer, None))
    torch.cuda.nccl.version = functools.partial(_answer, (2, 27, 0))  # type: ignore[assignment]
    torch.amp.GradScaler._maybe_opt_step = _step  # type: ignore[method-assign]
    FakeTensor.__format__ = _formatted  # type: ignore[method-assign]
    # Builds for GPUs then do as those for CPUs, and ask no driver.
    for name, answer in {"is_available": False, "current_accelerator": None, "device_count": 0}.items():
        setattr(torch.accelerator, name, functools.partial(_answer, answer))
    torch._C._get_accelerator = functools.partial(_answer, torch.device("cpu"))
    for name, value in streams.items():
        setattr(torch.cuda, name, value)
        setattr(torch.cpu, name, value)
    torch.Tensor.record_stream = lambda self, stream: None  # type: ignore[method-assign]
    torch.nn.Module._apply = _apply  # type: ignore[method-assign, assignment]
    supported = [*_foreach_utils._get_foreach_kernels_supported_devices(), "cpu"]  # the simulated GPU
    replace(_foreach_utils._get_foreach_kernels_supported_devices, lambda: supported)
    optimizer._foreach_supported_types.append(FakeTensor)
    replace(torch.nn.init._no_grad_trunc_normal_, _initialize)
    _redirect_autocast()
    _drop_devices()


def _drop_devices() -> None:
    """Let FSDP of version 1, which refuses the CPU, take the accelerator that `torch.cuda` represents."""
    from torch.distributed.fsdp import FullyShardedDataParallel, _init_utils, fully_sharded_data_parallel

    begin = FullyShardedDataParallel.__init__

    @functools.wraps(begin)
    def __init__(self: Any, *args: Any, device_id: Any = None, **kwargs: Any) -> None:  # noqa: N807
        begin(self, *args, **{**kwargs, "sync_module_states": False})  # it sends weights once, before the first step

    def handle(state: Any, *_: Any) -> Any:
        state._device_handle = _init_utils._FSDPDeviceHandle(torch.device("cpu"), torch.cuda)
        return state

    FullyShardedDataParallel.__init__ = __init__  # type: ignore[method-assign]
    _init_utils._init_device_handle = handle
    fully_sharded_data_parallel._init_device_handle = handle


def _apply(module: torch.nn.Module, function: Any, recurse: bool = True) -> torch.nn.Module:
    """Convert parameters and buffers, as `Module._apply` does: fake tensors cannot be swapped. Shared parameters stay shared."""
    converted: dict[int, torch.nn.Parameter] = {}
    for each in module.modules() if recurse else (module,):
        for name, parameter in each._parameters.items():
            if parameter is not None:
                if id(parameter) not in converted:
                    with torch.no_grad():
                        new = function(parameter)
                    same = new is parameter or (new.dtype == parameter.dtype and new.device == parameter.device)
                    converted[id(parameter)] = parameter if same else torch.nn.Parameter(new, parameter.requires_grad)
                each._parameters[name] = converted[id(parameter)]
        for name, buffer in each._buffers.items():
            if buffer is not None:
                each._buffers[name] = function(buffer)
    return module


def _initialize(tensor: torch.Tensor, mean: float, std: float, *_: Any, **__: Any) -> torch.Tensor:
    """In place of `trunc_normal_`, which draws until all numbers are within its bounds: tensors without data never are."""
    with torch.no_grad():
        return tensor.normal_(mean, std)


def _step(scaler: Any, optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
    """In place of a step of a gradient scaler, which asks whether a gradient is infinite: none is."""
    return optimizer.step(*args, **kwargs)


def _formatted(tensor: torch.Tensor, format: str) -> str:
    """A tensor as text; as a number if it is asked for as one."""
    return str.__format__(repr(tensor), format) if tensor.dim() else tensor.item().__format__(format)


def _answer(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _redirect_autocast() -> None:
    """Let autocast for `cuda` be that of the CPU, to the type that is asked for."""
    begin = torch.autocast.__init__

    def __init__(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if device_type == "cuda" and dtype is None:
            dtype = torch.float16
        begin(self, _to_cpu(device_type), dtype, *args, **kwargs)

    torch.autocast.__init__ = __init__  # type: ignore[method-assign]


def keep_meshes_real() -> None:
    """Let device meshes, whose tensors are numbers of ranks, be made of real tensors."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily
    from torch.distributed import device_mesh

    def outside(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with unset_fake_temporarily(), torch._C.DisableTorchFunction():
                return function(*args, **kwargs)

        return call

    for name in ("__init__", "_concatenate", "__getitem__", "_flatten", "_unflatten", "__repr__", "get_coordinate"):
        if hasattr(device_mesh.DeviceMesh, name):
            setattr(device_mesh.DeviceMesh, name, outside(getattr(device_mesh.DeviceMesh, name)))
    make = device_mesh.init_device_mesh

    @functools.wraps(make)
    def init_device_mesh(device_type: str, *args: Any, **kwargs: Any) -> Any:
        with unset_fake_temporarily():
            return make(_to_cpu(device_type), *args, **kwargs)

    replace(make, init_device_mesh)
