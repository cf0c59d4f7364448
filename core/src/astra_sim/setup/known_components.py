"""Which distribution of astra brings which component: what to install where one is missing.

File formats are not here: they are found by content, not by name.
"""

from __future__ import annotations

from collections.abc import Callable

_KNOWN: dict[str, dict[str, str]] = {
    "astra-sim-chakra": {
        "workload": "chakra",
        "collective": "chakra, one_chakra",
        "command": "convert, trace check, trace link, trace repair, trace scale, trace stats",
    },
    "astra-sim-collectives": {
        "collective": "direct, double_binary_tree, halving_doubling, in_network, msccl, one_direct, one_halving_doubling, one_ring, ring",
    },
    "astra-sim-compat": {
        "command": "compat install",
    },
    "astra-sim-compute-gpu": {
        "compute": "gpu",
        "command": "calibrate attention, calibrate gemm, device",
    },
    "astra-sim-compute-recorded": {
        "compute": "recorded",
    },
    "astra-sim-compute-roofline": {
        "compute": "roofline",
    },
    "astra-sim-compute-systolic": {
        "compute": "systolic",
        "command": "generate, systolic",
    },
    "astra-sim-devkit": {
        "command": "plugins check, plugins new",
    },
    "astra-sim-engine": {
        "engine": "compiled",
    },
    "astra-sim-flows": {
        "command": "collective, flows",
    },
    "astra-sim-llm": {
        "workload": "llm",
        "command": "memory",
    },
    "astra-sim-memory": {
        "memory": "local, remote",
    },
    "astra-sim-network-analytical": {
        "platform": "fully_connected, ring, switch",
        "network": "analytical",
        "command": "calibrate collective",
    },
    "astra-sim-network-flow": {
        "network": "flow",
    },
    "astra-sim-network-ns3": {
        "network": "ns3",
    },
    "astra-sim-network-packet": {
        "network": "packet",
        "command": "traffic",
    },
    "astra-sim-network-roce": {
        "platform": "ns3_topology",
        "network": "roce",
    },
    "astra-sim-platforms": {
        "platform": (
            "clos, dgx_1, dgx_2, dgx_a100, dgx_b200, dgx_h100, dgx_h200, dragonfly, dragonfly_plus, fat_tree, gb200_nvl72, "
            "gb300_nvl72, graph, hgx_b200, htsim_topology, hyperx, infragraph, mesh, nccl_topology, nv_switch, rail_optimized, "
            "slim_fly, torus, torus3d, tpu_v4, tpu_v5p"
        ),
    },
    "astra-sim-report": {
        "report": "timeline",
        "command": "plot, report, timeline",
    },
    "astra-sim-reports-astra1": {
        "report": "astra1",
    },
    "astra-sim-sweep": {
        "command": "assert, search, sweep",
    },
    "astra-sim-synthesis": {
        "collective": "synthesized",
        "command": "synthesize",
    },
    "astra-sim-systems": {
        "system": "astra1, astra2",
        "scheduler": ("ascending, fifo, less_remaining_phase_first, offline_greedy, offline_greedy_flex, rg, round_robin, smallest_first"),
    },
    "astra-sim-training-loops": {
        "workload": "collective, layers",
        "training_loop": (
            "data, data_reorder, distributed_inference, hybrid_customized, hybrid_data_model, hybrid_dlrm, hybrid_dlrm_enhanced, "
            "hybrid_model_data, hybrid_transformer, hybrid_transformer_fwd_in_bckwd, micro, model"
        ),
    },
}
"""The components of each distribution by kind."""

BUILT_IN = frozenset(_KNOWN)
"""The distributions whose components go before those of others that have the same name."""

_BUILT_ONLY = {
    "astra-sim-network-ns3": "it comes with astra-sim-network-ns3 (GPL-2.0-only), built where the wheel ns3 is installed:"
    " pip install --no-deps ns3==3.44.post0, then install that package (docs/ns3.md)"
}
"""How to get what pip alone does not install whole, which may be there without its component."""


def install_hint(kind: str, name: str, is_installed: Callable[[str], bool]) -> str | None:
    """What to install for a component of ours, in words; None where its distribution is installed, or none of ours has it."""
    distribution = next((distribution for distribution, kinds in _KNOWN.items() if name in kinds.get(kind, "").split(", ")), None)
    if distribution in _BUILT_ONLY:
        return _BUILT_ONLY[distribution]
    if distribution is None or is_installed(distribution):
        return None
    return f"it comes with {distribution}, which is not installed: pip install {distribution}"


def remedy(distribution: str) -> str:
    """How to get a distribution of ours that is not installed, in words."""
    return _BUILT_ONLY.get(distribution, f"pip install {distribution}")


def known_components() -> set[tuple[str, str, str]]:
    """Distribution, kind and name of each component."""
    return {
        (distribution, kind, name) for distribution, kinds in _KNOWN.items() for kind, names in kinds.items() for name in names.split(", ")
    }
