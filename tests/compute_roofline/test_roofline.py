"""The roofline model: operations and bytes to time."""

from __future__ import annotations

from typing import Any

import astra_sim
import pytest
from astra_sim import InputError
from astra_sim.compute import MissingWork, Work
from astra_sim.options import structure
from astra_sim.shapes import Convolution, Gemm
from astra_sim_compute_roofline.roofline import Roofline, RooflineOptions
from astra_sim_devkit.testing.contracts import ComputeContract


class TestRoofline(ComputeContract):
    name = "roofline"
    options = {"peak_tera_ops_per_s": 10, "memory_bandwidth_gb_per_s": 100}  # noqa: RUF012


class TestRooflineOfAstra2(TestRoofline):
    options = {**TestRoofline.options, "rule": "astra2"}  # noqa: RUF012


def model(**options: object) -> Roofline:
    return Roofline(structure(RooflineOptions, options, "roofline"))


def half_above_a_million(operations: float) -> float:
    return 1.0 if operations <= 1e6 else 0.5


def test_the_longer_of_computing_and_reading_counts() -> None:
    machine = model(peak_tera_ops_per_s=1, memory_bandwidth_gb_per_s=10)
    assert machine.duration_ns(Work(None, 1e6, 1e3)) == 1000
    assert machine.duration_ns(Work(None, 1e6, 1e5)) == 10_000


def test_a_shape_gives_operations_and_bytes() -> None:
    shape = Gemm(m=100, n=200, k=300)
    machine = {"memory_bandwidth_gb_per_s": 1, "peak_tera_ops_per_s": 1000}
    elements = 100 * 300 + 300 * 200 + 100 * 200
    assert model(**machine).duration_ns(Work(shape=shape)) == 2 * elements
    assert model(**machine, element_type="fp32").duration_ns(Work(shape=shape)) == 4 * elements
    assert model(peak_tera_ops_per_s=1).duration_ns(Work(shape=shape)) == 2 * 100 * 200 * 300 / 1000
    # A convolution reads its input once, however many windows an element is in.
    window = Convolution(input_height=10, input_width=10, filter_height=3, filter_width=3, channels=4, filters=8)
    assert model(**machine).duration_ns(Work(shape=window)) == 2 * (10 * 10 * 4 + 9 * 4 * 8 + 8 * 8 * 8)


def test_what_a_workload_gives_goes_before_its_shape() -> None:
    assert model(peak_tera_ops_per_s=1).duration_ns(Work(None, 5000, None, Gemm(m=100, n=200, k=300))) == 5


def test_the_peak_may_depend_on_the_element_type() -> None:
    peaks = {"fp16": 312, "fp32": 19.5}
    assert model(peak_by_type=peaks, element_type="fp32").duration_ns(Work(None, 19.5e6)) == 1000
    assert model(peak_by_type=peaks).duration_ns(Work(None, 312e6)) == 1000
    assert model(peak_by_type=peaks, element_type="int8", peak_tera_ops_per_s=624).duration_ns(Work(None, 624e6)) == 1000


def test_efficiency_follows_a_table_over_the_logarithm_of_the_size() -> None:
    table = [{"operations": 1e6, "efficiency": 0.1}, {"operations": 1e8, "efficiency": 0.5}]
    machine = model(peak_tera_ops_per_s=1, efficiency_table=table)
    assert machine.duration_ns(Work(None, 1e5)) == 1000  # before the first point: 0.1
    assert machine.duration_ns(Work(None, 1e6)) == 10_000
    assert machine.duration_ns(Work(None, 1e7)) == round(1e4 / 0.3)
    assert machine.duration_ns(Work(None, 1e9)) == 2_000_000  # behind the last: 0.5
    assert model(peak_tera_ops_per_s=1, efficiency_table=table, efficiency=0.5).duration_ns(Work(None, 1e6)) == 20_000


def test_efficiency_may_be_a_function() -> None:
    machine = Roofline(RooflineOptions(peak_tera_ops_per_s=1), efficiency=half_above_a_million)
    assert machine.duration_ns(Work(None, 1e6)) == 1000
    assert machine.duration_ns(Work(None, 2e6)) == 4000


def test_the_rule_of_astra_sim_2_cuts_to_nanoseconds() -> None:
    # 1 TFLOPS and 50 * 10^9 bytes/s: 1 000 000 operations on 10 000 000 bytes take 200 us there.
    machine = {"peak_tera_ops_per_s": 1, "memory_bandwidth_gb_per_s": 50, "rule": "astra2"}
    assert model(**machine).duration_ns(Work(None, 1_000_000, 10_000_000)) == 200_000
    assert model(**machine).duration_ns(Work(None, 1_999_999, 1)) == 1999
    assert model(**{**machine, "rule": "roofline"}).duration_ns(Work(None, 1_999_999, 1)) == 2000
    assert model(**machine).duration_ns(Work(None, 0, 0)) == 0
    with pytest.raises(MissingWork, match="operations on 0 bytes"):
        model(**machine).duration_ns(Work(None, 10, 0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"peak_tera_ops_per_s": 1}, r"memory_bandwidth_gb_per_s \(local-mem-bw\) is missing; the rule astra2 needs it"),
        ({"memory_bandwidth_gb_per_s": 1}, r"peak_tera_ops_per_s \(peak-perf\) is missing; the rule astra2 needs it"),
    ],
)
def test_the_rule_astra2_needs_both_rates_where_something_computes(options: dict[str, Any], message: str) -> None:
    result = model(**options, rule="astra2")
    with pytest.raises(MissingWork, match=message):
        result.duration_ns(Work(None, 1, 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "peak_tera_ops_per_s is missing, and peak_by_type has no fp16"),
        ({"peak_by_type": {"fp61": 1}}, "peak_by_type has 'fp61'; known: fp64"),
        ({"peak_by_type": {"fp16": 0}}, "fp16 is 0; expected a number above 0"),
        ({"peak_tera_ops_per_s": 1, "element_type": "fp15"}, "element_type is 'fp15'"),
        (
            {"peak_tera_ops_per_s": 1, "efficiency_function": "os:_exit"},
            "efficiency_function is 'os:_exit'; expected the name of a function of",
        ),
        (
            {"peak_tera_ops_per_s": 1, "efficiency_table": [{"operations": 2, "efficiency": 1}, {"operations": 2, "efficiency": 1}]},
            "efficiency_table has operations 2, 2; expected each more than the one before",
        ),
        ({"peak_tera_ops_per_s": 1, "efficiency_table": [{"operations": 2, "efficiency": 2}]}, "efficiency is 2; expected at most 1"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        model(**options)


def test_work_without_figures_is_an_error_that_names_the_layer() -> None:
    workload = {"plugin": "layers", "loop": "data", "layers": [{"name": "first", "forward": {"compute_ns": 5}}]}
    with pytest.raises(InputError, match="layer first, forward: it has no operations and no shape"):
        astra_sim.simulate(
            workload=workload,
            platform="plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=50",
            compute="plugin:roofline?peak_tera_ops_per_s=1",
        )
