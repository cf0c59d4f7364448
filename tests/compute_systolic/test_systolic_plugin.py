"""The compute model `systolic`, SCALE-Sim's files, and `astra systolic`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.command.cli import astra
from astra_sim.compute import MissingWork, Work
from astra_sim.shapes import Convolution, Gemm
from astra_sim_compute_systolic.array import Dataflow, Srams, SystolicArray
from astra_sim_compute_systolic.compute import Systolic, SystolicOptions
from astra_sim_compute_systolic.report import fold_averages
from astra_sim_compute_systolic.scale_sim_files import read_configuration, read_topology
from astra_sim_devkit.testing.contracts import ComputeContract
from click.testing import CliRunner

CONFIGURATION = """[general]
run_name = small

[architecture_presets]
ArrayHeight: 4
ArrayWidth: 8
IfmapSramSzkB: 1
FilterSramSzkB: 2
OfmapSramSzkB: 3
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Dataflow : ws
Bandwidth : 10
MemoryBanks: 1

[run_presets]
InterfaceBandwidth: CALC
"""
CONVOLUTIONS = """Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 8, 9, 3, 2, 4, 6, 1,

Conv2 ,8 ,8 ,1 ,1 ,6 ,5 ,2 ,1 ,
DPConv, 5, 5, 3, 3, 2, 1, 1,
"""
WORKLOAD = """
name = "shapes"
loop = "data"

