"""The compute model `gpu`."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.compute import Compute, MissingWork, Work
from astra_sim.errors import warn
from astra_sim.shapes import ELEMENT_BYTES, Attention, Cast, Convolution, Gemm, GroupedGemm, Kernel
from astra_sim.units import GIB

from astra_sim_compute_gpu.attention import flash_us
from astra_sim_compute_gpu.device import MemoryFit, read_device
from astra_sim_compute_gpu.gemm import gemm_us
from astra_sim_compute_gpu.stack import Stack, read_stack

_NS_PER_US = 1000.0


@attrs.frozen
class GpuOptions:
    """Options of the gpu model. docs/compute.md lists the devices and the stacks."""

    device: str = option(
        help="a device of this package such as a100-80, h100, b200, tpu-v5p, or a file DEVICE.toml",
        path="name or path",
        names="astra_sim_compute_gpu.device:names",
    )
    stack: str | Stack = option(
        "kernels",
        help="a stack profile of this package such as megatron-2022, a file STACK.toml, or a table of its numbers",
        path="name or path",
        names="astra_sim_compute_gpu.stack:names",
    )
    element_type: str | None = option(
        None,
        choices=tuple(ELEMENT_BYTES),
        help="type of the elements of shapes that do not give their own; none: the first that the device lists",
    )


class Gpu(Compute):
    """Work takes the time of the kernel of its shape; work without a shape that of its operations, or of its bytes if they take longer."""

    def __init__(self, options: GpuOptions) -> None:
        self.device = read_device(options.device)
        self.stack = read_stack(options.stack)
        self._element_type = options.element_type or next(iter(self.device.peak_tera_ops_per_s))
        self.device.peak(self._element_type)
        self._kernels: dict[Kernel, float] = {}
        self.collective_share = self.stack.collective_share
        self.launch_us = self.stack.launch_us
        self.memory_bytes = self.device.memory_gb * GIB
        if not self.device.calibrated:
            warn(f"device {options.device} is not calibrated: its peaks are its own, its efficiencies those of the nearest fitted device")

    def peak_ops_per_s(self, element_type: str) -> float:
        """The peak of the device for a type, without sparsity."""
        return self.device.peak(element_type) * 1e12

    def duration_ns(self, work: Work) -> float:
        """Nanoseconds that the work takes. Raises MissingWork where it has no shape, no operations and no bytes."""
        if work.shape is None:
            return self._counted_us(work) * _NS_PER_US
        if work.shape not in self._kernels:
            self._kernels[work.shape] = self._kernel_us(work.shape) * _NS_PER_US
        return self._kernels[work.shape]

    def _counted_us(self, work: Work) -> float:
        """The time of work that is known by its counts, at the rate of large products and the bandwidth of element-wise kernels."""
        if work.operations is None and work.bytes is None:
            raise MissingWork("it has no shape, no operations and no memory_bytes, one of which the gpu model needs")
        fit = self.device.gemm_fit(self._element_type)
        ops_per_us = self.device.peak(self._element_type) * 1e6 * self.stack.gemm_share * fit.large
        computing = (work.operations or 0) / ops_per_us
        return max(computing, (work.bytes or 0) / self._memory_bytes_per_us(self.device.elementwise))

    def _kernel_us(self, shape: Kernel) -> float:
        if isinstance(shape, GroupedGemm):
            return self._gemm_us(shape.batched)
        if isinstance(shape, (Gemm, Convolution)):
            return self._gemm_us(shape.gemm)
        if isinstance(shape, Attention):
            return self._flash_us(shape) if shape.flash else self._unfused_us(shape)
        if isinstance(shape, Cast):
            return self._memory_us(shape.count_bytes(0), self.device.cast, shape.batch)
        return self._memory_us(shape.count_bytes(0), self.device.elementwise)

    def _type_of(self, shape: Kernel) -> str:
        return shape.element_type or self._element_type

    def _gemm_us(self, gemm: Gemm) -> float:
        element_type = self._type_of(gemm)
        fit, bytes_per_us = self.device.gemm_fit(element_type), self.device.memory_bandwidth_gb_per_s * 1e3
        ops_per_us = self.device.peak(element_type) * 1e6 * self.stack.gemm_share
        return fit.start_us + gemm_us(gemm, element_type, fit, ops_per_us, self.device.multiprocessors, bytes_per_us)

    def _flash_us(self, shape: Attention) -> float:
        element_type = self._type_of(shape)
        fit = self.device.attention_fit(element_type)
        bytes_per_us = self._memory_bytes_per_us(self.device.elementwise)
        share = self.stack.attention_rate
        return fit.start_us + flash_us(shape, element_type, fit, share, self.device.multiprocessors, bytes_per_us)

    def _unfused_us(self, shape: Attention) -> float:
        scores = shape.score_bytes(ELEMENT_BYTES[self._type_of(shape)])
        return sum(map(self._gemm_us, shape.gemms)) + self._memory_us(scores, self.device.elementwise)

    def _memory_us(self, size: float, fit: MemoryFit, kernels: int = 1) -> float:
        return fit.start_us * kernels + size / self._memory_bytes_per_us(fit)

    def _memory_bytes_per_us(self, fit: MemoryFit) -> float:
        return self.device.memory_bandwidth_gb_per_s * 1e3 * fit.efficiency * self.stack.elementwise_share
