"""HLO text: modules, computations, instructions and shapes.

The syntax is that of XLA's `HloModule::ToString`: names with or without `%`, operands with or without their shapes, layouts with
tiles and memory spaces, and comments. Text without effect on cost (layouts, literals but scalars) is skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

import attrs
from astra_sim import InputError

_BITS = {"pred": 8, "s4": 4, "u4": 4, "s2": 2, "u2": 2, "bf16": 16, "c64": 64, "c128": 128, "token": 0, "opaque": 0}
_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\]]*)\]")
_COMMENT = re.compile(r"/\*.*?\*/")
_INSTRUCTION = re.compile(r"^\s*(ROOT\s+)?%?([\w.\-]+)\s*=\s*(.*)$")
_COMPUTATION = re.compile(r"^(ENTRY\s+)?%?([\w.\-]+)\s*(?:\(.*)?\{\s*$")
_ROW = re.compile(r"(\d+) (.+)$")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\(")
_OPENING, _CLOSING = "([{", ")]}"
MESSAGES = ("collective-permute", "send", "recv")
COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-broadcast",
)


def base_opcode(opcode: str) -> str:
    """The opcode without -start and -done."""
    return opcode.removesuffix("-start").removesuffix("-done")


def is_communication(opcode: str) -> bool:
    """Whether an instruction begins a collective or a message."""
    return not opcode.endswith("-done") and base_opcode(opcode) in (*COLLECTIVES, *MESSAGES)


@attrs.frozen
class Shape:
    """The arrays of a value, in order, each with its element type and sizes; a tuple has its `parts`."""

    element_type: str = ""
    sizes: tuple[int, ...] = ()
    parts: tuple[Shape, ...] | None = None

    @property
    def elements(self) -> int:
        """Elements of all arrays."""
        return sum(part.elements for part in self.parts) if self.parts is not None else math.prod(self.sizes)

    @property
    def bytes(self) -> int:
        """Bytes of all arrays, without the padding of layouts."""
        if self.parts is not None:
            return sum(part.bytes for part in self.parts)
        return -(-math.prod(self.sizes) * bits_of(self.element_type) // 8)


def bits_of(element_type: str) -> int:
    """Bits of an element: 8 for a predicate, as in memory; f8e4m3fn and its like have theirs in the name."""
    if element_type in _BITS:
        return _BITS[element_type]
    number = re.match(r"[a-z]+(\d+)", element_type)
    return int(number[1]) if number else 32


@attrs.frozen(eq=False)
class Instruction:
    """An instruction: `attributes` is the text behind its operands, `literal` that between the parentheses."""

    name: str
    shape: Shape
    opcode: str
    operands: tuple[str, ...]
    literal: str
    attributes: str
    line: int

    def attribute(self, name: str) -> str | None:
        """The text of an attribute, such as `{0,1}`; None if there is none."""
        return _attribute(self.attributes, name)

    def numbers(self, name: str) -> tuple[int, ...]:
        """The numbers of an attribute such as `{0,1}`; () if there is none."""
        return tuple(map(int, re.findall(r"-?\d+", self.attribute(name) or "")))

    def callee(self, name: str) -> str:
        """The name of the computation that an attribute gives. Raises InputError if there is none."""
        text = self.attribute(name)
        if text is None:
            raise InputError(f"line {self.line}: {self.opcode} {self.name} has no {name}")
        return text.lstrip("%")

    def callees(self, name: str) -> list[str]:
        """The names of the computations that an attribute lists."""
        return [each.strip().lstrip("%") for each in (self.attribute(name) or "").strip("{}").split(",") if each.strip()]

    @property
    def op_name(self) -> str:
        """The path of the operation in the program of the user, as the metadata has it."""
        match = re.search(r'op_name="((?:[^"\\]|\\.)*)"', self.attributes)
        return match[1] if match else ""

    @property
    def frame(self) -> int:
        """The number of the stack frame that made the operation, as the metadata has it; 0: none."""
        match = re.search(r"stack_frame_id=(\d+)", self.attributes)
        return int(match[1]) if match else 0


@attrs.frozen(eq=False)
class Computation:
    """A computation: its instructions in order, by name, and the root."""

    name: str
    instructions: dict[str, Instruction]
    root: Instruction

    @property
    def parameters(self) -> dict[int, Instruction]:
        """The parameters by number."""
        return {int(each.literal): each for each in self.instructions.values() if each.opcode == "parameter"}


@attrs.frozen(eq=False)
class Module:
    """A module: its computations by name, the entry, and how many devices run it."""

    computations: dict[str, Computation]
    entry: Computation
    replicas: int
    partitions: int
    is_scheduled: bool
    frames: Mapping[int, str] = attrs.field(factory=dict)
    """The line of each stack frame, as FILE:LINE."""

    @property
    def devices(self) -> int:
        """Replicas times partitions; device = replica * partitions + partition."""
        return self.replicas * self.partitions

    def source(self, instruction: Instruction) -> str:
        """The line of the user's program that made an instruction, as FILE:LINE; "" if the text does not tell."""
        return self.frames.get(instruction.frame, "")

    def computation(self, name: str, caller: Instruction) -> Computation:
        """A computation by name. Raises InputError if the module has none."""
        if name not in self.computations:
            raise InputError(f"line {caller.line}: {caller.opcode} {caller.name} calls {name!r}, which the module does not have")
        return self.computations[name]


