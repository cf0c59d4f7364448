"""The compute model `gpu`."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.compute import Compute, ExpectedError, MissingWork, Work
from astra_sim.errors import warn
from astra_sim.platform import Platform
from astra_sim.shapes import ELEMENT_BYTES, Attention, Cast, Convolution, Gemm, GroupedGemm, Kernel
from astra_sim.units import GIB

from astra_sim_compute_gpu.attention import flash_us, paged_us
from astra_sim_compute_gpu.device import GpuDevice, MemoryFit, ServedProductFit, names, read_device
from astra_sim_compute_gpu.expected_error import configuration_of, expected_error
from astra_sim_compute_gpu.gemm import NARROW_TILES, TILES, gemm_us
from astra_sim_compute_gpu.stack import AUTO, KERNELS, Stack, newest_stack, read_stack

_NS_PER_US = 1000.0
_BLOCK_SCALED = "mxfp8"


@attrs.frozen
class GpuOptions:
    """Options of the gpu model. docs/compute.md lists the devices and the stacks."""

    device: str | None = option(
        None,
        help="a device of this package such as a100-80, h100, b200, tpu-v5p, or a file DEVICE.toml; none: that of the platform",
        path="name or path",
        names="astra_sim_compute_gpu.device:names",
    )
    stack: str | Stack = option(
        AUTO,
        help="a stack profile of this package such as megatron-2022, a file STACK.toml, or a table of its numbers; auto: for training of "
        "language models (workload llm) the newest that was fitted to iterations on the device, else kernels",
        path="name or path",
        names="astra_sim_compute_gpu.stack:names",
    )
    element_type: str | None = option(
        None,
        choices=tuple(ELEMENT_BYTES),
        help="type of the elements of shapes that do not give their own; none: the first that the device lists",
    )


def gpu(options: GpuOptions) -> Compute:
    """The model of a device, or of that of the platform."""
    return GpuOfPlatform(options) if options.device is None else Gpu(options)


class GpuOfPlatform(Compute):
    """The model before it is known on which platform it is, for the device of which it waits."""

    def __init__(self, options: GpuOptions) -> None:
        self._options = options

    def for_platform(self, platform: Platform) -> Compute:
        """The model of the platform's device. Raises InputError if it names none, or one that this package does not have."""
        name = platform.device
        if name not in names():
            what = f"that of the platform is {name!r}, which is not one of them" if name else "the platform names none"
            raise InputError(f"device is missing, and {what}; expected {_known()}")
        return Gpu(attrs.evolve(self._options, device=name), of_platform=True)

    def duration_ns(self, work: Work) -> float:
        """Raises InputError: there is no platform."""
        raise InputError(f"device is missing; expected {_known()}")


def _known() -> str:
    return f"device = {' | '.join(names())}, or a file DEVICE.toml"


def product_us(device: GpuDevice, gemm: Gemm, element_type: str, rate_share: float, served: ServedProductFit | None) -> float:
    """Microseconds of a matrix product on a device, with the start of its kernel: that of training, or of a server (`served`).

    `rate_share` is the share of the peak that a stack leaves.
    """
    fit, ops_per_us = device.gemm_fit(element_type), device.peak(element_type) * 1e6 * rate_share
    tiles: Sequence[tuple[int, int]] = TILES
    if served is not None:
        fit = attrs.evolve(fit, start_us=served.start_us, byte_efficiency=served.byte_efficiency)
        ops_per_us *= served.share_of(gemm.m) if gemm.batch == 1 else served.share
        tiles = (*TILES, *NARROW_TILES)
    return fit.start_us + gemm_us(
        gemm=gemm,
        element_type=element_type,
        fit=fit,
        ops_per_us=ops_per_us,
        multiprocessors=device.multiprocessors,
        bytes_per_us=device.memory_bandwidth_gb_per_s * 1e3,
        tiles=tiles,
    )


