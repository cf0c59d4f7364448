"""The communication of NCCL or RCCL kernels: collective, bytes, process group and peers, from arguments and PyTorch's own record.

PyTorch records each communication as `record_param_comms`: since 2.4 with the attributes `collective_name`, `dtype`, `in_msg_nelems`,
`out_msg_nelems` and `pg_name`, before that among its inputs. Kineto copies the same to the kernel, under other names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import attrs

from astra_sim_chakra.pytorch.host import HostNode
from astra_sim_chakra.schema import CollectiveType, NodeType

_KERNEL = re.compile(r"(nccl|rccl|msccl)\w*kernel", re.IGNORECASE)
_COLLECTIVES = (
    ("allreduce", CollectiveType.ALL_REDUCE),
    ("barrier", CollectiveType.ALL_REDUCE),  # NCCL has none; PyTorch reduces one number
    ("reducescatter", CollectiveType.REDUCE_SCATTER),
    ("allgather", CollectiveType.ALL_GATHER),
    ("alltoall", CollectiveType.ALL_TO_ALL),
    ("broadcast", CollectiveType.BROADCAST),
    ("reduce", CollectiveType.REDUCE),
    ("gather", CollectiveType.GATHER),
    ("scatter", CollectiveType.SCATTER),
)
"""Parts of names, without underscores, of which the first one counts."""

_BYTES = {
    **dict.fromkeys(("byte", "char", "bool", "uint8", "int8", "unsignedchar", "signedchar", "float8_e4m3fn", "float8_e5m2"), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "float16", "int16", "c10::half", "c10::bfloat16", "uint16"), 2),
    **dict.fromkeys(("int", "float", "float32", "int32", "uint32"), 4),
    **dict.fromkeys(("long", "double", "float64", "int64", "longint", "complexfloat", "complex64", "uint64"), 8),
    **dict.fromkeys(("complexdouble", "complex128"), 16),
}
"""Bytes of an element by the names that PyTorch has for its type."""


@attrs.frozen
class Communication:
    """The communication of a kernel; None: not recorded. `size` in bytes is the rank's input, as `comm_size` counts: the whole buffer of an
    all-reduce, reduce-scatter and all-to-all, the shard of an all-gather."""

    type: NodeType
    collective: CollectiveType | None = None
    size: int | None = None
    group: str | None = None
    peer: int | None = None
    group_ranks: tuple[int, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether a run can simulate it."""
        if self.type == NodeType.COMM_COLL_NODE:
            return self.collective is not None and self.size is not None
        return self.size is not None and self.peer is not None

    def table(self) -> dict[str, Any]:
        """As plain values for a linked file."""
        named = {"type": self.type.name, "collective": None if self.collective is None else self.collective.name}
        return {**named, "bytes": self.size, "pg_name": self.group, "peer": self.peer}


def communication_of(kernel: str, args: Mapping[str, Any], record: HostNode | None) -> Communication | None:
    """The communication of a kernel; None if it computes. `record`: the `record_param_comms` that launched it."""
    if not _KERNEL.match(kernel):
        return None
    attributes = _recorded(record)
    name = _first(args, attributes, "Collective name", "collective_name")
    what = str(name if name is not None else kernel)
    plain = what.replace("_", "").replace("-", "").lower()
    group = _first(args, attributes, "Process Group Name", "pg_name")
    sent, received = (_first(args, attributes, f"{way} msg nelems", f"{way.lower()}_msg_nelems") for way in ("In", "Out"))
    elements = (received if plain == "recv" and not sent else sent) if _is_count(sent) else None
    width = _BYTES.get(str(_first(args, attributes, "dtype", "dtype")).replace(" ", "").lower())
    size = elements * width if elements is not None and width is not None else attributes.get("bytes")
    ranks = _ranks(args.get("Process Group Ranks"))
    common: dict[str, Any] = {"size": size, "group": None if group is None else str(group), "group_ranks": ranks}
    if plain in ("send", "recv"):
        sends = plain == "send"
        peer = _first(args, attributes, "Dst Rank" if sends else "Src Rank", "peer")
        kind = NodeType.COMM_SEND_NODE if sends else NodeType.COMM_RECV_NODE
        return Communication(kind, peer=peer if _is_count(peer) else None, **common)
    collective = next((each for part, each in _COLLECTIVES if part in plain), None)
    if collective is None and name is not None:
        kernel_name = kernel.replace("_", "").lower()
        collective = next((each for part, each in _COLLECTIVES if part in kernel_name), None)
    return Communication(NodeType.COMM_COLL_NODE, collective, **common)


def _recorded(record: HostNode | None) -> dict[str, Any]:
    """The attributes of a record, by the names of PyTorch 2.4; before that they are found among the inputs."""
    if record is None:
        return {}
    if "collective_name" in record.attributes:
        return dict(record.attributes)
    inputs = record.fields.get("inputs")
    values = inputs.get("values", []) if isinstance(inputs, dict) else inputs
    types = inputs.get("types", []) if isinstance(inputs, dict) else record.fields.get("input_types", [])
    if not isinstance(values, list) or not isinstance(types, list):
        return {}
    result: dict[str, Any] = {}
    for value, kind in zip(values, types, strict=False):
        if kind == "String":
            result.setdefault("collective_name", str(value))
        elif isinstance(kind, str) and kind.startswith("Tuple[String") and isinstance(value, list) and value:
            result.setdefault("pg_name", value[0])
        elif isinstance(kind, str) and "Tensor(" in kind:
            result["bytes"] = result.get("bytes", 0) + _tensor_bytes(value)
    return result


def _tensor_bytes(value: Any) -> int:
    """Bytes of tensors: each is [tensor, storage, offset, elements, bytes of an element, device]."""
    if isinstance(value, list) and len(value) == 6 and all(type(each) is int for each in value[:5]):
        return int(value[3]) * int(value[4])
    return sum(map(_tensor_bytes, value)) if isinstance(value, list) else 0


def _first(args: Mapping[str, Any], attributes: Mapping[str, Any], kineto: str, host: str) -> Any:
    return args.get(kineto, attributes.get(host))


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _ranks(text: Any) -> tuple[int, ...]:
    """The ranks of a process group as Kineto writes them: text, shortened with dots if there are many."""
    try:
        listed = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return ()
    return tuple(listed) if isinstance(listed, list) and all(type(rank) is int for rank in listed) else ()
