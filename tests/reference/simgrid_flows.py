"""Makes `simgrid_flows.jsonl`: 100 random platforms and flows, and when the flows end in SimGrid 3.32.

    python3 tests/reference/simgrid_flows.py > tests/reference/simgrid_flows.jsonl

It needs SimGrid's Python module, which Debian has as `python3-simgrid`, and nothing of astra. A line is a case: the model, links (source,
target, bytes/s, ns: each one way), flows (source, destination, bytes, start in ns), and the seconds at which they end. Nodes from `npus` on
are switches. `ends_s` are computed anew for all flows at every event (`network/optim:Full`). By default SimGrid computes the rates of some
flows only (`Lazy`), and gives other results in a few cases: they are `lazy_ends_s`, where they differ by more than a millionth.

A flow takes the fewest links, over switches alone where there are any, and of several ways the one whose first link has the lowest number,
then whose second has, and so on: the script says so to SimGrid, link by link.
"""

from __future__ import annotations

import json
import multiprocessing
import random
from collections import deque
from typing import Any

CASES = 100
NO_WAY = -1
SAME = 1e-6
EXACT = ("surf/precision:1e-13", "maxmin/precision:1e-9")
"""Seconds, and rates in bytes/s, that SimGrid takes for 0; by default it has 1e-9 and 1e-5."""
MODELS = {
    "ideal": ("network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:1e30"),
    "simgrid_cm02": ("network/model:CM02",),
    "simgrid_lv08": ("network/model:LV08",),
    "window": ("network/model:LV08", "network/crosstraffic:0", "network/TCP-gamma:20000"),
}
"""Options of SimGrid by model. On `ideal` links have no latency: then flows weigh the same."""

Link = tuple[int, int, float, int]


def case(number: int) -> dict[str, Any]:
    """A random platform with flows."""
    draw = random.Random(number)
    model = list(MODELS)[number % len(MODELS)]
    npus, switches = draw.randint(2, 12), draw.choice((0, 1, 2, 4, 6))
    links: list[Link] = []

    def join(a: int, b: int) -> None:
        bandwidth, latency = draw.choice((1e9, 2.5e9, 12.5e9, draw.randint(10**8, 10**11))), draw.choice((500, draw.randint(1, 20_000)))
        if not any({a, b} == {source, target} for source, target, *_ in links):
            links.extend((source, target, float(bandwidth), 0 if model == "ideal" else latency) for source, target in ((a, b), (b, a)))

    inner = range(npus, npus + switches) if switches else range(npus)
    for place, node in list(enumerate(inner))[1:]:
        join(node, inner[draw.randrange(place)])
    for _ in range(draw.randint(0, 2 * len(inner)) if len(inner) > 2 else 0):
        join(*draw.sample(inner, 2))
    for npu in range(npus) if switches else ():
        for switch in draw.sample(inner, draw.randint(1, min(2, switches))):
            join(npu, switch)
    flows = []
    for _ in range(draw.randint(1, 60)):
        source, destination = draw.sample(range(npus), 2)
        flows.append(
            (source, destination, draw.choice((1_000_000, int(10 ** draw.uniform(0, 8)))), draw.choice((0, draw.randint(0, 10**6))))
        )
    return {"case": number, "model": model, "npus": npus, "nodes": npus + switches, "links": links, "flows": flows}


def route(made: dict[str, Any], source: int, destination: int) -> list[int]:
    """The links of the shortest way."""
    npus, links = made["npus"], made["links"]
    distance = {destination: 0}
    waiting = deque([destination])
    while waiting:
        node = waiting.popleft()
        if node == destination or node >= npus or made["nodes"] == npus:
            for before, target, *_ in links:
                if target == node and before not in distance:
                    distance[before] = distance[node] + 1
                    waiting.append(before)
    result, node = [], source
    while node != destination:
        nearer = (n for n, link in enumerate(links) if link[0] == node and distance.get(link[1], NO_WAY) == distance[node] - 1)
        result.append(next(nearer))
        node = links[result[-1]][1]
    return result


def simulate(made: dict[str, Any], optimisation: str) -> list[float]:
    """When each flow ends in SimGrid, which a process can run once only."""
    from simgrid import Actor, Comm, Engine, LinkInRoute, NetZone, this_actor

    options = (*MODELS[made["model"]], *EXACT, f"network/optim:{optimisation}")
    engine = Engine(["simgrid_flows", "--log=root.thres:critical", *(f"--cfg={option}" for option in options)])
    zone = NetZone.create_full_zone("zone")
    hosts = [zone.create_host(f"npu{npu}", 1e9) for npu in range(made["npus"])]
    links = [zone.create_link(f"link{n}", bandwidth).set_latency(ns * 1e-9).seal() for n, (_, _, bandwidth, ns) in enumerate(made["links"])]
    for pair in {pair for source, destination, *_ in made["flows"] for pair in ((source, destination), (destination, source))}:
        way = [LinkInRoute(links[number]) for number in route(made, *pair)]
        zone.add_route(hosts[pair[0]].netpoint, hosts[pair[1]].netpoint, None, None, way, False)
    zone.seal()
    ends = [0.0] * len(made["flows"])

    def send(number: int, source: int, destination: int, size: int, start: int) -> None:
        this_actor.sleep_until(start * 1e-9)
        Comm.sendto_async(hosts[source], hosts[destination], size).wait()
        ends[number] = Engine.clock

    for number, flow in enumerate(made["flows"]):
        Actor.create(f"flow{number}", hosts[flow[0]], send, number, *flow)
    engine.run()
    return ends


def main() -> None:
    """Write the cases."""
    with multiprocessing.Pool(1, maxtasksperchild=1) as pool:
        for number in range(CASES):
            result = case(number)
            result["ends_s"], lazy = (pool.apply(simulate, (result, optimisation)) for optimisation in ("Full", "Lazy"))
            if any(abs(a - b) > SAME * a for a, b in zip(result["ends_s"], lazy, strict=True)):
                result["lazy_ends_s"] = lazy
            print(json.dumps(result, separators=(",", ":")), flush=True)


if __name__ == "__main__":
    main()
