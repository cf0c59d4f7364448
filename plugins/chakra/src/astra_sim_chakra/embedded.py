"""A workload of astra inside the traces that it was converted to: two attributes of the GlobalMetadata.

`astra_workload` is the table of the workload in JSON, `astra_nodes` the SHA-256 of the nodes as they are in the file, which shows
whether they are still those of the workload.
"""

from __future__ import annotations

import hashlib
import json
from typing import IO, Any

from astra_sim import InputError

from astra_sim_chakra.reader import open_trace, read_metadata
from astra_sim_chakra.schema import VERSION
from astra_sim_chakra.trace import Metadata
from astra_sim_chakra.wire import Attribute

WORKLOAD, NODES = "astra_workload", "astra_nodes"


def workload_metadata(workload: dict[str, Any], nodes: bytes) -> Metadata:
    """The metadata of a trace with these nodes, which holds the workload. Raises ValueError if the workload is not plain data."""
    text = json.dumps(workload, allow_nan=False, ensure_ascii=False)
    digest = hashlib.sha256(nodes).hexdigest()
    return Metadata(VERSION, (Attribute(WORKLOAD, "string_val", text), Attribute(NODES, "string_val", digest)))


def embedded_workload(path: str) -> dict[str, Any]:
    """The table of the workload that a trace was converted from. Raises InputError if the trace does not hold it."""
    with open_trace(path) as stream:
        metadata, _ = read_metadata(stream)
        text, digest = metadata.get(WORKLOAD), metadata.get(NODES)
        if not isinstance(text, str) or not isinstance(digest, str):
            raise InputError(
                f"{path}: the trace has no layered workload in its metadata ({WORKLOAD}), so it was not made by astra convert. Its nodes "
                "and dependencies cannot be expressed as layers with three passes and a training loop; it can be converted to JSON"
            )
        if _digest(stream) != digest:
            raise InputError(
                f"{path}: the nodes were changed after the trace was made from the workload in its metadata; as layers and a training loop "
                "they cannot be expressed"
            )
    try:
        workload = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {WORKLOAD} in the metadata is not JSON: {error}") from None
    if not isinstance(workload, dict):
        raise InputError(f"{path}: {WORKLOAD} in the metadata is {text[:100]!r}; expected a table of options")
    return workload


def _digest(stream: IO[bytes]) -> str:
    state = hashlib.sha256()
    while piece := stream.read(1 << 20):
        state.update(piece)
    return state.hexdigest()
