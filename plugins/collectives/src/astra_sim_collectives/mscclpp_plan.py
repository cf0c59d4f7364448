"""Reads an execution plan in the JSON format of MSCCL++: GPUs, their thread blocks, and the operations of each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.files import read_text
from astra_sim.schedule import Collective

from astra_sim_collectives.msccl_xml import COLLECTIVES, MAX_CHUNKS

LOCAL = ("nop", "barrier", "flush", "copy", "re", "sem_acquire", "sem_release", "cpkt", "upkt", "repkt", "recpkt")
PUTTING = ("put", "pws", "pwsf", "ppkt", "rppkt")
SIGNALLING = ("signal", "rlxsignal", "pws", "pwsf")
WAITING = ("wait", "rlxwait")
GETTING = ("get", "rre", "rres")
REDUCING = ("re", "res", "rre", "rres", "repkt", "recpkt", "respkt", "recspkt")
REDUCING_AND_SENDING = ("res", "rres", "respkt", "recspkt")
PACKETS = ("ppkt", "rppkt", "cpkt", "upkt", "repkt", "recpkt", "respkt", "recspkt")
"""Operations whose scratch buffers hold packets: data with flags, for which readers wait."""

OPERATIONS = tuple(dict.fromkeys((*LOCAL, *PUTTING, *SIGNALLING, *WAITING, *GETTING, *REDUCING)))
_UNSUPPORTED = {
    "glres": "it reduces in the switch (NVLS); use the collective in_network for that",
    "pipeline": "its loops depend on the size of the buffer; write the operations of each iteration",
}
_CHANNEL_TYPES = ("memory", "port")


class BufferSpan(NamedTuple):
    """Chunks of a buffer of a rank, one behind the other: `buffer` is i (input), o (output) or s (scratch)."""

    rank: int
    buffer: str
    first: int
    length: int


class ChannelEnd(NamedTuple):
    """An end of a channel: the rank at the other end, and which of those of its type to that rank it is."""

    peer: int
    type: str
    number: int


@attrs.frozen
class Operation:
    """An operation of a thread block. Sources and targets have as many chunks each. `where` is its place in the file."""

    name: str
    sources: tuple[BufferSpan, ...]
    targets: tuple[BufferSpan, ...]
    channels: tuple[ChannelEnd, ...]
    barrier: int
    semaphores: tuple[int, ...]
    where: str


@attrs.frozen
class ExecutionPlan:
    """A plan. `chunks` is the number of chunks of the larger of the buffers i and o; `blocks[rank]` are thread blocks.

    `semaphores[rank]` are the initial values of semaphores.
    """

    path: str
    collective: Collective
    chunks: int
    in_place: bool
    blocks: Sequence[Sequence[Sequence[Operation]]]
    semaphores: Sequence[Sequence[int]]


def read_plan(path: str) -> ExecutionPlan:
    """The plan in a file. Raises InputError naming the place in the file, the value, and the expected one."""
    try:
        table = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None
    return _MscclppReader(path).plan(table)


class _MscclppReader:
    def __init__(self, path: str) -> None:
        self._path = path

    def plan(self, table: Any) -> ExecutionPlan:
        top = self.table(table, "")
        name = top.get("collective")
        if name not in COLLECTIVES:
            raise self._error("collective", f"is {name!r}", f"{', '.join(COLLECTIVES)}")
        gpus = self._list(top, "gpus", "", least=1)
        collective, parts = COLLECTIVES[name], math.lcm(*(size for gpu in gpus for size in self._group_sizes(gpu)), 1)
        chunks = {self._chunks(gpu, number, collective, len(gpus)) for number, gpu in enumerate(gpus)}
        if len(chunks) > 1:
            raise self._error("gpus", f"have {', '.join(map(str, sorted(chunks)))} chunks", "the same of all")
        whole = chunks.pop() * parts
        if whole > MAX_CHUNKS:
            raise self._error("gpus", f"have {whole} parts of chunks", f"at most {MAX_CHUNKS}")
        readers = [_GpuReader(self, gpu, number, len(gpus), parts, whole) for number, gpu in enumerate(gpus)]
        blocks = [reader.blocks() for reader in readers]
        uses_output = any(span.buffer == "o" for own in blocks for ops in own for op in ops for span in (*op.sources, *op.targets))
        in_place = bool(top.get("inplace", False)) or not uses_output
        return ExecutionPlan(self._path, collective, whole, in_place, blocks, [reader.semaphores() for reader in readers])

    def _group_sizes(self, gpu: Any) -> Iterator[int]:
        """Into how many parts thread blocks share operations (`tbg_info`)."""
        for block in gpu.get("threadblocks", ()) if isinstance(gpu, Mapping) else ():
            for op in block.get("ops", ()) if isinstance(block, Mapping) else ():
                group = op.get("tbg_info") if isinstance(op, Mapping) else None
                if isinstance(group, Mapping) and isinstance(group.get("tbg_size"), int) and 0 < group["tbg_size"] <= 1024:
                    yield group["tbg_size"]

    def _chunks(self, gpu: Any, number: int, collective: Collective, ranks: int) -> int:
        """The chunks of the larger of input and output; those of all but an all-reduce belong to one rank each."""
        where = f"gpus[{number}]"
        table = self.table(gpu, where)
        counts = [self.number(table, key, where, 0, MAX_CHUNKS) for key in ("input_chunks", "output_chunks")]
        larger = max(counts)
        if not larger or (collective is not Collective.ALL_REDUCE and larger % ranks):
            right = "at least 1" if collective is Collective.ALL_REDUCE else f"a multiple of the {ranks} gpus, the larger of the two"
            raise self._error(where, f"has input_chunks {counts[0]} and output_chunks {counts[1]}", right)
        return larger

    def error(self, where: str, what: str) -> InputError:
        """An error at a place in the file."""
        return InputError(f"{self._path}: {where}: {what}")

    def _error(self, where: str, what: str, right: str) -> InputError:
        return InputError(f"{self._path}: {where}{' ' if where else ''}{what}; expected {right}")

    def table(self, value: Any, where: str) -> Mapping[str, Any]:
        """A value that is to be a table."""
        if not isinstance(value, Mapping):
            raise self._error(where, f"is {json.dumps(value)[:80]}", "a table")
        return value

    def _list(self, table: Mapping[str, Any], key: str, where: str, least: int = 0) -> Sequence[Any]:
        value = table.get(key, ())
        if not isinstance(value, (list, tuple)) or len(value) < least:
            raise self._error(f"{where}.{key}" if where else key, f"is {json.dumps(value)[:80]}", f"a list of at least {least}")
        return value

    def tables(self, table: Mapping[str, Any], key: str, where: str) -> Iterator[tuple[Mapping[str, Any], str]]:
        """The tables of a list, with their places."""
        for number, each in enumerate(self._list(table, key, where)):
            place = f"{where}.{key}[{number}]"
            yield self.table(each, place), place

    def numbers(self, table: Mapping[str, Any], key: str, where: str, high: int) -> list[int]:
        """Whole numbers from 0 to `high` of a list."""
        values = self._list(table, key, where)
        return [self._checked(value, f"{where}.{key}[{place}]", 0, high) for place, value in enumerate(values)]

    def number(self, table: Mapping[str, Any], key: str, where: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number of a table."""
        return self._checked(table.get(key, default), f"{where}.{key}", low, high)

    def _checked(self, value: Any, where: str, low: int, high: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            fault = "is missing" if value is None else f"is {json.dumps(value)[:80]}"
            raise self._error(where, fault, f"a whole number from {low} to {high}")
        return value

    def word(self, table: Mapping[str, Any], key: str, where: str, known: Sequence[str]) -> str:
        """One of several words."""
        value = table.get(key)
        if value not in known:
            fault = f"{where}.{key} is {json.dumps(value)[:80]}; {suggestion(str(value), known)}"
            raise InputError(f"{self._path}: {fault}")
        return str(value)


class _GpuReader:
    """Reads the thread blocks of a GPU. Chunks are cut into `parts`, and there are `chunks` of these parts in all."""

    def __init__(self, reader: _MscclppReader, table: Mapping[str, Any], rank: int, ranks: int, parts: int, chunks: int) -> None:
        self._reader, self._gpu, self._rank, self._ranks, self._parts, self._chunks = reader, table, rank, ranks, parts, chunks
        self._where = f"gpus[{rank}]"
        if reader.number(table, "id", self._where, 0, ranks - 1) != rank:
            raise reader.error(self._where, f"id is {table['id']}; expected {rank}, since gpus are in order")
        self._channels: dict[str, list[ChannelEnd]] = {kind: [] for kind in _CHANNEL_TYPES}
        for channel, where in reader.tables(table, "channels", self._where):
            if channel.get("channel_type") == "switch":
                raise reader.error(where, f"channel_type is 'switch': {_UNSUPPORTED['glres']}")
            kind = reader.word(channel, "channel_type", where, _CHANNEL_TYPES)
            for peer in reader.numbers(channel, "connected_to", where, ranks - 1):
                if peer == rank:
                    raise reader.error(where, f"connected_to has {peer}, which is the gpu itself; expected others")
                channels = self._channels[kind]
                channels.append(ChannelEnd(peer, kind, sum(end.peer == peer for end in channels)))
        self._remote = [
            (reader.number(buffer, "rank", where, 0, ranks - 1), reader.word(buffer, "type", where, ("i", "o", "s")))
            for buffer, where in reader.tables(table, "remote_buffers", self._where)
        ]

    def semaphores(self) -> list[int]:
        """The initial values of its semaphores."""
        semaphores = self._reader.tables(self._gpu, "semaphores", self._where)
        return [self._reader.number(each, "init_value", where, 0, MAX_CHUNKS, 0) for each, where in semaphores]

    def blocks(self) -> list[list[Operation]]:
        """The operations of its thread blocks."""
        result = []
        for block, where in self._reader.tables(self._gpu, "threadblocks", self._where):
            channels: dict[str, list[ChannelEnd]] = {kind: [] for kind in _CHANNEL_TYPES}
            for channel, place in self._reader.tables(block, "channels", where):
                kind = self._reader.word(channel, "channel_type", place, _CHANNEL_TYPES)
                known = self._channels[kind]
                channels[kind] += (known[each] for each in self._reader.numbers(channel, "channel_ids", place, len(known) - 1))
            remote: dict[str, list[tuple[int, str]]] = {kind: [] for kind in _CHANNEL_TYPES}
            for reference, place in self._reader.tables(block, "remote_buffer_refs", where):
                kind = self._reader.word(reference, "access_channel_type", place, _CHANNEL_TYPES)
                buffers = self._reader.numbers(reference, "remote_buffer_ids", place, len(self._remote) - 1)
                remote[kind] += (self._remote[each] for each in buffers)
            ops = self._reader.tables(block, "ops", where)
            result.append([self._operation(op, place, channels, remote) for op, place in ops])
        return result

    def _operation(
        self, op: Mapping[str, Any], where: str, channels: Mapping[str, list[ChannelEnd]], remote: Mapping[str, list[tuple[int, str]]]
    ) -> Operation:
        """An operation of a thread block that has these channels and buffers of other GPUs, by the type of channel."""
        reader = self._reader
        name = op.get("name")
        if name in _UNSUPPORTED:
            raise reader.error(where, f"name is {name!r}: {_UNSUPPORTED[name]}")
        name = reader.word(op, "name", where, OPERATIONS)
        kind = reader.word(op, "channel_type", where, (*_CHANNEL_TYPES, "none")) if "channel_type" in op else "none"
        ends = channels.get(kind, [])
        used = tuple(ends[each] for each in reader.numbers(op, "channel_ids", where, len(ends) - 1))
        part, parts = 0, 1
        if "tbg_info" in op:
            group = reader.table(op["tbg_info"], f"{where}.tbg_info")
            parts = reader.number(group, "tbg_size", f"{where}.tbg_info", 1, 1024)
            part = reader.number(group, "tb_id", f"{where}.tbg_info", 0, parts - 1)
        spans = {
            key: tuple(self._span(each, place, remote.get(kind, []), part, parts) for each, place in reader.tables(op, key, where))
            for key in ("src_buff", "dst_buff")
        }
        sizes = {span.length for own in spans.values() for span in own}
        if len(sizes) > 1:
            raise reader.error(where, f"buffers have {', '.join(map(str, sorted(sizes)))} chunks; expected as many each")
        operation = Operation(
            name=name,
            sources=spans["src_buff"],
            targets=spans["dst_buff"],
            channels=used,
            barrier=reader.number(op, "barrier_id", where, 0, MAX_CHUNKS, 0),
            semaphores=tuple(reader.numbers(op, "semaphore_ids", where, len(self._gpu.get("semaphores", ())) - 1)),
            where=where,
        )
        self._check(operation)
        return operation

    def _span(self, buffer: Mapping[str, Any], where: str, remote: Sequence[tuple[int, str]], part: int, parts: int) -> BufferSpan:
        """The chunks of a buffer, of this rank or another; of those that thread blocks share, the own part."""
        reader = self._reader
        if "switch_channel_id" in buffer:
            raise reader.error(where, f"switch_channel_id: {_UNSUPPORTED['glres']}")
        if "buffer_id" in buffer:
            rank, kind = remote[reader.number(buffer, "buffer_id", where, 0, len(remote) - 1)]
        else:
            rank, kind = self._rank, reader.word(buffer, "type", where, ("i", "o", "s"))
        first = reader.number(buffer, "index", where, 0, MAX_CHUNKS) * self._parts
        count = reader.number(buffer, "size", where, 1, MAX_CHUNKS) * self._parts
        if kind != "s" and first + count > self._chunks:
            right = f"buffer {kind} has {self._chunks // self._parts}"
            raise reader.error(where, f"index and size are {first // self._parts} and {count // self._parts} chunks; {right}")
        length = count // parts
        return BufferSpan(rank, kind, first + part * length, length)

    def _check(self, op: Operation) -> None:
        """Raise InputError if an operation lacks a field it needs."""
        there = [span.rank != self._rank for span in (*op.sources, *op.targets)]
        sources, targets = there[: len(op.sources)], there[len(op.sources) :]
        name = op.name
        two_ends = (*PUTTING, *GETTING, *REDUCING, "copy", "cpkt", "upkt")
        needs = {
            "a source and a target": name in two_ends and not (op.sources and op.targets),
            "channels": name in (*SIGNALLING, *WAITING) and not op.channels,
            "semaphore_ids": name.startswith("sem_") and not op.semaphores,
            "targets on other gpus": name in PUTTING and not all(targets),
            "sources of this gpu": name not in GETTING and any(sources),
            "sources on another gpu": name == "get" and not all(sources),
            "a first source of this gpu and others on other gpus": name in ("rre", "rres") and (any(sources[:1]) or not all(sources[1:])),
            "a first target of this gpu": name in REDUCING_AND_SENDING and any(targets[:1]),
            "one target for each source": name in ("get", "copy", "cpkt", "upkt") and len(op.sources) != len(op.targets),
            "one source, or one for each target": name in PUTTING and len(op.sources) not in (1, len(op.targets)),
            "targets of this gpu": name in (*LOCAL, "get", "rre") and any(targets),
        }
        for right, lacks in needs.items():
            if lacks:
                raise self._reader.error(
                    op.where, f"{op.name} has {len(op.sources)} sources and {len(op.targets)} targets; expected {right}"
                )
