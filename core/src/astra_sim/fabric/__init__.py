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
the first, or one by their own rule (by a hash, at random, by queues). See `next_links_of`.

Every group of NPUs that differ in one dimension alone has links and switches of its own. Nodes of the fabric are the NPUs, and then the
switches: dimension by dimension, group by group (in the order of the first NPU of each), as the topology numbers them.
"""

from astra_sim.fabric.destination_order import DestinationOrder, destination_order_of
from astra_sim.fabric.graph import (
    LARGEST_FABRIC,
    DimensionGraph,
    Fabric,
    fabric_of,
    names_routes,
    next_links_of,
    node_number,
    pattern_of,
    stripes_over_directions,
    uniform_links_of,
    wires_of,
)
from astra_sim.fabric.links import LARGEST_COST, FabricLink, LinkChange, Pattern, UniformLinks, Wire, both_ways
from astra_sim.fabric.paths import UNREACHABLE, paths_to, shortest_paths
from astra_sim.fabric.routes import (
    DestinationRoutes,
    HostForwarding,
    NextLinkOrder,
    RouteChoice,
    RouteRules,
    Routes,
    TieRule,
    check_connected,
    dimension_graph,
    first_links,
)
from astra_sim.fabric.ties import tie_by_destination, tie_by_hash, tie_first
from astra_sim.fabric.topology import Topology, completed

__all__ = [
    "LARGEST_COST",
    "LARGEST_FABRIC",
    "UNREACHABLE",
    "DestinationOrder",
    "DestinationRoutes",
    "DimensionGraph",
    "Fabric",
    "FabricLink",
    "HostForwarding",
    "LinkChange",
    "NextLinkOrder",
    "Pattern",
    "RouteChoice",
    "RouteRules",
    "Routes",
    "TieRule",
    "Topology",
    "UniformLinks",
    "Wire",
    "both_ways",
    "check_connected",
    "completed",
    "destination_order_of",
    "dimension_graph",
    "fabric_of",
    "first_links",
    "names_routes",
    "next_links_of",
    "node_number",
    "paths_to",
    "pattern_of",
    "shortest_paths",
    "stripes_over_directions",
    "tie_by_destination",
    "tie_by_hash",
    "tie_first",
    "uniform_links_of",
    "wires_of",
]
