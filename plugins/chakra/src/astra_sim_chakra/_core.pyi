"""The compiled part: native/module.cpp."""

from collections.abc import Sequence

class Broken(ValueError): ...

class Reader:
    def __init__(self, offset: int, keep: bool, lenient: bool, control: bool) -> None: ...
    def feed(self, data: bytes, /) -> None: ...
    def finish(self) -> None: ...
    def columns(self) -> dict[str, bytes]: ...
    @property
    def left_out(self) -> int: ...
    @property
    def groups(self) -> list[str]: ...
    @property
    def involved_dims(self) -> list[list[bool]]: ...

def program(
    id: bytes,
    control_end: bytes,
    control: bytes,
    data_end: bytes,
    data: bytes,
    order: bytes,
    device: Sequence[bytes],
    others: Sequence[bytes],
    work: Sequence[bytes],
    computing: bytes,
) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes]: ...
