"""The programs of pipeline stages: passes in the order of a schedule, messages between stages, and the end of an iteration."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from astra_sim.graph import Operation, Pass
from astra_sim.rows import Rows
from astra_sim.schedule import Collective, shift
from astra_sim.shapes import OptimizerStep

from astra_sim_llm import messages, schedules
from astra_sim_llm.adapters import whole_parameters
from astra_sim_llm.broadcasts import BroadcastChain
from astra_sim_llm.counts import matrices, share, tensors
from astra_sim_llm.data_parallel import DataParallel, Part, Unit
from astra_sim_llm.layout import Chunk
from astra_sim_llm.memory import trained_parameters_of
from astra_sim_llm.operations import Block
from astra_sim_llm.plan import TrainingPlan
from astra_sim_llm.scatter import lateness_ps
from astra_sim_llm.schedules import PassKind
from astra_sim_llm.steps import LlmExchange, LlmRun, Step, join, weight_steps
from astra_sim_llm.templates import BEFORE, FIRE_AND_FORGET, Compiler, OperationTypes, ProgramRows, Template
from astra_sim_llm.training_setup import layers_on

TIED_TAG = 1 << 20
TOKEN_TAG = TIED_TAG + 1
"""Tags of messages that are not between neighbouring virtual stages."""


class StageWriter:
    """Writes the program of one stage. `nodes` is how many nodes the platform has, `chain` the way of broadcasts over them."""

    def __init__(
        self,
        plan: TrainingPlan,
        stage: int,
        block: Block,
        compiler: Compiler,
        kinds: OperationTypes,
        nodes: int = 1,
        chain: BroadcastChain | None = None,
    ) -> None:
        self._plan = plan
        self._stage = stage
        self._block = block
        self._compiler = compiler
        self._kinds = kinds
        # Passes with reductions that run on follow each other, or end together (DualPipe): replicas out of step would begin them in
        # different orders.
        self._rows = ProgramRows(kinds, in_turn=plan.setup.schedule == "dualpipe" or plan.setup.shards_gradients)
        self._data_parallel = DataParallel(plan, stage)
        self._templates: dict[object, Template] = {}
        self._kernels_ps: dict[Template, int] = {}
        self._nodes = min(nodes, plan.parallel.data)  # those with replicas of their own
        self._chain = chain or BroadcastChain()
        self._virtual_stages = len(plan.chunks)

    def write(self, order: Sequence[schedules.ScheduleStep], iterations: int) -> Rows[Operation]:
        """The program of several iterations."""
        for _ in range(iterations):
            late_ps = self._write_passes(order)
            self._finish(late_ps)
        return self._rows.rows()

    def _write_passes(self, order: Sequence[schedules.ScheduleStep]) -> int:
        """The passes of an iteration, and how much later the slowest node ends them. Weights that are gathered beside them are there
        before the first pass of their chunk.

        A first pass that waits for nothing gathers its own, bucket by bucket; all others are under way while it is waited for.
        """
        templates, chunks = self._passes(order)
        late_ps = lateness_ps(self._plan.options.scatter, self._nodes, sum(map(self._kernels_ps.__getitem__, templates)))
        place = 0
        if self._data_parallel.gathers_ahead and self._virtual(chunks[0][0]) == 0:
            place, chunks = 1, chunks[1:]
            self._rows.write(templates[:place])
        gathers = [self._gather_ahead(chunk) for chunk, _ in chunks] if self._data_parallel.gathers_ahead else []
        for (_, begin), gather in zip(chunks, gathers, strict=False):
            self._rows.write(templates[place:begin])
            self._rows.wait_for(gather)
            place = begin
        self._rows.write(templates[place:])
        return late_ps

    # -- passes ------------------------------------------------------------------------------------------------------------

    def _passes(self, order: Sequence[schedules.ScheduleStep]) -> tuple[list[Template], list[tuple[int, int]]]:
        """The templates of an order, and the first place of each chunk's: (chunk, place)."""
        firsts: dict[int, int] = {}
        lasts = {step.chunk: place for place, step in enumerate(order) if step.kind is not PassKind.FORWARD}
        templates: list[Template] = []
        place = 0
        while place < len(order):
            step = order[place]
            first = not templates  # a forward pass
            firsts.setdefault(step.chunk, len(templates))
            after = order[place + 1] if place + 1 < len(order) else None
            if step.with_forward and self._plan.options.overlap.ep:
                assert after is not None
                last = lasts[after.chunk] == place + 1
                templates.append(self._template((step.kind, step.chunk, first, False), (after.kind, after.chunk, last, False)))
                place += 2
                continue
            edge = first if step.kind is PassKind.FORWARD else lasts.get(step.chunk) == place
            before = order[place - 1] if place else None
            after_forward = (
                before is not None and before.kind is PassKind.FORWARD and before.chunk == step.chunk and step.kind is not before.kind
            )
            templates.append(self._template((step.kind, step.chunk, edge, after_forward and self._plan.parallel.zero == 3)))
            place += 1
        return templates, list(firsts.items())

    def _template(self, *passes: tuple[PassKind, int, bool, bool]) -> Template:
        """The template of a pass, or of a forward pass joined to a backward one.

        Each is (kind, chunk, whether the first or the last, whether a backward pass that follows a forward pass of its chunk).
        """
        if passes not in self._templates:
            steps = [self._steps(*one) for one in passes]
            kind = Pass.FORWARD if passes[0][0] is PassKind.FORWARD else Pass.INPUT_GRADIENT
            kind = Pass.WEIGHT_GRADIENT if passes[0][0] is PassKind.WEIGHT else kind
            names = {
                PassKind.FORWARD: "forward",
                PassKind.BACKWARD: "backward",
                PassKind.INPUT: "input gradient",
                PassKind.WEIGHT: "weight gradient",
            }
            name = " and ".join(f"{names[one[0]]} {self._virtual(one[1])}" for one in passes)
            merged = beside_each_other(*steps) if len(steps) > 1 else steps[0]
            template = self._with_messages(self._compiler.compile(merged, kind, name), [one[:2] for one in passes])
            self._templates[passes] = template
            self._kernels_ps[template] = self._compiler.kernels_ps(merged)
        return self._templates[passes]

    def _virtual(self, chunk: int) -> int:
        return schedules.virtual_stage(self._plan.setup.schedule, self._stage, chunk, self._plan.parallel.pipeline)

    def _chunk(self, chunk: int) -> Chunk:
        return self._plan.chunks[self._virtual(chunk)]

    def _steps(self, kind: PassKind, chunk: int, edge: bool, after_forward: bool) -> list[Step]:
        """The kernels and exchanges of a pass."""
        p = self._plan.parallel
        at, forward = self._virtual(chunk), kind is PassKind.FORWARD
        comes = at > 0 if forward else at + 1 < self._virtual_stages and kind is not PassKind.WEIGHT
        if comes and p.tensor > 1 and not p.sequence:  # each tensor rank has received a part
            # Megatron-LM's scatter-gather: between stages each tensor rank sends its part, over its own NIC; without sequence parallelism
            # every rank computes on all of it (arXiv 2104.04473, section 4.1).
            size = 2 * self._block.tokens * self._plan.model.hidden // p.tensor
            gathering = self._compiler.shared(LlmExchange("activations", "tp", Collective.ALL_GATHER, size))
            return [gathering, *self._own_steps(kind, chunk, edge, after_forward)]
        return self._own_steps(kind, chunk, edge, after_forward)

    def _own_steps(self, kind: PassKind, chunk: int, edge: bool, after_forward: bool) -> list[Step]:
        """The kernels of a pass, with the exchanges of data parallelism in or beside them."""
        if kind is PassKind.FORWARD:
            return self._forward(chunk, edge)
        # Zero-bubble schedules cut a backward pass in two: only gradients of inputs are waited for by other stages (arXiv 2401.10241).
        inputs, weights = [], []
        for part, unit in self._backward_parts(chunk):
            first, second = (part, []) if kind is PassKind.BACKWARD else weight_steps(part)
            inputs.append((first, unit))
            weights.append((second, unit))
        parts = weights if kind is PassKind.WEIGHT else inputs
        each = self._plan.setup.shards_gradients  # a rank cannot keep whole gradients for a later pass to add to
        reduces = (edge or each) and kind is not PassKind.INPUT
        if self._plan.parallel.zero == 3:
            return self._data_parallel.sharded_backward(parts, kind is not PassKind.WEIGHT, after_forward, reduces)
        if reduces and self._plan.options.overlap.dp:
            return self._data_parallel.with_reduction(parts)
        if reduces and each:
            return self._data_parallel.sharded_backward(parts, False, False, True)
        return join(*(part for part, _ in (self._data_parallel.with_copied_gradients(parts) if reduces else parts)))

    def _forward(self, chunk: int, first: bool) -> list[Step]:
        """Embedding, layers, and head."""
        layers, block, model = self._chunk(chunk), self._block, self._plan.model
        parts: list[Part] = [(block.ends.embedding(), "embedding")] if layers.embedding else []
        parts += [(block.forward(layer), layer) for layer in layers.layers]
        if layers.head:
            parts.append((block.ends.head(), "head"))
            # Each module of multi-token prediction has the shared head once more, behind the model's own (arXiv 2412.19437, 2.2).
            for layer in range(model.layers, model.layers + model.mtp_layers):
                parts.append((join(block.ends.predictor(), block.forward(layer), block.ends.head()), layer))
        if self._plan.parallel.zero == 3:
            return self._data_parallel.sharded(parts)
        # Only the first pass of the first virtual stage waits for nothing, so only the pass itself hides its gather.
        if first and self._data_parallel.gathers_ahead and self._virtual(chunk) == 0:
            return self._data_parallel.with_gather(parts)
        return join(*(part for part, _ in parts))

    def _backward_parts(self, chunk: int) -> list[Part]:
        """The gradients of head, layers and embedding, each with its unit."""
        layers, block, model = self._chunk(chunk), self._block, self._plan.model
        parts: list[Part] = []
        if layers.head:
            parts += [
                (join(block.ends.head_back(), self._again(layer, 0), block.backward(layer), block.ends.predictor_back()), layer)
                for layer in reversed(range(model.layers, model.layers + model.mtp_layers))
            ]
            parts.append((block.ends.head_back(), "head"))
        for place, layer in reversed(list(enumerate(layers.layers))):
            parts.append((join(self._again(layer, place), block.backward(layer)), layer))
        if layers.embedding and self._plan.setup.lora is None:
            parts.append((block.ends.embedding_back(), "embedding"))
        return parts

    def _again(self, layer: int, place: int) -> list[Step]:
        """The parts that are recomputed for the backward pass of a layer, given its distance from the first of its chunk."""
        setup = self._plan.setup
        # As Megatron-LM's method `block`: the first layers of a chunk in full, of the others all is kept.
        if setup.recompute_layers is not None:
            return self._block.recompute(layer, "full" if place < setup.recompute_layers else "none")
        return self._block.recompute(layer, setup.recompute)

    def _gather_ahead(self, chunk: int) -> list[int]:
        """Begin to gather the weights of a chunk; the rows that do."""
        counts: dict[str, int] = {}
        for unit in self._units_of(self._chunk(chunk)):
            for axis, size in self._data_parallel.gathered(unit):
                counts[axis] = counts.get(axis, 0) + size
        steps: list[Step] = [LlmExchange("parameters", axis, Collective.ALL_GATHER, size, FIRE_AND_FORGET) for axis, size in counts.items()]
        before = len(self._rows.free())
        self._rows.write([self._compiler.compile(steps, Pass.FORWARD, "parameters")])
        return self._rows.free()[before:]

    # -- the end of an iteration -----------------------------------------------------------------------------------------------

    def _finish(self, late_ps: int) -> None:
        """Wait for the slowest node, reduce remaining gradients, exchange tied embeddings, and update the parameters."""
        plan, p = self._plan, self._plan.parallel
        self._rows.wait_for_free()
        if late_ps:
            self._rows.write([Template([self._kinds.late(late_ps)], [[BEFORE]], 0, [])])
        parameters = trained_parameters_of(plan.setup, self._stage)
        experts, others = parameters.experts, parameters.shared
        steps: list[Step] = []
        # In the three other cases backward passes have reduced already.
        if not (p.zero == 3 or plan.setup.shards_gradients or plan.options.overlap.dp):
            steps += self._data_parallel.reductions(experts, others, 0)
        shard = (experts // p.expert_shards, others // p.shards) if p.zero else (experts, others)
        # If shards are those of a group of ranks (HSDP), replicas of the shard add theirs; elsewhere this axis has one rank.
        if p.zero and plan.options.reduction != "all":
            steps += (
                LlmExchange("gradients", axis, Collective.ALL_REDUCE, size * plan.gradient_bytes)
                for axis, size in zip(("expert_replicas", "replicas"), shard, strict=True)
            )
        steps += self._whole_adapters()
        self._write(steps, "gradients")
        # DualPipe has each layer on two ranks, which train on different micro-batches (arXiv 2412.19437, table 2).
        if plan.setup.schedule == "dualpipe":
            self._add_with(p.pipeline - 1 - self._stage, sum(shard), "copies of parameters")
        self._tied_embeddings()
        # Gradients are clipped by their norm, for which all ranks of a model replica add one number.
        norm: list[Step] = [LlmExchange("gradient norm", axis, Collective.ALL_REDUCE, 4) for axis in ("tp", "dp")]
        update = LlmRun("optimizer", OptimizerStep(parameters=max(1, sum(shard)), bytes_per_parameter=plan.optimizer_bytes))
        self._write([*norm, update], "optimizer")
        # ZeRO-3 gathers weights before use; ZeRO-1 and 2 after the update, unless the next passes hide it.
        if p.zero in (1, 2) and not plan.gathers_overlap:
            gather = (("edp", 2 * experts // p.expert_shards), ("dp", 2 * others // p.shards))
            if plan.options.update == "broadcast":
                self._broadcast(2 * others // p.shards)
            else:
                self._write([LlmExchange("parameters", axis, Collective.ALL_GATHER, size) for axis, size in gather if size], "parameters")

    def _broadcast(self, size: int) -> None:
        """Broadcasts of all tensors, of which each rank has some; of the mean rank `size` bytes."""
        setup = self._plan.setup
        units = [unit for chunk in self._plan.chunks_of_stage(self._stage) for unit in self._units_of(chunk)]
        sent, large = tensors(setup.model, units), matrices(setup.model, units)
        if setup.lora is not None:
            sent = large = 2 * len(setup.lora.targets) * len(layers_on(setup, self._stage))
        shards = setup.parallel.shards
        # Ranks that have matrices, then those that have vectors alone.
        large = min(shards, large)
        self._broadcast_alike(large, -(-size // large))
        if small := min(shards, sent) - large:
            self._broadcast_alike(small, -(-2 * setup.model.hidden // shards))

    def _broadcast_alike(self, times: int, size: int) -> None:
        """Some broadcasts. Each takes as long as to gather `size` bytes of each rank, and then the way to the last node."""
        step = LlmExchange("parameters", "dp", Collective.ALL_GATHER, size)
        rows = [self._compiler.compile([step], Pass.WEIGHT_GRADIENT, "parameters")]
        if filling_ps := self._chain.filling_ps(size * self._plan.parallel.shards):
            rows.append(Template([self._kinds.filling(filling_ps)], [[BEFORE]], 0, []))
        self._rows.write(rows * times)

    def _whole_adapters(self) -> list[Step]:
        """The sum over tensor ranks of the gradients of matrices of adapters that each of them has whole."""
        setup, p = self._plan.setup, self._plan.parallel
        if setup.lora is None:
            return []
        parameters = whole_parameters(setup.model, setup.lora) * len(layers_on(setup, self._stage))
        size = share(parameters, p.shards) if p.zero else parameters
        return [LlmExchange("adapter gradients", "tp", Collective.ALL_REDUCE, size * self._plan.gradient_bytes)]

    def _units_of(self, chunk: Chunk) -> list[Unit]:
        """The units of a chunk; blocks of multi-token prediction are with the head."""
        model = self._plan.model
        ends: list[Unit] = ["head", *range(model.layers, model.layers + model.mtp_layers)] if chunk.head else []
        begin: list[Unit] = ["embedding"] if chunk.embedding else []
        return [*begin, *chunk.layers, *ends]

    def _write(self, steps: Sequence[Step], name: str) -> None:
        group = "optimizer" if name == "optimizer" else "compute"
        self._rows.write([self._compiler.compile(steps, Pass.WEIGHT_GRADIENT, name, group)])

    def _tied_embeddings(self) -> None:
        """The first and the last stage add their gradients of the embedding that they share, unless it is frozen."""
        model, p = self._plan.model, self._plan.parallel
        ends = {0: p.pipeline - 1, p.pipeline - 1: 0}
        if self._plan.setup.lora is not None:
            return
        # ZB-V and DualPipe have both ends of the model on one stage, which shares the matrix without a message.
        if self._plan.setup.schedule in ("zb-v", "dualpipe") or not model.tied or p.pipeline == 1 or self._stage not in ends:
            return
        self._add_with(ends[self._stage], -(-model.vocab // p.tensor) * model.hidden, "tied embedding")

    def _add_with(self, stage: int, parameters: int, name: str) -> None:
        """Add the gradients of parameters with those that another stage has of the same: each sends half, and half of the sum."""
        size = max(1, parameters * self._plan.gradient_bytes // 2)
        far = shift((stage - self._stage) * self._plan.parallel.stage_ranks)
        kinds = [make(self._kinds, far, size, TIED_TAG, name) for make in (messages.send, messages.receive)]
        half = Template([*kinds, self._kinds.join()], [[BEFORE], [BEFORE], [0, 1]], 2, [])
        self._rows.write([half, half])

    # -- messages --------------------------------------------------------------------------------------------------------------

    def _with_messages(self, inner: Template, passes: Sequence[tuple[PassKind, int]]) -> Template:
        """A pass between the message that it waits for and the one that it sends; both of each of two that are joined."""
        receives = [kind for one in passes for kind in self._messages(*one, sends=False)]
        sends = [kind for one in passes for kind in self._messages(*one, sends=True)]
        return messages.between(self._kinds, inner, receives, sends, blocking=not self._plan.options.overlap.p2p)

    def _messages(self, kind: PassKind, chunk: int, sends: bool) -> list[int]:
        """The kinds of the messages that a pass sends, or waits for."""
        if kind is PassKind.WEIGHT:
            return []
        schedule, p = self._plan.setup.schedule, self._plan.parallel
        at, forward = self._virtual(chunk), kind is PassKind.FORWARD
        other = at + 1 if forward == sends else at - 1
        if not 0 <= other < self._virtual_stages:
            return []
        stage = stage_of(schedule, other, chunk, p.pipeline)
        if stage == self._stage:
            return []
        # The n-th send of a tag meets the n-th receive: passes of another direction or virtual stage may overtake, so they have their own.
        way = chunk if schedule == "dualpipe" else 0
        tag = 4 * (other if sends else at) + 2 * way + (not forward)
        # Tensor ranks hold the same: each sends its part, and those of a stage gather them if each needs all.
        size = max(1, 2 * self._block.tokens * self._plan.model.hidden // p.tensor)
        far = shift((stage - self._stage) * p.stage_ranks)
        return [(messages.send if sends else messages.receive)(self._kinds, far, size, tag)]


def stage_of(schedule: str, virtual: int, chunk: int, stages: int) -> int:
    """The stage of a virtual stage; with dualpipe, on the path of a chunk."""
    if schedule == "dualpipe":
        return virtual if chunk == 0 else stages - 1 - virtual
    if schedule == "zb-v":
        return min(virtual, 2 * stages - 1 - virtual)
    return virtual % stages


def beside_each_other(forward: Sequence[Step], backward: Sequence[Step]) -> list[Step]:
    """Two passes in turn: from exchange to exchange of experts, each beside the kernels of the other."""
    parts = [_cut(forward), _cut(backward)]
    steps: list[Step] = []
    turn, places = 0, [0, 0]
    while any(place < len(part) for place, part in zip(places, parts, strict=True)):
        if places[turn] == len(parts[turn]):
            turn = 1 - turn
        kernels, exchanges = parts[turn][places[turn]]
        places[turn] += 1
        steps += kernels
        other = parts[1 - turn][places[1 - turn]][0] if places[1 - turn] < len(parts[1 - turn]) else []
        runs = sum(isinstance(step, LlmRun) for step in other)
        # Tokens of one micro-batch travel while the other computes (DualPipe, and Megatron-core's overlap of expert exchanges in 1F1B).
        steps += [attrs.evolve(exchange, overlapped_with=runs) for exchange in exchanges]
        turn = 1 - turn
    return steps


def _cut(steps: Sequence[Step]) -> list[tuple[list[Step], list[LlmExchange]]]:
    """Steps up to an exchange of experts, with the exchanges that follow."""
    parts: list[tuple[list[Step], list[LlmExchange]]] = [([], [])]
    for step in steps:
        if isinstance(step, LlmExchange) and step.axis in ("ep", "ep_node", "ep_nodes"):
            parts[-1][1].append(step)
        else:
            if parts[-1][1]:
                parts.append(([], []))
            parts[-1][0].append(step)
    return parts
