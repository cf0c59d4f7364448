"""The fabric of a platform: its graph of NPUs, switches and links, which network backends simulate.

`Platform.fabric()` makes it, and is the only source of it. A topology describes the links of a dimension in one of two ways:

* `wires()`: a sequence of `Wire`s, in units of the bandwidth and latency of the dimension (`link_bandwidth`, `link_latency_ns`).
  Ring, switch, fully connected, mesh, fat tree and dragonfly do.
* `links()`: tuples (source, target, bandwidth in bytes/ns, latency in ns[, error rate[, cost]]) with figures of their own. Graphs from
  files do.

In both the positions of the dimension come first, nodes from its size on are switches, and a link goes one way. Links that one message uses
side by side (`links = 18` of a switch) are one link of that many times the bandwidth; links that share messages among them are listed one
by one. A topology may give its nodes the numbers that a file has for them in `node_ids`, and the latency of switches is that of the
dimension (`router_latency_ns`).

Routes have the least sum of costs, unless a topology names them: `next_links(node, destination)` returns the numbers (in `wires()` or
`links()`) of the links on which a message to a position leaves a node, like the forwarding table of a switch. Of several, networks take
the first, or one by their own rule (by a hash, at random, by queues).

Every group of NPUs that differ in one dimension alone has links and switches of its own. Nodes of the fabric are the NPUs, and then the
switches: dimension by dimension, group by group (in the order of the first NPU of each), as the topology numbers them.

Example:

Four NPUs, each joined with two switches, which are nodes 4 and 5. The link to the second one is twice as wide and as long:

    >>> from astra_sim.fabric import Topology, Wire, both_ways
    >>> from astra_sim.platform import Dimension, Platform
    >>> class Planes(Topology):
    ...     name = "planes"
    ...
    ...     def wires(self):
    ...         near = [Wire(npu, 4) for npu in range(4)]
    ...         far = [Wire(npu, 5, width=2.0, length=2.0) for npu in range(4)]
    ...         return both_ways(near + far)
    ...
    ...     def hops(self, source, destination):
    ...         return 2
    ...
    ...     def is_symmetric(self, peer):
    ...         return True
    ...
    ...     def links_per_message(self):
    ...         return 1
    ...
    ...     def links_per_npu(self):
    ...         return 2
    >>> dimension = Dimension(Planes(), size=4, links=2, link_bandwidth=25.0, link_latency_ns=500.0)
    >>> fabric = Platform((dimension,)).fabric()
    >>> fabric.npus, fabric.switches, len(fabric.links)
    (4, 2, 16)
    >>> [fabric.link_name(link) for link in fabric.ports()[0]]
    ['NPU 0 to switch 0', 'NPU 0 to switch 1']
    >>> fabric.distances(destination=1, through_npus=False)
    [2, 0, 2, 2, 1, 1]

A network reads bandwidths (bytes/ns) and latencies (ns) from it:

    >>> from astra_sim.fabric import Fabric, FabricLink
    >>> def links_of(fabric: Fabric, npu: int) -> list[FabricLink]:
    ...     return [fabric.links[number] for number in fabric.ports()[npu]]
    >>> [(link.bandwidth, link.latency_ns) for link in links_of(fabric, npu=0)]
    [(25.0, 500.0), (50.0, 1000.0)]

A network of links declares how it routes, and needs a rule for links of equal cost, here by the number of the destination:

    >>> from astra_sim.fabric import RouteRules
    >>> rules = RouteRules(forwarding="never", choice="all")
    >>> def route(fabric, source, destination, tie):
    ...     left = fabric.distances(destination, through_npus=rules.forwarding == "always")
    ...     node, names = source, []
    ...     while node != destination:
    ...         ports = [number for number in fabric.ports()[node] if left[fabric.links[number].target] < left[node]]
    ...         number = ports[tie(node, destination, ports)] if len(ports) > 1 else ports[0]
    ...         names.append(fabric.link_name(number))
    ...         node = fabric.links[number].target
    ...     return names
    >>> def by_number(node, destination, links):
    ...     return destination % len(links)
    >>> route(fabric, 0, 2, by_number)
    ['NPU 0 to switch 0', 'switch 0 to NPU 2']
    >>> route(fabric, 0, 3, by_number)
    ['NPU 0 to switch 1', 'switch 1 to NPU 3']
"""

from astra_sim.fabric.graph import Fabric
from astra_sim.fabric.links import FabricLink, LinkChange, Wire, both_ways
from astra_sim.fabric.routes import RouteRules
from astra_sim.fabric.topology import Topology

__all__ = [
    "Fabric",
    "FabricLink",
    "LinkChange",
    "RouteRules",
    "Topology",
    "Wire",
    "both_ways",
]
