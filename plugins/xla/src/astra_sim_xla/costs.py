"""FLOPs, bytes and shapes of instructions, by the rules of XLA's cost analysis (`xla/service/hlo_cost_analysis.cc`).

A product counts two for each multiply-add, an element-wise operation one for each element, a transcendental function none. A kernel
reads each operand and writes its result once; of tensors that are only sliced or updated in place it moves the slice.
"""

from __future__ import annotations

import json
import math
import re

import attrs
from astra_sim.shapes import Elementwise, Gemm, Kernel

from astra_sim_xla.hlo_text import Computation, Instruction, Module, Shape, is_communication

_ELEMENTWISE = frozenset(
    """abs add and ceil clamp clz compare complex conj convert count-leading-zeros divide floor imag is-finite maximum minimum multiply
    negate not or popcnt power real remainder round-nearest-afz round-nearest-even select shift-left shift-right-arithmetic
    shift-right-logical sign subtract xor stochastic-convert""".split()
)
_TRANSCENDENTAL = frozenset(
    """atan2 acos acosh asin asinh atanh cbrt cosine cosh erf exponential exponential-minus-one log log-plus-one logistic power rsqrt sine
    sinh sqrt tan tanh""".split()
)
FIRE_AND_FORGET = frozenset(
    """after-all add-dependency bitcast constant domain get-tuple-element iota opt-barrier optimization-barrier parameter partition-id
    replica-id reshape tuple get-dimension-size""".split()
)
"""Instructions that run no kernel: names, views and constants."""
FUSIBLE = _ELEMENTWISE | _TRANSCENDENTAL | {"broadcast", "transpose", "copy", "slice", "pad", "reverse", "concatenate"}
_SLICES = frozenset(("dynamic-slice", "slice", "gather"))
_TYPES = {"bf16": "bf16", "f16": "fp16", "f32": "fp32", "f64": "fp64", "s8": "int8", "u8": "int8"}


@attrs.frozen
class Cost:
    """The cost of a kernel: arithmetic operations, bytes read and written, and its product of matrices, if it is one."""

    flops: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    gemm: Gemm | None = None

    def plus(self, other: Cost) -> Cost:
        """Both in one kernel."""
        gemm = self.gemm or other.gemm if not (self.gemm and other.gemm) else None
        return Cost(self.flops + other.flops, self.read_bytes + other.read_bytes, self.write_bytes + other.write_bytes, gemm)

    @property
    def shape(self) -> Kernel | None:
        """The shape for compute models: the product, or the bytes of a kernel that has none."""
        if self.gemm is not None:
            return self.gemm
        return Elementwise(read_bytes=self.read_bytes, write_bytes=self.write_bytes) if not self.flops_of_products else None

    @property
    def flops_of_products(self) -> bool:
        """Whether the operations are more than an element-wise kernel has for its bytes: a convolution, or several products."""
        return self.flops > 8 * (self.read_bytes + self.write_bytes)


