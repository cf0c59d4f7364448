"""Files with which `astra plugins check` tries these components."""

from __future__ import annotations

from pathlib import Path

_HEAD = '<algo name="all_gather" nchunksperloop="{n}" ngpus="{n}" coll="allgather" proto="Simple" nchannels="1">'
_STEP = '<step s="{step}" type="{type}" srcbuf="o" srcoff="{chunk}" dstbuf="o" dstoff="{chunk}" cnt="1" depid="-1" deps="-1" hasdep="0"/>'


def msccl(folder: Path) -> list[dict[str, str]]:
    """An all-gather around a ring of four."""
    n = 4
    lines = [_HEAD.format(n=n)]
    for rank in range(n):
        lines.append(f'<gpu id="{rank}" i_chunks="1" o_chunks="{n}" s_chunks="0">')
        lines.append(f'<tb id="0" send="{(rank + 1) % n}" recv="{(rank - 1) % n}" chan="0">')
        copy = f'<step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{rank}" cnt="1" depid="-1" deps="-1" hasdep="0"/>'
        kinds = ["s", *["rcs"] * (n - 2), "r"]
        lines += [copy, *(_STEP.format(step=k + 1, type=kind, chunk=(rank - k) % n) for k, kind in enumerate(kinds))]
        lines.append("</tb></gpu>")
    path = folder / "all_gather_4.xml"
    path.write_text("\n".join([*lines, "</algo>"]) + "\n")
    return [{"file": str(path)}]
