"""`astra convert`: between the text of ASTRA-sim 1.0, TOML, Chakra and JSON; from FlexFlow and PyTorch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any

import attrs
import click
import tomli
from astra_sim import InputError
from astra_sim.commands import (
    Experiment,
    Progress,
    Screen,
    build,
    candidates,
    json_option,
    load_experiment,
    quiet_option,
    say_json,
    shared_plugins,
)
from astra_sim.experiments import read_groups
from astra_sim.files import FileSet, parse_toml, read_text
from astra_sim.options import Typed
from astra_sim.toml_text import to_toml

from astra_sim_chakra.embedded import embedded_workload, workload_metadata
from astra_sim_chakra.flexflow import NS, read_flexflow
from astra_sim_chakra.graph_nodes import graph_nodes
from astra_sim_chakra.mlcommons_text import MlcommonsText
from astra_sim_chakra.pytorch.commands import replay_lines
from astra_sim_chakra.pytorch.converting import convert as convert_linked
from astra_sim_chakra.pytorch.host import host_of
from astra_sim_chakra.pytorch.json_files import read_json
from astra_sim_chakra.pytorch.kineto import kineto_of, read_kineto
from astra_sim_chakra.pytorch.linking import link, link_alone
from astra_sim_chakra.pytorch.replay import replay
from astra_sim_chakra.ranks import extension_of, find_ranks, load_ranks, rank_path
from astra_sim_chakra.text_workload import to_text
from astra_sim_chakra.trace import ONE_AT_A_TIME, Metadata
from astra_sim_chakra.trace_files import load_trace
from astra_sim_chakra.trace_json import from_json, is_trace, parse_document, to_json
from astra_sim_chakra.wire import Attribute
from astra_sim_chakra.writer import DEFAULT_METADATA, encode_nodes, trace_of, write_encoded, write_trace

SOURCES = ("text", "toml", "json", "chakra", "flexflow", "pytorch")
TARGETS = ("text", "toml", "json", "chakra")
_EXTENSIONS = {".txt": "text", ".toml": "toml", ".json": "json", ".et": "chakra", ".dot": "flexflow", ".graph": "flexflow"}
_TRACE = ".et"


@attrs.frozen
class TraceRequest:
    """A conversion: source and target with their formats, and the options (None: not set)."""

    source: str
    source_format: str
    target: str
    target_format: str
    compress: bool
    run: dict[str, Any]
    assignments: tuple[str, ...]
    time_unit: str | None
    kineto: str | None
    rank: int | None
    mlcommons: int | None


@click.command(short_help="Convert workloads and traces: text of ASTRA-sim 1.0, TOML, Chakra, JSON.")
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path(), required=False, metavar="TARGET")
@click.option("--from", "source_format", type=click.Choice(SOURCES), help="Format of SOURCE; else by its extension.")
@click.option("--to", "target_format", type=click.Choice(TARGETS), help="Format of TARGET; else by its extension.")
@click.option("--gzip", "compress", is_flag=True, help="Compress the traces that are written.")
@click.option(
    "--platform",
    metavar="S",
    help="Platform of the workload: plugin:NAME[?key=value&...] or a file.",
    shell_complete=candidates("component", "platform"),
)
@click.option(
    "--system", metavar="S", help="System layer; its clock rounds compute times down.", shell_complete=candidates("component", "system")
)
@click.option("--compute", metavar="S", help="Compute model, which gives compute times.", shell_complete=candidates("component", "compute"))
@click.option("--passes", type=int, help="Training iterations to unroll.")
@click.option("--compute-scale", type=float, help="Factor on every compute time.")
@click.option("--comm-scale", type=float, help="Factor on the size of every collective.")
@click.option(
    "--set",
    "assignments",
    metavar="SECTION.KEY=VALUE",
    multiple=True,
    help="Change one option. Repeatable.",
    shell_complete=candidates("assignment"),
)
@click.option(
    "--time-unit", type=click.Choice(tuple(NS)), help="Unit of the times in a FlexFlow graph; s, as MLCommons' converter reads them."
)
@click.option("--kineto", metavar="FILE", type=click.Path(), help="Kineto file that belongs to the PyTorch execution trace SOURCE.")
@click.option("--rank", type=click.IntRange(0), help="Rank of a PyTorch trace.  [default: from Kineto, else 0]")
@click.option(
    "--mlcommons",
    metavar="N",
    type=click.IntRange(1),
    help="From text: traces of N ranks as MLCommons' text converter makes them, instead of those that ASTRA-sim 1.0 would run.",
)
@json_option
@quiet_option
def convert(
    source: str,
    target: str | None,
    source_format: str | None,
    target_format: str | None,
    compress: bool,
    assignments: tuple[str, ...],
    time_unit: str | None,
    kineto: str | None,
    rank: int | None,
    mlcommons: int | None,
    as_json: bool,
    quiet: bool,
    **run: Any,
) -> None:
    """Convert SOURCE to TARGET.

    \b
    astra convert vgg16.txt vgg16.toml
    astra convert vgg16.toml traces/vgg16.et --platform pod.toml --passes 2
    astra convert traces/vgg16.et vgg16.toml
    astra convert traces/vgg16.0.et vgg16.json
    astra convert taskgraph.dot traces/mlp.et
    astra convert linked.json traces/bert.et --from pytorch
    astra convert et.json traces/bert.et --from pytorch --kineto kineto.json --rank 3
    astra convert kineto.json traces/bert.et --from pytorch

    The traces of all ranks are named by their prefix: traces/vgg16.et means traces/vgg16.0.et, traces/vgg16.1.et, ..., unless a
    file of that very name exists. SOURCE may also be an experiment, whose workload is converted.
    """
    chosen = source_format or _format_of_source(source)
    if target is None:
        raise InputError(f"{source}: TARGET is missing; expected a name with an extension that names the format ({_extensions(chosen)})")
    to = target_format or _format_of_target(target, chosen)
    settings = {name: value for name, value in run.items() if value is not None}
    request = TraceRequest(source, chosen, target, to, compress, settings, assignments, time_unit, kineto, rank, mlcommons)
    _check(request)
    with Progress(enabled=not quiet) as progress:
        progress.stage("converting", simulates=False)
        with FileSet() as files:
            lines = _CONVERTERS[chosen](request, files)
    if as_json:
        say_json({"files": files.names, "source_format": chosen, "target_format": to, "notes": list(lines)})
        return
    for line in lines if not quiet else ():
        click.echo(line, err=True)


# -- Formats -----------------------------------------------------------------------------------------------------------


def _format_of_source(source: str) -> str:
    extension = os.path.splitext(source)[1].lower()
    if extension in _EXTENSIONS:
        return _EXTENSIONS[extension]
    if not os.path.exists(source) and find_ranks(source, extension_of(source)):
        return "chakra"
    if not os.path.exists(source):
        raise InputError(f"{source}: there is no such file, and no {rank_path(source, 0)}")
    return "text"


def _format_of_target(target: str, source_format: str) -> str:
    extension = os.path.splitext(target)[1].lower()
    if _EXTENSIONS.get(extension) not in TARGETS:
        names = "|".join(_targets_of(source_format))
        known = _extensions(source_format)
        raise InputError(f"{target}: the format is not clear from the name; expected an extension ({known}) or --to {names}")
    return _EXTENSIONS[extension]


def _targets_of(source_format: str) -> tuple[str, ...]:
    """The target formats of a source format."""
    return ("chakra",) if source_format in ("flexflow", "pytorch") else TARGETS


def _extensions(source_format: str) -> str:
    return ", ".join(extension for extension, name in _EXTENSIONS.items() if name in _targets_of(source_format))


def _check(request: TraceRequest) -> None:
    """Raise InputError for an option that has no effect on this conversion."""
    to_chakra = request.target_format == "chakra"
    as_mlcommons = request.mlcommons is not None and to_chakra and request.source_format == "text"
    unrolled = to_chakra and request.source_format in ("text", "toml", "json") and not as_mlcommons
    uses = {
        "--gzip": (request.compress, to_chakra),
        "--set": (request.assignments, unrolled),
        "--time-unit": (request.time_unit, request.source_format == "flexflow"),
        "--kineto": (request.kineto, request.source_format == "pytorch"),
        "--rank": (request.rank is not None, request.source_format == "pytorch"),
        "--mlcommons": (request.mlcommons is not None, as_mlcommons),
        **{f"--{name.replace('_', '-')}": (True, unrolled or (as_mlcommons and name == "passes")) for name in request.run},
    }
    for name, (is_set, used) in uses.items():
        if is_set and not used:
            rule = " with --mlcommons" if as_mlcommons else ""
            raise InputError(f"{name} has no meaning for a conversion from {request.source_format} to {request.target_format}{rule}")


def _prefix(target: str) -> str:
    """The prefix of the traces of all ranks."""
    return target.removesuffix(_TRACE)


# -- Workloads ---------------------------------------------------------------------------------------------------------


def _from_text(request: TraceRequest, files: FileSet) -> Iterable[str]:
    if request.mlcommons is not None:
        return _as_mlcommons(request, request.mlcommons, files)
    experiment = Experiment()
    experiment.use("workload", request.source, shared_plugins())
    return _workload(experiment, request, files)


def _as_mlcommons(request: TraceRequest, npus: int, files: FileSet) -> Iterable[str]:
    """Write the traces that MLCommons' text converter makes of a text."""
    passes = request.run.get("passes", 1)
    if passes < 1:
        raise InputError(f"--passes is {passes}; expected at least 1")
    text, prefix = MlcommonsText(read_text(request.source), request.source), _prefix(request.target)
    count = 0
    for rank, nodes in enumerate(text.ranks(npus, passes)):
        count = len(nodes)
        write_encoded(rank_path(prefix, rank), [encode_nodes(nodes)], text.metadata, compress=request.compress, files=files)
    return [
        f"{count} nodes for each of {npus} ranks: {rank_path(prefix, 0)} to {rank_path(prefix, npus - 1)}",
        "times of the text, nanoseconds, are written as microseconds, as MLCommons' converter does; astra trace repair divides them",
    ]


