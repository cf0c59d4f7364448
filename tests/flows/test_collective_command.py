"""`astra collective`, `astra calibrate collective`, and the tables of measured collectives that both read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from astra_sim import InputError, Provider, hookimpl
from astra_sim.collective_tables import MeasuredCollective, read_collectives
from astra_sim.command import cli
from astra_sim.platform import GroupShape
from astra_sim.schedule import Collective
from astra_sim.setup.plugins import Plugins
from astra_sim_flows.collective_command import parse_sizes
from astra_sim_network_analytical.nccl import NcclPrices
from astra_sim_network_analytical.nccl_parameters import read_device, read_parameters
from click.testing import CliRunner

SWITCH = "plugin:switch?size=8&links=6&link_bandwidth_gb_per_s=50&link_latency_ns=300"
NCCL = "plugin:analytical?model=nccl&device=a100"
AR = Collective.ALL_REDUCE

NCCL_TESTS = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 4 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid  21 on node device  0 [0x07] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid  21 on node device  1 [0x0f] NVIDIA A100-SXM4-80GB
#  Rank  2 Group  0 Pid  21 on node device  2 [0x47] NVIDIA A100-SXM4-80GB
#  Rank  3 Group  0 Pid  21 on node device  3 [0x4e] NVIDIA A100-SXM4-80GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    15.05    0.07    0.10      0    14.90    0.07    0.10      0
        2048           512     float     sum      -1    15.25    0.13    0.20      0    15.01    0.14    0.20      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.15
"""


