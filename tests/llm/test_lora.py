"""LoRA: what adapters compute, exchange and keep beside frozen weights, against closed forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import pytest
from astra_sim import InputError
from astra_sim.graph import Communicate, ExecutionGraph
from astra_sim.schedule import Collective
from astra_sim.shapes import Cast, Elementwise, Gemm
from astra_sim_llm import counts
from astra_sim_llm.adapters import adapter_parameters, lora_flops
from astra_sim_llm.memory import memory_of
from astra_sim_llm.models import MODELS, LatentAttention, Model
from astra_sim_llm.operations import Block
from astra_sim_llm.options import LORA_TARGETS, Lora
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.products import ProductWork
from astra_sim_llm.steps import LlmExchange, LlmRun, Step, weight_steps
from astra_sim_llm.training_setup import TrainingSetup
from support import figures
from support.llm_graphs import counted, graph_of

from llm.passes import DENSE, backward, core_flops, flops, forward
from llm.passes import MODELS as SMALL
from llm.runs import EXPERTS, MODEL, ROOFLINE, platform, run

TOKENS = 128
RANK = 4
GATED = SMALL["gated with fewer key heads"]
SPLITS = {"one rank": Parallelism(), "tensor": Parallelism(tensor=4), "tensor and sequence": Parallelism(tensor=4, sequence=True)}
TARGETS: list[tuple[str, ...]] = [LORA_TARGETS, *((name,) for name in LORA_TARGETS), ("qkv", "fc2")]


def whole_sizes(model: Model) -> dict[str, tuple[int, int]]:
    """Outputs and inputs of the products of a block."""
    heads = (model.heads + 2 * model.key_heads) * model.head_size
    width = model.width
    return {
        "qkv": (heads, model.hidden),
        "projection": (model.hidden, model.heads * model.head_size),
        "fc1": ((model.branches - 1) * width, model.hidden),
        "fc2": (model.hidden, width),
    }


def block_of(model: Model, parallel: Parallelism, targets: tuple[str, ...] = LORA_TARGETS, **work: Any) -> Block:
    return Block(model, parallel, ProductWork(2, TOKENS // 2, lora=Lora(rank=RANK, targets=targets), **work))


def adapters(steps: Iterable[Step]) -> list[LlmRun]:
    return [step for step in steps if isinstance(step, LlmRun) and step.name.endswith(" adapter")]


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("model", [DENSE, GATED], ids=["dense", "gated"])
def test_kernels_have_the_flops_of_adapters(model: Model, split: str, targets: tuple[str, ...]) -> None:
    """Once forward, twice backward, half of that for weights; each tensor rank has the product with the matrix that it has whole."""
    parallel = SPLITS[split]
    block, plain = block_of(model, parallel, targets), Block(model, parallel, ProductWork(2, TOKENS // 2))
    expected = 0
    for name in targets:
        n, k = whole_sizes(model)[name]
        whole, divided = (k, n) if name in ("qkv", "fc1") else (n, k)
        expected += model.layers * 2 * TOKENS * RANK * (parallel.tensor * whole + divided)
    there, back = forward(model, block), backward(model, block)
    inputs, weights = weight_steps(back)
    assert parallel.tensor * flops(adapters(there)) == expected
    assert parallel.tensor * flops(adapters(inputs)) == expected
    assert parallel.tensor * flops(weights) == expected
    assert flops(there) - flops(adapters(there)) == flops(forward(model, plain))
    assert flops(inputs) - flops(adapters(inputs)) == flops(weight_steps(backward(model, plain))[0])
    assert all(step.shape.element_type == "bf16" for step in adapters(there + back) if isinstance(step.shape, Gemm))


def test_model_flops_are_those_of_the_kernels() -> None:
    lora, model = Lora(rank=RANK), GATED
    block = block_of(model, Parallelism())
    there, back = forward(model, block), backward(model, block)
    core = core_flops(there)
    assert flops(there) + flops(back) - core_flops(back) + 2 * core == TOKENS * lora_flops(model, lora, TOKENS // 2)


def test_model_flops_of_a_published_line() -> None:
    """Megatron-Bridge, Llama 3 70B: 735 TFLOP/s of each of 8 H100 for 6.199 s of 32 x 4096 tokens, most of which see few others."""
    published = 735e12 * 8 * 6.199 / (32 * 4096)
    model, lora = MODELS["llama3-70b"], Lora()
    products = lora_flops(model, lora, 4096) - 3 * sum(counts.core_flops(model, layer, 4096) for layer in range(model.layers))
    assert products == pytest.approx(published, rel=0.005)
    assert 6 * model.layers * adapter_parameters(model, lora).total < 0.005 * published


def test_sums_move_three_elements() -> None:
    """Two are read and one is written: of the output forward, of the input backward."""
    block = block_of(GATED, Parallelism(tensor=4), ("fc1",))
    width = 2 * GATED.width // 4
    for steps, elements in ((block.forward(0), TOKENS * width), (block.backward(0), TOKENS * GATED.hidden)):
        (one,) = [step.shape for step in adapters(steps) if isinstance(step.shape, Elementwise)]
        assert (one.read_bytes, one.write_bytes) == (4 * elements, 2 * elements)


@pytest.mark.parametrize("overlap", ["none", "gather", "backward", "userbuffers"])
@pytest.mark.parametrize("targets", TARGETS)
def test_inputs_are_gathered_again_for_adapters_alone(targets: tuple[str, ...], overlap: str) -> None:
    """Of the gathers of a backward pass two are of gradients of outputs; the others are of saved inputs of adapters by columns."""
    steps = block_of(GATED, SPLITS["tensor and sequence"], targets, tp_overlap=overlap).backward(0)
    part = 2 * TOKENS * GATED.hidden // 4
    gathered = [step for step in steps if isinstance(step, LlmExchange) and step.collective is Collective.ALL_GATHER]
    inputs = len({"qkv", "fc1"} & set(targets))
    assert sum(step.bytes for step in gathered) == pytest.approx((2 + inputs) * part, abs=4)
    assert sum(step.weight for step in gathered) == (inputs if overlap == "none" else 0)
    reduced = [step for step in steps if isinstance(step, LlmExchange) and step.collective is Collective.REDUCE_SCATTER]
    beside = {"none": 0, "gather": 0}.get(overlap, 2)
    assert sorted(step.overlapped_with for step in reduced) == sorted([beside] * inputs + [0] * (2 - inputs))


def test_products_are_summed_with_their_adapters() -> None:
    """An exchange of a product by rows comes after the sum, or runs beside the product and the sum."""
    for overlap, beside in (("none", 0), ("userbuffers", 3)):
        steps = block_of(GATED, Parallelism(tensor=4), ("fc2",), tp_overlap=overlap).forward(0)
        last = max(place for place, step in enumerate(steps) if step.name == "fc2 adapter")
        after = steps[last + 1]
        assert isinstance(after, LlmExchange)
        assert after.overlapped_with == 0
        hidden = [step.overlapped_with for step in steps[:last] if isinstance(step, LlmExchange) and step.overlapped_with > 1]
        assert hidden == ([beside] if beside else [])


def test_frozen_weights_have_no_gradients() -> None:
    """Nothing adds gradients, makes those of biases, norms' products, routers or experts, or casts transposed copies for them."""
    for name, model in SMALL.items():
        targets = ("projection",)
        work: dict[str, Any] = {"fused_gradients": False, "precision": "fp8"}
        block = block_of(attrs.evolve(model, biases=not model.gated), Parallelism(), targets, **work)
        back = backward(model, block)
        weights = weight_steps(back)[1]
        assert {step.name for step in weights} == {"projection adapter", "add gradients"}, name
        assert all(not step.shape.transposed for step in back if isinstance(step, LlmRun) and isinstance(step.shape, Cast)), name
        blocks = model.layers + model.mtp_layers
        assert len(weights) == 4 * blocks
        assert block.ends.embedding_back() == []
        added = sum(step.shape.write_bytes for step in weights if isinstance(step, LlmRun) and isinstance(step.shape, Elementwise))
        assert added == 4 * blocks * adapter_parameters(model, Lora(rank=RANK, targets=targets)).total


