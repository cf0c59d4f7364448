"""Which ranks add which gradients: shards or all, experts and others, and the copies of DualPipe."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from astra_sim.graph import Communicate, Pass
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Collective
from astra_sim.shapes import Elementwise
from astra_sim_llm.layout import ParallelAxes
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.steps import LlmExchange, LlmRun, Step
from astra_sim_llm.templates import FIRE_AND_FORGET, Compiler, OperationTypes, ProgramRows
from astra_sim_network_analytical.topologies import Switch

from llm.runs import EXPERTS, platform, run

BUCKETS: dict[str, Any] = {"layers": 8, "hidden": 2048, "heads": 16, "vocab": 1024, "sequence": 1024}
"""A model whose gradients are several buckets."""


@pytest.mark.parametrize("zero", [1, 2])
@pytest.mark.parametrize("overlap", [False, True])
def test_all_ranks_get_sums_instead_of_shards(zero: int, overlap: bool) -> None:
    shards, whole = (run(8, zero=zero, reduction=reduction, overlap={"dp": overlap}) for reduction in ("shards", "all"))
    assert shards.finish_ns < whole.finish_ns


def test_gathers_beside_nothing_take_longer() -> None:
    """With several buckets: the first, that of the embedding, is waited for."""
    overlapped_with, after = (run(8, model=BUCKETS, zero=1, overlap={"dp": True, "gathers": gathers}) for gathers in (True, False))
    assert overlapped_with.finish_ns < after.finish_ns
    assert overlapped_with.finish_ns == run(8, model=BUCKETS, zero=1, overlap={"dp": True}).finish_ns


@pytest.mark.parametrize("overlap", [False, True])
def test_gradients_that_are_kept_as_shards_are_reduced_by_each_backward_pass(overlap: bool) -> None:
    """Four micro-batches: ZeRO-2 sends more than ZeRO-1, unless it keeps whole gradients and their memory."""
    options: dict[str, Any] = {"model": BUCKETS, "global_batch": 32, "overlap": {"dp": overlap}}
    one, two, whole = (run(8, **options, **zero) for zero in ({"zero": 1}, {"zero": 2}, {"zero": 2, "accumulation": "whole"}))
    assert whole.figures["breakdown"] == one.figures["breakdown"]
    assert whole.memory_bytes == one.memory_bytes > two.memory_bytes
    assert two.network["payload_bytes"] > 2 * one.network["payload_bytes"]
    assert overlap or two.breakdown["dp"] > 2 * one.breakdown["dp"]


@pytest.mark.parametrize("options", [{}, {"zero": 1}, {"zero": 2, "shard_group": 2}, {"zero": 1, "reduction": "all"}])
def test_passes_that_are_one_operation_begin_reductions_as_early(options: dict[str, Any]) -> None:
    """A pass is cut where gradients of a bucket are there."""
    result: dict[str, Any] = {"model": BUCKETS, "overlap": {"dp": True}, "global_batch": 32} | options
    times = [run(8, **result, detail=detail).finish_ns for detail in ("kernel", "layer", "pass")]
    assert times == pytest.approx([times[0]] * 3, rel=0.002)


@pytest.mark.parametrize(
    ("parallel", "shards"),
    [
        (Parallelism(data=8, expert=2, zero=3, shard_group=4), 2),
        (Parallelism(data=8, expert=8, zero=1, shard_group=4), 1),
        (Parallelism(tensor=2, data=4, expert=2, expert_tensor=1, zero=2, shard_group=2), 2),
        (Parallelism(data=40, expert=8, zero=1, shard_group=20), 1),
        (Parallelism(data=8, expert=2, zero=1), 4),
    ],
)
def test_experts_are_sharded_as_memory_counts_them(parallel: Parallelism, shards: int) -> None:
    """The ranks that gather and reduce experts are those over which memory divides them; their groups add the rest."""
    assert parallel.expert_shards == shards
    topology = Switch(parallel.ranks, 1)
    axes = ParallelAxes(Platform((Dimension(topology, parallel.ranks, 1, 100.0, 100.0),)), parallel)

    def ranks(name: str) -> int:
        product = 1
        for number in axes[name]:
            product *= axes.dimensions[number].size
        return product

    assert ranks("edp") == shards
    assert ranks("edp") * ranks("expert_replicas") == ranks("all_edp") == parallel.expert_data


def test_hsdp_adds_experts_of_all_groups() -> None:
    options: dict[str, Any] = {"model": EXPERTS, "expert_parallel": 2, "zero": 1}
    groups, one = run(8, **options, shard_group=4), run(8, **options)
    assert groups.figures["memory_bytes"] > one.figures["memory_bytes"]


def test_copies_of_dualpipe_add_their_gradients() -> None:
    """Stages r and p - 1 - r have the same layers: half of the gradients go each way, and half of the sums."""
    model = {"layers": 4, "hidden": 64, "heads": 8, "vocab": 128, "sequence": 32}
    options: dict[str, Any] = {"model": model, "pipeline_parallel": 4, "schedule": "dualpipe", "global_batch": 16}
    wide, narrow = (run(platform(8), **options, gradients=kind) for kind in ("fp32", "same"))
    assert wide.figures["breakdown"]["pp"] > narrow.figures["breakdown"]["pp"]


@pytest.mark.parametrize("detail", ["kernel", "layer", "pass"])
def test_what_runs_on_begins_in_one_order(detail: str) -> None:
    """Reductions of two passes that ranks of a group end in different orders would wait for each other if each began when it could."""
    kinds = OperationTypes()
    compiler = Compiler(kinds, lambda _: 1000, lambda _: 800, lambda _: (0,), detail, 0.0)
    steps: list[Step] = [
        LlmRun("kernel", Elementwise(read_bytes=1)),
        LlmExchange("gradients", "dp", Collective.REDUCE_SCATTER, 8, FIRE_AND_FORGET),
    ]
    passes = [compiler.compile(steps * 2, Pass.INPUT_GRADIENT, name) for name in ("first", "second")]
    rows = ProgramRows(kinds, in_turn=True)
    rows.write([passes[0]])
    rows.write([passes[1]] * 2)
    operations = list(rows.rows())
    free = rows.free()
    assert len(free) == 6
    assert all(isinstance(operations[row], Communicate) for row in free)
    assert all(before in operations[row].after for before, row in pairwise(free))
