"""`astra calibrate`: fits of devices to measured kernels."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import tomli
from astra_sim import InputError
from astra_sim.command.cli import astra
from astra_sim.compute import Work
from astra_sim.fitting import minimise
from astra_sim.shapes import Attention, Gemm
from astra_sim_compute_gpu.device import read_device
from astra_sim_compute_gpu.fitting import KernelMeasurement, split
from astra_sim_compute_gpu.model import Gpu, GpuOptions
from click.testing import CliRunner


def calibrate(*arguments: str) -> str:
    """The output of the command. Raises what it raises."""
    done = CliRunner().invoke(astra, ["calibrate", *arguments], catch_exceptions=False, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.output


def shapes(count: int) -> list[Gemm]:
    """Random products, all sizes multiples of 64, the same in every run."""
    generator = random.Random(5)
    sizes = [[64 * generator.randint(4, 128) for _ in range(3)] for _ in range(count)]
    return [Gemm(m=m, n=n, k=k) for m, n, k in sizes]


def gemm_table(path: Path, rows: Sequence[Gemm], microseconds: Callable[[Gemm], float]) -> str:
    path.write_text("m,n,k,microseconds\n" + "".join(f"{row.m},{row.n},{row.k},{microseconds(row)!r}\n" for row in rows))
    return str(path)


def test_a_fit_finds_the_device_that_made_the_table(tmp_path: Path) -> None:
    """Times of a device that differs from the one the fit starts from: it comes back with its errors near nothing, and its times."""
    source = Gpu(GpuOptions(device="h200"))
    results = gemm_table(tmp_path / "gemm.csv", shapes(60), lambda shape: source.duration_ns(Work(shape=shape)) / 1000)
    # H100 has H200's peaks and other efficiencies; the memory bandwidth hardly matters to such products.
    output = str(tmp_path / "mine.toml")
    printed = calibrate("gemm", results, "--device", "h100", "--output", output)
    assert "error of held-out shapes  0." in printed
    result, right = read_device(output).gemm_fit("bf16"), source.profile.gemm_fit("bf16")
    assert result.k0 == pytest.approx(right.k0, rel=0.15)
    assert result.small == pytest.approx(right.small, rel=0.03)
    model = Gpu(GpuOptions(device=output))
    for shape in shapes(80)[60:]:
        assert model.duration_ns(Work(shape=shape)) == pytest.approx(source.duration_ns(Work(shape=shape)), rel=0.03)


def test_attention_is_fitted_too(tmp_path: Path) -> None:
    source = Gpu(GpuOptions(device="a100-80"))
    table = tmp_path / "attention.csv"
    lines = ["heads,query_length,key_length,head_size,causal,microseconds"]
    for heads in (8, 64, 200):
        for length in (512, 1024, 4096, 8192, 16384):
            shape = Attention(heads=heads, query_length=length, key_length=length, head_size=128, causal=True)
            lines.append(f"{heads},{length},{length},128,true,{source.duration_ns(Work(shape=shape)) / 1000!r}")
    table.write_text("\n".join(lines) + "\n")
    base, output = tmp_path / "base.toml", str(tmp_path / "mine.toml")
    base.write_text(
        "".join(
            line.replace("half_length = ", "half_length = 9") if line.startswith("half_length") else line
            for line in _device_text("a100-80").splitlines(keepends=True)
        )
    )
    calibrate("attention", str(table), "--device", str(base), "--output", output)
    result, right = read_device(output).attention, source.profile.attention
    assert result.peak_tera_ops_per_s == pytest.approx(right.peak_tera_ops_per_s, rel=0.03)
    assert result.half_length == pytest.approx(right.half_length, rel=0.1)
    assert (result.small_head, result.backward) == (right.small_head, right.backward)


def _device_text(name: str) -> str:
    from importlib import resources

    return (resources.files("astra_sim_compute_gpu") / "devices" / f"{name}.toml").read_text()


def test_a_fitted_file_says_where_its_numbers_come_from(tmp_path: Path) -> None:
    result = gemm_table(tmp_path / "gemm.csv", shapes(12), lambda shape: shape.operations / 400e6)
    output = tmp_path / "mine.toml"
    calibrate("gemm", result, "--device", "mi300x", "--output", str(output))
    table = tomli.loads(output.read_text())
    assert table["calibrated"] is True
    assert result in table["sources"]["gemm.bf16"]
    assert table["attention"] == tomli.loads(_device_text("mi300x"))["attention"]


def test_a_cast_in_the_times_is_fitted_apart(tmp_path: Path) -> None:
    device = read_device("h100")
    model, rows = Gpu(GpuOptions(device="h100", element_type="fp8")), shapes(60)
    lines = ["m,n,k,element_type,cast,microseconds"]
    for shape in rows:
        cast = 20 + 3 * shape.m * shape.k / (0.3 * 3350e3)
        lines.append(f"{shape.m},{shape.n},{shape.k},fp8,yes,{model.duration_ns(Work(shape=shape)) / 1000 + cast!r}")
    table, output = tmp_path / "fp8.csv", str(tmp_path / "mine.toml")
    table.write_text("\n".join(lines))
    calibrate("gemm", str(table), "--device", "h100", "--output", output)
    result = read_device(output)
    assert result.cast.start_us == pytest.approx(20, rel=0.15)
    assert result.cast.efficiency == pytest.approx(0.3, rel=0.2)
    assert result.gemm_fit("bf16") == device.gemm_fit("bf16")


def test_half_of_the_shapes_is_held_out_whatever_the_order() -> None:
    rows = [KernelMeasurement(shape, 1.0) for shape in shapes(31)]
    fitting, held_out = split(rows + rows)
    assert (len(fitting), len(held_out)) == (32, 30)
    assert not {row.text for row in fitting} & {row.text for row in held_out}
    assert {row.text for row in split(rows[::-1])[0]} == {row.text for row in fitting}


def test_the_simplex_finds_a_minimum() -> None:
    """Rosenbrock's valley, whose lowest point is (1, 1)."""
    point, value = minimise(lambda p: 100 * (p[1] - p[0] ** 2) ** 2 + (1 - p[0]) ** 2, [-1.2, 1.0])
    assert value < 1e-5
    assert point == pytest.approx([1, 1], abs=0.01)


