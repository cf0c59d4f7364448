"""Jobs of months: shares of time, published fleets, random runs against formulas, and errors in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.command import cli
from astra_sim.errors import InputError
from astra_sim_goodput import Goodput, goodput
from astra_sim_goodput.estimate import spread, student_t
from astra_sim_goodput.shares import PARTS
from click.testing import CliRunner
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from support import ROOT

HOUR = 3600


def job(levels: list[dict[str, Any]] | None = None, checkpoint: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """The tables of a job of 16 384 GPUs that is interrupted every three hours or so."""
    recovery = {"detect_s": 60, "replace_s": 120, **more.pop("recovery", {})}
    cost = more.pop("cost", None)
    table: dict[str, Any] = {"nodes": 2048, "rates": "llama3", **({} if {"days", "steps", "tokens"} & set(more) else {"days": 54}), **more}
    table |= {"checkpoint": {"levels": levels or [{"write_s": 20, "load_s": 120}], **(checkpoint or {})}, "recovery": recovery}
    return {"goodput": table, **({} if cost is None else {"cost": cost})}


def agree(found: Goodput, slack: float = 0.0) -> None:
    """Formulas and random runs agree within the 99 % interval of these, or within this share of the goodput."""
    assert found.monte_carlo is not None
    low, high = found.monte_carlo.goodput.interval99
    assert low - slack <= found.goodput <= high + slack


# -- by formulas -------------------------------------------------------------------------------------------------------


def test_without_interruptions_only_writing_is_lost() -> None:
    result = goodput(job([{"write_s": 20}], {"interval": 600}, rates={"gpu": 0.0}))
    assert result.goodput == pytest.approx(1 / (1 + 20 / 600))
    assert (result.mtti_h, result.failures.mean, result.shares["lost"]) == (None, 0.0, 0.0)


def test_without_interruptions_the_best_interval_has_no_end() -> None:
    result = goodput(job(rates={"gpu": 0.0}))
    assert (result.goodput, result.interval_s) == (1.0, None)


def test_rare_interruptions_cost_next_to_nothing() -> None:
    assert goodput(job(rates={"gpu": 1e-15}, checkpoint={"interval": 600})).goodput == pytest.approx(1 / (1 + 20 / 600), rel=1e-6)


def test_one_level_is_daly_s_model() -> None:
    result = goodput(job())
    assert result.closed_forms is not None
    assert result.goodput == pytest.approx(result.closed_forms.daly, rel=1e-12)
    assert result.interval_s == pytest.approx(result.closed_forms.daly_s)
    assert sum(result.shares.values()) == pytest.approx(1)


@settings(deadline=None)
@given(
    rate=st.just(0.0) | st.floats(1e-11, 1e-4),
    interval=st.floats(100, 5000),
    fast=st.just(0.0) | st.floats(1e-6, 30),
    slow=st.floats(1, 300),
    every=st.integers(1, 8),
    recovers=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    drain=st.just(0.0) | st.floats(1e-6, 100),
    slowdown=st.floats(1, 1.2),
    spares=st.none() | st.integers(0, 50),
    shrinks=st.booleans(),
)
def test_shares_add_up(
    rate: float, interval: float, fast: float, slow: float, every: int, recovers: float, drain: float, slowdown: float, spares: int | None,
    shrinks: bool,
) -> None:  # fmt: skip
    levels: list[dict[str, Any]] = [
        {"name": "memory", "write_s": fast, "recovers": recovers, "load_s": 5},
        {"write_s": slow, "every": every, "load_s": 60},
    ]
    asynchronous = {"stall_s": 2, "drain_s": drain, "slowdown": slowdown}
    recovery = {} if spares is None else {"spares": spares, "repair_h": 48, "without_spare": "shrink" if shrinks else "wait"}
    try:
        result = goodput(
            job(levels, {"interval": interval, "asynchronous": asynchronous}, rates={"gpu": rate}, nodes=128, recovery=recovery)
        )
    except InputError as error:
        if "none is ever reached" not in str(error):
            raise
        reject()
    assert list(result.shares) == list(PARTS)
    assert all(0 <= share <= 1 for share in result.shares.values())
    assert sum(result.shares.values()) == pytest.approx(1)
    assert result.goodput == result.shares["useful"] == pytest.approx(result.work_days / result.days)
    assert sum(result.failures.by_component.values()) == pytest.approx(result.failures.mean)
    by_interruptions = 1 - sum(result.shares[part] for part in ("useful", "checkpoint", "degraded"))
    assert sum(result.failures.lost_days.values()) == pytest.approx(by_interruptions * result.days, abs=1e-9)


def test_several_levels_have_the_best_interval_of_all() -> None:
    levels: list[dict[str, Any]] = [
        {"name": "memory", "write_s": 1, "recovers": 0.9, "load_s": 5},
        {"write_s": 40, "every": 10, "load_s": 60},
    ]
    best = goodput(job(levels))
    assert best.interval_s is not None
    for factor in (0.8, 1.25):
        assert goodput(job(levels, {"interval": best.interval_s * factor})).goodput < best.goodput
    assert best.goodput > goodput(job([levels[1] | {"every": 1}])).goodput


def test_a_write_takes_as_long_as_the_store_or_the_nodes() -> None:
    def written(**more: float) -> float:
        return goodput(job([{"bytes": 2.3e12, **more}], {"interval": 600}, rates={"gpu": 0.0}, nodes=48)).shares["checkpoint"] * 600

    store = goodput(job([{"bytes": 2.3e12, "gb_per_s": 57.5}], {"interval": 600}, rates={"gpu": 0.0}))
    assert store.shares["checkpoint"] == pytest.approx(40 / 640)  # of BLOOM: 2.3 TB in 40 s
    assert written(gb_per_s=57.5, nic_gb_per_s=0.5) > written(gb_per_s=57.5)


def test_waiting_is_erlang_s_loss() -> None:
    """One node in repair for as long as the mean time between interruptions, and no spare: the job waits half of the time."""
    mtti_h = 1 / (8 * 1e-3)
    result = goodput(job(nodes=1, rates={"gpu": 1e-3}, recovery={"spares": 0, "repair_h": mtti_h}))
    assert result.shares["waiting"] == pytest.approx(0.5)
    assert goodput(job(recovery={"spares": 64, "repair_h": 48})).shares["waiting"] < 1e-9


def test_days_to_the_end_and_what_they_cost() -> None:
    result = goodput(job(tokens=15.6e12, tokens_per_step=16e6, step_s=4.0, cost={"gpu_hour_usd": 2.5}))
    assert result.work_days == pytest.approx(15.6e12 / 16e6 * 4 / 86400)
    assert result.days == pytest.approx(result.work_days / result.goodput)
    assert result.tokens_per_s == pytest.approx(4e6 * result.goodput)
    assert result.cost is not None
    assert result.cost["usd"] == pytest.approx(2.5 * 16384 * 24 * result.days)
    assert result.cost["usd_lost"] == pytest.approx(result.cost["usd"] * (1 - result.goodput))
    assert goodput(job()).cost is None


def test_a_step_is_a_run_of_an_experiment() -> None:
    path = str(ROOT / "examples" / "vgg16_tpu_v2.toml")
    result = goodput(job(steps=1e6, experiment=path))
    assert result.step_s == astra_sim.simulate(path).finish_ns / 1e9
    assert goodput(job(steps=1e6, experiment=path, checkpoint={"interval": "1000000 steps"})).interval_s == pytest.approx(
        1e6 * result.step_s
    )


# -- published fleets --------------------------------------------------------------------------------------------------


def test_llama_3() -> None:
    """3.09 h between 419 interruptions; more than 90 % effective where a checkpoint blocks for 20 s and a restart takes 300 s."""
    result = goodput(ROOT / "examples" / "goodput" / "llama3_405b.toml")
    assert result.mtti_h == pytest.approx(3.0930787589)
    assert result.failures.mean == pytest.approx(419)
    assert result.failures.by_component["faulty GPU"] == pytest.approx(148)
    assert result.goodput > 0.9
    slower = goodput(job([{"write_s": 60, "load_s": 420}]))
    assert slower.goodput == pytest.approx(0.853, abs=5e-4)


@pytest.mark.parametrize(("gpus", "hours"), [(16384, 1.8028846), (131072, 0.2253606), (1024, 28.846)])
def test_rsc(gpus: int, hours: float) -> None:
    """Published: 1.8 h and 0.23 h. Of 1024 GPUs 7.9 h were measured: smaller jobs are interrupted more often than the rate says."""
    assert goodput(job(nodes=gpus // 8, rates="rsc1", checkpoint={"interval": 60})).mtti_h == pytest.approx(hours, rel=1e-4)


def test_bloom() -> None:
    """2.3 TB in 40 s each 100 steps of 105 s: 0.38 %; 102 616 steps are 124.7 days."""
    result = goodput(
        job([{"bytes": 2.3e12, "gb_per_s": 57.5}], {"interval": "100 steps"}, nodes=48, rates={"gpu": 0.0}, steps=102616, step_s=105)
    )
    assert result.shares["checkpoint"] == pytest.approx(0.00381, rel=5e-3)
    assert result.work_days == pytest.approx(124.7, abs=0.05)


def test_airesim_is_a_limit() -> None:
    """AIReSim's default: 6144 h of work on 4096 servers take 9866 h with repairs, at least 9639 h, where no restart is interrupted."""
    rate = 6.944444e-6 * 60
    result = goodput(
        job(
            [{"write_s": 0, "load_s": 0}],
            {"interval": 1},
            nodes=4096,
            gpus_per_node=1,
            rates={"server": rate},
            steps=6144,
            step_s=HOUR,
            recovery={"detect_s": 0, "replace_s": 1200},
        )
    )
    assert result.mtti_h is not None
    assert 6144 * (1 + 20 / 60 / result.mtti_h) == pytest.approx(9639.25, abs=0.01)
    assert result.days * 24 == pytest.approx(10855, abs=1)


