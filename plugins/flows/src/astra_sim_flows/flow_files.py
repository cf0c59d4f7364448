"""Files of flows: CSV with a heading, or a JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from astra_sim.errors import InputError
from astra_sim.files import check_cells, check_columns, csv_rows, finite_number, parse_json, whole_number

from astra_sim_flows.running import Flow, circle_of

_COLUMNS = ("id", "src", "dst", "bytes", "start_ns", "after", "pg")
_NEEDED = ("src", "dst", "bytes")
_MOST_NS = 2.0**52
_OTHER_SEPARATORS = (";", "\t", "|")

Id = int | str


@attrs.frozen
class NamedFlows:
    """Flows, and the id of each."""

    ids: tuple[Id, ...]
    flows: tuple[Flow, ...]


def parse_flows(text: str, path: str, npus: int) -> NamedFlows:
    """The flows in a text, for a platform of `npus` NPUs. Raises InputError naming file, line and value."""
    rows = list(_json_rows(text, path) if text.lstrip().startswith("{") else _csv_rows(text, path))
    if not rows:
        raise InputError(f"{path}: there is no flow; expected CSV with a heading of {', '.join(_COLUMNS)}, or a JSON object a line")
    ids: dict[Id, int] = {}
    for where, row in rows:
        number = _id(row.get("id", len(ids)), f"{where}: id")
        if number in ids:
            raise InputError(f"{where}: id {number!r} is given again")
        ids[number] = len(ids)
    named = NamedFlows(tuple(ids), tuple(_flow(row, where, ids, npus) for where, row in rows))
    circle = circle_of(named.flows)
    if circle:
        listed = ", which waits for ".join(repr(named.ids[place]) for place in circle)
        raise InputError(f"{rows[circle[0]][0]}: flows wait for each other in a circle: {listed}, which waits for the first")
    return named


def _csv_rows(text: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of flows in CSV with their file and line. Raises InputError."""
    heading: list[str] = []
    for number, cells in csv_rows(text, path):
        where = f"{path}:{number}"
        if not heading:
            heading = cells
            separator = next((each for each in _OTHER_SEPARATORS if len(cells) == 1 and each in cells[0]), None)
            if separator:
                raise InputError(f"{where}: cells are separated by {separator!r}; expected commas")
            check_columns(heading, where, _NEEDED, _COLUMNS)
        else:
            check_cells(cells, heading, where)
            row: dict[str, Any] = {key: cell for key, cell in zip(heading, cells, strict=True) if cell}
            row["after"] = row.get("after", "").split()
            yield where, row


def _json_rows(text: str, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of flows in JSON Lines with their file and line. Raises InputError."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        row = parse_json(line, path, number)
        if not isinstance(row, dict):
            raise InputError(f"{where}: {line.strip()!r:.80}; expected a JSON object with {', '.join(_COLUMNS)}")
        check_columns(list(row), where, _NEEDED, _COLUMNS)
        if not isinstance(row.get("after", []), list):
            raise InputError(f"{where}: after is {row['after']!r}; expected a list of ids")
        yield where, row


def _flow(row: Mapping[str, Any], where: str, ids: Mapping[Id, int], npus: int) -> Flow:
    """The flow of a row, with times in picoseconds. Raises InputError that begins with `where`."""
    source, destination = (whole_number(row.get(key), f"{where}: {key}", most=npus - 1) for key in ("src", "dst"))
    if source == destination:
        raise InputError(f"{where}: src and dst are both {source}; expected two NPUs")
    after = []
    for name in row.get("after", ()):
        before = _id(name, f"{where}: after")
        if before not in ids:
            raise InputError(f"{where}: after names {before!r}, which is no id of a flow")
        after.append(ids[before])
    start = finite_number(row.get("start_ns", 0), f"{where}: start_ns", most=_MOST_NS, unit="ns")
    group = whole_number(row["pg"], f"{where}: pg", most=7) if "pg" in row else -1
    return Flow(
        source, destination, whole_number(row.get("bytes"), f"{where}: bytes", most=2**60), round(start * 1000), tuple(after), group
    )


def _id(value: Any, where: str) -> Id:
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 19 else value
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{where} has {value!r}; expected a number or a name")
    return value
