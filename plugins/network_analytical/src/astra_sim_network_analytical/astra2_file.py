"""The YAML network file of ASTRA-sim 2.x: a platform, and the analytical network with the rules of 2.x."""

from __future__ import annotations

import re
from typing import Any

from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.files import finite_number
from astra_sim.yaml_text import parse_yaml

_TOPOLOGIES = {"Ring": "ring", "FullyConnected": "fully_connected", "Switch": "switch"}
_KEYS = ("topology", "npus_count", "bandwidth", "latency")
_MAX_VALUES = 10_000


def recognises(text: str) -> bool:
    """Whether a line of a text begins with a key of such a file, and the text is neither JSON nor a network file of Garnet."""
    if text.lstrip().startswith(("{", "[")) or re.search(r"^num-npus[ \t]*:", text, re.MULTILINE):
        return False
    return re.search(r"^(topology|npus_count)[ \t]*:", text, re.MULTILINE) is not None


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The sections `platform` and `network`. Raises InputError."""
    table = parse_yaml(text, path, "a network file", _MAX_VALUES)
    for key in table:
        if key not in _KEYS:
            raise InputError(f"{path}: unknown key {key!r}; {suggestion(key, _KEYS)}")
    if isinstance(table.get("topology"), str):  # that of the only dimension, as in the tutorial of 2023
        table["topology"] = [table["topology"]]
    for key in _KEYS:
        if key not in table:
            raise InputError(f"{path}: {key} is missing; expected a list with a value for every dimension")
        if not isinstance(table[key], list) or not table[key]:
            raise InputError(f"{path}: {key} is {table[key]!r}; expected a list with a value for every dimension")
        if len(table[key]) != len(table["topology"]):
            raise InputError(f"{path}: {key} has {len(table[key])} values for {len(table['topology'])} dimensions")
    names, sizes, bandwidths, latencies = (table[key] for key in _KEYS)
    dimensions = [_dimension(*values, path) for values in zip(names, sizes, bandwidths, latencies, strict=True)]
    return {
        "platform": {"dimensions": dimensions},
        "network": {"plugin": "analytical", "rounding": "nanosecond_sum", "accounting_dimension": "lowest"},
    }


def _dimension(topology: Any, size: Any, bandwidth: Any, latency: Any, path: str) -> dict[str, Any]:
    """The options of a dimension of a network file of ASTRA-sim 2.x. Raises InputError."""
    if not isinstance(topology, str) or topology not in _TOPOLOGIES:
        raise InputError(f"{path}: topology has {topology!r}; {suggestion(topology, _TOPOLOGIES)}")
    if isinstance(size, bool) or not isinstance(size, int) or size < 2:
        raise InputError(f"{path}: npus_count has {size!r}; expected whole numbers of at least 2")
    gib_per_s = finite_number(bandwidth, f"{path}: bandwidth", above=0, unit="2^30 bytes/s")  # to YAML 1e3 is text, to ASTRA-sim a number
    latency_ns = finite_number(latency, f"{path}: latency", unit="ns")
    dimension = {
        "topology": _TOPOLOGIES[topology],
        "size": size,
        "links": {"Ring": 2, "FullyConnected": size - 1, "Switch": 1}[topology],
        "link_bandwidth_gib_per_s": gib_per_s,
        "link_latency_ns": latency_ns,
    }
    if topology == "Ring":
        dimension["both_ways"] = False
    return dimension
