"""The section `variation` and `astra sample`: what is exact, what draws depend on, and what errors say."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.command import cli
from astra_sim.errors import InputError
from astra_sim.graph import Compute, ExecutionGraph
from astra_sim.platform import LogicalDimension
from astra_sim_goodput import sample
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT, figures

COMPUTE_NS, BYTES = 300_000, 1 << 20


def layer(name: str, communicates: bool = True) -> dict[str, Any]:
    collective = {"collective": "all_reduce", "collective_bytes": BYTES} if communicates else {}
    return {
        "name": name,
        "forward": {"compute_ns": COMPUTE_NS},
        "input_gradient": {"compute_ns": 0},
        "weight_gradient": {"compute_ns": COMPUTE_NS, **collective},
    }


def workload(layers: int = 1, communicates: bool = True) -> dict[str, Any]:
    return {"plugin": "layers", "loop": "data", "layers": [layer(f"layer {each}", communicates) for each in range(layers)]}


def ring(npus: int = 8, **changes: Any) -> dict[str, Any]:
    return {"dimensions": [{"topology": "ring", "size": npus, "links": 2, "link_bandwidth_gb_per_s": 50, "link_latency_ns": 500} | changes]}


def run(variation: dict[str, Any] | None, **changes: Any) -> Any:
    sections = {} if variation is None else {"variation": variation}
    given_ = {"workload": workload(), "platform": ring()} | changes
    return astra_sim.simulate(astra_sim.Experiment(plugin_sections=sections), **given_)


def factors(variation: dict[str, Any], platform: dict[str, Any]) -> list[float]:
    """How much longer each NPU computes, where it communicates nothing."""
    result = run(variation, workload=workload(communicates=False), platform=platform, npu_times=True)
    return [(each.accelerator_ns or 0) / (2 * COMPUTE_NS) for each in result.unit_times() for _ in each.npus]


def experiment(variation: dict[str, Any], **changes: Any) -> astra_sim.Experiment:
    return astra_sim.Experiment(
        sections={"workload": workload(), "platform": ring()} | changes, plugin_sections={"variation": variation}, name="noisy"
    )


# -- Exact results -----------------------------------------------------------------------------------------------------


def test_factors_of_one_change_nothing() -> None:
    plain = run(None)
    for table in ({}, {"compute": [{"factor": 1.0}]}, {"compute": [{"ranks": "3", "factor": 0.5}, {"ranks": "3", "factor": 2}]}):
        assert run(table).finish_ns == plain.finish_ns


@pytest.mark.parametrize("factor", [0.5, 1.05, 3.0])
def test_a_step_waits_for_its_slow_rank(factor: float) -> None:
    """Bulk synchronous: factor * computing + communication, where the slow rank is slower than the others."""
    communication = run(None).finish_ns - 2 * COMPUTE_NS
    finish_ns = run({"compute": [{"ranks": "5", "factor": factor}]}).finish_ns
    assert finish_ns == max(factor, 1.0) * 2 * COMPUTE_NS + communication


def test_entries_multiply_and_name_ranges() -> None:
    table = {"compute": [{"ranks": "0-2", "factor": 1.5}, {"ranks": "2,7", "factor": 1.2}]}
    assert factors(table, ring(8)) == [1.5, 1.5, 1.8, 1, 1, 1, 1, 1.2]


def test_pauses_add_what_of_them_lies_in_an_operation() -> None:
    """Computing for 600 us; a pause of 50 us each 200 us, the first at 100 us."""
    pauses = [{"ranks": "2", "every_ns": 200_000, "lasts_ns": 50_000, "phase": "100000"}]
    graph = ExecutionGraph([Compute((), 600_000_000)], (LogicalDimension(8, 1, 0),), (), None)
    # Of each 200 us, 150 are left: 600 us of work are 100, then three times 150, then 50 more, and four pauses.
    assert run({"pauses": pauses}, workload=graph).finish_ns == 800_000
    whole = [{"every_ns": 1e9, "lasts_ns": 1e6, "phase": "0"}]
    assert run({"pauses": whole}).finish_ns == run(None).finish_ns + 1e6


def test_the_slowest_of_exponential_tails_is_a_harmonic_number() -> None:
    """E max of n independent Exp(1) is H_n: of 64 ranks with 1 + 0.1 Exp, 1 + 0.1 H_64, within 4 standard errors of 400 seeds."""
    npus, seeds, cv = 64, 400, 0.1
    table = {"compute": [{"distribution": "exponential", "cv": cv, "keep_mean": False}]}
    given_ = {"workload": workload(communicates=False), "platform": ring(npus)}
    times = [run(table | {"seed": seed}, **given_).finish_ns / (2 * COMPUTE_NS) for seed in range(seeds)]
    harmonic = math.fsum(1 / each for each in range(1, npus + 1))
    deviation = cv * math.sqrt(math.fsum(1 / each**2 for each in range(1, npus + 1)))
    assert statistics.fmean(times) == pytest.approx(1 + cv * harmonic, abs=4 * deviation / math.sqrt(seeds))


@pytest.mark.parametrize(
    ("distribution", "cv", "mean"),
    [("lognormal", 0.3, 1.0), ("gamma", 0.3, 1.0), ("gamma", 2.0, 1.0), ("exponential", 0.3, 1.0)],
)
def test_draws_have_the_mean_and_the_coefficient_that_are_given(distribution: str, cv: float, mean: float) -> None:
    table = {"compute": [{"distribution": distribution, "cv": cv}]}
    times = [each for seed in range(4) for each in factors(table | {"seed": seed}, ring(2048))]
    assert statistics.fmean(times) == pytest.approx(mean, abs=4 * cv / math.sqrt(len(times)))
    assert statistics.stdev(times) / statistics.fmean(times) == pytest.approx(cv, rel=0.1)


def test_without_keep_mean_the_median_is_one() -> None:
    table = {"compute": [{"distribution": "lognormal", "cv": 1.0, "keep_mean": False}]}
    times = factors(table, ring(2048))
    assert statistics.median(times) == pytest.approx(1, rel=0.05)
    assert statistics.fmean(times) == pytest.approx(math.sqrt(2), rel=0.1)


def test_numbers_of_a_file_are_drawn(tmp_path: Path) -> None:
    (tmp_path / "factors.txt").write_text("1\n\n2\n6\n")
    entry = {"distribution": "empirical", "file": str(tmp_path / "factors.txt")}
    assert set(factors({"compute": [entry | {"keep_mean": False}]}, ring(512))) == {1, 2, 6}
    assert {round(each, 6) for each in factors({"compute": [entry]}, ring(512))} == {0.333333, 0.666667, 2}


# -- What draws depend on ----------------------------------------------------------------------------------------------


def test_scopes_draw_for_ranks_passes_and_operations() -> None:
    def different(scope: str) -> int:
        table = {"compute": [{"distribution": "lognormal", "cv": 0.2, "scope": scope}]}
        result = run(table, workload=workload(3, communicates=False), passes=4, timelines=True)
        return len({round(each.end_ns - each.begin_ns, 3) for each in result.timelines()[0]})

    assert (different("rank"), different("pass"), different("operation")) == (1, 4, 24)
    assert len(set(factors({"compute": [{"distribution": "lognormal", "cv": 0.2}]}, ring(8)))) == 8


@settings(max_examples=25)
@given(data=st.data())
def test_engines_agree_and_draws_do_not_depend_on_the_network(data: st.DataObject) -> None:
    distributions = st.sampled_from([("constant", None), ("lognormal", 0.1), ("gamma", 0.5), ("exponential", 0.2)])
    npus = data.draw(st.sampled_from([2, 4, 8]))
    entries = []
    for _ in range(data.draw(st.integers(0, 3))):
        distribution, cv = data.draw(distributions)
        ranks = data.draw(st.sampled_from(["all", "0", f"1-{npus - 1}"]))
        entry = {"ranks": ranks, "factor": data.draw(st.sampled_from([0.5, 1.0, 1.25])), "distribution": distribution}
        entry["scope"] = data.draw(st.sampled_from(["rank", "pass", "operation"]))
        entries.append(entry if cv is None else entry | {"cv": cv})
    pauses = [{"every_ns": 1e5, "lasts_ns": data.draw(st.sampled_from([1.0, 7e4]))}] if data.draw(st.booleans()) else []
    table = {"seed": data.draw(st.integers(0, 1000)), "compute": entries, "pauses": pauses}
    given_: dict[str, Any] = {"workload": workload(2), "platform": ring(npus), "passes": 2}
    assert figures(run(table, **given_, engine="python")) == figures(run(table, **given_, engine="compiled"))
    if not pauses:  # whose part in an operation is a matter of when it starts
        other = {**given_, "platform": ring(npus, link_bandwidth_gb_per_s=1, link_latency_ns=9000), "npu_times": True}
        slow, fast = run(table, **other).unit_times(), run(table, **given_, npu_times=True).unit_times()
        assert [each.accelerator_ns for each in slow] == [each.accelerator_ns for each in fast]


# -- Samples -----------------------------------------------------------------------------------------------------------

NOISE = {"seed": 3, "compute": [{"ranks": "5", "factor": 1.1}, {"distribution": "lognormal", "cv": 0.05, "scope": "operation"}]}


def test_a_sample_is_the_runs_of_its_seeds() -> None:
    result = sample(experiment(NOISE), 5)
    assert [row["seed"] for row in result.seeds] == [3, 4, 5, 6, 7]
    times = [run(NOISE | {"seed": row["seed"]}).finish_ns for row in result.seeds]
    assert [row["finish_ns"] for row in result.seeds] == times
    assert result.finish.mean == pytest.approx(statistics.fmean(times))
    assert result.finish.sd == pytest.approx(statistics.stdev(times))
    half = 2.7764451 * statistics.stdev(times) / math.sqrt(5)  # Student's t of 4 degrees of freedom
    assert result.finish.interval95 == pytest.approx((result.finish.mean - half, result.finish.mean + half))
    assert result.T_ideal == run(None).finish_ns
    assert result.slowdown == pytest.approx(result.finish.mean / result.T_ideal)


def test_what_an_entry_costs_is_the_mean_without_it() -> None:
    result = sample(experiment(NOISE), 4)
    noise_alone = [run({"seed": seed, "compute": [{"ranks": "5"}, NOISE["compute"][1]]}).finish_ns for seed in range(3, 7)]  # type: ignore[index]
    first, second = result.blame
    assert first["without"] == pytest.approx(statistics.fmean(noise_alone))
    assert first["costs"] == pytest.approx(result.finish.mean - first["without"])
    assert second["without"] == run({"compute": [NOISE["compute"][0]]}).finish_ns  # type: ignore[index]


def test_a_pair_is_compared_better_than_each_is_known() -> None:
    other = experiment(NOISE, platform=ring(link_bandwidth_gb_per_s=100))
    pair = sample(experiment(NOISE), 12, pair=other, blame=False).pair
    assert pair is not None
    assert pair["difference"]["mean"] < 0
    assert pair["difference"]["sd"] < 0.01 * pair["finish"]["sd"]


# -- Errors and the command --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"compute": [{"ranks": "8"}]}, "ranks is '8'; expected all, or numbers and ranges of NPUs from 0 to 7"),
        ({"compute": [{"ranks": "3-1"}]}, "ranks is '3-1'"),
        ({"compute": [{"ranks": "x"}]}, "ranks is 'x'"),
        ({"compute": [{"factor": 0}]}, "factor"),
        ({"compute": [{"distribution": "lognormal"}]}, "cv is None; expected one for the distribution lognormal"),
        ({"compute": [{"cv": 0.1}]}, "expected none for the distribution constant"),
        ({"compute": [{"distribution": "exponential", "cv": 2.0}]}, "expected at most 1"),
        ({"compute": [{"distribution": "normal", "cv": 0.1}]}, "normal"),
        ({"compute": [{"distribution": "empirical"}]}, "file is None; expected one"),
        ({"compute": [{"distribution": "empirical", "file": "/nowhere"}]}, "/nowhere"),
        ({"pauses": [{"every_ns": 5, "lasts_ns": 5}]}, "expected less than every_ns"),
        ({"pauses": [{"every_ns": 5, "lasts_ns": 1, "phase": "soon"}]}, "expected random, or nanoseconds"),
        ({"wires": []}, "wires"),
        ({"seed": -1}, "seed"),
    ],
)
def test_an_error_names_the_key_and_the_value(table: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as failed:
        run(table)
    assert "variation" in str(failed.value)
    assert words in str(failed.value)


def test_a_file_of_factors_holds_numbers_above_zero(tmp_path: Path) -> None:
    path = tmp_path / "factors.txt"
    for text, words in (("1\nfast\n", "line 2 is 'fast'"), ("0\n", "line 1 is '0'"), ("inf\n", "line 1 is 'inf'"), ("\n", "no number")):
        path.write_text(text)
        with pytest.raises(InputError, match=words):
            run({"compute": [{"distribution": "empirical", "file": str(path)}]})


def test_the_command_prints_and_writes_json() -> None:
    path = str(ROOT / "examples" / "goodput" / "slow_rank.toml")
    shown = CliRunner().invoke(cli.astra, ["sample", path, "--seeds", "2", "--set", "workload.global_batch=4"])
    assert shown.exit_code == 0, shown.output
    assert "slowdown" in shown.output
    written = json.loads(CliRunner().invoke(cli.astra, ["sample", path, "--seeds", "2", "--pair", path, "--no-blame", "--json"]).stdout)
    assert set(written) == {"unit", "seeds", "mean", "sd", "interval95", "quantiles", "T_ideal", "slowdown", "blame", "pair"}
    assert written["pair"]["difference"]["mean"] == written["pair"]["difference"]["sd"] == 0
    assert len(written["seeds"]) == 2


@pytest.mark.parametrize("seed", ["", 2.5, -1, True])
def test_a_seed_that_is_no_whole_number_is_an_error(seed: object) -> None:
    result = experiment(NOISE)
    result.plugin_sections = {"variation": {**result.plugin_sections["variation"], "seed": seed}}
    with pytest.raises(InputError, match=r"variation: seed"):
        sample(result, 2)


def test_an_experiment_without_variation_is_refused() -> None:
    with pytest.raises(InputError, match="vgg16_dgx2_pod has no section variation"):
        sample(ROOT / "examples" / "vgg16_dgx2_pod.toml", 2)


# -- Classes of noise --------------------------------------------------------------------------------------------------


def test_ranks_of_a_noise_class_share_their_draws() -> None:
    table = {"compute": [{"distribution": "lognormal", "cv": 0.3}], "noise_classes": 3}
    drawn = factors(table, ring(8))
    assert drawn == [drawn[rank % 3] for rank in range(8)]
    assert len(set(drawn)) == 3
    assert drawn[:3] == factors(table | {"noise_classes": 8}, ring(8))[:3]


@pytest.mark.parametrize("scope", ["rank", "pass", "operation"])
def test_as_many_noise_classes_as_ranks_are_none(scope: str) -> None:
    table = {"compute": [{"distribution": "gamma", "cv": 0.2, "scope": scope}], "pauses": [{"every_ns": 1e5, "lasts_ns": 1e3}]}
    assert run(table | {"noise_classes": 8}).finish_ns == run(table).finish_ns
    seeds = [{"seed": seed} for seed in range(4)]
    assert any(run(table | seed | {"noise_classes": 1}).finish_ns != run(table | seed).finish_ns for seed in seeds)
