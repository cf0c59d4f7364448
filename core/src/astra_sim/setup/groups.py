"""Communicator groups: NPUs that run collectives together, by name. A file of ASTRA-sim 2.x is JSON: {"1": [0, 1], "2": [2, 3]}."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from astra_sim.errors import InputError, suggestion
from astra_sim.files import parse_json, parse_toml, read_text

EVERYBODY = ("", "0")
"""Names of the group of all NPUs."""


def read_groups(path: str | os.PathLike[str], is_input: bool = True) -> dict[str, Any]:
    """The table in a file: JSON, or TOML (*.toml); no input if it is written again, with more in it. Raises InputError."""
    name = os.fspath(path)
    text = read_text(name, is_input)
    if name.endswith(".toml"):
        return parse_toml(text, name)
    table = parse_json(text, name)
    if not isinstance(table, dict):
        raise InputError(f"{name}: expected a JSON object, with the NPUs of each group by its name")
    return table


def check_groups(table: Mapping[str, Any], npus: int, where: str) -> dict[str, tuple[int, ...]]:
    """The members of each group, in the order of ranks. Raises InputError naming group and NPU."""
    groups = {}
    for name, members in table.items():
        if name in EVERYBODY:
            raise InputError(f"{where}: group {name!r} is the group of all NPUs; expected another name")
        if not isinstance(members, (list, tuple)) or not members or not all(type(npu) is int for npu in members):
            raise InputError(f"{where}: group {name!r} is {members!r}; expected a list of NPUs")
        check_npus(members, npus, f"{where}: group {name!r}")
        groups[name] = tuple(members)
    return groups


def check_npus(members: Sequence[int], npus: int, what: str) -> None:
    """Raise InputError, beginning with `what` has them, for an NPU that a platform of `npus` does not have, or that is there twice."""
    for npu in members:
        if not 0 <= npu < npus:
            raise InputError(f"{what} has NPU {npu}; expected 0 to {npus - 1}")
    if len(set(members)) < len(members):
        twice = next(npu for npu in members if members.count(npu) > 1)
        raise InputError(f"{what} has NPU {twice} twice")


def members_of(groups: Mapping[str, tuple[int, ...]], name: str | None, where: str) -> tuple[int, ...] | None:
    """The members of a group; None for that of all NPUs. Raises InputError if there is none of that name."""
    if name is None or name in EVERYBODY:
        return None
    if name not in groups:
        known = suggestion(name, groups) if groups else "no groups are given (--groups FILE)"
        raise InputError(f"{where}: there is no group {name!r}; {known}")
    return groups[name]
