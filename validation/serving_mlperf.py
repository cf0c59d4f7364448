"""Servers of MLPerf Inference 5.1 against formulas: rates under limits of latency over the rate of all requests at once.

`python -m validation.serving_mlperf ../shared/reference/serving.jsonl` prints them. The procedure: validation/serving.md.
"""

from __future__ import annotations

import statistics
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from astra_sim_serving import serve

from validation.servers import TENSORRT_LLM, lines_of

LIMITS: Mapping[str, Mapping[str, float]] = {
    "Server": {"ttft_ms": 2000.0, "tpot_ms": 200.0},
    "Interactive": {"ttft_ms": 450.0, "tpot_ms": 40.0},
}
"""Of 99 % of the requests (rules of MLPerf Inference for Llama 2 70B)."""

GPUS: Mapping[str, tuple[str, str]] = {"H200-SXM": ("h200", "fp8"), "B200-SXM": ("b200", "nvfp4"), "GB200-NVL72": ("gb200", "nvfp4")}
"""The device, and the type of the weights that the lines give."""

LOGGED: Mapping[str, int] = {"B200-SXM": 8, "GB200-NVL72": 4}
"""GPUs of the machines whose logs give latencies."""

ANSWERS = {"distribution": "lognormal", "mean": 273, "sigma": 0.6, "maximum": 1024}
"""Tokens over requests of the logs on B200, and their latency at p99 over the mean."""

HOST_US = 14_000
"""What `fitted_host` gives."""

AT_ONCE, UNDER_LIMITS = 24_576, 10_000
"""Requests: the samples of the data set, and those of a run with a rate."""

_PRECISION = 1.02


@attrs.frozen
class Ratio:
    """Tokens a second under the limits of a scenario, over those of all requests at once: the median of all submitters, and simulated."""

    gpu: str
    scenario: str
    systems: int
    measured: float
    simulated: float

    @property
    def error(self) -> float:
        """The relative error."""
        return self.simulated / self.measured - 1


def measured(lines: Iterable[Mapping[str, Any]], gpu: str) -> dict[str, list[float]]:
    """Tokens a second of a GPU, by scenario: Llama 2 70B of TensorRT-LLM on machines with eight GPUs."""
    result: dict[str, list[float]] = {}
    for line in lines:
        config = line.get("config", {})
        if line["group"] != "mlperf-5.1" or not config["model"].startswith("llama2-70b") or config["gpus"] != 8:
            continue
        if config["gpu"].startswith(f"NVIDIA {gpu}") and "TRT" in config["system"]:
            result.setdefault(config["scenario"], []).append(line["value"] / config["gpus"])
    return result


def document(
    gpu: str, prompt: int, requests: Mapping[str, Any], slo: Mapping[str, float] | None = None, host_us: float = 0.0
) -> dict[str, Any]:
    """The result of an instance of one GPU, each of whose iterations waits for the host for some microseconds."""
    device, precision = GPUS[gpu]
    serving = {
        **TENSORRT_LLM,
        "model": {"name": "llama-2-70b", "precision": precision, "kv": "fp8"},
        "requests": {"input": {**ANSWERS, "mean": prompt}, "output": ANSWERS, "max_output": 1024, **requests},
        "async_scheduling": False,
        **({} if slo is None else {"slo": dict(slo)}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a device that is not calibrated
        return serve({"serving": serving, "compute": {"plugin": "gpu", "device": device, "host_us": host_us}}).document()


def highest(gpu: str, prompt: int, slo: Mapping[str, float], at_once: float, host_us: float) -> float:
    """Tokens a second at the highest rate of a Poisson process at which 99 % of the requests meet the limits, by halving."""
    low, high, best = 0.0, 1.1 * at_once, 0.0
    while low == 0.0 or high / low > _PRECISION:
        rate = (low + high) / 2
        if rate < 0.02 * at_once:
            break
        found = document(gpu, prompt, {"arrival": "poisson", "rate": rate, "count": UNDER_LIMITS}, slo, host_us)
        if found["goodput"]["fraction"] >= 0.99:
            low = rate
            best = rate * found["throughput"]["output_tokens_s"] / found["throughput"]["requests_s"]
        else:
            high = rate
    return best


def ratios(lines: Iterable[Mapping[str, Any]], prompt: int, host_us: float = 0.0) -> Iterator[Ratio]:
    """The ratios of all GPUs and scenarios, with prompts of a mean length."""
    every = list(lines)
    for gpu in ("H200-SXM", "B200-SXM"):
        values = measured(every, gpu)
        at_once = document(gpu, prompt, {"arrival": "burst", "count": AT_ONCE}, host_us=host_us)["throughput"]
        offline = statistics.median(values["Offline"])
        for scenario, slo in LIMITS.items():
            tokens_s = highest(gpu, prompt, slo, at_once["requests_s"], host_us)
            ours, theirs = tokens_s / at_once["output_tokens_s"], statistics.median(values[scenario]) / offline
            yield Ratio(gpu, scenario, len(values[scenario]), theirs, ours)


def logged(lines: Iterable[Mapping[str, Any]], host_us: float) -> Iterator[tuple[str, str, float, float]]:
    """Device, scenario and mean TPOT in milliseconds of logs of NVIDIA with a rate, at that rate: measured, and simulated."""
    for line in lines:
        config = line.get("config", {})
        is_nvidia = config.get("submitter") == "NVIDIA"
        if line["group"] != "mlperf-5.1-log" or not is_nvidia or config["model"] != "llama2-70b-99" or "tpot_mean_s" not in line:
            continue
        gpu, npus = next(((gpu, npus) for gpu, npus in LOGGED.items() if config["system"].startswith(gpu)), (None, 0))
        if gpu is not None:
            requests = {"arrival": "poisson", "rate": config["scheduled_s"] / npus, "count": UNDER_LIMITS}
            found = document(gpu, ANSWERS["mean"], requests, host_us=host_us)  # type: ignore[arg-type]
            yield gpu, config["scenario"], 1e3 * line["tpot_mean_s"], 1e3 * found["tpot_s"]["mean"]


def fitted_host(lines: Iterable[Mapping[str, Any]]) -> float:
    """The host with which TPOT of the log of B200 in the scenario Interactive is met best, of whole milliseconds."""
    own = [
        line
        for line in lines
        if line.get("config", {}).get("system", "").startswith("B200") and line["config"]["scenario"] == "Interactive"
    ]
    errors = {host: abs(simulated / measured - 1) for host in range(0, 21_000, 1000) for _, _, measured, simulated in logged(own, host)}
    return min(errors, key=errors.__getitem__)


def main(path: str) -> None:
    """Print all."""
    lines = lines_of(Path(path))
    host_us = fitted_host(lines)
    for host in (0.0, host_us):
        for gpu, scenario, tpot, simulated in logged(lines, host):
            print(f"host {host:.0f} us: {gpu} {scenario:12} TPOT {tpot:6.1f} {simulated:6.1f} ms {simulated / tpot - 1:+.1%}", flush=True)
    for prompt, host in ((273, 0.0), (136, 0.0), (273, host_us)):
        for each in ratios(lines, prompt, host):
            print(
                f"host {host:.0f} us, prompts of {prompt}: {each.gpu} {each.scenario:12} {each.systems} lines {each.measured:.3f}"
                f" {each.simulated:.3f} {each.error:+.1%}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1])
