"""Reference cases of ASTRA-sim 2.x: their files, their nodes, and which of them differ."""

from __future__ import annotations

from typing import Any

from astra_sim_chakra import Node, NodeType

from support import ROOT

PAGE = ROOT / "docs" / "differences.md"
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
