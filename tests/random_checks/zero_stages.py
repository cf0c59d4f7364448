"""ZeRO: what a rank keeps, and the bytes that it exchanges with its replicas, against closed forms (arXiv 1910.02054, 2304.11277).

With P parameters on a rank, g bytes a gradient, n shards and m micro-batches, each of these moves the share (n - 1) / n:
ZeRO-1 reduces g P once and gathers 2 P; ZeRO-2 reduces m g P; ZeRO-3 reduces m g P, and gathers 2 P for each forward and backward pass, but
for the unit that a backward pass still has from the forward pass before it. Without ZeRO an all-reduce moves g P twice. What a rank keeps
as a shard it cannot keep whole: each check of bytes goes with one of memory. With LoRA P is the adapters alone, but where ZeRO-3 gathers
weights, which it does not for the backward pass of an embedding.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from random import Random
from typing import Any

import astra_sim
from astra_sim.graph import Communicate, ExecutionGraph
from astra_sim.schedule import Collective
from astra_sim_llm.adapters import adapter_parameters
from astra_sim_llm.counts import ParameterCounts, block_kind, block_parameters, embedding_parameters, head_parameters
from astra_sim_llm.memory import memory_of
from astra_sim_llm.plan import TrainingPlan
from support.llm_experiments import experiment
from support.llm_graphs import counted, graph_of

IN_TESTS = 40
IN_NIGHTLY = 2000

SIMULATED = 8
"""One case in `SIMULATED` is simulated, too: what is reduced more often takes no less time."""


def check(seed: int, folder: Path) -> list[str]:
    """Bytes and memory of a random plan, and whether it runs to its end."""
    arguments = _arguments(seed)
    workload = arguments["workload"]
    try:
        plan, graph = graph_of(arguments)
    except astra_sim.InputError:
        return []
    if plan.options.mode != "train":
        return []
    result = []
    for stage in range(plan.parallel.pipeline):
        units = _units(plan, stage)
        for what, counted_bytes, least, most in _forms(plan, graph, stage, units):
            slack = 1e-6 * most + 8 * plan.setup.micro_batches * sum(map(len, units)) * plan.parallel.shards  # of bytes that are rounded
            if not least - slack <= counted_bytes <= most + slack:
                result.append(f"stage {stage}: {what}: {counted_bytes:.0f} bytes; expected {least:.0f} to {most:.0f} ({workload})")
    if seed % SIMULATED == 0:
        result += _simulated(arguments)
    return result


def _arguments(seed: int) -> dict[str, Any]:
    """A random experiment with collectives of their own, and a choice of what is kept between micro-batches."""
    random = Random(seed)
    while True:
        arguments = experiment(random, 16)
        workload = arguments["workload"]
        if workload["mode"] == "train":
            break
    workload["detail"] = "layer"
    if workload.get("schedule", "").startswith("zb") and random.random() < 0.5:
        workload["zero"] = 1
    return arguments


def _units(plan: TrainingPlan, stage: int) -> list[list[ParameterCounts]]:
    """The parameters of each unit of each chunk of a stage, from the chunks of the plan."""
    model, parallel, chunks = plan.model, plan.parallel, plan.chunks_of_stage(stage)
    adapters = adapter_parameters(model, plan.options.lora, parallel)
    begins = any(chunk.embedding for chunk in chunks)
    return [
        [
            *([embedding_parameters(model, parallel)] if chunk.embedding else []),
            *(block_parameters(model, block_kind(model, layer), parallel) + adapters for layer in chunk.layers),
            *([head_parameters(model, parallel, begins)] if chunk.head else []),
            *(block_parameters(model, "prediction", parallel) + adapters for _ in range(model.mtp_layers if chunk.head else 0)),
        ]
        for chunk in chunks
    ]


def _forms(
    plan: TrainingPlan, graph: ExecutionGraph, stage: int, units: list[list[ParameterCounts]]
) -> list[tuple[str, float, float, float]]:
    """What is counted, and the least and the most that the closed form allows."""
    options, parallel, use = plan.options, plan.parallel, memory_of(plan.setup, stage)
    g = 4 if options.gradients == "fp32" else 2
    micro_batches = plan.setup.micro_batches // (2 if plan.setup.schedule == "dualpipe" else 1)
    kept_whole = options.zero < 2 or options.accumulation == "whole"
    reductions = 1 if kept_whole else micro_batches
    result = []
    reduced = gathered_least = gathered_most = 0.0
    sizes = {"weights": 0.0, "gradients": 0.0, "optimizer": 0.0}
    all_data = parallel.data * parallel.context
    for name, shards, replicas in (
        ("shared", parallel.shards, all_data),
        ("experts", parallel.expert_shards, parallel.expert_data),
    ):
        own = [[getattr(unit, name) for unit in chunk] for chunk in units]
        weights = total = sum(map(sum, own))
        back = own
        if options.lora is not None:
            total = sum(unit.adapters for chunk in units for unit in chunk) if name == "shared" else 0
            back = [chunk[begin.embedding :] for chunk, begin in zip(own, plan.chunks_of_stage(stage), strict=True)]
        moved, all_moved = (shards - 1) / shards, (replicas - 1) / replicas
        if options.zero == 0:
            reduced += 2 * g * total * all_moved
        elif options.reduction == "all":
            reduced += reductions * 2 * g * total * all_moved
        else:
            groups = replicas // shards
            reduced += reductions * g * total * moved + 2 * g * total / shards * (groups - 1) / groups
        if options.zero in (1, 2):
            gathered_least += 2 * total * moved
            gathered_most += 2 * total * moved
        elif options.zero == 3:
            twice = weights + sum(map(sum, back))
            gathered_most += micro_batches * 2 * twice * moved
            last = sum(chunk[-1] for chunk in back if chunk)
            gathered_least += micro_batches * 2 * (twice - last) * moved
        sizes["weights"] += 2 * weights / (shards if options.zero == 3 else 1)
        sizes["gradients"] += g * total / (1 if kept_whole else shards)
        sizes["optimizer"] += 12 * total / (shards if options.zero else 1)
    one_by_one = plan.setup.schedule != "gpipe" or plan.setup.micro_batches == 1
    if parallel.pipeline == 1 and one_by_one:  # each backward pass follows its forward pass
        gathered_most = gathered_least
    result.append(("reduced", _moved(graph, stage, "gradients"), reduced, reduced))
    result.append(("gathered", _moved(graph, stage, "parameters"), gathered_least, gathered_most))
    result += [(name, getattr(use, name), size, size) for name, size in sizes.items()]
    return result


def _moved(graph: ExecutionGraph, stage: int, name: str) -> float:
    """Bytes that a rank of a stage sends in the collectives of a name, by rings."""
    moved = 0.0
    operations = graph.operations if stage == 0 else graph.others[stage - 1].operations
    for operation, count in counted(operations):
        if not isinstance(operation, Communicate) or operation.name != name:
            continue
        ranks = 1
        for number in operation.dimensions or ():
            ranks *= graph.dimensions[number].size
        factor = {
            Collective.ALL_GATHER: ranks - 1,
            Collective.REDUCE_SCATTER: (ranks - 1) / ranks,
            Collective.ALL_REDUCE: 2 * (ranks - 1) / ranks,
        }[operation.collective]
        moved += count * operation.bytes * factor
    return moved


def _simulated(arguments: dict[str, Any]) -> list[str]:
    """A run with shards kept, and one with whole gradients."""
    if arguments["workload"].get("zero", 0) < 2:
        return []
    times: list[float] = []
    stuck: list[str] = []
    for result in ("shards", "whole"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                workload = arguments["workload"] | {"accumulation": result}
                times.append(astra_sim.simulate(**arguments | {"workload": workload}).iteration_s)
        except astra_sim.DeadlockError as error:
            stuck.append(f"accumulation = {result}: {error}")
    if stuck:  # both: nothing of ZeRO's is to blame
        return stuck if times else []
    if times[0] < times[1] * 0.98:
        return [f"gradients that are kept as shards take {times[0]:.6g} s, whole ones {times[1]:.6g} s"]
    return []
