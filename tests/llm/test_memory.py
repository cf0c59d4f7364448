"""Memory of a rank: the published formula values, the place of each part, and what must hold for all setups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from astra_sim import InputError
from astra_sim_llm.counts import parameters, stage_parameters
from astra_sim_llm.in_flight import chunks_of_stages, even_stages, in_flight
from astra_sim_llm.memory import Capacity, LlmMemoryUse, memory_of, peak, state_bytes
from astra_sim_llm.models import MODELS, Model
from astra_sim_llm.options import SCHEDULES
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.suggestions import suggestions
from astra_sim_llm.table import memory_json, memory_table, print_memory
from astra_sim_llm.training_setup import TrainingSetup
from hypothesis import given
from hypothesis import strategies as st

GIB = 2**30


def setup(model: Model | str, schedule: str = "1f1b", **choices: Any) -> TrainingSetup:
    """A setup with even stages; choices of `Parallelism` differ from the others in their names."""
    result = MODELS[model] if isinstance(model, str) else model
    names = {field.name for field in attrs.fields(Parallelism)} - {"sequence"}
    parallel = Parallelism(
        **{name: choices.pop(name) for name in tuple(choices) if name in names}, sequence=choices.pop("sequence_parallel", False)
    )
    chunks = parallel.virtual_stages if schedule == "interleaved" else 1
    layers = even_stages(result.layers, parallel.pipeline, chunks, schedule)
    return TrainingSetup(result, parallel, layers, schedule=schedule, **{"sequence": 2048, **choices})


# -- The twelve values of arXiv 2205.05198, figures 1 and 7 ------------------------------------------------------------

PAPER: dict[str, dict[str, Any]] = {
    "megatron-22b": {"micro_batch": 4, "micro_batches": 1},
    "gpt3-175b": {"schedule": "interleaved", "pipeline": 8, "virtual_stages": 3, "micro_batches": 64},
    "megatron-530b": {"schedule": "interleaved", "pipeline": 35, "virtual_stages": 3, "micro_batches": 280},
    "megatron-1t": {"pipeline": 64, "micro_batches": 512},
}


def paper(name: str, **choices: Any) -> TrainingSetup:
    return setup(name, tensor=8, attention="unfused", precision="fp16", **PAPER[name], **choices)


# Matrices of the blocks, 18 bytes a parameter: 18 * 12 h^2 L / (p t).
STATES = {"megatron-22b": 48_922_361_856, "gpt3-175b": 48_922_361_856, "megatron-530b": 33_973_862_400, "megatron-1t": 35_389_440_000}
# s b h L (10 + 24/t + 5 a s/(h t)), with interleaving times 1 + (p - 1)/(p v).
NOTHING_RECOMPUTED = {
    "megatron-22b": 63_619_203_072,
    "gpt3-175b": 71_772_930_048,
    "megatron-530b": 122_431_733_760,
    "megatron-1t": 140_928_614_400,
}
# s b h L 34/t, times the same.
PARALLEL_AND_SELECTIVE = {
    "megatron-22b": 10_267_656_192,
    "gpt3-175b": 13_262_389_248,
    "megatron-530b": 24_777_850_880,
    "megatron-1t": 28_521_267_200,
}


@pytest.mark.parametrize("name", PAPER)
def test_the_twelve_published_values(name: str) -> None:
    result = paper(name)
    matrices = stage_parameters(result.model, result.layers_of_stage[0], True, False, result.parallel).block_matrices
    assert state_bytes(result, matrices) == STATES[name]
    assert memory_of(result, 0).activations == NOTHING_RECOMPUTED[name]
    assert memory_of(paper(name, sequence_parallel=True, recompute="selective"), 0).activations == PARALLEL_AND_SELECTIVE[name]


def test_the_published_values_as_printed() -> None:
    assert round(STATES["megatron-22b"] / GIB, 2) == 45.56
    assert round(NOTHING_RECOMPUTED["megatron-22b"] / GIB, 2) == 59.25
    assert round(PARALLEL_AND_SELECTIVE["megatron-22b"] / GIB, 2) == 9.56
    assert NOTHING_RECOMPUTED["gpt3-175b"] == 2048 * 12288 * 23 * 96 * 31 // 24
    assert NOTHING_RECOMPUTED["megatron-530b"] == 2048 * 20480 * 21 * 105 * 139 // 105
    assert NOTHING_RECOMPUTED["megatron-1t"] == 2048 * 25600 * 21 * 128


@pytest.mark.parametrize("name", PAPER)
def test_what_the_published_states_leave_out(name: str) -> None:
    """Embedding, positions, norms and biases."""
    result = paper(name)
    use, model = memory_of(result, 0), result.model
    layers, hidden, has_head = len(result.layers_of_stage[0]), model.hidden, result.parallel.pipeline == 1
    rest = layers * (6 * hidden + 7 * hidden // 8) + model.vocab * hidden // 8 + 2048 * hidden + 2 * hidden * has_head
    assert use.weights + use.gradients + use.optimizer == STATES[name] + 18 * rest


@pytest.mark.parametrize("choices", [{"recompute": "full"}, {"recompute": "selective", "sequence_parallel": True}])
@pytest.mark.parametrize("name", PAPER)
def test_the_runs_of_the_paper_fit_their_machine(name: str, choices: dict[str, Any]) -> None:
    """Table 5 was measured on A100 with 80 GB; what is not counted takes a few GiB."""
    assert peak(paper(name, **choices))[1].total < 75 * GIB


def test_the_runs_of_the_paper_need_recomputation() -> None:
    assert all(peak(paper(name))[1].total > 80 * GIB for name in PAPER)


def test_llama3_405b_fits_where_it_was_trained() -> None:
    """arXiv 2407.21783, table 4: TP 8, PP 16, DP 128 on H100 with 80 GB, FSDP (ZeRO-1), no recomputation, 16 micro-batches."""
    result = setup(
        "llama3-405b", tensor=8, sequence_parallel=True, pipeline=16, data=128, zero=1, sequence=8192, micro_batches=16, gradients="fp32"
    )
    assert 60 * GIB < peak(result)[1].total < 80 * GIB


# -- Schedules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_in_flight_as_published(stages: int) -> None:
    """In micro-batches of a whole stage, on the stage that has most: 1F1B and ZB-V p, DualPipe p + 1, GPipe m."""
    many = 8 * stages

    def most(schedule: str, chunks: int, parts: int) -> float:
        return max(sum(counts) for stage in range(stages) for counts in in_flight(schedule, stage, stages, chunks, many)) / parts

    assert most("1f1b", 1, 1) == stages
    assert most("zb-h1", 1, 1) == stages
    assert most("gpipe", 1, 1) == many
    assert most("zb-v", 2, 2) == stages
    if stages > 1:
        assert most("dualpipe", 2, 1) == stages + 1


@given(st.integers(1, 8), st.integers(2, 4), st.integers(1, 8))
def test_interleaved_stages_hold_what_megatron_says(stages: int, chunks: int, rounds: int) -> None:
    """The first p v + p - 1 chunks, each later stage two fewer; of as many micro-batches as stages all."""
    for stage in range(stages):
        states = in_flight("interleaved", stage, stages, chunks, rounds * stages)
        longest = stages * chunks + stages - 1 - 2 * stage
        assert max(map(sum, states)) == (stages * chunks if rounds == 1 else min(longest, rounds * stages * chunks))
        assert all(0 <= count <= rounds * stages for counts in states for count in counts)


def test_few_micro_batches_fill_no_pipeline() -> None:
    assert in_flight("1f1b", 0, 8, 1, 3) == ((3,),)
    assert in_flight("zb-v", 0, 8, 2, 3) == ((3, 1),)


def test_chunks_follow_from_the_layers_of_stages() -> None:
    split = even_stages(16, 4, 2, "interleaved")
    assert split[1] == (2, 3, 10, 11)
    assert chunks_of_stages(split, "interleaved", 2)[1] == [[2, 3], [10, 11]]
    # 6 layers in 8 slots of which the first and the last are for embedding and loss
    assert chunks_of_stages(((3,), (0, 4), (1, 5), (2,)), "interleaved", 2) == [[[], [3]], [[0], [4]], [[1], [5]], [[2], []]]
    assert chunks_of_stages(even_stages(8, 2, 2, "zb-v"), "zb-v", 2) == [[[0, 1], [6, 7]], [[2, 3], [4, 5]]]
    assert chunks_of_stages(even_stages(8, 4, 2, "dualpipe"), "dualpipe", 2)[2] == [[4, 5], [2, 3]]


def test_zero_bubble_holds_what_it_puts_off() -> None:
    """ZB-H1's stage r keeps 32 of 34 s b h for r micro-batches (arXiv 2401.10241)."""
    result = setup("gpt3-175b", "zb-h1", pipeline=8, tensor=8, sequence_parallel=True, micro_batches=64)
    layer = 2048 * 12288 // 8
    assert [memory_of(result, stage).activations for stage in range(8)] == [12 * layer * (34 * (8 - r) + 32 * r) for r in range(8)]


