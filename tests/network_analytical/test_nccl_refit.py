"""Fits of NCCL: which rows they are of, and what holds beyond the sizes that were measured."""

from __future__ import annotations

import attrs
import pytest
from astra_sim import InputError
from astra_sim.collective_tables import MeasuredCollective
from astra_sim.platform import GroupShape
from astra_sim.schedule import Collective
from astra_sim_network_analytical.nccl import NcclPrices
from astra_sim_network_analytical.nccl_devices import device_names, device_tables
from astra_sim_network_analytical.nccl_fit import NcclNode, bandwidth_beyond, calibrated, fits_of, is_fitted, tables_of
from astra_sim_network_analytical.nccl_parameters import NcclParameters, parameters_of, read_device, ring_share
from astra_sim_network_analytical.options import AnalyticalOptions

AR, AG = Collective.ALL_REDUCE, Collective.ALL_GATHER
MIB = 1 << 20


def rows(operation: Collective, ranks: int, largest: int, latency: float = 10, gb_per_s: float = 100) -> list[MeasuredCollective]:
    """Measurements of a straight line, sizes from 1 KiB on that double."""
    sizes = [1 << exponent for exponent in range(10, largest.bit_length())]
    share = ring_share(operation, ranks) / 1e3 / gb_per_s
    return [MeasuredCollective(operation, ranks, size, latency + share * size) for size in sizes]


# -- Which rows -----------------------------------------------------------------------------------------------------------


def test_for_use_are_all_rows_and_the_error_is_of_half() -> None:
    # Held-out times are twice the fitted ones: only what has seen them can be near them.
    measured = [row if is_fitted(row) else MeasuredCollective(AR, 8, row.bytes, 2 * row.microseconds) for row in rows(AR, 8, 512 * MIB)]
    result = calibrated(measured, lambda part: tables_of(part, NcclNode()))
    assert [len(fit.bytes) for fit in result.fits] == [20]
    assert [len(fit.bytes) for fit in result.half] == [10]
    assert result.used(AR).rows == 20
    assert result.fitted(AR).mean == pytest.approx(0)
    assert 0.3 < result.held_out(AR).mean < 0.6
    assert (result.held_out(AR).rows, result.held_out(AR, MIB).rows) == (10, 5)
    assert result.used(AR).mean < result.held_out(AR).mean
    assert result.source(AR).startswith("fitted to all 20 rows, error ")
    assert "; fitted to the 10 of even logarithm the others err by " in result.source(AR)


def test_times_of_a_table_that_fall_are_levelled() -> None:
    measured = [MeasuredCollective(AR, 8, size, time) for size, time in ((8, 16.0), (16, 4.0), (32, 20.0), (64, 18.0), (128, 30.0))]
    (fit,) = tables_of(measured, NcclNode())
    assert fit.microseconds == pytest.approx((8, 8, 360**0.5, 360**0.5, 30))
    again = {"operation": "all_reduce", "ranks": 8, "bytes": list(fit.bytes), "microseconds": list(fit.microseconds)}
    assert parameters_of({"title": "t", "calibrated": True, "fits": [again]}, "t").fits[0].microseconds == fit.microseconds


def test_a_size_of_a_table_that_stands_there_twice_is_an_error() -> None:
    with pytest.raises(InputError, match="all_reduce on 8 ranks: 8 bytes occur twice; expected each size once"):
        tables_of([MeasuredCollective(AR, 8, 8, 1.0)] * 2, NcclNode())


# -- Beyond the sizes that were measured --------------------------------------------------------------------------------


def test_ratios_say_what_large_sizes_reach() -> None:
    # All-gathers gain half as much again from 2 to 4 ranks, so all-reduces do.
    result = [*rows(AR, 2, 512 * MIB, 0, 100), *rows(AG, 2, 512 * MIB, 0, 80), *rows(AG, 4, 512 * MIB, 0, 120), *rows(AR, 4, 16 * MIB)]
    assert bandwidth_beyond(AR, 4, result, NcclNode()) == pytest.approx(150)
    assert bandwidth_beyond(AR, 4, result, NcclNode(nvlink_gb_per_s=110)) == pytest.approx(110)
    assert bandwidth_beyond(AR, 4, result, NcclNode(nvls=True, nvlink_gb_per_s=96)) == pytest.approx(1.5 * 96)
    assert bandwidth_beyond(AG, 8, result, NcclNode()) == pytest.approx((80 * 120) ** 0.5)
    assert bandwidth_beyond(Collective.ALL_TO_ALL, 4, result, NcclNode()) == pytest.approx(120)


def test_nvlink_says_it_where_nothing_else_does() -> None:
    result = rows(AR, 4, 16 * MIB)
    assert bandwidth_beyond(AR, 4, result, NcclNode()) is None
    assert bandwidth_beyond(AR, 4, result, NcclNode(nvlink_gb_per_s=450)) == pytest.approx(0.8 * 450)


@pytest.mark.parametrize("make", [fits_of, tables_of])
def test_beyond_the_largest_size_the_bandwidth_is_that_of_others(make: object) -> None:
    result = [*rows(AG, 8, 512 * MIB, 5, 300), *rows(AR, 8, 4 * MIB, 20, 30)]
    fits = fits_of(result, NcclNode()) if make is fits_of else tables_of(result, NcclNode())
    fit = next(each for each in fits if each.operation == AR)
    assert fit.beyond is not None
    assert next(each for each in fits if each.operation == AG).beyond is None
    at, more = fit.time_us(4 * MIB), fit.time_us(1024 * MIB)
    assert at == pytest.approx(20 + 1.75 * 4 * MIB / 30e3, rel=0.05)
    assert more - at == pytest.approx(1.75 * 1020 * MIB / fit.beyond.gb_per_s / 1e3, rel=0.02)
    assert fit.beyond.gb_per_s == pytest.approx(300, rel=0.02)
    prices = NcclPrices(NcclParameters(title="t", calibrated=True, fits=tuple(fits)), (0, 50))
    assert prices.us(AR, 1024 * MIB, GroupShape((8, 1), 8)) == pytest.approx(more)
    assert prices.us(AR, 1024 * MIB, GroupShape((16, 2, 1), 8)) == pytest.approx(more * 15 / 14, rel=0.02)


