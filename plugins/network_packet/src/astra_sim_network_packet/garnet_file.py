"""The text network file of Garnet under ASTRA-sim 1.0: names with a colon, and values."""

from __future__ import annotations

import re
from typing import Any

from astra_sim import InputError
from astra_sim.errors import suggestion

_TOPOLOGIES = {"Torus3D": "torus3d", "NV_Switch": "nv_switch"}
_ROUTINGS = {"Torus3D": "Ring_XY", "NV_Switch": "AllToAll"}

# Name in the file: section, key, and a default if the name may be left out.
_NUMBERS: dict[str, tuple[str, str, int | None]] = {
    "num-npus": ("platform", "npus", None),
    "num-packages": ("platform", "packages", None),
    "package-rows": ("platform", "package_rows", 1),
    "local-rings": ("platform", "local_rings", 1),
    "vertical-rings": ("platform", "vertical_rings", 1),
    "horizontal-rings": ("platform", "horizontal_rings", 1),
    "links-per-tile": ("platform", "links_per_tile", 1),
    "tile-link-width": ("platform", "tile_link_width_bits", 256),
    "package-link-width": ("platform", "package_link_width_bits", 256),
    "local-link-latency": ("platform", "local_link_latency_ns", 1),
    "package-link-latency": ("platform", "package_link_latency_ns", 1),
    "flit-width": ("network", "flit_bits", None),
    "package-packet-size": ("network", "packet_bytes", None),
    "vcs-per-vnet": ("network", "vcs", 4),
    "router-latency": ("network", "router_latency", 1),
    "buffers-per-vc": ("network", "buffers", 4),
}
# Read, and without effect on the answer, as in Garnet.
_WITHOUT_EFFECT = ("local-packet-size", "local-link-efficiency", "package-link-efficiency")
_ONLY = {"torus3d": ("vertical_rings",), "nv_switch": ("links_per_tile",)}


def recognises(text: str) -> bool:
    """Whether a line has the key for the number of NPUs, which no other format has."""
    return re.search(r"(^|\s)num-npus\s*:", text) is not None


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The sections `platform`, `network`, and `memory` as in Garnet. Raises InputError with the line."""
    values = _values(text, path)
    topology, line = values.pop("topology", ("Torus3D", 0))
    if topology not in _TOPOLOGIES:
        raise InputError(f"{path}:{line}: topology is {topology!r}; {suggestion(topology, _TOPOLOGIES)}")
    routing, line = values.pop("routing-algorithm", (_ROUTINGS[topology], 0))
    if routing != _ROUTINGS[topology]:
        raise InputError(f"{path}:{line}: routing-algorithm is {routing!r}; expected {_ROUTINGS[topology]} for {topology}")
    sections: dict[str, dict[str, Any]] = {
        "platform": {"plugin": _TOPOLOGIES[topology]},
        "network": {"plugin": "packet", "preset": "garnet"},
    }
    for name, (section, key, default) in _NUMBERS.items():
        if name in values:
            value, line = values[name]
            if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) < 1:
                raise InputError(f"{path}:{line}: {name} is {value!r}; expected a whole number of at least 1")
            sections[section][key] = int(value)
        elif default is None:
            raise InputError(f"{path}: {name} is missing")
        else:
            sections[section][key] = default
    for key in _ONLY["nv_switch" if topology == "Torus3D" else "torus3d"]:
        del sections["platform"][key]
    network = sections["network"]
    bits = network.pop("flit_bits")
    if bits % 8:
        raise InputError(f"{path}:{values['flit-width'][1]}: flit-width is {bits}; expected a multiple of 8 bits")
    network["flit_bytes"] = bits // 8
    # In Garnet a memory access takes 10 ns, whatever its size.
    sections["memory"] = {"plugin": "local", "latency_ns": 10.0, "bandwidth_bytes_per_ns": 1e18}
    return sections


def _values(text: str, path: str) -> dict[str, tuple[str, int]]:
    """Every name's value and line. The last word of a line is its value, the first its name."""
    known = [*_NUMBERS, *_WITHOUT_EFFECT, "topology", "routing-algorithm"]
    result: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon or name not in known:
            raise InputError(f"{path}:{number}: unknown name {(name if colon else line.strip())!r}; {suggestion(name, known)}")
        if not value or len(value.split()) > 1:
            raise InputError(f"{path}:{number}: {name} has {'no value' if not value else f'the values {value!r}; expected one'}")
        if name in result:
            raise InputError(f"{path}:{number}: {name} is given again (first in line {result[name][1]})")
        result[name] = value, number
    return result
