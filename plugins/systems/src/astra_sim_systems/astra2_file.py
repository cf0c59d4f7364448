"""The system file of ASTRA-sim 2.x, in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from astra_sim import InputError
from astra_sim.errors import suggestion, warn, warn_of_unknown
from astra_sim.files import parse_json, read_text

from astra_sim_systems.names import ALGORITHM_KEYS, OPTIMIZATIONS, POLICIES, algorithm, chakra_algorithm
from astra_sim_systems.node_file import read_text_mapping


def _whole(value: Any) -> int:
    if type(value) is float and value.is_integer():
        value = int(value)
    # By type, since True is an int.
    if type(value) is not int or value < 0:
        raise ValueError("expected a whole number of at least 0")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not value >= 0:
        raise ValueError("expected a number of at least 0")
    return value  # type: ignore[no-any-return]


def _flag(value: Any) -> bool:
    if value not in (0, 1):
        raise ValueError("expected 0 or 1")
    return bool(value)


def _choice(known: dict[str, str]) -> Callable[[Any], str]:
    def convert(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError(suggestion(str(value), known))
        return known[value]

    return convert


def _algorithms(value: Any) -> list[str]:
    """The algorithms of dimensions; those after one that runs over the whole platform have no effect, as in ASTRA-sim 2.x."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ValueError("expected a list of names")
    algorithms = [algorithm(name) for name in value]
    if algorithms and algorithms[0].startswith("one_"):
        return algorithms[:1]
    return algorithms


_KEYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "scheduling-policy": ("scheduling_policy", _choice({**POLICIES, "EXPLICIT": "lifo"})),
    "endpoint-delay": ("endpoint_delay_ns", _whole),
    "active-chunks-per-dimension": ("active_chunks_per_dimension", _whole),
    "preferred-dataset-splits": ("splits", _whole),
    **{key: (option, _algorithms) for key, option in ALGORITHM_KEYS.items()},
    "collective-optimization": ("collective_optimization", _choice(OPTIMIZATIONS)),
    "model-shared-bus": ("shared_bus", _flag),
    "L": ("bus_latency_ns", _whole),
    "o": ("bus_overhead_ns", _whole),
    "g": ("bus_gap_ns", _whole),
    "G": ("bus_gap_per_byte_ns", _number),
    "local-reduction-delay": ("bus_reduction_delay", _whole),
    "local-mem-bw": ("local_memory_gb_per_s", _number),
}
_CUSTOM = {f"{key}-custom": option for key, option in ALGORITHM_KEYS.items()}
_PER_NODE = "per-node-custom-implementation"
_OTHERS = {"peak-perf": _number, "roofline-enabled": _flag, "trace-enabled": _flag, "replay-only": _flag, "track-local-mem": _flag}
_MEMORY_TRACE = "local-mem-trace-filename"
_SCHEDULING = {f"{kind}-dimension-scheduling": f"{kind}_dimension_scheduling" for kind in ("intra", "inter")}
"""Keys of 1.0 that no release of 2.x reads, and the options that they would set."""

_WITHOUT_EFFECT = (_MEMORY_TRACE, "boost-mode")
"""Keys without a meaning of their own; ASTRA-sim 2.x does not read the second."""

_SPLITS = "preferred-dataset-splits"


def recognises(text: str) -> bool:
    """Whether a text is a JSON object with keys of a system."""
    if not text.lstrip().startswith("{"):
        return False
    try:
        return not {"preferred-dataset-splits", *ALGORITHM_KEYS, "endpoint-delay"}.isdisjoint(json.loads(text))
    except (ValueError, RecursionError, TypeError):
        return "-implementation" in text


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The section `system`, and `compute` if the file requests a roofline. Raises InputError naming the key and value."""
    table = parse_json(text, path)
    # As in ASTRA-sim 2.x, each NPU begins chunks in its own order; a run that ends unfinished there is an error here.
    system: dict[str, Any] = {"plugin": "astra2", "admission": "own"}
    others: dict[str, Any] = {}
    for key, value in table.items():
        option, convert = _KEYS.get(key, ("", _OTHERS.get(key, lambda unchanged: unchanged)))
        try:
            converted = convert(value)
        except ValueError as error:
            raise InputError(f"{path}: {key} is {value!r}; {error}") from None
        if option:
            system[option] = converted
        others[key] = converted
        if key in _SCHEDULING:
            warn(f"{path}: {key} has no effect: no release of ASTRA-sim 2.x reads it (--set system.{_SCHEDULING[key]}=... chooses here)")
    warn_of_unknown(path, table, (*_KEYS, *_CUSTOM, *_OTHERS, *_SCHEDULING, *_WITHOUT_EFFECT, _PER_NODE))
    if _SPLITS not in table:
        raise InputError(f"{path}: {_SPLITS} is missing")
    # A kind of collective without an algorithm is an error if the workload has it.
    system |= {option: [] for key, option in ALGORITHM_KEYS.items() if table.keys().isdisjoint({key, f"{key}-custom"})}
    for key, option in _CUSTOM.items():
        if key in table:
            system[option] = _custom(f"{path}: {key}", table[key])
    if _PER_NODE in table:
        system["node_algorithms"] = _per_node(f"{path}: {_PER_NODE}", table[_PER_NODE])
    if system.get("local_memory_gb_per_s") == 0:
        raise InputError(f"{path}: local-mem-bw is 0; expected more than 0")
    _warn_of_logs(others, path)
    sections = {"system": system}
    # Replaying goes before the roofline, as in ASTRA-sim 2.x: recorded times count even if a roofline is described.
    if others.get("replay-only"):
        sections["compute"] = {"plugin": "recorded"}
        system["replay_only"] = True
    elif others.get("roofline-enabled"):
        sections["compute"] = _roofline(others)
    return sections


def _roofline(values: dict[str, Any]) -> dict[str, Any]:
    """The compute model; if a rate is missing or 0, a node that computes is an error, and no other."""
    options = {"peak_tera_ops_per_s": values.get("peak-perf"), "memory_bandwidth_gb_per_s": values.get("local-mem-bw")}
    return {"plugin": "roofline", "rule": "astra2", **{name: rate for name, rate in options.items() if rate}}


def _warn_of_logs(values: dict[str, Any], path: str) -> None:
    """Report the other files that ASTRA-sim would write."""
    if values.get("trace-enabled"):
        warn(f"{path}: trace-enabled has no effect: ASTRA-sim would log when each node begins and ends (as astra compat does)")
    if values.get("track-local-mem"):
        name = values.get(_MEMORY_TRACE, "local_mem_trace")
        warn(
            f"{path}: track-local-mem has no effect: ASTRA-sim would log the most memory that the tensors of each NPU take"
            f" and write its course ({_MEMORY_TRACE} {name!r}), as programs of astra compat do"
        )


def _custom(where: str, value: Any) -> list[str]:
    if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], str):
        raise InputError(f"{where} is {value!r}; expected a list of one path prefix, whose traces run over all dimensions")
    return [chakra_algorithm(value[0], whole_platform=True)]


def _per_node(where: str, value: Any) -> dict[str, str]:
    """The algorithms in the YAML file of that name: the path prefix of an algorithm for ids of nodes. Raises InputError with the line."""
    if not isinstance(value, str):
        raise InputError(f"{where} is {value!r}; expected the path of a YAML file")
    return {id_: chakra_algorithm(prefix, whole_platform=False) for id_, prefix in read_text_mapping(read_text(value), value).items()}
