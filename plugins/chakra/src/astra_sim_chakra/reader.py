"""Reads a Chakra execution trace in protobuf, gzipped or not: a GlobalMetadata, then nodes, each with its length in front."""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from astra_sim import InputError
from astra_sim.files import GZIP, limited, naming_gzip, note_input
from astra_sim.limits import MAX_TRACE_BYTES

from astra_sim_chakra import pure
from astra_sim_chakra.schema import MAX_MESSAGE_BYTES
from astra_sim_chakra.trace import Metadata, Trace, make_trace
from astra_sim_chakra.wire import Broken

DEPENDENCIES = ("both", "data")
"""The dependencies that are followed: control and data, as ASTRA-sim 2.x does, or data alone, as Chakra 1.0.0's feeder does."""

_PIECE = 1 << 20
_VERSION_FIELD, _SHORTEST_VARINT = 0x0A, 0x7F
"""The key of field 1, which is bytes with a length; the largest length of one byte."""
_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){1,2}")


def read_trace(path: str, *, keep: bool = False, dependencies: str = "both", compiled: bool | None = None) -> Trace:
    """The trace in a file of protobuf, with the options of `load_trace`. Raises InputError, naming file, node and the expected value."""
    with open_trace(path) as stream:
        return _read(stream, path, keep, dependencies, compiled)


def parse_trace(data: bytes, name: str, *, keep: bool = False, dependencies: str = "both", compiled: bool | None = None) -> Trace:
    """The trace in the bytes of a file; `name` is the name of the file in messages. Raises InputError."""
    with _translated(name):
        return _read(_unpacked(io.BytesIO(data), name), name, keep, dependencies, compiled)


@contextmanager
def open_trace(path: str) -> Iterator[IO[bytes]]:
    """The bytes of a trace file, unpacked. An error in the file becomes an InputError that names it."""
    with _translated(path), open(path, "rb") as file:
        note_input(file.fileno())
        yield _unpacked(file, path)


def read_metadata(stream: IO[bytes]) -> tuple[Metadata, int]:
    """The GlobalMetadata at the beginning of a trace, and the offset of the nodes. Raises Broken."""
    size, offset = _read_length(stream)
    if size > MAX_MESSAGE_BYTES:
        raise Broken(f"byte 0: a message of {size} bytes; expected at most {MAX_MESSAGE_BYTES}")
    data = stream.read(size)
    if len(data) < size:
        raise Broken(f"byte 0: the file ends in the middle of a message, of which it has {offset + len(data)} bytes")
    return metadata_of(data), offset + size


def _version_alone(data: bytes) -> Metadata | None:
    """Metadata that are nothing but a version, as those of most traces are; None: they are others. They need no runtime of protobuf."""
    if len(data) < 2 or data[0] != _VERSION_FIELD or data[1] != len(data) - 2 or data[1] > _SHORTEST_VARINT:
        return None
    try:
        return Metadata(data[2:].decode())
    except UnicodeDecodeError:
        return None


def _parsed_metadata(data: bytes) -> Metadata:
    from astra_sim_chakra.messages import GlobalMetadata, attribute_of, parsed

    try:
        message = parsed(GlobalMetadata, data)
        return Metadata(message.version, tuple(map(attribute_of, message.attr)))
    except Broken as broken:
        raise Broken(f"byte 0: the first message is no GlobalMetadata: {broken}") from None


def metadata_of(data: bytes) -> Metadata:
    """The metadata in the first message of a trace. Raises Broken."""
    metadata = _version_alone(data) or _parsed_metadata(data)
    _check_version("version", metadata.version)
    schema = metadata.get("schema")
    if isinstance(schema, str) and "-chakra." in schema:
        _check_version("schema", schema.partition("-chakra.")[2])
    return metadata


def has_compiled() -> bool:
    """Whether the compiled reader is installed."""
    return compiled_part() is not None


def compiled_part() -> Any:
    """The compiled module, None if it is not installed."""
    try:
        from astra_sim_chakra import _core
    except ImportError:
        return None
    return _core


def _read(stream: IO[bytes], name: str, keep: bool, dependencies: str, compiled: bool | None) -> Trace:
    """A trace from a file, by the compiled reader or in Python. Raises InputError."""
    core = compiled_part() if compiled is not False else None
    if compiled and core is None:
        raise InputError("astra-sim-chakra is installed without its compiled reader")
    metadata, offset = read_metadata(stream)
    # MLCommons' converter from PyTorch drops nodes that nothing waits for, but leaves their ids in some control dependencies.
    from_pytorch = metadata.get("schema") is not None and metadata.get("pid") is not None
    if dependencies not in DEPENDENCIES:
        raise InputError(f"dependencies is {dependencies!r}; expected {' or '.join(DEPENDENCIES)}")
    reader = (pure if core is None else core).Reader(offset, keep, from_pytorch, dependencies == "both")
    while piece := stream.read(_PIECE):
        reader.feed(piece)
    reader.finish()
    return make_trace(
        path=name,
        metadata=metadata,
        columns=reader.columns(),
        groups=reader.groups,
        involved=reader.involved_dims,
        left_out=reader.left_out,
    )


@contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        with naming_gzip(name):
            yield
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None
    except InputError:
        raise
    except ValueError as error:  # Broken, of either reader
        raise InputError(f"{name}: {error}") from None


def _unpacked(file: IO[bytes], name: str) -> IO[bytes]:
    packed = file.read(2) == GZIP
    file.seek(0)
    return limited(gzip.GzipFile(fileobj=file), name, MAX_TRACE_BYTES) if packed else file  # type: ignore[arg-type]


def _read_length(stream: IO[bytes]) -> tuple[int, int]:
    """The length in front of the first message, and its size. Raises Broken."""
    size = 0
    for count in range(10):
        byte = stream.read(1)
        if not byte:
            raise Broken("the file is empty; a trace begins with a GlobalMetadata" if not count else "the file ends in its first varint")
        size |= (byte[0] & 0x7F) << (7 * count)
        if byte[0] < 0x80:
            return size, count + 1
    raise Broken("byte 0: the length of a message is a varint of more than 64 bits; this is no Chakra trace")


def _check_version(name: str, version: str) -> None:
    if not version:
        return
    numbers = tuple(int(part) for part in version.split(".")) if _VERSION.fullmatch(version) else ()
    if not (0, 0, 4) <= numbers < (2,):
        raise Broken(f"{name} is {version[:100]!r}; expected Chakra 0.0.4 to 1")
