"""Inference: forward passes through the stages, and while decoding each token goes back to the first stage."""

from __future__ import annotations

from astra_sim.graph import Operation, Pass
from astra_sim.rows import Rows
from astra_sim.schedule import Collective, Peer, shift

from astra_sim_llm import messages
from astra_sim_llm.plan import TrainingPlan
from astra_sim_llm.program import TOKEN_TAG
from astra_sim_llm.steps import LlmExchange, Step, join
from astra_sim_llm.templates import Compiler, OperationTypes, ProgramRows, Template

TOKEN_BYTES = 4
"""Bytes of a token's number."""


class TokenWriter:
    """Writes the program of one stage: for each token all micro-batches, and for each of these its layers."""

    def __init__(self, plan: TrainingPlan, stage: int, compiler: Compiler, kinds: OperationTypes) -> None:
        self._plan = plan
        self._stage = stage
        self._compiler = compiler
        self._kinds = kinds

    def write(self, passes: int) -> Rows[Operation]:
        """The program of several iterations."""
        options = self._plan.options
        rows = ProgramRows(self._kinds)
        tokens = options.decode_tokens if options.mode == "decode" else 1
        for _ in range(passes):
            for token in range(tokens):
                template = self._pass(token, tokens)
                rows.write([template] * self._plan.setup.micro_batches)
        return rows.rows()

    def _pass(self, token: int, tokens: int) -> Template:
        """A pass of a micro-batch for one token, between the messages that it waits for and those that it sends."""
        plan, p = self._plan, self._plan.parallel
        # A new token attends to itself, too.
        keys = (plan.options.kv_length or plan.setup.sequence) + token + 1 if plan.options.mode == "decode" else None
        block = plan.block(keys)
        first, last = self._stage == 0, self._stage == p.pipeline - 1
        steps: list[Step] = block.ends.embedding() if first else []
        size = max(1, 2 * block.tokens * plan.model.hidden // p.tensor)
        # As in training: each tensor rank has received a part of the activations, and all need the whole.
        if not first and p.tensor > 1 and not p.sequence:
            steps.append(LlmExchange("activations", "tp", Collective.ALL_GATHER, size))
        steps = join(steps, *(block.forward(layer) for layer in plan.layers_of_stage(self._stage)))
        inner = self._compiler.compile(join(steps, block.ends.head() if last else []), Pass.FORWARD, "forward")
        receives, sends = [], []
        if not first:
            receives.append(messages.receive(self._kinds, self._far(self._stage - 1), size, 0))
        # A token is the input of the next one, and only the last stage knows it.
        elif token and p.pipeline > 1:
            receives.append(messages.receive(self._kinds, self._far(p.pipeline - 1), TOKEN_BYTES * plan.options.micro_batch, TOKEN_TAG))
        if not last:
            sends.append(messages.send(self._kinds, self._far(self._stage + 1), size, 0))
        elif token + 1 < tokens and p.pipeline > 1:
            sends.append(messages.send(self._kinds, self._far(0), TOKEN_BYTES * plan.options.micro_batch, TOKEN_TAG))
        return messages.between(self._kinds, inner, receives, sends, blocking=False)

    def _far(self, stage: int) -> Peer:
        return shift((stage - self._stage) * self._plan.parallel.stage_ranks)
