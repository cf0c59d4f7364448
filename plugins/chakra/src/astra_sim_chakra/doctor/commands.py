"""`astra trace check|repair|stats|scale`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence

import attrs
import click
from astra_sim import InputError
from astra_sim.commands import Column, Progress, Screen, Table, json_option, quiet_option, say_json, table_options
from astra_sim.files import FileSet

from astra_sim_chakra.doctor.checking import Checked, check
from astra_sim_chakra.doctor.figures import TraceFigures, figures
from astra_sim_chakra.doctor.findings import Severity, TraceFinding, spans
from astra_sim_chakra.doctor.repairing import Repair, repair
from astra_sim_chakra.doctor.scaling import Scaling
from astra_sim_chakra.doctor.trace_set import TraceSet, open_traces
from astra_sim_chakra.embedded import NODES, WORKLOAD
from astra_sim_chakra.ranks import load_ranks, rank_path
from astra_sim_chakra.trace import Metadata
from astra_sim_chakra.wire import delimited
from astra_sim_chakra.writer import encode_node, encode_nodes, write_encoded

_LINES = 8
"""Findings of one kind that are printed without --all."""
_SHOWN_RANKS = 16
"""Rows of a table of ranks or groups that are printed without --all."""

_trace = click.argument("trace", type=click.Path())
_groups = click.option("--groups", metavar="FILE", type=click.Path(), help="Ranks of each process group.  [default: PREFIX.groups.json]")
_platform = click.option("--platform", metavar="S", help="Platform of the traces, which defines the dimensions of involved_dim.")
_output = click.option("-o", "--output", metavar="DIR", required=True, type=click.Path(file_okay=False), help="Folder to write to.")
_every = click.option("--all", "every", is_flag=True, help="Print all findings.")


@click.command("trace check")
@_trace
@_groups
@_platform
@_every
@json_option
@quiet_option
def check_command(trace: str, groups: str | None, platform: str | None, every: bool, as_json: bool, quiet: bool) -> None:
    """List errors in the traces of all ranks, and their effects on a run; exit status 1 if a run would fail.

    \b
    astra trace check traces/gpt3
    astra trace check traces/gpt3 --json

    TRACE is the prefix of the traces of all ranks (PREFIX.0.et, PREFIX.1.et, ..., or .json), or one file, which is looked at by itself.
    """
    checked = _checked(trace, groups, platform, quiet or as_json)
    if as_json:
        say_json(_table(checked))
    elif not quiet:
        _print_findings(checked, Screen(every))
    _stop_on_errors(checked)


@click.command("trace repair")
@_trace
@_output
@click.option("--times", type=click.Choice(("ns", "us")), default="us", show_default=True, help="Unit of durations of compute.")
@_groups
@_platform
@_every
@json_option
@quiet_option
def repair_command(
    trace: str, output: str, times: str, groups: str | None, platform: str | None, every: bool, as_json: bool, quiet: bool
) -> None:
    """Repair unambiguous errors in the traces of all ranks, into another folder; exit status 1 if errors are left.

    \b
    astra trace repair traces/gpt3 --output mended
    astra trace repair traces/vgg16 --times ns --output mended

    Changes and remaining errors are listed. --times ns divides all durations of compute by 1000; if the text in a trace of
    Chakra's text converter proves that they are nanoseconds, this is done without asking.
    """
    trace_set = open_traces(trace, groups, platform)
    before = check(trace_set)
    _refuse_in_place(trace_set, output)
    repairs = {rank: repair(each, times == "ns") for rank, each in trace_set.traces.items()}
    prefix = os.path.join(output, os.path.basename(trace_set.prefix))
    unread = [rank for rank, each in before.examined.items() if any(f.kind in _LOSSY for f in each.findings)]
    with FileSet() as files:
        files.make_folder(output)
        for rank, repaired in repairs.items():
            if rank not in unread:
                metadata = trace_set.traces[rank].metadata
                write_encoded(rank_path(prefix, rank), [encode_nodes(repaired.nodes)], metadata, files=files)
        if trace_set.groups_file is not None:
            files.write(f"{prefix}.groups.json", [json.dumps({name: list(ranks) for name, ranks in trace_set.groups.items()}) + "\n"])
    after = check(_repaired(trace_set, repairs, unread))
    if as_json:
        done = {str(rank): repaired.done for rank, repaired in repairs.items() if repaired.done and rank not in unread}
        say_json({"done": done, "files": files.names, "not_written": unread, "left": _table(after)})
    elif not quiet:
        _print_repairs(repairs, unread, prefix, Screen(every))
        _print_findings(after, Screen(every))
    _stop_on_errors(after)


_LOSSY = ("unreadable", "damaged_node", "bad_value")
"""Findings of parts of a file that could not be read: such a file is not written again, because that would lose them."""


@click.command("trace stats")
@_trace
@_groups
@_platform
@table_options
@json_option
@quiet_option
def stats_command(trace: str, groups: str | None, platform: str | None, every: bool, units: str | None, as_json: bool, quiet: bool) -> None:
    """Print the content of the traces of all ranks by kind, process group and rank, and lower bounds of a run.

    \b
    astra trace stats traces/gpt3

    The longest chain of compute through all ranks takes communication for nothing: no network makes a run shorter than it.
    """
    checked = _checked(trace, groups, platform, quiet or as_json)
    unread = [finding for finding in checked.findings if finding.kind in _LOSSY]
    if unread:
        raise InputError(f"{trace}: {spans(unread[0].ranks)}: {unread[0].text} (astra trace check lists all errors)")
    result = figures(checked)
    if as_json:
        say_json(result.table())
    elif not quiet:
        _print_figures(result, Screen(every, units))


@click.command("trace scale")
@_trace
@click.option("--npus", type=click.IntRange(1), required=True, help="How many ranks to make.")
@_output
@click.option("--copies", is_flag=True, help="Copies of all ranks side by side, where ranks are not alike.")
@click.option("--grow", metavar="GROUP", multiple=True, help="With --copies: a process group that joins the copies. Repeatable.")
@click.option("--keep-shards", is_flag=True, help="All-gathers that grow keep the bytes of each rank, not those of the whole.")
@_groups
@click.option("--gzip", "compress", is_flag=True, help="Compress the traces that are written.")
@json_option
@quiet_option
def scale_command(
    trace: str,
    npus: int,
    output: str,
    copies: bool,
    grow: tuple[str, ...],
    keep_shards: bool,
    groups: str | None,
    compress: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Make the traces of more ranks, if ranks are alike.

    \b
    astra trace scale traces/ddp --npus 64 --output scaled
    astra trace scale traces/pipeline --npus 64 --copies --grow 3 --output scaled

    Each rank does as much as before. Collectives of all ranks grow, and so do process groups that reach over all at a distance (0, 4 of 8);
    those of neighbours (0-3 of 8) stay as they are, and there are more of them. All-reduce, reduce-scatter and all-to-all keep their
    bytes, which are those of a rank's whole buffer; an all-gather that grows has the same whole, so each rank brings less.
    """
    trace_set = open_traces(trace, groups)
    if trace_set.single:
        raise InputError(f"{trace} is one rank of several; expected the prefix of all, such as {trace_set.prefix}")
    traces = load_ranks(trace_set.prefix, keep=True)
    scaling = Scaling(traces, npus, trace_set.groups, copies=copies, grow=grow, keep_shards=keep_shards)
    prefix = os.path.join(output, os.path.basename(trace_set.prefix))
    _refuse_in_place(trace_set, output)
    with Progress(enabled=not quiet and not as_json) as progress, FileSet() as files:
        progress.stage("writing traces", simulates=False)
        files.make_folder(output)
        for rank in range(npus):
            metadata = _without_workload(traces.programs[traces.program_of[rank % traces.ranks]].metadata)
            encoded = map(delimited, map(encode_node, scaling.nodes(rank)))
            write_encoded(rank_path(prefix, rank), encoded, metadata, compress=compress, files=files)
        if scaling.result.groups:
            files.write(f"{prefix}.groups.json", [json.dumps(scaling.result.groups) + "\n"])
    notes = [f"{npus} ranks of {traces.ranks}: {rank_path(prefix, 0)} to {rank_path(prefix, npus - 1)}", *scaling.result.notes]
    if scaling.result.groups:
        notes.append(f"{len(scaling.result.groups)} process groups: {prefix}.groups.json")
    if as_json:
        about = {"ranks": npus, "from": traces.ranks, "prefix": prefix, "groups": scaling.result.groups, "notes": notes}
        say_json({**about, "files": files.names})
    elif not quiet:
        for note in notes:
            Screen().text(note)


