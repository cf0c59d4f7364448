"""Runs a script as one rank of a world, records the kernels and calls of one of its steps, and writes them."""

from __future__ import annotations

import argparse
import ast
import faulthandler
import functools
import os
import re
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from . import compiling, data_parallel, devices, groups, loading, norms, objects, shards, streams, stubs
from .events import TorchEvents, is_library, short, write
from .kernels import Recorder
from .memory import TorchMemory
from .modules import Modules

FAILED, WAITS = 3, 4
"""Exit status if the script fails, with a line that names the place at the end of standard error; or if it needs an object of another rank,
whose number the output then has."""


class _Done(BaseException):
    """The step that is recorded has ended."""


def main(words: Sequence[str]) -> None:
    """Record a script: its options, `--`, and its own arguments."""
    options = _options(words)
    script = str(Path(options.script[0]).resolve())
    _be_rank(options.rank, options.world, options.gpus_per_node)
    events = TorchEvents(script)
    try:
        problem = _record(options, script, events)
    except objects.WaitsForRank as wait:
        Path(options.output).write_text(str(wait.rank))
        sys.exit(WAITS)
    if problem is not None:
        sys.stderr.write(problem)
        sys.exit(FAILED)
    step, peak = events.step(options.step)
    if not step:
        sys.stderr.write(f"{_last_line(script)}: {_NOTHING_DONE}\n")
        sys.exit(FAILED)
    mine, created = groups.tables() if torch.distributed.is_initialized() else ({}, [])
    head = {
        "torch": torch.__version__,
        "world": options.world,
        "rank": options.rank,
        "script": options.script,
        "groups": mine,
        "made": created,
        "peak_bytes": peak,
    } | ({"notes": events.notes} if events.notes else {})
    write(options.output, head, step)


def _options(words: Sequence[str]) -> Any:
    """The options of the recording, and the script with its arguments."""
    parser = argparse.ArgumentParser()
    for name, kind in (
        ("--world", int),
        ("--rank", int),
        ("--gpus-per-node", int),
        ("--step", int),
        ("--memory-gib", float),
        ("--timeout", float),
    ):
        parser.add_argument(name, type=kind, required=True)
    parser.add_argument("--item", type=float)
    parser.add_argument("--data")
    parser.add_argument("--stub", action="append", default=[])
    for name in ("--output", "--objects"):
        parser.add_argument(name, required=True)
    parser.add_argument("script", nargs="+")
    return parser.parse_args(words)


def _be_rank(rank: int, world: int, gpus_per_node: int) -> None:
    """Set the environment of torchrun."""
    local = min(gpus_per_node, world)
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(world),
        LOCAL_RANK=str(rank % local),
        LOCAL_WORLD_SIZE=str(local),
        GROUP_RANK=str(rank // local),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="29500",
    )


