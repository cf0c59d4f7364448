"""From options to a plan: the model, the sizes of all groups, the layers of all stages, and the memory of a rank."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.limits import MAX_MICRO_BATCHES

from astra_sim_llm import hugging_face, schedules
from astra_sim_llm.adapters import check_lora
from astra_sim_llm.divisibility import group_misfits
from astra_sim_llm.layout import Chunk, Part, split_layers
from astra_sim_llm.models import MODELS, Model
from astra_sim_llm.operations import Block
from astra_sim_llm.options import RECOMPUTE, LlmOptions, RecomputeLayers
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.plugin import ALIASES
from astra_sim_llm.products import Dispatch, ProductWork
from astra_sim_llm.training_setup import TrainingSetup
from astra_sim_llm.unused import check_all_used


@attrs.frozen
class TrainingPlan:
    """The plan of a run, before the times of kernels are known.

    An option is in one place: `options` are the user's choices, `setup` is derived from them and also determines memory. `chunks`
    are the layers of all virtual stages, `expert_nodes` the nodes over which experts are shared. Code that writes programs reads all of
    them; only `Work`, which determines kernels, is copied.
    """

    options: LlmOptions
    setup: TrainingSetup
    chunks: tuple[Chunk, ...] = ()
    expert_nodes: int = 1

    @property
    def model(self) -> Model:
        """The model."""
        return self.setup.model

    @property
    def parallel(self) -> Parallelism:
        """The sizes of all groups."""
        return self.setup.parallel

    @property
    def gradient_bytes(self) -> int:
        """Bytes of a gradient."""
        return 4 if self.options.gradients == "fp32" else 2

    @property
    def optimizer_bytes(self) -> float:
        """Bytes that the optimizer moves for a parameter."""
        # fp16: unscale and check 8, norm 4, clip 8, Adam 28, copy 6, zero 4 (Megatron-LM, 2022); bf16 has no scale of the loss.
        return self.options.optimizer_bytes or (58.0 if self.options.precision == "fp16" else 46.0)

    @property
    def gathers_overlap(self) -> bool:
        """Whether weights are gathered beside forward passes."""
        return self.options.overlap.gathers_run

    def work(self, keys: int | None = None) -> ProductWork:
        """The work of a rank in a pass; decoding has one token of each sequence, and `keys` in the cache."""
        o = self.options
        return ProductWork(
            self.setup.micro_batch,
            1 if o.mode == "decode" else self.setup.sequence,
            precision=o.precision,
            fp32_gradients=o.gradients == "fp32" and o.collective_buffers == "views",
            fused_gradients=o.fused_gradients,
            saved_inputs=o.saved_inputs,
            flash=o.attention == "flash",
            fp8_attention=o.fp8_attention,
            ulysses=o.context == "ulysses",
            tp_overlap=o.overlap.tp,
            training=o.mode == "train",
            keys=keys,
            expert_skew=o.expert_skew,
            capacity_factor=o.capacity_factor,
            dispatch=Dispatch(o.dispatch, self.expert_nodes, o.node_limit, o.expert_groups or (1, 1)),
            recompute_modules=o.recompute_modules,
            fused_experts=o.fused_experts,
            fused_loss=o.fused_loss,
            cuda_graphs=o.cuda_graphs,
            lora=o.lora,
        )

    def block(self, keys: int | None = None) -> Block:
        """The passes of a block."""
        return Block(self.model, self.parallel, self.work(keys))

    def layers_of_stage(self, stage: int) -> list[int]:
        """The layers of a stage, chunk after chunk."""
        return [layer for chunk in self.chunks_of_stage(stage) for layer in chunk.layers]

    def chunks_of_stage(self, stage: int) -> list[Chunk]:
        """The chunks of a stage in order."""
        schedule, stages = self.setup.schedule, self.parallel.pipeline
        return [self.chunks[schedules.virtual_stage(schedule, stage, number, stages)] for number in range(self.setup.chunks)]


def make_plan(options: LlmOptions, npus: int, weight_of: Callable[[TrainingPlan, Part], float] | None = None) -> TrainingPlan:
    """The plan of options on `npus` NPUs. `weight_of` is the time of a layer, for stages = weighted; without it all take the same.

    Raises InputError naming the option that does not fit.
    """
    model = read_model(options.model)
    parallel = parallelism_of(options, npus)
    sequence = options.sequence or model.sequence
    check_all_used(options, model, parallel)
    _check_expert_groups(options, model)
    if options.update == "broadcast" and model.experts:
        raise InputError("update is broadcast, and the model has experts; expected gather")
    if options.lora is not None:
        check_lora(options.lora, model)
    schedule = _schedule(options, parallel)
    micro_batches = _micro_batches(options, parallel)
    if options.mode != "train":
        _check_inference(options)
    recompute, layers = _recompute(options)
    setup = TrainingSetup(
        model,
        parallel,
        layers_of_stage=((),) * parallel.pipeline,
        sequence=sequence,
        micro_batch=options.micro_batch,
        micro_batches=micro_batches,
        precision=options.precision,
        gradients=options.gradients,
        accumulation=options.accumulation,
        saved_inputs=options.saved_inputs,
        recompute="full" if layers is not None else recompute,
        recompute_layers=layers,
        recompute_modules=options.recompute_modules,
        attention=options.attention,
        fp8_attention=options.fp8_attention,
        schedule=schedule,
        extra_ahead=int(options.overlap.ep),
        mode=options.mode,
        kv_length=(options.kv_length or sequence) + (options.decode_tokens if options.mode == "decode" else 0),
        lora=options.lora,
    )
    plan = TrainingPlan(options, setup)
    plan.block()  # checks that ranks divide shared quantities
    # Stages are cut by the times of layers, from the kernels of a plan without stages.
    # The second chunk of a rank of DualPipe is the stage of another rank, not a further part of the model.
    count = parallel.pipeline * (1 if schedule == "dualpipe" else setup.chunks)
    chunks = split_layers(model, count, options.stages, lambda part: weight_of(plan, part) if weight_of else 1.0)
    plan = attrs.evolve(plan, chunks=tuple(chunks))
    layers_of_stage = tuple(tuple(plan.layers_of_stage(stage)) for stage in range(parallel.pipeline))
    return attrs.evolve(plan, setup=attrs.evolve(setup, layers_of_stage=layers_of_stage))


def read_model(named: str | Model) -> Model:
    """A model by name, from a configuration file or the folder with one, or as it is given. Raises InputError."""
    if isinstance(named, Model):
        return named
    known = ALIASES.get(named.lower(), named)
    if known in MODELS:
        return MODELS[known]
    if named.endswith(".json") or os.path.exists(named):
        return hugging_face.model_of_config(named)
    hint = suggestion(named.lower(), MODELS)
    close = f"{hint} " if hint.startswith("did") else ""
    raise InputError(f"model is {named!r}; {close}known: {', '.join(MODELS)}, or the path of a config.json or of its folder")


def parallelism_of(options: LlmOptions, npus: int) -> Parallelism:
    """The sizes of all groups. Raises InputError if they do not fit each other or the NPUs."""
    fixed = options.tensor_parallel * options.pipeline_parallel * options.context_parallel
    words = "tensor_parallel * pipeline_parallel * context_parallel"
    if options.data_parallel == "fill":
        data, rest = divmod(npus, fixed)
        if rest or not data:
            raise InputError(f"{words} is {fixed}; expected a divisor of the platform's {npus} NPUs")
    elif isinstance(options.data_parallel, int):
        data = options.data_parallel
        if fixed * data != npus:
            raise InputError(f"{words} * data_parallel is {fixed * data}; expected the platform's {npus} NPUs")
    else:
        raise InputError(f"data_parallel is {options.data_parallel!r}; expected a number or fill")
    tensor = options.tensor_parallel
    sequence = tensor > 1 if options.sequence_parallel is None else options.sequence_parallel and tensor > 1
    expert_tensor = options.expert_tensor_parallel or Parallelism.default_expert_tensor(
        tensor, options.expert_parallel, npus // options.pipeline_parallel
    )
    parallel = Parallelism(
        tensor=tensor,
        # The one token of a sequence that is decoded cannot be shared by ranks.
        sequence=sequence and options.mode != "decode",
        pipeline=options.pipeline_parallel,
        virtual_stages=options.virtual_stages,
        context=options.context_parallel,
        expert=options.expert_parallel,
        expert_tensor=expert_tensor,
        data=data,
        zero=options.zero,
        shard_group=options.shard_group,
    )
    for problem in group_misfits(parallel):
        raise InputError(problem)
    if options.shard_group is not None and not options.zero:
        raise InputError(f"shard_group is {options.shard_group} and zero is 0; expected zero of at least 1")
    return parallel


def _check_expert_groups(options: LlmOptions, model: Model) -> None:
    """Raise InputError if the groups of experts do not divide them, or those chosen do not have enough for a token."""
    if options.expert_groups is None:
        return
    groups, chosen = options.expert_groups
    if model.experts % groups or not model.top_k <= chosen * (model.experts // groups) <= model.experts:
        raise InputError(
            f"expert_groups is {[groups, chosen]}; expected a divisor of {model.experts} experts, and as many of these groups as have"
            f" {model.top_k} experts or more"
        )


def _schedule(options: LlmOptions, parallel: Parallelism) -> str:
    """The schedule, after a check that it fits the options. One stage does its micro-batches one by one."""
    several = parallel.virtual_stages > 1
    schedule = options.schedule or ("interleaved" if several else "1f1b")
    if several and schedule != "interleaved":
        raise InputError(f"virtual_stages is {parallel.virtual_stages} and schedule {schedule}; expected interleaved, or 1 virtual stage")
    if schedule in ("zb-v", "dualpipe", "interleaved") and parallel.pipeline == 1:
        chunks = f" with virtual_stages = {parallel.virtual_stages}" if several else ""
        raise InputError(f"schedule is {schedule}{chunks}, and pipeline_parallel 1; expected at least 2 stages")
    if options.zero >= 2 and schedule in ("zb-h1", "zb-v"):
        raise InputError(f"zero is {options.zero} and schedule {schedule}; expected at most 1 where weight gradients are put off")
    if options.overlap.ep and schedule not in ("1f1b", "interleaved", "dualpipe"):
        raise InputError(f"overlap.ep is true and schedule {schedule}; expected 1f1b, interleaved or dualpipe")
    return schedule


def _micro_batches(options: LlmOptions, parallel: Parallelism) -> int:
    """Micro-batches of an iteration and replica. Raises InputError if the batch is no multiple, or there are too many."""
    micro_batches, rest = divmod(options.global_batch, options.micro_batch * parallel.data)
    if rest or not micro_batches:
        raise InputError(
            f"global_batch is {options.global_batch}; expected a multiple of micro_batch * data_parallel,"
            f" which is {options.micro_batch} * {parallel.data}"
        )
    if micro_batches > MAX_MICRO_BATCHES:
        raise InputError(
            f"global_batch is {options.global_batch}: {micro_batches} micro-batches of an iteration; expected at most {MAX_MICRO_BATCHES}"
        )
    return micro_batches


def _check_inference(options: LlmOptions) -> None:
    """Raise InputError for options without a meaning in inference."""
    if options.virtual_stages > 1:
        raise InputError(
            f"virtual_stages is {options.virtual_stages} and mode {options.mode}; expected 1: inference has forward passes alone"
        )
    if options.mode != "decode":
        return
    if options.attention == "unfused":
        raise InputError("mode is decode and attention unfused; expected flash")
    if options.context_parallel > 1:
        raise InputError(f"mode is decode and context_parallel {options.context_parallel}; expected 1")


def _recompute(options: LlmOptions) -> tuple[str, int | None]:
    if isinstance(options.recompute, RecomputeLayers):
        return "full", options.recompute.layers
    if options.recompute not in RECOMPUTE:
        raise InputError(
            f"recompute is {options.recompute!r}; {suggestion(options.recompute, RECOMPUTE)}, or a table such as {{layers = 3}}"
        )
    return options.recompute, None


def order_of(plan: TrainingPlan, times_of: Callable[[TrainingPlan], schedules.PassTimes]) -> Sequence[Sequence[schedules.ScheduleStep]]:
    """The passes of each stage. If exchanges of experts are hidden, one forward pass more goes ahead.

    `times_of` gives the times of passes of a chunk, which only ZB-V needs. Raises InputError.
    """
    stages = plan.parallel.pipeline
    if plan.options.mode != "train":
        rounds = plan.options.decode_tokens if plan.options.mode == "decode" else 1
        passes = range(rounds * plan.setup.micro_batches)
        return [[schedules.ScheduleStep(schedules.PassKind.FORWARD, number) for number in passes]] * stages
    setup = plan.setup
    times = times_of(plan) if setup.schedule == "zb-v" else schedules.EQUAL_TIMES
    return schedules.order_of(setup.schedule, stages, setup.micro_batches, plan.parallel.virtual_stages, setup.extra_ahead, times)
