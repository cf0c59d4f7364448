"""Lets reports write about small runs, and looks at their files."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from astra_sim.files import FileSet
from astra_sim.graph import ExecutionGraph, Pass, ProgramBuilder
from astra_sim.layers import LayeredProgram
from astra_sim.reports import ReportFolder, Series
from astra_sim.schedule import Collective
from astra_sim.setup.components import Components
from astra_sim.testing.bench import PLATFORM, BenchCompute, BenchMemory, BenchNetwork, BenchSystem, bench_context
from astra_sim.testing.programs import LAYERS
from astra_sim.testing.requirement import require

if TYPE_CHECKING:
    from astra_sim.reports import Result

Write = Callable[[list["Result"], ReportFolder], object]


def bench_result(graph: ExecutionGraph, run_name: str) -> Result:
    """The result of a run on the bench."""
    from astra_sim.api import run_components

    context = bench_context()
    system, network, memory = BenchSystem(), BenchNetwork(PLATFORM), BenchMemory()
    components = Components(graph, PLATFORM, system, network, BenchCompute(), memory, context.run, {"network": "bench"})
    return run_components(components, run_name, time.perf_counter())


def _layered() -> ExecutionGraph:
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
    """Raise AssertionError or AstraError unless a report writes files about runs, with and without layers, through its folder alone."""
    layered, without = bench_result(_layered(), "layered"), bench_result(_without_layers(), "without layers")
    for what, runs in (("a run with layers", [layered]), ("a run without layers", [without]), ("two runs", [layered, without])):
        names = {series: _files(write, runs, series) for series in ("limited", "all", "none")}
        require(names["limited"], f"it writes no file about {what}")
        more = sorted(names["none"] - names["limited"])
        require(not more, f"it writes {more} about {what} without series in time, and not with them")


def _files(write: Write, runs: list[Result], series: Series) -> set[str]:
    """The names of the files that a report writes."""
    with tempfile.TemporaryDirectory(prefix="astra-check-") as directory:
        with FileSet() as files:
            folder = ReportFolder(directory, files, series, "astra")
            with folder.open("result.json"):
                pass  # that of the kernel, which reports leave alone
            folder.author = "it"
            write(runs, folder)
        written = {path.name for path in folder.written}
        others = sorted(set(os.listdir(directory)) - written)
        require(not others, f"it writes {others} by itself; expected files opened with its folder")
        return written - {"result.json"}