def test_large_sizes_speak_for_themselves() -> None:
    result = [*rows(AG, 8, 512 * MIB, 5, 300), *rows(AR, 8, 64 * MIB, 20, 30)]
    assert all(fit.beyond is None for fit in tables_of(result, NcclNode(nvlink_gb_per_s=450)))


# -- NVLS on other numbers of ranks, and named tables -------------------------------------------------------------------


def test_nvls_gives_and_takes_as_much_on_any_number_of_ranks() -> None:
    fit = {"operation": "all_reduce", "ranks": 4, "nvls": {"latency_us": 30.0, "gb_per_s": 150.0}}
    prices = NcclPrices(parameters_of({"title": "t", "calibrated": True, "fits": [fit]}, "t"), (0, 50))
    times = [prices.us(AR, 1e9, GroupShape((ranks, 1), ranks)) for ranks in (4, 8, 72)]
    # Those of 72 wait for two loops of 16 channels * 72 chunks of 64 KiB, where 4 have chunks of 128 KiB, and 8 less than that.
    loops = [16 * 4 * 128 * 1024, 16 * 8 * 64 * 1024, 16 * 72 * 64 * 1024]
    assert times == pytest.approx([30 + 1e9 / 100e3 + 2 * (loop - loops[0]) / 100e3 for loop in loops])
    # Two nodes send the bytes once through 8 NICs of 50 * 0.95; more nodes send them twice. A level of a tree takes 41.8 us, by NCCL's
    # tuning model.
    two, many = (prices.us(AR, 1e10, GroupShape((8 * nodes, nodes, 1), 8)) for nodes in (2, 64))
    # The fit has 4 ranks, and nodes have 8, each with 16 chunks of 128 KiB on its way; from 4 nodes on of 64 KiB.
    chunks = 4 * 16 * 64 * 1024 / 1e10
    assert two == pytest.approx(30 + 41.8 + (1 + 4 * chunks) * 1e10 / 100e3)
    assert many == pytest.approx(30 + 6 * 41.8 + (1 + 2 * chunks) * 1e10 / 100e3)
    four = NcclPrices(parameters_of({"title": "t", "calibrated": True, "fits": [fit]}, "t"), (0, 12.5)).us(
        AR, 1e10, GroupShape((32, 4, 1), 8)
    )
    assert four == pytest.approx(30 + 2 * 41.8 + (1 + 2 * chunks) * 2e10 / (8 * 12.5 * 0.95e3))
    slow = NcclPrices(parameters_of({"title": "t", "calibrated": True, "fits": [fit]}, "t"), (0, 5))
    assert slow.us(AR, 1e10, GroupShape((16, 2, 1), 8)) == pytest.approx(30 + 41.8 + (1 + 4 * chunks) * 1e10 / (8 * 5 * 0.95e3))


def test_a_device_is_its_newest_version() -> None:
    assert read_device("h100") == read_device("h100-2.29.2")
    assert read_device("h100-2.27.3").title == "H100-SXM5-80GB, NCCL 2.27.3"
    assert device_names() == ["a100", "b200", "b300", "gb200", "gb300", "h100", "h200"]
    assert device_tables().index("b200-2.27.5") < device_tables().index("b200-2.28.9") < device_tables().index("b200-2.29.2")
    with pytest.raises(InputError, match=r"device is 'h100-2\.29'; .*h100-2\.29\.2"):
        read_device("h100-2.29")


def test_the_option_says_which_versions_there_are() -> None:
    (field,) = [field for field in attrs.fields(AnalyticalOptions) if field.name == "device"]
    assert f"({', '.join(device_tables())})" in field.metadata["help"]


def test_what_is_measured_of_trees_does_not_choose_them() -> None:
    """NCCL takes NVLS by its own estimate, even where it turns out slower than a tree without."""
    protocols = {"simple": {"latency_us": 30.0, "gb_per_s": 600.0}, "nvls": {"latency_us": 30.0, "gb_per_s": 900.0}}
    fit = {"operation": "all_reduce", "ranks": 8, **protocols}

    def us(**between: float) -> float:
        parameters = parameters_of({"title": "t", "calibrated": True, "fits": [fit], "between_nodes": between}, "t")
        return NcclPrices(parameters, (0, 400)).us(AR, 1e10, GroupShape((64, 8, 1), 8))

    assert us(nvls_gb_per_s=100.0) == pytest.approx(us() * 1e10 / 50e3 / (1.75 * 1e10 / 900e3), rel=0.01)


def test_eight_gb200_are_told_by_other_devices_of_blackwell() -> None:
    for device in ("gb200", "gb300"):
        for operation in Collective:
            mine, theirs = (read_device(name).fit(operation, 8) for name in (device, "b300"))
            assert mine.ranks == 8
            at = [512 * MIB, 64 * MIB]
            assert [mine.time_us(size) for size in at] == pytest.approx([theirs.time_us(size) for size in at], rel=0.1)
