"""Networks of the plugin roce, and flows on them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from astra_sim.commands import Experiment, build_platform, shared_plugins
from astra_sim.options import structure
from astra_sim.platform import Platform
from astra_sim_flows.running import Flow, FlowTimes, run_flows
from astra_sim_network_roce import ns3_config
from astra_sim_network_roce.network import RoceNetwork
from astra_sim_network_roce.options import RoceOptions

STAR = "plugin:switch?size={}&link_bandwidth_gb_per_s=12.5&link_latency_ns=1000"


def platform(spec: str) -> Platform:
    """The platform that a spec or a file names."""
    experiment = Experiment()
    experiment.use("platform", spec, shared_plugins())
    return build_platform(experiment, shared_plugins())


def network(where: Platform | str, **options: Any) -> RoceNetwork:
    """A network on a platform, with packets of 1000 bytes unless options say otherwise."""
    roce_options: RoceOptions = structure(RoceOptions, {"payload_bytes": 1000, **options}, "options")
    return RoceNetwork(roce_options, platform(where) if isinstance(where, str) else where)


def network_of_case(case: dict[str, Any], folder: Path, **options: Any) -> RoceNetwork:
    """The network of a line of roce.jsonl."""
    (folder / "topology.txt").write_text(case["topology"])
    (folder / "config.txt").write_text(case["config"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # keys without effect
        table = dict(ns3_config.read(case["config"], str(folder / "config.txt"))["network"])
    del table["plugin"]
    return network(str(folder / "topology.txt"), **(table | options))


def flows_of_case(case: dict[str, Any]) -> list[Flow]:
    """The messages of a line of roce.jsonl."""
    place = {message["id"]: number for number, message in enumerate(case["messages"])}
    return [
        Flow(each["src"], each["dst"], each["bytes"], 1000 * each["start_ns"], tuple(place[one] for one in each["after"]), each["pg"])
        for each in case["messages"]
    ]


def run(made: RoceNetwork, *flows: tuple[int, int, int] | Flow) -> list[FlowTimes]:
    """What becomes of flows: source, destination, bytes."""
    return run_flows(made, [each if isinstance(each, Flow) else Flow(*each) for each in flows])


def clos(leaves: int, spines: int, npus: int, rate: str = "100Gbps", delay: str = "0.001ms") -> str:
    """The topology file of a leaf-spine fabric with a number of NPUs at each leaf."""
    count = leaves * npus
    links = [(npu, count + npu // npus) for npu in range(count)]
    links += [(count + leaf, count + leaves + spine) for leaf in range(leaves) for spine in range(spines)]
    return topology(count, leaves + spines, links, rate, delay)


def topology(npus: int, switches: int, links: Sequence[tuple[int, int]], rate: str = "100Gbps", delay: str = "0.001ms") -> str:
    """A topology file; switches are numbered after the NPUs."""
    ids = " ".join(str(npus + switch) for switch in range(switches))
    lines = "".join(f"{one} {other} {rate} {delay} 0\n" for one, other in links)
    return f"{npus + switches} {switches} {len(links)}\n{ids}\n{lines}"
