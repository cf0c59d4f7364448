"""Fabrics between nodes, by name: the latency of a message in NCCL's model, the efficiency of the NICs, and protocols."""

from __future__ import annotations

from collections.abc import Collection

import attrs
from astra_sim import InputError

from astra_sim_network_analytical.nccl_parameters import PROTOCOLS, BetweenNodes, Chain, NcclParameters


@attrs.frozen
class NcclFabric:
    """A network between nodes, in which NCCL uses some of its protocols."""

    latency_us: float
    nic_efficiency: float
    protocols: Collection[str]
    chain: Chain | None = None


FABRICS = {
    "infiniband": NcclFabric(2.7, 0.95, PROTOCOLS),
    "efa": NcclFabric(26.0, 0.96, ("ll", "simple", "nvls")),
    "tcpxo": NcclFabric(21.0, 0.93, ("simple",), Chain(channels=8, chunk_bytes=2 * 1024 * 1024, gb_per_s=42.0)),
}
"""InfiniBand: NCCL's own latency, and nccl-tests (NVIDIA/nccl-tests, issue 290; CoreWeave). The others are fitted (docs/collectives.md)."""


def on_fabric(parameters: NcclParameters, name: str) -> tuple[NcclParameters, float]:
    """Parameters with a fabric's values, and its latency (us): a name, or a latency alone. Raises InputError."""
    fabric = FABRICS.get(name)
    if fabric is None:
        return parameters, _number(name)
    share = attrs.evolve(parameters.between_nodes.share, **{each: 0.0 for each in PROTOCOLS if each not in fabric.protocols})
    between: BetweenNodes = attrs.evolve(parameters.between_nodes, share=share, nic_efficiency=fabric.nic_efficiency, chain=fabric.chain)
    return attrs.evolve(parameters, between_nodes=between), fabric.latency_us


def _number(text: str) -> float:
    """A latency. Raises InputError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise InputError(f"fabric_latency is {text!r}; expected {', '.join(FABRICS)}, or microseconds")
    return value
