"""The programs of ASTRA-sim 2.x with its analytical networks: their options, and what they print of each NPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import astra_sim
from astra_sim.errors import warn

from astra_sim_compat.arguments import Arguments, check_scale, existing_file
from astra_sim_compat.logs import Log, log_in

_NO_FILE = "empty"
"""What stands for no file, there as here."""

_UNITS = (
    ("CPU time", "cpu_ns"),
    ("GPU time", "accelerator_ns"),
    ("Comm time", "communication_ns"),
    ("Remote mem time", "memory_ns"),
)


def congestion_unaware(name: str, given: Sequence[str]) -> None:
    """AstraSim_Analytical_Congestion_Unaware: messages never wait for each other."""
    _main(name, given, "unaware")


def congestion_aware(name: str, given: Sequence[str]) -> None:
    """AstraSim_Analytical_Congestion_Aware: messages wait for links."""
    _main(name, given, "aware")


def options(name: str, network: str) -> Arguments:
    """The options of all programs of 2.x; `network` is what simulates messages."""
    known = Arguments(name, f"ASTRA-sim 2.x, {network}, as astra simulates it.")
    known.text("workload-configuration", "prefix of the Chakra traces: PREFIX.0.et, PREFIX.1.et, ...")
    known.text("system-configuration", "system layer (JSON)")
    known.text("network-configuration", "network (its file depends on the program)")
    known.text("remote-memory-configuration", "remote memory (JSON)")
    known.text("comm-group-configuration", "communicator groups (JSON)", _NO_FILE)
    known.text("logging-configuration", "more logs (TOML); has no effect", _NO_FILE)
    known.text("logging-folder", "folder of log.log and err.log (log)", "log")
    known.number("num-queues-per-dim", "queues of each dimension", 1)
    known.number("compute-scale", "has no effect", 1.0)
    known.number("comm-scale", "has no effect", 1.0)
    known.number("injection-scale", "factor on the endpoint delay", 1.0)
    known.switch("rendezvous-protocol", "a message waits for a request of its receiver (false)")
    return known


def experiment(values: Mapping[str, Any]) -> dict[str, Any]:
    """What options of 2.x say, as arguments of `simulate`, but for the network."""
    for scale in ("compute_scale", "comm_scale"):
        check_scale(scale.replace("_", "-"), values[scale])
    if values["logging_configuration"] != _NO_FILE:
        warn(f"--logging-configuration is {values['logging_configuration']}, and has no effect: log.log and err.log have all there is")
    groups = values["comm_group_configuration"]
    return {
        "workload": _traces(values["workload_configuration"]),
        "system": file_of(values, "system-configuration"),
        "memory": file_of(values, "remote-memory-configuration"),
        "groups": None if groups == _NO_FILE else file_of(values, "comm-group-configuration"),
        "queues_per_dim": values["num_queues_per_dim"],
        "injection_scale": values["injection_scale"],
        "rendezvous": values["rendezvous_protocol"],
        "npu_times": True,
    }


def _main(name: str, given: Sequence[str], congestion: str) -> None:
    values = options(name, f"analytical network, congestion {congestion}").known(given)
    with log_in(values["logging_folder"]) as log:
        simulate(
            log, experiment(values) | {"network": file_of(values, "network-configuration"), "set": [f"network.congestion={congestion}"]}
        )


def simulate(log: Log, arguments: Mapping[str, Any]) -> astra_sim.Result:
    """Run an experiment, and say what came of it in a log, as ASTRA-sim does when each NPU has finished."""
    shown = warnings.showwarning

    def show(message: Warning | str, *rest: Any, **more: Any) -> None:
        log.keep_warning("astra", str(message))
        shown(message, *rest, **more)

    warnings.showwarning = show
    try:
        result = astra_sim.simulate(**arguments)
    finally:
        warnings.showwarning = shown
    for npu, times in _by_finish(result):
        for part, text in _report(npu, times):
            log.say(part, text)
    return result


def file_of(values: Mapping[str, Any], name: str) -> str:
    """The file that an option names. Raises InputError."""
    return existing_file(name, values[name.replace("-", "_")])


def _traces(prefix: str) -> str:
    """The prefix of traces. Raises InputError where there is none for rank 0."""
    existing_file("workload-configuration", f"{prefix}.0.et" if prefix else "")
    return prefix


def _by_finish(result: Any) -> Iterator[tuple[int, Any]]:
    """NPUs with the times of their units, those first that finish first."""
    found = [(times.finish_ns, npu, times) for times in result.unit_times() for npu in times.npus]
    for _, npu, times in sorted(found, key=lambda each: each[:2]):
        yield npu, times


def _report(npu: int, times: Any) -> Iterator[tuple[str, str]]:
    """What is said of an NPU: which part says it, and the text."""
    finish, accelerator = int(times.finish_ns), int(times.accelerator_ns or 0)
    yield "workload", f"sys[{npu}] finished, {finish} cycles, exposed communication {finish - accelerator} cycles."
    yield "statistics", f"sys[{npu}]. Post statistics processing start."
    yield "statistics", f"sys[{npu}]. Post statistics processing end."
    yield "statistics", f"sys[{npu}], Wall time: {finish}"
    for words, field in _UNITS:
        if (busy := getattr(times, field)) is not None:
            yield "statistics", f"sys[{npu}], {words}: {int(busy)}"
    if accelerator and times.communication_ns:
        overlap = accelerator + int(times.communication_ns) - finish
        if overlap > 0:
            yield "statistics", f"sys[{npu}], Total compute-communication overlap: {overlap}"
