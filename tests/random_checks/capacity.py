"""Capacity of links: no network moves bytes faster than the links of the platform, and the audit says which results do, and no others.

A case is a random platform (rings, tori, switches, fully connected NPUs, meshes, and topologies of others, some with the name of a built-in
one), and on it

* messages by themselves: a single one, which takes the same time on all networks; and a pattern of many (all at once, a permutation, the
  steps of Swing);
* a collective with a random algorithm.

The bound is computed here from the fabric alone: the bytes of all messages on the fewest links that they can cross, over the bandwidth of
all links, and the bytes that an NPU sends or receives, over that of its links.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import astra_sim
import attrs
from astra_sim import AstraError
from astra_sim.fabric import Wire
from astra_sim.fabric import both_ways as in_pairs
from astra_sim.fabric.links import UniformLinks
from astra_sim.graph import ExecutionGraph
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Collective, Peer, Request, Schedule
from astra_sim.setup.components import build
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins
from astra_sim.setup.specs import component_of
from astra_sim.units import PS_PER_NS
from astra_sim_flows.running import Flow, run_flows
from astra_sim_network_analytical.topologies import FullyConnected, Ring, Switch
from support.link_bounds import SPARE, distances, link_needs

IN_TESTS = 12
IN_NIGHTLY = 600

NETWORKS: dict[str, dict[str, Any]] = {
    "aware": {"plugin": "analytical", "congestion": "aware", "switching": "cut_through", "rounding": "picosecond"},
    "flow": {"plugin": "flow"},
    "packet": {"plugin": "packet"},
    "bubble": {"plugin": "packet", "deadlock_freedom": "bubble", "flow_control": "cut_through", "buffers": 64},
    "booksim": {"plugin": "packet", "preset": "booksim", "packet_bytes": 256},
    "roce": {"plugin": "roce"},
}
FORMULA: dict[str, Any] = {"plugin": "analytical", "rounding": "picosecond"}
SLOWER = {"aware": 0.001, "flow": 0.001, "packet": 0.05, "bubble": 0.6, "roce": 0.18}
"""How much longer a single large message may take than by the delay formula: packets have headers, and bubbles take buffers.

