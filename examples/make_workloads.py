"""Derive the workload files in `workloads/` from the shapes of the models' layers.

    python make_workloads.py            write the files
    python make_workloads.py --check    compare with the files that are there; exit status 1 if one differs

Rules for all models:

- A multiply-add is two operations. A bias, an activation function, a pooling or a normalisation behind a layer is none.
- The three passes of a layer with weights do the same number of operations: the forward pass, the gradient of the input, and
  the gradient of the weights are each one product of matrices of the same three sizes. They also move the same bytes: each
  reads two of the three tensors (input, weights, output, or the gradients of these) once, and writes the third once.
- Values, weights and gradients are 16-bit floating-point numbers.
- A computing time is operations / rate, rounded to whole nanoseconds. The rate is the peak of a TPU v2, unless a model says otherwise.

No packages beyond Python's own are needed.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from astra_sim.toml_text import to_toml

FOLDER = Path(__file__).parent / "workloads"

TERA = 2**40  # ASTRA-sim's tutorial counts tera in powers of two
TPU_V2 = 46 * TERA  # operations per second of one chip (Jouppi et al., CACM 63(7), 2020)
VALUE_BYTES = 2

UPDATE_NS = 1  # time to apply what a collective brings: ASTRA-sim's tutorial does not model it, and writes 1

FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = PASSES = ("forward", "input_gradient", "weight_gradient")


@dataclass(frozen=True)
class Work:
    """What one pass of a layer computes, and which memory traffic that is."""

    operations: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True)
class Layer:
    """A layer as one NPU sees it. `exchanges` has the collective of a pass, and the bytes each NPU puts in."""

    name: str
    forward: Work
    input_gradient: Work
    weight_gradient: Work
    parameters: int = 0
    exchanges: dict[str, tuple[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """A workload file: its name, what stands in the comment above it, its options, and its layers."""

    file: str
    name: str
    comment: str
    loop: str
    layers: list[Layer]
    loop_options: dict[str, object] = field(default_factory=dict)
    single_precision: str = ""  # why times and sizes are scaled in 32-bit floating point; empty: they are not
    rate: int = TPU_V2


# -- layers ----------------------------------------------------------------------------------------------------------


def weighted(
    name: str,
    operations: int,
    values: int,
    parameters: int,
    exchanges: dict[str, tuple[str, int]],
) -> Layer:
    """A layer with weights: all three passes alike. `values` are those of its input and its output."""
    work = Work(operations, (values + parameters) * VALUE_BYTES)
    return Layer(name, work, work, work, parameters, exchanges)


def data_parallel(parameters: int) -> dict[str, tuple[str, int]]:
    """Weight gradients are all-reduced."""
    return {WEIGHT_GRADIENT: ("all_reduce", parameters * VALUE_BYTES)}


def convolution(
    name: str, batch: int, side: int, channels: int, filters: int, kernel: int, stride: int = 1, *, normalised: bool = False
) -> Layer:
    """A convolution of square images of `side`, padded so that only the stride makes them smaller.

    It has a bias for every filter, or two parameters of the batch normalisation that follows it.
    """
    output_side = side // stride
    weights = kernel**2 * channels * filters
    operations = 2 * batch * output_side**2 * weights
    values = batch * (side**2 * channels + output_side**2 * filters)
    parameters = weights + filters * (2 if normalised else 1)
    return weighted(name, operations, values, parameters, data_parallel(parameters))


def fully_connected(name: str, batch: int, inputs: int, outputs: int, exchanged: int | None = None) -> Layer:
    """A fully connected layer with biases. `exchanged` parameters are all-reduced; not given: as many as there are."""
    parameters = inputs * outputs + outputs
    exchanges = data_parallel(parameters if exchanged is None else exchanged)
    return weighted(name, 2 * batch * inputs * outputs, batch * (inputs + outputs), parameters, exchanges)


# -- models ----------------------------------------------------------------------------------------------------------


def vgg16() -> Model:
    """Configuration D of Simonyan and Zisserman, arXiv:1409.1556; one image for each NPU, as in ASTRA-sim's tutorial."""
    batch = 1
    layers = []
    side, channels = 224, 3
    for block, (filters, count) in enumerate([(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)], 1):
        for number in range(1, count + 1):
            layers.append(convolution(f"block{block}_conv{number}", batch, side, channels, filters, kernel=3))
            channels = filters
        side //= 2  # a pooling layer ends every block
    layers.append(fully_connected("fc1", batch, side**2 * channels, 4096))
    layers.append(fully_connected("fc2", batch, 4096, 4096))
    layers.append(fully_connected("predictions", batch, 4096, 1000))
    expect("VGG-16", "parameters", sum(layer.parameters for layer in layers), 138_357_544)
    comment = """\
VGG-16 (Simonyan and Zisserman, arXiv:1409.1556, configuration D), data parallel, 1 image of 224 x 224 for each NPU.
The gradients of 138 357 544 weights and biases are all-reduced, layer by layer, with 2 bytes each."""
    return Model("vgg16", "VGG-16", comment, "data", layers)