[[layers]]
name = "dense"
forward = { compute_ns = 100, gemm = { m = 16, n = 128, k = 512 } }
input_gradient = { compute_ns = 100, gemm = { m = 16, n = 512, k = 128 } }
weight_gradient = { compute_ns = 100, gemm = { m = 512, n = 128, k = 16 }, collective = "all_reduce", collective_bytes = 131072 }
"""
RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=50"


class TestSystolic(ComputeContract):
    name = "systolic"
    work = tuple(Work(shape=Gemm(m=size, n=size, k=size)) for size in (1, 2, 10, 100, 1000))


class TestSystolicWithStalls(TestSystolic):
    work = TestSystolic.work[:-1]
    options = {"dram_bandwidth_elements_per_cycle": 1, "ifmap_sram_kib": 1, "filter_sram_kib": 1, "ofmap_sram_kib": 1}  # noqa: RUF012


def test_time_is_cycles_by_clock() -> None:
    model = Systolic(SystolicOptions(array_rows=256, array_cols=256, clock_ghz=0.5))
    # The first layer of ASTRA-sim's example: 2 fillings of 2 * 256 + 256 + 16 - 2 cycles, counted from 0.
    assert model.duration_ns(Work(shape=Gemm(m=16, n=128, k=512))) == 1563 / 0.5


def test_a_bandwidth_makes_the_array_wait() -> None:
    shape = Convolution(input_height=20, input_width=20, filter_height=3, filter_width=3, channels=8, filters=32)
    options: dict[str, Any] = {"array_rows": 8, "array_cols": 8, "ifmap_sram_kib": 1, "filter_sram_kib": 1, "ofmap_sram_kib": 1}
    free, fast, slow = (
        Systolic(SystolicOptions(dram_bandwidth_elements_per_cycle=bandwidth, **options)).cycles(shape) for bandwidth in (None, 1000, 1)
    )
    assert free <= fast < slow


def test_work_without_a_shape_is_refused() -> None:
    with pytest.raises(MissingWork, match="no shape"):
        Systolic(SystolicOptions()).duration_ns(Work(1.0, 2.0, 3.0))


@pytest.mark.parametrize(
    ("compute", "forward_ns"),
    [
        ("plugin:recorded", 100),
        ("plugin:roofline?peak_tera_ops_per_s=1", 2 * 16 * 128 * 512 / 1000),
        ("plugin:roofline?peak_tera_ops_per_s=1&memory_bandwidth_gb_per_s=10", 2 * (16 * 512 + 512 * 128 + 16 * 128) / 10),
        ("plugin:systolic?array_rows=256&array_cols=256&dataflow=ws", 1563),
        ("plugin:systolic?array_rows=256&array_cols=256&dataflow=os", 256 + 256 + 512 - 2 - 1),
    ],
)
def test_a_workload_with_shapes_runs_under_every_model(compute: str, forward_ns: float, tmp_path: Path) -> None:
    path = tmp_path / "shapes.toml"
    path.write_text(WORKLOAD)
    result = astra_sim.simulate(workload=str(path), platform=RING, compute=compute)
    assert result.layers[0].forward.compute_ns == math.floor(forward_ns + 0.5)


def test_a_configuration_file_is_a_compute_model(tmp_path: Path) -> None:
    (tmp_path / "shapes.toml").write_text(WORKLOAD)
    (tmp_path / "small.cfg").write_text(CONFIGURATION.replace("CALC", "USER"))
    arguments: dict[str, Any] = {"workload": str(tmp_path / "shapes.toml"), "platform": RING}
    from_file = astra_sim.simulate(compute=str(tmp_path / "small.cfg"), **arguments)
    options = "array_rows=4&array_cols=8&dataflow=ws&dram_bandwidth_elements_per_cycle=10"
    by_hand = astra_sim.simulate(compute=f"plugin:systolic?{options}&ifmap_sram_kib=1&filter_sram_kib=2&ofmap_sram_kib=3", **arguments)
    assert from_file.finish_ns == by_hand.finish_ns


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("gemm = { m = 16, n = 128", "gemm = { m = 0, n = 128"), "layers 0: forward: gemm: m is 0; expected at least 1"),
        (("gemm = { m = 16, n = 128, k = 512 }", "gemm = { m = 16 }"), "gemm: n and k are missing"),
        (
            ("gemm = { m = 16, n = 128, k = 512 }", "gemm = { m = 1, n = 1, k = 1 }, convolution = { input_height = 1 }"),
            "forward: convolution: input_width, filter_height, filter_width, channels and filters are missing",
        ),
        (
            (
                "gemm = { m = 16, n = 128, k = 512 }",
                (
                    "gemm = { m = 1, n = 1, k = 1 }, convolution = { input_height = 1, input_width = 1, filter_height = 1, "
                    "filter_width = 1, channels = 1, filters = 1 }"
                ),
            ),
            "layers 0: forward: gemm and convolution are given; expected one of the two",
        ),
        (
            (
                "gemm = { m = 16, n = 128, k = 512 }",
                "convolution = { input_height = 2, input_width = 2, filter_height = 3, filter_width = 1, channels = 1, filters = 1 }",
            ),
            "layers 0: forward: convolution: filter_height is 3; expected at most the input_height, which is 2",
        ),
    ],
)
def test_wrong_shapes_are_errors(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "shapes.toml"
    path.write_text(WORKLOAD.replace(*change, 1))
    with pytest.raises(InputError, match=message):
        astra_sim.simulate(workload=str(path), platform=RING, compute="plugin:systolic")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("array_rows=0", "array_rows is 0; expected at least 1"),
        ("dataflow=xs", "dataflow is 'xs'; known: is, os, ws"),
        ("clock_ghz=0", "clock_ghz is 0; expected more than 0"),
        ("array_row=4", "unknown key 'array_row'; did you mean 'array_rows'"),
    ],
)
def test_wrong_options_are_errors(options: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "shapes.toml"
    path.write_text(WORKLOAD)
    with pytest.raises(InputError, match=message):
        astra_sim.simulate(workload=str(path), platform=RING, compute=f"plugin:systolic?{options}")


def test_a_configuration_is_read() -> None:
    configuration = read_configuration(CONFIGURATION, "a.cfg")
    assert configuration.array == SystolicArray(4, 8, Dataflow.WEIGHT_STATIONARY)
    assert configuration.srams == Srams(1024, 2048, 3072)
    assert (configuration.name, configuration.bandwidth) == ("small", None)
    assert read_configuration(CONFIGURATION.replace("CALC", "USER"), "a.cfg").bandwidth == 10


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ArrayHeight: 4", "ArrayHeight: 0", "a.cfg: ArrayHeight is 0; expected a whole number from 1 to 1048576"),
        ("ArrayWidth: 8", "ArrayWidth: many", "a.cfg: ArrayWidth is 'many'"),
        ("ArrayWidth: 8\n", "", r"a.cfg: ArrayWidth is missing in \[architecture_presets\]"),
        ("Dataflow : ws", "Dataflow : rs", "a.cfg: Dataflow is 'rs'; expected os, ws or is"),
        ("CALC", "NONE", "a.cfg: InterfaceBandwidth is 'NONE'; expected USER or CALC"),
        ("[run_presets]", "[run]", r"a.cfg: the section \[run_presets\] is missing"),
        ("[general]", "general", "a.cfg: File contains no section headers"),
        ("IfmapSramSzkB: 1", "IfmapSramSzkB: -1", "IfmapSramSzkB is '-1'"),
    ],
)
def test_wrong_configurations_are_errors(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_configuration(CONFIGURATION.replace(old, new), "a.cfg")


def test_a_topology_is_read() -> None:
    conv1, conv2, *depth_wise = read_topology(CONVOLUTIONS, "t.csv", gemm=False)
    assert (conv1.name, conv1.shape.gemm) == ("Conv1", Gemm(m=6 * 8, n=6, k=3 * 2 * 4))
    assert isinstance(conv2.shape, Convolution)
    assert (conv2.shape.stride, conv2.shape.column_stride) == (2, 1)
    assert [layer.name for layer in depth_wise] == ["DPConvChannel_0", "DPConvChannel_1"]
    assert {layer.shape.gemm for layer in depth_wise} == {Gemm(m=9, n=1, k=9)}
    [product] = read_topology("Layer,M,N,K,\nqkv,1,2,3,\n", "t.csv", gemm=True)
    assert (product.name, product.shape) == ("qkv", Gemm(m=1, n=2, k=3))


@pytest.mark.parametrize(
    ("text", "gemm", "message"),
    [
        ("Layer,M,N,K,\na,1,2,\n", True, "t.csv:2: 2 numbers follow the name; expected 3: M, N, K"),
        ("Layer,M,N,K,\na,1,2,3,\n", False, "t.csv:1: the columns are M, N, K; expected IFMAP height.*with --gemm"),
        ("Layer,M,N,K,\n\na,1,x,3,\n", True, "t.csv:3: N is 'x'; expected a whole number from 1"),
        ("Layer,M,N,K,\na,1,0,3,\n", True, "t.csv:2: N is 0; expected a whole number from 1 to 999999999"),
        ("h\na,3,3,4,1,1,1,1,\n", False, "t.csv:2: filter_height is 4; expected at most the input_height, which is 3"),
        ("Layer,M,N,K,\n", True, "t.csv: no layer follows the heading"),
    ],
)
def test_wrong_topologies_are_errors(text: str, gemm: bool, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_topology(text, "t.csv", gemm)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    configuration, topology = tmp_path / "a.cfg", tmp_path / "t.csv"
    configuration.write_text(CONFIGURATION)
    topology.write_text(CONVOLUTIONS)
    return str(configuration), str(topology)


@pytest.fixture
def systolic(files: tuple[str, str]) -> Callable[..., str]:
    def run(*more: str) -> str:
        done = CliRunner().invoke(astra, ["systolic", "--config", files[0], "--topology", files[1], *more], catch_exceptions=False)
        assert done.exit_code == 0
        return done.output

    return run


def test_the_command_prints_a_table_and_writes_the_reports(systolic: Callable[..., str], tmp_path: Path) -> None:
    printed = systolic("--output", str(tmp_path / "out"))
    assert "Conv1" in printed
    assert "3 reports in" in printed
    lines = (tmp_path / "out" / "COMPUTE_REPORT.csv").read_text().splitlines()
    assert lines[0] == "LayerID, Total Cycles, Stall Cycles, Overall Util %, Mapping Efficiency %, Compute Util %,"
    cycles = 6 * 1 * (2 * 4 + 8 + 48 - 2) - 1
    assert lines[1].startswith(f"0, {cycles}, 0, {100 * 48 * 6 * 24 / (cycles * 32)}, 75.0, ")
    detailed = (tmp_path / "out" / "DETAILED_ACCESS_REPORT.csv").read_text().splitlines()
    assert len(detailed) == 5
    assert detailed[0].startswith("LayerID, SRAM IFMAP Start Cycle, SRAM IFMAP Stop Cycle, SRAM IFMAP Reads, SRAM Filter Start Cycle")
    assert (tmp_path / "out" / "BANDWIDTH_REPORT.csv").read_text().count("\n") == 5


def test_json_is_one_object(systolic: Callable[..., str]) -> None:
    result = json.loads(systolic("--json"))
    assert result["total_cycles"] == sum(layer["total_cycles"] for layer in result["layers"])
    first = result["layers"][0]
    assert (first["name"], first["m"], first["n"], first["k"]) == ("Conv1", 48, 6, 24)
    assert first["stall_cycles"] == 0
    assert first["ofmap_sram_accesses"] == 48 * 6 * 6


def test_one_unit_and_one_product_have_a_report() -> None:
    assert fold_averages(SystolicArray(1, 1, Dataflow.OUTPUT_STATIONARY), Gemm(m=1, n=1, k=1)) == (100.0, 100.0)