# -- The place of each part --------------------------------------------------------------------------------------------


def test_dualpipe_holds_two_copies_of_the_weights() -> None:
    one = setup("llama3-8b", "1f1b", pipeline=4, micro_batches=16)
    two = setup("llama3-8b", "dualpipe", pipeline=4, micro_batches=16)
    weights = [sum(memory_of(result, stage).weights for stage in range(4)) for result in (one, two)]
    assert weights[1] == 2 * weights[0]


@pytest.mark.parametrize(("schedule", "stage"), [("1f1b", 3), ("interleaved", 3), ("zb-v", 0)])
def test_the_head_lies_where_the_schedule_ends(schedule: str, stage: int) -> None:
    result = setup("llama3-8b", schedule, pipeline=4, virtual_stages=2, micro_batches=16)
    assert [memory_of(result, other).logits > 0 for other in range(4)] == [other == stage for other in range(4)]
    expected = 4 * 2048 * 128256 + 2 * 2 * 2048 * 4096
    assert memory_of(result, stage).logits == expected


def test_tied_weights_are_copied_to_the_last_stage_alone() -> None:
    tied = setup("gpt3-175b", pipeline=4)
    untied = setup(attrs.evolve(tied.model, tied=False), pipeline=4)
    assert [memory_of(result, 3).weights for result in (tied, untied)] == [memory_of(tied, 3).weights] * 2
    alone = [memory_of(attrs.evolve(setup(result.model)), 0).weights for result in (tied, untied)]
    assert alone[1] - alone[0] == 2 * 51200 * 12288


