"""Flows on random platforms: when they end, as SimGrid 3.32 has it. `simgrid_flows.py` beside this file has made the cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from astra_sim.network import Message
from astra_sim.platform import Dimension, Platform
from astra_sim.units import PS_PER_NS
from astra_sim_devkit.testing.deliveries import Batch, deliver

graph = pytest.importorskip("astra_sim_platforms.graph")
pytest.importorskip("astra_sim_network_flow")

CASES = [json.loads(line) for line in Path(__file__).with_name("simgrid_flows.jsonl").read_text().splitlines()]
MODELS: dict[str, dict[str, Any]] = {
    "ideal": {"tolerance": 0},
    "simgrid_cm02": {"preset": "simgrid_cm02"},
    "simgrid_lv08": {"preset": "simgrid_lv08"},
    "window": {"preset": "simgrid_lv08", "ack_share": 0, "window_bytes": 20_000},
}
PS_PER_S = 1e12
TOLERANCE = 1e-8
ROUNDED_PS = 2
"""Our times are whole picoseconds: of the latency, and of the end."""


def platform(case: dict[str, Any]) -> Platform:
    links = tuple(graph.GraphLink(a, b, bandwidth / 1e9, float(latency_ns)) for a, b, bandwidth, latency_ns in case["links"])
    size = case["npus"]
    return Platform((Dimension(graph.GraphFile(size, links, (1,) * size * size), size, 1, 1.0, 0.0),))


def ends_ps(case: dict[str, Any]) -> list[int]:
    """When each flow ends on our network."""
    from astra_sim_network_flow.network import FlowNetwork
    from astra_sim_network_flow.options import FlowOptions

    network = FlowNetwork(FlowOptions(routing="first", **MODELS[case["model"]]), platform(case))
    network.begin()
    sent: dict[int, list[Message]] = {}
    for number, (source, destination, size, start_ns) in enumerate(case["flows"]):
        sent.setdefault(start_ns * PS_PER_NS, []).append(Message(number, source, destination, size))
    arrived = deliver(network, [Batch(time, messages) for time, messages in sorted(sent.items())])
    return [arrived[number] for number in range(len(case["flows"]))]


def test_there_are_100_cases_of_four_models() -> None:
    assert [sum(case["model"] == model for case in CASES) for model in MODELS] == [25, 25, 25, 25]


def test_by_default_simgrid_computes_other_times_in_four_cases() -> None:
    others = [(case["ends_s"], case["lazy_ends_s"]) for case in CASES if "lazy_ends_s" in case]
    shares = [abs(a - b) / a for exact, lazy in others for a, b in zip(exact, lazy, strict=True)]
    assert (len(others), sum(share > 1e-6 for share in shares), sum(len(case["flows"]) for case in CASES)) == (4, 18, 3008)
    assert max(shares) == pytest.approx(0.0066, abs=5e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['case']}-{case['model']}")
def test_flows_end_when_they_do_in_simgrid(case: dict[str, Any]) -> None:
    wrong = []
    for flow, ours, theirs_s in zip(case["flows"], ends_ps(case), case["ends_s"], strict=True):
        theirs = theirs_s * PS_PER_S
        took = theirs - flow[3] * PS_PER_NS
        if abs(ours - theirs) > TOLERANCE * took + ROUNDED_PS:
            wrong.append((flow, ours, theirs))
    assert not wrong
