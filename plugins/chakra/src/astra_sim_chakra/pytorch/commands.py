"""`astra trace link`: an execution trace of PyTorch and a trace of Kineto as one."""

from __future__ import annotations

import json

import attrs
import click
from astra_sim.commands import Progress, Screen, json_option, quiet_option, say_json, table_options
from astra_sim.files import FileSet

from astra_sim_chakra.pytorch.converting import convert
from astra_sim_chakra.pytorch.host import host_of, read_host
from astra_sim_chakra.pytorch.kineto import read_kineto
from astra_sim_chakra.pytorch.linking import LINKED, TraceCounts, link, link_alone
from astra_sim_chakra.pytorch.replay import Replay, replay


@click.command("trace link")
@click.argument("host", metavar="ET.json", type=click.Path())
@click.argument("kineto", metavar="KINETO.json", type=click.Path(), required=False)
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), help="The linked trace.  [default: ET.linked.json]")
@click.option("--rank", type=click.IntRange(0), help="Rank of the traces.  [default: from Kineto, else 0]")
@click.option("--step", metavar="N", type=click.IntRange(0), help="Only ProfilerStep#N, and its kernels.  [default: all]")
@click.option("--force", is_flag=True, help="Link traces of different processes, ranks or steps, or with little in common.")
@table_options
@json_option
@quiet_option
def link_command(
    host: str,
    kineto: str | None,
    output: str | None,
    rank: int | None,
    step: int | None,
    force: bool,
    every: bool,
    units: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Join an execution trace of PyTorch and the trace of Kineto that was recorded beside it; both may be gzipped.

    \b
    astra trace link et.json kineto.json -o linked.json
    astra trace link kineto.json -o linked.json
    astra convert linked.json traces/bert.et --from pytorch

    A trace of Kineto alone is enough if its kernels record their communication (PyTorch 2.4 and later).

    Operators of the host get the times at which they ran, and kernels the operators that launched them. Matches are reported, and the
    error of a replay of the linked trace against the measured run.
    """
    target = output if output is not None else f"{host.removesuffix('.gz').removesuffix('.json')}.linked.json"
    with Progress(enabled=not quiet and not as_json) as progress:
        progress.stage("linking", simulates=False)
        measured = read_kineto(host if kineto is None else kineto)
        measured = measured if step is None else measured.of_step(step)
        if kineto is None:
            linked = link_alone(measured, rank, force)
        else:
            operators = read_host(host)
            linked = link(operators if step is None else operators.of_step(step), measured, rank, force)
        replayed = replay(convert(host_of(linked.table, host)))
        with FileSet() as files:
            files.write(target, _pieces(linked.table))
    if as_json:
        about = {"rank": linked.table[LINKED]["rank"], "matched": attrs.asdict(linked.counts), "replay": replayed.table()}
        say_json({"files": files.names, **about})
    elif not quiet:
        screen = Screen(every, units)
        for line in [*_matched(linked.counts), *replay_lines(replayed, screen), f"written: {target} (rank {linked.table[LINKED]['rank']})"]:
            screen.text(line, further="  ", prose=True)


def replay_lines(replayed: Replay, screen: Screen) -> list[str]:
    """The error of a replay in words."""
    time = screen.time_unit(replayed.measured_ns)
    small = screen.time_unit(replayed.most_off_ns)
    known = replayed.known_ns / replayed.measured_ns - 1 if replayed.measured_ns else 0.0
    off = f"nodes begin {small(replayed.mean_off_ns)} off on average, {small(replayed.most_off_ns)} at most"
    whole = f"measured {time(replayed.measured_ns)}, replayed {time(replayed.replayed_ns)} ({replayed.error:+.2%})"
    unseen = "without the time that no event accounts for (Python between operators, latency of launches)"
    parts = (replayed.host_ns, replayed.kernel_ns, replayed.communication_ns)
    host, kernels, communication = (screen.time_unit(part)(part) for part in parts)
    return [
        f"{whole}; {off}",
        f"{unseen}: {time(replayed.known_ns)} ({known:+.2%})",
        f"in operators and calls of the host {host}, in kernels {kernels}, in communication {communication}",
    ]


def _matched(counts: TraceCounts) -> list[str]:
    """The summary of matches, in lines."""
    operators = counts.by_call + counts.by_external_id + counts.by_order
    how = _parts(
        (counts.by_call, "by the number of their call"), (counts.by_external_id, "by External id"), (counts.by_order, "by their order")
    )
    launched = _parts((counts.by_correlation, "with the call that launched them"), (counts.with_operator, "with their operator"))
    waits = _parts((counts.stream_waits, "recorded"), (counts.stream_waits_by_time, "by calls and times"))
    text = f"{counts.stream_waits + counts.stream_waits_by_time} waits of streams for others{waits}"
    return [
        f"{operators} operators matched{how}; {counts.only_host} only in the execution trace, {counts.only_kineto} only in Kineto's",
        f"{counts.kernels} kernels and copies on the GPU{launched}",
        f"{counts.communications} of them communicate{_parts((counts.incomplete, 'without size or peer'))}",
        f"{text}, {counts.host_waits} of the host for the GPU",
    ]


def _parts(*parts: tuple[int, str]) -> str:
    """Those of some counts that are not 0, in brackets."""
    text = ", ".join(f"{count} {what}" for count, what in parts if count)
    return f" ({text})" if text else ""


def _pieces(table: dict[str, object]) -> list[str]:
    """The text of a linked trace, a node a line."""
    head = {key: value for key, value in table.items() if key != "nodes"}
    nodes = table["nodes"]
    assert isinstance(nodes, list)
    lines = ",\n".join(json.dumps(node) for node in nodes)
    return [json.dumps(head)[:-1], ', "nodes": [\n', lines, "\n]}\n"]
