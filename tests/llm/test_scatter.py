"""The slowest of several nodes, and parameters that are broadcast."""

from __future__ import annotations

import math
import statistics
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.commands import build_platform, shared_plugins
from astra_sim_llm.broadcasts import STEP_BYTES, BroadcastChain, chain_of
from astra_sim_llm.counts import matrices, tensors
from astra_sim_llm.models import MODELS
from astra_sim_llm.scatter import expected_maximum, lateness_ps

from llm.runs import EXPERTS, MODEL, platform, run

NODES = 16


def finish(*sizes: int, arguments: dict[str, Any] | None = None, **options: Any) -> float:
    """Nanoseconds of two micro-batches on each replica."""
    replicas = math.prod(sizes) // options.get("tensor_parallel", 1) // options.get("pipeline_parallel", 1)
    return float(run(platform(*sizes), arguments, **{"global_batch": 2 * replicas, "detail": "pass"} | options).finish_ns)


def varied(variation: dict[str, Any]) -> dict[str, Any]:
    return {"experiment": astra_sim.Experiment(plugin_sections={"variation": variation})}


def test_the_expected_maximum() -> None:
    """1 / sqrt(pi) of two, 3 / (2 sqrt(pi)) of three, and a value of the tables of 100."""
    assert expected_maximum(1) == 0
    for number, exact, within in ((2, 0.5642, 0.05), (3, 0.8463, 0.03), (100, 2.5076, 0.01)):
        assert expected_maximum(number) == pytest.approx(exact, rel=within)


def test_lateness_grows_with_the_time_and_the_nodes() -> None:
    assert lateness_ps(0.01, NODES, 2_000_000) == pytest.approx(2 * lateness_ps(0.01, NODES, 1_000_000), abs=1)
    assert 0 == lateness_ps(0.01, 1, 1_000_000) < lateness_ps(0.01, 2, 1_000_000) < lateness_ps(0.01, 3, 1_000_000)


def test_an_iteration_waits_for_the_slowest_node() -> None:
    """In proportion to the scatter; not within a node, and not for more nodes than replicas."""
    late = [finish(1, NODES, scatter=scatter) - finish(1, NODES) for scatter in (0.1, 0.2)]
    assert late[1] == pytest.approx(2 * late[0], rel=1e-3)
    assert late[0] > 0
    assert finish(NODES, scatter=0.1) == finish(NODES)
    two, four = (finish(1, nodes, pipeline_parallel=4, scatter=0.1) - finish(1, nodes, pipeline_parallel=4) for nodes in (8, 16))
    assert four / two == pytest.approx(expected_maximum(4) / expected_maximum(2), rel=0.01)


def test_it_counts_as_bubble() -> None:
    result = run(platform(1, NODES), scatter=0.1, global_batch=2 * NODES)
    late = result.finish_ns - run(platform(1, NODES), global_batch=2 * NODES).finish_ns
    assert result.breakdown["bubble"] == pytest.approx(late / 1e9, rel=1e-6)
    assert sum(result.breakdown.values()) == pytest.approx(result.iteration_s)


def test_it_is_the_mean_of_drawn_times() -> None:
    """Of runs in which each NPU, a node by itself, draws how long its passes take."""
    entry = {"distribution": "lognormal", "cv": 0.05, "scope": "rank"}
    drawn = [finish(1, NODES, arguments=varied({"seed": seed, "compute": [entry]}), detail="layer") for seed in range(40)]
    alone = finish(1, NODES)
    assert finish(1, NODES, scatter=0.05) - alone == pytest.approx(statistics.mean(drawn) - alone, rel=0.1)


@pytest.mark.parametrize("engine", ["python", "auto"])
@pytest.mark.parametrize("symmetry", [True, False])
def test_engines_and_symmetry_agree(engine: str, symmetry: bool) -> None:
    options: dict[str, Any] = {"scatter": 0.1, "pipeline_parallel": 2, "tensor_parallel": 2, "zero": 1, "update": "broadcast"}
    assert finish(2, 8, arguments={"engine": engine, "symmetry": symmetry}, **options) == finish(2, 8, **options)


