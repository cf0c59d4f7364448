"""Figures that a workload adds to its result: tables that people read, JSON, columns of data frames."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import astra_sim
import pytest
from astra_sim.graph import Compute, ExecutionGraph, Figure, ProgramTimes
from astra_sim.report.amounts import amount
from astra_sim.report.tables import print_result
from astra_sim_explain.compare import compare
from click.testing import CliRunner
from support import ROOT

SMALL = "plugin:llm?model.layers=8&model.hidden=256&model.heads=4&model.vocab=1024&model.sequence=128&global_batch=64"
LLM = ("--workload", SMALL, "--compute", "plugin:gpu?device=h100", "--system", "plugin:astra2", "--platform", "plugin:dgx_h100?nodes=2")


class Answers:
    """Figures of each kind: shown with and without a unit and a note, parts of a whole, for programs alone, not known."""

    def __call__(self, times: Sequence[ProgramTimes], finish_ps: int) -> Mapping[str, Any]:
        return {
            "step_s": Figure(0.0123456, "step", "s", "of training"),
            "images": Figure(1234567, "images/s"),
            "use": Figure(0.5, "share of the peak", "share"),
            "code": "for programs",
            "unknown": Figure(None, "not known", "s"),
            "where": Figure({"work": 0.75, "[wait]": 0.25}, "where it goes", "s"),
        }


@pytest.fixture
def result() -> astra_sim.Result:
    graph = ExecutionGraph([Compute((), 1000)], (), (), figures=Answers())
    return astra_sim.simulate(workload=graph, platform="plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500")


def printed(result: astra_sim.Result, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_result(result)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_table_says_figures_with_their_units(result: astra_sim.Result, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(result, capsys)
    begin = next(index for index, line in enumerate(lines) if line.startswith(" step"))
    assert [" ".join(line.split()) for line in lines[begin : begin + 7]] == [
        "step 12.346 ms (of training)",
        "images/s 1,234,567",
        "share of the peak 50.0 %",
        "where it goes",
        "ms %",
        "work 750.000 75.0 " + "█" * 22,
        "[wait] 250.000 25.0 " + "█" * 8,
    ]
    assert not [line for line in lines if "programs" in line or "not known" in line]
    assert any("MiB sent by each NPU" in line for line in lines)


def test_json_and_tables_have_the_values(result: astra_sim.Result) -> None:
    table = json.loads(json.dumps(result.to_dict()))
    assert (table["step_s"], table["code"], table["unknown"], table["where"]) == (
        0.0123456,
        "for programs",
        None,
        {"work": 0.75, "[wait]": 0.25},
    )
    assert "shown" not in table
    row = result.tables()["run"][0]
    assert (row["images"], row["code"], row["where_work"]) == (1234567, "for programs", 0.75)
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result
    assert result.use == 0.5


def test_a_frame_has_the_figures_of_a_run() -> None:
    pytest.importorskip("pandas")
    options: dict[str, Any] = dict(zip((name[2:] for name in LLM[::2]), LLM[1::2], strict=True))
    frame = astra_sim.simulate(**options).frame("run")
    assert {"iteration_s", "tokens_per_s", "mfu", "memory_bytes", "breakdown_compute", "breakdown_bubble"} <= set(frame.columns)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12.5214, "s", "12.521 s"),
        (0, "s", "0.000 s"),
        (3.2e-7, "s", "320.000 ns"),
        (64184807424, "bytes", "59.78 GiB"),
        (173.69e12, "FLOP/s", "173.7 TFLOP/s"),
        (0.5567, "share", "55.7 %"),
        (163.5596, "tokens/s", "163.6 tokens/s"),
        (3268590.4, "", "3,268,590 "),
        ("fp16", "", "fp16 "),
    ],
)
def test_amounts(value: Any, unit: str, text: str) -> None:
    assert " ".join(amount(value, unit)) == text


def test_a_comparison_has_a_column_for_each_figure() -> None:
    sets = [f"workload.pipeline_parallel={size}" for size in (1, 2)]
    arguments = [*LLM, *(word for one in sets for word in ("--set", one))]
    done = CliRunner().invoke(compare, arguments)
    assert done.exit_code == 0, done.output
    times, figures = done.stdout.splitlines()[:3], done.stdout.splitlines()[3:]
    assert times[0].startswith("run  ")
    assert all(word in figures[0] for word in ("iteration (us)", "tokens/s", "MFU (%)", "bubble (%)", "memory (MiB)"))
    assert [line.split()[0] for line in (*times[1:], *figures[1:])] == 2 * ["pipeline_parallel=1", "pipeline_parallel=2"]
    rows = json.loads(CliRunner().invoke(compare, [*arguments, "--json"]).stdout)
    assert [set(row["breakdown"]) >= {"compute", "tp", "bubble"} for row in rows] == [True, True]


def test_labels_leave_room_for_numbers_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = [f"workload.pipeline_parallel={size}" for size in (1, 2)]
    arguments = [*LLM, *(word for one in wide for word in ("--set", one))]
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.rstrip() for line in CliRunner().invoke(compare, arguments).stdout.splitlines()]
    assert lines[:2] == ["1: pipeline_parallel=1", "2: pipeline_parallel=2"]
    assert max(map(len, lines)) <= 80


def test_a_comparison_of_other_workloads_has_one_table() -> None:
    vgg16 = str(ROOT / "examples" / "vgg16_tpu_v2.toml")
    done = CliRunner().invoke(compare, [vgg16, "--set", "system.splits=4", "--set", "system.splits=16"])
    assert len(done.stdout.splitlines()) == 3
