"""Lets reports write about small runs, and looks at their files."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from astra_sim.commands import Components
from astra_sim.files import FileSet
from astra_sim.graph import ExecutionGraph, Pass, ProgramBuilder
from astra_sim.layers import LayeredProgram
from astra_sim.reports import ReportFolder, Series
from astra_sim.schedule import Collective

from astra_sim_devkit.testing.bench import PLATFORM, BenchCompute, BenchMemory, BenchNetwork, BenchSystem, bench_context
from astra_sim_devkit.testing.programs import LAYERS
from astra_sim_devkit.testing.requirement import require

if TYPE_CHECKING:
    from astra_sim.reports import Result

Write = Callable[[list["Result"], ReportFolder], object]


def bench_result(graph: ExecutionGraph, run_name: str, npu_times: bool = False) -> Result:
    """The result of a run on the bench, with the times of all NPUs or without."""
    from astra_sim.commands import run_components

    context = bench_context()
    system, network, memory = BenchSystem(), BenchNetwork(PLATFORM), BenchMemory()
    components = Components(graph, PLATFORM, system, network, BenchCompute(), memory, context.run, {"network": "bench"})
    return run_components(components, run_name, time.perf_counter(), npu_times=npu_times)


def layered_graph() -> ExecutionGraph:
    """Layers that compute and communicate."""
    program = LayeredProgram(LAYERS, bench_context(), "report")
    for _ in program.iterations():
        for layer in range(len(LAYERS)):
            program.compute(layer, Pass.FORWARD)
            program.communicate(layer, Pass.WEIGHT_GRADIENT, program.all_dimensions(), blocking=True)
    return program.build()


def _without_layers() -> ExecutionGraph:
    """A collective that belongs to no layer, as in a trace."""
    dimensions = PLATFORM.logical_dimensions()
    builder = ProgramBuilder()
    builder.communicate(Collective.ALL_REDUCE, 65536, range(len(dimensions)), -1, Pass.FORWARD, blocking=True)
    return builder.build(dimensions, [])


def check_report(write: Write) -> None:
    """Raise AssertionError or AstraError unless a report writes files about runs, with and without layers, through its folder alone.

    It must leave the results as they are.
    """
    layered, without = bench_result(layered_graph(), "layered"), bench_result(_without_layers(), "without layers")
    for what, runs in (("a run with layers", [layered]), ("a run without layers", [without]), ("two runs", [layered, without])):
        before = [run.to_dict(every=True) for run in runs]
        names = {series: _files(write, runs, series) for series in ("limited", "all", "none")}
        require(names["limited"], f"it writes no file about {what}")
        more = sorted(names["none"] - names["limited"])
        require(not more, f"it writes {more} about {what} without series in time, and not with them")
        for run, figures in zip(runs, before, strict=True):
            now = run.to_dict(every=True)
            changed = [name for name in figures if now.get(name) != figures[name]]
            require(not changed, f"it changes {', '.join(changed)} of {what}; expected that it leaves results as they are")


def _files(write: Write, runs: list[Result], series: Series) -> set[str]:
    """The names of the files that a report writes."""
    with tempfile.TemporaryDirectory(prefix="astra-check-") as directory:
        with FileSet() as files:
            folder = ReportFolder(directory, files, series, "astra")
            with folder.open("result.json"):
                pass  # that of the kernel, which reports leave alone
            folder.author = "it"
            with _watched() as opened:
                write(list(runs), folder)
        written = {path.name for path in folder.written}
        others = sorted(set(os.listdir(directory)) - written)
        require(not others, f"it writes {others} by itself; expected files opened with its folder")
        inside = os.path.realpath(directory) + os.sep
        outside = sorted(path for path in opened if os.path.isfile(path) and not os.path.realpath(path).startswith(inside))
        require(not outside, f"it writes {', '.join(outside)}, outside of its folder; expected files opened with its folder")
        return written - {"result.json"}


_watching: list[set[str]] = []
"""The files that are opened to be written, of everybody who watches."""

_CACHES = (".pyc", ".nbi", ".nbc")
"""Endings of files with compiled code of Python and libraries."""


def _notice(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook of Python: notes files that are opened to be written."""
    if event == "open" and _watching:
        path, mode, flags = arguments
        writes = any(sign in mode for sign in "wax+") if isinstance(mode, str) else bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if writes and isinstance(path, (str, bytes)):
            name = os.path.abspath(os.fsdecode(path))
            caches = (os.path.expanduser("~/.cache"), *filter(None, (os.environ.get("XDG_CACHE_HOME"), os.environ.get("MPLCONFIGDIR"))))
            if not name.startswith(caches) and not name.endswith(_CACHES) and ".pyc." not in name:
                _watching[-1].add(name)


@functools.cache
def _add_hook() -> None:
    sys.addaudithook(_notice)  # for the rest of the process: it cannot be taken away


@contextlib.contextmanager
def _watched() -> Iterator[set[str]]:
    """The files that are opened to be written meanwhile."""
    _add_hook()
    opened: set[str] = set()
    _watching.append(opened)
    try:
        yield opened
    finally:
        _watching.remove(opened)
