"""Single messages on Garnet: the cycle in which each arrives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from astra_sim import DeadlockError
from astra_sim.options import structure
from astra_sim.platform import Platform
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins
from support.references import FULL, cases_or_skip

network_module = pytest.importorskip("astra_sim_network_packet.network")

# Contended cases on links narrower than a flit in which credits come in another order: eight in which a router serves several rings, which
# are simulated apart, and three on links of one cycle (docs/packet.md). There are 84 such cases, and 136 on links as wide as a flit.
OTHER_ORDER = {
    f"random_{name}--fixed"
    for name in (
        "a2a8-0082", "a2a8-0086", "a2a8-0118", "ring8-0002", "ring8-0018", "ring8-0059",
        "torus12-0010", "torus12-0044", "torus12-0052", "torus12-0053", "torus12-0057",
    )
}  # fmt: skip


def replay(case: dict[str, Any], folder: Path) -> tuple[dict[int, int], bool]:
    """When each message arrives (cycles), and whether the network deadlocks."""
    file = folder / "network.txt"
    file.write_text(case["network_txt"])
    network = open_network(str(file))
    network.inject(0, [])
    for number, message in sorted(enumerate(case["messages"]), key=lambda entry: entry[1]["at"]):
        network.inject(message["at"] * 1000, [(number, message["src"], message["dst"], message["bytes"], message["vnet"])])
    arrived: dict[int, int] = {}
    try:
        while (delivery := network.advance(None)) is not None:
            arrived |= dict.fromkeys(delivery[1], delivery[0] // 1000)
    except DeadlockError as error:
        network.check()
        return arrived, bool(error.waiting)
    network.check()
    return arrived, False


def open_network(path: str) -> Any:
    """The network of a Garnet file."""
    from astra_sim_network_packet.options import PacketOptions
    from astra_sim_network_packet.traffic import read_platform

    experiment = Experiment()
    experiment.use("network", path, shared_plugins())
    table = {key: value for key, value in experiment.sections["network"].items() if key != "plugin"}
    platform: Platform = read_platform(path)
    return network_module.PacketNetwork(structure(PacketOptions, table, path), platform)


def is_target(case: dict[str, Any]) -> bool:
    """Whether a case is free of the defects that the reference documents: `fixed` where there are both."""
    return bool(case["program"] == "fixed" or case["family"] == "single_packet_a2a")


def test_arrivals_are_equal(tmp_path: Path) -> None:
    targets = [case for case in cases_or_skip("garnet-micro.jsonl") if is_target(case)]
    for case in targets if FULL else targets[::3]:
        arrived, deadlocked = replay(case, tmp_path)
        assert deadlocked == (case["exit"] == "max tick"), case["id"]
        expected = {number: message["done"] for number, message in enumerate(case["messages"]) if message["done"] is not None}
        assert (arrived == expected) == (case["id"] not in OTHER_ORDER), case["id"]
