"""Looks at the programs that workloads and training loops write, and runs them on the bench."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from astra_sim.context import Context
from astra_sim.errors import PluginError
from astra_sim.graph import ExecutionGraph, Figure, Pass, Receive, Send, check_graph, peer_of
from astra_sim.layers import LayeredProgram, LayerOptions, PassOptions
from astra_sim.platform import Platform
from astra_sim.providers import call

from astra_sim_devkit.testing.bench import run_on_bench
from astra_sim_devkit.testing.requirement import require, require_figures

LAYERS = tuple(
    LayerOptions(
        name=f"layer{number}",
        forward=PassOptions(compute_ns=100, collective="all_to_all" if not number else "all_gather", collective_bytes=4096),
        input_gradient=PassOptions(compute_ns=200, collective="all_to_all" if not number else "reduce_scatter", collective_bytes=4096),
        weight_gradient=PassOptions(compute_ns=300, collective="all_reduce", collective_bytes=65536),
        update_ns=10,
        loop="data",
    )
    for number in range(4)
)
"""Four layers that compute and communicate in every pass; the first one is an embedding."""


def check_workload(graph: object, platform: Platform) -> ExecutionGraph:
    """Raise AssertionError or AstraError unless this is a graph that can be run to its end. Returns it."""
    require(isinstance(graph, ExecutionGraph), f"it made {graph!r}, which is not an ExecutionGraph")
    assert isinstance(graph, ExecutionGraph)
    try:
        check_graph(graph, platform.npus)
    except ValueError as error:
        raise PluginError(str(error)) from None
    require(any(program.operations for program in graph.programs(platform.npus)), "its graph has no operations")
    _check_messages(graph, platform)
    figures = run_on_bench(graph, platform).figures
    require_figures({name: figure.value if isinstance(figure, Figure) else figure for name, figure in figures.items()}, "its figures are")
    return graph


def _check_messages(graph: ExecutionGraph, platform: Platform) -> None:
    """Raise AssertionError if a send has no receive, or a receive no send."""
    sent: Counter[tuple[int, int, int, int]] = Counter()
    received: Counter[tuple[int, int, int, int]] = Counter()
    for program in graph.programs(platform.npus):
        for operation in program.operations:
            if isinstance(operation, (Send, Receive)):
                for npu in program.npus:
                    peer = peer_of(operation, npu, platform.npus)
                    ends = (npu, peer) if isinstance(operation, Send) else (peer, npu)
                    (sent if isinstance(operation, Send) else received)[*ends, operation.tag, operation.bytes] += 1
    for key in sent | received:
        source, destination, tag, size = key
        message = f"messages of {size} bytes with tag {tag}"
        counts = f"NPU {source} sends {sent[key]} {message} to NPU {destination}, which receives {received[key]}"
        require(sent[key] == received[key], counts)


def check_alike(first: ExecutionGraph, second: ExecutionGraph) -> None:
    """Raise AssertionError unless two graphs that were made of the same options are the same."""
    ours, theirs = (
        [[*graph.operations], [([*other.operations], other.npus) for other in graph.others], graph.dimensions] for graph in (first, second)
    )
    require(ours == theirs, "made anew it is another graph; the same options must give the same one")


def check_training_loop(write: Callable[[LayeredProgram], object], context: Context) -> None:
    """Raise AssertionError or AstraError unless a loop writes a program for every iteration, which can be run to its end."""
    for passes in (1, context.run.passes):
        _check_training_loop(write, attrs.evolve(context, run=attrs.evolve(context.run, passes=passes)))


class _Watched(LayeredProgram):
    """A program that knows for which collectives it has waited, and which it has issued."""

    def __init__(self, context: Context) -> None:
        super().__init__(LAYERS, context, "training loop")
        self.issued: set[tuple[int, Pass]] = set()
        self.not_blocking: set[tuple[int, Pass]] = set()
        self.awaited: set[tuple[int, Pass]] = set()

    def communicate(self, layer: int, training_pass: Pass, dimensions: Sequence[int], *, blocking: bool = False, **more: Any) -> None:
        """As `LayeredProgram`."""
        super().communicate(layer, training_pass, dimensions, blocking=blocking, **more)
        self.issued.add((layer, training_pass))
        if not blocking:
            self.not_blocking.add((layer, training_pass))

    def wait(self, layer: int, training_pass: Pass, *, until_first: bool = False) -> None:
        """As `LayeredProgram`."""
        super().wait(layer, training_pass, until_first=until_first)
        self.awaited.add((layer, training_pass))

    def check_waits(self) -> None:
        """Raise AssertionError if it waits for operations that are never issued.

        To wait for a pass of all layers that some of them issue is right, unless others are left over.
        """
        left = " and ".join(f"layer {layer}, {training_pass}" for layer, training_pass in sorted(self.not_blocking - self.awaited))
        for layer, training_pass in sorted(self.awaited - self.issued):
            what = f"it waits for the collective of layer {layer}, {training_pass}, which it never issues"
            require(0 <= layer < len(LAYERS), f"{what}; there are {len(LAYERS)} layers")
            require(any(issued == training_pass for _, issued in self.issued), f"{what}, nor that of another layer")
            require(not left, f"{what}, and never for that of {left}")


def _check_training_loop(write: Callable[[LayeredProgram], object], context: Context) -> None:
    graph = _written(write, context)
    require(graph.operations, "it wrote no operation")
    for iteration in range(context.run.passes):
        some = any(getattr(operation, "iteration", -1) == iteration for operation in graph.operations)
        require(some, f"it wrote nothing in iteration {iteration} of {context.run.passes}")
    layers = Counter(getattr(operation, "layer", -1) for operation in graph.operations)
    require(any(0 <= layer < len(LAYERS) for layer in layers), f"none of its operations belongs to one of the {len(LAYERS)} layers")
    check_workload(graph, context.platform)
    check_alike(graph, _written(write, context))


def _written(write: Callable[[LayeredProgram], object], context: Context) -> ExecutionGraph:
    program = _Watched(context)
    call("training loop", write, program)
    program.check_waits()
    return program.build()
