"""The option `--data`: synthetic data in place of data sets, or the shapes of the batches that loaders yield.

Imports neither torch nor astra: the command checks the option with it before a script runs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FAKE = "fake"
EXPECTED = "expected fake, or the tensors of a batch as [NAME=]SIZExSIZE:TYPE,..., such as input_ids=8x1024:int64"
TYPES = ("bool", "uint8", "uint16", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


class BatchTensor(NamedTuple):
    """A tensor of a batch; without a name in a batch that is a tuple."""

    name: str
    shape: tuple[int, ...]
    type: str


def parse_batch(text: str) -> list[BatchTensor]:
    """The tensors of a batch; none if the text is `fake`. Raises ValueError that says what is wrong."""
    if text == FAKE:
        return []
    result = []
    for part in text.split(","):
        match = re.fullmatch(r"(?:(\w+)=)?(\d+(?:x\d+)*):(\w+)", part.strip())
        if match is None:
            raise ValueError(f"{part.strip()!r} in {text!r}; {EXPECTED}")
        if match[3] not in TYPES:
            raise ValueError(f"type {match[3]!r} in {text!r}; expected {', '.join(TYPES)}")
        result.append(BatchTensor(match[1] or "", tuple(map(int, match[2].split("x"))), match[3]))
    names = [each.name for each in result]
    if any(names) and (not all(names) or len(set(names)) < len(names)):
        raise ValueError(f"names of {text!r}; expected a different one for each tensor, or none")
    return result


def parse_stub(text: str) -> tuple[str, str]:
    """What a stub replaces, and the function in its place, "" for none. Raises ValueError that says what is wrong."""
    name = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
    match = re.fullmatch(rf"({name})(?:=({name}))?", text)
    if match is None or (match[2] and "." not in match[2]):
        raise ValueError(f"{text!r}; expected MODULE, MODULE.NAME, or MODULE.NAME=MODULE.FUNCTION")
    return match[1], match[2] or ""
