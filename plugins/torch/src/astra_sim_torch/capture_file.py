"""The files of a capture: for each rank that was recorded a head and its events, as JSON lines.

`recording/events.py` writes them. The head has the world, the rank, the script, the groups of the rank by name (`groups`), all groups that
the script made (`made`), the bytes at the peak of memory by the phase in which they were allocated (`peak_bytes`), and `notes` about what
is recorded in another way than it runs. Events are in the order in which the host issued them:

* `kernel`: `op`, `flops`, `read` and `write` (bytes), `type` of the elements, `gemm` [m, n, k, batch], or `attention` [heads, queries,
  keys, head size, value size, key heads] with `causal` and `backward`
* `collective`: `op`, `bytes` of the operand of a rank, `group`, and `work`, for which others wait
* `send`, `receive`: `bytes`, `peer` in the `group`, `tag`, `work`
* `wait`: the stream waits for `work`
* `mark`, `wait_mark`: the work issued to the stream so far is `mark`; the stream waits for it
* `allocate`, `free` (since version 2): the `storage` of tensors, of some `bytes`, and what it `holds`; those that a step finds come first

All have the `stream` that they are issued to; kernels, communication and storages the `phase` (forward, backward, optimizer), the `module`
of the model, and the `line` of the script.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.files import parse_json, read_packed_text

FORMAT, VERSIONS = "astra torch capture", (1, 2)
HELD = ("parameters", "gathered", "gradients", "optimizer", "activations", "inputs", "communication", "temporaries")
"""What a storage may hold; `gathered` are parameters that FSDP has gathered, `communication` other buffers of it."""

_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "kernel": ("flops", "read", "write"),
    "collective": ("bytes", "work"),
    "send": ("bytes", "peer", "tag", "work"),
    "receive": ("bytes", "peer", "tag", "work"),
    "wait": ("work",),
    "mark": ("mark",),
    "wait_mark": ("mark",),
    "allocate": ("storage", "bytes"),
    "free": ("storage",),
}
"""The fields of each kind of event that must be non-negative integers, besides `stream`."""

_SHAPES: Mapping[str, int] = {"gemm": 4, "attention": 6}


@attrs.frozen
class RankCapture:
    """The capture of one rank: the file, the head, and the events."""

    path: str
    world: int
    rank: int
    script: tuple[str, ...]
    groups: Mapping[str, tuple[int, ...]]
    created_groups: tuple[tuple[int, ...], ...]
    peak_bytes: Mapping[str, int]
    events: Sequence[Mapping[str, Any]]
    notes: tuple[str, ...] = ()


def recognises(text: str) -> bool:
    """Whether a text is a capture."""
    return text.startswith('{"format": "' + FORMAT)


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The workload of a file of a capture."""
    parse_capture(text, path)
    return {"workload": {"plugin": "torch_capture", "path": os.path.abspath(path)}}


def load_captures(path: str) -> list[RankCapture]:
    """The capture of each rank in a folder, by rank, or that of one file. Raises InputError."""
    folder = Path(path)
    files = sorted(folder.glob("rank_*.jsonl*")) if folder.is_dir() else [folder]
    if not files:
        raise InputError(f"{path}: no capture; expected files rank_N.jsonl, as astra capture torch writes them")
    captures = [parse_capture(read_packed_text(str(file)), str(file)) for file in files]
    worlds = {each.world for each in captures}
    if len(worlds) > 1:
        raise InputError(f"{path}: captures of worlds of {', '.join(map(str, sorted(worlds)))} ranks; expected one world")
    return sorted(captures, key=lambda each: each.rank)


def parse_capture(text: str, path: str) -> RankCapture:
    """The capture of one rank. Raises InputError with file and line."""
    head, *lines = text.splitlines() or [""]
    table = parse_json(head, path, 1)
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        raise InputError(f'{path}: line 1: expected the head of a capture, {{"format": "{FORMAT}", ...}}')
    if table.get("version") not in VERSIONS:
        raise InputError(f"{path}: line 1: version is {table.get('version')!r}; expected {' or '.join(map(str, VERSIONS))}")
    world, rank = (_whole(table.get(key), f"{path}: line 1: {key}") for key in ("world", "rank"))
    if rank >= world:
        raise InputError(f"{path}: line 1: rank is {rank}; expected less than world, which is {world}")
    groups = {str(name): _ranks(ranks, world, f"{path}: line 1: group {name}") for name, ranks in _table(table.get("groups"), path).items()}
    result = tuple(_ranks(ranks, world, f"{path}: line 1: made") for ranks in table.get("made") or ())
    events = [_event(line, path, number, groups) for number, line in enumerate(lines, 2)]
    script = tuple(map(str, table.get("script") or ()))
    peak = {str(phase): _whole(size, f"{path}: line 1: peak_bytes") for phase, size in (table.get("peak_bytes") or {}).items()}
    return RankCapture(path, world, rank, script, groups, result, peak, events, tuple(map(str, table.get("notes") or ())))


def _event(line: str, path: str, number: int, groups: Mapping[str, Any]) -> Mapping[str, Any]:
    """An event, checked. Raises InputError."""
    where = f"{path}: line {number}"
    try:
        event = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: no JSON: {error}") from None
    kind = str(event.get("kind")) if isinstance(event, dict) else ""
    if kind not in _NUMBERS:
        raise InputError(f"{where}: kind is {kind!r}; expected one of {', '.join(_NUMBERS)}")
    for key in ("stream", *_NUMBERS[kind]):
        _whole(event.get(key), f"{where}: {key}")
    for key, length in _SHAPES.items():
        if key in event and (not isinstance(event[key], list) or len(event[key]) != length):
            raise InputError(f"{where}: {key} is {event[key]!r}; expected {length} numbers")
        for value in event.get(key, ()):
            _whole(value, f"{where}: {key}", 1)
    if kind in ("collective", "send", "receive") and event.get("group") not in groups:
        raise InputError(f"{where}: group is {event.get('group')!r}; expected one of the head: {', '.join(groups) or 'it has none'}")
    if kind == "allocate" and event.get("holds") not in HELD:
        raise InputError(f"{where}: holds is {event.get('holds')!r}; expected one of {', '.join(HELD)}")
    result: Mapping[str, Any] = event
    return result


def _whole(value: Any, where: str, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise InputError(f"{where} is {value!r}; expected a whole number of at least {least}")
    return value


def _table(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{path}: line 1: groups is {value!r}; expected a table of ranks by group")
    return value


def _ranks(value: Any, world: int, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not value or not all(type(each) is int and 0 <= each < world for each in value):
        raise InputError(f"{where} is {value!r}; expected ranks from 0 to {world - 1}")
    if len(set(value)) < len(value):
        raise InputError(f"{where} has a rank twice: {value!r}")
    return tuple(value)