# -- random runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "checkpoint", "slack"),
    [
        ([{"write_s": 20, "load_s": 120}], {}, 0.0),
        ([{"write_s": 60, "load_s": 420}], {"interval": 3000}, 0.0),
        ([{"name": "memory", "write_s": 1, "recovers": 0.9, "load_s": 5}, {"write_s": 40, "every": 10, "load_s": 60}], {}, 0.002),
        ([{"load_s": 120}], {"asynchronous": {"stall_s": 2, "drain_s": 100, "slowdown": 1.01}, "interval": 600}, 0.002),
    ],
)
def test_random_runs_agree_with_the_formulas(levels: list[dict[str, Any]], checkpoint: dict[str, Any], slack: float) -> None:
    """With one level within the interval of the runs; nested levels and writing beside training are formulas to within 0.2 %."""
    agree(goodput(job(levels, checkpoint), seeds=300), slack)


@pytest.mark.parametrize("without", ["wait", "shrink"])
def test_random_runs_agree_on_spares(without: str) -> None:
    recovery = {"spares": 14, "repair_h": 48, "without_spare": without}
    result = goodput(job(nodes=2048, recovery=recovery, days=540), seeds=60)
    assert (result.shares["waiting"] if without == "wait" else result.shares["degraded"] * 100) > 0.05
    agree(result, 0.002)