def _from_toml(request: TraceRequest, files: FileSet) -> Iterable[str]:
    table = parse_toml(read_text(request.source), request.source)
    if "workload" in table:
        experiment = load_experiment(request.source)
    else:
        experiment = Experiment(sections={"workload": table}, origin={"workload": request.source})
    return _workload(experiment, request, files)


def _from_json(request: TraceRequest, files: FileSet) -> Iterable[str]:
    """Write the trace or the workload in a JSON file; returns notes on dropped parts. Raises InputError."""
    document = parse_document(read_text(request.source), request.source)
    if is_trace(document):
        trace = from_json(document, request.source)
        if request.target_format in ("text", "toml"):
            raise _impossible(request, "a trace")
        if request.target_format == "json":
            _write_text(files, request.target, to_json(trace))
        else:
            write_trace(request.target, trace, compress=request.compress, files=files)
        return []
    table = document.get("workload") if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise InputError(f"{request.source}: neither a trace (nodes) nor a workload (workload)")
    return _workload(Experiment(sections={"workload": table}, origin={"workload": request.source}), request, files)


def _workload(experiment: Experiment, request: TraceRequest, files: FileSet) -> Iterable[str]:
    """Write a workload in any format. Returns lines for standard error: dropped parts, and the files that were written."""
    for kind in ("platform", "system", "compute"):
        if kind in request.run:
            experiment.use(kind, request.run[kind], shared_plugins())
    experiment.run |= {name: request.run[name] for name in ("passes", "compute_scale", "comm_scale") if name in request.run}
    for assignment in request.assignments:
        experiment.set(assignment)
    table = _plain(experiment.sections.get("workload", {}))
    if request.target_format == "chakra":
        return _unrolled(experiment, table, request, files)
    return _write_workload(table, request, files)


