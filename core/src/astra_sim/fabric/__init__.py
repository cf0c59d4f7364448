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
"""

from astra_sim.fabric.graph import Fabric
from astra_sim.fabric.links import FabricLink, Wire, both_ways
from astra_sim.fabric.routes import RouteRules, TieRule
from astra_sim.fabric.topology import Topology

__all__ = [
    "Fabric",
    "FabricLink",
    "RouteRules",
    "TieRule",
    "Topology",
    "Wire",
    "both_ways",
]
