"""Random fleets whose transfers of keys and values share links, against the same messages as flows on the same network."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from astra_sim.commands import shared_plugins
from astra_sim.network import EventNetwork, Message
from astra_sim_flows.running import Flow, run_flows
from astra_sim_serving import serve
from astra_sim_serving.building import FleetBuilder
from astra_sim_serving.collectives import build_network
from astra_sim_serving.experiment import ServingExperiment
from astra_sim_serving.parts import Parts
from astra_sim_serving.transfers import SharedTransfers
from serving.cases import EXPERTS, TINY, case, check_conserved

IN_TESTS = 8
IN_NIGHTLY = 400

_NETWORKS: tuple[dict[str, Any], ...] = (
    {"plugin": "analytical", "congestion": "aware"},
    {"plugin": "analytical", "congestion": "aware", "switching": "cut_through"},
    {"plugin": "flow"},
    {"plugin": "flow", "preset": "simgrid_lv08"},
    {"plugin": "roce"},
    {"plugin": "packet"},
    {"plugin": "packet", "preset": "garnet"},
    {"plugin": "auto", "target": "flow"},
)


def random_fleet(random: Random, seed: int) -> dict[str, Any]:
    """Instances for prompts and for answers on a small platform, and a load that lets transfers overlap."""
    tensor = {role: random.choice([1, 1, 2]) for role in ("prefill", "decode")}
    instances = {role: random.randint(1, 3) for role in ("prefill", "decode")}
    rate = 10 ** random.uniform(0, 4)
    transfer: dict[str, Any] = {"latency_us": random.choice([0.0, 0.0, 400.0]), "mode": random.choice(["after", "layerwise"])}
    if random.random() < 0.5:
        transfer["order"] = random.choice(["concurrent", "in-order"])
    result = case(
        model={"dimensions": random.choice([TINY, EXPERTS])},
        kv_blocks=random.choice([30, 200]),
        max_sequences=random.choice([1, 3, 16]),
        max_batched_tokens=random.choice([64, 512]),
        jumps=random.random() < 0.5,
        seed=seed,
        requests={
            "arrival": random.choice(["poisson", "constant", "gamma"]) if random.random() < 0.7 else "burst",
            "count": 30,
            "input": {"distribution": "uniform", "low": 1, "high": random.choice([20, 200])},
            "output": {"distribution": "uniform", "low": 1, "high": 30},
        },
        pool=[{"role": role, "instances": instances[role], "tensor_parallel": tensor[role]} for role in ("prefill", "decode")],
        transfer=transfer,
    )
    requests = result["serving"]["requests"]
    if requests["arrival"] != "burst":
        requests["rate"] = rate
    if requests["arrival"] == "gamma":
        requests["cv"] = 3.0
    if random.random() < 0.3:
        policy, target = random.choice([("queue", 2), ("kv", 0.3)])
        result["serving"]["autoscale"] = {"policy": policy, "target": target, "period_s": 4 / rate, "cold_start_s": 1 / rate}
    result["network"] = {**random.choice(_NETWORKS)}
    if transfer["mode"] == "layerwise" and result["network"]["plugin"] in ("flow", "roce", "auto"):
        # Layers of a prompt are sent in order on one connection, which the messages by themselves do not have.
        result["network"] = {"plugin": result["network"].get("target", result["network"]["plugin"]), "connections": "message"}
    links = {"link_bandwidth_gb_per_s": 10 ** random.uniform(-3, 1), "link_latency_ns": random.choice([0, 500])}
    result["platform"] = random.choice([{"plugin": "switch", "size": 12}, {"plugin": "ring", "size": 12, "links": 2}]) | links
    if random.random() < 0.4:
        _share_collectives(random, result)
    return result


def _share_collectives(random: Random, result: dict[str, Any]) -> None:
    """Let collectives share the links with the transfers, also exchanges with experts."""
    serving = result["serving"]
    serving["collectives"], serving["transfer"]["mode"] = "shared", "after"
    if result["network"]["plugin"] in ("flow", "roce", "auto"):  # messages of a phase are in order on one connection, too
        plugin = result["network"].get("target", result["network"]["plugin"])
        result["network"] = {"plugin": plugin, "connections": "message"}
    if serving["model"]["dimensions"] is EXPERTS and random.random() < 0.7:
        for pool in serving["pool"]:
            pool |= {"instances": random.randint(1, 2), "tensor_parallel": 1, "data_parallel": random.choice([1, 2, 3])}
            pool["expert_parallel"] = random.choice([1, pool["data_parallel"] % 3 or 1])
            if pool["data_parallel"] > 1:
                pool["exchange"] = random.choice(["gather", "all-to-all"])


class _Recorder:
    """What a network was given and when, and when each message arrived."""

    def __init__(self, network: EventNetwork) -> None:
        self.flows: list[Flow] = []
        self.arrived: dict[int, int] = {}
        self._network = network
        self._inject, self._advance = network.inject, network.advance
        network.inject, network.advance = self.inject, self.advance  # type: ignore[method-assign]

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        assert [each.number for each in messages] == [len(self.flows) + 1 + place for place in range(len(messages))]
        self.flows += [Flow(each.source, each.destination, each.bytes, time, (), each.traffic_class) for each in messages]
        self._inject(time, messages)

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        result = self._advance(until)
        if result is not None:
            self.arrived |= {number - 1: result[0] for number in result[1]}
        return result


def check(seed: int, folder: Path) -> list[str]:
    """One run that is recorded and simulates all messages, the same again without those of iterations that are alone, and by themselves."""
    random = Random(seed)
    table = random_fleet(random, seed)
    parts = Parts(ServingExperiment(copy.deepcopy(table)), shared_plugins())
    fleet, result = FleetBuilder(parts).build(None, None)
    assert fleet.hand_over is not None
    transfers = fleet.hand_over.transfers
    assert isinstance(transfers, SharedTransfers)
    recorder = _Recorder(transfers.links.network)
    transfers.links.network.forgets = False
    fleet.run()
    again = serve(copy.deepcopy(table))
    wrong = [] if again.csv() == _filled(result, fleet).csv() else ["the same fleet gives other requests"]
    if json.dumps(again.document()) != json.dumps(serve(copy.deepcopy(table)).document()):
        wrong.append("the same experiment gives another document")
    try:
        check_conserved(again)
    except AssertionError as error:
        wrong.append(f"not conserved: {str(error)[:300]}")
    handed = sum(each.spent.transfer_end >= 0 for each in again.sequences)
    if handed != again.transfers:
        wrong.append(f"{again.transfers} transfers, and {handed} requests were handed over")
    wrong += _against_flows(recorder, build_network(parts.kernel, parts.plugins).network)
    ends = {each / 1e12 for each in recorder.arrived.values()}
    late = [each.request.index for each in again.sequences if not _is_near(each.spent.transfer_end, ends, table["network"]["plugin"])]
    if late:
        wrong.append(f"requests {late[:5]} were handed over when no message arrived")
    return [f"{table}: {line}" for line in wrong]


def _filled(result: Any, fleet: Any) -> Any:
    result.sequences = fleet.sequences
    return result


def _is_near(end: float, ends: set[float], network: str) -> bool:
    """Whether a transfer ended with the arrival of a message; on `roce` later, when its sender knew."""
    return end < 0 or network == "roce" or any(abs(end - each) < 1e-9 for each in ends)


def _against_flows(recorder: _Recorder, network: Any) -> list[str]:
    """The same messages at the same times by themselves arrive at the same times."""
    if not recorder.flows:
        return []
    wrong = []
    for place, times in enumerate(run_flows(network, recorder.flows)):
        if times.received != recorder.arrived[place]:
            wrong.append(f"message {place} arrives at {recorder.arrived[place]} ps in the fleet, as a flow at {times.received} ps")
    return wrong[:3]
