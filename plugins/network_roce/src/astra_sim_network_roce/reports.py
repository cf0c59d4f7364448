"""Files of a run, as ASTRA-sim's ns-3 back end writes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astra_sim.fabric import Fabric

from astra_sim_network_roce.options import RoceOptions
from astra_sim_network_roce.settings import addresses

_DESTINATION_PORT = 100
_IDEAL_HEADER_BYTES = 48
"""The bytes of headers that that program counts in the ideal time of a packet, whatever its headers are."""


def fct(options: RoceOptions, fabric: Fabric, core: Any) -> str:
    """fct.txt: addresses, ports, bytes, start, time and ideal time in ns of each message, in the order in which they ended."""
    address = addresses(fabric.npus)
    nics = [max((fabric.links[link].bits_per_s for link in ports), default=1) for ports in fabric.ports()[: fabric.npus]]
    lines = []
    for _, source, target, port, size, _, started, _, ended, *_ in core.flows():
        packets = -(-size // options.chosen("payload_bytes"))
        ideal = core.round_trip_ns(source, target) + (size + packets * _IDEAL_HEADER_BYTES) * 8_000_000_000 // nics[source]
        begun, took = started // 1000, (ended - started) // 1000
        lines.append(f"{address[source]:08x} {address[target]:08x} {port} {_DESTINATION_PORT} {size} {begun} {took} {ideal}\n")
    return "".join(lines)


def pauses(fabric: Fabric, records: Sequence[tuple[int, int, int, bool]]) -> str:
    """pfc.txt: ns, node, 1 for a switch, port (from 1), 1 for a pause and 0 for a resume."""
    place = {link: number for ports in fabric.ports() for number, link in enumerate(ports, 1)}
    return "".join(
        f"{time // 1000} {fabric.ids[node]} {int(fabric.is_switch(node))} {place[port]} {int(pause)}\n"
        for time, node, port, pause in records
    )


def queues(fabric: Fabric, samples: Sequence[tuple[int, int, int]]) -> str:
    """qlen.csv: ns, the link that leaves a switch, and the bytes that wait for it from then on, if that has changed."""
    rows = ["time_ns,link,bytes"]
    rows += [f"{time // 1000 if time % 1000 == 0 else time / 1000},{fabric.link_name(link)},{size}" for time, link, size in samples]
    return "\n".join(rows) + "\n"
