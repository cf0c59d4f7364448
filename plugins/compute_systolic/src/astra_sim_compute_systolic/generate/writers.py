"""Writes a generated workload: as the text workload of ASTRA-sim 1.0, or in TOML for the workload `layers`."""

from __future__ import annotations

import json

import attrs
from astra_sim import InputError
from astra_sim.shapes import Convolution, Shape

from astra_sim_compute_systolic.generate.parallelism import CUSTOMIZED
from astra_sim_compute_systolic.generate.workload import PASSES, GeneratedPass, GeneratedWorkload

UPDATE_NS = 100
"""Time to apply what a collective brings, in every layer (ASTRA-sim's generator)."""

_COLLECTIVES = {"ALLREDUCE": "all_reduce", "ALLGATHER": "all_gather", "REDUCESCATTER": "reduce_scatter"}


def to_text(workload: GeneratedWorkload) -> str:
    """The text workload, character by character as ASTRA-sim's generator writes it. Times are whole nanoseconds.

    Raises InputError where a name has spaces, which would end it.
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
    lines = [*(f"# {line}".rstrip() for line in comment.split("\n")), "", f"name = {_quoted(name)}", f'loop = "{workload.policy.lower()}"']
    lines.append(f"footprint_bytes = {footprint_bytes}")
    for layer in workload.layers:
        lines += ["", "[[layers]]", f"name = {_quoted(layer.name)}", f"update_ns = {UPDATE_NS}"]
        if workload.policy == CUSTOMIZED:
            lines.append(f'loop = "{layer.policy.lower()}"')
        lines += [f"{key} = {{ {_pass(one)} }}" for key, one in zip(PASSES, layer.passes, strict=True)]
    return "\n".join(lines) + "\n"


def _pass(one: GeneratedPass) -> str:
    parts = [f"compute_ns = {one.compute_ns!r}", _shape(one.shape)]
    if one.exchange.size:
        parts.append(f'collective = "{_COLLECTIVES[one.exchange.collective]}", collective_bytes = {one.exchange.size}')
    return ", ".join(parts)


def _shape(shape: Shape) -> str:
    sizes = {key: value for key, value in attrs.asdict(shape).items() if value is not None}
    kind = "convolution" if isinstance(shape, Convolution) else "gemm"
    return f"{kind} = {{ {', '.join(f'{key} = {value}' for key, value in sizes.items())} }}"


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are among TOML's."""
    return json.dumps(text, ensure_ascii=False)
