"""Reading InfraGraph, JSON or YAML: its devices, links, instances and edges, each with its place in the file.

The schema is `artifacts/openapi.yaml` of https://github.com/Keysight/infragraph (package infragraph 3.1.0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.files import parse_json
from astra_sim.yaml_text import parse_yaml

TYPES = ("cpu", "custom", "device", "memory", "nic", "port", "switch", "xpu")
SCHEMES = ("many2many", "one2one")
_GB_PER_S = {"gigabits_per_second": 1 / 8, "gigabytes_per_second": 1.0}
_NS = {"ms": 1e6, "us": 1e3, "ns": 1.0}
_KEYS = {
    "infrastructure": ("name", "description", "devices", "links", "instances", "edges"),
    "device": ("name", "description", "components", "links", "edges"),
    "component": ("name", "description", "count", "choice", *TYPES),
    "link": ("name", "description", "physical"),
    "instance": ("name", "description", "device", "count"),
    "edge": ("ep1", "ep2", "scheme", "link"),
}


class InfraLink(NamedTuple):
    """A kind of link: bandwidth in bytes/ns, or `transfers`, the giga-transfers/s of a lane; latency in ns."""

    where: str
    name: str
    bandwidth: float | None
    transfers: float | None
    latency_ns: float | None


@attrs.frozen
class Component:
    """Equal parts of a device; their type is one of `TYPES`, or the value of `custom`."""

    where: str
    count: int
    type: str


class InfraEdge(NamedTuple):
    """Links between two endpoints, each with its instance or device ("": that which holds the edge) and its component."""

    where: str
    ends: tuple[tuple[str, str], tuple[str, str]]
    scheme: str
    link: str


@attrs.frozen
class InfraDevice:
    """A device: its components, and the edges between them, of its own links."""

    where: str
    components: dict[str, Component]
    links: dict[str, InfraLink]
    edges: list[InfraEdge]


@attrs.frozen
class InfraInstance:
    """So many devices of a kind."""

    where: str
    device: str
    count: int


@attrs.frozen
class Infrastructure:
    """A whole file."""

    where: str
    devices: dict[str, InfraDevice]
    links: dict[str, InfraLink]
    instances: dict[str, InfraInstance]
    edges: list[InfraEdge]


def recognises(text: str) -> bool:
    """Whether a text is JSON or YAML with devices and instances at the top."""
    if text.lstrip().startswith("{"):
        return all(re.search(rf'"{key}"\s*:\s*\[', text) for key in ("devices", "instances"))
    return all(re.search(rf"^{key}\s*:", text, re.MULTILINE) for key in ("devices", "instances"))


def read_infrastructure(text: str, path: str) -> Infrastructure:
    """The content of a file. Raises InputError naming file, element, value and the expected one."""
    table = _GraphTable(_parsed(text, path), path, "infrastructure")
    devices = {name: _device(each) for name, each in table.named("devices", "device")}
    links = {name: _link(each, name) for name, each in table.named("links", "link")}
    instances = {
        name: InfraInstance(each.where, each.text("device"), each.whole("count")) for name, each in table.named("instances", "instance")
    }
    return Infrastructure(path, devices, links, instances, [_edge(each, "instance") for each in table.tables("edges", "edge")])


def _parsed(text: str, path: str) -> Any:
    if text.lstrip().startswith("{"):
        return parse_json(text, path)
    return parse_yaml(text, path, "an infrastructure")


def _device(table: _GraphTable) -> InfraDevice:
    components = {name: _component(each, name) for name, each in table.named("components", "component")}
    links = {name: _link(each, name) for name, each in table.named("links", "link")}
    return InfraDevice(table.where, components, links, [_edge(each, "device") for each in table.tables("edges", "edge")])


def _component(table: _GraphTable, name: str) -> Component:
    kind = table.text("choice")
    if kind not in TYPES:
        raise InputError(f"{table.where}: choice is {kind!r:.80}; expected {', '.join(TYPES)}")
    if kind == "custom" and table.entries.get("custom") is not None:  # the package writes components of no type, too
        custom = _GraphTable(table.entries.get("custom"), f"{table.where}: custom", None, ("type",))
        kind = custom.text("type")
    return Component(table.where, table.whole("count"), kind)


def _link(table: _GraphTable, name: str) -> InfraLink:
    """A link with the figures that the file has of it; its bandwidth may be transfers a second instead."""
    physical = table.entries.get("physical")
    bandwidth = transfers = latency = None
    if physical is not None:
        parts = _GraphTable(physical, f"{table.where}: physical", None, ("bandwidth", "latency"))
        if parts.entries.get("bandwidth") is not None:
            unit, value = _figure(parts, "bandwidth", (*_GB_PER_S, "gigatransfers_per_second"), above=True)
            bandwidth, transfers = (value * _GB_PER_S[unit], None) if unit in _GB_PER_S else (None, value)
        if parts.entries.get("latency") is not None:
            unit, value = _figure(parts, "latency", tuple(_NS), above=False)
            latency = value * _NS[unit]
    return InfraLink(table.where, name, bandwidth, transfers, latency)


def _figure(parts: _GraphTable, key: str, units: tuple[str, ...], above: bool) -> tuple[str, float]:
    """The unit that is chosen, and the number in it."""
    table = _GraphTable(parts.entries[key], f"{parts.where}: {key}", None, ("choice", *units))
    unit = table.text("choice")
    if unit not in units:
        raise InputError(f"{table.where}: choice is {unit!r:.80}; expected {', '.join(units)}")
    value = table.entries.get(unit)
    if not isinstance(value, int | float) or isinstance(value, bool) or not (0 < value if above else 0 <= value) or not value < 1e12:
        raise InputError(f"{table.where}: {unit} is {value!r:.80}; expected a number {'above' if above else 'of at least'} 0")
    return unit, float(value)


def _edge(table: _GraphTable, owner: str) -> InfraEdge:
    ends = []
    for key in ("ep1", "ep2"):
        end = _GraphTable(table.entries.get(key), f"{table.where}: {key}", None, (owner, "component"))
        holder = end.text(owner) if owner == "instance" or end.entries.get(owner) is not None else ""
        ends.append((holder, end.text("component")))
    scheme = table.text("scheme")
    if scheme not in SCHEMES:
        more = " (the package infragraph makes no edges of ring either)" if scheme == "ring" else ""
        raise InputError(f"{table.where}: scheme is {scheme!r:.80}; expected {' or '.join(SCHEMES)}{more}")
    return InfraEdge(table.where, (ends[0], ends[1]), scheme, table.text("link"))


class _GraphTable:
    """A mapping of the file, and its place. Raises InputError for keys that it cannot have."""

    def __init__(self, entries: Any, where: str, kind: str | None, keys: tuple[str, ...] | None = None) -> None:
        self.where = where
        if not isinstance(entries, Mapping):
            raise InputError(f"{where}: {'it is missing' if entries is None else f'{entries!r:.80}'}; expected a mapping")
        self.entries: Mapping[Any, Any] = entries
        known = keys if kind is None else _KEYS[kind]
        for key in entries:
            if known is not None and key not in known:
                raise InputError(f"{where}: unknown key {key!r:.80}; {suggestion(key, known)}")

    def text(self, key: str) -> str:
        """A text that must be there."""
        value = self.entries.get(key)
        if not isinstance(value, str) or not value:
            raise InputError(f"{self.where}: {key} is {'missing' if value is None else f'{value!r:.80}'}; expected a text")
        return value

    def whole(self, key: str) -> int:
        """A whole number that must be there."""
        value = self.entries.get(key)
        if type(value) is not int or not 0 <= value < 1 << 20:
            shown = "missing" if value is None else f"{value!r:.80}"
            raise InputError(f"{self.where}: {key} is {shown}; expected a whole number of at least 0 and below {1 << 20}")
        return value

    def tables(self, key: str, kind: str) -> Iterator[_GraphTable]:
        """The mappings of a list; none if it is missing."""
        listed = self.entries.get(key)
        if listed is None:
            return
        if not isinstance(listed, list):
            raise InputError(f"{self.where}: {key} is {listed!r:.80}; expected a list")
        for number, each in enumerate(listed):
            name = each.get("name") if isinstance(each, Mapping) else None
            called = f" {name!r:.80}" if isinstance(name, str) else ""
            yield _GraphTable(each, f"{self.where}: {kind} {number}{called}", kind)

    def named(self, key: str, kind: str) -> Iterator[tuple[str, _GraphTable]]:
        """Those mappings by their names, of which no two are alike."""
        seen: set[str] = set()
        for each in self.tables(key, kind):
            name = each.text("name")
            if name in seen:
                raise InputError(f"{each.where}: the name is there already; expected one for each {kind}")
            seen.add(name)
            yield name, each
