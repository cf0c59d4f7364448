"""The search for combinations that fit: complete, within the rules, in order."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from astra_sim import InputError
from astra_sim_llm.divisibility import divides, schedule_allows
from astra_sim_llm.in_flight import even_stages
from astra_sim_llm.memory import Capacity, peak
from astra_sim_llm.models import MODELS, Model
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.search import ParallelismCandidate, ParallelismSearch
from astra_sim_llm.search import search as search_all
from astra_sim_llm.table import print_search, search_table
from astra_sim_llm.training_setup import TrainingSetup
from hypothesis import given, settings
from hypothesis import strategies as st

GIB = 2**30
UNLIMITED = 2**60


def search(*arguments: Any, **choices: Any) -> list[ParallelismCandidate]:
    """What a search finds."""
    return search_all(*arguments, **choices).candidates


def template(model: Model | str, schedule: str = "1f1b", parallel: Parallelism | None = None, **choices: Any) -> TrainingSetup:
    result = MODELS[model] if isinstance(model, str) else model
    stages = parallel or Parallelism()
    layers = even_stages(result.layers, stages.pipeline, 1, "1f1b")
    return TrainingSetup(result, stages, layers, schedule=schedule, **{"sequence": 2048, **choices})


def combinations(found: list[ParallelismCandidate]) -> set[tuple[int, int, int, int, str]]:
    return {
        (item.setup.parallel.tensor, item.setup.parallel.pipeline, item.setup.parallel.data, item.setup.parallel.zero, item.setup.recompute)
        for item in found
    }


def test_all_combinations_of_a_small_case() -> None:
    """8 NPUs, 2 heads, 2 layers: tensor and pipeline are 1 or 2; ZeRO matters, since two replicas at least are left."""
    model = Model(layers=2, hidden=64, heads=2, vocab=128)
    result = search(template(model), 8, 16, UNLIMITED)
    expected = {
        (tensor, pipeline, 8 // tensor // pipeline, zero, again)
        for tensor in (1, 2)
        for pipeline in (1, 2)
        for zero in range(4)
        for again in ("none", "full")
    }
    assert combinations(result) == expected
    assert len(result) == len(expected)
    unfused = search(template(model, attention="unfused"), 8, 16, UNLIMITED)
    assert {item.setup.recompute for item in unfused} == {"none", "selective", "full"}


def test_what_fits_is_in_order_of_memory() -> None:
    everything = search(template("llama3-8b", sequence=8192), 64, 128, UNLIMITED)
    capacity = 40 * GIB
    result = search(template("llama3-8b", sequence=8192), 64, 128, capacity)
    assert 0 < len(result) < len(everything)
    assert result == [item for item in everything if item.use.total <= capacity]
    assert [item.use.total for item in result] == sorted(item.use.total for item in result)


def test_tensor_parallelism_stays_within_a_node() -> None:
    assert max(item.setup.parallel.tensor for item in search(template("llama3-8b"), 64, 64, UNLIMITED)) == 8
    assert max(item.setup.parallel.tensor for item in search(template("llama3-8b"), 64, 64, UNLIMITED, npus_per_node=4)) == 4
    assert max(item.setup.parallel.tensor for item in search(template("llama3-8b"), 64, 64, UNLIMITED, tensor_across_nodes=True)) == 32


def test_time_is_asked_about_what_fits_alone() -> None:
    asked = []

    def seconds(setup: TrainingSetup) -> float | None:
        asked.append(setup)
        return None if setup.parallel.pipeline > 1 else 1.5

    result = search(template("llama3-8b"), 8, 64, 40 * GIB, time_of=seconds)
    assert [item.setup for item in result] == asked
    assert {item.iteration_s for item in result} == {None, 1.5}


def test_one_replica_has_one_level_of_zero() -> None:
    result = search(template("llama3-8b"), 8, 64, UNLIMITED)
    assert {item.setup.parallel.zero for item in result if item.setup.parallel.data == 1} == {0}


def test_several_sizes_of_micro_batches() -> None:
    result = search(template("llama3-8b"), 8, 16, UNLIMITED, micro_batches=(1, 2, 16), zero_levels=(1,), recompute=("none",))
    assert {item.setup.micro_batch for item in result} == {1, 2, 16}
    assert {item.setup.parallel.data for item in result if item.setup.micro_batch == 16} == {1}


def test_interleaving_keeps_its_virtual_stages_where_there_is_a_pipeline() -> None:
    result = search(template("gpt3-175b", "interleaved", Parallelism(virtual_stages=3)), 64, 64, UNLIMITED)
    for item in result:
        parallel, schedule = item.setup.parallel, item.setup.schedule
        assert (schedule, parallel.virtual_stages) == (("interleaved", 3) if parallel.pipeline > 1 else ("1f1b", 1))
        assert schedule == "1f1b" or item.setup.micro_batches % parallel.pipeline == 0


def test_experts_keep_their_parallelism() -> None:
    result = search(template("mixtral-8x7b", parallel=Parallelism(expert=8, data=8)), 16, 16, UNLIMITED)
    assert result
    assert all(item.setup.parallel.stage_ranks % 8 == 0 for item in result)


@settings(max_examples=30)
@given(
    st.sampled_from(["1f1b", "gpipe", "interleaved", "zb-h1", "zb-v", "dualpipe"]),
    st.sampled_from([8, 12, 16, 24]),
    st.sampled_from([16, 24, 48]),
    st.sampled_from([1, 2]),
    st.booleans(),
)
def test_every_combination_keeps_the_rules(schedule: str, npus: int, batch: int, context: int, sequence_parallel: bool) -> None:
    model = Model(layers=12, hidden=128, heads=8, kv_heads=4, ffn=512, vocab=1000, gated=True)
    start = template(model, schedule, Parallelism(virtual_stages=2, context=context, sequence=sequence_parallel), sequence=256)
    for item in search(start, npus, batch, UNLIMITED, zero_levels=(0, 3), recompute=("none",)):
        result, parallel = item.setup, item.setup.parallel
        assert parallel.ranks == npus
        assert parallel.data * result.micro_batch * result.micro_batches == batch
        assert divides(model, parallel, 256)
        assert schedule_allows(result.schedule, 12, parallel.pipeline, result.chunks, result.micro_batches)
        copies = 2 if result.schedule == "dualpipe" else 1
        assert sorted(layer for layers in result.layers_of_stage for layer in layers) == sorted([*range(12)] * copies)
        assert (item.stage, item.use) == peak(result)


@pytest.mark.parametrize(
    ("model", "parallel", "fits"),
    [
        ("llama3-8b", Parallelism(tensor=8), True),
        ("llama3-8b", Parallelism(tensor=16), True),  # a key head on two ranks
        ("llama3-8b", Parallelism(tensor=3), False),
        ("llama3-8b", Parallelism(expert=2, data=2), False),
        ("llama3-8b", Parallelism(data=8, shard_group=3), False),
        ("llama3-8b", Parallelism(context=3), False),
        ("mixtral-8x7b", Parallelism(expert=8, data=8), True),
        ("mixtral-8x7b", Parallelism(expert=3, data=3), False),
        ("mixtral-8x7b", Parallelism(expert=8, data=4), False),
    ],
)
def test_what_divides(model: str, parallel: Parallelism, fits: bool) -> None:
    assert divides(MODELS[model], parallel, 8192) is fits


@pytest.mark.parametrize(
    ("schedule", "stages", "chunks", "micro_batches", "runs"),
    [
        ("1f1b", 16, 1, 3, True),
        ("1f1b", 17, 1, 3, False),
        ("interleaved", 4, 4, 8, True),
        ("interleaved", 4, 4, 6, False),
        ("zb-v", 8, 2, 1, True),
        ("dualpipe", 16, 2, 32, True),
        ("dualpipe", 4, 2, 6, False),
        ("dualpipe", 3, 2, 12, False),
    ],
)
def test_what_schedules_allow(schedule: str, stages: int, chunks: int, micro_batches: int, runs: bool) -> None:
    assert schedule_allows(schedule, 16, stages, chunks, micro_batches) is runs


def test_numbers_out_of_range() -> None:
    with pytest.raises(InputError, match="npus is 0; expected at least 1"):
        search(template("llama3-8b"), 0, 1, GIB)


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    result = search(template("llama3-8b"), 8, 64, 40 * GIB, time_of=lambda setup: 12.345678)
    rows = search_table(result)
    assert rows[0] == ("TP", "PP", "VS", "DP", "CP", "EP", "ZeRO", "micro", "recompute", "GiB", "time (s)")
    assert rows[1][-1] == "12.35"
    assert len(rows) == len(result) + 1
    untimed = search_table([attrs.evolve(item, iteration_s=None) for item in result])
    assert untimed[0][-1] == "GiB"
    capacity = Capacity(40 * GIB, 0)
    print_search(result, capacity, ParallelismSearch(result, 500, len(result)))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(rows) + 2
    assert max(map(len, lines)) <= 80
    assert lines[-1] == f"500 were tried, {len(result)} fit, {len(result)} of these were simulated."
    print_search(result[:2], Capacity(46 * GIB, 6 * GIB), ParallelismSearch(result, 500, 4, 1))
    text = " ".join(capsys.readouterr().out.split())
    assert f"2 of {len(result)} combinations that fit in 40.00 GiB" in text
    assert "40.00 GiB are 46.00 less a margin of 6.00 (memory_margin)." in text
    assert f"500 were tried, {len(result)} fit, 4 of these were simulated." in text
    assert f"The kernels alone of the other {len(result) - 5} take longer than the times above." in text
    assert text.endswith("1 that fit cannot run.")
    print_search([], Capacity(GIB, 0), ParallelismSearch([], 12))
    assert capsys.readouterr().out.strip() == "No combination fits in 1.00 GiB; 12 were tried."


def test_all_axes_are_searched() -> None:
    model = Model(layers=8, hidden=128, heads=8, vocab=1000, experts=4, top_k=2, expert_ffn=256)
    result = search(
        template(model, sequence=256),
        8,
        16,
        UNLIMITED,
        micro_batches=(1, 2),
        contexts=(1, 2),
        experts=(1, 4),
        virtual_stages=(1, 2, 4),
        any_expert_tensor=True,
        zero_levels=(0,),
        recompute=("none",),
    )
    seen = [(item.setup.micro_batch, item.setup.parallel) for item in result]
    assert {size for size, _ in seen} == {1, 2}
    assert {(one.context, one.expert) for _, one in seen} == {(1, 1), (1, 4), (2, 1), (2, 4)}
    assert {(item.setup.schedule, item.setup.parallel.virtual_stages) for item in result if item.setup.parallel.pipeline == 2} == {
        ("1f1b", 1),
        ("interleaved", 2),
        ("interleaved", 4),
    }
    assert len(set(seen)) == len(seen)
    assert all(one.expert_tensor == (one.tensor if one.expert * one.tensor <= one.stage_ranks else 1) for _, one in seen)


def test_what_is_kept_is_not_searched() -> None:
    start = template("llama3-8b", parallel=Parallelism(tensor=2, pipeline=2))
    result = search(start, 16, 64, UNLIMITED, fixed=("tensor", "pipeline"))
    assert {(item.setup.parallel.tensor, item.setup.parallel.pipeline) for item in result} == {(2, 2)}


def test_the_fastest_are_found_without_timing_all() -> None:
    """What takes no less than its bound and is not among the fastest is not asked about, if its bound says so."""

    def seconds(setup: TrainingSetup) -> float:
        parallel = setup.parallel
        return parallel.tensor + 3 * parallel.pipeline + parallel.zero

    every = search_all(template("llama3-8b"), 32, 64, UNLIMITED, time_of=seconds)
    few = search_all(
        template("llama3-8b"), 32, 64, UNLIMITED, time_of=seconds, least_time_of=lambda setup: 3.0 * setup.parallel.pipeline, fastest=3
    )
    assert every.timed == every.tried == len(every.candidates) > few.timed
    best = sorted(item.iteration_s for item in every.candidates if item.iteration_s is not None)[:3]
    assert sorted(item.iteration_s for item in few.candidates if item.iteration_s is not None)[:3] == best
