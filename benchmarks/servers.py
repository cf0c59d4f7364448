"""How fast servers of language models are simulated: python3 dev.py bench servers

Llama 3 70B on DGX H100, as in `examples/serving/llama3_70b_h100.toml`, each run in a process of its own. An *iteration* is one that the
server does; jumps simulate several that do not differ in their plan as one, `exact` does without. `conversation lengths` are those of the
trace of Azure of 2023: 1155 tokens of prompts and 211 of answers on average. A policy of a plugin is a subclass of `sarathi`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import astra_sim_serving

from devtools.figures import FigureTable, Row, main

EXAMPLE = str(Path(__file__).resolve().parents[1] / "examples" / "serving" / "llama3_70b_h100.toml")

MEASURED = """
import json, resource, sys
import astra_sim_serving
from astra_sim import Provider, hookimpl
from astra_sim.commands import shared_plugins
from astra_sim_serving.presets import Sarathi
class OfPlugin(Sarathi): pass
class Plugin:
    @hookimpl
    def astra_serving_policies(self): return [Provider("of-plugin", "as sarathi", OfPlugin)]
shared_plugins().register(Plugin())
table = json.loads(sys.argv[1])
def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
before = cpu()
result = astra_sim_serving.serve(table, compiled=sys.argv[2] == "compiled")
document = result.document()
iterations = sum(each["iterations"] for each in document["instances"])
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
print(json.dumps([document["requests"]["finished"], iterations, cpu() - before, memory]))
"""
"""Requests, iterations, CPU seconds with the figures of the result, and MB."""


def fleet(instances: int, requests: dict[str, Any], exact: bool = False, engine: str = "vllm") -> dict[str, Any]:
    """An experiment with some instances of four GPUs each."""
    return {
        "serving": {
            "engine": engine,
            "jumps": not exact,
            "max_sequences": 256,
            "max_batched_tokens": 8192,
            "model": {"name": "llama3-70b"},
            "pool": [{"instances": instances, "tensor_parallel": 4}],
            "router": {"policy": "least-requests"},
            "requests": requests,
        },
        "compute": {"plugin": "gpu", "device": "h100", "host_us": 500},
        "platform": {"plugin": "dgx_h100", **({"nodes": instances // 2} if instances > 2 else {})},
        "network": {"plugin": "analytical", "model": "nccl", "device": "h100"},
    }


def conversations(count: int, rate: float, mean_input: int = 1000, mean_output: int = 200) -> dict[str, Any]:
    """Conversations of 1000 tokens in and 200 out, on average."""
    return {
        "arrival": "poisson",
        "rate": rate,
        "count": count,
        "input": {"distribution": "lognormal", "mean": mean_input, "sigma": 1.0, "maximum": 8000},
        "output": {"distribution": "lognormal", "mean": mean_output, "sigma": 0.8, "maximum": 2000},
    }


def always_running(sequences: int, count: int) -> dict[str, Any]:
    """As many sequences as that run all the time: the next arrives when one ends."""
    return {"arrival": "closed", "concurrency": sequences, "count": count, "input": 500, "output": 400}


def _row(table: dict[str, Any], loop: str = "compiled") -> list[str]:
    run = [sys.executable, "-c", MEASURED, json.dumps(table), loop]
    requests, iterations, seconds, memory = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    each = f"{1e6 * seconds / requests:.3g}", f"{1e6 * seconds / iterations:.2g}"
    return [f"{requests:,}", f"{iterations:,}", f"{seconds:.1f}", *each, f"{memory:.0f}"]


FLEETS = FigureTable(
    "fleets",
    ("what", "requests", "iterations", "CPU s", "us a request", "us an iteration", "MB"),
    [
        Row(["two instances"], partial(_row, fleet(2, conversations(1000, 6.0)))),
        Row(["eight instances"], partial(_row, fleet(8, conversations(20_000, 24.0)))),
        Row(["the same, exact"], partial(_row, fleet(8, conversations(20_000, 24.0), exact=True))),
        Row(["the same by the loop in Python"], partial(_row, fleet(8, conversations(20_000, 24.0), exact=True), "python")),
        Row(["a million requests of conversation lengths"], partial(_row, fleet(8, conversations(1_000_000, 24.0, 1155, 211)))),
        *(
            Row([label], partial(_row, fleet(1, always_running(100, count), exact=True, engine=engine)))
            for label, engine, count in (
                ("one instance with 100 sequences all the time, exact", "vllm", 50_000),
                ("the same by sarathi", "sarathi", 50_000),
                ("the same by a policy of a plugin", "of-plugin", 5000),
            )
        ),
    ],
)
TABLES = (FLEETS,)

CASES: dict[str, Callable[[], object]] = {
    "1000 requests, two instances": lambda: astra_sim_serving.serve(fleet(2, conversations(1000, 6.0))),
    "1000 requests, two instances, exact": lambda: astra_sim_serving.serve(fleet(2, conversations(1000, 6.0), exact=True)),
}

if __name__ == "__main__":
    sys.exit(main(TABLES))
