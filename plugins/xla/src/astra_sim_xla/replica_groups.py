"""Groups of devices of a collective, in the notations of XLA.

- lists: `{{0,1},{2,3}}`, and `{}` for all devices;
- iota: `[2,4]<=[8]` and `[2,4]<=[4,2]T(1,0)`, which reshapes 0, 1, 2, ... to [4,2], transposes that, and cuts it into 2 groups of 4;
- meshes: `mesh['data'=4,'model'=2] {'data'}`: a group are the devices that differ in these axes alone, the last axis is the fastest.
  Part of an axis is `'data':(1)2`: behind the first 1, the next 2.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

from astra_sim import InputError

from astra_sim_xla.hlo_text import Instruction

Groups = tuple[tuple[int, ...], ...]

_IOTA = re.compile(r"\[(\d+(?:,\d+)*)\]<=\[(\d+(?:,\d+)*)\](?:T\((\d+(?:,\d+)*)\))?$")
_MESH = re.compile(r"mesh\[([^\]]*)\]\s*\{([^}]*)\}$")
_LISTS = re.compile(r"\{(?:\{\d*(?:,\d+)*\},?)*\}$")
_AXIS = re.compile(r"\s*'?([^'=:\s]+)'?\s*(?:=(\d+)|:\((\d+)\)(\d+))?\s*$")


def parse_groups(text: str, members: int) -> Groups:
    """The groups of `members` replicas, partitions or devices in a text. Raises ValueError if it is in no notation."""
    text = text.strip()
    if text in ("", "{}"):
        return (tuple(range(members)),)
    iota, mesh = _IOTA.match(text), _MESH.match(text)
    if iota:
        return _of_iota(*(tuple(map(int, part.split(","))) if part else () for part in iota.groups()))
    if mesh:
        return _of_mesh(mesh[1], mesh[2])
    if _LISTS.match(text.replace(" ", "")):
        return tuple(tuple(map(int, re.findall(r"\d+", group))) for group in re.findall(r"\{([^{}]*)\}", text))
    raise ValueError(text)


def groups_of(instruction: Instruction, replicas: int, partitions: int) -> Groups:
    """The groups of devices of a collective (device = replica * partitions + partition). Raises InputError.

    The numbers are devices if `use_global_device_ids` is set, else replicas: without a channel each partition has groups of its own,
    with one all partitions are in them.
    """
    text = instruction.attribute("replica_groups") or "{}"
    is_global = instruction.attribute("use_global_device_ids") == "true"
    has_channel = instruction.attribute("channel_id") is not None
    counts_partitions = has_channel and not is_global and instruction.opcode.startswith("all-to-all")
    devices = replicas * partitions
    try:
        groups = parse_groups(text, devices if is_global else partitions if counts_partitions else replicas)
    except ValueError:
        raise InputError(
            f"line {instruction.line}: replica_groups of {instruction.name} is {text!r}; expected lists, [..]<=[..] or mesh[..] {{..}}"
        ) from None
    if counts_partitions:
        groups = tuple(tuple(r * partitions + p for p in group) for group in groups for r in range(replicas))
    elif not is_global and has_channel:
        groups = tuple(tuple(r * partitions + p for r in group for p in range(partitions)) for group in groups)
    elif not is_global:
        groups = tuple(tuple(r * partitions + p for r in group) for group in groups for p in range(partitions))
    if sorted(itertools.chain(*groups)) != list(range(devices)):
        raise InputError(
            f"line {instruction.line}: replica_groups of {instruction.name} is {text!r}; expected each of the {devices} devices once"
        )
    return groups


def pairs_of(instruction: Instruction, replicas: int, partitions: int) -> tuple[tuple[int, int], ...]:
    """Pairs (source, target) of devices of a collective-permute, send or recv. Raises InputError for an invalid device."""
    text = instruction.attribute("source_target_pairs")
    if text is None:
        match = re.search(r'_xla_send_recv_source_target_pairs="?(\{(?:\{\d+,\d+\},?)*\})', instruction.attributes)
        text = match[1] if match else ""
    numbers = list(map(int, re.findall(r"\d+", text)))
    pairs = list(zip(numbers[::2], numbers[1::2], strict=False))
    over_partitions = partitions > 1 and (replicas == 1 or instruction.attribute("channel_id") is not None)
    members = partitions if over_partitions else replicas
    if not text or any(max(pair) >= members for pair in pairs):
        raise InputError(
            f"line {instruction.line}: {instruction.opcode} {instruction.name} has source_target_pairs {text!r}; "
            f"expected pairs of numbers below {members}"
        )
    if over_partitions:
        return tuple((r * partitions + s, r * partitions + t) for r in range(replicas) for s, t in pairs)
    return tuple((s * partitions + p, t * partitions + p) for s, t in pairs for p in range(partitions))


def _of_iota(shape: Sequence[int], reshaped: Sequence[int], transposed: Sequence[int]) -> Groups:
    order = transposed or tuple(range(len(reshaped)))
    if math.prod(shape) != math.prod(reshaped) or sorted(order) != list(range(len(reshaped))):
        raise ValueError(shape)
    strides = [math.prod(reshaped[axis + 1 :]) for axis in range(len(reshaped))]
    numbers = [
        sum(index * strides[axis] for index, axis in zip(place, order, strict=True))
        for place in itertools.product(*(range(reshaped[axis]) for axis in order))
    ]
    size = shape[-1]
    return tuple(tuple(numbers[first : first + size]) for first in range(0, len(numbers), size))


def _of_mesh(mesh: str, axes: str) -> Groups:
    """The groups along axes of a mesh. Raises ValueError if the text is none."""
    sizes: dict[str, int] = {}
    for part in mesh.split(","):
        axis = _AXIS.match(part)
        if axis is None or axis[2] is None:
            raise ValueError(mesh)
        sizes[axis[1]] = int(axis[2])
    names, total = list(sizes), math.prod(sizes.values())
    inside: list[tuple[int, int]] = []
    for part in filter(None, axes.split(",")):
        axis = _AXIS.match(part)
        if axis is None or axis[1] not in sizes:
            raise ValueError(axes)
        stride = math.prod(sizes[name] for name in names[names.index(axis[1]) + 1 :])
        before, size = (int(axis[3]), int(axis[4])) if axis[4] else (1, sizes[axis[1]])
        inside.append((size, stride * (sizes[axis[1]] // (before * size))))
    offsets = [
        sum(i * stride for i, (_, stride) in zip(at, inside, strict=True)) for at in itertools.product(*(range(s) for s, _ in inside))
    ]
    firsts = [device for device in range(total) if all(device // stride % size == 0 for size, stride in inside)]
    return tuple(tuple(first + offset for offset in offsets) for first in firsts)
