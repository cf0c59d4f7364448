"""The parts before and after the blocks: the embedding, the head with the loss, and predictors of further tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from astra_sim.schedule import Collective
from astra_sim.shapes import Elementwise, Gemm

from astra_sim_llm.products import Products
from astra_sim_llm.steps import LlmExchange, LlmRun, Step


def _once(make: Callable[[Ends], list[Step]]) -> Callable[[Ends], list[Step]]:
    """A method whose steps are made once, so that passes share them."""

    @wraps(make)
    def stored_layers(self: Ends) -> list[Step]:
        return list(self.known.get(make.__name__) or self.known.setdefault(make.__name__, make(self)))

    return stored_layers


class Ends:
    """The kernels and exchanges of embedding and head."""

    def __init__(self, products: Products) -> None:
        self._products = products
        self.known: dict[str, list[Step]] = {}

    @_once
    def embedding(self) -> list[Step]:
        """Look up the embeddings of tokens; each tensor rank has those of a part of the vocabulary."""
        steps: list[Step] = [self._products.elements("embedding", 10, self._products.tokens * self._products.model.hidden)]
        return steps + (
            [self._products.reduce(self._products.tokens * self._products.model.hidden)] if self._products.parallel.tensor > 1 else []
        )

    @_once
    def embedding_back(self) -> list[Step]:
        """The gradients of the embeddings of tokens; none if they are frozen."""
        if self._products.frozen:
            return []
        gather = self._products.parallel.tensor > 1 and self._products.parallel.sequence
        steps: list[Step] = [self._products.gather(self._products.tokens * self._products.model.hidden)] if gather else []
        return [*steps, LlmRun("embedding", Elementwise(read_bytes=10 * self._products.tokens * self._products.model.hidden), weight=True)]

    @_once
    def head(self) -> list[Step]:
        """The last norm, the output layer, and in training the loss, all shared by vocabulary. Inference needs the last token alone."""
        tokens = self._products.tokens if self._products.work.training else self._products.work.micro_batch
        steps: list[Step] = [self._products.elements("norm", 4, self._products.local * self._products.model.hidden)]
        if self._products.parallel.sequence and self._products.parallel.tensor > 1:
            steps.append(self._products.gather(self._products.tokens * self._products.model.hidden))
        steps.append(
            LlmRun("output", Gemm(m=tokens, n=self._products.vocab, k=self._products.model.hidden, element_type=self._products.half))
        )
        if self._products.work.training:
            steps.append(self._products.elements("loss", self._loss_bytes[0], tokens * self._products.vocab))
            if self._products.parallel.tensor > 1:  # of the largest logit, and of the sum of exponentials
                steps += [LlmExchange("loss", "tp", Collective.ALL_REDUCE, 4 * tokens)] * 2
        return steps

    @property
    def _loss_bytes(self) -> tuple[int, int]:
        """Bytes of a logit, forward and backward. Fused: two skips logits, the second writes gradients, which are scaled later."""
        # 40: to fp32, maximum, difference, exponential, sum, quotient (the vocabulary-parallel cross-entropy of Megatron-LM).
        return (6, 4) if self._products.work.fused_loss else (40, 14)

    @_once
    def head_back(self) -> list[Step]:
        """The gradients of the loss, the output layer and the last norm."""
        m = self._products.model
        steps: list[Step] = [self._products.elements("loss", self._loss_bytes[1], self._products.tokens * self._products.vocab)]
        gradients = list(self._products.gradients("output", self._products.tokens, self._products.vocab, m.hidden, self._products.half))
        if self._products.parallel.tensor > 1:
            gradients[1:1] = [self._products.reduce(self._products.tokens * m.hidden)]
        return [*steps, *gradients, self._products.elements("norm", 10, self._products.local * m.hidden)]

    def predictor(self) -> list[Step]:
        """The additional parts of a block of multi-token prediction: norms, and a product of two states joined (arXiv 2412.19437)."""
        m = self._products.model
        return [
            self._products.elements("norm", 8, self._products.local * m.hidden),
            *self._products.multiply("mtp projection", *self._joined_states),
        ]

    def predictor_back(self) -> list[Step]:
        """The gradients of `predictor`."""
        m = self._products.model
        return [
            *self._products.gradients("mtp projection", *self._joined_states),
            self._products.elements("norm", 20, self._products.local * m.hidden),
        ]

    @property
    def _joined_states(self) -> tuple[int, int, int]:
        """The product of two states joined, (m, n, k): tensor ranks share its tokens, or its columns if each has all tokens."""
        hidden = self._products.model.hidden
        return (
            self._products.local,
            hidden if self._products.parallel.sequence else -(-hidden // self._products.parallel.tensor),
            2 * hidden,
        )