def resnet50() -> Model:
    """He et al., arXiv:1512.03385, with the stride in the 3 x 3 convolutions, as torchvision and MLPerf have it."""
    batch = 32  # images for each NPU: 8192 on 256 NPUs, as in Goyal et al., arXiv:1706.02677
    layers = [convolution("conv1", batch, 224, 3, 64, kernel=7, stride=2, normalised=True)]
    side, channels = 56, 64  # after a pooling layer
    for stage, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)], 2):
        for block in range(1, blocks + 1):
            stride = 2 if block == 1 and stage > 2 else 1
            name = f"conv{stage}_{block}"
            small = side // stride
            layers.append(convolution(f"{name}_a", batch, side, channels, width, kernel=1, normalised=True))
            layers.append(convolution(f"{name}_b", batch, side, width, width, kernel=3, stride=stride, normalised=True))
            layers.append(convolution(f"{name}_c", batch, small, width, 4 * width, kernel=1, normalised=True))
            if block == 1:  # a projection, so that the shortcut has the same size
                layers.append(convolution(f"{name}_proj", batch, side, channels, 4 * width, kernel=1, stride=stride, normalised=True))
            side, channels = small, 4 * width
    layers.append(fully_connected("fc", batch, channels, 1000))
    expect("ResNet-50", "layers", len(layers), 54)
    expect("ResNet-50", "parameters", sum(layer.parameters for layer in layers), 25_557_032)
    expect("ResNet-50", "operations of an image", sum(layer.forward.operations for layer in layers) // batch, 2 * 4_089_184_256)
    comment = """\
ResNet-50 (He et al., arXiv:1512.03385, with the stride in the 3 x 3 convolutions), data parallel, 32 images of 224 x 224 for each NPU:
with 256 NPUs these are the 8192 images of Goyal et al., arXiv:1706.02677.
The gradients of 25 557 032 parameters are all-reduced, layer by layer, with 2 bytes each: weights, the scale and shift of the
batch normalisation behind every convolution, and the biases of the last layer."""
    return Model("resnet50", "ResNet-50", comment, "data", layers)


def gpt3() -> Model:
    """Three of the 96 layers of GPT-3 175B (Brown et al., arXiv:2005.14165), and the projection to words, cut as in Megatron-LM.

    The layers are those of ASTRA-sim's tutorial, under its names. Groups of 16 NPUs hold a copy of the model together.
    """
    hidden, heads, sequence = 12288, 96, 2048
    group = 16  # NPUs of a model-parallel group
    batch = 16  # sequences for each group: the tutorial all-reduces activations of 16 * 2048 * 12288 values
    words = 36000  # not GPT-3's own vocabulary of 50257: the tutorial's last layer has 12288 * 36000 / 16 weights
    # The tutorial's times fit a rate of 62, not of 46. Why is not written there. 62 is a TPU v2's link bandwidth in GB/s.
    rate = 62 * TERA

    tokens = batch * sequence
    width = hidden // group  # columns of a matrix that one NPU has
    activations = tokens * hidden
    reduce_activations = ("all_reduce", activations * VALUE_BYTES)

    def matrix(name: str, inputs: int, outputs: int, exchanges: dict[str, tuple[str, int]] | None = None) -> Layer:
        """The part that one NPU has of a matrix. Biases are not counted."""
        weights = inputs * outputs
        return weighted(name, 2 * tokens * weights, tokens * (inputs + outputs), weights, data_parallel(weights) | (exchanges or {}))

    # Every head multiplies sequence x sequence scores; half of them, those of later words, are masked and not computed.
    # The product Q K^T has as many operations as the product of the scores with V, which the tutorial calls softmax.
    scores = batch * (heads // group) * sequence**2 // 2
    head_size = hidden // heads
    attention = Work(2 * scores * head_size, (scores + 2 * tokens * width) * VALUE_BYTES)
    # The normalisation is not cut: every NPU of a group does it for all values, with one multiply-add for each.
    normalisation = Work(2 * activations, 2 * activations * VALUE_BYTES)

    layers = []
    for n in range(1, 4):
        layers += [
            # Q, K and V are cut by columns. The gradients of their common input are added up, once for the three.
            matrix(f"Q{n}", hidden, width, {INPUT_GRADIENT: reduce_activations}),
            matrix(f"K{n}", hidden, width),
            matrix(f"V{n}", hidden, width),
            Layer(f"QK{n}", attention, attention, attention),
            Layer(f"softmax{n}", attention, attention, attention),
            # The output of attention is cut by rows, so the results are added up. In the backward pass the tutorial gathers the
            # parts of the input's gradient, which Megatron-LM leaves where they are.
            matrix(
                f"concat{n}",
                width,
                hidden,
                {FORWARD: reduce_activations, INPUT_GRADIENT: ("all_gather", tokens * width * VALUE_BYTES)},
            ),
            # The two layers of the MLP, the first cut by columns, the second by rows.
            matrix(f"X{n}W1b1", hidden, 4 * width, {INPUT_GRADIENT: reduce_activations}),
            matrix(f"X{n}W2b2", 4 * width, hidden, {FORWARD: reduce_activations}),
            Layer(f"layerNorm{n}", normalisation, normalisation, normalisation),
        ]
    word_width = words // group
    layers.append(
        matrix(
            "projection",
            hidden,
            word_width,
            {FORWARD: ("all_gather", tokens * word_width * VALUE_BYTES), INPUT_GRADIENT: reduce_activations},
        )
    )
    comment = f"""\
Three of the 96 layers of GPT-3 (Brown et al., arXiv:2005.14165) and the projection to words.
Hidden size {hidden}, {heads} heads, sequences of {sequence}, 2 bytes for every value. Groups of {group} neighbouring NPUs
are model parallel, as in Megatron-LM, with {batch} sequences for each group; the groups are data parallel.
Layers, {words} words and the rate of {rate // TERA} * 2^40 operations/s are those of ASTRA-sim's tutorial;
see gpt3() in make_workloads.py."""
    options: dict[str, object] = {
        "model_parallel_npus": group,
        # Before the backward pass of a layer of GPT-3, its forward pass is repeated, but for the layerNorm at its end.
        "checkpoints": [0, 9, 18],
        "checkpoint_initiates": [26, 17, 8],
    }
    return Model(
        "gpt3",
        "GPT-3, three layers",
        comment,
        "hybrid_transformer_fwd_in_bckwd",
        layers,
        options,
        single_precision="ASTRA-sim 1.0 scales in 32-bit floating point: times above 2^24 ns are rounded",
        rate=rate,
    )


def dlrm() -> Model:
    """DLRM (Naumov et al., arXiv:1906.00091) as MLPerf Training v0.7 to v2.1 has it, for the Criteo Terabyte data."""
    npus, chunks = 256, 4  # what sizes shall be divisible by
    batch = 65536 // npus  # samples for each NPU; NVIDIA trains with 65536 in all (DeepLearningExamples)
    tables, vector = 26, 128
    bottom = [13, 512, 256, vector]
    pairs = (tables + 1) * tables // 2  # the interaction multiplies every two of the vectors of tables and bottom MLP
    top = [vector + pairs, 1024, 1024, 512, 256, 1]

    def perceptron(name: str, widths: list[int]) -> list[Layer]:
        """Fully connected layers. Gradients are padded to whole values for every NPU and chunk."""
        layers = []
        for number, (inputs, outputs) in enumerate(pairwise(widths), 1):
            padded = round_up(inputs * outputs + outputs, npus * chunks)
            layers.append(fully_connected(f"{name}{number}", batch, inputs, outputs, padded))
        return layers

    looked_up = batch * tables * vector  # values, one vector of every table for each sample
    exchange = ("all_to_all", looked_up * VALUE_BYTES)
    embedding = Layer(
        "embedding",
        forward=Work(0, 2 * looked_up * VALUE_BYTES),  # read and write
        input_gradient=Work(),
        weight_gradient=Work(2 * looked_up, 3 * looked_up * VALUE_BYTES),  # read the gradient and the row, write the row
        exchanges={FORWARD: exchange, INPUT_GRADIENT: exchange},
    )
    products = 2 * batch * pairs * vector
    vectors = batch * (tables + 1) * vector
    interaction = Layer(
        "interaction",
        forward=Work(products, (vectors + batch * top[0]) * VALUE_BYTES),
        input_gradient=Work(2 * products, (2 * vectors + batch * top[0]) * VALUE_BYTES),  # of either vector of a pair
        weight_gradient=Work(),
    )
    below = perceptron("bottom", bottom)
    layers = [embedding, *below, interaction, *perceptron("top", top)]
    comment = f"""\
DLRM (Naumov et al., arXiv:1906.00091) as MLPerf Training v0.7 has it: {tables} tables with vectors of {vector}, one row looked up
in each, bottom MLP 13-512-256-128, products of every two vectors, top MLP 1024-1024-512-256-1.
{batch} samples for each NPU: 65 536 on {npus} NPUs.
The rows of the tables are spread evenly over the NPUs. Every NPU exchanges {tables} * {batch} vectors all-to-all, and their gradients.
Gradients of the MLPs have 2 bytes for each weight and bias. They are padded to multiples of {npus * chunks} values, so that they can be
divided among {npus} NPUs and {chunks} chunks.
Looking up has no operations: it takes time only in a compute model that knows memory bandwidth. The loop computes the update of the
tables (weight_gradient) before it waits for the exchanged gradients, as in ASTRA-sim 1.0."""
    return Model("dlrm", "DLRM", comment, "hybrid_dlrm", layers, {"last_bottom_layer": len(below)})


def round_up(number: int, multiple: int) -> int:
    """The next multiple that is not smaller."""
    return -(-number // multiple) * multiple


def expect(model: str, what: str, found: int, published: int) -> None:
    """Compare a total with the published one."""
    if found != published:
        sys.exit(f"{model}: {found} {what}; expected {published}")


# -- files -----------------------------------------------------------------------------------------------------------


def compute_ns(operations: int, rate: int) -> int:
    """Nanoseconds that operations take, rounded."""
    return (2 * operations * 10**9 + rate) // (2 * rate)


def render(model: Model) -> str:
    """The text of a workload file."""
    peak = f"{model.rate / 10**12:.15g}"
    comment = [
        model.comment,
        f"compute_ns is operations / ({model.rate // TERA} * 2^40 per s): plugin:roofline?peak_tera_ops_per_s={peak} gives the same.",
    ]
    table: dict[str, object] = {"name": model.name, "loop": model.loop}
    if model.single_precision:
        comment.append(f"Single precision: {model.single_precision}.")
        table["single_precision"] = True
    if model.loop_options:
        table["loop_options"] = model.loop_options
    table["layers"] = [
        {"name": layer.name, "update_ns": UPDATE_NS, **{name: pass_table(layer, name, model.rate) for name in PASSES}}
        for layer in model.layers
    ]
    return to_toml(table, "\n".join([*comment, "Written by make_workloads.py."]))


def pass_table(layer: Layer, training_pass: str, rate: int) -> dict[str, int | str]:
    """A pass of a layer."""
    work: Work = getattr(layer, training_pass)
    table: dict[str, int | str] = {
        "compute_ns": compute_ns(work.operations, rate),
        "operations": work.operations,
        "memory_bytes": work.memory_bytes,
    }
    if training_pass in layer.exchanges:
        collective, size = layer.exchanges[training_pass]
        table |= {"collective": collective, "collective_bytes": size}
    return table


def main() -> int:
    """Write or compare all files."""
    parser = argparse.ArgumentParser(description="Derive the workload files from the shapes of the models' layers.")
    parser.add_argument("--check", action="store_true", help="compare with the files that are there, write nothing")
    check = parser.parse_args().check
    differing = 0
    for model in (vgg16(), resnet50(), gpt3(), dlrm()):
        path = FOLDER / f"{model.file}.toml"
        text = render(model)
        if not check:
            path.write_text(text, encoding="utf-8")
            print(f"{path.name}: {len(model.layers)} layers")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path.name}: differs from what make_workloads.py derives")
            differing += 1
        else:
            print(f"{path.name}: as derived")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
