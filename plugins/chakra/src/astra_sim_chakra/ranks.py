"""The traces of all ranks, `<prefix>.<rank>.et` or `.json`. Ranks that do the same share one program."""

from __future__ import annotations

import hashlib
import os
import re
from array import array

import attrs
from astra_sim import InputError
from astra_sim.errors import warn
from astra_sim.files import note_input
from astra_sim.rows import Column

from astra_sim_chakra.trace import Trace
from astra_sim_chakra.trace_files import GZIP, JSON, load_trace

PROTOBUF = ".et"
EXTENSIONS = (PROTOBUF, JSON, f"{PROTOBUF}{GZIP}", f"{JSON}{GZIP}")
"""The file extensions of ranks."""


@attrs.frozen(eq=False)
class RankTraces:
    """The traces of `ranks` ranks.

    `programs` are the different programs, in the order of the first rank that has each; `program_of[rank]` is the index of its program.
    In a program peers are distances, `(peer - rank) % ranks`, and process groups are numbered by their first use: so the ranks of a
    pipeline stage share a program, each in groups of its own. `groups_of[rank]` are the names of a rank's groups; the program's column
    `group` holds indices into that list (`programs[p].comm.groups` are those of the first rank).
    """

    prefix: str
    ranks: int
    programs: tuple[Trace, ...]
    program_of: tuple[int, ...]
    groups_of: tuple[tuple[str, ...], ...]
    extension: str = PROTOBUF

    def path(self, rank: int) -> str:
        """The file of a rank."""
        return rank_path(self.prefix, rank, self.extension)

    def trace(self, rank: int) -> Trace:
        """The trace of a rank as it is in its file: peers are ranks. Raises IndexError."""
        program = self.programs[self.program_of[rank]]
        src, dst = (_shifted(column, rank, self.ranks) for column in (program.comm.src, program.comm.dst))
        comm = attrs.evolve(program.comm, src=src, dst=dst, relative=False, groups=self.groups_of[rank])
        return attrs.evolve(program, path=self.path(rank), comm=comm)

    def members(self, program: int) -> list[int]:
        """The ranks that have a program."""
        return [rank for rank, result in enumerate(self.program_of) if result == program]


def rank_path(prefix: str, rank: int, extension: str = PROTOBUF) -> str:
    """The file of a rank."""
    return f"{prefix}.{rank}{extension}"


def extension_of(prefix: str) -> str:
    """The file extension of ranks: the first of `EXTENSIONS` of which there are files. Raises InputError as `find_ranks`."""
    return next((extension for extension in EXTENSIONS if find_ranks(prefix, extension)), PROTOBUF)


def load_ranks(prefix: str | os.PathLike[str], ranks: int | None = None, *, keep: bool = False, dependencies: str = "both") -> RankTraces:
    """The traces of all ranks: files `<prefix>.<rank>.et`, from rank 0 on; if there are none, `.json`, `.et.gz`
    or `.json.gz`.

    `ranks`: how many there must be (None: as many as there are); files of further ranks are not read, with a warning. `keep` and
    `dependencies` as for `load_trace`. Raises InputError like `load_trace`, and if a file is missing or a peer is not a rank.
    """
    prefix = os.fspath(prefix)
    extension = extension_of(prefix)
    present = find_ranks(prefix, extension)
    count = (max(present) + 1 if present else 0) if ranks is None else ranks
    if not present:
        raise InputError(f"{prefix}: there are no traces; expected {rank_path(prefix, 0)} and so on, one for each rank")
    for rank in range(count):
        if rank not in present:
            fewer = f" (with platform.logical_dims={max(present) + 1} other NPUs are idle)" if rank == max(present) + 1 else ""
            last = f"expected ranks 0 to {count - 1}, and {max(present)} is the last there is{fewer}"
            raise InputError(f"{rank_path(prefix, rank, extension)} is missing; {last}")
    if max(present) >= count:
        last = rank_path(prefix, max(present), extension)
        warn(f"{last}: there are traces for {max(present) + 1} ranks; only those of ranks 0 to {count - 1} run, as in ASTRA-sim 2.x")
    by_bytes: dict[bytes, Trace] = {}
    places: dict[bytes, int] = {}
    programs: list[Trace] = []
    program_of, groups_of = [], []
    for rank in range(count):
        path = rank_path(prefix, rank, extension)
        of_bytes = _file_digest(path)
        trace = by_bytes.get(of_bytes)
        if trace is None:
            trace = load_trace(path, keep=keep, dependencies=dependencies)
        relative = _relative(trace, rank, count, path)
        # Of ranks with the same program only one trace is kept, that of the first.
        state = hashlib.sha256(trace.digest)
        if trace.has_peers:
            state.update(relative.comm.src)
            state.update(relative.comm.dst)
        key = state.digest()
        if key not in places:
            places[key] = len(programs)
            programs.append(relative)
            by_bytes[of_bytes] = trace
        program_of.append(places[key])
        groups_of.append(trace.comm.groups)
    return RankTraces(
        prefix=prefix, ranks=count, programs=tuple(programs), program_of=tuple(program_of), groups_of=tuple(groups_of), extension=extension
    )


def find_ranks(prefix: str, extension: str = PROTOBUF) -> set[int]:
    """The ranks for which there is a file. Raises InputError if the folder cannot be read."""
    folder, name = os.path.split(prefix)
    pattern = re.compile(re.escape(name) + r"\.(0|[1-9][0-9]{0,8})" + re.escape(extension))
    try:
        return {int(match[1]) for match in map(pattern.fullmatch, os.listdir(folder or ".")) if match}
    except OSError as error:
        raise InputError(f"{folder or '.'}: {error.strerror or error}") from None


def _file_digest(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            note_input(file.fileno())
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def _relative(trace: Trace, rank: int, ranks: int, path: str) -> Trace:
    """A trace with peers relative to its rank, so that ranks that do the same have equal ones. Raises InputError for other peers."""
    if not trace.has_peers:
        return trace.with_peers(trace.comm.src, trace.comm.dst, relative=True)
    columns: list[Column] = []
    for name, column in (("comm_src", trace.comm.src), ("comm_dst", trace.comm.dst)):
        for row in range(len(trace)) if max(column) >= ranks else ():
            if column[row] >= ranks:
                raise InputError(f"{path}: {trace.label(row)}: {name} is {column[row]}; expected 0 to {ranks - 1}")
        columns.append(_shifted(column, -rank, ranks))
    return trace.with_peers(columns[0], columns[1], relative=True)


def _shifted(peers: Column, distance: int, ranks: int) -> Column:
    """Peers shifted by a distance, modulo the number of ranks; -1 stays."""
    if not len(peers) or max(peers) < 0:
        return peers
    return memoryview(array("i", [(peer + distance) % ranks if peer >= 0 else peer for peer in peers])).toreadonly()