def test_early_stop_recomputes_what_adapters_keep() -> None:
    """x A of the last product is kept, so it is computed again; the product itself and (x A) B are not."""
    block = block_of(GATED, Parallelism())
    again = block.recompute(0, "full_early_stop")
    assert [step.name for step in again].count("fc2 adapter") == 1
    assert "fc2" not in [step.name for step in again]
    assert block.recompute(0, "full") == block.forward(0)


# -- Exchanges ---------------------------------------------------------------------------------------------------------


def exchanges(npus: int, **options: Any) -> dict[str, list[Communicate]]:
    """The collectives of an iteration by name, of the first stage."""
    workload = {"plugin": "llm", "model": MODEL, "global_batch": 8, "check_memory": False, "detail": "layer"} | options
    graph: ExecutionGraph
    _, graph = graph_of({"platform": platform(npus), "system": "plugin:astra2", "compute": ROOFLINE, "workload": workload})
    result: dict[str, list[Communicate]] = {}
    for operation, count in counted(graph.operations):
        if isinstance(operation, Communicate):
            result.setdefault(operation.name, []).extend([operation] * count)
    return result


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_gradients_of_adapters_alone_are_exchanged(zero: int, overlap: bool) -> None:
    lora = Lora(rank=RANK, targets=("qkv", "fc1", "fc2"))
    model = Model(**{name: value for name, value in MODEL.items() if name != "sequence"}, sequence=32)
    found = exchanges(4, zero=zero, overlap={"dp": overlap}, lora=attrs.asdict(lora), global_batch=4)
    trained = 4 * adapter_parameters(model, lora).total
    assert trained == 4 * RANK * sum(n + k for name, (n, k) in whole_sizes(model).items() if name != "projection")
    collective = Collective.REDUCE_SCATTER if zero else Collective.ALL_REDUCE
    assert {one.collective for one in found["gradients"]} == {collective}
    assert sum(one.bytes for one in found["gradients"]) == 4 * trained
    gathered = sum(one.bytes for one in found.get("parameters", ()))
    whole = counts.parameters(model).total + trained
    block = counts.block_parameters(model, "dense").total + trained // 4
    embedding, head = counts.embedding_parameters(model).total, counts.head_parameters(model).total
    # ZeRO-3: forward all units; backward all but the head, which is still there, and the embedding.
    expected = {0: 0, 1: 2 * trained, 2: 2 * trained, 3: 2 * (whole + 4 * block)}[zero]
    assert embedding + head + 4 * block == whole
    assert 4 * gathered == pytest.approx(expected, rel=1e-3)