def _write_workload(table: dict[str, Any], request: TraceRequest, files: FileSet) -> Iterable[str]:
    """Write a workload as text of ASTRA-sim 1.0, TOML or JSON; returns notes on dropped parts. Raises InputError."""
    notes: list[str] = []
    if request.target_format == "text":
        text, notes = to_text(table, request.source)
    elif request.target_format == "toml":
        text = to_toml(table)
    else:
        try:
            text = json.dumps({"workload": table}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        except (TypeError, ValueError) as error:
            raise InputError(f"{request.source}: the workload cannot be written as JSON: {error}") from None
    _write_text(files, request.target, [text])
    return [f"left out: {note}" for note in notes]


def _unrolled(experiment: Experiment, table: dict[str, Any], request: TraceRequest, files: FileSet) -> Iterable[str]:
    """Write the execution graph of a workload, a trace for each rank."""
    components = build(experiment, shared_plugins())
    programs, groups = graph_nodes(components.graph, components.platform)
    prefix, ranks = _prefix(request.target), components.platform.npus
    for nodes in programs:
        encoded = encode_nodes(nodes.nodes)
        for rank in nodes.npus:
            if not nodes.are_alike:
                encoded = encode_nodes(nodes.nodes_of(rank))
            try:
                metadata = workload_metadata(table, encoded)
            except (TypeError, ValueError) as error:
                raise InputError(f"{request.source}: the workload cannot be kept in a trace: {error}") from None
            write_encoded(rank_path(prefix, rank), [encoded], metadata, compress=request.compress, files=files)
    count = " or ".join(map(str, dict.fromkeys(len(nodes.nodes) for nodes in programs)))
    lines = [f"{count} nodes for each of {ranks} ranks: {rank_path(prefix, 0)} to {rank_path(prefix, ranks - 1)}"]
    if groups:
        _write_text(files, f"{prefix}.groups.json", [json.dumps(groups) + "\n"])
        lines.append(f"{len(groups)} process groups, since collectives run over parts of dimensions: {prefix}.groups.json")
    return lines


# -- Traces ------------------------------------------------------------------------------------------------------------


def _from_chakra(request: TraceRequest, files: FileSet) -> Iterable[str]:
    """A file of that very name is one trace, otherwise the name is the prefix of all ranks."""
    single = os.path.exists(request.source)
    prefix = _prefix(request.source)
    if request.target_format in ("text", "toml"):
        path = request.source if single else rank_path(prefix, 0)
        if not single and extension_of(prefix) != _TRACE:
            raise _impossible(request, "a trace in JSON")
        return _write_workload(embedded_workload(path), request, files)
    if single:
        return _write_trace(request.source, request.target, request, files)
    traces = load_ranks(prefix)
    stem, extension = os.path.splitext(request.target)
    for rank in range(traces.ranks):
        target = f"{stem}.{rank}{extension}" if request.target_format == "json" else rank_path(_prefix(request.target), rank)
        _write_trace(traces.path(rank), target, request, files)
    return [f"{traces.ranks} ranks"]


def _write_trace(source: str, target: str, request: TraceRequest, files: FileSet) -> Iterable[str]:
    trace = load_trace(source, keep=True)
    if os.path.exists(target) and os.path.samefile(source, target):
        raise InputError(f"{target}: the target is the source; expected another file")
    if request.target_format == "json":
        _write_text(files, target, to_json(trace))
    else:
        write_trace(target, trace, compress=request.compress, files=files)
    return []


def _from_flexflow(request: TraceRequest, files: FileSet) -> Iterable[str]:
    ranks = read_flexflow(request.source, request.time_unit or "s")
    if request.target_format != "chakra":
        raise _impossible(request, "a task graph")
    prefix = _prefix(request.target)
    for rank, nodes in enumerate(ranks):
        trace = trace_of(nodes, name=f"{request.source}: device {rank}")
        write_trace(rank_path(prefix, rank), trace, compress=request.compress, files=files)
    return [f"{len(ranks)} ranks: {rank_path(prefix, 0)} to {rank_path(prefix, len(ranks) - 1)}"]


def _from_pytorch(request: TraceRequest, files: FileSet) -> Iterable[str]:
    """Write the trace of a rank from files of PyTorch, which are linked first if two are given; notes, in lines. Raises InputError."""
    if request.target_format != "chakra":
        raise _impossible(request, "a trace of PyTorch")
    table = read_json(request.source)
    if request.kineto is not None:
        table = link(host_of(table, request.source), read_kineto(request.kineto), request.rank).table
    elif "traceEvents" in table:
        table = link_alone(kineto_of(table, request.source), request.rank).table
    host = host_of(table, request.source)
    converted = convert_linked(host)
    rank = request.rank if request.rank is not None else converted.rank
    prefix = _prefix(request.target)
    target = rank_path(prefix, rank)
    metadata = Metadata(DEFAULT_METADATA.version, (Attribute(ONE_AT_A_TIME, "bool_val", False),))
    trace = trace_of(converted.nodes, metadata, name=target)
    write_trace(target, trace, compress=request.compress, files=files)
    lines = [f"{len(trace)} nodes: {target}", *replay_lines(replay(converted), Screen())]
    if converted.left_out:
        lines.append(f"left out: {converted.left_out} nodes of the execution trace that have no time")
    if converted.incomplete:
        lines.append(
            f"{converted.incomplete} kernels have communication that PyTorch did not record in full (astra trace check names them)"
        )
    if converted.groups:
        _write_text(files, f"{prefix}.groups.json", [json.dumps(_merged_groups(prefix, converted.groups)) + "\n"])
        lines.append(f"{len(converted.groups)} process groups: {prefix}.groups.json")
    return lines


def _merged_groups(prefix: str, groups: dict[str, list[int]]) -> dict[str, Any]:
    """Process groups with those that already exist, from other ranks. Raises InputError if a name means other ranks there."""
    path = f"{prefix}.groups.json"
    before = read_groups(path, is_input=False) if os.path.exists(path) else {}
    for name, ranks in groups.items():
        if name in before and before[name] != ranks:
            raise InputError(f"{path}: process group {name!r} is {before[name]}, and {ranks} in this trace; expected traces of one run")
    return before | groups


# -- Helpers -----------------------------------------------------------------------------------------------------------


def _impossible(request: TraceRequest, what: str) -> InputError:
    return InputError(f"{request.source}: {what} cannot be expressed as layers and a training loop; expected chakra (--to chakra)")


def _plain(value: Any) -> Any:
    """A table of options in which values typed on the command line have become TOML values, or else text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Typed):
        try:
            return tomli.loads(f"value = {value}")["value"]
        except ValueError:
            return str(value)
    return value


def _write_text(files: FileSet, path: str, pieces: Iterable[str]) -> None:
    with files.open(path) as file:
        file.writelines(pieces)


_CONVERTERS = {
    "text": _from_text,
    "toml": _from_toml,
    "json": _from_json,
    "chakra": _from_chakra,
    "flexflow": _from_flexflow,
    "pytorch": _from_pytorch,
}