def parse_module(text: str) -> Module:
    """A module from its text. Raises InputError that names the line."""
    header, computations, entry = "", {}, None
    name, is_entry, rows, root = "", False, dict[str, Instruction](), None
    for number, raw in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", raw) if "/*" in raw else raw
        if line.startswith("HloModule"):
            header = line
        elif name and line.strip().startswith("}"):
            if root is None:
                raise InputError(f"line {number}: computation {name} ends without a ROOT instruction")
            computations[name] = Computation(name, rows, root)
            entry, name = (computations[name] if is_entry else entry), ""
        elif name and line.strip():
            instruction, is_root = _instruction(line, number)
            for operand in instruction.operands:
                if "#" in operand:
                    _add_element(rows, operand, number)
            rows[instruction.name] = instruction
            root = instruction if is_root else root
        elif not name and (opened := _COMPUTATION.match(line)) and header:
            name, is_entry, rows, root = opened[2], bool(opened[1]), {}, None
    if not header:
        raise InputError("line 1: no HloModule; expected HLO text, as --xla_dump_to writes it")
    if name or entry is None:
        raise InputError(f"the module ends inside computation {name}" if name else "the module has no ENTRY computation")
    _check_operands(computations)
    count = {key: int(value) for key, value in re.findall(r"(replica_count|num_partitions)=(\d+)", header)}
    replicas, partitions = count.get("replica_count", 1), count.get("num_partitions", 1)
    return Module(computations, entry, replicas, partitions, "is_scheduled=true" in header, _frames(text))


def _frames(text: str) -> dict[int, str]:
    """The line of each stack frame, by the tables in front of the computations."""
    tables: dict[str, dict[int, str]] = {}
    rows: dict[int, str] = {}
    for line in text.split("\n%", 1)[0].splitlines():
        if line in ("FileNames", "FileLocations", "StackFrames"):
            rows = tables[line] = {}
        elif row := _ROW.match(line):
            rows[int(row[1])] = row[2]
        elif line.strip():
            rows = {}
    files = {number: name.strip('"') for number, name in tables.get("FileNames", {}).items()}
    places: dict[int, str] = {}
    for number, location in tables.get("FileLocations", {}).items():
        file, at = re.search(r"file_name_id=(\d+)", location), re.search(r"\bline=(\d+)", location)
        if file and at and int(file[1]) in files:
            places[number] = f"{files[int(file[1])]}:{at[1]}"
    matches = {number: re.search(r"file_location_id=(\d+)", frame) for number, frame in tables.get("StackFrames", {}).items()}
    return {number: places[int(match[1])] for number, match in matches.items() if match and int(match[1]) in places}


def split_commas(text: str) -> list[str]:
    """The parts of a text between commas that are in no brackets and no quotes."""
    parts, start = [], 0
    for place in _top_level(text, ","):
        parts.append(text[start:place].strip())
        start = place + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def parse_shape(text: str) -> tuple[Shape, int]:
    """The shape that a text begins with, and its end. Raises ValueError."""
    if text.startswith("("):
        end = _closing(text, 0)
        return Shape(parts=tuple(parse_shape(part)[0] for part in split_commas(text[1:end]))), end + 1
    match = _ARRAY.match(text)
    if match is None:
        raise ValueError(text)
    sizes = tuple(int(size.lstrip("<=")) for size in match[2].split(",") if size.strip())
    end = match.end()
    return Shape(match[1], sizes), _closing(text, end) + 1 if text[end : end + 1] == "{" else end


def _instruction(line: str, number: int) -> tuple[Instruction, bool]:
    """The instruction of a line, and whether it is the root. Raises InputError."""
    match = _INSTRUCTION.match(line)
    try:
        if match is None:
            raise ValueError(line)
        body = match[3]
        shape, place = parse_shape(body)
        opcode = _OPCODE.match(body, place)
        if opcode is None:
            raise ValueError(body)
        end = _closing(body, opcode.end() - 1)
    except ValueError:
        raise InputError(f"line {number}: {line.strip()[:80]!r} is not an instruction; expected NAME = SHAPE OPCODE(OPERANDS)") from None
    literal = body[opcode.end() : end]
    is_leaf = opcode[1] in ("constant", "parameter", "iota")
    operands = () if is_leaf else tuple(part.split()[-1].lstrip("%") for part in split_commas(literal))
    return Instruction(match[2], shape, opcode[1], operands, literal.strip(), body[end + 1 :].lstrip(", "), number), bool(match[1])


def _add_element(rows: dict[str, Instruction], name: str, line: int) -> None:
    """Add the get-tuple-element that JAX writes as `tuple#2` from 0.11 on. Raises InputError if there is no such element."""
    owner, _, index = name.rpartition("#")
    if name in rows:
        return
    if "#" in owner:
        _add_element(rows, owner, line)
    parts = rows[owner].shape.parts if owner in rows else None
    if parts is None or not index.isdecimal() or int(index) >= len(parts):
        raise InputError(f"line {line}: no value {name!r}; expected an element of a tuple of an earlier line")
    attributes = ", ".join(["index=" + index, *re.findall(r"metadata=\{[^}]*\}", rows[owner].attributes)])
    rows[name] = Instruction(name, parts[int(index)], "get-tuple-element", (owner,), owner, attributes, line)


def _check_operands(computations: dict[str, Computation]) -> None:
    for computation in computations.values():
        known = set[str]()
        for instruction in computation.instructions.values():
            missing = next((name for name in instruction.operands if name not in known), None)
            if missing is not None:
                raise InputError(
                    f"line {instruction.line}: {instruction.name} uses {missing!r}, which no earlier line of {computation.name} has"
                )
            known.add(instruction.name)


def _attribute(text: str, name: str) -> str | None:
    for part in split_commas(text):
        key, equals, value = part.partition("=")
        if equals and key == name:
            return value
    return None


def _unquoted(text: str, start: int = 0) -> Iterator[tuple[int, str, int]]:
    """The letters outside of quotes from `start` on: place, letter, and how many brackets are open after it."""
    depth, quoted, place = 0, "", start
    while place < len(text):
        letter = text[place]
        if quoted:
            place += letter == "\\"
            quoted = "" if letter == quoted else quoted
        elif letter in "\"'":
            quoted = letter
        else:
            depth += (letter in _OPENING) - (letter in _CLOSING)
            yield place, letter, depth
        place += 1


def _top_level(text: str, wanted: str) -> Iterator[int]:
    """The places of a letter, which is no bracket, outside of brackets and quotes."""
    return (place for place, letter, depth in _unquoted(text) if letter == wanted and not depth)


def _closing(text: str, start: int) -> int:
    """The position at which the bracket at `start` is closed. Raises ValueError."""
    for place, letter, depth in _unquoted(text, start):
        if letter in _CLOSING and not depth:
            return place
    raise ValueError(text)
