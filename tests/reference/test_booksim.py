"""Latency and throughput of BookSim 2 on meshes and tori."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.references import FULL, cases_or_skip

pytest.importorskip("astra_sim_network_packet")

LATENCY, THROUGHPUT, USABLE, FEW_PACKETS = 0.03, 0.02, 0.8, 3000
STEP = 0.05  # flits per node and cycle
SATURATED = 3  # times the latency of an empty network
PATTERNS = {"uniform": "uniform", "neighbor": "neighbour", "tornado": "tornado", "transpose": "transpose", "bitcomp": "bit_complement"}


def run(case: dict[str, Any]) -> Any:
    """Measure what a configuration of BookSim says."""
    from astra_sim_network_packet.load import LoadMeasurement
    from astra_sim_network_packet.options import PacketOptions
    from astra_sim_network_packet.traffic import read_platform, sweep

    config = dict(part.split("=") for part in case["config_text"].replace(" ", "").replace("\n", "").split(";") if part)
    latency = 2 if config["topology"] == "torus" and config["use_noc_latency"] == "1" else 1
    sizes = ",".join([config["k"]] * int(config["n"]))
    links = "&links=2" if config["topology"] == "torus" else ""
    platform = read_platform(f"plugin:{config['topology']}?sizes={sizes}&link_bandwidth_gb_per_s=32&link_latency_ns={latency}{links}")
    options = PacketOptions(
        preset="booksim",
        vcs=int(config["num_vcs"]),
        buffers=int(config["vc_buf_size"]),
        routing_delay=int(config["routing_delay"]),
        credit_delay=int(config["credit_delay"]),
        speculative=config["speculative"] == "1",
        speculative_allocator="shared" if config.get("spec_sw_allocator", "prio") == "prio" else "separate",
        input_speedup=int(config["input_speedup"]),
        allocator=config["sw_allocator"],
        wait_for_tail_credit=config["wait_for_tail_credit"] == "1",
    )
    period = int(config["sample_period"])
    how = LoadMeasurement(warm_up=period, period=period, periods=3, packet_flits=int(config["packet_size"]), drain_limit=4 * period)
    return sweep(platform, options, PATTERNS[config["traffic"]], [float(config["injection_rate"])], how)[0]


def sample(kind: str, step: int) -> Iterator[dict[str, Any]]:
    """Every so manyth case of a kind; all where ASTRA_REFERENCE_FULL is set."""
    result = [case for case in cases_or_skip("booksim.jsonl") if case["kind"] == kind]
    yield from result if FULL else result[::step]


def test_latency_below_saturation_and_throughput() -> None:
    wrong, tried = {}, 0
    for case in sample("lat", 16):
        rate = case["injection_rate_flits_per_node_cycle"]
        if rate > USABLE * case["saturation_rate_estimate"]:
            continue
        tried += 1
        load = run(case)
        error = load.packet_latency / case["packet_latency_avg"] - 1, load.accepted_rate / case["accepted_flit_rate"] - 1
        # Where both programs draw few packets, three standard deviations of their number.
        chance = 3 / load.packets**0.5 if load.packets < FEW_PACKETS else 0.0
        if abs(error[0]) > LATENCY + chance or abs(error[1]) > THROUGHPUT + chance:
            wrong[case["id"]] = error
    assert tried > 10
    assert not wrong


def at(case: dict[str, Any], rate: float) -> dict[str, Any]:
    """The same case at another rate."""
    return {**case, "config_text": re.sub("injection_rate *=[^;]*;", f"injection_rate = {rate};", case["config_text"])}


def test_the_network_saturates_within_one_step_of_where_booksim_does() -> None:
    by_configuration: dict[str, tuple[float, dict[str, Any]]] = {}
    for case in cases_or_skip("booksim.jsonl"):
        rate = case["saturation_rate_estimate"]
        if case["kind"] == "lat" and rate + STEP < 0.95:
            by_configuration.setdefault(case["id"].partition("-lat")[0], (rate, case))
    result = sorted(by_configuration.items())
    assert len(result) > 50
    wrong = {}
    for name, (rate, case) in result if FULL else result[::12]:
        below, above = run(at(case, max(rate - STEP, STEP / 2))), run(at(case, rate + STEP))
        limit = SATURATED * case["zero_load_latency"]
        # Not by what is accepted: on some tori a step beyond saturation both programs accept 97 to 99 % while latency grows.
        if not below.stable or below.packet_latency > limit or above.packet_latency < limit:
            wrong[name] = rate, below.packet_latency / limit, above.packet_latency / limit
    assert not wrong


SPECULATIVE = """topology=mesh; k=8; n=2; num_vcs=4; vc_buf_size=8; wait_for_tail_credit=0; sw_allocator=islip; spec_sw_allocator=prio;
credit_delay=1; routing_delay=0; speculative=1; input_speedup=1; use_noc_latency=1; traffic=uniform; packet_size=1; injection_rate=0.4;
sample_period=2500"""
INPUT_FIRST = "sw_allocator=separable_input_first"
SEPARATE = "spec_sw_allocator=islip"


@pytest.mark.parametrize(
    ("changes", "latency"),
    [
        ("num_vcs=2; vc_buf_size=4; injection_rate=0.31", 24.58),
        ("injection_rate=0.4", 35.46),
        ("num_vcs=8; injection_rate=0.4", 34.05),
        ("packet_size=4; injection_rate=0.37", 50.06),
        (f"{INPUT_FIRST}; injection_rate=0.42", 41.75),
        (f"{SEPARATE}; injection_rate=0.42", 34.85),
        (f"{INPUT_FIRST}; spec_sw_allocator=separable_input_first; injection_rate=0.42", 35.62),
    ],
)
def test_speculation_near_saturation(changes: str, latency: float) -> None:
    """Latencies are means of three seeds of BookSim 2, which differ by up to 3 %, with `vc_allocator` as `sw_allocator`."""
    load = run({"config_text": f"{SPECULATIVE}; {changes}"})
    assert load.stable
    assert load.packet_latency == pytest.approx(latency, rel=0.04)


def test_beyond_saturation_the_network_accepts_as_much() -> None:
    for case in sample("over", 30):
        load = run(case)
        assert load.stable == (case["accepted_flit_rate"] > 0.98)
        assert load.accepted_rate == pytest.approx(
            case["accepted_flit_rate"], rel=0.12
        )  # no target: a case beyond saturation hangs on details
