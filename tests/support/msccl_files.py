"""Small algorithms in the XML format of MSCCL, written for the tests."""

from __future__ import annotations

from collections.abc import Iterable

Gpu = dict[int, tuple[int, int, list[str]]]
"""Thread blocks of a gpu by id: the peer it sends to, the peer it receives from, its steps."""


def step(kind: str, source: str = "", target: str = "", count: int = 1, after: tuple[int, int] = (-1, -1)) -> str:
    """A step, but for its number; places are written like i3."""
    places = [("src", source or target), ("dst", target or source)]
    text = " ".join(f'{end}buf="{place[0]}" {end}off="{place[1:]}"' for end, place in places if place)
    return f'type="{kind}" {text} cnt="{count}" depid="{after[0]}" deps="{after[1]}" hasdep="0"'


def algorithm(collective: str, chunks: int, gpus: Iterable[Gpu], in_place: int = 0) -> str:
    """The text of a file."""
    gpus = list(gpus)
    attributes = f'nchunksperloop="{chunks}" ngpus="{len(gpus)}" coll="{collective}" inplace="{in_place}" outofplace="{1 - in_place}"'
    lines = [f'<algo name="test" proto="Simple" nchannels="1" {attributes}>']
    for rank, gpu in enumerate(gpus):
        lines.append(f'<gpu id="{rank}" i_chunks="{chunks}" o_chunks="{chunks}" s_chunks="{chunks}">')
        for number, (to, source, steps) in gpu.items():
            lines.append(f'<tb id="{number}" send="{to}" recv="{source}" chan="0">')
            lines += [f'<step s="{index}" {text}/>' for index, text in enumerate(steps)]
            lines.append("</tb>")
        lines.append("</gpu>")
    return "\n".join([*lines, "</algo>"])


def ring_all_reduce(n: int, each: int = 1, fused: bool = True) -> str:
    """A reduce-scatter and an all-gather around a ring, in place; `each` chunks at a time. Not `fused`: no step does two things."""

    def steps(rank: int) -> list[str]:
        places = [f"i{(rank - k) % n * each}" for k in range(2 * n)]
        if not fused:
            result = [step("s", places[0], count=each)]
            for k in range(1, 2 * n - 1):
                result.append(step("rrc" if k < n else "r", places[k], places[k], each))
                result += [step("s", places[k], count=each)] if k < 2 * n - 2 else []
            return result
        kinds = ["s", *["rrs"] * (n - 2), "rrcs", *["rcs"] * (n - 2), "r"]
        return [step(kind, place, place, each) for kind, place in zip(kinds, places, strict=False)]

    return algorithm("allreduce", n * each, ({0: ((r + 1) % n, (r - 1) % n, steps(r))} for r in range(n)), 1)


def all_pairs_all_gather(n: int) -> str:
    """Everyone sends its chunk to everyone, a thread block for each peer; a copy to the output of its own."""

    def gpu(rank: int) -> Gpu:
        peers = [peer for peer in range(n) if peer != rank]
        blocks: Gpu = {number: (p, p, [step("s", "i0", f"o{rank}"), step("r", f"o{p}")]) for number, p in enumerate(peers)}
        return {**blocks, n: (-1, -1, [step("cpy", "i0", f"o{rank}")])}

    return algorithm("allgather", n, map(gpu, range(n)))


def all_to_all(n: int, each: int = 2) -> str:
    """Everyone sends `each` chunks to everyone."""

    def gpu(rank: int) -> Gpu:
        blocks: Gpu = {
            peer: (peer, peer, [step("s", f"i{peer * each}", f"o{rank * each}", each), step("r", f"o{peer * each}", count=each)])
            for peer in range(n)
            if peer != rank
        }
        return {**blocks, n: (-1, -1, [step("cpy", f"i{rank * each}", f"o{rank * each}", each)])}

    return algorithm("alltoall", n * each, map(gpu, range(n)))


def all_pairs_all_reduce(n: int) -> str:
    """Everyone gets its chunk from everyone into scratch, adds up, and sends the sum to everyone: thread blocks wait for each other."""

    def gpu(rank: int) -> Gpu:
        peers = [peer for peer in range(n) if peer != rank]
        adding = [step("re", f"s{peer}", f"i{rank}", after=(number, 1)) for number, peer in enumerate(peers)]
        blocks: Gpu = {n: (-1, -1, adding)}
        for number, p in enumerate(peers):
            last = step("s", f"i{rank}", after=(n, len(peers) - 1))
            blocks[number] = (p, p, [step("s", f"i{p}", f"s{rank}"), step("r", f"s{p}"), last, step("r", f"i{p}")])
        return blocks

    return algorithm("allreduce", n, map(gpu, range(n)))


def direct_reduce_scatter(n: int) -> str:
    """All ranks send to all, add what they receive to their own data in scratch, one after the other, then copy the sum."""

    def gpu(rank: int) -> Gpu:
        peers = [(rank + k) % n for k in range(1, n)]
        blocks: Gpu = {}
        for number, p in enumerate(peers):
            before = (number - 1, 1) if number else (-1, -1)
            blocks[number] = (p, p, [step("s", f"i{p}"), step("rrc", "s0" if number else f"i{rank}", "s0", after=before)])
        return {**blocks, n: (-1, -1, [step("cpy", "s0", "o0", after=(n - 2, 1))])}

    return algorithm("reducescatter", n, map(gpu, range(n)))