def test_random_runs_to_the_end_take_what_the_formula_says() -> None:
    result = goodput(job(steps=1_000_000, step_s=4.0), seeds=200)
    assert result.monte_carlo is not None
    low, high = result.monte_carlo.days.interval99
    assert low < result.days < high
    assert result.monte_carlo.days.sd > 0


def test_the_same_seeds_are_the_same_runs() -> None:
    assert goodput(job(), seeds=5) == goodput(job(), seeds=5)


def test_short_times_that_cluster_are_worse_than_a_constant_rate() -> None:
    """Weibull's times of shape below 1: many interruptions soon after another. The mean time is the same, so are the formulas."""
    steady, clustered = (goodput(job(weibull_shape=shape), seeds=200) for shape in (1.0, 0.6))
    assert steady.monte_carlo is not None
    assert clustered.monte_carlo is not None
    assert clustered.goodput == steady.goodput
    assert clustered.monte_carlo.goodput.sd > 1.3 * steady.monte_carlo.goodput.sd
    assert clustered.monte_carlo.failures.mean == pytest.approx(steady.monte_carlo.failures.mean, rel=0.05)


def test_spread() -> None:
    result = spread([1.0, 2.0, 3.0, 4.0])
    assert (result.mean, result.quantiles["p50"]) == (2.5, 3.0)
    assert result.interval99[0] == pytest.approx(5 - result.interval99[1])


def test_quantiles_of_students_t() -> None:
    """Abramowitz and Stegun, table 26.10."""
    for degrees, value in ((1, 63.657), (2, 9.925), (3, 5.841), (4, 4.604), (10, 3.169), (30, 2.750), (120, 2.617), (1000, 2.581)):
        assert student_t(degrees) == pytest.approx(value, abs=6e-4)
    assert student_t(200) == pytest.approx((student_t(199) + student_t(201)) / 2, abs=1e-6)