# -- Shared by several commands ----------------------------------------------------------------------------------------


def _checked(trace: str, groups: str | None, platform: str | None, quiet: bool) -> Checked:
    with Progress(enabled=not quiet) as progress:
        progress.stage("reading traces", simulates=False)
        return check(open_traces(trace, groups, platform))


def _table(checked: Checked) -> dict[str, object]:
    about = {"trace": checked.trace_set.name, "ranks": checked.trace_set.ranks, "nodes": checked.nodes, "counts": checked.counts}
    return {**about, "findings": [finding.table() for finding in checked.findings]}


def _stop_on_errors(checked: Checked) -> None:
    if checked.counts[Severity.ERROR]:
        sys.exit(1)


def _refuse_in_place(trace_set: TraceSet, output: str) -> None:
    folder = os.path.realpath(os.path.dirname(trace_set.prefix) or ".")
    if os.path.realpath(output) == folder:
        raise InputError(f"--output {output} is the folder of the traces; expected another one, for they are not changed in place")


def _repaired(trace_set: TraceSet, repairs: dict[int, Repair], unread: Sequence[int]) -> TraceSet:
    traces = {
        rank: each if rank in unread else attrs.evolve(each, nodes=repairs[rank].nodes, findings=(), refused="")
        for rank, each in trace_set.traces.items()
    }
    return attrs.evolve(trace_set, traces=traces)


