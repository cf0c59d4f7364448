"""What `astra compare` keeps of runs that are over: figures, not graphs and records."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import RunError
from astra_sim.report.details import RunDetails
from astra_sim_explain import compare as compare_module
from astra_sim_explain.compare import compare
from astra_sim_explain.spooled import SpooledResults
from click.testing import CliRunner
from support import ROOT, figures

VGG16 = str(ROOT / "examples" / "vgg16_tpu_v2.toml")
RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=32&link_latency_ns=30"


@pytest.mark.parametrize("output", [False, True])
def test_no_run_keeps_its_graph_and_record(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, output: bool) -> None:
    over: list[weakref.ref[Any]] = []

    def simulate(*arguments: Any, **options: Any) -> astra_sim.Result:
        gc.collect()
        assert [ref for ref in over[:-1] if ref() is not None] == []  # the last one may still have a name
        result = astra_sim.simulate(*arguments, **options)
        assert isinstance(result._details, RunDetails)
        over.append(weakref.ref(result._details))
        return result

    monkeypatch.setattr(compare_module, "simulate", simulate)
    splits = [word for number in range(1, 6) for word in ("--set", f"system.splits={number}")]
    done = CliRunner().invoke(
        compare, [VGG16, *splits, "--quiet", *(["-o", str(tmp_path / "out")] if output else [])], catch_exceptions=False
    )
    assert done.exit_code == 0
    assert len(over) == 5
    assert len(list((tmp_path / "out").glob("*"))) == (7 + 5 if output else 0)


@pytest.mark.parametrize("network", ["plugin:analytical", "plugin:packet"])
def test_a_result_in_a_file_is_the_same(tmp_path: Path, network: str) -> None:
    result = astra_sim.simulate(workload="plugin:collective?bytes=4096", platform=RING, network=network)
    spooled = result.spooled(str(tmp_path / "spool"))
    for again in (spooled, pickle.loads(pickle.dumps(spooled)), copy.deepcopy(spooled)):
        assert again == result
        assert figures(again) == figures(result)
        assert (again.experiment, again.versions) == (result.experiment, result.versions)
        assert again.busy_ns == result.busy_ns
        assert again.tables() == result.tables()
        assert again.npu_finish_ns == result.npu_finish_ns
        assert again.network_reports() == result.network_reports()
    for name, one in (("a", result), ("b", spooled)):
        astra_sim.write_reports(one, tmp_path / name)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_results_in_a_folder_are_read_one_by_one(tmp_path: Path) -> None:
    results = [
        astra_sim.simulate(workload="plugin:collective?bytes=4096", platform=RING, set=[f"system.splits={splits}"], run_name=f"{splits}")
        for splits in (1, 2, 3)
    ]
    spooled = SpooledResults(str(tmp_path))
    for result in results:
        spooled.append(result)
    assert list(spooled) == results == spooled[:3]
    assert spooled[-1] == results[-1]
    assert spooled[0] is not spooled[0]
    with pytest.raises(IndexError):
        spooled[3]
    astra_sim.write_reports(results, tmp_path / "a")
    astra_sim.write_reports(spooled, tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_timelines_of_every_program_pass_through_the_file(tmp_path: Path) -> None:
    workload = "plugin:llm?model=llama3-8b&pipeline_parallel=4&global_batch=4&check_memory=false"
    result = astra_sim.simulate(workload=workload, platform=RING, compute="plugin:gpu?device=h100", timelines=True)
    results = [(own.npu, own.npus, list(own)) for own in result.timelines()]
    assert [npu for npu, _, _ in results] == [0, 1, 2, 3]
    spooled = result.spooled(str(tmp_path / "spool"))
    for again in (spooled, pickle.loads(pickle.dumps(spooled)), copy.deepcopy(spooled)):
        assert [(own.npu, own.npus, list(own)) for own in again.timelines()] == results
        assert list(again.timeline()) == results[0][2]


def test_without_timelines_a_workload_with_figures_keeps_that_of_npu_0() -> None:
    workload = "plugin:llm?model=llama3-8b&pipeline_parallel=4&global_batch=4&check_memory=false"
    result = astra_sim.simulate(workload=workload, platform=RING, compute="plugin:gpu?device=h100")
    assert result.figures
    assert [own.npu for own in result.timelines()] == [0]


def test_a_file_that_is_gone_or_cannot_be_written_is_named(tmp_path: Path) -> None:
    result = astra_sim.simulate(workload="plugin:collective?bytes=4096", platform=RING)
    with pytest.raises(RunError, match=r"cannot write .*spool: No such file or directory"):
        result.spooled(str(tmp_path / "none" / "spool"))
    spooled = result.spooled(str(tmp_path / "spool"))
    (tmp_path / "spool").unlink()
    with pytest.raises(RunError, match=r"cannot read .*spool: No such file or directory"):
        _ = spooled.busy_ns