class Costs:
    """Costs of the instructions of a module."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._flops: dict[str, int] = {}

    def of(self, instruction: Instruction, computation: Computation) -> Cost:
        """The cost of an instruction that runs as one kernel."""
        shapes = [computation.instructions[name].shape for name in instruction.operands]
        flops = self.flops(instruction, computation)
        if instruction.opcode == "fusion":
            inner = self._module.computation(instruction.callee("calls"), instruction)
            products = [gemm for gemm in (self.gemm(each, inner) for each in inner.instructions.values()) if gemm is not None]
            read = sum(self._read(inner, number, shape) for number, shape in enumerate(shapes))
            return Cost(flops, read, _written(inner), products[0] if len(products) == 1 else None)
        if instruction.opcode in _SLICES:
            return Cost(flops, instruction.shape.bytes, instruction.shape.bytes)
        if instruction.opcode == "dynamic-update-slice":
            return Cost(flops, shapes[1].bytes, shapes[1].bytes)
        if instruction.opcode == "scatter":
            updates = sum(shape.bytes for shape in shapes[len(shapes) // 2 :])
            return Cost(flops, 2 * updates, updates)
        return Cost(flops, sum(shape.bytes for shape in shapes), instruction.shape.bytes, self.gemm(instruction, computation))

    def flops(self, instruction: Instruction, computation: Computation) -> int:
        """The operations of an instruction, including those of called computations; a loop counts once."""
        opcode, shape = instruction.opcode, instruction.shape
        if opcode in _TRANSCENDENTAL:
            return 0
        if opcode in _ELEMENTWISE:
            return shape.elements
        if opcode in ("dot", "custom-call"):
            gemm = self.gemm(instruction, computation)
            return gemm.operations if gemm is not None else 0
        if opcode == "convolution":
            return _convolution_flops(instruction, *(computation.instructions[name].shape for name in instruction.operands[:2]))
        if opcode in ("fusion", "call", "map", "reduce", "reduce-window", "scatter", "select-and-scatter"):
            return self._applied(instruction, computation)
        return 0

    def gemm(self, instruction: Instruction, computation: Computation) -> Gemm | None:
        """The product of matrices that a dot or a call of cuBLAS is; None for another instruction."""
        dimensions = _dot_dimensions(instruction)
        if dimensions is None:
            return None
        left, right = (computation.instructions[name].shape for name in instruction.operands[:2])
        left_contracted, right_contracted, left_batch, right_batch = dimensions
        k = math.prod(left.sizes[axis] for axis in left_contracted)
        batch = math.prod(left.sizes[axis] for axis in left_batch)
        m = left.elements // max(1, k * batch)
        n = right.elements // max(1, math.prod(right.sizes[axis] for axis in (*right_contracted, *right_batch)))
        if not m * n * k * batch:
            return None
        element_type = "fp8" if left.element_type.startswith("f8") else _TYPES.get(left.element_type)
        return Gemm(m=m, n=n, k=k, batch=batch, element_type=element_type)

    def _applied(self, instruction: Instruction, computation: Computation) -> int:
        """FLOPs of the computation that an instruction applies, once."""
        name = instruction.callee(
            "calls" if instruction.opcode == "fusion" else "scatter" if "select-" in instruction.opcode else "to_apply"
        )
        inner = self._module.computation(name, instruction)
        if name not in self._flops:
            self._flops[name] = sum(self.flops(each, inner) for each in inner.instructions.values())
        once = self._flops[name]
        shapes = [computation.instructions[each].shape for each in instruction.operands]
        if instruction.opcode == "map":
            return once * instruction.shape.elements
        if instruction.opcode == "reduce":
            parts = instruction.shape.parts
            result = parts[0].elements if parts else instruction.shape.elements
            return once * max(0, shapes[0].elements - result)
        if instruction.opcode == "reduce-window":
            parts = instruction.shape.parts
            result = parts[0].elements if parts else instruction.shape.elements
            return once * result * (math.prod(_window(instruction, "size")) - 1)
        if instruction.opcode == "scatter":
            return once * shapes[-1].elements
        return once

    def _passes_on(self, user: Instruction, inner: Computation) -> bool:
        """Whether an instruction in a fusion moves no memory of it: a collective, or the tuple of results."""
        return is_communication(user.opcode) or (user is inner.root and user.opcode in ("tuple", "custom-call"))

    def _read(self, inner: Computation, number: int, shape: Shape) -> int:
        """The bytes of an operand that a fusion reads."""
        parameter = inner.parameters.get(number)
        if parameter is None:
            return shape.bytes
        users = [each for each in inner.instructions.values() if parameter.name in each.operands and not self._passes_on(each, inner)]
        total = 0
        for user in users:
            if user.opcode in _SLICES and user.operands[0] == parameter.name and parameter.name not in user.operands[1:]:
                total += user.shape.bytes
            elif user.opcode != "dynamic-update-slice" or user.operands[0] != parameter.name:
                return shape.bytes
        return min(total, shape.bytes)


def _written(inner: Computation) -> int:
    """The bytes that a fusion writes: of a result that is updated in place, the update."""
    root = inner.root
    results = [inner.instructions[name] for name in root.operands] if root.opcode == "tuple" else [root]
    return sum(_updated(inner, result) for result in results)


def _updated(inner: Computation, result: Instruction) -> int:
    while result.opcode in ("bitcast", "convert", "reshape", "copy"):
        result = inner.instructions[result.operands[0]]
    if result.opcode == "parameter" or is_communication(result.opcode):
        return 0
    shape = inner.instructions[result.operands[1]].shape if result.opcode == "dynamic-update-slice" else result.shape
    return shape.bytes


Axes = tuple[int, ...]


def _dot_dimensions(instruction: Instruction) -> tuple[Axes, Axes, Axes, Axes] | None:
    """Axes that a product contracts (left, right), and axes of its batch (left, right)."""
    if instruction.opcode == "dot":
        names = "lhs_contracting_dims", "rhs_contracting_dims", "lhs_batch_dims", "rhs_batch_dims"
        left, right, left_batch, right_batch = map(instruction.numbers, names)
        return left, right, left_batch, right_batch
    if instruction.opcode != "custom-call" or "__cublas$" not in (instruction.attribute("custom_call_target") or ""):
        return None
    try:
        config = json.loads(instruction.attribute("backend_config") or "")
        numbers = config.get("gemm_backend_config", config)["dot_dimension_numbers"]
    except (ValueError, KeyError, TypeError):
        return None
    keys = "lhs_contracting_dimensions", "rhs_contracting_dimensions", "lhs_batch_dimensions", "rhs_batch_dimensions"
    left, right, left_batch, right_batch = (tuple(map(int, numbers.get(key, ()))) for key in keys)
    return left, right, left_batch, right_batch


def _window(instruction: Instruction, name: str) -> tuple[int, ...]:
    match = re.search(rf"(?:\{{|\s){name}=([\dx_\-]+)", instruction.attribute("window") or "")
    return tuple(map(int, re.findall(r"\d+", match[1]))) if match else ()


def _convolution_flops(instruction: Instruction, left: Shape, right: Shape) -> int:
    """Two for each multiply-add of an input that is no padding, as XLA counts it."""
    labels = re.match(r"([\w?]+)_([\w?]+)->([\w?]+)", instruction.attribute("dim_labels") or "")
    if labels is None:
        return 0
    groups = int(instruction.attribute("batch_group_count") or 1)
    spatial = sorted(letter for letter in labels[2] if letter.isdigit())
    taps = 1
    window = instruction.attribute("window") or ""
    pads = re.search(r"pad=([\d_x\-]+)", window)
    padding = [int(part.split("_")[0]) for part in pads[1].split("x")] if pads else [0] * len(spatial)
    ones = (1,) * len(spatial)
    strides, base, dilation = (_window(instruction, name) or ones for name in ("stride", "lhs_dilate", "rhs_dilate"))
    for axis, letter in enumerate(spatial):
        inputs = left.sizes[labels[1].index(letter)]
        kernel, outputs = right.sizes[labels[2].index(letter)], instruction.shape.sizes[labels[3].index(letter)]
        taps *= sum(
            0 <= place < (inputs - 1) * base[axis] + 1 and place % base[axis] == 0
            for output in range(outputs)
            for place in (output * strides[axis] - padding[axis] + tap * dilation[axis] for tap in range(kernel))
        )
    batch = left.sizes[labels[1].index("b")] // groups
    features, filters = right.sizes[labels[2].index("i")], instruction.shape.sizes[labels[3].index("f")]
    return 2 * taps * batch * features * filters
