"""Inference: forward passes through the stages, and while decoding each token goes back to the first stage."""

from __future__ import annotations

from astra_sim.graph import Operation, Pass, Receive, Send, Unit
from astra_sim.rows import Rows
from astra_sim.schedule import Collective, shift

from astra_sim_llm.plan import Plan
from astra_sim_llm.program import TOKEN_TAG
from astra_sim_llm.steps import Exchange, Step, join
from astra_sim_llm.templates import BEFORE, Compiler, Kinds, ProgramRows, Template

TOKEN_BYTES = 4
"""Bytes of a token's number."""


class TokenWriter:
    """Writes the program of one stage: for each token all micro-batches, and for each of these its layers."""

    def __init__(self, plan: Plan, stage: int, compiler: Compiler, kinds: Kinds) -> None:
        self._plan = plan
        self._stage = stage
        self._compiler = compiler
        self._kinds = kinds

    def write(self, passes: int) -> Rows[Operation]:
        """The program of so many iterations."""
        options = self._plan.options
        rows = ProgramRows(self._kinds)
        tokens = options.decode_tokens if options.mode == "decode" else 1
        for _ in range(passes):
            for token in range(tokens):
                template = self._pass(token, tokens)
                rows.write([template] * self._plan.micro_batches)
        return rows.rows()

    def _pass(self, token: int, tokens: int) -> Template:
        """A pass of a micro-batch for one token, between the messages that it waits for and those that it sends."""
        plan, p = self._plan, self._plan.parallel
        keys = (plan.options.kv_length or plan.sequence) + token + 1 if plan.options.mode == "decode" else None
        block = plan.block(keys)
        first, last = self._stage == 0, self._stage == p.pipeline - 1
        steps: list[Step] = block.ends.embedding() if first else []
        size = max(1, 2 * block.tokens * plan.model.hidden // p.tensor)
        if not first and p.tensor > 1 and not p.sequence:
            steps.append(Exchange("activations", "tp", Collective.ALL_GATHER, size))
        steps = join(steps, *(block.forward(plan.model.kind(layer)) for layer in plan.layers_of_stage(self._stage)))
        inner = self._compiler.compile(join(steps, block.ends.head() if last else []), Pass.FORWARD, "forward")
        receives, sends = [], []
        if not first:
            receives.append(self._message("receive", self._stage - 1, 0, size))
        elif token and p.pipeline > 1:
            receives.append(self._message("receive", p.pipeline - 1, TOKEN_TAG, TOKEN_BYTES * plan.options.micro_batch))
        if not last:
            sends.append(self._message("send", self._stage + 1, 0, size))
        elif token + 1 < tokens and p.pipeline > 1:
            sends.append(self._message("send", 0, TOKEN_TAG, TOKEN_BYTES * plan.options.micro_batch))
        shifted = len(receives)
        start = [0] if receives else [BEFORE]
        waits = [[BEFORE]] * shifted
        for each in inner.waits:
            waits.append([row for one in each for row in (start if one == BEFORE else [shifted + one])])
        end = shifted + inner.end
        return Template([*receives, *inner.kinds, *sends], [*waits, *([end] for _ in sends)], end, [])

    def _message(self, what: str, stage: int, tag: int, size: int) -> int:
        far = shift((stage - self._stage) * self._plan.parallel.stage_ranks)
        if what == "send":
            return self._kinds.number((what, tag, size, far), "pp", lambda: Send((), far, size, tag, -1, "activations", Unit.NONE))
        return self._kinds.number((what, tag, size, far), "pp", lambda: Receive((), far, size, tag, -1, "activations"))