def test_stacks_scatter_unless_times_are_drawn() -> None:
    """A stack's scatter is left out beside `[variation]`, which draws the times itself."""
    compute = {"compute": {"plugin": "gpu", "device": "h100", "stack": "nemo-h100"}}
    options: dict[str, Any] = {"model": "llama3-8b", "sequence": 512, "global_batch": 4, "precision": "fp8", "zero": 1}
    steady = varied({"seed": 1})
    with_scatter, without, drawn = (
        run(platform(1, 4), compute | more, **options, **own) for more, own in (({}, {}), ({}, {"scatter": 0.0}), (steady, {}))
    )
    assert with_scatter.finish_ns > without.finish_ns == drawn.finish_ns


@pytest.mark.parametrize(
    ("model", "expected", "of_two"),
    [("llama2-7b", 32 * 7 + 3, 32 * 5 + 2), ("gpt3-175b", 96 * 12 + 4, 96 * 4 + 2), ("deepseek-v3", 62 * 12 + 3 + 4, 62 * 8 + 2 + 1)],
)
def test_tensors_of_a_model(model: str, expected: int, of_two: int) -> None:
    """GPT has biases and learned positions, and the matrix of its head is that of the embedding."""
    found = MODELS[model]
    units = ["embedding", *range(found.layers + found.mtp_layers), "head"]
    assert (tensors(found, units), matrices(found, units)) == (expected, of_two)


@pytest.mark.parametrize(("nodes", "times"), [(8, 8), (64, 4 * 7 + 3)])
def test_each_rank_with_tensors_broadcasts(nodes: int, times: int) -> None:
    """A model of 31 tensors. All bytes are sent as by one gather, with more latency."""
    model = MODEL | {"gated": True}
    times_of, bytes_of = {}, {}
    for update in ("gather", "broadcast"):
        options: dict[str, Any] = {"model": model, "global_batch": nodes, "zero": 1, "update": update}
        result = run(platform(1, nodes), {"npu_times": True}, **options)
        (row,) = [row for row in result.npu_tables()["operations"] if row["operation"] == "parameters"]
        times_of[update], bytes_of[update] = row["count"] // nodes, result.network["payload_bytes"]
    assert times_of == {"gather": 1, "broadcast": times}
    assert bytes_of["broadcast"] == pytest.approx(bytes_of["gather"], rel=0.02)


def test_broadcasts_reach_nodes_one_by_one() -> None:
    """A step of both channels of each NIC for each node but the first: at most what there is to send."""
    chain = BroadcastChain(nodes=9, channels=8, gb_per_s=50.0)
    assert chain.filling_ps(1 << 30) == 8 * 8 * STEP_BYTES * 1000 / 50
    assert chain.filling_ps(800) == 8 * 800 * 1000 / 50
    assert BroadcastChain().filling_ps(1 << 30) == 0


@pytest.mark.parametrize(
    ("ranks", "stride", "nics", "expected"),
    [
        (8, 1, None, (1, 2, 1.0)),  # one node
        (32, 1, None, (4, 16, 800.0)),
        (32, 1, 4, (4, 8, 800.0)),
        (16, 2, None, (4, 8, 400.0)),  # of tensor-parallel pairs
        (4, 8, None, (4, 2, 100.0)),
    ],
)
def test_the_way_of_broadcasts(ranks: int, stride: int, nics: int | None, expected: tuple[int, int, float]) -> None:
    """Nodes of 8 with a share of 100 GB/s of each NPU in their NICs."""
    experiment = astra_sim.Experiment()
    experiment.use("platform", platform(8, 4), shared_plugins())
    chain = chain_of(build_platform(experiment, shared_plugins()), ranks, stride, nics)
    assert (chain.nodes, chain.channels, chain.gb_per_s) == expected


def test_an_iteration_waits_for_broadcasts_to_reach_the_last_node() -> None:
    """With fewer NICs channels are fewer; ranks that have vectors alone send too little to fill them."""
    options: dict[str, Any] = {"model": MODEL | {"hidden": 2048}, "zero": 1, "update": "broadcast", "global_batch": 64}
    results = [run(platform(8, nodes), nics=nics, **options) for nodes, nics in ((8, 8), (8, 4))]
    few, half = (result.breakdown["dp"] for result in results)
    # Four layers of four matrices, the embedding and the head; a broadcast has more than a step of all channels.
    assert few - half == pytest.approx((4 * 4 + 2) * 7 * 8 * STEP_BYTES / 800e9)


def test_experts_are_not_broadcast() -> None:
    with pytest.raises(InputError, match="update is broadcast, and the model has experts; expected gather"):
        run(8, model=EXPERTS, zero=1, update="broadcast")
