"""SimGrid's solver beside `flow`, on the same flows: python3 dev.py bench solvers.

All NPUs of a leaf-spine network send to all others at once, each over the spine that a random draw gives its leaf for the destination: so
links carry unequal numbers of flows, which end one after another. SimGrid's side, `simgrid_flows.cpp`, is compiled if the C++ compiler
(`CXX`, c++ by default, with `SIMGRID_FLAGS`) finds SimGrid: Debian's package is libsimgrid-dev. Both are whole processes that run
alternately, CPU time counts, and all flows must end at the same times. Without SimGrid nothing is measured, and the reason is printed.
"""

from __future__ import annotations

import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import attrs
from astra_sim.function_table import FunctionTable
from astra_sim.network import Message
from astra_sim.platform import Dimension, Platform
from astra_sim_network_flow.network import FlowNetwork
from astra_sim_network_flow.options import FlowOptions
from astra_sim_platforms.graph import GraphFile, GraphLink

from devtools.figures import FigureTable, Row, main
from devtools.peer_processes import NoAnswer, used

BANDWIDTH = 25.0
BYTES = 65_536
LEAF, SPINES = 8, 4
"""NPUs of a leaf, and spines: leaves have half as much bandwidth to spines as to NPUs."""
SAME_S = 2e-12
"""How much ends may differ: ours are whole picoseconds."""
PS_PER_S = 1e12
ROUNDS, LONG_S = 3, 20.0
"""How often both run, unless SimGrid takes `LONG_S`."""


@attrs.frozen
class LeafSpine(GraphFile):
    """Leaves of NPUs, each linked to all spines, and for each leaf and destination the link on which messages leave."""

    next_edges: tuple[int, ...] = attrs.field(repr=False, kw_only=True)
    """The link by node * size + destination."""

    def next_links(self, node: int, destination: int) -> Sequence[int]:
        """One link."""
        return (self.next_edges[node * self.size + destination],)