def _without_workload(metadata: Metadata) -> Metadata:
    """The metadata without the workload that astra convert keeps there: the nodes are no longer those of that workload."""
    return attrs.evolve(metadata, attributes=tuple(each for each in metadata.attributes if each.name not in (WORKLOAD, NODES)))


# -- Output ------------------------------------------------------------------------------------------------------------


def _print_findings(checked: Checked, screen: Screen) -> None:
    """Print findings by kind, each with its effect."""
    by_kind: dict[str, list[TraceFinding]] = {}
    for finding in checked.findings:
        by_kind.setdefault(finding.kind, []).append(finding)
    for kind, findings in by_kind.items():
        screen.text(f"{findings[0].severity}: {kind}. {findings[0].breaks}", further="  ", prose=True)
        for finding in findings if screen.every else findings[:_LINES]:
            where = f"{spans(finding.ranks)}: " if finding.ranks else ""
            screen.text(f"{where}{finding.text}", indent="  ", further="    ", prose=True)
        if len(findings) > _LINES and not screen.every:
            screen.text(f"and {len(findings) - _LINES} more (--all)", indent="  ")
        screen.text("")
    ranks = f"{len(checked.examined)} rank{'s' if len(checked.examined) > 1 else ''}"
    counts = ", ".join(_counted(count, severity) for severity, count in checked.counts.items())
    alone = " (one file: nothing was compared between ranks)" if checked.trace_set.single else ""
    screen.text(f"{ranks}, {checked.nodes} nodes: {counts}{alone}", prose=True)


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def _print_repairs(repairs: dict[int, Repair], unread: Sequence[int], prefix: str, screen: Screen) -> None:
    """Print the repairs, with their ranks, and files that were not written."""
    by_what: dict[str, dict[int, int]] = {}
    for rank, repaired in repairs.items():
        for what, count in repaired.done.items() if rank not in unread else ():
            by_what.setdefault(what, {})[rank] = count
    for what, counts in by_what.items():
        screen.text(f"done: {sum(counts.values())} times on {spans(tuple(counts))}: {what}", further="  ", prose=True)
    if not by_what:
        screen.text("done: nothing; there are no errors, or no unambiguous repairs", further="  ", prose=True)
    if unread:
        screen.text(f"not written: {spans(unread)}, of which something could not be read and would be lost", further="  ", prose=True)
    written = [rank for rank in repairs if rank not in unread]
    if written:
        screen.text(f"written: {rank_path(prefix, written[0])} to {rank_path(prefix, written[-1])}", further="  ", prose=True)
    screen.text("")