def astra(*arguments: str) -> str:
    """What a command prints. Raises what it raises."""
    done = CliRunner().invoke(cli.astra, arguments, catch_exceptions=False, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.output


# -- astra collective --------------------------------------------------------------------------------------------------


def test_it_prints_what_nccl_tests_prints() -> None:
    lines = astra("collective", "--platform", SWITCH, "--network", NCCL, "--sizes", "1MiB..4MiB").splitlines()
    assert lines[0] == "# all_reduce on 8 ranks, simulated"
    assert lines[1].split() == ["#", "size", "time", "algbw", "busbw"]
    time = NcclPrices(read_device("a100")).us(AR, 1 << 20, GroupShape((8, 1), 8))
    size, microseconds, algorithm, bus = map(float, lines[3].split())
    assert size == 1 << 20
    assert microseconds == pytest.approx(time, abs=0.005)
    assert algorithm == pytest.approx((1 << 20) / time / 1e3, abs=0.005)
    assert bus == pytest.approx(algorithm * 1.75, abs=0.01)
    assert len(lines) == 7


@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("network", ["plugin:analytical", "plugin:analytical?congestion=aware", NCCL])
def test_any_network_and_collective(name: str, network: str) -> None:
    result = json.loads(astra("collective", "--platform", SWITCH, "--network", network, "--op", name, "--sizes", "64KiB,1M", "--json"))
    assert [row["bytes"] for row in result["rows"]] == [65536, 1 << 20]
    assert 0 < result["rows"][0]["microseconds"] < result["rows"][1]["microseconds"]
    assert "mean_error" not in result


def test_it_compares_with_what_was_measured(tmp_path: Path) -> None:
    prices, shape = NcclPrices(read_device("a100")), GroupShape((4, 1), 4)
    rows = "".join(f"all_reduce,4,{size},{prices.us(AR, size, shape) * 1.1}\n" for size in (4096, 1 << 20))
    table = tmp_path / "measured.csv"
    table.write_text(f"operation,ranks,bytes,microseconds\n{rows}all_gather,4,4096,9\n")
    arguments = "collective", "--platform", SWITCH, "--network", NCCL, "--ranks", "4", "--measured", str(table)
    result = json.loads(astra(*arguments, "--json"))
    assert [row["bytes"] for row in result["rows"]] == [4096, 1 << 20]
    assert [row["error"] for row in result["rows"]] == pytest.approx([1 / 1.1 - 1] * 2, abs=1e-6)
    assert result["mean_error"] == pytest.approx(1 - 1 / 1.1, abs=1e-6)
    printed = astra(*arguments, "--sizes", "4KiB..8KiB")
    assert printed.splitlines()[3].split()[-1] == "-9.1"
    assert printed.splitlines()[4].split()[-2:] == ["-", "-"]
    assert "Mean absolute error  : 9.09%" in printed


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("8B..32B", [8, 16, 32]), ("1k", [1024]), ("1KiB..3 KiB,5MB", [1024, 2048, 5 << 20]), ("1GiB", [1 << 30])],
)
def test_sizes(text: str, sizes: list[int]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--sizes", "8X"), "--sizes: '8X' is no size"),
        (("--sizes", "0"), "--sizes: '0' is no size"),
        (("--sizes", "2M..1M"), "--sizes: 2M..1M falls"),
        (("--ranks", "9"), "--ranks is 9; the platform has 8 NPUs"),
        (("--measured", "none.csv"), "none.csv"),
    ],
)
def test_what_is_wrong_with_it(arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(InputError, match=why):
        astra("collective", "--platform", SWITCH, *arguments)


def test_measurements_of_something_else_are_an_error(tmp_path: Path) -> None:
    table = tmp_path / "measured.csv"
    table.write_text("operation,ranks,bytes,microseconds\nall_gather,4,4096,9\n")
    with pytest.raises(InputError, match="it has no all_reduce on 8 ranks"):
        astra("collective", "--platform", SWITCH, "--measured", str(table))


# -- Tables ------------------------------------------------------------------------------------------------------------


def test_output_of_nccl_tests() -> None:
    assert read_collectives(NCCL_TESTS, "out.txt") == [MeasuredCollective(AR, 4, 1024, 15.05, 1), MeasuredCollective(AR, 4, 2048, 15.25, 1)]


def test_output_of_older_nccl_tests_needs_to_be_told() -> None:
    text = "\n".join(line for line in NCCL_TESTS.splitlines() if "starting" not in line and "Rank" not in line)
    with pytest.raises(InputError, match="expected --op"):
        read_collectives(text, "out.txt")
    with pytest.raises(InputError, match="expected --ranks"):
        read_collectives(text, "out.txt", Collective.ALL_GATHER)
    assert read_collectives(text, "out.txt", Collective.ALL_GATHER, 2)[0] == MeasuredCollective(Collective.ALL_GATHER, 2, 1024, 15.05)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "t: it has no measured collectives"),
        ("operation,ranks,bytes\n", "t:1: the column microseconds is missing"),
        ("operation,ranks,bytes,seconds\n", "t:1: unknown column 'seconds'"),
        ("operation,ranks,bytes,microseconds\nall_reduce,8,1\n", "t:2: 3 cells"),
        ("operation,ranks,bytes,microseconds\nbroadcast,8,1,1\n", "t:2: operation 'broadcast'"),
        ("operation,ranks,bytes,microseconds\nall_reduce,1,1,1\n", "t:2: ranks is '1'"),
        ("operation,ranks,bytes,microseconds\nall_reduce,8,1.5,1\n", "t:2: bytes is '1.5'"),
        ("operation,ranks,bytes,microseconds\nall_reduce,8,1,nan\n", "t:2: microseconds is 'nan'"),
    ],
)
def test_tables_that_are_wrong(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_collectives(text, "t")


# -- astra calibrate collective ----------------------------------------------------------------------------------------


def table_of(path: Path, sizes: list[int], ranks: tuple[int, ...] = (2, 8)) -> Path:
    """What h100 takes, as a table."""
    prices = NcclPrices(read_device("h100"))
    rows = [(each, size, prices.us(Collective.ALL_GATHER, size, GroupShape((each, 1), each))) for each in ranks for size in sizes]
    path.write_text("operation,ranks,bytes,microseconds\n" + "".join(f"all_gather,{n},{size},{time!r}\n" for n, size, time in rows))
    return path


def test_a_fit_finds_the_times_that_made_the_table(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table.csv", [1 << exponent for exponent in range(10, 31)])
    output = tmp_path / "mine.toml"
    printed = astra("calibrate", "collective", str(table), "--output", str(output), "--title", "my node")
    assert "all_gather on 8 ranks: ll " in printed
    assert re.search(r"error of held-out sizes +[01]\.", printed)
    assert re.search(r"written: fitted to all rows, error on them +[01]\..* 42 rows", printed)
    parameters = read_parameters(str(output))
    assert parameters.title == "my node"
    assert [(fit.operation, fit.ranks) for fit in parameters.fits] == [("all_gather", 2), ("all_gather", 8)]
    mine, source = NcclPrices(parameters), NcclPrices(read_device("h100"))
    for size in (3 << 20, 100 << 20):
        shape = GroupShape((8, 1), 8)
        assert mine.us(Collective.ALL_GATHER, size, shape) == pytest.approx(source.us(Collective.ALL_GATHER, size, shape), rel=0.05)


def test_a_table_can_be_kept_and_interpolated(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table.csv", [1 << exponent for exponent in range(10, 31)])
    output = tmp_path / "mine.toml"
    assert "all_gather on 2 ranks: 21 sizes" in astra("calibrate", "collective", str(table), "--output", str(output), "--interpolate")
    for row in read_collectives(table.read_text(), "table"):
        time = NcclPrices(read_parameters(str(output))).us(row.operation, row.bytes, GroupShape((row.ranks, 1), row.ranks))
        assert time == pytest.approx(row.microseconds, rel=1e-9)


def test_too_few_sizes_are_an_error(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table.csv", [1024, 2048, 4096], ranks=(2,))
    with pytest.raises(InputError, match=r"table.csv: all_gather on 2 ranks: 2 sizes .*expected at least 3"):
        astra("calibrate", "collective", str(table), "--output", str(tmp_path / "x.toml"))
    assert not (tmp_path / "x.toml").exists()


def test_beyond_small_sizes_the_bandwidth_is_bounded_by_nvlink(tmp_path: Path) -> None:
    table = table_of(tmp_path / "table.csv", [1 << exponent for exponent in range(10, 23)])
    output = tmp_path / "mine.toml"
    arguments = ("calibrate", "collective", str(table), "--output", str(output))
    assert "beyond 4194304 bytes: as it rises there, not measured" in astra(*arguments)
    assert all(fit.beyond is None for fit in read_parameters(str(output)).fits)
    printed = astra(*arguments, "--nvlink", "450", "--interpolate")
    assert "beyond 4194304 bytes: 360 GB/s, not measured" in printed
    (fit,) = [fit for fit in read_parameters(str(output)).fits if fit.ranks == 8]
    assert fit.beyond is not None
    assert fit.time_us(1 << 32) == pytest.approx(0.875 * (1 << 32) / 360e3, rel=0.01)
    source = output.read_text()
    assert "fitted to all 26 rows" in source
    assert "fitted to the 14 of even logarithm the others err by" in source


# -- Commands in groups ------------------------------------------------------------------------------------------------


def offering(**commands: click.Command) -> object:
    """A plugin that offers commands in the group `tune`."""
    providers = [Provider(f"tune {name}", f"Tune {name}.", command) for name, command in commands.items()]
    return type("Offering", (), {"astra_commands": staticmethod(hookimpl(lambda: providers, specname="astra_commands"))})()


def test_several_plugins_add_to_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins: Any = Plugins(load_entry_points=False)
    plugins.register(offering(piano=click.Command("piano", callback=lambda: click.echo("la"))), "one")
    assert "tune" not in astra("--help")
    monkeypatch.setattr("astra_sim.setup.plugins.shared_plugins", lambda: plugins)
    assert astra("tune", "piano") == "la\n"
    plugins.register(offering(harp=click.Command("harp", callback=lambda: click.echo("do"))), "two")
    assert astra("tune", "harp") == "do\n"
    assert "Commands: harp, piano" in astra("--help")
    assert "Tune piano." in astra("tune", "--help")
    with pytest.raises(click.UsageError, match="No such command 'drum'"):
        astra("tune", "drum")
