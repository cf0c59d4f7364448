"""`astra memory`: the table of stages, what makes a run fit, and the search with times."""

from __future__ import annotations

import json
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
    found: dict[str, Any] = json.loads(run(*arguments, "--json"))
    return found


def test_the_fullest_rank_is_that_of_the_run() -> None:
    found = table(GPT3)
    assert found["memory_bytes"] == max(stage["total"] for stage in found["stages"]) == astra_sim.simulate(GPT3).memory_bytes
    assert (len(found["stages"]), found["fits"], found["suggestions"]) == (8, True, [])


def test_what_does_not_fit_says_what_would() -> None:
    found = table(GPT3, "--capacity", "50")
    assert found["fits"] is False
    assert {one["change"] for one in found["suggestions"]} == {"recompute = full", "pipeline_parallel = 16 on 128 NPUs"}
    for one in found["suggestions"]:
        assert f"{one['memory_bytes'] / 2**30:.2f} GiB with {one['change']}" in run(GPT3, "--capacity", "50")
    made = table(GPT3, "--set", "workload.recompute=full")["memory_bytes"]
    assert [one["memory_bytes"] for one in found["suggestions"] if one["change"] == "recompute = full"] == [made]
    assert "It does not fit.\nNo single change" in run(GPT3, "--capacity", "4")


def test_without_a_capacity_there_is_no_verdict(small: str) -> None:
    arguments = (small, "--compute", "plugin:roofline?peak_tera_ops_per_s=300")
    assert table(*arguments)["fits"] is None
    assert "fullest" not in run(*arguments)
    assert "It fits." in run(*arguments, "--capacity", "80")
    with pytest.raises(astra_sim.InputError, match=r"does not say how much memory.*--capacity GIB"):
        run(*arguments, "--search")


def test_tables_fit_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in ((GPT3,), (LLAMA3,), (LLAMA3, "--capacity", "64"), (LLAMA3, "--search", "--limit", "3")):
        assert max(len(line.rstrip()) for line in run(*arguments).splitlines()) <= 80


def test_the_search_lists_what_fits_by_time_and_each_runs_as_it_says(small: str) -> None:
    found = table(small, "--search", "--limit", "5")
    times = [one["iteration_s"] for one in found["combinations"]]
    assert len(times) == 5 < found["fitting"]
    assert times == sorted(times)
    for one in found["combinations"]:
        result = astra_sim.simulate(small, workload={"plugin": "llm", **one["options"]})
        assert (result.iteration_s, result.memory_bytes) == (one["iteration_s"], one["memory_bytes"])
        assert one["tensor_parallel"] * one["pipeline_parallel"] * one["data_parallel"] == 16


def test_the_search_keeps_the_capacity(small: str) -> None:
    everything, few = (table(small, "--search", "--capacity", size, "--limit", "1000")["combinations"] for size in ("80", "0.3"))
    assert 0 < len(few) < len(everything)
    assert all(one["memory_bytes"] <= 0.3 * 2**30 for one in few)
    assert "No combination fits in 0.01 GiB." in run(small, "--search", "--capacity", "0.01")


def test_an_experiment_is_among_what_its_search_finds() -> None:
    """Also where the ends of the model take a chunk each: 126 layers on 128 chunks."""
    found = table(LLAMA3, "--search", "--limit", "100")["combinations"]
    result = astra_sim.simulate(LLAMA3)
    own = next(
        each
        for each in found
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