def test_multi_token_prediction_lies_with_the_head_unless_listed() -> None:
    result = setup("deepseek-v3", pipeline=4, expert=8, data=8)
    listed = attrs.evolve(result, layers_of_stage=(*result.layers_of_stage[:3], (*result.layers_of_stage[3], 61)))
    elsewhere = attrs.evolve(
        result, layers_of_stage=(*result.layers_of_stage[:2], (*result.layers_of_stage[2], 61), result.layers_of_stage[3])
    )
    assert memory_of(result, 3) == memory_of(listed, 3)
    assert memory_of(elsewhere, 3).total < memory_of(result, 3).total
    assert memory_of(elsewhere, 2).total > memory_of(result, 2).total


def test_experts_are_sharded_over_their_own_replicas() -> None:
    """Of 64 ranks 8 hold an expert each, so ZeRO-1 splits the optimizer of experts by 8, that of the rest by 64."""
    result = setup("mixtral-8x7b", data=64, expert=8, zero=1)
    results = stage_parameters(result.model, range(32), True, True, result.parallel)
    assert memory_of(result, 0).optimizer == 12 * results.experts // 8 + 12 * results.shared // 64
    hybrid = setup("mixtral-8x7b", data=64, expert=8, zero=1, shard_group=16)
    assert memory_of(hybrid, 0).optimizer == 12 * results.experts // 2 + 12 * results.shared // 16