ROWS = "".join(f"{64 * size},1024,1024,100\n" for size in range(1, 13))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty; expected a heading with m, n, k, microseconds"),
        ("m,n,k,microseconds\n", "it has a heading and no rows"),
        ("m,n,k,microsecond\n", ":1: unknown column 'microsecond'; did you mean 'microseconds'?"),
        ("m,n,microseconds\n1,1,1\n", ":1: the column k is missing"),
        ("m,n,k,microseconds\n1,1,1\n", ":2: 3 cells under 4 headings; expected one for each"),
        ("# measured\nm,n,k,microseconds\n64,64,x,1\n", ":3: k: 'x' is not a whole number"),
        ("m,n,k,microseconds\n64,64,64,-1\n", ":2: microseconds is '-1'; expected a number above 0"),
        ("m,n,k,microseconds,cast\n64,64,64,1,maybe\n", ":2: cast is 'maybe'; expected yes or no"),
        ("m,n,k,microseconds\n64,64,64,1\n", ": bf16: 1 different shapes; expected at least 10, half of which are held out"),
        (f"m,n,k,microseconds\n{ROWS}8192,8192,8192,1\n", "gemm 1 8192 8192 8192 in 1 us is 1099512 * 10^12 operations/s"),
        (f"m,n,k,element_type,microseconds\n{ROWS.replace(',100', ',fp8,100')}", "NVIDIA A100 SXM4 80 GB has no peak rate for fp8"),
    ],
)
def test_wrong_tables_are_one_clear_error(text: str, message: str, tmp_path: Path) -> None:
    table, output = tmp_path / "table.csv", tmp_path / "mine.toml"
    table.write_text(text)
    with pytest.raises(InputError) as caught:
        calibrate("gemm", str(table), "--device", "a100-80", "--output", str(output))
    assert message in str(caught.value)
    assert "table.csv" in str(caught.value)
    assert not output.exists()
