"""The workload `llm`: an execution graph with one program for each pipeline stage."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from astra_sim import CapacityError, InputError
from astra_sim.compute import ExpectedError, MissingWork
from astra_sim.compute import Work as ComputeWork
from astra_sim.context import Context
from astra_sim.graph import ExecutionGraph, NpuProgram
from astra_sim.providers import call
from astra_sim.shapes import Kernel
from astra_sim.units import GIB, PS_PER_NS, picoseconds

from astra_sim_llm import counts, memory
from astra_sim_llm.adapters import lora_flops
from astra_sim_llm.broadcasts import chain_of
from astra_sim_llm.figures import PARALLELISMS, LlmFigures, RunFacts
from astra_sim_llm.inference import TokenWriter
from astra_sim_llm.layout import ParallelAxes, Part
from astra_sim_llm.models import LayerForm, form_of
from astra_sim_llm.options import CAST_TO, LlmOptions
from astra_sim_llm.plan import TrainingPlan, make_plan, order_of
from astra_sim_llm.program import StageWriter
from astra_sim_llm.schedules import PassTimes
from astra_sim_llm.steps import LlmExchange, LlmRun, Step, weight_steps
from astra_sim_llm.suggestions import suggestions
from astra_sim_llm.templates import Compiler, Layouts, OperationTypes, communicate

_PS_PER_US = 1_000_000


def llm(options: LlmOptions, context: Context) -> ExecutionGraph:
    """Training or inference of a large language model. Raises InputError if options do not fit each other or the platform,
    CapacityError if the model does not fit in memory.
    """
    durations = Durations(context)
    plan = make_plan(options, context.platform.npus, durations.weight_of)
    use = memory.peak(plan.setup)
    capacity = memory.capacity_of(context.compute, options.memory_margin)
    if options.check_memory:
        _check_memory(plan, *use, capacity)
    parallel = plan.parallel
    axes = ParallelAxes(context.platform, parallel)
    if not axes.dimensions:  # one rank, or stages of one: collectives need something to speak of
        axes.dimensions.extend(context.platform.logical_dimensions())
    plan = attrs.evolve(plan, expert_nodes=axes.expert_nodes)
    exchanges = ExchangeTimes(context, axes)
    kinds = [OperationTypes() for _ in range(parallel.pipeline)]
    launch_ps = _launch_ps(options, context)
    nodes = -(-parallel.ranks // context.platform.dimensions[0].size)
    chain = chain_of(context.platform, parallel.shards, parallel.tensor, options.nics)
    order, block = order_of(plan, lambda plan: pass_times(plan, durations, exchanges)), plan.block()
    programs, layouts = [], Layouts()
    for stage in range(parallel.pipeline):
        npus = range(stage * parallel.stage_ranks, (stage + 1) * parallel.stage_ranks)
        compiler = Compiler(
            kinds=kinds[stage],
            duration_ps=durations.of_run,
            exchange_ps=exchanges.of,
            dimensions_of=axes.__getitem__,
            detail=options.detail,
            contention=options.overlap.contention,
            launch_ps=launch_ps,
            layouts=layouts,
        )
        if options.mode == "train":
            writer = StageWriter(plan, stage, block, compiler, kinds[stage], nodes, chain)
            programs.append(NpuProgram(writer.write(order[stage], context.run.passes), npus))
        else:
            programs.append(NpuProgram(TokenWriter(plan, stage, compiler, kinds[stage]).write(context.run.passes), npus))
    facts = RunFacts(
        parallel=parallel,
        iterations=context.run.passes,
        tokens=_tokens(plan),
        model_flops=_model_flops(plan),
        counted=_counted(plan),
        peak_flops_per_s=context.compute.peak_ops_per_s(CAST_TO.get(options.precision, options.precision)),
        memory_bytes=use[1].total,
        memory_words=_memory_words(use[0], capacity),
        kinds=kinds,
        expected_error=_expected_error(plan, context),
    )
    first, *others = programs
    return ExecutionGraph(
        first.operations,
        dimensions=tuple(axes.dimensions),
        layers=(),
        footprint_bytes=use[1].total,
        others=tuple(others),
        figures=LlmFigures(facts),
        exposed_first=PARALLELISMS,
        precision=options.precision,
    )


class Durations:
    """The times of kernels from the compute model (picoseconds); each is computed once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._known: dict[Kernel, int] = {}

    def of_run(self, run: LlmRun) -> int:
        """The time of a kernel. Raises InputError if the compute model does not price it."""
        if run.shape not in self._known:
            compute = self._context.compute
            what = f"compute {type(compute).__name__}"
            try:
                nanoseconds = call(what, compute.duration_ns, ComputeWork(shape=run.shape))
            except MissingWork as error:
                raise InputError(f"kernel {run.name!r}: {error}") from None
            picoseconds(nanoseconds * PS_PER_NS, f"{what}: the time of kernel {run.name!r}")
            self._known[run.shape] = self._context.scaled_ps(nanoseconds)
        return self._known[run.shape]

    def weight_of(self, plan: TrainingPlan, part: Part) -> float:
        """The kernels of a layer, of the embedding, or of the head, forward and backward (picoseconds)."""
        block = plan.block()
        if part == "embedding":
            steps = [*block.ends.embedding(), *block.ends.embedding_back()]
        elif part == "head":
            steps = [*block.ends.head(), *block.ends.head_back()]
        else:
            steps = [*block.forward(part), *block.recompute(part, plan.setup.recompute), *block.backward(part)]
        return float(sum(map(self.of_run, _runs(steps))))


