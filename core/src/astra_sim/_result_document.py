"""The schema of a result.json: the keys that commands read, with types and ranges; the workload's own figures are beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs

from astra_sim.errors import InputError
from astra_sim.options import MAX_FIGURE, structure
from astra_sim.options import option as figure


@attrs.frozen
class _Pass:
    compute_ns: float = figure(minimum=0, help="computing")
    total_comm_ns: float = figure(minimum=0, help="collectives from issue to end")
    exposed_comm_ns: float = figure(minimum=0, help="waiting for them")


@attrs.frozen
class _Layer:
    name: str = figure(help="its name")
    forward: _Pass = figure(help="forward pass")
    input_gradient: _Pass = figure(help="backward pass, gradients of inputs")
    weight_gradient: _Pass = figure(help="the same, of weights")
    queueing_delay_ns: tuple[float, ...] = figure(minimum=0, help="one more than phases")
    network_delay_ns: tuple[float, ...] = figure(minimum=0, help="of each phase")

    def __attrs_post_init__(self) -> None:
        if len(self.queueing_delay_ns) <= len(self.network_delay_ns) and self.network_delay_ns:
            counts = len(self.queueing_delay_ns), len(self.network_delay_ns)
            raise ValueError("queueing_delay_ns has {} values and network_delay_ns {}; expected one more".format(*counts))


@attrs.frozen
class _Dimension:
    topology: str = figure(help="name")
    size: int = figure(minimum=1, help="NPUs")
    utilisation: float = figure(minimum=0, help="share of the run")
    average_chunk_latency_ns: float | None = figure(help="mean latency")
    bytes: float = figure(minimum=0, help="bytes that NPU 0 sends")


@attrs.frozen
class _LinksOfDimension:
    utilisation: float = figure(0.0, minimum=0, help="share of the run")
    links: int = figure(0, minimum=0, help="links")


@attrs.frozen
class _Network:
    plugin: str = figure("-", help="name")
    payload_bytes: float = figure(0, minimum=0, help="of NPU 0")
    cost_usd: float | None = figure(None, help="cost")
    dimensions: tuple[_LinksOfDimension, ...] = figure((), help="figures of dimensions")


@attrs.frozen
class _Finding:
    message: str = figure("", help="description")


@attrs.frozen
class _ResultPart:
    ns: float = figure(help="time")
    kind: str | None = figure(None, help="compute, communication, memory")
    layer: str | None = figure(None, help="whose")
    collective: str | None = figure(None, help="which")
    group: str | None = figure(None, help="of whom")
    dimension: int | None = figure(None, help="where")


@attrs.frozen
class _Sensitivity:
    percent: float = figure(help="change of the run for a change of one percent")
    parameter: str | None = figure(None, help="the varied parameter")
    dimension: int | None = figure(None, help="where")
    layer: str | None = figure(None, help="of which layer")
    method: str | None = figure(None, help="how it was found")


@attrs.frozen
class _Bound:
    ns: float = figure(help="time")
    kind: str | None = figure(None, help="what the bound is of")
    dimension: int | None = figure(None, help="where")


@attrs.frozen
class _Explanation:
    path: tuple[_ResultPart, ...] = figure((), help="critical path")
    sensitivities: tuple[_Sensitivity, ...] = figure((), help="effects of changes")
    bounds: tuple[_Bound, ...] = figure((), help="lower bounds")


@attrs.frozen
class _Input:
    option: str = figure(help="which option names it")
    path: str = figure(help="its path")
    files: int | None = figure(None, minimum=0, help="how many")
    bytes: int | None = figure(None, minimum=0, help="their size")


@attrs.frozen
class _Versions:
    astra: str | None = figure(None, help="version of the kernel")
    python: str | None = figure(None, help="version of Python")
    engine: str | None = figure(None, help="which engine ran")
    plugins: dict[str, Any] = figure(factory=dict, help="versions of distributions")
    sources: dict[str, Any] = figure(factory=dict, help="digests of distributions")


@attrs.frozen
class _Run:
    """The figures of a run as a whole."""

    run_name: str = figure(help="its name")
    finish_ns: float = figure(minimum=0, help="when all NPUs had finished")
    earliest_finish_ns: float = figure(0.0, minimum=0, help="when the first had")
    compute_ns: float = figure(0.0, minimum=0, help="computing of NPU 0")
    exposed_comm_ns: float = figure(0.0, minimum=0, help="time in which it does not compute")
    npus: int = figure(1, minimum=1, help="NPUs")
    simulated_npus: int = figure(1, minimum=1, help="of them simulated")
    every_npu_reason: str = figure("", help="why no NPU represents others")
    messages: int = figure(0, minimum=0, help="of all NPUs")
    events: int = figure(0, minimum=0, help="events")
    wall_s: float = figure(0.0, minimum=0, help="wall time of the run")


@attrs.frozen
class _Tables:
    """The figures of its parts."""

    network: _Network = figure(factory=_Network, help="figures of the network")
    layers: tuple[_Layer, ...] = figure((), help="figures of layers")
    dimensions: tuple[_Dimension, ...] = figure((), help="figures of dimensions")
    audit: tuple[_Finding, ...] = figure((), help="findings")
    explanation: _Explanation | None = figure(None, help="causes of the time")
    breakdown: dict[str, Any] = figure(factory=dict, help="where the time of an iteration goes (s)")
    operations: tuple[dict[str, Any], ...] = figure((), help="operations of all NPUs")
    npu_times: tuple[dict[str, Any], ...] = figure((), help="times of all NPUs")
    groups: tuple[dict[str, Any], ...] = figure((), help="groups of NPUs")
    links: tuple[dict[str, Any], ...] = figure((), help="links of the network")


@attrs.frozen
class _Origin:
    """Its inputs and how it was simulated, without figures."""

    inputs: tuple[_Input, ...] = figure((), help="files")
    versions: _Versions = figure(factory=_Versions, help="versions of the software")
    experiment: dict[str, Any] = figure(factory=dict, help="the experiment")
    invocation: dict[str, Any] = figure(factory=dict, help="how")
    units: dict[str, Any] = figure(factory=dict, help="units of figures")


def check_document(run: Mapping[str, Any], where: str) -> None:
    """Raise InputError, naming the key, if a run of a result.json does not match the schema of commands."""
    for part in (_Run, _Tables, _Origin):
        structure(part, run, where, others=True)
    for key, value in run.items():
        _check_numbers(value, f"{where}: {key:.80}", math.inf if key in _ORIGIN else MAX_FIGURE)
    units = run.get("units", {})
    for key, value in run.items():
        if key in units and not isinstance(value, int | float | None):
            raise InputError(f"{where}: {key} is {value!r:.80}; expected a number")
    for key, value in run.get("breakdown", {}).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{where}: breakdown: {key} is {value!r:.80}; expected a number")


_ORIGIN = {field.name for field in attrs.fields(_Origin)}


def _check_numbers(value: Any, where: str, largest: float) -> None:
    """Raise InputError if a number anywhere in figures is none, or too large for a table."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            _check_numbers(each, f"{where}: {key:.80}", largest)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            _check_numbers(each, f"{where} {place}", largest)
    elif isinstance(value, int | float) and not abs(value) < largest:
        raise InputError(f"{where} is {value!r:.40}; expected a finite number below {largest:g}")