def test_tensors_of_adapters_are_broadcast() -> None:
    """Two of each adapter, from as many ranks."""
    options: dict[str, Any] = {"model": MODEL | {"layers": 1}, "zero": 1, "update": "broadcast", "lora": {"rank": RANK}}
    assert len(exchanges(8, **options)["parameters"]) == 8
    options["lora"]["targets"] = ["fc1"]
    assert len(exchanges(8, **options)["parameters"]) == 2


def test_ranks_sum_gradients_of_matrices_that_they_have_whole() -> None:
    """A of products by columns, B of those by rows: r x hidden each."""
    found = exchanges(4, tensor_parallel=4, lora={"rank": RANK, "targets": ["qkv", "projection", "fc2"]})
    (one,) = found["adapter gradients"]
    assert one.bytes == 4 * 4 * 3 * RANK * 64
    assert "adapter gradients" not in exchanges(4, lora={"rank": RANK})


def test_tied_embeddings_that_are_frozen_are_not_added() -> None:
    options: dict[str, Any] = {"model": MODEL | {"tied": True}, "pipeline_parallel": 2, "lora": {"rank": RANK}}
    together = run(2, **options).network["payload_bytes"]
    apart = run(2, **options | {"model": MODEL}).network["payload_bytes"]
    assert together == apart
    del options["lora"]
    assert run(2, **options).network["payload_bytes"] > together


# -- Memory ------------------------------------------------------------------------------------------------------------


def setup(model: str, lora: Lora | None, layers: int = 32, sequence: int = 2048, **choices: Any) -> TrainingSetup:
    names = {field.name for field in attrs.fields(Parallelism)} - {"sequence"}
    parallel = Parallelism(**{name: choices.pop(name) for name in tuple(choices) if name in names})
    return TrainingSetup(MODELS[model], parallel, (tuple(range(layers)),), sequence=sequence, lora=lora, **choices)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_memory_of_states(zero: int) -> None:
    """Weights of all, gradients and the optimizer of adapters: of Llama 3 8B with rank 16 in all products 35.7 million."""
    lora = Lora()
    model = MODELS["llama3-8b"]
    adapted = 32 * 16 * ((6144 + 4096) + (4096 + 4096) + (28672 + 4096) + (4096 + 14336))
    assert 32 * adapter_parameters(model, lora).total == adapted == 35_651_584
    use = memory_of(setup("llama3-8b", lora, data=8, zero=zero), 0)
    all_weights = counts.parameters(model).total + adapted
    assert use.weights == 2 * all_weights // (8 if zero == 3 else 1)
    assert use.gradients == 4 * adapted // (8 if zero >= 2 else 1)
    assert use.optimizer == 12 * adapted // (8 if zero >= 1 else 1)
    block, largest = adapted // 32, 128256 * 4096 + 4096
    assert use.buffers == {0: 0, 1: 0, 2: 4 * block, 3: 4 * block + 2 * 2 * largest}[zero]


@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_memory_of_activations(precision: str, targets: tuple[str, ...]) -> None:
    """Of a token: inputs of norms, queries, keys, values, context, outputs of fc1; and of adapters x A and x, which is in 16 bits."""
    lora = Lora(rank=16, targets=targets)
    use = memory_of(setup("llama3-8b", lora, precision=precision), 0)
    kept = 4 * 4096 + 2 * (6144 + 4096) + 2 * 28672
    kept += sum({"qkv": 2 * 4096, "projection": 0, "fc1": 2 * 4096, "fc2": 2 * 14336}[name] + 2 * 16 for name in targets)
    assert use.activations == 32 * 2048 * kept
    assert use.logits == 2048 * (4 * 128256 + 2 * 4096)


