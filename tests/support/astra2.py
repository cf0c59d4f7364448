"""Reference cases of ASTRA-sim 2.x: how they are run, their nodes, and which of them differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import astra_sim
from astra_sim_chakra import Node, NodeType, write_nodes

from support import ROOT

PAGE = ROOT / "docs" / "differences.md"
OPTIONS = {"num-queues-per-dim": "queues_per_dim", "rendezvous-protocol": "rendezvous", "injection-scale": "injection_scale"}
WITHOUT_EFFECT = {"compute-scale", "comm-scale"}
SCHEDULING = {
    "intra-dimension-scheduling": (
        "intra_dimension_scheduling",
        {"FIFO": "fifo", "RG": "rg", "smallestFirst": "smallest_first", "lessRemainingPhaseFirst": "less_remaining_phase_first"},
    ),
    "inter-dimension-scheduling": (
        "inter_dimension_scheduling",
        {
            "ascending": "ascending",
            "roundRobin": "round_robin",
            "themis": "offline_greedy?bandwidth=message",
            "offlineGreedyFlex": "offline_greedy_flex?bandwidth=message",
        },
    ),
}
FILES = {"network_yml": "n.yml", "system_json": "s.json", "remote_memory_json": "m.json", "comm_group_json": "g.json"}


def node(fields: dict[str, Any]) -> Node:
    """A node from protobuf's JSON."""
    values: dict[str, Any] = {}
    for attribute in fields.get("attr", ()):
        (member,) = attribute.keys() - {"name"}
        value = attribute[member]
        if member.startswith(("int", "uint")):
            value = int(value)
        values[attribute["name"]] = tuple(value["values"]) if member == "boolList" else value
    known = {name: value for name, value in values.items() if name in Node.__annotations__}
    return Node(
        id=int(fields.get("id", 0)),
        name=fields["name"],
        type=NodeType[fields["type"]],
        duration_ns=int(fields.get("durationMicros", 0)) * 1000,
        control=tuple(map(int, fields.get("ctrlDeps", ()))),
        data=tuple(map(int, fields.get("dataDeps", ()))),
        **known,
    )


def explained() -> set[str]:
    """The cases that the documentation says are different."""
    section = PAGE.read_text().partition("## ASTRA-sim 2.x")[2]
    return {word.strip("`") for word in section.replace(",", " ").split() if word.startswith("`") and "_" in word}


def simulate(case: dict[str, Any], folder: Path, **more: Any) -> astra_sim.Result:
    """Run a case from files, as a user would."""
    arguments: dict[str, Any] = {}
    for key, name in FILES.items():
        if case[key] is not None:
            text = case[key] if isinstance(case[key], str) else json.dumps(case[key])
            (folder / name).write_text(text.replace("@DIR@", str(folder)))
    workload = case["workload"]
    if workload["kind"] == "collective":
        arguments["workload"] = {"plugin": "collective", "collective": workload["collective"], "bytes": workload["bytes"]}
    else:
        ranks = workload.get("per_rank") or [workload["nodes"]] * workload["npus"]
        arguments["workload"] = prefix = f"{folder}/{case['id']}"
        for number, nodes in enumerate(ranks):
            write_nodes(f"{prefix}.{number}.et", [node(fields) for fields in nodes])
    for name, ranks in case.get("custom_collective_ets", {}).items():
        for number, nodes in enumerate(ranks):
            write_nodes(folder / f"{name}.{number}.et", [node(fields) for fields in nodes])
    if case["comm_group_json"] is not None:
        arguments["groups"] = folder / "g.json"
    for option in case["cli"]:
        name, value = option.removeprefix("--").split("=")
        if name not in WITHOUT_EFFECT:
            arguments[OPTIONS[name]] = json.loads(value)
    if case["backend"] == "congestion_aware":
        arguments["set"] = ["network.congestion=aware"]
    if case["binary"] == "patched":  # reads two keys that no release reads
        arguments["set"] = [f"system.{option}={orders[case['system_json'][key]]}" for key, (option, orders) in SCHEDULING.items()]
    files: dict[str, Any] = {"network": folder / "n.yml", "system": folder / "s.json", "memory": folder / "m.json"}
    return astra_sim.simulate(**files, **arguments, **more)


def figures(result: astra_sim.Result, expected: dict[str, Any]) -> dict[str, Any]:
    """What a case holds, of a result."""
    results: dict[str, Any] = {"min": result.earliest_finish_ns, "max": result.finish_ns}
    return {**results, "list": result.npu_finish_ns} if "list" in expected else results
