"""The readable engine and the compiled one have the same parts, with the same classes and methods in the same order.

What one of them has alone is stated here: C++ counts holders of causal keys, names things by number, and speaks to Python and to networks.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "core" / "src" / "astra_sim" / "engine" / "reference"
CPP = ROOT / "plugins" / "engine" / "native"

PARTS = sorted(path.stem for path in PYTHON.glob("[!_]*.py"))

SUPPORT = {"ids", "errors", "causal_keys", "event_queue", "receipts", "host", "interface", "schedule", "network_table", "spans"}
SUPPORT |= {"pending_links", "token_merge", "under_way"}
"""Headers of C++ beside the parts."""

NAMES = {"ReferenceEngine": "Machine", "ReferenceRecord": "Record", "_try": "attempt"}
"""What has another name in C++, where `try` is a keyword."""

WITHIN = {"_Side": "SharedBus", "WaitingNode": "Waiting"}
"""Classes of Python whose methods are those of another class in C++, where their objects are numbered."""

ONLY_PYTHON = {
    "Events": {"_add"},  # the queue of events is a class of its own in C++
    "Collectives": {"_phase_of"},  # in C++ the phases of a collective all happen when it is made
    "CollectivePlan": {"steps"},
    "PointToPoint": {"_peer"},  # public in C++, where programs are checked with it
    "Waiting": {"update"},  # a node's, which sums up what is below
}

ONLY_CPP = {
    "Events": {"causal_key", "happened", "causal_keys", "after", "empty", "forget", "now", "keep_causes", "causes"},
    "Orders": {"contended", "contend"},
    "Processors": {"handle_messages"},
    "Transport": {"set_table", "messages", "handled"},
    "SharedBus": {"call"},
    "Buses": {"on_call", "now_ns", "call_after"},
    "PhaseKinds": {"size"},
    "Phases": {"measured", "fill", "end", "step_of", "on_bus_call", "on_tokens"},
    "Chunks": {"has_queues", "queues", "observe"},
    "Collectives": {"chunk_ended"},
    "Program": {"number", "has_units", "size", "kinds", "task", "delay", "first", "waits", "each_successor"},
    "Units": {"release"},
    "Tasks": {"observe", "is_observed", "started"},
    "Causes": {"messages"},
    "Machine": {"set_table", "record"},
}
"""Public methods: of what is an attribute in Python, or is not needed there."""


def name_of(name: str) -> str:
    """The name in C++ of what has a name in Python."""
    return NAMES.get(name, name.lstrip("_"))


@cache
def python_classes(part: str) -> dict[str, list[str]]:
    """The classes of a part, and the methods of each in order, all but those with two underscores."""
    classes: dict[str, list[str]] = {}
    for node in ast.parse((PYTHON / f"{part}.py").read_text()).body:
        if isinstance(node, ast.ClassDef):
            methods = [each.name for each in node.body if isinstance(each, ast.FunctionDef) and not each.name.startswith("__")]
            classes.setdefault(WITHIN.get(node.name, name_of(node.name)), []).extend(methods)
    return classes


@cache
def header(part: str) -> str:
    """The header of a part without comments, with that of the queue of events where it is theirs."""
    text = (CPP / f"{part}.hpp").read_text() + ((CPP / "event_queue.hpp").read_text() if part == "events" else "")
    return re.sub(r"//[^\n]*", "", text)


def without_blocks(text: str) -> str:
    """A text without the content of braces."""
    result, depth = [], 0
    for each in text:
        depth -= each == "}"
        if not depth:
            result.append(each)
        depth += each == "{"
    return "".join(result)


def cpp_class(part: str, name: str) -> str:
    """What a class declares, without the bodies of its functions and its nested types."""
    match = re.search(rf"\b(?:class|struct) {name}\b[^;{{]*{{", header(part))
    assert match, f"{part}.hpp declares no {name}"
    depth, end = 1, match.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(header(part)[end], 0)
        end += 1
    return without_blocks(header(part)[match.end() : end - 1])


def cpp_methods(declared: str) -> list[str]:
    """The functions that are declared, in order."""
    return re.findall(r"[\w>&*\]] [&*]?([a-z]\w*[a-z])\(", declared)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_the_same_classes(part: str) -> None:
    for name in python_classes(part):
        assert re.search(rf"\b(class|struct) {name}\b[^;]*{{", header(part)), f"{part}.hpp declares no {name}"


@pytest.mark.parametrize(("part", "name"), [(part, name) for part in PARTS for name, methods in python_classes(part).items() if methods])
def test_a_class_has_the_same_methods_in_the_same_order(part: str, name: str) -> None:
    methods = [name_of(method) for method in python_classes(part)[name] if method not in ONLY_PYTHON.get(name, ())]
    twins = cpp_methods(cpp_class(part, name))
    assert [twin for twin in dict.fromkeys(twins) if twin in methods] == methods


@pytest.mark.parametrize(("part", "name"), [(part, name) for part in PARTS for name, methods in python_classes(part).items() if methods])
def test_a_class_has_no_other_public_methods(part: str, name: str) -> None:
    declared = cpp_class(part, name)
    public = set(cpp_methods(re.split(r"\b(?:private|protected):", declared.split("public:")[-1])[0]))
    assert public - {name_of(method) for method in python_classes(part)[name]} == ONLY_CPP.get(name, set())


def test_headers_are_parts_or_stated() -> None:
    assert {path.stem for path in CPP.glob("*.hpp")} == set(PARTS) | SUPPORT
