"""Autoscaling: the rule, and what it does to a load that rises and falls."""

from __future__ import annotations

from typing import Any

import pytest
from astra_sim import InputError
from astra_sim_serving.autoscale import Autoscaler, Pool, ScaledUnit, State
from astra_sim_serving.options import AutoscaleOptions
from astra_sim_serving.result import ServingResult

from serving.cases import check_conserved, run


def scaler(on: int, of: int = 10, **options: Any) -> tuple[Autoscaler, Pool]:
    """Pools of instances without requests, of which some run."""
    autoscale_options = AutoscaleOptions(**{"policy": "rate", "target": 2.0, "period_s": 1.0, "down_after_s": 3.0, **options})
    pool = Pool([ScaledUnit(0, 1, []) for _ in range(of)])
    for unit in pool.units[on:]:
        unit.become(State.OFF, 0.0)
    return Autoscaler(autoscale_options, [pool]), pool


def states(pool: Pool) -> str:
    return "".join(unit.state.value[0] for unit in pool.units)


@pytest.mark.parametrize(
    ("on", "arrived", "wanted"),
    [
        (2, 4, 2),  # the target
        (2, 4.39, 2),  # within a tenth
        (2, 4.5, 3),
        (2, 8, 4),
        (2, 8.2, 5),
        (3, 100, 10),  # all that are there
    ],
)
def test_as_many_instances_run_as_metric_over_target_asks_for(on: int, arrived: float, wanted: int) -> None:
    result, pool = scaler(on)
    pool.arrived = arrived  # type: ignore[assignment]
    assert len(result.step(1.0)) == wanted - on
    assert states(pool) == "o" * on + "s" * (wanted - on) + "o" * (10 - wanted)


def test_fewer_run_when_no_decision_for_a_while_wanted_more() -> None:
    result, pool = scaler(5)
    for now, arrived, running in ((1.0, 10, 5), (2.0, 4, 5), (3.0, 4, 5), (4.0, 4, 5), (5.0, 6, 3), (6.0, 6, 3)):
        pool.arrived = arrived
        assert result.step(now) == []
        assert pool.count(State.ON) == running, now
    assert pool.stops == 2
    assert states(pool) == "ooodd" + "o" * 5
    result.release(7.0)
    assert pool.count(State.OFF) == 7


def test_an_instance_that_was_to_stop_goes_on_where_more_are_wanted() -> None:
    result, pool = scaler(2, down_after_s=0.0)
    pool.arrived = 2
    result.step(1.0)
    assert pool.count(State.DRAINING) == 1
    pool.arrived = 4
    assert result.step(2.0) == []
    assert (pool.count(State.ON), pool.starts) == (2, 0)


def test_npus_count_from_the_start_to_the_end_of_an_instance() -> None:
    unit = ScaledUnit(0, 4, [], State.OFF)
    unit.become(State.STARTING, 10.0)
    unit.become(State.ON, 15.0)
    unit.become(State.OFF, 30.0)
    unit.become(State.OFF, 50.0)
    assert unit.npu_s == 4 * 20


# -- Runs ----------------------------------------------------------------------------------------------------------------

DAY = [{"rate": rate, "duration_s": 1.0} for rate in (200, 600, 1200, 400, 100)]
"""A load that rises and falls. An instance takes about 480 requests a second."""


def day(**autoscale: Any) -> ServingResult:
    options = {"policy": "rate", "target": 300.0, "period_s": 0.05, "cold_start_s": 0.1, "down_after_s": 0.25, **autoscale}
    requests = {"arrival": "stages", "stages": DAY, "input": 60, "output": 20}
    result = run(requests=requests, pool=[{"instances": 6}], autoscale=options, router={"policy": "least-requests"}, max_sequences=16)
    check_conserved(result)
    return result


def test_instances_follow_the_load() -> None:
    document = day().document()
    scaling = document["scaling"]
    assert scaling["starts"] >= 4
    assert scaling["stops"] >= 4
    assert 2 < scaling["mean_npus"] < 4
    assert scaling["npu_s"] == pytest.approx(scaling["mean_npus"] * document["makespan_s"])
    per_npu = document["throughput"]["output_tokens_s"] / scaling["mean_npus"]
    assert document["throughput"]["output_tokens_s_per_npu"] == pytest.approx(per_npu)


def test_a_cold_start_costs_first_tokens() -> None:
    at_once, late = (day(cold_start_s=seconds).document()["ttft_s"]["p99"] for seconds in (0.0, 0.7))
    assert late > 2 * at_once


@pytest.mark.parametrize(("policy", "target"), [("queue", 4.0), ("kv", 0.2), ("ttft", 5.0)])
def test_each_policy_starts_and_stops_instances(policy: str, target: float) -> None:
    scaling = day(policy=policy, target=target).document()["scaling"]
    assert scaling["starts"] > 0
    assert scaling["stops"] > 0


def test_prefill_and_decode_pools_scale_by_themselves() -> None:
    result = run(
        requests={"arrival": "stages", "stages": DAY, "input": 60, "output": 20},
        pool=[{"role": "prefill", "instances": 4}, {"role": "decode", "instances": 4}],
        transfer={"bandwidth_gb_per_s": 1.0},
        autoscale={"policy": "kv", "target": 0.2, "period_s": 0.05, "cold_start_s": 0.05, "down_after_s": 0.25},
        max_sequences=8,
    )
    check_conserved(result)
    assert len({each.instance for each in result.sequences}) > 1


@pytest.mark.parametrize(
    ("autoscale", "words"),
    [
        ({"policy": "queue", "minimum": 2}, "serving.pool.0 has 1 instances, and autoscale.minimum is 2"),
        ({"target": 3.0}, "expected policy = queue, kv, rate or ttft"),
        ({"policy": "latency"}, "policy is 'latency'; known: kv, none, queue, rate, ttft"),
        ({"policy": "kv", "period_s": 0}, "period_s is 0"),
    ],
)
def test_bad_autoscaling_is_an_error(autoscale: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        run(autoscale=autoscale)
    assert words in str(caught.value)
