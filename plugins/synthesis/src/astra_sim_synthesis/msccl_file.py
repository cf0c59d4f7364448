"""Writes a plan in the XML format of MSCCL, as its runtime and the collective `msccl` read it.

A rank has a thread block for each rank that it sends to, and one for each that it receives from. A step waits for the step of one other
thread block; if it has to wait for more, steps without effect (nop) before it wait for the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from astra_sim.schedule import Collective, Request, Schedule
from astra_sim.schedule_bytes import cut_of

from astra_sim_synthesis.expanded import expanded
from astra_sim_synthesis.places import ChunkPlace, MessageRun, PiecePlaces

NAMES = {
    Collective.ALL_REDUCE: "allreduce",
    Collective.REDUCE_SCATTER: "reducescatter",
    Collective.ALL_GATHER: "allgather",
    Collective.ALL_TO_ALL: "alltoall",
}
"""Collectives as files of MSCCL and MSCCL++ name them."""


def msccl_xml(schedule: Schedule, request: Request, name: str) -> str:
    """The text of the file of a schedule whose messages carry named pieces."""
    schedule = expanded(schedule)
    kind, pieces, n = request.collective, cut_of(schedule), request.ranks
    in_place = kind is not Collective.ALL_TO_ALL
    lines = [
        (f"<algo name={quoteattr(name)} proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"{n * pieces}\" ngpus=\"{n}\""
        f" coll=\"{NAMES[kind]}\" inplace=\"{int(in_place)}\" outofplace=\"{int(not in_place)}\" redop=\"sum\""
        f" minBytes=\"{request.bytes}\" maxBytes=\"{request.bytes}\">")
    ]  # fmt: skip
    places = PiecePlaces(schedule, kind)
    sent = {ends: [places.runs(names, *ends) for names in messages] for ends, messages in sent_in_order(schedule).items()}
    for rank in range(n):
        lines += _gpu(schedule, rank, sent, kind, pieces, places.scratch[rank])
    return "\n".join([*lines, "</algo>", ""])


def sent_in_order(schedule: Schedule) -> dict[tuple[int, int], list[Sequence[object]]]:
    """The pieces of the messages from each rank to each other one, in order."""
    result: dict[tuple[int, int], list[Sequence[object]]] = {}
    for rank in range(schedule.ranks):
        for step in schedule.program(rank).steps:
            if step.send_to is not None:
                result.setdefault((rank, step.send_to.of(rank, schedule.ranks)), []).append(list(step.pieces_of(0)))
    return result


class _MscclBlock:
    """A thread block: its steps as text, the last step of each other block it has waited for, and the steps others wait for."""

    def __init__(self, number: int, send: int, receive: int) -> None:
        self.number, self.send, self.receive = number, send, receive
        self.steps: list[str] = []
        self.seen: dict[int, int] = {}
        self.needed: set[int] = set()

    def add(self, kind: str, where: str, waits_for: tuple[int, int]) -> None:
        block, step = waits_for
        self.steps.append(f'<step s="{len(self.steps)}" type="{kind}" {where} depid="{block}" deps="{step}"')

    def lines(self) -> list[str]:
        head = f'    <tb id="{self.number}" send="{self.send}" recv="{self.receive}" chan="0">'
        steps = [f'      {text} hasdep="{int(number in self.needed)}"/>' for number, text in enumerate(self.steps)]
        return [head, *steps, "    </tb>"]


def _gpu(
    schedule: Schedule, rank: int, sent: dict[tuple[int, int], list[list[MessageRun]]], kind: Collective, pieces: int, scratch: int
) -> list[str]:
    """The lines of a GPU: its blocks, each with steps in order."""
    n = schedule.ranks
    blocks: dict[tuple[str, int], _MscclBlock] = {}
    posted: list[tuple[int, int]] = []  # the last step of each receive, with its block

    def block(direction: str, peer: int) -> _MscclBlock:
        key = direction, peer
        if key not in blocks:
            blocks[key] = _MscclBlock(len(blocks), peer if direction == "s" else -1, peer if direction == "r" else -1)
        return blocks[key]

    received, delivered = dict[int, int](), dict[int, int]()
    for step in schedule.program(rank).steps:
        if step.receive_from is not None:
            source = step.receive_from.of(rank, n)
            number = received.get(source, 0)
            received[source] = number + 1
            into = block("r", source)
            for run in sent[source, rank][number]:
                into.add("rrc" if step.reduce else "r", _where(run.target, run.target, run.chunks), (-1, -1))
            posted.append((into.number, len(into.steps) - 1))
            continue
        assert step.send_to is not None
        to = step.send_to.of(rank, n)
        out = block("s", to)
        awaited = dict(posted[: max(0, (step.after or 0) - 1)])  # of each block the last
        waits = [(other, last) for other, last in awaited.items() if out.seen.get(other, -1) < last]
        out.seen.update(waits)
        by_number = {each.number: each for each in blocks.values()}
        for other, last in waits:
            by_number[other].needed.add(last)
        for earlier in waits[:-1]:
            out.add("nop", 'srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0"', earlier)
        last_wait = waits[-1] if waits else (-1, -1)
        for run in sent[rank, to][delivered.get(to, 0)]:
            out.add("s", _where(run.source, run.target, run.chunks), last_wait)
            last_wait = -1, -1
        delivered[to] = delivered.get(to, 0) + 1
    lines = [f'  <gpu id="{rank}" i_chunks="{inputs_of(kind, n, pieces)}" o_chunks="{outputs_of(kind, n, pieces)}" s_chunks="{scratch}">']
    if kind is Collective.ALL_TO_ALL:
        own = _MscclBlock(len(blocks), -1, -1)
        own.add("cpy", f'srcbuf="i" srcoff="{rank * pieces}" dstbuf="o" dstoff="{rank * pieces}" cnt="{pieces}"', (-1, -1))
        blocks["l", rank] = own
    for each in blocks.values():
        lines += each.lines()
    return [*lines, "  </gpu>"]


def _where(source: ChunkPlace, target: ChunkPlace, count: int) -> str:
    return f'srcbuf="{source.buffer}" srcoff="{source.chunk}" dstbuf="{target.buffer}" dstoff="{target.chunk}" cnt="{count}"'


def inputs_of(kind: Collective, ranks: int, pieces: int) -> int:
    """Chunks of the input of a rank."""
    return pieces if kind is Collective.ALL_GATHER else ranks * pieces


def outputs_of(kind: Collective, ranks: int, pieces: int) -> int:
    """Chunks of its output."""
    return pieces if kind is Collective.REDUCE_SCATTER else ranks * pieces
