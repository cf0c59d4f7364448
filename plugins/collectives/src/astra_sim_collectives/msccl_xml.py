"""Reads an algorithm in the XML format of MSCCL: <algo>, in it a <gpu> for every rank, its thread blocks <tb>, and their <step>s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from xml.parsers import expat

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion, warn_of_unknown
from astra_sim.files import read_text
from astra_sim.schedule import Collective

MAX_CHUNKS = 1 << 20
COLLECTIVES = {
    "allreduce": Collective.ALL_REDUCE,
    "reducescatter": Collective.REDUCE_SCATTER,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "allgather": Collective.ALL_GATHER,
    "alltoall": Collective.ALL_TO_ALL,
}
RECEIVING = ("r", "rcs", "rrc", "rrs", "rrcs")
SENDING = ("s", "rcs", "rrs", "rrcs")
REDUCING = ("rrc", "rrs", "rrcs", "re")
_TYPES = ("s", "r", "rcs", "rrc", "rrs", "rrcs", "cpy", "re", "nop")
_READING = ("s", "rrc", "rrs", "rrcs", "cpy", "re")
_WRITING = ("r", "rcs", "rrc", "rrcs", "cpy", "re")
_PARENTS = {"algo": None, "gpu": "algo", "tb": "gpu", "step": "tb"}


ATTRIBUTES = {
    "algo": "name proto nchannels nchunksperloop ngpus coll inplace outofplace redop minBytes maxBytes nthreads".split(),
    "gpu": "id i_chunks o_chunks s_chunks".split(),
    "tb": "id send recv chan".split(),
    "step": "s type srcbuf srcoff dstbuf dstoff cnt depid deps hasdep".split(),
}
"""Attributes of elements in files of MSCCL and its compiler. Channels, protocols and sizes of buffers have no effect here."""


class BufferPlace(NamedTuple):
    """Chunks of a buffer of a rank: `buffer` is i (input), o (output) or s (scratch)."""

    buffer: str
    offset: int


@attrs.frozen
class XmlStep:
    """A step of a thread block. It waits for the step before it, and for step `waits_for[1]` of thread block `waits_for[0]`.

    `source` and `target` are the local places that it reads and writes, of `count` chunks each; None if its type has none.
    """

    type: str
    source: BufferPlace | None
    target: BufferPlace | None
    count: int
    waits_for: tuple[int, int] | None
    line: int


@attrs.define
class ThreadBlock:
    """A thread block: steps in order, the ranks that it sends to and receives from (-1: none), and its channel."""

    id: int
    send: int
    receive: int
    channel: int
    line: int
    steps: list[XmlStep] = attrs.field(factory=list)


@attrs.define
class MscclAlgorithm:
    """An algorithm. `chunks` is the number of chunks of the larger of the buffers i and o; `gpus[rank][id]` are thread blocks."""

    path: str
    collective: Collective
    chunks: int
    in_place: bool
    gpus: dict[int, dict[int, ThreadBlock]] = attrs.field(factory=dict)

    def error(self, line: int, what: str) -> InputError:
        """An error in a line of the file."""
        return InputError(f"{self.path}:{line}: {what}")


def read_algorithm(path: str) -> MscclAlgorithm:
    """The algorithm in a file. Raises InputError naming line, element, attribute and value, and the expected one.

    Document type declarations, and so entities, are refused.
    """
    text = read_text(path)
    reader = _MscclReader(path)
    try:
        reader.parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise InputError(f"{path}:{error.lineno}: not XML: {expat.ErrorString(error.code)}") from None
    return reader.finished()


class _MscclReader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._algorithm: MscclAlgorithm | None = None
        self._open: list[str] = []
        self._unknown: set[tuple[str, str]] = set()
        self._declared = 0
        self._uses_output = False
        self._says_in_place = False
        self._rank = 0
        self._gpu: dict[int, ThreadBlock] = {}
        self._block: ThreadBlock | None = None
        self.parser = expat.ParserCreate("utf-8")
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end

    def finished(self) -> MscclAlgorithm:
        algorithm = self._algorithm
        assert algorithm is not None  # expat has seen a root, which can only be an algo
        if set(algorithm.gpus) != set(range(self._declared)):
            ids = ", ".join(map(str, sorted(algorithm.gpus))) or "none"
            raise InputError(f"{self._path}: algo: gpus are {ids}; expected 0 to {self._declared - 1} (ngpus is {self._declared})")
        for blocks in algorithm.gpus.values():
            for block in blocks.values():
                self._check_dependencies(algorithm, blocks, block)
        # If a file does not state it, an algorithm that never uses the output buffer works in place.
        algorithm.in_place = self._says_in_place or not self._uses_output
        return algorithm

    def _error(self, what: str) -> InputError:
        return InputError(f"{self._path}:{self.parser.CurrentLineNumber}: {what}")

    def _doctype(self, *_: object) -> None:
        raise self._error("a document type declaration (<!DOCTYPE>); expected a file without one")

    def _end(self, name: str) -> None:
        self._open.pop()

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Begin an element, which must be inside the right one. Each unknown attribute is reported once."""
        parent = self._open[-1] if self._open else None
        if name not in _PARENTS:
            raise self._error(f"unknown element {name!r}; {suggestion(name, _PARENTS)}")
        if _PARENTS[name] != parent:
            where = f"in {parent}" if parent else "outermost"
            right = f"in {_PARENTS[name]}" if _PARENTS[name] else "outermost"
            raise self._error(f"element {name} is {where}; expected {right}")
        self._open.append(name)
        unknown = {(name, key) for key in attributes if key not in ATTRIBUTES[name]} - self._unknown
        self._unknown |= unknown
        warn_of_unknown(f"{self._path}:{self.parser.CurrentLineNumber}: {name}", (key for _, key in sorted(unknown)), ATTRIBUTES[name])
        {"algo": self._algo, "gpu": self._start_gpu, "tb": self._start_block, "step": self._step}[name](attributes)

    def _algo(self, attributes: Mapping[str, str]) -> None:
        """The outermost element: the collective and its chunks. Those of all but an all-reduce belong to one rank each."""
        name = attributes.get("coll", "")
        if name not in COLLECTIVES:
            fault = f"is {name!r}" if name else "is missing"
            raise self._error(f"algo: coll {fault}; expected {', '.join(COLLECTIVES)}")
        self._declared = self._number("algo", attributes, "ngpus", 1)
        chunks = self._number("algo", attributes, "nchunksperloop", 1, MAX_CHUNKS)
        self._says_in_place = self._number("algo", attributes, "inplace", 0, 1, default=0) == 1
        collective = COLLECTIVES[name]
        if collective is not Collective.ALL_REDUCE and chunks % self._declared:
            raise self._error(f"algo: nchunksperloop is {chunks}; expected a multiple of ngpus ({self._declared}) for {name}")
        self._algorithm = MscclAlgorithm(self._path, collective, chunks, False)

    def _start_gpu(self, attributes: Mapping[str, str]) -> None:
        assert self._algorithm is not None
        number = self._number("gpu", attributes, "id", 0, self._declared - 1)
        if number in self._algorithm.gpus:
            raise self._error(f"gpu: id {number} is given twice")
        self._rank = number
        self._gpu = self._algorithm.gpus[number] = {}

    def _start_block(self, attributes: Mapping[str, str]) -> None:
        number = self._number("tb", attributes, "id", 0)
        if number in self._gpu:
            raise self._error(f"tb: id {number} is given twice in its gpu")
        to, source = (self._number("tb", attributes, key, -1, self._declared - 1) for key in ("send", "recv"))
        for key, peer in (("send", to), ("recv", source)):
            if peer == self._rank:
                raise self._error(f"tb: {key} is {peer}, which is the gpu itself; expected another one or -1")
        channel = self._number("tb", attributes, "chan", -1, default=0)
        self._block = self._gpu[number] = ThreadBlock(number, to, source, channel, self.parser.CurrentLineNumber)

    def _step(self, attributes: Mapping[str, str]) -> None:
        """Append a step to the open thread block. Raises InputError with the line."""
        block = self._block
        assert block is not None
        number = self._number("step", attributes, "s", 0)
        if number != len(block.steps):
            raise self._error(f"step: s is {number}; expected {len(block.steps)}, since steps are in order")
        kind = attributes.get("type", "")
        if kind not in _TYPES:
            raise self._error(f"step: type is {kind!r}; expected {', '.join(_TYPES)}")
        for kinds, peer, key in ((SENDING, block.send, "send"), (RECEIVING, block.receive, "recv")):
            if kind in kinds and peer < 0:
                raise self._error(f"step: type is {kind!r}, but {key} of its tb (line {block.line}) is -1; expected a gpu")
        count = 0 if kind == "nop" else self._number("step", attributes, "cnt", 1, MAX_CHUNKS)
        source = self._place(attributes, "src", count) if kind in _READING else None
        target = self._place(attributes, "dst", count) if kind in _WRITING else None
        waits_for = self._number("step", attributes, "depid", -1, default=-1), self._number("step", attributes, "deps", -1, default=-1)
        if (waits_for[0] < 0) != (waits_for[1] < 0):
            text = f"depid is {waits_for[0]} and deps is {waits_for[1]}"
            raise self._error(f"step: {text}; expected a thread block and a step of it, or -1 twice")
        block.steps.append(
            XmlStep(
                type=kind,
                source=source,
                target=target,
                count=count,
                waits_for=waits_for if waits_for[0] >= 0 else None,
                line=self.parser.CurrentLineNumber,
            )
        )

    def _place(self, attributes: Mapping[str, str], end: str, count: int) -> BufferPlace:
        assert self._algorithm is not None
        buffer = attributes.get(f"{end}buf", "")
        if buffer not in ("i", "o", "s"):
            raise self._error(f"step: {end}buf is {buffer!r}; expected i, o or s")
        size = MAX_CHUNKS if buffer == "s" else self._algorithm.chunks
        offset = self._number("step", attributes, f"{end}off", 0)
        if offset + count > size:
            raise self._error(f"step: {end}off is {offset} and cnt {count}; buffer {buffer} has {size} chunks")
        self._uses_output |= buffer == "o"
        return BufferPlace(buffer, offset)

    def _number(
        self, element: str, attributes: Mapping[str, str], key: str, low: int, high: int | None = None, *, default: int | None = None
    ) -> int:
        """A number among the attributes of an element. Raises InputError with the line."""
        text = attributes.get(key)
        right = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
        if text is None:
            if default is not None:
                return default
            raise self._error(f"{element}: {key} is missing; expected {right}")
        digits = text.strip().removeprefix("-")
        number = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None
        if number is None or number < low or (high is not None and number > high):
            raise self._error(f"{element}: {key} is {text[:100]!r}; expected {right}")
        return number

    def _check_dependencies(self, algorithm: MscclAlgorithm, blocks: Mapping[int, ThreadBlock], block: ThreadBlock) -> None:
        for step in block.steps:
            if step.waits_for is None:
                continue
            other, number = step.waits_for
            if other not in blocks:
                raise algorithm.error(step.line, f"step: depid is {other}; {suggestion(other, map(str, blocks))}")
            if not 0 <= number < len(blocks[other].steps):
                right = f"0 to {len(blocks[other].steps) - 1}"
                raise algorithm.error(step.line, f"step: deps is {number}; expected {right}, the steps of thread block {other}")
