"""Writes a generated workload: as the text workload of ASTRA-sim 1.0, or in TOML for the workload `layers`."""

from __future__ import annotations

from typing import Any

import attrs
from astra_sim import InputError, toml_text

from astra_sim_compute_systolic.generate.parallelism import CUSTOMIZED
from astra_sim_compute_systolic.generate.workload import PASSES, GeneratedPass, GeneratedWorkload

UPDATE_NS = 100
"""Time to apply the result of a collective, in every layer (ASTRA-sim's generator)."""

_COLLECTIVES = {"ALLREDUCE": "all_reduce", "ALLGATHER": "all_gather", "REDUCESCATTER": "reduce_scatter"}


def to_text(workload: GeneratedWorkload) -> str:
    """The text workload, character by character as ASTRA-sim's generator writes it. Times are whole nanoseconds.

    Raises InputError if a name has spaces, which would end it in this format.
    """
    lines = [workload.policy, str(len(workload.layers))]
    for layer in workload.layers:
        if layer.name.split() != [layer.name]:
            raise InputError(f"layer {layer.name!r}: the text workload cannot hold a name with spaces; --format toml can")
        cells = [layer.name, "-1"]
        for one in layer.passes:
            cells += [f" {round(one.compute_ns)}", one.exchange.collective, str(one.exchange.size)]
        lines.append("\t".join([*cells, str(UPDATE_NS), layer.policy]))
    return "\n".join(lines)


def to_toml(workload: GeneratedWorkload, name: str, footprint_bytes: int, comment: str) -> str:
    """A TOML workload with times and shapes, so that it runs under any compute model."""
    table = {"name": name, "loop": workload.policy.lower(), "footprint_bytes": footprint_bytes}
    layers = []
    for layer in workload.layers:
        loop = {"loop": layer.policy.lower()} if workload.policy == CUSTOMIZED else {}
        passes = {key: _pass(one) for key, one in zip(PASSES, layer.passes, strict=True)}
        layers.append({"name": layer.name, "update_ns": UPDATE_NS, **loop, **passes})
    return toml_text.to_toml({**table, "layers": layers}, comment)


def _pass(one: GeneratedPass) -> dict[str, Any]:
    sizes = attrs.asdict(one.shape, filter=lambda field, value: value != field.default)
    entry = {"compute_ns": one.compute_ns, one.shape.kind: sizes}
    if one.exchange.size:
        entry |= {"collective": _COLLECTIVES[one.exchange.collective], "collective_bytes": one.exchange.size}
    return entry