The preset booksim has a clock of its own, and too few buffers for links of 500 ns.
"""


@attrs.frozen
class Listed:
    """A third-party topology: it lists its links, and says nothing else of them. `name` may be that of a built-in one."""

    name: str
    size: int
    links_: tuple[Wire, ...]

    def hops(self, source: int, destination: int) -> int:
        """The fewest links between two positions."""
        return distances([(wire.source, wire.target) for wire in self.links_], source)[destination]

    def is_symmetric(self, peer: Peer) -> bool:
        """Not known."""
        return False

    def links_per_message(self) -> int:
        """One."""
        return 1

    def links_per_npu(self) -> int:
        """The links that leave the NPU with most."""
        return max(sum(wire.source == npu for wire in self.links_) for npu in range(self.size))

    def wires(self) -> list[Wire]:
        """The links."""
        return list(self.links_)


def check(seed: int, folder: Path) -> list[str]:
    """Run the case of a seed on all networks, and list what does not hold."""
    random = Random(seed)
    dimensions = _dimensions(random)
    platform = Platform(dimensions)
    where = " x ".join(f"{d.topology.name} of {d.size}" for d in dimensions)
    wrong = [*_single(random, platform), *_pattern(random, platform), *_collective(random, platform)]
    return [f"{where}: {line}" for line in wrong]


# -- Platforms ---------------------------------------------------------------------------------------------------------


def _dimensions(random: Random) -> tuple[Dimension, ...]:
    while True:
        dimensions = tuple(_dimension(random) for _ in range(random.choice([1, 1, 1, 2, 2, 3])))
        if 1 < math.prod(d.size for d in dimensions) <= 24:
            return dimensions


def _dimension(random: Random) -> Dimension:
    size = random.choice([2, 3, 4, 4, 5, 6, 8, 8, 16])
    links = random.choice([2, 2, 4])
    topology: Any = random.choice(
        [Ring(size, links), Ring(size, links), Switch(size, random.choice([1, 2])), FullyConnected(size, size - 1)]
    )
    if random.random() < 0.4:
        topology = _others(random, size)
    latency, nic = random.choice([0.0, 10.0, 500.0]), random.choice([0.0, 0.0, 20.0])
    return Dimension(topology, topology.size, topology.links_per_npu(), random.choice([12.5, 32.0, 50.0]), latency, nic)


def _others(random: Random, size: int) -> Listed:
    """A hypercube, a mesh, a wide ring or switch, a ring with chords: under any name."""
    name = random.choice(["ring", "switch", "fully_connected", "theirs"])
    kind = random.choice(["hypercube", "mesh", "ring", "switch", "chords"])
    if kind == "hypercube":
        size = 1 << max(1, size.bit_length() - 1)
        pairs = [(a, a ^ 1 << bit) for a in range(size) for bit in range(size.bit_length() - 1) if a < a ^ 1 << bit]
    elif kind == "switch":
        pairs = [(place, size) for place in range(size)]
    else:
        pairs = [(place, place + 1) for place in range(size - 1)]
        pairs += [(0, size - 1)] if kind != "mesh" and size > 2 else []
        pairs += [(place, (place + 2) % size) for place in range(0, size, 2)] if kind == "chords" and size > 4 else []
    width = random.choice([0.5, 1.0, 3.0])
    return Listed(name, size, tuple(in_pairs(Wire(a, b, width) for a, b in pairs)))


# -- Messages by themselves --------------------------------------------------------------------------------------------


def _times(network: dict[str, Any], platform: Platform, flows: Sequence[Flow]) -> float | str:
    """When the last of some flows arrives (ns), or why they cannot run."""
    experiment, plugins = Experiment(), shared_plugins()
    for kind, value in (("platform", platform), ("network", network), ("workload", ExecutionGraph((), (), ()))):
        experiment.use(kind, value, plugins)
    try:
        return max(times.received for times in run_flows(build(experiment, plugins).network, flows)) / PS_PER_NS
    except AstraError as error:
        return str(error)


def _possible(name: str, platform: Platform) -> bool:
    """Whether a network can take a platform: bubbles are for rings declared as such, RDMA wants few links in its default buffers."""
    return name != "bubble" or all(_links_of(d) is not None or _is_acyclic(d) for d in platform.dimensions)


def _links_of(dimension: Dimension) -> UniformLinks | None:
    uniform: UniformLinks | None = getattr(dimension.topology, "uniform_links", lambda: None)()
    return uniform


def _is_acyclic(dimension: Dimension) -> bool:
    """Whether the links of a dimension form a tree."""
    topology: Any = dimension.topology
    wires = topology.wires()
    nodes = {end for wire in wires for end in (wire.source, wire.target)}
    return len(wires) == 2 * (len(nodes) - 1)


def _single(random: Random, platform: Platform) -> Iterable[str]:
    """A large message within one dimension takes as long on all networks."""
    number = random.randrange(len(platform.dimensions))
    if platform.dimensions[number].size < 2:
        return
    a = random.randrange(platform.dimensions[number].size)
    b = (a + 1) % platform.dimensions[number].size
    if platform.dimensions[number].topology.hops(a, b) > 2:
        return  # of several shortest paths, packets may take all
    stride, size = platform.strides[number], random.choice([1_000_000, 4_000_000])
    flow = [Flow(a * stride, b * stride, size)]
    width = _width(platform.dimensions[number])
    dimension = attrs.evolve(platform.dimensions[number], link_bandwidth=platform.dimensions[number].link_bandwidth * width)
    hops = dimension.topology.hops(a, b)
    expected = hops * dimension.link_latency_ns + 2 * dimension.nic_latency_ns + size / dimension.link_bandwidth
    # Flits and packets are put on every link anew, and an interface between an NPU and its router has a latency of its own.
    extra = 2 * dimension.nic_latency_ns + 50 * (hops + 2) + 6000 * hops / dimension.link_bandwidth
    for name in ("formula", *SLOWER):
        if name == "formula" and width != dimension.topology.links_per_message():
            continue  # one bandwidth of a topology of others is that of a link
        if not _possible(name, platform):
            continue
        took = _times(NETWORKS.get(name, FORMULA), platform, flow)
        if isinstance(took, str):
            yield f"{name}, one message: {took}"
        elif not expected * (1 - SPARE) <= took <= expected * (1 + SLOWER.get(name, SPARE)) + extra:
            yield f"{name}: one message of {size} bytes from position {a} to {b} of dimension {number}: {took} ns; expected {expected}"


def _width(dimension: Dimension) -> float:
    topology: Any = dimension.topology
    return float(topology.wires()[0].width)


def _pattern(random: Random, platform: Platform) -> Iterable[str]:
    """Many messages on every event network."""
    n, size = platform.npus, random.choice([20_000, 100_000])
    kind = random.choice(["all_at_once", "permutation", "swing"])
    if kind == "all_at_once" or (kind == "swing" and (n & (n - 1) or n < 4)):
        flows = [Flow(a, b, size) for a in range(n) for b in range(n) if a != b]
    elif kind == "permutation":
        to = random.sample(range(n), n)
        flows = [Flow(a, b, size) for a, b in enumerate(to) if a != b] or [Flow(0, 1, size)]
    else:
        flows = _swing(n, size)
    needs = link_needs(platform.fabric(), [(flow.source, flow.destination, flow.bytes) for flow in flows])
    for name in random.sample(sorted(NETWORKS), 3):
        if not _possible(name, platform):
            continue
        took = _times(NETWORKS[name], platform, flows)
        if isinstance(took, str):
            yield f"{name}, {kind}: {took}"
        elif took < needs.bound_ns:
            yield f"{name}, {kind} of {size} bytes: {took} ns, and its links need {needs.bound_ns}"


def _swing(n: int, size: int) -> list[Flow]:
    """The reduce-scatter of Swing (De Sensi et al., NSDI 2024): step s goes (1 - (-2)^(s+1)) / 3 up from even ranks, down from odd ones."""
    flows: list[Flow] = []
    for step in range(n.bit_length() - 1):
        distance = (1 - (-2) ** (step + 1)) // 3
        before = tuple(range(len(flows) - n, len(flows))) if step else ()
        share = size * n >> (step + 1)
        flows += [Flow(a, (a + (distance if a % 2 == 0 else -distance)) % n, share, after=before) for a in range(n)]
    return flows


# -- Collectives -------------------------------------------------------------------------------------------------------


def _collective(random: Random, platform: Platform) -> Iterable[str]:
    """A collective on the formula and on event networks: only the formula may be too fast, and then the audit says so."""
    n = platform.dimensions[0].size
    collective = random.choice(list(Collective))
    algorithms = ["ring", "ring?directions=2", "direct", "direct?window=1", "auto"]
    if n & (n - 1) == 0 and len(platform.dimensions) == 1:
        algorithms += ["halving_doubling"] * (collective is not Collective.ALL_TO_ALL)
        algorithms += ["double_binary_tree"] * (collective is Collective.ALL_REDUCE)
    algorithm, size = random.choice(algorithms), random.choice([50_000, 200_000])
    what = f"{collective} of {size} bytes with {algorithm}"
    options: dict[str, Any] = {
        "workload": {"plugin": "collective", "collective": str(collective), "bytes": size},
        "platform": platform,
        "system": {"plugin": random.choice(["astra1", "astra2"]), str(collective): algorithm, "splits": random.choice([1, 1, 4])},
    }
    messages = _messages(collective, algorithm, size, platform)
    needs = link_needs(platform.fabric(), messages) if messages else None
    for name in ["formula", *random.sample(sorted(NETWORKS), 2)]:
        if not _possible(name, platform):
            continue
        try:
            result = astra_sim.simulate(**options, network=NETWORKS.get(name, FORMULA))
        except AstraError as error:
            yield f"{name}, {what}: {error}"
            continue
        if name != "formula" and result.audit:
            yield f"{name}, {what}: {result.finish_ns} ns, and the audit says: {result.audit[0].message}"
        if needs is None:
            continue
        if name != "formula" and result.finish_ns < needs.bound_ns:
            yield f"{name}, {what}: {result.finish_ns} ns, and its links need {needs.bound_ns}"
        if name == "formula" and result.audit and result.finish_ns >= max(needs):
            yield f"formula, {what}: {result.finish_ns} ns, its links need {max(needs)}, and the audit says: {result.audit[0].message}"
        if name == "formula" and not result.audit and needs.bound_ns > 3 * result.finish_ns:
            yield f"formula, {what}: {result.finish_ns} ns, its links need {needs.bound_ns}, and the audit says nothing"


def _messages(collective: Collective, algorithm: str, size: int, platform: Platform) -> list[tuple[int, int, int]]:
    """The messages of an algorithm over the only dimension of a platform; none where it has several, or the algorithm is not known."""
    if len(platform.dimensions) > 1 or algorithm == "auto":
        return []
    provider, options = component_of(shared_plugins(), "collective", algorithm, "capacity")
    factory: Any = provider.load_factory()
    request = Request(collective, platform.npus, size)
    schedule: Schedule = factory(request, options) if options is not None else factory(request)
    return [
        (rank, peer, step.bytes * step.times // step.targets.length)
        for rank in range(platform.npus)
        for step in schedule.program(rank).steps
        if step.targets is not None
        for peer in step.targets.ranks_from(rank, platform.npus)
    ]