def _print_figures(stats: TraceFigures, screen: Screen) -> None:
    """Print tables of operations, groups and ranks."""
    time = screen.time_unit(max((kind.duration_ns for kind in stats.kinds), default=0))
    of_kinds = (Column("operations", "word"), Column("nodes"), Column("bytes"), Column(f"recorded time\n({time.name})"))
    sizes = (Column("least\nbytes", rank=1), Column("median\nbytes", rank=1), Column("most\nbytes", rank=1))
    rows = []
    for kind in stats.kinds:
        size = kind.table()["size"]
        spread = [str(size[key]) for key in ("least", "median", "most")] if size else ["", "", ""]
        rows.append([kind.kind, str(kind.nodes), "" if kind.bytes is None else str(kind.bytes), time.number(kind.duration_ns), *spread])
    screen.table(Table((*of_kinds, *sizes), rows, "Operations of all ranks"))
    if stats.groups:
        rows = [[each.group, spans(each.ranks), str(each.collectives), str(each.bytes)] for each in stats.groups]
        of_groups = (Column("group", "name"), Column("ranks", "text"), Column("collectives"), Column("bytes\nof a rank"))
        screen.text("")
        screen.table(Table(of_groups, _few(rows, screen), "Collectives by group", _note(rows, screen)))
    of_ranks = (
        Column("rank"),
        Column("nodes"),
        Column(f"compute\n({time.name})"),
        Column(f"on the CPU\n({time.name})", rank=1),
        Column("bytes of\ncollectives"),
        Column("bytes\nsent", rank=1),
        Column("bytes\nreceived", rank=1),
        Column(f"longest chain\n({time.name})"),
    )
    rows = [
        [
            str(rank.rank),
            str(rank.nodes),
            time.number(rank.compute_ns),
            time.number(rank.cpu_ns),
            *map(str, (rank.collective_bytes, rank.sent_bytes, rank.received_bytes)),
            time.number(rank.chain_ns),
        ]
        for rank in stats.ranks
    ]
    screen.text("")
    screen.table(Table(of_ranks, _few(rows, screen), "Ranks", _note(rows, screen)))
    screen.text("")
    if stats.chain_ns is None:
        screen.text("There is no longest chain: ranks wait for each other in a circle (astra trace check).", prose=True)
        return
    text = f"A run takes at least {time(stats.chain_ns)}, the longest chain of compute through all ranks ({len(stats.chain)} nodes)."
    screen.text(f"{text} {_of_busiest(stats, time)}", prose=True)


def _of_busiest(stats: TraceFigures, time: Callable[[float], str]) -> str:
    """The longest compute time of a unit of any rank, as a bound of a run."""
    busiest = f"The busiest unit of a rank computes for {time(stats.busiest_ns)}"
    if stats.chain_ns is None or stats.busiest_ns <= stats.chain_ns:
        return f"{busiest}."
    if stats.keeps_order:
        return f"{busiest}, several nodes at a time, as it was recorded."
    return f"{busiest}: a run takes that long if it computes one node at a time (system plugin:astra2 with one_at_a_time)."


def _few(rows: list[list[str]], screen: Screen) -> list[list[str]]:
    return rows if screen.every else rows[:_SHOWN_RANKS]


def _note(rows: list[list[str]], screen: Screen) -> str:
    return f"and {len(rows) - _SHOWN_RANKS} more (--all)" if len(rows) > _SHOWN_RANKS and not screen.every else ""
