"""Chakra's own tools, `chakra_converter`, `chakra_trace_link` and `chakra_jsonizer`: their options; commands of astra do the work."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

from astra_sim.errors import warn

from astra_sim_compat.arguments import Arguments, UsageError, existing_file
from astra_sim_compat.commands import run_command

_TRACE_OF_RANK = re.compile(r"(?P<prefix>.*)\.(?P<rank>\d+)\.et")


def converter(name: str, argv: Sequence[str]) -> None:
    """chakra_converter: a text workload of ASTRA-sim 1.0, or a linked trace of PyTorch, to Chakra traces."""
    known = Arguments(name, "Chakra's converter, by `astra convert`.")
    known.add_argument("--log-filename", metavar="TEXT", help="has no effect: there is no log")
    known.add_argument("kind", choices=tuple(_CONVERTERS), help="the source format; `KIND --help` lists its options")
    known.add_argument("options", nargs=argparse.REMAINDER, help="its options")
    values = known.all(argv)
    _tell_without_effect(values, "log-filename", "there is no log")
    _CONVERTERS[values["kind"]](f"{name} {values['kind']}", values["options"])


def _from_text(name: str, argv: Sequence[str]) -> None:
    """Convert a text workload, with the options of Chakra's own converter."""
    known = Arguments(name, "A text workload of ASTRA-sim 1.0 to Chakra traces, by `astra convert`.")
    known.text("input", "text workload of ASTRA-sim 1.0")
    known.text("output", "prefix of the traces: PREFIX.0.et, PREFIX.1.et, ...")
    known.add_argument("--num-npus", metavar="N", type=int, required=True, help="NPUs, and traces")
    known.add_argument("--num-passes", metavar="N", type=int, required=True, help="training iterations")
    values = known.all(argv)
    for option in ("num_npus", "num_passes"):
        if values[option] < 1:
            raise UsageError(f"--{option.replace('_', '-')} is {values[option]}; expected a number from 1 on")
    source = existing_file("input", values["input"])
    options = ("--from", "text", "--mlcommons", str(values["num_npus"]), "--passes", str(values["num_passes"]))
    run_command(name, "convert", source, f"{values['output']}.et", *options, "--quiet")
    warn(
        "times of the text, nanoseconds, are microseconds in the traces, as Chakra's converter writes them; astra trace repair divides them"
    )


def _from_pytorch(name: str, argv: Sequence[str]) -> None:
    known = Arguments(name, "A linked trace of PyTorch to a Chakra trace, by `astra convert`.")
    known.text("input", "linked trace, as chakra_trace_link writes it (JSON)")
    known.text("output", "the trace, PREFIX.RANK.et, or PREFIX")
    known.add_argument("--simulate", action="store_true", help="has no effect: the error of a replay is always printed")
    values = known.all(argv)
    source, named = existing_file("input", values["input"]), _TRACE_OF_RANK.fullmatch(values["output"])
    rank = ("--rank", named["rank"]) if named else ()
    _tell_without_effect(values, "simulate", "the error of a replay is always printed")
    run_command(name, "convert", source, f"{named['prefix'] if named else values['output']}.et", "--from", "pytorch", *rank)


_CONVERTERS = {"PyTorch": _from_pytorch, "Text": _from_text}


def trace_link(name: str, argv: Sequence[str]) -> None:
    """chakra_trace_link: an execution trace of PyTorch and a trace of Kineto as one."""
    known = Arguments(name, "Chakra's linker of traces, by `astra trace link`.")
    known.add_argument("--rank", metavar="N", type=int, help="rank of the traces (from Kineto)")
    known.text("chakra-host-trace", "execution trace of PyTorch (JSON)")
    known.text("chakra-device-trace", "trace of Kineto (JSON)")
    known.text("output-file", "the linked trace (JSON)")
    known.add_argument("--log-level", metavar="TEXT", help="has no effect: there is no log")
    values = known.all(argv)
    _tell_without_effect(values, "log-level", "there is no log")
    files = [existing_file(option, values[option.replace("-", "_")]) for option in ("chakra-host-trace", "chakra-device-trace")]
    rank = [] if values["rank"] is None else ["--rank", str(values["rank"])]
    run_command(name, "trace link", *files, "--output", values["output_file"], *rank)


def jsonizer(name: str, argv: Sequence[str]) -> None:
    """chakra_jsonizer: a Chakra trace as JSON."""
    known = Arguments(name, "Chakra's converter to JSON, by `astra convert`.")
    known.text("input_filename", "Chakra trace")
    known.text("output_filename", "the same as JSON")
    values = known.all(argv)
    source = existing_file("input_filename", values["input_filename"])
    run_command(name, "convert", source, values["output_filename"], "--from", "chakra", "--to", "json", "--quiet")


def _tell_without_effect(values: Mapping[str, Any], option: str, why: str) -> None:
    """Warn of an option that was given, and has no effect."""
    if values[option.replace("-", "_")]:
        warn(f"--{option} has no effect: {why}")
