"""Files that a run writes about its network."""

from __future__ import annotations

from collections.abc import Sequence

from astra_sim._boundary import call
from astra_sim.network import EventNetwork, LinkLoad, Network

LINKS_FILE = "links.csv"


def network_files(network: Network) -> dict[str, str]:
    """The text of each file of a network, by name: `links.csv` if it knows the loads of its links, and those that it makes itself.

    A network that has a `links.csv` of its own keeps it.
    """
    if not isinstance(network, EventNetwork):
        return {}
    loads = link_loads(network)
    from astra_sim.files import csv_lines

    links = {LINKS_FILE: "".join(csv_lines([LinkLoad._fields, *loads]))} if loads else {}  # unknown values are empty
    return {**links, **call("reports of the network", network.reports)}


def link_loads(network: Network) -> Sequence[LinkLoad]:
    """The loads of the links of a network; none if it knows none."""
    return call(f"network {type(network).__name__}: links", network.links) if isinstance(network, EventNetwork) else ()
