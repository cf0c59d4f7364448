"""The file config.txt of ASTRA-sim's ns-3 back end: a key and its values a line."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from astra_sim import InputError
from astra_sim.errors import suggestion, warn
from astra_sim.files import finite_number, is_there, is_whole, read_text

from astra_sim_network_roce import ns3_topology

_ALGORITHMS = {"1": "dcqcn", "3": "hpcc", "7": "timely", "8": "dctcp", "10": "pint"}

WITHOUT_EFFECT = (
    "USE_DYNAMIC_PFC_THRESHOLD",
    "PAUSE_TIME",
    "SIMULATOR_STOP_TIME",
    "FLOW_FILE",
    "NIC_TOTAL_PAUSE_TIME",
    "ENABLE_TRACE",
    "DATA_RATE",
    "LINK_DELAY",
)
"""Keys that change no answer, there and here."""

REQUESTS = {"FCT_OUTPUT_FILE": "fct", "PFC_OUTPUT_FILE": "pfc_log"}
"""Keys that ask for reports of --output, which take the place of the files that they name."""

OUTPUTS: tuple[str, ...] = ("QLEN_MON_FILE", "QLEN_MON_START", "QLEN_MON_END", "TRACE_FILE", "TRACE_OUTPUT_FILE")
OUTPUTS += ("BW_MON_FILE", "RATE_MON_FILE", "CNP_MON_FILE", "MON_START", "MON_END")
OUTPUTS += ("QP_MON_INTERVAL", "QLEN_MON_INTERVAL", "BW_MON_INTERVAL")
"""Keys of output files that are not written; those of the last two lines are SimAI's."""

Reader = Callable[[list[str], str], Any]


def _text(words: list[str], where: str) -> str:
    if len(words) != 1:
        raise InputError(f"{where}: {len(words)} values; expected one")
    return words[0]


def _number(words: list[str], where: str) -> float:
    return finite_number(_text(words, where), f"{where}: the value", most=2**62)


def _whole(words: list[str], where: str) -> int:
    value = _number(words, where)
    if value != int(value):
        raise InputError(f"{where}: the value is {words[0]!r}; expected a whole number")
    return int(value)


def _flag(words: list[str], where: str) -> bool:
    word = _text(words, where)
    if word not in ("0", "1"):
        raise InputError(f"{where}: the value is {word!r}; expected 0 or 1")
    return word == "1"


def _mbps(words: list[str], where: str) -> float:
    return ns3_topology.rate_of(_text(words, where), where) / 1e6


def _map(words: list[str], where: str) -> list[str]:
    """A number of entries, and for each a rate in bit/s and a value."""
    count = int(words[0]) if words and is_whole(words[0]) else -1
    if count < 0 or len(words) != 1 + 2 * count:
        raise InputError(f"{where}: {' '.join(words)!r:.80}; expected a number of entries, and a rate and a value for each")
    return [f"{_number([rate], where) / 1e9!r}:{_number([value], where)!r}" for rate, value in zip(words[1::2], words[2::2], strict=True)]


def _failure(words: list[str], where: str) -> list[str]:
    if len(words) != 3 or not all(word.isdecimal() for word in words):
        raise InputError(f"{where}: {' '.join(words)!r:.80}; expected a time in us and the ids of two nodes, or 0 0 0")
    return [] if words == ["0", "0", "0"] else [":".join(words)]


def _algorithm(words: list[str], where: str) -> str:
    return _ALGORITHMS.get(str(_whole(words, where)), "none")


