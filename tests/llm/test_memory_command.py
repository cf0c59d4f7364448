"""`astra memory`: the table of stages, what makes a run fit, and the search with times."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim_llm.memory_command import memory
from click.testing import CliRunner
from support import ROOT

GPT3 = str(ROOT / "examples" / "gpt3_175b_megatron.toml")
LLAMA3 = str(ROOT / "examples" / "llama3_405b.toml")
SMALL = """
platform = "plugin:dgx_a100?nodes=2"
compute = "plugin:gpu?device=a100-80"
system = "plugin:astra2"
[workload]
plugin = "llm"
global_batch = 64
model = { layers = 8, hidden = 1024, heads = 16, vocab = 1024, sequence = 512 }
"""


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(memory, arguments)
    if done.exception is not None:
        raise done.exception
    assert done.exit_code == 0
    return done.stdout


def table(*arguments: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return result


def test_the_fullest_rank_is_that_of_the_run() -> None:
    result = table(GPT3)
    assert result["memory_bytes"] == max(stage["total"] for stage in result["stages"]) == astra_sim.simulate(GPT3).memory_bytes
    assert (len(result["stages"]), result["fits"], result["suggestions"]) == (8, True, [])


def test_what_does_not_fit_says_what_would() -> None:
    result = table(GPT3, "--capacity", "55.8")
    assert result["fits"] is False
    assert {one["change"] for one in result["suggestions"]} == {"recompute = full", "pipeline_parallel = 16 on 128 NPUs"}
    for one in result["suggestions"]:
        assert f"{one['memory_bytes'] / 2**30:.2f} GiB with {one['change']}" in run(GPT3, "--capacity", "55.8")
    results = table(GPT3, "--set", "workload.recompute=full")["memory_bytes"]
    assert [one["memory_bytes"] for one in result["suggestions"] if one["change"] == "recompute = full"] == [results]
    assert re.search(r"It does not fit.\n.*margin.*\nNo single change", run(GPT3, "--capacity", "10"))


def test_without_a_capacity_there_is_no_verdict(small: str) -> None:
    arguments = (small, "--compute", "plugin:roofline?peak_tera_ops_per_s=300")
    assert table(*arguments)["fits"] is None
    assert "fullest" not in run(*arguments)
    assert "It fits." in run(*arguments, "--capacity", "80")
    with pytest.raises(astra_sim.InputError, match=r"does not know the memory.*--capacity GIB"):
        run(*arguments, "--search")


def test_tables_fit_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in ((GPT3,), (LLAMA3,), (LLAMA3, "--capacity", "64"), (LLAMA3, "--search", "--limit", "3", "--keep", "virtual_stages")):
        assert max(len(line.rstrip()) for line in run(*arguments).splitlines()) <= 80


@pytest.mark.parametrize("choice", ["sequence=512", "lora.rank=8", "lora.targets=[qkv,fc2]"])
def test_the_search_lists_what_fits_by_time_and_each_runs_as_it_says(choice: str, small: str) -> None:
    results = table(small, "--search", "--limit", "5", "--set", f"workload.{choice}")
    times = [one["iteration_s"] for one in results["combinations"]]
    assert len(times) == 5 < results["fitting"]
    assert times == sorted(times)
    assert results["tried"] >= results["fitting"] >= results["simulated"] >= 5
    for one in results["combinations"]:
        result = astra_sim.simulate(small, workload={"plugin": "llm", **one["options"]})
        assert (result.iteration_s, result.memory_bytes) == (one["iteration_s"], one["memory_bytes"])
        assert one["tensor_parallel"] * one["pipeline_parallel"] * one["data_parallel"] == 16


def test_the_search_keeps_the_capacity(small: str) -> None:
    arguments = (small, "--search", "--keep", "micro_batch", "--limit", "1000", "--set", "workload.memory_margin=0", "--capacity")
    everything, few = (table(*arguments, size)["combinations"] for size in ("80", "0.3"))
    assert 0 < len(few) < len(everything)
    assert all(one["memory_bytes"] <= 0.3 * 2**30 for one in few)
    assert "No combination fits in 0.01 GiB; " in run(*arguments, "0.01")


def test_an_experiment_is_among_what_its_search_finds() -> None:
    """Also where the ends of the model take a chunk each: 126 layers on 128 chunks."""
    outcome = [f"--keep={name}" for name in ("micro_batch", "context_parallel", "virtual_stages", "tensor_parallel", "recompute")]
    results = table(LLAMA3, "--search", "--capacity", "100", "--limit", "100", *outcome)["combinations"]
    result = astra_sim.simulate(LLAMA3)
    own = next(
        each
        for each in results
        if (each["tensor_parallel"], each["pipeline_parallel"], each["zero"], each["recompute"]) == (8, 16, 2, "none")
    )
    assert (own["iteration_s"], own["memory_bytes"]) == (pytest.approx(result.iteration_s, rel=1e-6), result.memory_bytes)


def test_another_workload_is_an_error(small: str) -> None:
    with pytest.raises(astra_sim.InputError, match=r"the workload is 'collective'; expected llm"):
        run(small, "--workload", "plugin:collective?bytes=1")
    with pytest.raises(astra_sim.InputError, match=r"small\.toml: workload: tensor_parallel .* is 7; expected a divisor"):
        run(small, "--set", "workload.tensor_parallel=7")
    with pytest.raises(astra_sim.InputError, match="no workload is given"):
        run("--platform", "plugin:dgx_a100")
    with pytest.raises(astra_sim.InputError, match=r"--capacity is -1; expected GiB above 0"):
        run(small, "--capacity", "-1")
    with pytest.raises(astra_sim.InputError, match=r"mode is prefill; expected train"):
        run(small, "--search", "--set", "workload.mode=prefill")


def test_what_cannot_run_at_all_says_why(small: str) -> None:
    with pytest.raises(astra_sim.InputError, match="kernel"):
        run(small, "--search", "--compute", "plugin:recorded", "--capacity", "80")


def test_a_margin_of_the_memory_stays_free(small: str) -> None:
    """That of the device, or another; the table, the verdict, the search and the run have the same."""
    result = table(small)
    assert (result["capacity_bytes"], result["margin_bytes"]) == (80 * 2**30, pytest.approx(5.8 * 2**30))
    tight = (small, "--set", f"workload.memory_margin={80 - 0.2}")
    assert table(*tight)["fits"] is False
    assert "\n0.20 GiB are 80.00 less a margin of 79.80 (memory_margin).\n" in run(*tight)
    with pytest.raises(astra_sim.CapacityError, match=r"an NPU has 80.0 GiB, of which a margin of 79.8 GiB is left free \(memory_margin\)"):
        astra_sim.simulate(small, set=["workload.memory_margin=79.8"])
    assert all(one["memory_bytes"] <= 0.2 * 2**30 for one in table(*tight, "--search", "--keep", "micro_batch")["combinations"])


def test_a_margin_that_nothing_has_is_an_error(small: str) -> None:
    with pytest.raises(astra_sim.InputError, match=r"small\.toml: workload: memory_margin is 90.00 GiB; expected less than .* 80.00 GiB"):
        run(small, "--set", "workload.memory_margin=90")
    roofline = ("--compute", "plugin:roofline?peak_tera_ops_per_s=300", "--set", "workload.memory_margin=5")
    with pytest.raises(astra_sim.InputError, match="memory_margin is 5 GiB, which has no effect: the compute model does not know"):
        run(small, *roofline)
    assert table(small, *roofline, "--capacity", "80")["margin_bytes"] == 5 * 2**30


def test_the_search_tries_all_axes_and_says_how_many(small: str) -> None:
    everything = table(small, "--search")
    result = table(small, "--search", *(f"--keep={name}" for name in ("micro_batch", "virtual_stages", "context_parallel")))
    assert everything["tried"] > result["tried"] >= result["fitting"]
    assert {one["micro_batch"] for one in result["combinations"]} == {1}
    assert any(one["micro_batch"] > 1 for one in everything["combinations"])
    assert everything["combinations"][0]["iteration_s"] <= result["combinations"][0]["iteration_s"]
    assert f"{everything['tried']:,} were tried" in run(small, "--search")
    with pytest.raises(astra_sim.InputError, match="--keep zero has no effect without --search"):
        run(small, "--keep", "zero")
