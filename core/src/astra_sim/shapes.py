"""The shapes of what is computed. Sizes count elements; how many bytes an element has is the compute model's."""

from __future__ import annotations

import attrs

from astra_sim.errors import InputError
from astra_sim.options import option


@attrs.frozen
class Gemm:
    """A product of matrices: (m x k) times (k x n) gives (m x n). For a layer m is the batch, n the outputs, k the inputs."""

    m: int = option(minimum=1, help="rows of the first factor and of the product")
    n: int = option(minimum=1, help="columns of the second factor and of the product")
    k: int = option(minimum=1, help="columns of the first factor, rows of the second")

    @property
    def gemm(self) -> Gemm:
        """Itself."""
        return self

    @property
    def input_elements(self) -> int:
        """Elements of the first factor."""
        return self.m * self.k


@attrs.frozen
class Convolution:
    """A convolution. Height and width of the input include its padding.

    An output has ceil((input - filter + stride) / stride) rows (SCALE-Sim), columns alike: the last ones may reach beyond the input.
    Raises InputError where a filter is larger than the input.
    """

    input_height: int = option(minimum=1, help="rows of the input, with padding", unit="pixels")
    input_width: int = option(minimum=1, help="columns of the input, with padding", unit="pixels")
    filter_height: int = option(minimum=1, help="rows of a filter", unit="pixels")
    filter_width: int = option(minimum=1, help="columns of a filter", unit="pixels")
    channels: int = option(minimum=1, help="channels of the input")
    filters: int = option(minimum=1, help="filters, which are the channels of the output")
    stride: int = option(1, minimum=1, help="step from an output row to the next", unit="pixels")
    stride_width: int | None = option(None, minimum=1, help="the same for columns; none: as for rows", unit="pixels")
    batch: int = option(1, minimum=1, help="inputs")

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
        return Gemm(m=pixels, n=self.filters, k=self.filter_height * self.filter_width * self.channels)

    @property
    def input_elements(self) -> int:
        """Elements of the input."""
        return self.batch * self.input_height * self.input_width * self.channels


Shape = Gemm | Convolution
