"""The command `astra timeline`: the timeline of a run that is over, from the experiment in its result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import click
from astra_sim.commands import Progress, Screen, json_option, quiet_option, say_json
from astra_sim.errors import InputError, warn
from astra_sim.experiments import experiment_of
from astra_sim.files import FileSet
from astra_sim.results import read_results

_SAME = 1e-9
"""By which share of it a time may differ and be the same: the file has it in digits."""


@click.command()
@click.argument("run", metavar="RUN", type=click.Path())
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False),
    help="The timeline: for Perfetto; *.json: as Chrome does; *.gz: gzipped.",
)
@click.option("--run", "name", metavar="NAME", help="Which run of a result that has several.")
@click.option("--messages", is_flag=True, help="Every message of collectives, too: simulates every NPU, and makes large files.")
@click.option("--path/--no-path", default=True, help="Mark the critical path, which takes more memory and time.  [default: path]")
@json_option
@quiet_option
def timeline(run: str, output: str, name: str | None, messages: bool, path: bool, as_json: bool, quiet: bool) -> None:
    """Write a timeline of a run that is over, for Perfetto or Chrome.

    RUN is a result.json, or a folder that `--output` has written. Its experiment is simulated again, with the packages installed now; if it
    takes another time than it took, that is a warning.
    """
    import astra_sim

    from astra_sim_report.timeline import write_file

    file, runs = read_results(run)
    chosen = _chosen(file, runs, name)
    experiment = experiment_of(dict(chosen), file)
    with Progress(enabled=not quiet) as progress:
        result = astra_sim.simulate(
            experiment,
            run_name=str(chosen.get("run_name", "run")),
            symmetry=False if messages else None,
            timelines=("messages" if messages else "path") if path or messages else True,
            progress=progress,
        )
        before = chosen.get("finish_ns")
        if isinstance(before, (int, float)) and not math.isclose(before, result.finish_ns, rel_tol=_SAME):
            warn(f"{run}: the run took {before:,.3f} ns, and takes {result.finish_ns:,.3f} ns now; {_changes(chosen, result.versions)}")
        progress.stage("writing the timeline", simulates=False)
        with FileSet() as files:
            write_file(result, output, files)
    if as_json:
        say_json({"files": files.names, "finish_ns": result.finish_ns, "npus": [timeline.npu for timeline in result.timelines()]})
    elif not quiet:
        Screen().text(f"timeline in {output}")


def _chosen(file: str, runs: Sequence[Mapping[str, Any]], name: str | None) -> Mapping[str, Any]:
    """The run of a result that is meant. Raises InputError if there is none of that name, or several and no name."""
    known = ", ".join(repr(run.get("run_name")) for run in runs[:10]) + (", ..." if len(runs) > 10 else "")
    if name is None:
        if len(runs) == 1:
            return runs[0]
        raise InputError(f"{file} holds {len(runs)} runs ({known}); expected --run NAME, which names one of them")
    for run in runs:
        if run.get("run_name") == name:
            return run
    raise InputError(f"--run is {name!r}, which is no run of {file}; expected {known}")


def _changes(run: Mapping[str, Any], versions: Mapping[str, Any]) -> str:
    """Describe the packages that are installed in another version now."""
    before = run.get("versions")
    if not isinstance(before, Mapping):
        return "the result does not record the versions it was made with"

    def flat(table: Mapping[str, Any]) -> dict[str, Any]:
        plugins = table.get("plugins")
        return {key: table.get(key) for key in ("astra", "engine")} | dict(plugins if isinstance(plugins, Mapping) else {})

    old, new = flat(before), flat(versions)
    differ = [f"{key} was {old.get(key)}, is {new.get(key)}" for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    return "; ".join(differ) if differ else "the versions are the same: a file of the experiment, or the source of a plugin, has changed"
