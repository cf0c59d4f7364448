"""The fitted devices of the gpu compute model against the measured kernels of validation/, half of which were held out."""

from __future__ import annotations

from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.shapes import Gemm
from astra_sim_compute_gpu.device import read_device
from astra_sim_compute_gpu.fitting import KernelMeasurement, split
from astra_sim_compute_gpu.kernel_fits import fit_gemm
from astra_sim_compute_gpu.measured_table import read_attention, read_gemms
from support import ROOT

from validation import kernels

LINES = kernels.read_lines()
ROWS = {row.table.title: row for row in kernels.summary()}


@pytest.mark.parametrize(
    ("title", "bound", "bound_of_large"),
    [
        ("A100, bf16, SGLang 0.5.10", 0.06, 0.04),
        ("A100, bf16, TensorRT-LLM 1.0.0, with the numbers of the line above", 0.11, 0.11),
        ("H100, bf16", 0.05, 0.045),
        ("H100, fp8 with cast", 0.045, 0.04),
        ("H200, bf16", 0.045, 0.045),
        ("H200, fp8 with cast", 0.04, 0.04),
        ("B200, bf16", 0.08, 0.07),
        ("B200, fp8 with cast", 0.06, 0.055),
        ("A100, flash attention, causal, d = 128", 0.06, 0.045),
        ("H100, flash attention", 0.13, 0.12),
        ("H200, flash attention", 0.12, 0.11),
        ("GB200, cuDNN attention, forward and backward, bf16", 0.07, 0.07),
        ("GB200, cuDNN attention, forward and backward, fp8", 0.1, 0.1),
        ("GB300, cuDNN attention, forward and backward, bf16", 0.06, 0.06),
        ("GB300, cuDNN attention, forward and backward, fp8", 0.08, 0.08),
    ],
)
def test_errors_of_what_was_held_out(title: str, bound: float, bound_of_large: float) -> None:
    row = ROWS[title]
    assert row.held_out.rows >= (8 if "cuDNN" in title else 18)
    assert row.held_out.mean < bound
    assert row.held_out_large.mean < bound_of_large


def test_the_page_shows_what_the_script_prints() -> None:
    page = (ROOT / "validation" / "KERNELS.md").read_text(encoding="utf-8").splitlines()
    for printed in kernels.markdown(list(ROWS.values()))[2:]:
        assert sum(line.startswith(printed) for line in page) == 1, printed


def test_the_fit_to_the_recorded_half_gives_the_numbers_of_the_device_file() -> None:
    (table,) = (table for table in kernels.TABLES if table.title == "H100, bf16")
    device = read_device("h100")
    result = fit_gemm(device, "bf16", [kernels.measurement_of(line) for line in LINES if table.has(line)])
    assert {name: getattr(device.gemm_fit("bf16"), name) for name in result.values} == pytest.approx(result.values, rel=1e-3)
    assert (result.fitted.mean, result.held_out.mean) == pytest.approx((ROWS[table.title].fitted.mean, ROWS[table.title].held_out.mean))


# -- The halves ---------------------------------------------------------------------------------------------------------


def test_every_line_has_a_source_and_a_half() -> None:
    assert len(LINES) == 976
    for line in LINES:
        assert set(line["source"]) >= {"repo", "path", "commit"}
        assert line["half"] in kernels.HALVES
        assert (line["half"] != kernels.NONE) == any(table.is_fitted and table.has(line) for table in kernels.TABLES)
    assert kernels.assign_halves(LINES) == LINES


def test_the_recorded_halves_are_those_of_the_rule() -> None:
    """Those of the first tables by the order of hashes; tables that came later by the hash of each shape alone."""
    for table in (table for table in kernels.TABLES if table.is_fitted):
        measured = [kernels.measurement_of(line) for line in LINES if table.has(line)]
        if "cuDNN" in table.title:
            assert [line["half"] for line in LINES if table.has(line)] == [kernels.half_of(row.text) for row in measured]
            continue
        undecided = split([KernelMeasurement(row.shape, row.microseconds, row.cast) for row in measured])
        assert [[row.text for row in side] for side in split(measured)] == [[row.text for row in side] for side in undecided]


def test_lines_that_come_later_change_no_half() -> None:
    def line(m: int, **half: str) -> dict[str, Any]:
        first = next(line for line in LINES if line["half"] == kernels.FIT and line["what"] == "gemm")
        return {key: value for key, value in {**first, "m": m}.items() if key != "half"} | half

    known = line(64, half=kernels.HELD_OUT)
    new = [line(64), *(line(64 * count) for count in range(2, 34))]
    assign_halves = kernels.assign_halves([known, *new])
    assert assign_halves[0] == known
    assert assign_halves[1]["half"] == kernels.HELD_OUT  # its shape is held out already
    assert {half["half"] for half in assign_halves[2:]} == {kernels.FIT, kernels.HELD_OUT}
    assert kernels.assign_halves([known, *new[:5]]) == assign_halves[:6]
    assert kernels.assign_halves([{**line(64), "gpu": "Gaudi 2"}])[0]["half"] == kernels.NONE


# -- Tables that say what is held out -----------------------------------------------------------------------------------


def rows(*sides: bool | None) -> list[KernelMeasurement]:
    return [KernelMeasurement(Gemm(m=64 * number, n=64, k=64), 1.0, held_out=side) for number, side in enumerate(sides, 1)]


def test_a_table_may_say_what_is_held_out() -> None:
    text = "m,n,k,microseconds,held_out\n" + "".join(f"{m},64,64,1,{'yes' if m < 600 else 'no'}\n" for m in range(100, 1100, 100))
    (measured,) = read_gemms(text, "t.csv").values()
    fitting, held_out = split(measured)
    assert [row.shape.operations // (2 * 64 * 64) for row in held_out] == [100, 200, 300, 400, 500]
    assert len(fitting) == 5
    heading = "heads,query_length,key_length,head_size,microseconds,held_out\n"
    (measured,) = read_attention(heading + "8,64,64,64,1,yes\n8,128,128,64,1,no\n", "t.csv").values()
    assert [row.held_out for row in measured] == [True, False]


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        (rows(*[True] * 5, *[False] * 5, None), "held_out is given for some rows and not for others"),
        (rows(*[True] * 5, *[False] * 5) + rows(False), "gemm 1 64 64 64 is held out in one row and fitted in another"),
        (rows(*[True] * 9, *[False] * 4), "4 shapes are fitted; expected at least 5"),
        (rows(*[True] * 4, *[False] * 9), "4 shapes are held out; expected at least 5"),
    ],
)
def test_sides_that_make_no_fit_are_errors(measured: list[KernelMeasurement], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(measured)


def test_a_side_that_is_neither_yes_nor_no_is_an_error() -> None:
    with pytest.raises(InputError, match=r"t\.csv:2: held_out is 'maybe'; expected yes or no"):
        read_gemms("m,n,k,microseconds,held_out\n64,64,64,1,maybe\n", "t.csv")
