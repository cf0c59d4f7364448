"""A measured server: the same requests, kernels from tables, nothing fitted. The procedure: validation/serving.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from astra_sim_serving import serve
from astra_sim_serving.comparison import compare
from astra_sim_serving.experiment import ServingExperiment
from support import ROOT
from support.references import FULL

from validation import paged_attention, servers, serving_kernels, serving_mlperf

PAGE = ROOT / "validation" / "serving.md"
RUN = "RTXPRO6000/Llama-3.1-8B"
REFERENCE = ROOT.parent / "shared" / "reference"
BOUNDS = {"ttft": 0.06, "tpot": 0.03, "e2e": 0.04, "makespan": 0.03}


def test_a_measured_server_of_an_8b_model() -> None:
    requests, tables = (str(REFERENCE / name) for name in ("serving.jsonl", "serving-profiles.jsonl"))
    if not REFERENCE.exists():
        pytest.skip("the measured requests are not beside the project")
    experiment: dict[str, Any] = {
        "serving": {
            "max_sequences": 128,
            "max_batched_tokens": 2048,
            "block_tokens": 16,
            "memory_gib": 96,
            "model": {"name": "llama-3.1-8b"},
            "requests": {"arrival": "trace", "trace": requests, "run": RUN},
        },
        "compute": {"tables": tables, "run": RUN},
    }
    result, errors = compare(ServingExperiment(experiment), requests)
    assert len(result.sequences) == 300
    means = {row["metric"]: row["error"] for row in errors["rows"] if row["statistic"] in ("mean", "")}
    assert set(means) == set(BOUNDS)
    for metric, bound in BOUNDS.items():
        assert abs(means[metric]) < bound, (metric, means)
    assert errors["per_request"]["e2e"] < 0.04
    page = (ROOT / "validation" / "serving.md").read_text()
    assert f"| TPOT, mean (ms) | 32.46 | 32.67 | {100 * means['tpot']:+.1f} % |" in page


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    if not REFERENCE.exists():
        pytest.skip("the measurements are not beside the project")
    return servers.lines_of(REFERENCE / "serving.jsonl")


@pytest.mark.parametrize(("system", "bound"), [("h100_sxm", 0.12), ("h200_sxm", 0.22), ("b200_sxm", 0.12), ("a100_sxm", 0.18)])
def test_kernels_of_attention_that_were_not_fitted(system: str, bound: float, lines: list[dict[str, Any]]) -> None:
    compute = paged_attention.device_of(system)
    fit = compute.profile.paged_attention
    assert fit is not None
    mean, absolute = paged_attention.error_of(compute, paged_attention.attention_lines(lines, system, "generation_attention"), fit)
    assert absolute < bound
    page = (ROOT / "validation" / "serving.md").read_text()
    row = f"| {system} | {fit.start_us:g} | {fit.wave_us:g} | {fit.byte_efficiency:g} | {100 * mean:+.1f} % | {100 * absolute:.1f} % |"
    assert row in page


def test_the_numbers_of_a_device_are_those_of_the_half_that_fits(lines: list[dict[str, Any]]) -> None:
    compute = paged_attention.device_of("b200_sxm")
    assert (
        paged_attention.fitted(compute, paged_attention.attention_lines(lines, "b200_sxm", "generation_attention"))
        == compute.profile.paged_attention
    )


@pytest.mark.parametrize("systems", serving_kernels.GENERATIONS, ids=lambda systems: "-".join(systems.values()))
def test_kernels_of_servers(systems: Mapping[str, str], lines: list[dict[str, Any]]) -> None:
    """Device files have what all lines give, and the page errors of a fit to half of them; of all-reduces alone without FULL."""
    kernels = [line for line in lines if line["kind"] == "kernel"]
    found = list(serving_kernels.fitted(kernels, systems) if FULL else serving_kernels.fitted_all_reduces(kernels, systems))
    for table, fit, of_half, measured in found:
        for system in systems:
            inference: Any = paged_attention.device_of(system).profile.inference
            kind, _, element_type = table.partition(".")
            assert (getattr(inference, kind)[element_type] if element_type else inference.all_reduce) == fit
        mean, absolute = serving_kernels.mean_errors(measured, of_half)
        row = f"| {', '.join(systems.values())} | {table} | {len(measured)} | {100 * mean:+.1f} % | {100 * absolute:.1f} % |"
        assert row in PAGE.read_text()


@pytest.mark.parametrize(("system", "title", "bound"), [("h100_sxm", "H100", 0.3), ("h200_sxm", "H200", 0.3), ("b200_sxm", "B200", 0.5)])
def test_latent_attention_of_prompts(system: str, title: str, bound: float, lines: list[dict[str, Any]]) -> None:
    times = serving_kernels.latent_prompts(lines, paged_attention.device_of(system), system)
    errors = [simulated / measured - 1 for simulated, measured in times]
    absolute = sum(map(abs, errors)) / len(errors)
    assert absolute < bound
    figures = rf"{title} {100 * sum(errors) / len(errors):+.1f} % \({len(errors)}(?: lines)?, {100 * absolute:.1f} %"
    assert re.search(figures.replace("+", r"\+"), " ".join(PAGE.read_text().split()))


def test_experts_that_tokens_choose_unevenly(lines: list[dict[str, Any]]) -> None:
    """Where several ranks share them the fullest decides."""
    kernels = [line for line in lines if line["kind"] == "kernel"]
    page = " ".join(PAGE.read_text().split())
    for several, above, title in ((True, 256, "several ranks, more than 256 tokens"), (None, 0, "all")):
        found = [times for is_shared, *times in serving_kernels.uneven_experts(kernels, above) if several in (None, is_shared)]
        chance, power = ([times[place] / times[2] - 1 for times in found] for place in (0, 1))
        by_chance, by_power = ((100 * sum(each) / len(found), 100 * sum(map(abs, each)) / len(found)) for each in (chance, power))
        assert by_power[1] < by_chance[1]
        figures = [f"{mean:+.1f} %, {absolute:.1f} %" for mean, absolute in (by_chance, by_power)]
        assert f"| {title} | {len(found)} | {figures[0]} | {figures[1]} |" in page


def test_servers_without_tables(lines: list[dict[str, Any]]) -> None:
    errors: dict[str, list[float]] = {}
    page = (ROOT / "validation" / "serving.md").read_text()
    for own in servers.servers(lines).values():
        result = serve(servers.experiment_of(own[0]["config"], 24.0))
        for line in own:
            if line["statistic"] == "mean" and line["stage"] == -1:
                simulated = servers.mean_ms(result, line["metric"])
                error = simulated / line["value"] - 1
                errors.setdefault(line["metric"], []).append(abs(error))
                assert f" {100 * error:+.1f} %" in page
                if line["metric"] == "ttft":
                    assert abs(error) < 0.2 or abs(simulated - line["value"]) < 15
    assert sum(errors["e2e"]) / 6 < 0.04
    assert sum(errors["itl"]) / 6 < 0.08


@pytest.mark.parametrize("gpu", ["a100-80gb", "h100-80gb"])
def test_iterations_with_a_constant_of_the_host(gpu: str, lines: list[dict[str, Any]]) -> None:
    compared = servers.iterations(lines, gpu)
    assert row_of(f"iterations {gpu}", compared, (0.0,), bound=0.15) in PAGE.read_text()


@pytest.mark.parametrize(("hardware", "framework"), servers.ENGINES)
def test_static_batches_with_two_constants(hardware: str, framework: str, lines: list[dict[str, Any]]) -> None:
    compared = servers.static_batches(lines, hardware, framework)
    assert row_of(f"{hardware} {framework}", compared, servers.SEQUENCES, bound=0.2) in PAGE.read_text()


def test_logs_of_mlperf(lines: list[dict[str, Any]]) -> None:
    """Their TPOT at their rates, and with a host that is fitted to one of them; with FULL also the ratios of scenarios, and the fit."""
    page = PAGE.read_text()
    for gpu, scenario, measured, simulated in serving_mlperf.logged(lines, serving_mlperf.HOST_US):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {gpu} {scenario}, TPOT (ms) | {measured:.1f} |")]
        assert row.endswith(f"| {simulated:.1f} | {100 * (simulated / measured - 1):+.1f} % |")
    if FULL:
        assert serving_mlperf.fitted_host(lines) == serving_mlperf.HOST_US
        for each in serving_mlperf.ratios(lines, 273):
            assert f"| {each.gpu} {each.scenario} | {each.measured:.3f} | {each.simulated:.3f} | {100 * each.error:+.1f} % |" in page


def row_of(name: str, compared: list[servers.Compared], sequences: Iterable[float], bound: float) -> str:
    """The row of the page, of errors on the half that is not fitted."""
    host = servers.fitted_host(compared, servers.HOSTS, sequences)
    held_out = [line for line in compared if not line.fits]
    error = servers.mean_error(held_out, *host)
    assert error < bound
    without = f"{100 * servers.mean_error(held_out):.1f} %"
    return f"| {name} | {len(compared)} | {without} | {host[0]:g}, {host[1]:g} | {100 * error:.1f} % |"


def test_transfers_of_sizes_that_were_not_fitted(lines: list[dict[str, Any]]) -> None:
    latency, bandwidth, compared = servers.transfers(lines)
    errors = [abs(line.error()) for line in compared if not line.fits]
    mean = sum(errors) / len(errors)
    assert mean < 0.06
    figures = f"the others err by {100 * mean:.1f} %, {100 * max(errors):.1f} % at most"
    assert f"{latency / 1e3:.2f} ms and {bandwidth} GB/s fit every second size; {figures}" in " ".join(PAGE.read_text().split())


def test_throughput_with_nothing_fitted(lines: list[dict[str, Any]]) -> None:
    throughputs = servers.throughputs(lines)
    errors = [line.error() for line in throughputs]
    mean, least, most = (
        f"{100 * value:{sign}.1f} %" for value, sign in ((servers.mean_error(throughputs), ""), (min(errors), "+"), (max(errors), "+"))
    )
    assert servers.mean_error(throughputs) < 0.15
    text = " ".join(PAGE.read_text().split())
    assert f"{len(throughputs)} lines, nothing fitted: {mean} in the mean, from {least.removesuffix(' %')} to {most}" in text
