"""The programs of ranks that carry out a timed plan.

A rank sends in the order of the plan, and waits before each message for those that should have arrived by then: those whose data it needs,
and the others, too, so that no rank runs ahead and shares links with messages that were to go before. The kernel counts messages and does
not tell them apart, so a wait is always for all receives posted so far.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from astra_sim.schedule import Peer, RankProgram, Request, Schedule, Step, rank, receive, send
from astra_sim.schedule_bytes import Pairs

from astra_sim_synthesis.timing import Transfer

PACED, DATA_ONLY = 0.0, math.inf


def schedule_of(request: Request, transfers: Sequence[Transfer], lag_ns: float = PACED) -> Schedule:
    """The schedule of a plan. A rank may be `lag_ns` ahead of other messages than those whose data it sends on."""
    sends: list[list[Transfer]] = [[] for _ in range(request.ranks)]
    receives: list[list[Transfer]] = [[] for _ in range(request.ranks)]
    for transfer in sorted(transfers, key=lambda transfer: transfer.start):
        sends[transfer.edge.source].append(transfer)
        receives[transfer.edge.target].append(transfer)
    peers = [rank(number) for number in range(request.ranks)]
    programs = [RankProgram(tuple(_steps(sends[r], _in_order(receives[r]), peers, lag_ns))) for r in range(request.ranks)]
    return Schedule.per_rank(request, programs)


def _in_order(receives: Sequence[Transfer]) -> list[tuple[float, Transfer]]:
    """Receives by arrival; messages of one rank in the order in which it sends them, in which they meet receives."""
    latest: dict[int, float] = {}
    timed = []
    for transfer in receives:
        at = max(transfer.arrival, latest.get(transfer.edge.source, 0.0))
        latest[transfer.edge.source] = at
        timed.append((at, transfer))
    return sorted(timed, key=lambda entry: entry[0])


def _steps(sends: Sequence[Transfer], receives: Sequence[tuple[float, Transfer]], peers: Sequence[Peer], lag_ns: float) -> list[Step]:
    """The steps of a rank: before each message the receives that should have come by then."""
    place = {id(transfer): number for number, (_, transfer) in enumerate(receives)}
    steps: list[Step] = []
    posted = 0
    for transfer in sends:
        until = max((place[id(needed)] + 1 for needed in transfer.needs), default=0)
        if lag_ns < math.inf:
            limit = transfer.start - lag_ns + 1e-6
            last = max(posted, until)
            while last < len(receives) and receives[last][0] <= limit:
                last += 1
            until = max(until, last)
        while posted < until:
            steps.append(_receive(receives[posted][1], peers))
            posted += 1
        steps.append(send(peers[transfer.edge.target], transfer.bytes, after=1 + posted, pieces=_named(transfer)))
    steps += [_receive(transfer, peers) for _, transfer in receives[posted:]]
    return steps


def _named(transfer: Transfer) -> Sequence[Hashable]:
    return transfer.pieces if isinstance(transfer.pieces, Pairs) else list(transfer.pieces)


def _receive(transfer: Transfer, peers: Sequence[Peer]) -> Step:
    return receive(peers[transfer.edge.source], transfer.bytes, after=0, reduce=transfer.reduce)
