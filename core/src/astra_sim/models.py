"""What compute and memory models are, and the shapes of what is computed."""

from __future__ import annotations

import abc

import attrs

from astra_sim.boundary import call, picoseconds
from astra_sim.errors import InputError
from astra_sim.options import option
from astra_sim.units import GIB, PS_PER_NS


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
                raise InputError(f"filter_{side} is {filter_}; at most the input_{side}, which is {input_}, is right")

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


@attrs.define(slots=True)
class Work:
    """The computation of one pass of a layer, as far as the workload knows it.

    `recorded_ns` is a measured time, `operations` counts arithmetic operations (a multiply-add is two), `bytes` is the memory
    traffic, `shape` is what is multiplied. None: not given.
    """

    recorded_ns: float | None = None
    operations: float | None = None
    bytes: float | None = None
    shape: Shape | None = None

    def count_operations(self) -> float | None:
        """The operations as given, or those of the shape: two for each multiply-add. None where neither is known."""
        if self.operations is not None or self.shape is None:
            return self.operations
        gemm = self.shape.gemm
        return 2 * gemm.m * gemm.n * gemm.k

    def count_bytes(self, element_bytes: float) -> float | None:
        """The memory traffic as given, or that of the shape: both factors read and the product written, once each."""
        if self.bytes is not None or self.shape is None:
            return self.bytes
        gemm = self.shape.gemm
        return (self.shape.input_elements + gemm.k * gemm.n + gemm.m * gemm.n) * element_bytes


class MissingWork(InputError):
    """The workload does not give what a compute model needs; the message says what."""


class Compute(abc.ABC):
    """A compute model: work to time."""

    @abc.abstractmethod
    def duration_ns(self, work: Work) -> float:
        """Nanoseconds that the work takes. Raises MissingWork where the work lacks what this model needs."""


def three_accesses(size: int, gigabytes_per_s: float) -> int:
    """Picoseconds of one write and two reads of `size` bytes, each cut to whole nanoseconds; 10^9 bytes are a gigabyte."""
    return 3 * int(size / gigabytes_per_s) * PS_PER_NS


class Memory(abc.ABC):
    """A memory model: the time of accesses to an NPU's own memory, and to memory outside of it."""

    @abc.abstractmethod
    def access_ps(self, size: int, write: bool) -> int:
        """Picoseconds to read or write `size` bytes of an NPU's own memory."""

    def remote_access_ps(self, size: int, write: bool) -> int:
        """Picoseconds to read or write `size` bytes of remote memory, once it is its turn. Raises InputError where there is none."""
        raise InputError(
            f"{size} bytes are {'written to' if write else 'read from'} remote memory, which memory {type(self).__name__} lacks"
        )

    def remote_port(self, npu: int) -> int | None:
        """Number of the port of remote memory that an NPU uses: accesses at a port take turns. None: its accesses never wait."""
        return None

    def capacity_bytes(self) -> float | None:
        """Bytes that an NPU's own memory holds. None: it is not limited."""
        return None

    def require(self, size: int, what: str) -> None:
        """Raise InputError if `what`, which needs `size` bytes of an NPU's own memory, does not fit."""
        capacity = self.capacity_bytes()
        if capacity is not None and size > capacity:
            raise InputError(f"{what} needs {size / GIB:.3f} GiB of memory; an NPU has {capacity / GIB:.3f} GiB")

    def reduce_ps(self, size: int) -> int:
        """Picoseconds to add `size` received bytes to a buffer: one write and two reads (ASTRA-sim 1.0)."""
        return self.checked_ps(size, True) + 2 * self.checked_ps(size, False)

    def checked_ps(self, size: int, write: bool, remote: bool = False) -> int:
        """What `access_ps` or `remote_access_ps` says. Raises PluginError if that is no time, InputError if it is too long."""
        where = "remote " if remote else ""
        what = f"memory {type(self).__name__}: the time to {'write' if write else 'read'} {size} {where}bytes"
        return picoseconds(call(what, self.remote_access_ps if remote else self.access_ps, size, write), what)
