"""The command `astra collective`: the table of nccl-tests, simulated, with measurements beside it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import attrs
import click
from astra_sim.collective_tables import MeasuredCollective, bus_factor, read_collectives
from astra_sim.commands import (
    Column,
    Components,
    Experiment,
    Progress,
    Screen,
    Table,
    build,
    component_options,
    json_option,
    quiet_option,
    run_components,
    say_json,
    shared_plugins,
)
from astra_sim.errors import InputError
from astra_sim.files import read_text
from astra_sim.graph import Communicate, ExecutionGraph, NpuProgram, Pass
from astra_sim.platform import Platform
from astra_sim.schedule import Collective
from astra_sim.units import parse_size

_MOST_SIZES = 1000
DEFAULT_SIZES = "8B..8GiB"


@attrs.frozen
class CollectiveRow:
    """A collective as nccl-tests prints it: bandwidths in 10^9 bytes/s. `error` is simulated / measured - 1."""

    bytes: int
    microseconds: float
    algbw_gb_per_s: float
    busbw_gb_per_s: float
    measured_us: float | None = None
    error: float | None = None


def parse_sizes(text: str) -> list[int]:
    """Bytes: sizes and ranges A..B, which double, with commas between. K, M and G are powers of 1024. Raises InputError."""
    sizes: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        low, high = (parse_size(end, "--sizes") for end in (first, last if dots else first))
        if low > high:
            raise InputError(f"--sizes: {part.strip()} falls; expected SMALLEST..LARGEST")
        while low <= high:
            sizes.append(low)
            low *= 2
    if len(sizes) > _MOST_SIZES:
        raise InputError(f"--sizes: {len(sizes)} sizes; at most {_MOST_SIZES} can be simulated")
    return sizes


def rows_of(
    components: Components, operation: Collective, ranks: int, sizes: Sequence[int], progress: Progress | None = None
) -> list[CollectiveRow]:
    """The rows of a collective of the first `ranks` NPUs, each simulated by itself. `progress` is reported in bytes."""
    rows, done, total = [], 0, sum(sizes)
    for size in sizes:
        if progress is not None:
            progress.stage(f"{size} bytes", done / total, size / total)
        rows.append(_row(operation, ranks, size, _microseconds(components, operation, ranks, size, progress)))
        done += size
    return rows


def with_measured(rows: Sequence[CollectiveRow], measured: Sequence[MeasuredCollective]) -> list[CollectiveRow]:
    """The rows, beside measurements of the same sizes; several of one size count as their mean."""
    result = []
    for row in rows:
        times = [each.microseconds for each in measured if each.bytes == row.bytes]
        if times:
            mean = sum(times) / len(times)
            row = attrs.evolve(row, measured_us=mean, error=row.microseconds / mean - 1)
        result.append(row)
    return result


def _row(operation: Collective, ranks: int, size: int, microseconds: float) -> CollectiveRow:
    algorithm = size / microseconds / 1e3 if microseconds else 0.0
    return CollectiveRow(size, microseconds, algorithm, algorithm * bus_factor(operation, ranks))


def _microseconds(components: Components, operation: Collective, ranks: int, size: int, progress: Progress | None) -> float:
    bytes_of_rank = -(-size // ranks) if operation is Collective.ALL_GATHER else size
    graph = graph_of(components.platform, operation, ranks, bytes_of_rank)
    result = run_components(attrs.evolve(components, graph=graph), f"{operation} of {size} bytes", time.perf_counter(), progress)
    return result.finish_ns / 1e3


def graph_of(platform: Platform, operation: Collective, ranks: int, size: int) -> ExecutionGraph:
    """One collective of the first `ranks` NPUs, of which each holds `size` bytes at the start; the others do nothing."""
    dimensions = platform.logical_dimensions()
    group = tuple(range(ranks)) if ranks < platform.npus else None
    collective = Communicate((), operation, size, tuple(range(len(dimensions))), -1, Pass.FORWARD, group=group)
    others = (NpuProgram((), tuple(range(ranks, platform.npus))),) if group is not None else ()
    return ExecutionGraph((collective,), dimensions, (), None, others)


@click.command()
@component_options(multiple=False, kinds=("platform", "network", "system"))
@click.option(
    "--op", "name", type=click.Choice([each.value for each in Collective]), default="all_reduce", show_default=True, help="Collective."
)
@click.option("--ranks", type=click.IntRange(min=2), help="The number of NPUs that take part, the first ones.  [default: all]")
@click.option("--sizes", metavar="A..B[,C...]", help=f"Sizes, which double from A to B.  [default: {DEFAULT_SIZES}, or those measured]")
@click.option("--measured", metavar="FILE", type=click.Path(), help="Output of nccl-tests, or CSV, to compare with.")
@json_option
@quiet_option
def collective(
    assignments: tuple[str, ...],
    name: str,
    ranks: int | None,
    sizes: str | None,
    measured: str | None,
    as_json: bool,
    quiet: bool,
    **components: str | None,
) -> None:
    """Simulate one collective of each size by itself, and print the table of nccl-tests.

    \b
    astra collective --platform P --network 'plugin:analytical?model=nccl&device=h100' --op all_reduce --sizes 8B..8GiB

    The size of an all-gather is the bytes of each rank at the end, that of the others those at the start.
    """
    operation, plugins, experiment = Collective(name), shared_plugins(), Experiment()
    for kind, spec in components.items():
        if spec is not None:
            experiment.use(kind, spec, plugins, where=kind)
    experiment.use("workload", ExecutionGraph((), (), ()), plugins)
    for assignment in assignments:
        experiment.set(assignment)
    built = build(experiment, plugins)
    count = built.platform.npus
    if ranks is not None and ranks > count:
        raise InputError(f"--ranks is {ranks}; the platform has {count} NPUs")
    ranks = ranks or count
    measured_collectives: list[MeasuredCollective] = []
    if measured is not None:
        rows = read_collectives(read_text(measured), measured, operation, ranks)
        measured_collectives = [row for row in rows if (row.operation, row.ranks) == (operation, ranks) and row.bytes]
        if not measured_collectives:
            raise InputError(f"{measured}: it has no {operation} on {ranks} ranks")
    wanted = (
        sorted({row.bytes for row in measured_collectives})
        if measured_collectives and sizes is None
        else parse_sizes(sizes or DEFAULT_SIZES)
    )
    with Progress(enabled=not quiet) as progress:
        compared = with_measured(rows_of(built, operation, ranks, wanted, progress), measured_collectives)
    errors = [abs(row.error) for row in compared if row.error is not None]
    mean = sum(errors) / len(errors) if errors else None
    if as_json:
        table: dict[str, Any] = {"operation": operation.value, "ranks": ranks, "rows": [attrs.asdict(row) for row in compared]}
        if measured_collectives:
            table["mean_error"] = mean
        say_json(table)
        return
    if not quiet:
        _print(operation, ranks, compared, mean, bool(measured_collectives))


def _print(operation: Collective, ranks: int, rows: Sequence[CollectiveRow], mean: float | None, compared: bool) -> None:
    """Print a table as nccl-tests does: lines that begin with # are no figures."""
    screen = Screen(every=True)
    columns = [Column("# size\n#  (B)", "word"), Column("time\n(us)"), Column("algbw\n(GB/s)"), Column("busbw\n(GB/s)")]
    if compared:
        columns += [Column("measured\n(us)"), Column("error\n(%)")]
    cells = []
    for row in rows:
        values = [str(row.bytes), f"{row.microseconds:.2f}", f"{row.algbw_gb_per_s:.2f}", f"{row.busbw_gb_per_s:.2f}"]
        if compared:
            values += [
                "-" if row.measured_us is None else f"{row.measured_us:.2f}",
                "-" if row.error is None else f"{100 * row.error:+.1f}",
            ]
        cells.append(values)
    screen.table(Table(columns, cells, f"# {operation} on {ranks} ranks, simulated"))
    if rows:
        screen.text(f"# Avg bus bandwidth    : {sum(row.busbw_gb_per_s for row in rows) / len(rows):.4g}")
    if compared:
        screen.text(f"# Mean absolute error  : {'-' if mean is None else f'{mean:.2%}'}")