class Gpu(Compute):
    """Work takes the time of the kernel of its shape; work without a shape that of its operations, or of its bytes if they take longer.

    `of_platform`: its device is the platform's; `chosen`: its stack was not named.
    """

    def __init__(self, options: GpuOptions, of_platform: bool = False, chosen: bool = False, traits: Collection[str] = ()) -> None:
        if options.device is None:
            raise InputError(f"device is missing; expected {_known()}")
        self.profile = read_device(options.device)
        self._options = options
        stack = KERNELS if options.stack == AUTO else options.stack
        self.stack_name = stack if isinstance(stack, str) else "table"
        self.stack = read_stack(stack)
        self.device_name = options.device
        self.device = options.device if options.device in names() else self.profile.based_on
        self.workload_defaults = self.stack.workload
        self._of_platform, self._chosen = of_platform, chosen
        self._inference = self.profile.inference if "inference" in traits else None
        self._scales_inputs, self._block_scaled = "scales_inputs" in traits, "block_scaled" in traits
        self._element_type = options.element_type or next(iter(self.profile.peak_tera_ops_per_s))
        self.profile.peak(self._element_type)
        self._gemm_share = self.stack.gemm_share
        self._kernels: dict[Kernel, float] = {}
        self.collective_share = self.stack.collective_share
        self.launch_us = self.stack.launch_us
        self.memory_bytes = self.profile.memory_gib * GIB
        self.memory_margin_bytes = self.profile.margin_gib * GIB
        if not self.profile.calibrated:
            warn(f"device {options.device} is not calibrated: its peaks are its own, its efficiencies those of the nearest fitted device")
        for number in self.stack.undetermined:
            warn(f"stack {self.stack_name}: the iterations of its fit do not determine {number} = {getattr(self.stack, number):g}")

    def for_workload(self, name: str, traits: Collection[str]) -> Compute:
        """The model with the newest stack that was fitted to this workload on the device, if none is named.

        In training (trait `training`) products have the rate that the device sustains, also with a named stack.
        For a server (trait `inference`) with the kernels of servers; those of 8 bits have numbers of their own if a kernel scales its
        inputs itself (`scales_inputs`), token by token or with a scale for each 128 elements (`block_scaled`).
        """
        if "inference" in traits:
            return Gpu(self._options, self._of_platform, self._chosen, traits)
        if "training" not in traits:
            return self
        stack = newest_stack(self.device, name, traits) if self._options.stack == AUTO else None
        model = self if stack is None else Gpu(attrs.evolve(self._options, stack=stack), self._of_platform, chosen=True)
        return model._sustained()

    def _sustained(self) -> Gpu:
        """The model with the rates of products in training, which goes on for hours; those of kernels by themselves are higher."""
        result = copy.copy(self)
        result._gemm_share, result._kernels = self.stack.gemm_share * self.profile.sustained, {}
        return result

    def expected_error(self, npus: int, configuration: Mapping[str, Any]) -> ExpectedError | None:
        """By published runs that were simulated with this stack; None for a stack or a device of one's own."""
        if self.device_name != self.device:
            return None
        return expected_error(self.stack_name, configuration_of(self.device, npus, configuration))

    def mismatches(self, precision: str) -> list[str]:
        """The contradictions among device, stack and precision of the workload."""
        result = self.stack.mismatches(self.stack_name, self.device, precision)
        if precision == _BLOCK_SCALED and self.profile.block_scaling is False:
            result.append(f"the precision of the workload is {precision}, and {self.profile.title} multiplies no MX formats: expected fp8")
        return result

    def statistics(self) -> dict[str, object]:
        """The device and the stack, and how far the stack was from iterations to which it was not fitted."""
        stack = self.stack
        fitted = {"fitted_on": list(stack.devices), "fitted_with": list(stack.precisions)} if stack.devices else {}
        error = {"held_out_error": stack.held_out_error, "held_out_lines": stack.held_out_lines}
        return {
            "device": self.device_name,
            "device_from": "platform" if self._of_platform else "compute",
            "calibrated": self.profile.calibrated,
            "stack": self.stack_name,
            "stack_from": "auto" if self._chosen else "compute",
            **fitted,
            **{name: value for name, value in error.items() if value is not None},
        }

    def peak_ops_per_s(self, element_type: str) -> float:
        """The peak of the device for a type, without sparsity."""
        return self.profile.peak(element_type) * 1e12

    def duration_ns(self, work: Work) -> float:
        """Nanoseconds that the work takes. Raises MissingWork if it has no shape, no operations and no bytes."""
        if work.shape is None:
            return self._counted_us(work) * _NS_PER_US
        if work.shape not in self._kernels:
            self._kernels[work.shape] = self._kernel_us(work.shape) * _NS_PER_US
        return self._kernels[work.shape]

    def _counted_us(self, work: Work) -> float:
        """The time of work that is known by its counts, at the rate of large products and the bandwidth of element-wise kernels."""
        if work.operations is None and work.bytes is None:
            raise MissingWork("it has no shape, no operations and no memory_bytes, one of which the gpu model needs")
        fit = self.profile.gemm_fit(self._element_type)
        ops_per_us = self.profile.peak(self._element_type) * 1e6 * self._gemm_share * fit.large
        computing = (work.operations or 0) / ops_per_us
        return max(computing, (work.bytes or 0) / self._memory_bytes_per_us(self.profile.elementwise))

    def _kernel_us(self, shape: Kernel) -> float:
        if isinstance(shape, GroupedGemm):
            return self._gemm_us(shape.batched, "grouped_gemm")
        if isinstance(shape, (Gemm, Convolution)):
            return self._gemm_us(shape.gemm)
        if isinstance(shape, Attention):
            return self._flash_us(shape) if shape.flash else self._unfused_us(shape)
        if isinstance(shape, Cast):
            return self._memory_us(shape.count_bytes(0), self.profile.cast, shape.batch)
        return self._memory_us(shape.count_bytes(0), self.profile.elementwise)

    def _type_of(self, shape: Kernel) -> str:
        return shape.element_type or self._element_type

    def _gemm_us(self, gemm: Gemm, kind: str = "gemm") -> float:
        """The time of a matrix product, or of one for each expert (`grouped_gemm`), with the start of its kernel."""
        element_type = self._type_of(gemm)
        return product_us(self.profile, gemm, element_type, self._gemm_share, self._served_product(kind, element_type))

    def _served_product(self, kind: str, element_type: str) -> ServedProductFit | None:
        """The numbers of products of servers, if the model is that of a server and the device has some."""
        if self._inference is None or (ELEMENT_BYTES[element_type] == 1 and not self._scales_inputs):
            return None
        return self._inference.product(kind, element_type, self._block_scaled)

    def direct_all_reduce_us(self, ranks: int, size: int) -> float | None:
        """Microseconds of an all-reduce in which NPUs of a node read each other's memory; None: servers use that of the network."""
        fits = self._inference
        return None if fits is None or fits.all_reduce is None else fits.all_reduce.us(ranks, size)

    def _flash_us(self, shape: Attention) -> float:
        """The time of fused attention, with the start of its kernel."""
        element_type = self._type_of(shape)
        fit = self.profile.attention_fit(element_type)
        share = self.stack.attention_rate
        if shape.paged and self.profile.paged_attention is not None:
            bandwidth, fits = self.profile.memory_bandwidth_gb_per_s * 1e3, (fit, self.profile.paged_attention)
            return paged_us(shape, element_type, fits, share, self.profile.multiprocessors, bandwidth)
        bytes_per_us = self._memory_bytes_per_us(self.profile.elementwise)
        return fit.start_us + flash_us(
            attention=shape,
            element_type=element_type,
            fit=fit,
            share=share,
            multiprocessors=self.profile.multiprocessors,
            bytes_per_us=bytes_per_us,
        )

    def _unfused_us(self, shape: Attention) -> float:
        scores = shape.score_bytes(ELEMENT_BYTES[self._type_of(shape)])
        return sum(map(self._gemm_us, shape.gemms)) + self._memory_us(scores, self.profile.elementwise)

    def _memory_us(self, size: float, fit: MemoryFit, kernels: int = 1) -> float:
        return fit.start_us * kernels + size / self._memory_bytes_per_us(fit)

    def _memory_bytes_per_us(self, fit: MemoryFit) -> float:
        return self.profile.memory_bandwidth_gb_per_s * 1e3 * fit.efficiency * self.stack.elementwise_share
