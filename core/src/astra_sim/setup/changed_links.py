"""A platform whose links are not all as its topologies list them: some are slower, some are down.

The platform keeps its dimensions, by which collectives are planned. Its links become one graph (`Platform.physical`), in which networks
find routes of least cost around the links that are down, through NPUs if no switches lead on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs

from astra_sim.errors import InputError
from astra_sim.fabric import Fabric, FabricLink, Topology
from astra_sim.fabric.graph import node_number
from astra_sim.fabric.links import LinkChange, Pattern
from astra_sim.platform import Dimension, Platform
from astra_sim.schedule import Peer

NODES = "an NPU by its number, 'NPU N', or 'switch N'"


@attrs.frozen(eq=False)
class ChangedTopology(Topology):
    """The links of a platform with changes, as a topology of one dimension. `base` is that of the platform if it has one dimension.

    If no link is down, the routes that `base` names are kept.
    """

    listed: tuple[FabricLink, ...] = attrs.field(repr=False)
    base: Topology | None
    keeps_routes: bool

    @property
    def name(self) -> str:
        """The name of the topology, or what it is."""
        return "changed links" if self.base is None else self.base.name

    def hops(self, source: int, destination: int) -> int:
        """The value of the topology without changes; 1 on a platform of several dimensions."""
        return 1 if self.base is None else self.base.hops(source, destination)

    def is_symmetric(self, peer: Peer) -> bool:
        """Never: links differ."""
        return False

    def links_per_message(self) -> int:
        """The value of the topology without changes."""
        return 1 if self.base is None else self.base.links_per_message()

    def links_per_npu(self) -> int:
        """The value of the topology without changes."""
        return 1 if self.base is None else self.base.links_per_npu()

    def is_uniform(self) -> bool:
        """Never: links differ."""
        return False

    def links(self) -> Sequence[Sequence[Any]]:
        """The links that are up."""
        return [(link.source, link.target, link.bandwidth, link.latency_ns, link.error_rate, link.cost) for link in self.listed]

    def next_links(self, node: int, destination: int) -> Sequence[int] | None:
        """The routes of the topology, if all its links are up."""
        return self.base.next_links(node, destination) if self.base is not None and self.keeps_routes else None

    def destination_order(self) -> Sequence[int] | None:
        """The numbers of the topology, if all its links are up."""
        return self.base.destination_order() if self.base is not None and self.keeps_routes else None

    @property
    def pattern(self) -> Pattern | None:
        """The pattern of the topology, if all its links are up."""
        if self.base is None or not self.keeps_routes:
            return None
        uniform = self.base.uniform_links()
        return self.base.pattern if uniform is None else uniform.pattern

    @property
    def node_ids(self) -> Sequence[int]:
        """The numbers of the topology."""
        return () if self.base is None else self.base.node_ids

    @property
    def within_server(self) -> Any:
        """The switches of the topology."""
        return frozenset() if self.base is None else self.base.within_server

    def scaled_in(self, number: int, bandwidth: float, latency: float) -> Topology | None:
        """The links of one dimension of the platform scaled; None if its links are not of dimensions."""
        if self.base is not None:
            return None
        scaled = (
            link._replace(bandwidth=link.bandwidth * bandwidth, latency_ns=link.latency_ns * latency) if link.dimension == number else link
            for link in self.listed
        )
        return attrs.evolve(self, listed=tuple(scaled))


def with_changed_links(
    platform: Platform, changes: Sequence[LinkChange], switches_down: Sequence[int | str] = (), where: str = ""
) -> Platform:
    """The platform with its links changed, and those of some switches down.

    Changes of the same link multiply. Raises InputError, naming `where` or that of a change, for a node or a link that the platform does
    not have.
    """
    if not changes and not switches_down:
        return platform
    wired, fabric = platform.wired(), platform.fabric()
    factors: dict[tuple[int, int], tuple[float, float]] = {}
    ends = {(link.source, link.target) for link in fabric.links}
    for change in changes:
        pair = node_of(change.source, fabric, change.where), node_of(change.target, fabric, change.where)
        if pair not in ends:
            raise InputError(
                f"{change.where}: no link leads from {fabric.name(pair[0])} to {fabric.name(pair[1])}{_neighbours(fabric, pair[0])}"
            )
        bandwidth, latency = factors.get(pair, (1.0, 1.0))
        factors[pair] = bandwidth * change.bandwidth, latency * change.latency
    down = {node_of(name, fabric, where) for name in switches_down}
    for node in down:
        if not fabric.is_switch(node):
            raise InputError(f"{where}: nodes has {fabric.name(node)}; expected switches, such as 'switch 0', since NPUs run the workload")
    same_switches, same_nics = len(set(fabric.switch_latency_ns)) < 2, len({link.nic_latency_ns for link in fabric.links}) < 2
    listed = []
    for link in fabric.links:
        bandwidth, latency = factors.get((link.source, link.target), (1.0, 1.0))
        if not bandwidth or link.source in down or link.target in down:
            continue
        changed_ns = link.latency_ns * latency
        if not same_switches and fabric.is_switch(link.source):
            changed_ns += fabric.switch_latency_ns[link.source - fabric.npus]
        if not same_nics:
            changed_ns += link.nic_latency_ns * sum(not fabric.is_switch(node) for node in (link.source, link.target))
        listed.append(link._replace(bandwidth=link.bandwidth * bandwidth, latency_ns=changed_ns))
    first = wired.dimensions[0]
    base = first.topology if len(wired.dimensions) == 1 else None
    physical = Dimension(
        topology=ChangedTopology(tuple(listed), base, len(listed) == len(fabric.links)),
        size=wired.npus,
        links=first.links,
        link_bandwidth=first.link_bandwidth,
        link_latency_ns=first.link_latency_ns,
        nic_latency_ns=fabric.links[0].nic_latency_ns if same_nics and fabric.links else 0.0,
        router_latency_ns=fabric.switch_latency_ns[0] if same_switches and fabric.switch_latency_ns else 0.0,
    )
    return Platform(platform.dimensions, platform.name, platform.device, physical, changed_links=True)


def node_of(name: int | str, fabric: Fabric, where: str) -> int:
    """The number of a node. Raises InputError, naming `where`, if the platform has none of this name."""
    number, nodes = -1, fabric.npus
    if isinstance(name, int) and not isinstance(name, bool):
        number = name
    elif isinstance(name, str):
        with suppress(ValueError):
            number, nodes = node_number(name, fabric.npus), fabric.nodes
    if not 0 <= number < nodes:
        has = f"NPUs 0 to {fabric.npus - 1}" + (f" and switches 0 to {fabric.switches - 1}" if fabric.switches else ", and no switches")
        raise InputError(f"{where}: {name!r} is no node; expected {NODES}; the platform has {has}")
    return number


def _neighbours(fabric: Fabric, node: int) -> str:
    """The ends of the links that leave a node, at most eight of them, as the end of a message."""
    targets = list(dict.fromkeys(link.target for link in fabric.links if link.source == node))
    names = [fabric.name(target) for target in targets[:8]] + (["..."] if len(targets) > 8 else [])
    return f"; expected one of {', '.join(names)}" if names else "; no link leaves it"


def without_parts(platform: Platform, table: Any, where: str) -> Platform:
    """The platform without the parts of the table `without` of an experiment's platform: `links`, pairs of nodes, and `nodes`, switches.

    A link is down in both directions. A pair may be text such as "0:switch 2", as on a command line. Raises InputError.
    """
    expected = "expected links = [[0, 'switch 0'], ...], nodes = ['switch 3', ...], or both"
    if not isinstance(table, Mapping) or not table:
        raise InputError(f"{where} is {table!r}; {expected}")
    for key in table:
        if key not in ("links", "nodes"):
            raise InputError(f"{where}: unknown key {key!r}; {expected}")
    fabric = platform.fabric()
    ends = {(link.source, link.target) for link in fabric.links}
    changes: list[LinkChange] = []
    for number, pair in enumerate(_list(table, "links", where)):
        here = f"{where}: links[{number}]"
        names = pair.split(":") if isinstance(pair, str) else pair
        if not isinstance(names, Sequence) or len(names) != 2:
            raise InputError(f"{here} is {pair!r}; expected two nodes: each {NODES}")
        a, b = (node_of(_name(name), fabric, here) for name in names)
        directions = [(source, target) for source, target in ((a, b), (b, a)) if (source, target) in ends] or [(a, b)]
        changes += [LinkChange(fabric.name(source), fabric.name(target), 0.0, where=here) for source, target in directions]
    return with_changed_links(platform, changes, [_name(each) for each in _list(table, "nodes", where)], where)


def _list(table: Mapping[str, Any], key: str, where: str) -> Sequence[Any]:
    """A list of a table; text is a list of its parts, as on a command line. Raises InputError."""
    value = table.get(key, ())
    if isinstance(value, str):
        return value.split(",")
    if not isinstance(value, Sequence):
        raise InputError(f"{where}: {key} is {value!r}; expected a list")
    return value


def _name(name: Any) -> Any:
    """The number or name of a node, of which a number may be text."""
    text = name.strip() if isinstance(name, str) else name
    return int(text) if isinstance(text, str) and text.isdecimal() else text
