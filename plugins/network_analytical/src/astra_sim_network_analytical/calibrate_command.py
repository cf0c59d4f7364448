"""The command `astra calibrate collective`: parameters of NCCL, fitted to measured collectives.

Half of the sizes are held out. The file that is written is used as plugin:analytical?model=nccl&parameters=FILE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from astra_sim_network_analytical.nccl_fit import Outcome

_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


@click.command()
@click.argument("table", type=click.Path())
@click.option("--output", required=True, metavar="FILE.toml", type=click.Path(dir_okay=False), help="File of parameters to write.")
@click.option("--title", metavar="TEXT", help="Device and version of NCCL, for people.  [default: the table's name]")
@click.option("--op", "operation", type=click.Choice(_OPERATIONS), help="The collective, where output of nccl-tests does not say it.")
@click.option("--ranks", type=click.IntRange(min=2), help="The number of ranks, where output of nccl-tests does not say it.")
@click.option("--nvls/--no-nvls", default=False, show_default=True, help="Switches of the node reduce (NVLS).")
@click.option("--channels", type=click.IntRange(min=1), help="Channels that NCCL used, so that fewer can be tried.")
@click.option("--interpolate", is_flag=True, help="Keep the fitting half as a measured table, and fit nothing.")
def collective(
    table: str,
    output: str,
    title: str | None,
    operation: str | None,
    ranks: int | None,
    nvls: bool,
    channels: int | None,
    interpolate: bool,
) -> None:
    """Fit NCCL in a node to measured collectives: output of nccl-tests, or CSV with operation, ranks, bytes, microseconds.

    Sizes with an even logarithm to base 2 are fitted, the others are held out.
    """
    from astra_sim.collective_tables import read_collectives
    from astra_sim.errors import InputError, located
    from astra_sim.files import read_text
    from astra_sim.schedule import Collective

    from astra_sim_network_analytical.nccl_fit import fit_collective, table_fits
    from astra_sim_network_analytical.nccl_parameters import table_of

    rows = read_collectives(read_text(table), table, None if operation is None else Collective(operation), ranks)
    rows = [row for row in rows if row.bytes]
    fits, sources = [], {}
    for kind in Collective:
        part = [row for row in rows if row.operation is kind]
        if not part:
            continue
        try:
            found = table_fits(kind, part) if interpolate else fit_collective(kind, part, nvls)
        except InputError as error:
            raise located(error, table) from None
        fits += found.fits
        sources[kind.value] = f"astra calibrate, {found.fitted.rows} rows of {table}; held-out error {found.held_out}"
        _print(kind, found)
    _write(table_of(title or table, fits, sources, channels), output)


def _print(title: str, found: Outcome) -> None:
    for fit in found.fits:
        numbers = ", ".join(f"{name} {each.latency_us:g} us {each.gb_per_s:g} GB/s" for name, each in fit.protocols().items())
        click.echo(f"{title} on {fit.ranks} ranks: {f'{len(fit.bytes)} sizes' if fit.bytes else numbers}")
    click.echo(f"  error of fitted sizes     {found.fitted}")
    click.echo(f"  error of held-out sizes   {found.held_out}")
    click.echo(f"  of those from 1 MiB on    {found.held_out_large}")


def _write(table: dict[str, Any], output: str) -> None:
    from astra_sim.files import FileSet
    from astra_sim.toml_text import to_toml

    with FileSet() as files, files.open(output) as file:
        file.write(to_toml(table, "Parameters of NCCL in a node, fitted by astra calibrate collective (docs/nccl.md of astra)"))
    click.echo(f"written: {output}")
