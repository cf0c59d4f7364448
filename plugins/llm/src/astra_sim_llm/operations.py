"""The passes of a transformer block, for one micro-batch on one rank, and of the parts before and after the blocks."""

from __future__ import annotations

from collections.abc import Iterator

from astra_sim import InputError

from astra_sim_llm.attention import AttentionHalf
from astra_sim_llm.divisibility import misfits
from astra_sim_llm.ends import Ends
from astra_sim_llm.experts import Experts
from astra_sim_llm.models import LayerForm, LayerKind, Model, form_of
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.products import Products, ProductWork
from astra_sim_llm.steps import Step, in_graph


class Block:
    """The passes of blocks of a model. Raises InputError if the parallel ranks do not divide the model.

    `tokens` are those of a micro-batch on a rank, `ends` the passes of embedding and head.
    """

    def __init__(self, model: Model, parallel: Parallelism, work: ProductWork) -> None:
        _check(model, parallel, work)
        self._products = Products(model, parallel, work)
        self._attention = AttentionHalf(self._products)
        self._experts = Experts(self._products)
        self.tokens = self._products.tokens
        self.ends = Ends(self._products)
        self._model = model
        self._known: dict[tuple[str, LayerForm], tuple[Step, ...]] = {}  # passes, which layers and stages share

    def forward(self, layer: int) -> list[Step]:
        """The forward pass of a layer; from `model.layers` on they are blocks of multi-token prediction."""
        form = form_of(self._model, layer)
        if ("forward", form) not in self._known:
            self._known["forward", form] = *self._in_graph(self._attention.forward(form.window)), *self._feed_forward(form.kind)
        return list(self._known["forward", form])

    def backward(self, layer: int) -> list[Step]:
        """The backward pass, without recomputation."""
        form = form_of(self._model, layer)
        if ("backward", form) not in self._known:
            self._known["backward", form] = *self._feed_forward_back(form.kind), *self._in_graph(self._attention.backward(form.window))
        return list(self._known["backward", form])

    def _in_graph(self, attention: Iterator[Step]) -> Iterator[Step]:
        return in_graph(attention) if self._products.work.cuda_graphs == "attention" else attention

    def recompute(self, layer: int, how: str) -> list[Step]:
        """The parts that a backward pass recomputes first.

        full: the forward pass; full_early_stop: up to the last tensor that is saved, without the last product and later ones; selective:
        the core of attention, unless its kernel does so anyway.
        """
        if how == "full":
            return self.forward(layer)
        if how == "full_early_stop":
            steps = self.forward(layer)
            last = max(place for place, step in enumerate(steps) if step.name in ("fc2", "expert fc2"))
            return steps[:last]
        core = self._attention.core(self._model.window_of(layer)) if how == "selective" and not self._products.work.flash else ()
        return [*core, *self._recomputed_modules(layer)]

    def _recomputed_modules(self, layer: int) -> Iterator[Step]:
        """The parts that `recompute_modules` lists, and nothing else (Megatron-core)."""
        modules, kind = self._products.work.recompute_modules, self._model.kind(layer)
        if "layernorm" in modules:
            yield from (self._products.norm(), self._products.norm())
        if "mla_up_proj" in modules:
            yield from self._attention.up_from_latents()
        if "moe_act" in modules and kind == "moe":
            yield from self._experts.activation()
        if "mlp" in modules and kind == "dense":
            yield from self._dense()

    def _feed_forward(self, kind: LayerKind) -> Iterator[Step]:
        """The second half of a block: norm, products or experts, residual."""
        yield self._products.norm()
        yield from self._experts.forward() if kind == "moe" else self._dense()
        yield self._products.residual()

    def _dense(self) -> Iterator[Step]:
        """The products of a feed-forward part without experts."""
        m = self._products.model
        width = m.width // self._products.parallel.tensor
        yield from self._products.enter("fc1", (m.branches - 1) * width, m.hidden)
        yield self._products.elements("activation", 2 * m.branches, self._products.tokens * width)
        yield from self._products.leave("fc2", m.hidden, width)

    def _feed_forward_back(self, kind: LayerKind) -> Iterator[Step]:
        """The gradients of `_feed_forward`, from the last step to the first."""
        m, t = self._products.model, self._products.parallel.tensor
        yield from self._products.residual_back()
        if kind == "moe":
            yield from self._experts.backward()
        else:
            width = m.width // t
            yield from self._products.leave_back("fc2", m.hidden, width)
            yield self._products.elements("activation", 4 * (m.branches - 1) + 2, self._products.tokens * width)
            yield from self._products.enter_back("fc1", (m.branches - 1) * width, m.hidden)
        yield self._products.elements("norm", 10, self._products.local * m.hidden)


def _check(model: Model, parallel: Parallelism, work: ProductWork) -> None:
    """Raise InputError if ranks do not divide a shared quantity."""
    t, c = parallel.tensor, parallel.context
    for problem in misfits(model, parallel, work.sequence, work.micro_batch):
        raise InputError(problem)
    # Megatron-core refuses this in training; decoding is the exception, since its one token cannot be shared.
    if model.experts and t > 1 and not parallel.sequence and work.sequence > 1:
        raise InputError(f"sequence_parallel is false; a mixture of experts needs it with tensor_parallel, which is {t}")
    # Rings of keys are not cut where a window ends, and Transformer Engine refuses them, too.
    if c > 1 and model.window is not None and not work.ulysses:
        raise InputError(f"the model has a window of {model.window}, context is ring and context_parallel {c}; expected context = ulysses")
    if c > 1 and not work.flash and not work.ulysses:
        raise InputError(f"attention is unfused, context ring and context_parallel {c}; expected flash, or context = ulysses")
    if c > 1 and work.ulysses and (model.heads // t) % c:
        raise InputError(
            f"context is ulysses and context_parallel {c}; expected a divisor of the heads of a rank, which are {model.heads // t}"
        )
