"""The programs of ASTRA-sim 2.x with its analytical networks: their options, and their output for each NPU."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import astra_sim
from astra_sim.files import FileSet, read_text

from astra_sim_compat.arguments import Arguments, check_scale, existing_file
from astra_sim_compat.logs import NO_FILE, Log, log_in
from astra_sim_compat.operators import Operator, Wanted, issues, operators_of, roofline
from astra_sim_compat.tensors import memory_of

_RINGS = tuple(f"{kind}-implementation" for kind in ("all-reduce", "reduce-scatter", "all-gather", "all-to-all"))
"""Keys of the system file, in the order in which their rings are listed."""

_UNITS = (
    ("CPU time", "cpu_ns"),
    ("GPU time", "accelerator_ns"),
    ("Comm time", "communication_ns"),
    ("Remote mem time", "memory_ns"),
)


def congestion_unaware(name: str, argv: Sequence[str]) -> None:
    """AstraSim_Analytical_Congestion_Unaware: messages never wait for each other."""
    _main(name, argv, "unaware")


def congestion_aware(name: str, argv: Sequence[str]) -> None:
    """AstraSim_Analytical_Congestion_Aware: messages wait for links."""
    _main(name, argv, "aware")


def options(name: str, network: str) -> Arguments:
    """The options of all programs of 2.x; `network` simulates messages."""
    known = Arguments(name, f"ASTRA-sim 2.x, {network}, as astra simulates it.")
    known.text("workload-configuration", "prefix of the Chakra traces: PREFIX.0.et, PREFIX.1.et, ...")
    known.text("system-configuration", "system layer (JSON)")
    known.text("network-configuration", "network (its file depends on the program)")
    known.text("remote-memory-configuration", "remote memory (JSON)")
    known.text("comm-group-configuration", "communicator groups (JSON)", NO_FILE)
    known.text("logging-configuration", "levels and more files of the log (TOML)", NO_FILE)
    known.text("logging-folder", "folder of log.log and err.log (log)", "log")
    known.number("num-queues-per-dim", "queues of each dimension", 1)
    known.number("compute-scale", "has no effect", 1.0)
    known.number("comm-scale", "has no effect", 1.0)
    known.number("injection-scale", "factor on the endpoint delay", 1.0)
    known.switch("rendezvous-protocol", "a message waits for a request of its receiver (false)")
    return known


def experiment(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert options of 2.x to arguments of `simulate`, except the network."""
    for scale in ("compute_scale", "comm_scale"):
        check_scale(scale.replace("_", "-"), values[scale])
    # Any path of communicator groups that has the word in it represents no file, there as here.
    groups = values["comm_group_configuration"]
    return {
        "workload": _traces(values["workload_configuration"]),
        "system": file_of(values, "system-configuration"),
        "memory": file_of(values, "remote-memory-configuration"),
        "groups": None if NO_FILE in groups else file_of(values, "comm-group-configuration"),
        "queues_per_dim": values["num_queues_per_dim"],
        "injection_scale": values["injection_scale"],
        "rendezvous": values["rendezvous_protocol"],
        "npu_times": True,
    }


def _main(name: str, argv: Sequence[str], congestion: str) -> None:
    values = options(name, f"analytical network, congestion {congestion}").known(argv)
    with log_in(values["logging_folder"], values["logging_configuration"]) as log:
        simulate(
            log, experiment(values) | {"network": file_of(values, "network-configuration"), "set": [f"network.congestion={congestion}"]}
        )


def simulate(log: Log, arguments: Mapping[str, Any]) -> astra_sim.Result:
    """Run an experiment, and log its results, as ASTRA-sim does when each NPU has finished."""
    with log.without(_HAVE_EFFECT):
        result = astra_sim.simulate(**arguments)
    table = json.loads(read_text(arguments["system"]))
    for ring in _rings(table, [dimension.size for dimension in result.dimensions]):
        log.say("system::topology::RingTopology", ring)
    wanted = Wanted.of(table)
    operators = operators_of(result) if wanted.anything else {}
    lines = [line for npu, of_npu in operators.items() for line in issues(npu, of_npu)] if wanted.issues else []
    lines.sort(key=lambda line: line[:2])
    noted = 0
    for npu, times in _by_finish(result):
        while noted < len(lines) and lines[noted][0] <= times.finish_ns:
            log.note("workload", lines[noted][2])
            noted += 1
        for part, text in [*_report(npu, times), *_of_operators(npu, operators.get(npu, ()), wanted)]:
            log.say(part, text)
    log.say("system", "Exiting", logging.WARNING)
    return result


_HAVE_EFFECT = ("trace-enabled has no effect", "track-local-mem has no effect")
"""Warnings about keys of a system file that are ignored by astra, and keys that are ignored only by 2.x."""


def _of_operators(npu: int, operators: Sequence[Operator], wanted: Wanted) -> Iterator[tuple[str, str]]:
    """Log messages about the nodes of an NPU: the component, and the text. Writes the course of its memory. Raises AstraError."""
    if wanted.roofline:
        yield from (("statistics", line) for line in roofline(npu, operators, wanted))
    if wanted.memory:
        memory = memory_of(npu, operators)
        with FileSet() as files:
            files.write(f"{wanted.memory_file}.{npu}.json", [memory.text()])
        yield "workload", memory.peak_line()


def _rings(table: Mapping[str, Any], sizes: Sequence[int]) -> Iterator[str]:
    """Log messages about the rings of NPU 0: one for each algorithm of a dimension, or one for all dimensions."""
    for key in _RINGS:
        offset = 1
        for name, size in zip(table.get(key, ()), sizes, strict=False):
            total = math.prod(sizes) if name.startswith("one") else size
            if name != "doubleBinaryTree":
                yield (
                    f"ring of node 0, id: 0 dimension: local total nodes in ring: {total} index in ring: 0 offset: {offset}"
                    f" total nodes in ring: {total}"
                )
            if name.startswith("one"):
                break
            offset *= size


def file_of(values: Mapping[str, Any], name: str) -> str:
    """The file that an option names. Raises InputError."""
    return existing_file(name, values[name.replace("-", "_")])


def _traces(prefix: str) -> str:
    """The prefix of traces. Raises InputError if there is none for rank 0."""
    existing_file("workload-configuration", f"{prefix}.0.et" if prefix else "")
    return prefix


def _by_finish(result: Any) -> Iterator[tuple[int, Any]]:
    """NPUs with the times of their units, those first that finish first."""
    results = [(times.finish_ns, npu, times) for times in result.unit_times() for npu in times.npus]
    for _, npu, times in sorted(results, key=lambda each: each[:2]):
        yield npu, times


def _report(npu: int, times: Any) -> Iterator[tuple[str, str]]:
    """Log messages about an NPU: the component, and the text."""
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
