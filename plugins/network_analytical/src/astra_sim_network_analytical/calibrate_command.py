"""The command `astra calibrate collective`: parameters of NCCL, fitted to measured collectives.

The parameters of half of the sizes give the error on the others; those that are written are of all rows. The file is used as
plugin:analytical?model=nccl&parameters=FILE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from astra_sim.commands import Progress, Screen, json_option, quiet_option, say_json

if TYPE_CHECKING:
    from astra_sim.schedule import Collective

    from astra_sim_network_analytical.nccl_fit import Calibration

_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


@click.command()
@click.argument("table", type=click.Path())
@click.option("-o", "--output", required=True, metavar="FILE.toml", type=click.Path(dir_okay=False), help="File of parameters to write.")
@click.option("--title", metavar="TEXT", help="Device and version of NCCL, for people.  [default: the table's name]")
@click.option("--op", "operation", type=click.Choice(_OPERATIONS), help="The collective, if output of nccl-tests does not name it.")
@click.option("--ranks", type=click.IntRange(min=2), help="The number of ranks, if output of nccl-tests lacks it.")
@click.option("--nvls/--no-nvls", default=False, show_default=True, help="Switches of the node reduce (NVLS).")
@click.option("--channels", type=click.IntRange(min=1), help="Channels that NCCL used, so that fewer can be tried.")
@click.option("--interpolate", is_flag=True, help="Keep the rows as a measured table, and fit nothing.")
@click.option(
    "--nvlink",
    type=click.FloatRange(min=0, min_open=True),
    metavar="GB/S",
    help="NVLink bandwidth of a GPU in one direction, so that other links can be tried.",
)
@click.option(
    "--based-on", metavar="DEVICE", help="A device of model=nccl whose parameters hold for the collectives that are not in TABLE."
)
@json_option
@quiet_option
def collective(
    table: str,
    output: str,
    title: str | None,
    operation: str | None,
    ranks: int | None,
    nvls: bool,
    channels: int | None,
    interpolate: bool,
    nvlink: float | None,
    based_on: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit NCCL in a node to measured collectives: output of nccl-tests, or CSV with operation, ranks, bytes, microseconds.

    The error is that of a fit to the sizes with an even logarithm to base 2, on the others. The file has a fit to all rows.
    """
    from astra_sim.collective_tables import read_collectives
    from astra_sim.errors import InputError, located
    from astra_sim.files import read_text
    from astra_sim.schedule import Collective
    from astra_sim.toml_text import write_toml

    from astra_sim_network_analytical.nccl_fit import NcclNode, calibrated, fits_of, tables_of
    from astra_sim_network_analytical.nccl_parameters import read_device, table_of, with_fits_of

    rows = read_collectives(read_text(table), table, None if operation is None else Collective(operation), ranks)
    rows = [row for row in rows if row.bytes]
    node, make = NcclNode(nvls, nvlink), tables_of if interpolate else fits_of
    try:
        with Progress(enabled=not quiet) as progress:
            progress.stage("fitting", simulates=False)
            result = calibrated(rows, lambda part: make(part, node))
    except InputError as error:
        raise located(error, table) from None
    sources = {"table": table}
    for kind in Collective:
        if any(row.operation is kind for row in rows):
            sources[kind.value] = result.source(kind)
    head = "Parameters of NCCL in a node, fitted by astra calibrate collective (validation/COLLECTIVES.md of astra)"
    parameters = table_of(title or table, result.fits, sources, channels, nvlink_gb_per_s=nvlink)
    write_toml(parameters if based_on is None else with_fits_of(read_device(based_on), parameters), output, head)
    if as_json:
        say_json({"files": [output], "fits": [_document(kind, result) for kind in Collective if kind.value in sources]})
    elif not quiet:
        screen = Screen()
        for kind in Collective:
            if kind.value in sources:
                _print(kind, result, screen)
        screen.text(f"written: {output}")


def _document(operation: Collective, calibration: Calibration) -> dict[str, Any]:
    """The fits of a collective, by the number of ranks, and their errors, as JSON has them."""
    import attrs

    from astra_sim_network_analytical.nccl_fit import LARGE_BYTES

    errors = {
        "used": calibration.used(operation),
        "fitted": calibration.fitted(operation),
        "held_out": calibration.held_out(operation),
        "held_out_large": calibration.held_out(operation, LARGE_BYTES),
    }
    fits = [
        {"ranks": fit.ranks, "sizes": len(fit.bytes), "protocols": {name: attrs.asdict(each) for name, each in fit.protocols().items()}}
        for fit in calibration.fits
        if fit.operation == operation
    ]
    return {"name": operation.value, "ranks": fits, **{name: attrs.asdict(error) for name, error in errors.items()}}


def _print(operation: Collective, calibration: Calibration, screen: Screen) -> None:
    """Print the fit of an operation, and the errors on the rows used and on those held out."""
    from astra_sim_network_analytical.nccl_fit import ASYMPTOTIC_BYTES, LARGE_BYTES

    for fit in calibration.fits:
        if fit.operation != operation:
            continue
        lines = fit.protocols()
        numbers = ", ".join(f"{name} {each.latency_us:g} us {each.gb_per_s:g} GB/s" for name, each in lines.items())
        screen.text(f"{operation} on {fit.ranks} ranks: {f'{len(fit.bytes)} sizes' if fit.bytes else numbers}")
        largest = max(row.bytes for row in calibration.rows if (row.operation, row.ranks) == (operation, fit.ranks))
        if largest < ASYMPTOTIC_BYTES:
            known = f"{fit.beyond.gb_per_s:g} GB/s, not measured" if fit.beyond else "as it rises there, not measured"
            screen.text(f"beyond {largest} bytes: {known}", "  ")
    screen.text(f"written: fitted to all rows, error on them  {calibration.used(operation)}", "  ")
    screen.text(f"fitted to half of the sizes, error on them  {calibration.fitted(operation)}", "  ")
    screen.text(f"error of held-out sizes                   {calibration.held_out(operation)}", "    ")
    screen.text(f"of those from 1 MiB on                    {calibration.held_out(operation, LARGE_BYTES)}", "    ")