def test_adapters_need_less_memory_than_training() -> None:
    for name in ("llama3-8b", "llama2-7b"):
        with_adapters, plain = (memory_of(setup(name, lora), 0) for lora in (Lora(), None))
        assert with_adapters.total < 0.6 * plain.total
        assert with_adapters.activations == pytest.approx(plain.activations, rel=0.01)


def test_weight_gradients_that_are_put_off_need_less() -> None:
    """ZB-H1: the inputs and output gradients of products that have adapters."""

    def put_off(lora: Lora | None) -> int:
        uses = [
            TrainingSetup(DENSE, Parallelism(pipeline=3), ((0,), (1,), (2,)), sequence=64, micro_batches=8, schedule=schedule, lora=lora)
            for schedule in ("zb-h1", "1f1b")
        ]
        later, plain = (memory_of(one, 1).activations for one in uses)
        return later - plain

    hidden, width = DENSE.hidden, DENSE.width
    assert put_off(Lora(rank=RANK, targets=("projection",))) == 64 * (2 * hidden + 2 * hidden + 4 * RANK)
    assert put_off(Lora(rank=RANK, targets=("fc1",))) == 64 * (2 * hidden + 2 * width + 4 * RANK)
    assert put_off(Lora(rank=RANK)) == put_off(None) + 4 * 64 * 4 * RANK


# -- Runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("detail", ["kernel", "layer", "pass"])
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1", "zb-v"])
def test_engines_agree(schedule: str, detail: str) -> None:
    options: dict[str, Any] = {"pipeline_parallel": 2, "tensor_parallel": 2, "schedule": schedule, "detail": detail}
    runs = [run(8, **options, lora={"rank": RANK}, arguments={"engine": engine}) for engine in ("compiled", "python")]
    assert figures(runs[0]) == figures(runs[1])
    assert runs[0].finish_ns < run(8, **options).finish_ns * 1.5
    assert runs[0].memory_bytes < run(8, **options).memory_bytes


def test_a_larger_rank_takes_longer() -> None:
    model = MODEL | {"hidden": 1024, "sequence": 1024}
    times = [run(1, model=model, lora=lora).finish_ns for lora in ({"rank": 1}, {"rank": 64}, {"rank": 512})]
    assert times == sorted(times)
    assert times[0] < times[2]
    fewer = run(1, model=model, lora={"rank": 512, "targets": ["qkv"]}).finish_ns
    assert fewer < times[2]
    assert fewer < run(1, model=model).finish_ns


def test_no_error_bound_of_other_training() -> None:
    """Measured runs train all weights, so they say nothing of the error with adapters."""
    workload = {"global_batch": 8, "model": "llama3-8b", "check_memory": False}
    compute = {"compute": "plugin:gpu?device=h100"}
    assert run(8, compute, **workload).expected_error is not None
    assert run(8, compute, **workload, lora={}).expected_error is None


LATENT = {"mla": attrs.asdict(LatentAttention(query_rank=32, key_value_rank=16, nope=16, rope=8, value=16))}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown targets": ({"lora": {"targets": ["key"]}}, "targets is 'key'"),
    "no targets": ({"lora": {"targets": []}}, "targets is empty"),
    "no rank": ({"lora": {"rank": 0}}, "rank is 0"),
    "a rank that is too large": ({"lora": {"rank": 65}}, "lora.rank is 65; expected at most 64, .* qkv"),
    "inference": ({"lora": {}, "mode": "prefill"}, "lora.rank is 16, which has no effect where mode is prefill; expected mode = train"),
    "experts": ({"lora": {}, "model": EXPERTS}, "lora.targets has fc1 and fc2, and the model has experts"),
    "an expert's product": ({"lora": {"targets": ["fc2", "qkv"]}, "model": EXPERTS}, "lora.targets has fc2, and the model has experts"),
    "latent attention": ({"lora": {}, "model": MODEL | LATENT}, "lora.targets has qkv, and the model has latent attention"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_adapters_cannot_be_beside(case: str) -> None:
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        run(1, **options)


@pytest.mark.parametrize(("more", "target"), [({}, "qkv"), (LATENT, "projection")])
def test_adapters_of_attention_beside_experts_and_latents(more: dict[str, Any], target: str) -> None:
    model = EXPERTS | more
    assert run(8, model=model, lora={"targets": [target]}).finish_ns < run(8, model=model).finish_ns
