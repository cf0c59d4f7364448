"""The traces that TRACE names: those of all ranks by their prefix, or one file."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.commands import Experiment, build_platform, shared_plugins
from astra_sim.experiments import check_groups, read_groups
from astra_sim.files import note_input

from astra_sim_chakra.doctor.findings import TraceFinding
from astra_sim_chakra.doctor.lenient import LenientTrace, read_loosely
from astra_sim_chakra.ranks import EXTENSIONS, PROTOBUF, extension_of, find_ranks, rank_path
from astra_sim_chakra.trace_files import is_json

_ONE_FILE = re.compile(r"(.*)\.(0|[1-9][0-9]{0,8})(\.(?:et|json)(?:\.gz)?)")


@attrs.frozen(eq=False)
class TraceSet:
    """The traces of ranks as their files have them. `ranks` is the expected number, unknown for a `single` file."""

    name: str
    prefix: str
    extension: str
    traces: Mapping[int, LenientTrace]
    ranks: int
    single: bool = False
    groups: Mapping[str, tuple[int, ...]] = {}
    groups_file: str | None = None
    sizes: Sequence[int] | None = None

    @property
    def missing(self) -> list[TraceFinding]:
        """The ranks for which there is no file."""
        missing = [rank for rank in range(self.ranks) if rank not in self.traces] if not self.single else []
        there = f"there are {len(self.traces)} files, up to rank {max(self.traces)}"
        return [TraceFinding("missing_rank", f"{rank_path(self.prefix, rank, self.extension)} is missing; {there}") for rank in missing]

    def members(self, group: str) -> tuple[int, ...] | None:
        """The ranks of a process group; None if no file of groups names it."""
        return tuple(range(self.ranks)) if group in EVERYBODY else self.groups.get(group)


EVERYBODY = ("", "0")
"""Names of the process group of all ranks."""


def open_traces(name: str, groups: str | None = None, platform: str | None = None) -> TraceSet:
    """Open TRACE: a prefix with or without its extension, or one file. Raises InputError if there is no such trace.

    `groups`: the file of process groups (None: `PREFIX.groups.json`, if it is there); `platform`: the dimensions of `involved_dim`.
    """
    if os.path.isfile(name):
        prefix, rank = _of_file(name)
        extension = _prefix_of(name) or PROTOBUF
        paths, single = {rank: name}, True
    else:
        result = _prefix_of(name)
        prefix = name.removesuffix(result)
        extension = result if result not in ("", PROTOBUF) else extension_of(prefix)
        paths, single = {rank: rank_path(prefix, rank, extension) for rank in sorted(find_ranks(prefix, extension))}, False
    if not paths:
        raise InputError(f"{name}: there is no such trace; expected a file, or a prefix with {rank_path(prefix, 0)} and so on")
    lenient_traces: dict[bytes, LenientTrace] = {}
    traces = {rank: _shared(path, lenient_traces) for rank, path in paths.items()}
    file = groups or (f"{prefix}.groups.json" if os.path.exists(f"{prefix}.groups.json") and not single else None)
    table = read_groups(file) if file is not None else {}
    ranks = 1 + max([*paths, *_ranks_of(table)])
    named = check_groups(table, ranks, str(file))
    sizes = None if platform is None else _sizes(platform, ranks, single)
    return TraceSet(
        name=name,
        prefix=prefix,
        extension=extension,
        traces=traces,
        ranks=ranks,
        single=single,
        groups=named,
        groups_file=file,
        sizes=sizes,
    )


def _prefix_of(name: str) -> str:
    """The extension of traces that a name has; "" if it has none."""
    return next((extension for extension in reversed(EXTENSIONS) if name.endswith(extension)), "")


def _of_file(name: str) -> tuple[str, int]:
    """The prefix and the rank of one file.

    A number before `.json` that follows a digit is the rank only if rank 0 is beside: it ends a version in `et-1.0.4.json`.
    """
    matched = _ONE_FILE.fullmatch(name)
    if matched is None:
        return name.removesuffix(_prefix_of(name)) if _prefix_of(name) else os.path.splitext(name)[0], 0
    prefix, rank, extension = matched[1], int(matched[2]), matched[3]
    if is_json(name) and prefix[-1:].isdigit() and not os.path.isfile(rank_path(prefix, 0, extension)):
        return name.removesuffix(extension), 0
    return prefix, rank


def _ranks_of(table: Mapping[str, Any]) -> Iterator[int]:
    """All ranks that a table of process groups names: ranks whose files are missing are found by them."""
    for members in table.values():
        yield from (member for member in members if type(member) is int and member < _MOST_RANKS) if isinstance(members, list) else ()


_MOST_RANKS = 1 << 24


def _shared(path: str, cached: dict[bytes, LenientTrace]) -> LenientTrace:
    """The trace in a file; files with equal bytes share their nodes."""
    try:
        with open(path, "rb") as file:
            note_input(file.fileno())
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    if digest not in cached:
        cached[digest] = read_loosely(path)
    return attrs.evolve(cached[digest], path=path)


def _sizes(spec: str, ranks: int, single: bool) -> list[int]:
    experiment = Experiment()
    experiment.use("platform", spec, shared_plugins(), where="--platform")
    platform = build_platform(experiment, shared_plugins())
    if not single and platform.npus != ranks:
        raise InputError(f"--platform {spec} has {platform.npus} NPUs; expected {ranks}, as many as there are ranks")
    return [dimension.size for dimension in platform.dimensions]