KEYS: dict[str, tuple[str, Reader]] = {
    "ENABLE_QCN": ("ecn", _flag),
    "CC_MODE": ("congestion_control", _algorithm),
    "PACKET_PAYLOAD_SIZE": ("payload_bytes", _whole),
    "ALPHA_RESUME_INTERVAL": ("alpha_interval_us", _number),
    "RATE_DECREASE_INTERVAL": ("decrease_interval_us", _number),
    "CLAMP_TARGET_RATE": ("clamp_target", _flag),
    "RP_TIMER": ("increase_interval_us", _number),
    "EWMA_GAIN": ("gain", _number),
    "FAST_RECOVERY_TIMES": ("fast_recovery", _whole),
    "RATE_AI": ("rate_ai_mbps", _mbps),
    "RATE_HAI": ("rate_hai_mbps", _mbps),
    "MIN_RATE": ("min_rate_mbps", _mbps),
    "DCTCP_RATE_AI": ("dctcp_rate_ai_mbps", _mbps),
    "ERROR_RATE_PER_LINK": ("error_rate", _number),
    "L2_CHUNK_SIZE": ("chunk_bytes", _whole),
    "L2_ACK_INTERVAL": ("ack_interval_bytes", _whole),
    "L2_BACK_TO_ZERO": ("back_to_chunk", _flag),
    "HAS_WIN": ("windows", _flag),
    "GLOBAL_T": ("common_window", _flag),
    "VAR_WIN": ("variable_window", _flag),
    "FAST_REACT": ("fast_reaction", _flag),
    "U_TARGET": ("target_utilisation", _number),
    "MI_THRESH": ("stages", _whole),
    "INT_MULTI": ("telemetry_unit", _whole),
    "MULTI_RATE": ("rate_of_hop", _flag),
    "SAMPLE_FEEDBACK": ("sampled_feedback", _flag),
    "PINT_LOG_BASE": ("pint_base", _number),
    "PINT_PROB": ("pint_share", _number),
    "RATE_BOUND": ("pacing", _flag),
    "ACK_HIGH_PRIO": ("acks_first", _flag),
    "LINK_DOWN": ("link_down", _failure),
    "KMAX_MAP": ("ecn_kmax", _map),
    "KMIN_MAP": ("ecn_kmin", _map),
    "PMAX_MAP": ("ecn_pmax", _map),
    "BUFFER_SIZE": ("buffer_mib", _number),
    "HEADROOM_FACTOR": ("headroom_factor", _number),
}
_TOPOLOGY = "TOPOLOGY_FILE"
_KNOWN = (*KEYS, _TOPOLOGY, *WITHOUT_EFFECT, *REQUESTS, *OUTPUTS)


def recognises(text: str) -> bool:
    """Whether two lines at least begin with keys of such a file."""
    words = {line.split()[0] for line in text.split("\n") if line.strip()}
    return len(words & set(_KNOWN)) >= 2 or _TOPOLOGY in words


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The section `network`, and `platform` if the file names a topology. Raises InputError with the line."""
    lines: dict[str, int] = {}
    network: dict[str, Any] = {"plugin": "roce", "preset": "reference"}
    sections: dict[str, dict[str, Any]] = {"network": network}
    idle: list[str] = []
    unwritten: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        key, where = words[0], f"{path}:{number}"
        if key not in _KNOWN:
            raise InputError(f"{where}: unknown key {key!r:.80}; {suggestion(key, _KNOWN)}")
        if key in lines:
            raise InputError(f"{where}: {key} is given again (first in line {lines[key]})")
        lines[key] = number
        if key in KEYS:
            option, reader = KEYS[key]
            network[option] = reader(words[1:], f"{where}: {key}")
        elif key == _TOPOLOGY:
            topology = _beside(_text(words[1:], f"{where}: {key}"), path, where)
            sections["platform"] = ns3_topology.read(read_text(topology), topology)["platform"]
        elif key in REQUESTS:
            _text(words[1:], f"{where}: {key}")
            network[REQUESTS[key]] = True
        elif key in OUTPUTS:
            unwritten.append(key)
        elif key in WITHOUT_EFFECT:
            idle.append(key)
    notes = [f"without effect here and in ns-3: {', '.join(idle)}"] if idle else []
    if unwritten:
        notes.append(f"no file for {', '.join(unwritten)}: queues in time are qlen.csv of network.qlen_interval_us")
    if notes:
        warn(f"{path}: {'; '.join(notes)}")
    return sections


def _beside(name: str, path: str, where: str) -> str:
    """The path of a file that another names: relative to it, or to the working directory."""
    candidates = [os.path.join(os.path.dirname(path), name), name]
    for candidate in candidates:
        if is_there(candidate):
            return candidate
    raise InputError(f"{where}: {_TOPOLOGY} is {name!r}, which is not there (relative to the file, or to the working directory)")
