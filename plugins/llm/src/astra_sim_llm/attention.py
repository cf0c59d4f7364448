"""The attention half of a block: queries, keys and values, its core, and the projection."""

from __future__ import annotations

from collections.abc import Iterator

from astra_sim.schedule import Collective
from astra_sim.shapes import Attention, Elementwise

from astra_sim_llm.products import Products
from astra_sim_llm.steps import LlmExchange, LlmRun, Step


class AttentionHalf:
    """The kernels and exchanges of attention."""

    def __init__(self, products: Products) -> None:
        self._products = products

    def forward(self, window: int | None) -> Iterator[Step]:
        """The forward pass, in which a token sees the last `window` tokens, or with None all of them."""
        m = self._products.model
        yield self._products.norm()
        if m.mla is None:
            yield from self._products.enter(
                "qkv", (m.heads // self._products.parallel.tensor + 2 * self._products.key_heads) * m.head_size, m.hidden
            )
        else:
            yield from self._latent()
        if m.query_norms:
            yield self._products.elements("query norm", 4, self._rotated)
        if not m.learned_positions:
            yield self._products.elements("rotary", 4, self._rotated)
        yield from self._absorbed_core() if self._is_absorbed else self.core(window)
        yield from self._products.leave("projection", m.hidden, self._products.heads * m.value_size)
        if m.expert_biases:  # beside experts they are not added together with the residual (Megatron-core, bias_dropout_fusion)
            yield self._products.elements("bias", 4, self._products.local * m.hidden)
        yield self._products.residual()

    def backward(self, window: int | None) -> Iterator[Step]:
        """The gradients of `forward`."""
        m = self._products.model
        yield from self._products.residual_back()
        yield from self._products.leave_back("projection", m.hidden, self._products.heads * m.value_size)
        yield from self.core(window, backward=True)
        if not m.learned_positions:
            yield self._products.elements("rotary", 4, self._rotated)
        if m.query_norms:
            yield self._products.elements("query norm", 10, self._rotated)
        outputs = (self._products.heads + 2 * self._products.key_heads) * m.head_size
        if m.mla is None:
            yield from self._products.enter_back("qkv", outputs, m.hidden)
        else:
            yield from self._latent_back()
        yield self._products.elements("norm", 10, self._products.local * m.hidden)
        if m.expert_biases and not self._products.frozen:
            yield LlmRun("bias", Elementwise(read_bytes=2 * self._products.local * m.hidden), weight=True)
        if m.biases and not self._products.frozen:
            inner = outputs + m.width // self._products.parallel.tensor
            yield LlmRun(
                "biases", Elementwise(read_bytes=2 * self._products.tokens * inner + 4 * self._products.tokens * m.hidden), weight=True
            )

    @property
    def _rotated(self) -> int:
        """Elements of queries and keys."""
        p = self._products
        if self._is_absorbed:
            assert p.model.mla is not None
            return p.tokens * (p.heads + 1) * p.model.mla.rope  # the key is shared by all heads
        return p.tokens * (p.heads + p.key_heads) * p.model.head_size

    @property
    def _is_absorbed(self) -> bool:
        """Whether latent attention works on the latents of the cache: in decoding, if keys and values of heads are not made again."""
        return self._products.model.mla is not None and self._products.work.keys is not None

    def _absorbed_core(self) -> Iterator[Step]:
        """Latent attention on the cache itself (arXiv 2405.04434, section 2.1.2): the products that would make keys and values of heads are
        done on queries and on outputs, so that all heads share one key of `key_value_rank + rope` elements a token, whose first
        `key_value_rank` are the value.
        """
        p, w, mla = self._products, self._products.work, self._products.model.mla
        assert mla is not None and w.keys is not None  # noqa: PT018
        yield from p.multiply("query absorb", p.tokens, mla.key_value_rank, mla.nope, p.heads)
        if w.fp8_attention:
            yield from p.cast(p.tokens * (p.heads + 1) * (mla.key_value_rank + mla.rope))
        yield LlmRun(
            "attention",
            Attention(
                heads=w.micro_batch * p.heads,
                query_length=p.queries,
                key_length=w.keys,
                head_size=mla.key_value_rank + mla.rope,
                value_size=mla.key_value_rank,
                key_heads=w.micro_batch,
                values_in_keys=True,
                causal=True,
                element_type="fp8" if w.fp8_attention else p.half,
            ),
        )
        yield from p.multiply("value up", p.tokens, mla.value, mla.key_value_rank, p.heads)

    def _latent(self) -> Iterator[Step]:
        """Queries, keys and values through low ranks; those of the low ranks are not shared by tensor ranks."""
        m, mla = self._products.model, self._products.model.mla
        assert mla is not None
        low = mla.query_rank + mla.key_value_rank + mla.rope
        yield from self._products.multiply("latent down", self._products.local, low, m.hidden)
        yield self._products.elements("latent norm", 4, self._products.local * low)
        if self._products.parallel.sequence and self._products.parallel.tensor > 1:
            yield self._products.gather(self._products.tokens * low)
        yield from self._up()

    def up_from_latents(self) -> Iterator[Step]:
        """The products from latents to queries, keys and values, with positions; nothing without latents."""
        if self._products.model.mla is not None:
            yield from self._up()
            yield self._products.elements("rotary", 4, self._rotated)

    def _up(self) -> Iterator[Step]:
        mla = self._products.model.mla
        assert mla is not None
        yield from self._products.multiply("query up", self._products.tokens, self._products.heads * (mla.nope + mla.rope), mla.query_rank)
        if not self._is_absorbed:
            yield from self._products.multiply(
                "key value up", self._products.tokens, self._products.heads * (mla.nope + mla.value), mla.key_value_rank
            )

    def _latent_back(self) -> Iterator[Step]:
        """The gradients of the products of latent attention, from the last to the first."""
        m, mla = self._products.model, self._products.model.mla
        assert mla is not None
        low = mla.query_rank + mla.key_value_rank + mla.rope
        yield from self._products.gradients(
            "key value up", self._products.tokens, self._products.heads * (mla.nope + mla.value), mla.key_value_rank
        )
        yield from self._products.gradients("query up", self._products.tokens, self._products.heads * (mla.nope + mla.rope), mla.query_rank)
        if self._products.parallel.tensor > 1:
            yield self._products.reduce(self._products.tokens * low)
        yield self._products.elements("latent norm", 10, self._products.local * low)
        yield from self._products.gradients("latent down", self._products.local, low, m.hidden)

    def core(self, window: int | None, backward: bool = False) -> Iterator[Step]:
        """Scores, softmax and values."""
        w, c = self._products.work, self._products.parallel.context
        if w.fp8_attention:
            yield from self._cast(backward)
        keys = w.keys if w.keys is not None else w.sequence
        if c == 1:
            yield LlmRun("attention", self._kernel(self._products.queries, keys, True, backward, window=window))
        elif w.ulysses:
            sizes = (
                (self._products.heads + 2 * self._products.key_heads) * self._products.model.head_size,
                self._products.heads * self._products.model.value_size,
            )
            # Backward, the gradient of the output goes in, and those of queries, keys and values come out.
            before, after = reversed(sizes) if backward else sizes
            yield self._products.all_to_all("cp", "heads", self._products.tokens * before)
            yield LlmRun("attention", self._kernel(w.sequence, keys, True, backward, c, window))
            yield self._products.all_to_all("cp", "heads", self._products.tokens * after)
        else:
            yield from self._ring(keys, backward)
        if not w.flash and w.training:
            yield self._products.elements("transpose", 4, self._products.tokens * self._products.heads * self._products.model.value_size)

    def _cast(self, backward: bool) -> Iterator[Step]:
        """Casts of queries, keys and values, or of the gradient of the output."""
        m, p = self._products.model, self._products
        width = p.heads * m.value_size if backward else (p.heads + p.key_heads) * m.head_size + p.key_heads * m.value_size
        return p.cast(p.tokens * width)

    def _ring(self, keys: int, backward: bool) -> Iterator[Step]:
        """Keys and values go round while others are used. Ranks have places of a sequence such that each has as much to do.

        Of the c parts the last comes after the c - 1 exchanges, each beside one of the others; the backward pass exchanges gradients, too.
        """
        c = self._products.parallel.context
        held = self._products.tokens * self._products.key_heads * (self._products.model.head_size + self._products.model.value_size) * 2
        seen = max(c, keys // 2)  # half of all, by the causal mask
        if backward:
            yield LlmExchange("keys", "cp", Collective.REDUCE_SCATTER, held * c, overlapped_with=1)
        yield LlmExchange("keys", "cp", Collective.ALL_GATHER, held, overlapped_with=1)
        yield LlmRun("attention", self._kernel(self._products.queries, seen - seen // c, False, backward))
        yield LlmRun("attention", self._kernel(self._products.queries, seen // c, False, backward))

    def _kernel(self, queries: int, keys: int, causal: bool, backward: bool, share: int = 1, window: int | None = None) -> Attention:
        """The kernel of attention over queries and keys; `share` ranks have its heads."""
        w, m = self._products.work, self._products.model
        heads = max(1, self._products.heads // share)
        return Attention(
            heads=w.micro_batch * heads,
            query_length=queries,
            key_length=keys,
            head_size=m.head_size,
            value_size=m.value_size,
            # With fewer key heads than ranks, each rank has a copy of one.
            key_heads=w.micro_batch * (self._products.key_heads // share if self._products.key_heads >= share else 1),
            # Unfused attention calculates the whole square, half of which the mask then hides.
            causal=causal and w.flash,
            window=window if w.flash and window is not None and window < keys else None,
            flash=w.flash,
            backward=backward,
            dropout=m.dropout and w.training,
            element_type="fp8" if w.fp8_attention else self._products.half,
        )
