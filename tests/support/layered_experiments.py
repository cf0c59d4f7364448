"""Random experiments of layers on regular platforms, as Hypothesis draws them: each can be simulated by one NPU for all."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from support.random_experiments import divides

COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


@st.composite
def dimensions(draw: st.DrawFn) -> dict[str, Any]:
    size = draw(st.integers(1, 6))
    topology = draw(st.sampled_from(("ring", "fully_connected", "switch")))
    links = {"ring": draw(st.integers(2, 4)), "switch": draw(st.integers(1, 3))}.get(topology, max(1, size - 1) * draw(st.integers(1, 2)))
    return {
        "topology": topology,
        "size": size,
        "links": links,
        "link_bandwidth_gib_per_s": draw(st.sampled_from((0.5, 3, 6.25, 25, 62))),
        "link_latency_ns": draw(st.sampled_from((0, 1, 30, 500, 500.5))),
    }


@st.composite
def algorithms(draw: st.DrawFn, sizes: list[int], collective: str, in_parts: bool = False) -> Any:
    """Of each dimension, or, where the loop does not use a part of the platform, one over all of it."""
    chosen = []
    for size in sizes:
        names = ["ring", "direct", "direct?window=1", "direct?window=2"]
        if size & (size - 1) == 0:
            names += ["halving_doubling"] if collective != "all_to_all" else []
            names += ["double_binary_tree"] if collective == "all_reduce" else []
        chosen.append(draw(st.sampled_from(names)))
    return chosen if in_parts else draw(st.sampled_from((chosen, chosen, "one_ring", "one_direct?window=3")))


@st.composite
def layers(draw: st.DrawFn) -> list[dict[str, Any]]:
    result = []
    for number in range(draw(st.integers(1, 4))):
        layer: dict[str, Any] = {"name": f"layer{number}", "update_ns": draw(st.integers(0, 40))}
        for training_pass in ("forward", "input_gradient", "weight_gradient"):
            entry: dict[str, Any] = {"compute_ns": draw(st.sampled_from((0, 1, 10, 100, 5000)))}
            if draw(st.booleans()):
                entry["collective"] = draw(st.sampled_from(COLLECTIVES))
                entry["collective_bytes"] = draw(st.integers(64, 2_000_000))
            layer[training_pass] = entry
        result.append(layer)
    return result


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    platform = draw(st.lists(dimensions(), min_size=1, max_size=3).filter(lambda ds: math.prod(d["size"] for d in ds) <= 40))
    sizes = [dimension["size"] for dimension in platform]
    loop = draw(st.sampled_from(("data", "model", "hybrid_data_model", "hybrid_model_data", "hybrid_transformer", "hybrid_dlrm", "micro")))
    result = draw(layers())
    options: dict[str, Any] = {}
    if loop == "hybrid_transformer":
        count = math.prod(sizes)
        options["model_parallel_npus"] = draw(st.sampled_from([g for g in range(1, count + 1) if divides(g, sizes)]))
    if loop == "hybrid_dlrm":
        options["last_bottom_layer"] = draw(st.integers(0, len(result) - 1))
    system: dict[str, Any] = {name: draw(algorithms(sizes, name, loop.startswith("hybrid"))) for name in COLLECTIVES}
    if options.get("model_parallel_npus", 1) > 1:
        system = dict.fromkeys(COLLECTIVES, "ring")  # a split dimension may have a size the others cannot serve
    system |= {
        "splits": draw(st.integers(1, 5)),
        "active_chunks_per_dimension": draw(st.integers(1, 3)),
        "endpoint_delay_ns": draw(st.sampled_from((0, 1, 10, 100))),
        "scheduling_policy": draw(st.sampled_from(("lifo", "fifo"))),
        "collective_optimization": draw(st.sampled_from(("baseline", "local_bw_aware"))),
        "inter_dimension_scheduling": draw(st.sampled_from(("ascending", "round_robin", "offline_greedy", "offline_greedy_flex"))),
        "intra_dimension_scheduling": draw(st.sampled_from(("fifo", "rg", "smallest_first", "less_remaining_phase_first"))),
    }
    if draw(st.sampled_from((False, False, False, True))):
        system |= {
            "shared_bus": True,
            "bus_latency_ns": draw(st.integers(0, 20)),
            "bus_overhead_ns": draw(st.integers(0, 10)),
            "bus_gap_ns": draw(st.integers(0, 20)),
            "bus_gap_per_byte_ns": draw(st.sampled_from((0.0, 0.001, 0.0038, 0.1))),
        }
    return {
        "workload": {"loop": loop, "loop_options": options, "layers": result},
        "platform": {"dimensions": platform},
        "network": {"plugin": "analytical", "rounding": draw(st.sampled_from(("nanosecond", "picosecond")))},
        "memory": {"plugin": "local", "bandwidth_bytes_per_ns": draw(st.sampled_from((100.0, 500_000.0)))},
        "system": system,
        "passes": draw(st.integers(1, 2)),
        "queues_per_dim": draw(st.integers(1, 3)),
        "rendezvous": draw(st.booleans()),
    }