def leaf_spine(npus: int) -> LeafSpine:
    """A network of some NPUs whose draws depend on their number alone."""
    draw = random.Random(npus)
    leaves = npus // LEAF
    ends = [(npu, npus + npu // LEAF) for npu in range(npus)]
    ends += [(npus + leaf, npus + leaves + spine) for leaf in range(leaves) for spine in range(SPINES)]
    edges = [GraphLink(*pair, BANDWIDTH, 0.0) for source, target in ends for pair in ((source, target), (target, source))]
    number = {(edge.source, edge.target): place for place, edge in enumerate(edges)}

    def way(node: int, destination: int) -> int:
        leaf = npus + destination // LEAF
        if node == destination:
            return -1
        if node < npus:
            return number[node, npus + node // LEAF]
        if node >= npus + leaves:
            return number[node, leaf]
        return number[node, destination if node == leaf else npus + leaves + draw.randrange(SPINES)]

    next_edges = tuple(way(node, destination) for node in range(npus + leaves + SPINES) for destination in range(npus))
    return LeafSpine(npus, tuple(edges), (1,) * npus * npus, next_edges=next_edges)


def pairs(npus: int) -> list[tuple[int, int]]:
    """The source and the destination of each flow."""
    return [(source, destination) for source in range(npus) for destination in range(npus) if source != destination]


def write_flows(topology: LeafSpine, path: Path) -> None:
    """Write what SimGrid's side reads: bandwidths of links, and flows with their routes."""
    lines = [f"{topology.size} {len(topology.edges)}", *(repr(edge.bandwidth * 1e9) for edge in topology.edges)]
    flows = pairs(topology.size)
    lines.append(str(len(flows)))
    for source, destination in flows:
        node, route = source, list[int]()
        while node != destination:
            route += topology.next_links(node, destination)
            node = topology.edges[route[-1]].target
        lines.append(" ".join(map(str, (source, destination, BYTES, len(route), *route))))
    path.write_text("\n".join(lines) + "\n")


def our_ends_ps(topology: LeafSpine) -> list[int]:
    """When each flow ends on `flow`."""
    platform = Platform((Dimension(topology, topology.size, 1, BANDWIDTH, 0.0),))
    network = FlowNetwork(FlowOptions(routing="first", connections="message", tolerance=0.0), platform)
    network.begin()
    table = FunctionTable(network.function_table())
    flows = pairs(topology.size)
    table.inject(0, [Message(number, source, destination, BYTES) for number, (source, destination) in enumerate(flows)])
    ends = [0] * len(flows)
    while (delivery := table.advance(None)) is not None:
        time, numbers = delivery
        for number in numbers:
            ends[number] = time
    return ends


def compiled(folder: Path) -> Path:
    """SimGrid's side. Raises NoAnswer if it cannot be compiled."""
    program = folder / "simgrid_flows"
    source = Path(__file__).with_name("simgrid_flows.cpp")
    flags = shlex.split(os.environ.get("SIMGRID_FLAGS", ""))
    command = [*shlex.split(os.environ.get("CXX", "c++")), "-O2", "-std=c++17", str(source), "-o", str(program), *flags, "-lsimgrid"]
    try:
        ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except OSError as error:
        raise NoAnswer(f"no C++ compiler: {command[0]}: {error.strerror}") from None
    if ended.returncode != 0:
        reason = next((line for line in ended.stdout.splitlines() if "error" in line or "cannot find" in line), "it does not compile")
        raise NoAnswer(f"SimGrid is not there: {reason.strip()}")
    return program


def beside(folder: Path, npus: int) -> list[str] | None:
    """The figures of a row: flows, CPU seconds of both, how many times as fast `flow` is, and the last end; None without SimGrid.

    Raises NoAnswer if a flow ends at other times.
    """
    try:
        program = compiled(folder)
    except NoAnswer as error:
        print(error.reason, file=sys.stderr)
        return None
    flows, their_file, our_file = (folder / f"{name}{npus}" for name in ("flows", "theirs", "ours"))
    write_flows(leaf_spine(npus), flows)
    theirs, ours = [], []
    for _ in range(ROUNDS):
        theirs.append(used([str(program), str(flows), str(their_file)], folder)[0])
        ours.append(used([sys.executable, str(Path(__file__).resolve()), "ends", str(npus), str(our_file)], folder)[0])
        if theirs[-1] > LONG_S:
            break
    last_s = check_equal(*(list(map(float, path.read_text().split())) for path in (their_file, our_file)))
    their_s, our_s = statistics.median(theirs), statistics.median(ours)
    return [f"{npus * (npus - 1):,}", f"{their_s:.2f}", f"{our_s:.2f}", f"{their_s / our_s:.1f}", f"{last_s * 1e6:.3f} us"]


def check_equal(their_s: Sequence[float], our_s: Sequence[float]) -> float:
    """The last end (seconds). Raises NoAnswer unless all are equal, within `SAME_S` and a billionth."""
    for number, (theirs, ours) in enumerate(zip(their_s, our_s, strict=True)):
        if abs(theirs - ours) > SAME_S + 1e-9 * theirs:
            raise NoAnswer(f"flow {number} ends after {theirs!r} s in SimGrid, and after {ours!r} s here")
    return max(our_s)


NPUS = (64, 128)


def _row(npus: int) -> list[str] | None:
    with tempfile.TemporaryDirectory(prefix="astra-bench-") as name:
        return beside(Path(name), npus)


def _ours(npus: int) -> list[int]:
    return our_ends_ps(leaf_spine(npus))


SIMGRID = FigureTable(
    "simgrid",
    ("all-to-all on a leaf-spine network", "flows", "SimGrid, CPU s", "flow, CPU s", "times as fast", "last end of both"),
    [Row([f"{npus} NPUs"], partial(_row, npus)) for npus in NPUS],
)
TABLES = (SIMGRID,)
CASES: dict[str, Callable[[], object]] = {f"{npus} NPUs": partial(_ours, npus) for npus in NPUS}
"""What `dev.py bench solvers --against REVISION` compares: our side."""

if __name__ == "__main__":
    if sys.argv[1:2] == ["ends"]:
        Path(sys.argv[3]).write_text("".join(f"{end / PS_PER_S!r}\n" for end in _ours(int(sys.argv[2]))))
        sys.exit()
    sys.exit(main(TABLES))
