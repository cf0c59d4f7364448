"""The command `astra device`: devices of the gpu compute model, and files of one's own to start from."""

from __future__ import annotations

import click
from astra_sim.commands import Column, Screen, Table, candidates, json_option, quiet_option, say_json


@click.command()
@click.argument("name", required=False, shell_complete=candidates("one_of", "astra_sim_compute_gpu.device:names"))
@click.option("--whole", is_flag=True, help="Give all numbers, so that the file depends on no other.")
@click.option("-o", "--output", metavar="DEVICE.toml", type=click.Path(dir_okay=False), help="File to write; else it is printed.")
@json_option
@quiet_option
def device(name: str | None, whole: bool, output: str | None, as_json: bool, quiet: bool) -> None:
    """List devices, or print the file of one to start from: NAME, or DEVICE.toml.

    \b
    astra device
    astra device h100 -o mine.toml
    astra experiment.toml --compute 'plugin:gpu?device=mine.toml'
    """
    from astra_sim.errors import InputError
    from astra_sim.files import FileSet

    from astra_sim_compute_gpu.device import names, read_device
    from astra_sim_compute_gpu.device_file import template

    if name is None:
        if whole or output is not None:
            raise InputError(f"no device is named; expected one of {', '.join(names())}, or DEVICE.toml")
        _list(as_json)
        return
    if as_json:
        raise InputError("--json lists devices; a device file is TOML")
    text = template(name, whole)
    if output is None:
        click.echo(text, nl=False)
        return
    read_device(name)
    with FileSet() as files, files.open(output) as file:
        file.write(text)
    if not quiet:
        Screen().text(f"written: {output}")


def _list(as_json: bool) -> None:
    """Print all devices, as a table or as JSON."""
    from astra_sim_compute_gpu.device import names, read_device

    devices = {name: read_device(name) for name in names()}
    if as_json:
        keys = ("title", "calibrated", "multiprocessors", "memory_gib", "memory_bandwidth_gb_per_s", "peak_tera_ops_per_s")
        say_json({"devices": [{"name": name, **{key: getattr(each, key) for key in keys}} for name, each in devices.items()]})
        return
    columns = (
        Column("device", "word"),
        Column("", "text"),
        Column("bf16 (10^12/s)"),
        Column("memory (GiB)"),
        Column("memory (GB/s)"),
        Column("calibrated", "word"),
    )
    rows = [
        [
            name,
            each.title,
            f"{each.peak_tera_ops_per_s['bf16']:g}" if "bf16" in each.peak_tera_ops_per_s else "-",
            f"{each.memory_gib:g}",
            f"{each.memory_bandwidth_gb_per_s:g}",
            "yes" if each.calibrated else "no",
        ]
        for name, each in devices.items()
    ]
    Screen().table(Table(columns, rows, "Devices"))