def _record(options: Any, script: str, events: TorchEvents) -> str | None:
    """Run the script. Returns its error, if any."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    modules = Modules(events)
    memory = TorchMemory(events, modules)

    def end_step() -> None:
        events.end_step(memory.peak)
        memory.restart()
        if len(events.steps) > options.step:
            raise _Done

    groups.register(events)
    norms.register()
    data_parallel.register(events)
    compiling.run_eagerly(events)
    objects.register(options.objects, options.rank, modules.without_backward)
    devices.stub_accelerator(streams.names(events), options.gpus_per_node, options.memory_gib)
    devices.keep_meshes_real()
    shards.register()
    modules.watch_optimizers(end_step)
    faulthandler.enable()
    torch.set_num_threads(1)
    sys.argv = [script, *options.script[1:]]
    sys.path.insert(0, os.path.dirname(script))
    os._exit = functools.partial(_exit, os.getpid(), os._exit)  # type: ignore[assignment]
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    try:
        recorder = Recorder(events, memory, options.item)
        recorder.leave_out_propagation()
        loading.register(options.data, events, memory, mode)
        stubs.register(options.stub, events)
        with mode, devices.OnCpu(), modules, recorder:
            faulthandler.dump_traceback_later(options.timeout, exit=True)
            runpy.run_path(script, run_name="__main__")
    except _Done:
        return None
    except objects.WaitsForRank:
        raise
    except stubs.StubError as problem:
        return f"{problem}\n"
    except SystemExit as end:
        if not end.code and _has_done(events):
            return None
        status = f"the script ended with status {end.code}" if end.code else _NOTHING_DONE
        return f"{_place(end, script)}: {status}{_EARLY}\n"
    except BaseException as problem:
        if os.environ.get("ASTRA_TRACEBACK"):
            traceback.print_exc()
        return _described(problem, script)
    finally:
        faulthandler.cancel_dump_traceback_later()
        events.end_step(memory.peak)
    return None


def _exit(process: int, leave: Any, status: int) -> None:
    """In place of `os._exit`, by which a script would end without its recording; other processes end as they do."""
    if os.getpid() != process:
        leave(status)
    raise SystemExit(status)


def _has_done(events: TorchEvents) -> bool:
    return any(event["kind"] in ("kernel", "collective", "send", "receive") for step in events.steps for event in step)


def _last_line(script: str) -> str:
    """The last statement of a script, as FILE:LINE."""
    body = ast.parse(Path(script).read_bytes()).body
    return f"{script}:{body[-1].lineno}" if body else script


def _place(problem: BaseException, script: str) -> str:
    """The line of the script at which it failed, and the innermost line of the user's code, if that is in another file."""
    frames = traceback.extract_tb(problem.__traceback__)
    in_script = [frame for frame in frames if frame.filename == script]
    users = [frame for frame in frames if not is_library(frame.filename)]
    last = f"{in_script[-1].filename}:{in_script[-1].lineno}" if in_script else script
    if users and users[-1].filename != script:
        return f"{last}, in {short(users[-1].filename)}:{users[-1].lineno}"
    return last


def _described(problem: BaseException, script: str) -> str:
    """A line about the error that ended the script: the line of the script, the error, and advice."""
    text = str(problem).strip().splitlines()
    return f"{_place(problem, script)}: {type(problem).__name__}: {text[0] if text else ''}{_remedy(problem)}\n"


_NOTHING_DONE = "the script ended before it ran a kernel or called another rank; expected a step of training"
_EARLY = " (--stub MODULE.NAME replaces a check that fails here)"


def _remedy(problem: BaseException) -> str:
    """What helps against an error, in brackets; "" if nothing is known to."""
    name, text = type(problem).__name__, str(problem)
    if name == "DataDependentOutputException":
        return " (a number of a tensor without data is asked for; --item VALUE gives it one)"
    if name == "DynamicOutputShapeException" or ".numpy()" in text:
        return " (tensors have no data here; leave out what depends on their numbers, or replace the function: --stub NAME=MODULE.FUNCTION)"
    if isinstance(problem, ModuleNotFoundError) and problem.name:
        module = problem.name.partition(".")[0]
        return f" (install it, or --stub {module} for a module that does nothing; --stub {module}.NAME=MODULE.FUNCTION for your function)"
    if "<stub of " in text or "Nothing" in text:
        return " (the result of a stub is used; give a function that returns one: --stub NAME=MODULE.FUNCTION)"
    if name == "DistStoreError":
        return " (other ranks do not run; --stub MODULE.NAME replaces what waits for them)"
    if re.search(r"cuda|triton|nvrtc", text, re.IGNORECASE):
        return " (code for GPUs alone cannot be recorded; let the script use its version in PyTorch, or --stub NAME=MODULE.FUNCTION)"
    if isinstance(problem, (FileNotFoundError, ConnectionError)) or re.search(_DATA, f"{name} {text}", re.IGNORECASE):
        return (
            " (--data fake makes data sets and tokenizers synthetic, --data SHAPES the batches of loaders; "
            "--stub MODULE.NAME=MODULE.FUNCTION replaces what loads)"
        )
    return ""


_DATA = r"huggingface|download|dataset ?not ?found|urlopen|name or service not known|connection error|name resolution|hub"
"""Signs of data that is not on this machine."""
