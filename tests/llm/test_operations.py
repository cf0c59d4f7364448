"""What ranks compute and exchange: FLOPs of kernels and volumes of collectives against closed forms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pytest
from astra_sim.schedule import Collective
from astra_sim_llm import counts
from astra_sim_llm.experts import spread
from astra_sim_llm.models import Model
from astra_sim_llm.operations import Block
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.products import Dispatch, ProductWork
from astra_sim_llm.steps import LlmExchange, LlmRun, Step, weight_steps

from llm.passes import DENSE, MODELS, backward, core_flops, flops, forward
from llm.runs import EXPERTS, MODEL, platform, run

SEQUENCE = 64
SPLITS = {
    "one rank": Parallelism(),
    "tensor": Parallelism(tensor=4, expert_tensor=4),
    "tensor and sequence": Parallelism(tensor=4, sequence=True, expert_tensor=4),
    "sequence and experts": Parallelism(tensor=2, sequence=True, expert=4, data=2),
}


@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", MODELS)
def test_kernels_have_the_flops_of_the_model(name: str, split: str, flash: bool) -> None:
    """All tensor ranks together: forward those of `counts`, backward twice those; flash attention calculates scores once more."""
    model, parallel = MODELS[name], SPLITS[split]
    if model.experts and parallel.tensor > 1 and not parallel.sequence:
        pytest.skip("experts need sequence parallelism")
    if model.window is not None and not flash:
        pytest.skip("unfused kernels calculate what is outside of a window, too")
    if not model.experts:
        parallel = attrs.evolve(parallel, expert=1, expert_tensor=1)
    block = Block(model, parallel, ProductWork(2, SEQUENCE, flash=flash))
    tokens, ranks = 2 * SEQUENCE, parallel.tensor
    expected = tokens * counts.forward_flops(model, SEQUENCE, causal=flash)
    there, back = forward(model, block), backward(model, block)
    if model.mla is not None and not parallel.sequence:  # products down to low ranks are done by each tensor rank
        expected += (ranks - 1) * tokens * model.layers * 2 * model.hidden * (32 + 16 + 8)
    assert ranks * flops(there) == expected
    core = tokens * sum(counts.core_flops(model, layer, SEQUENCE, causal=flash) for layer in range(model.layers + model.mtp_layers))
    assert ranks * core_flops(there) == core
    assert ranks * (flops(back) - core_flops(back)) == 2 * (expected - core)
    again = core * model.head_size // (model.head_size + model.value_size) if flash else 0
    assert ranks * core_flops(back) == 2 * core + again
    inputs, weights = weight_steps(back)
    assert flops(inputs) + flops(weights) == flops(back)
    assert ranks * flops(weights) == expected - core


@pytest.mark.parametrize("how", ["none", "selective", "full", "full_early_stop"])
@pytest.mark.parametrize("name", MODELS)
def test_recomputation_has_the_flops_of_what_it_repeats(name: str, how: str) -> None:
    model = attrs.evolve(MODELS[name], window=None, full_interval=0)  # unfused kernels calculate what is outside of a window, too
    block = Block(model, Parallelism(), ProductWork(1, SEQUENCE, flash=False))
    predicted = model.mtp_layers * 4 * model.hidden**2 * SEQUENCE * how.startswith("full")  # the product before a block is not repeated
    total = sum(flops(block.recompute(layer, how)) for layer in range(model.layers + model.mtp_layers))
    assert total == SEQUENCE * counts.recomputed_flops(model, SEQUENCE, how, causal=False) - predicted


def sent(steps: Iterable[Step], axis: str, ranks: int) -> float:
    """Bytes that a rank puts on the wire of rings."""
    total = 0.0
    for step in steps:
        if isinstance(step, LlmExchange) and step.axis == axis:
            share = {Collective.ALL_REDUCE: 2 * (ranks - 1) / ranks, Collective.ALL_GATHER: ranks - 1}
            total += step.bytes * share.get(step.collective, (ranks - 1) / ranks)
    return total


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("overlap", ["none", "backward", "userbuffers"])
def test_tensor_parallel_volumes(ranks: int, overlap: str) -> None:
    """4 all-reduces of 2Th bytes in a block and its gradient; with sequence parallelism 4 all-gathers, 4 reduce-scatters, 2 again."""
    tokens = 2 * SEQUENCE
    unit = (ranks - 1) / ranks * 2 * tokens * DENSE.hidden
    for sequence, times in ((False, 8), (True, 10)):
        block = Block(DENSE, Parallelism(tensor=ranks, sequence=sequence), ProductWork(2, SEQUENCE, tp_overlap=overlap))
        steps = block.forward(0) + block.backward(0)
        assert sent(steps, "tp", ranks) == pytest.approx(times * unit, rel=1e-3)
        again = block.recompute(0, "full")
        assert sent(again, "tp", ranks) == pytest.approx(4 * unit, rel=1e-3)


def test_expert_parallel_volumes() -> None:
    """4 all-reduces of 2Th bytes in a block and its gradient; with sequence parallelism 6 all-gathers and 4 reduce-scatters."""
    model = MODELS["experts"]
    parallel = Parallelism(expert=4, data=4)
    size = 2 * SEQUENCE * model.top_k * model.hidden

    def exchanged(axis: str, **more: Any) -> list[int]:
        block = Block(model, parallel, ProductWork(1, SEQUENCE, **more))
        steps = block.forward(1) + block.backward(1)
        return [step.bytes for step in steps if isinstance(step, LlmExchange) and step.axis == axis]

    assert exchanged("ep") == [size] * 4
    assert exchanged("ep", capacity_factor=1.5) == [size * 3 // 2] * 4
    assert exchanged("ep", expert_skew=2.0) == [size * 2] * 4
    assert exchanged("ep_nodes", dispatch=Dispatch(node_limit=1)) == [size // 2] * 4
    assert exchanged("ep_node", dispatch=Dispatch(node_limit=1)) == [size] * 4


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 8, 16])
def test_tokens_are_spread_over_parts_as_drawn(parts: int) -> None:
    """Of 16 experts in 8 groups a token has 4 in 3 groups: the mean over all choices."""
    groups, chosen, of_group, top_k = 8, 3, 2, 4
    part_of = [next(part for part in range(parts) if expert < (part + 1) * 16 // parts) for expert in range(16)]
    choices = [
        len({part_of[expert] for expert in own})
        for some in itertools.combinations(range(groups), chosen)
        for own in itertools.combinations([of_group * group + place for group in some for place in range(of_group)], top_k)
    ]
    assert spread(16, top_k, parts, groups, chosen) == pytest.approx(sum(choices) / len(choices))


def test_tokens_of_deepseek_v3_go_to_fewer_nodes() -> None:
    """Of four nodes, with the groups and without; without them in closed form."""
    assert spread(256, 8, 4) == pytest.approx(4 * (1 - math.comb(192, 8) / math.comb(256, 8)))
    assert (round(spread(256, 8, 4), 2), round(spread(256, 8, 4, 8, 4), 2)) == (3.61, 2.93)


def test_context_parallel_volumes() -> None:
    """Ring: keys and values of c - 1 others forward, these again and their gradients backward. Ulysses: heads four times."""
    c, tokens = 4, SEQUENCE // 4
    steps = {
        ulysses: (block.forward(0), block.backward(0))
        for ulysses in (False, True)
        for block in [Block(DENSE, Parallelism(context=c), ProductWork(1, SEQUENCE, ulysses=ulysses))]
    }
    keys = 2 * 2 * tokens * DENSE.hidden
    assert [sent(each, "cp", c) for each in steps[False]] == [(c - 1) * keys, 2 * (c - 1) * keys]
    assert [sent(each, "cp", c) for each in steps[True]] == [(c - 1) / c * 2 * tokens * 4 * DENSE.hidden] * 2


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("overlap", ["none", "gather", "backward", "userbuffers"])
def test_a_pass_cut_in_two_hides_no_exchange_beside_other_kernels(overlap: str, sequence: bool) -> None:
    """An exchange runs beside kernels that it runs beside in the whole pass: those after them may need what it sends."""
    steps = Block(DENSE, Parallelism(tensor=4, sequence=sequence), ProductWork(2, SEQUENCE, tp_overlap=overlap)).backward(0)
    steps = [attrs.evolve(step, name=str(place)) for place, step in enumerate(steps)]
    whole = hidden_beside(steps)
    halves = [hidden_beside(half) for half in weight_steps(steps)]
    assert {exchange for half in halves for exchange in half} == set(whole)
    for half in halves:
        for exchange, kernels in half.items():
            assert kernels <= whole[exchange]
    if overlap in ("backward", "userbuffers"):  # sums of input gradients, which ran beside weight gradients alone
        assert any(not kernels for kernels in halves[0].values())


def hidden_beside(steps: Sequence[Step]) -> dict[str, set[str]]:
    """By exchange: the kernels that it runs beside."""
    beside: dict[str, set[str]] = {}
    for place, step in enumerate(steps):
        if isinstance(step, LlmExchange):
            kernels = [later.name for later in steps[place:] if isinstance(later, LlmRun)]
            beside[step.name] = set(kernels[: step.overlapped_with])
    return beside


# -- Whole runs: what NPU 0 sends ---------------------------------------------------------------------------------------

RINGS: dict[str, Any] = {
    "system": {"plugin": "astra2", "all_reduce": "ring", "all_gather": "ring", "reduce_scatter": "ring", "all_to_all": "direct"}
}
NORM = 100
"""Bytes of the gradient norm, at most."""


def payload(ranks: int, model: dict[str, Any] = MODEL, **options: Any) -> int:
    return int(run(platform(ranks), RINGS, model=model, **options).network["payload_bytes"])


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_data_parallel_volumes(ranks: int, overlap: bool) -> None:
    """Gradients of 4 bytes are reduced; sharded states scatter these and gather weights of 2; what is kept as a shard is reduced, or
    gathered, for each of the two micro-batches.
    """
    model = Model(**MODEL)
    parameters, head = counts.parameters(model).total, counts.head_parameters(model).total
    ring = (ranks - 1) / ranks
    shared: dict[str, Any] = {"global_batch": 2 * ranks, "overlap": {"dp": overlap}}

    def expected(size: float) -> Any:
        return pytest.approx(ring * size, abs=NORM, rel=1e-3)

    assert payload(ranks, **shared) == expected(2 * 4 * parameters)
    assert payload(ranks, gradients="same", **shared) == expected(2 * 2 * parameters)
    assert payload(ranks, zero=1, **shared) == expected((4 + 2) * parameters)
    assert payload(ranks, zero=2, **shared) == expected((2 * 4 + 2) * parameters)
    assert payload(ranks, zero=2, accumulation="whole", **shared) == expected((4 + 2) * parameters)
    gathers = 2 * (2 * parameters + 2 * (parameters - head))  # the head is still there when gradients begin
    assert payload(ranks, zero=3, **shared) == expected(gathers + 2 * 4 * parameters)
    assert payload(ranks, zero=3, accumulation="whole", **shared) == expected(gathers + 4 * parameters)


def test_pipeline_volumes() -> None:
    """The first stage sends the activations of each micro-batch, to each of its next chunks."""
    size = 2 * MODEL["sequence"] * MODEL["hidden"]
    alone = payload(2, pipeline_parallel=2, global_batch=6, data_parallel=1)
    assert alone == 6 * size
    interleaved = payload(2, pipeline_parallel=2, virtual_stages=2, global_batch=6, data_parallel=1)
    assert interleaved == 6 * size * 3  # two chunks forward, and one gradient


def test_experts_exchange_tokens_and_reduce_gradients_over_their_replicas() -> None:
    model = Model(**EXPERTS)
    own = counts.layer_parameters(model, "moe")
    ranks, expert = 4, 2
    tokens = 2 * MODEL["sequence"] * model.hidden * model.top_k
    exchanges = 4 * model.layers * tokens * (expert - 1) // expert
    experts = 4 * model.layers * own.experts // expert
    others = 4 * (counts.parameters(model).total - model.layers * own.experts)
    expected = exchanges + 2 * (1 / 2) * experts + 2 * (3 / 4) * others
    assert payload(ranks, EXPERTS, global_batch=ranks, expert_parallel=expert) == pytest.approx(expected, abs=NORM, rel=1e-3)
