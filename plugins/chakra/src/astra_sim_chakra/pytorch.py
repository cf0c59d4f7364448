"""PyTorch's execution traces as Chakra traces, through MLCommons' own converter (the extra `astra-sim-chakra[pytorch]`)."""

from __future__ import annotations

import importlib
import os
import tempfile
from typing import Any

from astra_sim import InputError

_INSTALL = "pip install 'astra-sim-chakra[pytorch]'"


def convert_pytorch(host_trace: str, kineto: str | None, rank: int, target: str) -> None:
    """Write the Chakra trace of a rank.

    With `kineto`, the file of the profiler, `host_trace` is an execution trace, and the two are linked first. Without it, `host_trace`
    is already linked (`chakra_trace_link`). Raises InputError if mlc-chakra is not installed, or fails.
    """
    for path in (host_trace, kineto):
        if path is not None and not os.path.isfile(path):
            raise InputError(f"{path}: there is no such file")
    converter = _load("chakra.src.converter.pytorch_converter", "PyTorchConverter")
    with tempfile.TemporaryDirectory() as folder:
        linked = host_trace
        if kineto is not None:
            linked = os.path.join(folder, "linked.json")
            linker = _load("chakra.src.trace_link.trace_linker", "TraceLinker")
            _run(f"linking {host_trace} and {kineto}", linker.link, rank, host_trace, kineto, linked)
        _run(f"converting {host_trace}", converter.convert, linked, target, False)


def _load(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)()
    except ImportError as error:
        missing = str(getattr(error, "name", "") or "")
        if missing.startswith("chakra"):
            raise InputError(f"traces of PyTorch are converted by mlc-chakra, which is not installed: {_INSTALL}") from None
        raise InputError(f"mlc-chakra cannot be used ({_INSTALL}): {error}") from None
    except Exception as error:  # protobuf of another version says so when the schema is imported
        raise InputError(f"mlc-chakra cannot be used ({_INSTALL}): {type(error).__name__}: {error}") from None


def _run(what: str, action: Any, *arguments: Any) -> None:
    try:
        action(*arguments)
    except (Exception, SystemExit) as error:
        raise InputError(f"{what}: mlc-chakra fails: {type(error).__name__}: {error}") from None
