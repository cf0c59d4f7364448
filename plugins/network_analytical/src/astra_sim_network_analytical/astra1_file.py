"""The JSON network file of ASTRA-sim 1.0: a platform and the analytical network."""

from __future__ import annotations

from typing import Any

from astra_sim import InputError
from astra_sim.errors import warn
from astra_sim.files import parse_json

_TOPOLOGIES = {"Ring": "ring", "FullyConnected": "fully_connected", "Switch": "switch"}
_PACKAGING = {"Tile": "tile", "Package": "package", "Node": "node", "Pod": "pod"}

# Key of the file, key of a dimension, whether the values are whole numbers.
_REQUIRED = (
    ("units-count", "size", True),
    ("links-count", "links", True),
    ("link-latency", "link_latency_ns", False),
    ("link-bandwidth", "link_bandwidth_gib_per_s", False),
)
_OPTIONAL = (
    ("nic-latency", "nic_latency_ns", False),
    ("router-latency", "router_latency_ns", False),
    ("hbm-latency", "hbm_latency_ns", False),
    ("hbm-bandwidth", "hbm_bandwidth_bytes_per_ns", False),
    ("hbm-scale", "hbm_scale", False),
)
_OTHER = ("topology-name", "dimensions-count", "topologies-per-dim", "dimension-type")

_ONLY_NAME = "Hierarchical"


def recognises(text: str) -> bool:
    """Whether a text begins like a JSON object, and has no key of another format."""
    others = '"all-reduce-implementation"', '"memory-type"', '"logical-', '"instances"'
    return text.lstrip().startswith("{") and not any(key in text for key in others)


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The sections `platform` and `network`. Raises InputError."""
    table = parse_json(text, path)
    known = {*_OTHER, *(key for key, _, _ in (*_REQUIRED, *_OPTIONAL))}
    for key in table:
        if key not in known:
            raise InputError(f"{path}: unknown key {key!r}; known: {', '.join(sorted(known))}")
    if table.get("topology-name", _ONLY_NAME) != _ONLY_NAME:
        warn(f"{path}: topology-name is {table['topology-name']!r:.80}: ASTRA-sim would stop, since it knows only {_ONLY_NAME!r}")
    count = table.get("dimensions-count")
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise InputError(f"{path}: dimensions-count is {count!r}; expected a whole number of at least 1")
    dimensions: list[dict[str, Any]] = []
    for name in _list(table, "topologies-per-dim", count, path):
        if not isinstance(name, str) or name not in _TOPOLOGIES:
            raise InputError(f"{path}: topologies-per-dim has {name!r}; known: {', '.join(_TOPOLOGIES)}")
        # A message over a ring has the bandwidth of both directions in ASTRA-sim 1.0.
        dimensions.append({"topology": _TOPOLOGIES[name], **({"both_ways": True} if name == "Ring" else {})})
    for key, option, whole in _REQUIRED:
        _fill(dimensions, option, _numbers(table, key, count, whole, path))
    for key, option, whole in _OPTIONAL:
        if key in table:
            _fill(dimensions, option, _numbers(table, key, count, whole, path))
    if "dimension-type" in table:
        _fill(dimensions, "packaging", [_PACKAGING.get(str(v), "node") for v in _list(table, "dimension-type", count, path)])
    return {"platform": {"dimensions": dimensions}, "network": {"plugin": "analytical"}}


def _fill(dimensions: list[dict[str, Any]], option: str, values: list[Any]) -> None:
    for dimension, value in zip(dimensions, values, strict=True):
        dimension[option] = value


def _list(table: dict[str, Any], key: str, count: int, path: str) -> list[Any]:
    value = table.get(key)
    if not isinstance(value, list):
        raise InputError(f"{path}: {key} is {'missing' if key not in table else repr(value)}; expected a list of {count} values")
    if len(value) != count:
        raise InputError(f"{path}: {key} has {len(value)} values for {count} dimensions")
    return value


def _numbers(table: dict[str, Any], key: str, count: int, whole: bool, path: str) -> list[Any]:
    values = _list(table, key, count, path)
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise InputError(f"{path}: {key} has {value!r}; expected {'whole numbers' if whole else 'numbers'}")
    return values