def _runs(steps: Iterable[Step]) -> list[LlmRun]:
    return [step for step in steps if isinstance(step, LlmRun)]


class ExchangeTimes:
    """The times of exchanges alone (picoseconds)."""

    def __init__(self, context: Context, axes: ParallelAxes) -> None:
        self._context = context
        self._axes = axes

    def of(self, exchange: LlmExchange) -> int:
        """The time of a collective of all groups of its axis at once; none over one rank."""
        if not (self._axes[exchange.axis] and exchange.bytes):
            return 0
        operation = communicate(exchange, self._axes[exchange.axis])
        return self._context.time_alone_ps(operation, self._axes.dimensions)


def pass_times(plan: TrainingPlan, durations: Durations, exchanges: ExchangeTimes) -> PassTimes:
    """The times of passes of a chunk, by its mean layers (picoseconds)."""
    block, model, times = plan.block(), plan.model, [0, 0, 0]
    alike: dict[LayerForm, list[int]] = {}
    for layer in range(model.layers):
        alike.setdefault(form_of(model, layer), []).append(layer)
    for first, *others in alike.values():
        layers = 1 + len(others)
        inputs, weights = weight_steps([*block.recompute(first, plan.setup.recompute), *block.backward(first)])
        for number, steps in enumerate((block.forward(first), inputs, weights)):
            waits = (exchanges.of(step) for step in steps if isinstance(step, LlmExchange) and not step.overlapped_with)
            times[number] += layers * (sum(map(durations.of_run, _runs(steps))) + sum(waits))
    return PassTimes(*(time // len(plan.chunks) for time in times))


def _launch_ps(options: LlmOptions, context: Context) -> int:
    """The time of the host to launch a kernel by itself. Raises InputError for graphs if it is 0."""
    launch_us = context.compute.launch_us
    if options.cuda_graphs != "none" and not launch_us:
        raise InputError(f"cuda_graphs is {options.cuda_graphs}, which has no effect on a compute model without launch_us (its stack)")
    launch_ps = picoseconds(launch_us * _PS_PER_US, "compute: launch_us")
    return 0 if options.cuda_graphs == "iteration" else launch_ps // context.tick_ps * context.tick_ps


def _expected_error(plan: TrainingPlan, context: Context) -> ExpectedError | None:
    """The error bound of the time of an iteration, from the compute model's measured runs on networks whose collectives were measured."""
    options, parallel = plan.options, plan.parallel
    if options.mode != "train" or options.lora is not None:
        return None
    known = context.compute.expected_error(
        context.platform.npus,
        {
            "parameters": counts.parameters(plan.model).total,
            "experts": plan.model.experts or 0,
            "sequence": plan.setup.sequence,
            "global_batch": options.global_batch,
            "micro_batch": options.micro_batch,
            "precision": options.precision,
            "zero": options.zero,
            "recompute": options.recompute if isinstance(options.recompute, str) else "full",
            "tensor_parallel": parallel.tensor,
            "pipeline_parallel": parallel.pipeline,
            "context_parallel": parallel.context,
            "expert_parallel": parallel.expert,
        },
    )
    if known is None or context.collectives_of:
        return known
    return attrs.evolve(known, extrapolates=(*known.extrapolates, "network"))


def _check_memory(plan: TrainingPlan, stage: int, use: memory.LlmMemoryUse, capacity: memory.Capacity | None) -> None:
    """Raise CapacityError if a rank needs more memory than it has, with changes that would make it fit."""
    if capacity is None or use.total <= capacity.usable:
        return
    fitting = suggestions(plan.setup, capacity.usable)
    words = "; ".join(f"{one.change} needs {one.bytes / GIB:.1f} GiB" for one in fitting[:4])
    margin = f", of which a margin of {capacity.margin / GIB:.1f} GiB is left free (memory_margin)" if capacity.margin else ""
    raise CapacityError(
        f"a rank of stage {stage} needs {use.total / GIB:.1f} GiB of memory; an NPU has {capacity.total / GIB:.1f} GiB{margin}"
        f" ({words or 'no single change of recompute, zero, tensor_parallel or pipeline_parallel is enough'};"
        " check_memory=false runs it all the same)",
        use.total,
        capacity.usable,
    )


def _memory_words(stage: int, capacity: memory.Capacity | None) -> str:
    """Of which stage the peak is, and of how much memory."""
    return f"stage {stage}" if capacity is None else f"stage {stage}, of {capacity}"


def _tokens(plan: TrainingPlan) -> int:
    """Tokens of an iteration: those that are trained on, read, or made."""
    options = plan.options
    return options.global_batch * (options.decode_tokens if options.mode == "decode" else plan.setup.sequence)


def _model_flops(plan: TrainingPlan) -> float:
    """Model FLOPs of an iteration."""
    options, model = plan.options, plan.model
    if options.lora is not None:
        return _tokens(plan) * lora_flops(model, options.lora, plan.setup.sequence, options.causal_flops)
    if options.mode == "train":
        return counts.iteration_flops(model, plan.setup.sequence, options.global_batch, options.causal_flops)
    # Modules of multi-token prediction are for training; a prompt needs the head for its last token alone.
    trained = attrs.evolve(model, mtp_layers=0)
    if options.mode == "prefill":
        heads = counts.head_flops(model) * options.global_batch
        return plan.setup.sequence * options.global_batch * counts.blocks_flops(trained, plan.setup.sequence, options.causal_flops) + heads
    # The cache grows by a token a step, and its mean length counts.
    keys = (options.kv_length or plan.setup.sequence) + options.decode_tokens / 2
    return _tokens(plan) * counts.forward_flops(trained, round(keys), causal=False)


def _counted(plan: TrainingPlan) -> str:
    """Which FLOPs count as those of the model, in words."""
    square = "the causal half" if plan.options.causal_flops and plan.options.mode != "decode" else "all"
    passes = "forward and backward" if plan.options.mode == "train" else "forward"
    if plan.options.lora is not None:
        passes = "forward and input gradients, weight gradients of adapters"
    return f"{passes}, {square} of the attention square, no recomputation"