def test_activations_of_experts() -> None:
    """Of a dense layer, less its feed-forward part, plus K copies of a token with input, inner part and output, and the router's logits."""
    mixtral = MODELS["mixtral-8x7b"]
    dense = attrs.evolve(mixtral, experts=0, top_k=0, expert_ffn=0)
    with_experts, without = (memory_of(setup(model), 0).activations for model in (mixtral, dense))
    assert with_experts - without == 32 * 2048 * (2 * (2 * 4096 + 6 * 14336 + 2 * 4096) + 4 * 8 - 6 * 14336)


def test_fsdp_gathers_two_units_and_reduces_one() -> None:
    result = setup("llama3-8b", data=8, zero=3)
    unit = 128256 * 4096 + 4096  # the head and its norm, which are larger than a block
    total = parameters(result.model).total
    use = memory_of(result, 0)
    assert use.buffers == unit * (2 * 2 + 4)
    assert (use.weights, use.gradients, use.optimizer) == (2 * total // 8, 4 * total // 8, 12 * total // 8)


def test_recomputation_keeps_the_input_of_blocks_and_one_block_at_work() -> None:
    plain, full, some = (
        memory_of(setup("llama3-8b", **choices), 0) for choices in ({}, {"recompute": "full"}, {"recompute": "full", "recompute_layers": 8})
    )
    block = plain.activations // 32
    assert full.activations == 32 * 2 * 2048 * 4096
    assert some.activations == 8 * 2 * 2048 * 4096 + 24 * block
    assert full.recomputed == some.recomputed == block
    assert plain.recomputed == 0


def test_gated_feed_forward_and_grouped_queries() -> None:
    """A Llama layer without dropout: 8h outside, queries and context 2h each, keys and values, and 3 matrices' widths, 2 bytes each."""
    use = memory_of(setup("llama3-8b"), 0)
    assert use.activations == 32 * 2048 * (8 * 4096 + 2 * 2 * 4096 + 2 * 2 * 1024 + 2 * 3 * 14336)


def test_fp8_keeps_inputs_of_products_in_a_byte() -> None:
    half, eighth = (memory_of(setup("llama3-8b", precision=precision), 0) for precision in ("bf16", "fp8"))
    assert half.activations - eighth.activations == 32 * 2048 * (2 * 4096 + 14336)
    assert eighth.weights == half.weights  # two copies, one of them transposed


# -- Inference ---------------------------------------------------------------------------------------------------------


def test_decoding_holds_weights_and_a_cache() -> None:
    use = memory_of(setup("llama3-70b", tensor=8, mode="decode", micro_batch=16, kv_length=8192), 0)
    assert use.key_value_cache == 80 * 16 * 8192 * 2 * 2 * 128
    assert use.gradients == use.optimizer == 0
    few = memory_of(setup("llama3-70b", tensor=16, mode="decode", micro_batch=16, kv_length=8192), 0)
    assert few.key_value_cache == use.key_value_cache  # a key head on two ranks


def test_prefill_caches_at_least_its_own_tokens() -> None:
    use = memory_of(setup("llama3-8b", mode="prefill", sequence=4096), 0)
    assert use.key_value_cache == 32 * 4096 * 2 * 2 * 8 * 128
    assert use.logits == 4 * 128256  # of the last token alone
    longer = memory_of(setup("llama3-8b", mode="prefill", sequence=4096, kv_length=8192), 0)
    assert longer.key_value_cache == 2 * use.key_value_cache


def test_scores_of_inference_reach_over_the_cache() -> None:
    flash, unfused = (
        memory_of(setup("gpt3-175b", tensor=8, mode="decode", kv_length=512, attention=kind), 0) for kind in ("flash", "unfused")
    )
    assert unfused.activations - flash.activations == 2 * 12 * 512  # a token for each of 12 heads, nothing dropped


def test_latent_attention_caches_its_low_rank() -> None:
    use = memory_of(setup("deepseek-v3", mode="decode", kv_length=1000, expert=64, data=64), 0)
    assert use.key_value_cache == 61 * 1000 * 2 * (512 + 64)  # without the block of multi-token prediction


# -- What must hold ----------------------------------------------------------------------------------------------------


@st.composite
def setups(draw: st.DrawFn, schedules: tuple[str, ...] = SCHEDULES) -> TrainingSetup:
    schedule = draw(st.sampled_from(schedules))
    experts = draw(st.sampled_from([0, 8]))
    choices: dict[str, Any] = (
        {"experts": experts, "top_k": 2, "expert_ffn": 128, "shared_experts": draw(st.integers(0, 1))} if experts else {}
    )
    model = Model(
        layers=16,
        hidden=256,
        heads=16,
        kv_heads=draw(st.sampled_from([4, 16])),
        ffn=512,
        vocab=1024,
        gated=draw(st.booleans()),
        dropout=draw(st.booleans()),
        tied=draw(st.booleans()),
        **choices,
    )
    pipeline = draw(st.sampled_from([2, 4]))
    return setup(
        model,
        schedule,
        sequence=256,
        tensor=draw(st.sampled_from([1, 2, 4])),
        sequence_parallel=draw(st.booleans()),
        pipeline=pipeline,
        virtual_stages=2,
        context=draw(st.sampled_from([1, 2])),
        data=draw(st.sampled_from([8, 16])),
        zero=draw(st.integers(0, 3)),
        expert=draw(st.sampled_from([1, 8])) if experts else 1,
        micro_batch=draw(st.sampled_from([1, 4])),
        micro_batches=draw(st.sampled_from([1, 2, 4])) * pipeline * 2,
        attention=draw(st.sampled_from(["flash", "unfused"])),
        recompute=draw(st.sampled_from(["none", "selective", "full", "full_early_stop"])),
        precision=draw(st.sampled_from(["bf16", "fp8"])),
        gradients=draw(st.sampled_from(["fp32", "same"])),
    )


def with_parallel(made: TrainingSetup, **changes: Any) -> TrainingSetup:
    return attrs.evolve(made, parallel=attrs.evolve(made.parallel, **changes))


@given(setups())
def test_tensor_and_context_parallelism_never_need_more(made: TrainingSetup) -> None:
    """What sequence parallelism gathers grows with none; so compare those with it, or without."""
    first = memory_of(with_parallel(made, sequence=False), 0)
    for wider in ({"tensor": 2 * made.parallel.tensor}, {"context": 2 * made.parallel.context}):
        assert (
            memory_of(with_parallel(made, sequence=False, zero=0, **wider), 0).total
            < memory_of(with_parallel(made, sequence=False, zero=0), 0).total
        )
    assert first.activations > memory_of(with_parallel(made, sequence=False, context=2 * made.parallel.context), 0).activations


@given(setups())
def test_zero_splits_states_more_and_more(made: TrainingSetup) -> None:
    levels = [memory_of(with_parallel(made, zero=level), 0) for level in range(4)]
    states = [use.weights + use.gradients + use.optimizer for use in levels]
    assert states == sorted(states, reverse=True)
    assert len(set(states)) == 4
    assert len({use.activations for use in levels}) == 1


@given(setups())
def test_zero_on_one_replica_changes_nothing(made: TrainingSetup) -> None:
    alone = with_parallel(made, data=1, context=1, tensor=1, expert=1, zero=0)
    for stage in range(made.parallel.pipeline):
        assert {memory_of(with_parallel(alone, zero=level), stage) for level in range(4)} == {memory_of(alone, stage)}


@given(setups())
def test_recomputation_never_keeps_more(made: TrainingSetup) -> None:
    uses = [memory_of(attrs.evolve(made, recompute=kind), 0).activations for kind in ("none", "selective", "full", "full_early_stop")]
    assert uses[0] >= uses[1] > uses[2] == uses[3]


@given(setups(("1f1b", "gpipe", "interleaved", "zb-v")))
def test_stages_together_have_the_states_of_the_model(made: TrainingSetup) -> None:
    whole = with_parallel(made, tensor=1, context=1, data=1, expert=1, zero=0)
    total = sum(memory_of(whole, stage).weights for stage in range(made.parallel.pipeline))
    same_stage = made.schedule == "zb-v"
    copy = 1024 * 256 if made.model.tied and not same_stage else 0
    assert total == 2 * (parameters(made.model).total + copy)


@given(setups())
def test_the_peak_is_that_of_a_stage(made: TrainingSetup) -> None:
    stage, use = peak(made)
    uses = [memory_of(made, other) for other in range(made.parallel.pipeline)]
    assert use == uses[stage]
    assert use.total == max(other.total for other in uses)
    assert all(value >= 0 for other in uses for value in attrs.astuple(other))


# -- Suggestions -------------------------------------------------------------------------------------------------------


def test_suggestions_fit_and_say_what_they_need() -> None:
    result = setup("llama3-70b", tensor=8, pipeline=4, data=8, sequence=8192, sequence_parallel=True, micro_batches=32)
    capacity = 40 * GIB
    assert peak(result)[1].total > capacity
    changes = suggestions(result, capacity)
    assert [item.change for item in changes] == ["recompute = full", "zero = 1", "tensor_parallel = 16", "zero = 2", "zero = 3"]
    for item in changes:
        assert item.bytes == peak(item.setup)[1].total <= capacity
        assert item.setup.parallel.ranks == result.parallel.ranks
        assert item.setup.micro_batches * item.setup.parallel.data == 32 * 8
    assert not any("tensor" in item.change for item in suggestions(result, capacity, most_tensor=8))
    assert suggestions(result, 1000 * GIB) == []


def test_a_single_replica_takes_twice_the_npus() -> None:
    result = setup("gpt3-175b", tensor=8, pipeline=8, attention="unfused", micro_batches=64)
    changes = {item.change for item in suggestions(result, 80 * GIB)}
    assert "recompute = full" in changes
    assert "pipeline_parallel = 16 on 128 NPUs" in changes
    assert not any(change.startswith("zero") for change in changes)


# -- Errors and tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: attrs.evolve(made, layers_of_stage=((0,),)), "layers_of_stage lists 1 stages; expected pipeline, 2"),
        (lambda made: attrs.evolve(made, layers_of_stage=((0,), (32,))), "layers_of_stage lists layer 32; expected numbers from 0 to 31"),
        (lambda made: attrs.evolve(made, recompute_layers=3), "recompute_layers is 3 and recompute 'none'; expected 'full'"),
    ],
)
def test_setups_that_contradict_themselves(change: Callable[[TrainingSetup], TrainingSetup], message: str) -> None:
    with pytest.raises(InputError, match=message):
        change(setup("llama3-8b", pipeline=2))


def test_equal_stages_share_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    uses = [LlmMemoryUse(weights=3 * GIB), LlmMemoryUse(weights=GIB), LlmMemoryUse(weights=GIB), LlmMemoryUse(weights=GIB, logits=GIB // 2)]
    assert memory_table(uses) == [
        ("stage", "weights", "logits", "total"),
        ("0", "3.00", "0.00", "3.00"),
        ("1-2", "1.00", "0.00", "1.00"),
        ("3", "1.00", "0.50", "1.50"),
    ]
    assert memory_json(uses)[3]["total"] == 3 * GIB // 2
    print_memory(uses, Capacity(4 * GIB, 0))
    printed = capsys.readouterr().out
    assert "The fullest rank needs 3.00 of 4.00 GiB (75 %)." in printed


def test_the_table_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    result = paper("gpt3-175b", recompute="selective", sequence_parallel=True)
    print_memory([memory_of(result, stage) for stage in range(8)], Capacity(80 * GIB, 6 * GIB))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