# -- Errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rates": "lama3"}, "did you mean 'llama3'"),
        ({"rates": {"gpu": -1}}, "rates: gpu is -1; expected interruptions in a GPU-hour"),
        ({"rates": {}}, "rates is empty"),
        ({"mtbf_node_days": 100}, "expected one of rates, mtbf_node_days and intervals"),
        ({"steps": 100}, "steps needs step_s or experiment"),
        ({"days": 5, "steps": 100}, "days and steps is given; expected one of"),
        ({"tokens": 1e12, "step_s": 1.0}, "tokens needs tokens_per_step"),
        ({"checkpoint": {"interval": "5 hours"}}, "interval is '5 hours'; expected seconds"),
        ({"checkpoint": {"interval": "5 steps"}}, "needs step_s or experiment"),
        ({"checkpoint": {"interval": 0}}, "interval is 0; expected more than 0 s"),
        ({"checkpoint": {"interval": 1e8}}, "none is ever reached; expected a shorter interval"),
        ({"recovery": {"detect_s": 1e9}}, "takes 1e+09 s, and 11135.1 s pass between two interruptions: none is ever done"),
        ({"levels": [{"write_s": 1}, {"write_s": 2}]}, "levels 0: recovers is missing"),
        ({"levels": [{"write_s": 1, "recovers": 0.5}]}, "add up to 0.5; expected 1"),
        ({"levels": [{"write_s": 1, "every": 2}]}, "every is 2; expected a multiple of 1, 1"),
        ({"levels": [{"write_s": 1, "bytes": 5}]}, "write_s and bytes with bandwidths are both given"),
        ({"levels": [{"bytes": 5}]}, "expected write_s, or bytes with gb_per_s"),
        ({"levels": [{"write_s": 0}]}, "a checkpoint takes no time"),
        ({"recovery": {"spares": 3}}, "repair_h is missing"),
        ({"checkpoint": {"interval": 60, "asynchronous": {"stall_s": 1, "drain_s": 90}}}, "expected a longer interval"),
        ({"nods": 3}, "unknown key 'nods'; did you mean 'nodes'"),
    ],
)
def test_errors_name_the_key(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        goodput(job(**changes))
    assert words in str(error.value)


def test_rare_components_share_a_row(tmp_path: Path) -> None:
    large = ROOT / "examples" / "goodput" / "llama3_405b.toml"
    small = tmp_path / "small.toml"
    small.write_text(large.read_text().replace("nodes = 2048", "nodes = 4"))
    assert "others" not in printed(str(large))
    assert "system memory" in printed(str(large))
    assert "13 others" in printed(str(small))
    assert "system memory" not in printed(str(small))


def test_an_experiment_is_no_goodput_file() -> None:
    with pytest.raises(InputError, match=r"step.toml: no table \[goodput\]; expected one"):
        goodput(ROOT / "examples" / "goodput" / "step.toml")


def test_the_command_prints_tables_and_json(tmp_path: Path) -> None:
    example = str(ROOT / "examples" / "goodput" / "llama3_405b.toml")
    assert "3 random runs" in printed(example, "--seeds", "3")
    result = json.loads(printed(example, "--json"))
    assert result["mtti_h"] == pytest.approx(3.0930787589)
    assert set(result["shares"]) == set(PARTS)
    with pytest.raises(InputError, match=r"none\.toml"):
        printed(str(tmp_path / "none.toml"))


def printed(*arguments: str) -> str:
    return CliRunner().invoke(cli.astra, ["goodput", *arguments], catch_exceptions=False, standalone_mode=False).output


# -- Nodes that fail more often ----------------------------------------------------------------------------------------


def with_lemons(**lemons: Any) -> dict[str, Any]:
    return {
        "goodput": {
            "nodes": 100,
            "mtbf_node_days": 50,
            "days": 60,
            "checkpoint": {"interval": 1800, "levels": [{"write_s": 30, "load_s": 60}]},
            "recovery": {"detect_s": 60},
            **({"lemons": lemons} if lemons else {}),
        }
    }


def test_lemons_raise_the_rate() -> None:
    """Two nodes that fail ten times as often are 18 nodes more."""
    plain, lemons = goodput(with_lemons()), goodput(with_lemons(share=0.02, multiplier=10))
    assert plain.mtti_h == pytest.approx(12.0)
    assert lemons.mtti_h == pytest.approx(12 / 1.18)
    assert lemons.goodput < plain.goodput


def test_random_runs_with_lemons_agree_with_the_formula() -> None:
    result = goodput(with_lemons(share=0.02, multiplier=10), seeds=200)
    assert result.monte_carlo is not None
    low, high = result.monte_carlo.goodput.interval99
    assert low - 0.001 < result.goodput < high + 0.001


def test_lemons_that_are_removed_cost_less() -> None:
    stay, removed = (goodput(with_lemons(share=0.02, multiplier=30, **more), seeds=50) for more in ({}, {"removed_after": 2}))
    plain = goodput(with_lemons(), seeds=50)
    result = [each.monte_carlo.failures.mean for each in (plain, removed, stay) if each.monte_carlo is not None]
    assert result[0] < result[1] < result[2]
    assert result[1] - result[0] < 6  # two lemons with two interruptions each, those of other nodes in that time not


def test_a_step_may_be_in_nanoseconds() -> None:
    seconds, nanoseconds = (
        {"goodput": {"nodes": 4, "rates": "llama3", "steps": 1e6, "checkpoint": {"interval": 600}, **step}}
        for step in ({"step_s": 2}, {"step_ns": 2e9})
    )
    assert goodput(seconds) == goodput(nanoseconds)
    with pytest.raises(InputError, match="step_s and step_ns are given; expected one of them"):
        goodput({"goodput": {"nodes": 4, "rates": "llama3", "days": 1, "step_s": 1, "step_ns": 1}})
