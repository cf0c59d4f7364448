"""Files with which `astra plugins check` tries these components."""

from __future__ import annotations

import json
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


def mscclpp(folder: Path) -> list[dict[str, str]]:
    """An all-gather of four, in which each puts its chunk to all others and signals."""
    n = 4
    channel = {"channel_type": "memory"}
    gpus = []
    for rank in range(n):
        peers = [peer for peer in range(n) if peer != rank]
        every = list(range(n - 1))
        source = {"type": "o", "index": rank, "size": 1}
        targets = [{"buffer_id": each, "index": rank, "size": 1} for each in every]
        ops = [
            {"name": "put", "src_buff": [source], "dst_buff": targets, "channel_ids": every, **channel},
            {"name": "signal", "channel_ids": every, **channel},
            {"name": "wait", "channel_ids": every, **channel},
        ]
        block = {
            "id": 0,
            "ops": ops,
            "channels": [{"channel_ids": every, **channel}],
            "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": every}],
        }
        gpus.append(
            {
                "id": rank,
                "input_chunks": 1,
                "output_chunks": n,
                "scratch_chunks": 0,
                "threadblocks": [block],
                "channels": [{"connected_to": peers, **channel}],
                "remote_buffers": [{"rank": peer, "type": "o", "access_channel_types": ["memory"]} for peer in peers],
                "semaphores": [],
            }
        )
    path = folder / "all_gather_4.json"
    path.write_text(json.dumps({"name": "all_gather", "collective": "allgather", "protocol": "Simple", "inplace": True, "gpus": gpus}))
    return [{"file": str(path)}]
