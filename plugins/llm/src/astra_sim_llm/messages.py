"""Messages between stages: their kinds, and passes between those that they wait for and those that they send."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from astra_sim.graph import Receive, Send, Unit
from astra_sim.schedule import Peer

from astra_sim_llm.templates import BEFORE, OperationTypes, Template


def send(kinds: OperationTypes, to: Peer, size: int, tag: int, name: str = "activations") -> int:
    """The kind of a message to a peer; it needs no unit, because kernels and exchanges go on beside it."""
    return kinds.number(
        ("send", tag, size, to), "pp", lambda: Send(after=(), to=to, bytes=size, tag=tag, layer=-1, name=name, unit=Unit.NONE, group="pp")
    )


def receive(kinds: OperationTypes, source: Peer, size: int, tag: int, name: str = "activations") -> int:
    """The kind of a message from a peer."""
    return kinds.number(
        ("receive", tag, size, source), "pp", lambda: Receive(after=(), source=source, bytes=size, tag=tag, layer=-1, name=name, group="pp")
    )


def between(kinds: OperationTypes, inner: Template, receives: Sequence[int], sends: Sequence[int], blocking: bool) -> Template:
    """A pass that waits for messages and sends others; if those are `blocking` it ends when they have arrived."""
    first = len(receives)
    start: list[int] = list(range(first)) or [BEFORE]
    rows = [*receives, *inner.kinds, *sends]
    waits: list[list[int]] = [[BEFORE] for _ in receives]
    waits += (sorted({*chain.from_iterable(start if row == BEFORE else [first + row] for row in each)}) for each in inner.waits)
    end = first + inner.end
    waits += ([end] for _ in sends)
    # Megatron-LM waits for its batch of isend and irecv: without overlap a sender goes on when its message has arrived.
    if sends and blocking:
        sent = list(range(len(rows) - len(sends), len(rows)))
        if len(sent) > 1:
            rows.append(kinds.join())
            waits.append(sent)
        end = len(rows) - 1
    return Template(rows, waits, end, [first + row for row in inner.free])
