"""The shapes of operations.

Every shape has a `kind` (its key in a layer's pass), an `element_type` (None: that of the compute model), and counts its `operations`
(a multiply-add is two) and the bytes it moves to and from memory: `count_bytes(element_bytes)`, each operand once.

Example:

A layer of 4096 inputs and outputs for 2048 tokens, and its operations for each byte that it moves in bf16:

    >>> from astra_sim.shapes import Attention, Cast, Convolution, Elementwise, Gemm, GroupedGemm, OptimizerStep
    >>> layer = Gemm(m=2048, n=4096, k=4096)
    >>> layer.operations == 2 * 2048 * 4096 * 4096
    True
    >>> layer.operations / layer.count_bytes(element_bytes=2)
    1024.0

A convolution of ResNet-50 as a product of matrices: 56 x 56 pixels, 64 filters of 3 x 3 x 64 elements. Its input has a pixel of padding on
each side.

    >>> block = Convolution(input_height=58, input_width=58, filter_height=3, filter_width=3, channels=64, filters=64)
    >>> block.gemm.m, block.gemm.n, block.gemm.k
    (3136, 64, 576)

A causal kernel leaves out masked scores. A token that is decoded reads all keys and values, so it has few operations for each byte:

    >>> square = Attention(heads=32, query_length=4096, key_length=4096, head_size=128)
    >>> causal = Attention(heads=32, query_length=4096, key_length=4096, head_size=128, causal=True)
    >>> causal.operations / square.operations
    0.5
    >>> decode = Attention(heads=32, query_length=1, key_length=4096, head_size=128, key_heads=8)
    >>> round(decode.operations / decode.count_bytes(element_bytes=2), 2)
    4.0

Eight experts of 256 tokens each have the operations of one product of 2048 tokens, and read eight second factors:

    >>> experts = GroupedGemm(experts=8, rows=256, n=4096, k=4096)
    >>> experts.operations == layer.operations
    True
    >>> experts.count_bytes(2) / layer.count_bytes(2)
    4.5

Kernels that are bound by memory count no operations. Bytes of a norm of 2048 x 4096 elements in bf16, of a cast of them to FP8, and of a
step of Adam for the layer:

    >>> norm = Elementwise(read_bytes=2 * 2048 * 4096, write_bytes=2 * 2048 * 4096)
    >>> cast = Cast(elements=2048 * 4096, from_type="bf16", to_type="fp8")
    >>> step = OptimizerStep(parameters=4096 * 4096)
    >>> [kernel.count_bytes(2) for kernel in (norm, cast, step)], norm.operations
    ([33554432, 25165824, 973078528.0], 0)
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from astra_sim.errors import InputError
from astra_sim.options import option
from astra_sim.value_objects import ValueObject

__all__ = [
    "Attention",
    "Cast",
    "Convolution",
    "Elementwise",
    "Gemm",
    "GroupedGemm",
    "OptimizerStep",
]

ELEMENT_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "nvfp4": 0.5625}
"""Element types, and their bytes in memory."""


def _element_type() -> str | None:
    """The option that gives a shape its own element type."""
    field: str | None = option(None, choices=tuple(ELEMENT_BYTES), help="type of the elements; none: that of the compute model")
    return field


def _accumulate_fp32() -> bool:
    field: bool = option(False, help="the product is added to an fp32 one in memory (4 bytes read and 4 written for each element)")
    return field


@attrs.frozen(eq=False, repr=False)
class Gemm(ValueObject):
    """A product of matrices: (m x k) times (k x n) gives (m x n). For a layer m is the batch, n the outputs, k the inputs."""

    kind: ClassVar[str] = "gemm"
    m: int = option(minimum=1, help="rows of the first factor and of the product")
    n: int = option(minimum=1, help="columns of the second factor and of the product")
    k: int = option(minimum=1, help="columns of the first factor, rows of the second")
    batch: int = option(1, minimum=1, help="products of this shape, each with factors of its own")
    accumulate_fp32: bool = _accumulate_fp32()
    element_type: str | None = _element_type()

    @property
    def gemm(self) -> Gemm:
        """Itself."""
        return self

    @property
    def operations(self) -> int:
        """Two for each multiply-add."""
        return 2 * self.batch * self.m * self.n * self.k

    def count_bytes(self, element_bytes: float) -> float:
        """Both factors read and the product written, once each."""
        factors = self.input_elements + self.batch * self.k * self.n
        return factors * element_bytes + self.batch * self.m * self.n * (8 if self.accumulate_fp32 else element_bytes)

    @property
    def input_elements(self) -> int:
        """Elements of the first factor."""
        return self.batch * self.m * self.k


@attrs.frozen(eq=False, repr=False)
class Convolution(ValueObject):
    """A convolution. Height and width of the input include its padding.

    An output has ceil((input - filter + stride) / stride) rows (SCALE-Sim), columns alike: the last ones may reach beyond the input.
    Raises InputError if a filter is larger than the input.
    """

    kind: ClassVar[str] = "convolution"
    input_height: int = option(minimum=1, help="rows of the input, with padding", unit="pixels")
    input_width: int = option(minimum=1, help="columns of the input, with padding", unit="pixels")
    filter_height: int = option(minimum=1, help="rows of a filter", unit="pixels")
    filter_width: int = option(minimum=1, help="columns of a filter", unit="pixels")
    channels: int = option(minimum=1, help="channels of the input")
    filters: int = option(minimum=1, help="filters, which are the channels of the output")
    stride: int = option(1, minimum=1, help="step from an output row to the next", unit="pixels")
    stride_width: int | None = option(None, minimum=1, help="the same for columns; none: as for rows", unit="pixels")
    batch: int = option(1, minimum=1, help="inputs")
    element_type: str | None = _element_type()

    def __attrs_post_init__(self) -> None:
        for side in ("height", "width"):
            filter_, input_ = getattr(self, f"filter_{side}"), getattr(self, f"input_{side}")
            if filter_ > input_:
                raise InputError(f"filter_{side} is {filter_}; expected at most the input_{side}, which is {input_}")

    @property
    def column_stride(self) -> int:
        """Step from an output column to the next."""
        return self.stride if self.stride_width is None else self.stride_width

    @property
    def output_height(self) -> int:
        """Rows of the output."""
        return 1 - (self.input_height - self.filter_height) // -self.stride

    @property
    def output_width(self) -> int:
        """Columns of the output."""
        return 1 - (self.input_width - self.filter_width) // -self.column_stride

    @property
    def gemm(self) -> Gemm:
        """The same as a product of matrices: output pixels x filters, over the elements of a filter (im2col)."""
        pixels = self.batch * self.output_height * self.output_width
        taps = self.filter_height * self.filter_width * self.channels
        return Gemm(m=pixels, n=self.filters, k=taps, element_type=self.element_type)

    @property
    def operations(self) -> int:
        """Two for each multiply-add."""
        return self.gemm.operations

    def count_bytes(self, element_bytes: float) -> float:
        """Input and filters read, and the output written, once each."""
        gemm = self.gemm
        return (self.input_elements + gemm.k * gemm.n + gemm.m * gemm.n) * element_bytes

    @property
    def input_elements(self) -> int:
        """Elements of the input."""
        return self.batch * self.input_height * self.input_width * self.channels


@attrs.frozen(eq=False, repr=False)
class GroupedGemm(ValueObject):
    """Products of the same shape for several experts, in one kernel: for each (rows x k) times (k x n)."""

    kind: ClassVar[str] = "grouped_gemm"
    experts: int = option(minimum=1, help="experts, each with a second factor of its own")
    rows: int = option(minimum=1, help="rows (tokens) of an expert")
    n: int = option(minimum=1, help="columns of the product")
    k: int = option(minimum=1, help="columns of the first factor")
    accumulate_fp32: bool = _accumulate_fp32()
    element_type: str | None = _element_type()

    @property
    def batched(self) -> Gemm:
        """The same as a batch of products: tiles of all experts share the device."""
        return Gemm(
            m=self.rows, n=self.n, k=self.k, batch=self.experts, accumulate_fp32=self.accumulate_fp32, element_type=self.element_type
        )

    @property
    def operations(self) -> int:
        """Two for each multiply-add."""
        return self.batched.operations

    def count_bytes(self, element_bytes: float) -> float:
        """All factors read and all products written, once each."""
        return self.batched.count_bytes(element_bytes)


@attrs.frozen(eq=False, repr=False)
class Attention(ValueObject):
    """The core of attention: queries times keys, softmax, times values.

    `flash`: one kernel that keeps the scores on chip; its backward pass calculates them again. Causal, it leaves out masked scores: half
    of a square, q k - q^2 / 2 of q queries that end with the last of k keys, and those outside of a `window`. Unfused kernels calculate and
    store all scores. Raises InputError if `key_heads` does not divide `heads`, values do not fit in the keys that they are part of, or a
    window has no causal mask.
    """

    kind: ClassVar[str] = "attention"
    heads: int = option(minimum=1, help="query heads, times the sequences of the batch")
    query_length: int = option(minimum=1, help="queries of a sequence")
    key_length: int = option(minimum=1, help="keys of a sequence")
    head_size: int = option(minimum=1, help="elements of a query and of a key")
    value_size: int | None = option(None, minimum=1, help="elements of a value; none: head_size")
    key_heads: int | None = option(None, minimum=1, help="key and value heads, times the sequences; none: as many as query heads")
    values_in_keys: bool = option(False, help="values are the first elements of keys, which are read once: latent attention that decodes")
    causal: bool = option(False, help="a query sees the keys up to its own place")
    window: int | None = option(None, minimum=1, help="causal: a query sees that many keys at most, the last ones; none: all")
    flash: bool = option(True, help="one fused kernel; false: products and softmax apart, with all scores in memory")
    backward: bool = option(False, help="the backward pass")
    paged: bool = option(False, help="keys and values are in blocks of a cache, as in inference servers")
    dropout: bool = option(False, help="dropout of the scores, which unfused kernels read and write once more, with a mask")
    element_type: str | None = _element_type()

    def __attrs_post_init__(self) -> None:
        if self.key_heads is not None and self.heads % self.key_heads:
            raise InputError(f"key_heads is {self.key_heads}; expected a divisor of heads, which is {self.heads}")
        if self.values_in_keys and self.values > self.head_size:
            raise InputError(f"value_size is {self.values} with values_in_keys; expected at most head_size, which is {self.head_size}")
        if self.window is not None and not self.causal:
            raise InputError(f"window is {self.window} and causal false; expected causal attention")

    @property
    def values(self) -> int:
        """Elements of a value."""
        return self.head_size if self.value_size is None else self.value_size

    @property
    def scores(self) -> int:
        """Elements of the score matrices, masked ones included."""
        return self.heads * self.query_length * self.key_length

    @property
    def gemms(self) -> tuple[Gemm, ...]:
        """The products of the unfused kernels."""
        q, k, d, v = self.query_length, self.key_length, self.head_size, self.values
        forward = ((q, k, d), (q, v, k))
        sizes = ((k, v, q), (q, k, v), (q, d, k), (k, d, q)) if self.backward else forward
        return tuple(Gemm(m=m, n=n, k=inner, batch=self.heads, element_type=self.element_type) for m, n, inner in sizes)

    @property
    def operations(self) -> int:
        """Two for each multiply-add of the products; softmax is not counted."""
        if not self.flash:
            return sum(gemm.operations for gemm in self.gemms)
        # The backward kernel has five products, of which one calculates the scores again.
        per_pair = 3 * self.head_size + 2 * self.values if self.backward else self.head_size + self.values
        return self.heads * per_pair * self._twice_the_pairs

    @property
    def most_keys(self) -> int:
        """Keys that a query sees at most."""
        return self.key_length if self.window is None else min(self.window, self.key_length)

    @property
    def _twice_the_pairs(self) -> int:
        """Twice the pairs of a query and a key that a flash kernel calculates for a head."""
        if not self.causal:
            return 2 * self.query_length * self.key_length
        first = max(0, self.key_length - self.query_length)  # keys before the first query
        if first >= self.most_keys:
            return 2 * self.query_length * self.most_keys
        return 2 * self.key_length * self.most_keys - self.most_keys**2 - first**2

    def score_bytes(self, element_bytes: float) -> float:
        """Traffic of the unfused kernels for scale, mask, softmax and dropout (a mask has a byte an element)."""
        softmax = (3 if self.backward else 2) * element_bytes
        return self.scores * (softmax + (2 * element_bytes + 1 if self.dropout else 0))

    def operand_bytes(self, element_bytes: float) -> float:
        """Queries, keys, values and output, and backward their gradients too, once each."""
        heads = self.heads if self.key_heads is None else self.key_heads
        # Queries side by side see windows side by side.
        keys = self.key_length if self.window is None else min(self.key_length, self.window + self.query_length - 1)
        widths = self.head_size + self.values
        elements = self.heads * self.query_length * widths + heads * keys * (self.head_size if self.values_in_keys else widths)
        return elements * element_bytes * (2 if self.backward else 1)

    def count_bytes(self, element_bytes: float) -> float:
        """Flash: operands alone; unfused: those of the products, and the scores."""
        if self.flash:
            return self.operand_bytes(element_bytes)
        return sum(gemm.count_bytes(element_bytes) for gemm in self.gemms) + self.score_bytes(element_bytes)


class _InBytes(ValueObject):
    """A kernel that is counted in bytes alone."""

    __slots__ = ()

    element_type: ClassVar[None] = None
    operations: ClassVar[int] = 0


@attrs.frozen(eq=False, repr=False)
class Elementwise(_InBytes):
    """A kernel that is bound by memory: norms, activations, residual sums, transposes, gathers. Counted in bytes alone."""

    kind: ClassVar[str] = "elementwise"
    read_bytes: int = option(0, minimum=0, help="bytes that are read", unit="bytes")
    write_bytes: int = option(0, minimum=0, help="bytes that are written", unit="bytes")

    def count_bytes(self, element_bytes: float) -> float:
        """The bytes read and written, whatever the element type."""
        return self.read_bytes + self.write_bytes


@attrs.frozen(eq=False, repr=False)
class Cast(_InBytes):
    """A change of element type, such as to FP8 before a product. Counted in bytes alone."""

    kind: ClassVar[str] = "cast"
    elements: int = option(minimum=1, help="elements")
    batch: int = option(1, minimum=1, help="number of casts, each of all elements and by a kernel of its own")
    from_type: str = option("bf16", choices=tuple(ELEMENT_BYTES), help="type that is read")
    to_type: str = option("fp8", choices=tuple(ELEMENT_BYTES), help="type that is written")
    transposed: bool = option(False, help="a transposed copy is written too")

    def count_bytes(self, element_bytes: float) -> float:
        """The bytes read and written, whatever the element type of the model."""
        written = ELEMENT_BYTES[self.to_type] * (2 if self.transposed else 1)
        return self.batch * self.elements * (ELEMENT_BYTES[self.from_type] + written)


@attrs.frozen(eq=False, repr=False)
class OptimizerStep(_InBytes):
    """The kernels of an optimizer step. Counted in bytes alone."""

    kind: ClassVar[str] = "optimizer_step"
    parameters: int = option(minimum=1, help="parameters that this NPU updates")
    bytes_per_parameter: float = option(
        58.0, above=0, help="traffic of a parameter: 58 Adam with fp16 and loss scaling (Megatron), about 46 with bf16", unit="bytes"
    )

    def count_bytes(self, element_bytes: float) -> float:
        """The traffic of all parameters, whatever the element type."""
        return self.parameters * self.bytes_per_parameter


Shape = Gemm | Convolution
"""The shape of a product of matrices, or of a batch of them."""

Kernel = Shape | GroupedGemm | Attention | Elementwise | Cast | OptimizerStep
"""All kinds of work that have a shape."""
