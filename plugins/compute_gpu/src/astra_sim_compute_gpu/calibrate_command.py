"""The commands `astra calibrate gemm` and `astra calibrate attention`: a device of the gpu compute model, fitted to measured kernels.

Half of the shapes are held out. The file that is written is a device: plugin:gpu?device=DEVICE.toml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from astra_sim.commands import Progress, Screen, candidates, json_option, quiet_option, say_json

if TYPE_CHECKING:
    from astra_sim_compute_gpu.fitting import KernelFit

_table = click.argument("table", type=click.Path())
_device = click.option(
    "--device",
    required=True,
    metavar="NAME",
    help="Device (or DEVICE.toml) that gives peaks and all that is not fitted.",
    shell_complete=candidates("one_of", "astra_sim_compute_gpu.device:names"),
)
_output = click.option(
    "-o", "--output", required=True, metavar="DEVICE.toml", type=click.Path(dir_okay=False), help="Device file to write."
)


@click.command()
@_table
@_device
@_output
@json_option
@quiet_option
def gemm(table: str, device: str, output: str, as_json: bool, quiet: bool) -> None:
    """Fit products of matrices: CSV with m, n, k, microseconds; may have batch, accumulate_fp32, element_type, cast, held_out."""
    from astra_sim.files import read_text

    from astra_sim_compute_gpu import device as devices
    from astra_sim_compute_gpu.kernel_fits import fit_gemm, with_gemm
    from astra_sim_compute_gpu.measured_table import read_gemms

    changed, where = devices.read_table(device)
    fits = {}
    with Progress(enabled=not quiet) as progress:
        for element_type, rows in read_gemms(read_text(table), table).items():
            progress.stage(f"fitting gemm {element_type}", simulates=False)
            fitted = fits[f"gemm {element_type}"] = _located(table, element_type, fit_gemm, devices.device_of(changed, where), rows)
            changed = _sourced(with_gemm(changed, element_type, fitted), f"gemm.{element_type}", table, fitted)
            if "cast_efficiency" in fitted.values:
                changed = _sourced(changed, "cast", table, fitted)
    _finish(fits, changed, output, as_json, quiet)


@click.command()
@_table
@_device
@_output
@json_option
@quiet_option
def attention(table: str, device: str, output: str, as_json: bool, quiet: bool) -> None:
    """Fit flash attention: CSV with heads, query_length, key_length, head_size, microseconds.

    It may have value_size, key_heads, causal, backward, element_type, held_out.
    """
    from astra_sim.errors import InputError
    from astra_sim.files import read_text

    from astra_sim_compute_gpu import device as devices
    from astra_sim_compute_gpu.kernel_fits import attention_key, fit_attention, with_attention
    from astra_sim_compute_gpu.measured_table import read_attention

    changed, where = devices.read_table(device)
    by_type = read_attention(read_text(table), table)
    keys = [attention_key(element_type) for element_type in by_type]
    if len(set(keys)) < len(keys):
        raise InputError(f"{table}: element types {', '.join(by_type)}; expected at most one of 16 bits and one of 8, as a device has fits")
    fits = {}
    with Progress(enabled=not quiet) as progress:
        for element_type, rows in by_type.items():
            progress.stage(f"fitting attention {element_type}", simulates=False)
            fitted = fits[f"attention {element_type}"] = _located(
                table, element_type, fit_attention, devices.device_of(changed, where), rows
            )
            changed = _sourced(with_attention(changed, element_type, fitted), attention_key(element_type), table, fitted)
    _finish(fits, changed, output, as_json, quiet)


def _located(table: str, element_type: str, fit: Any, device: Any, rows: Any) -> KernelFit:
    from astra_sim.errors import InputError, located

    try:
        fitted: KernelFit = fit(device, element_type, rows)
    except InputError as error:
        raise located(error, f"{table}: {element_type}") from None
    return fitted


def _sourced(changed: dict[str, Any], key: str, table: str, fitted: KernelFit) -> dict[str, Any]:
    """The table with a note on the source of a key's numbers."""
    note = f"astra calibrate, {fitted.fitted.rows} rows of {table}; held-out error {fitted.held_out}"
    return {**changed, "calibrated": True, "sources": {**changed.get("sources", {}), key: note}}


def _finish(fits: dict[str, KernelFit], changed: dict[str, Any], output: str, as_json: bool, quiet: bool) -> None:
    """Write the device, and print the fits."""
    from astra_sim.toml_text import write_toml

    write_toml(changed, output, "A device of the gpu compute model of astra, fitted by astra calibrate")
    if as_json:
        import attrs

        say_json({"files": [output], "fits": [{"name": name, **attrs.asdict(fitted)} for name, fitted in fits.items()]})
        return
    if quiet:
        return
    screen = Screen()
    for title, fitted in fits.items():
        screen.text(f"{title}: {', '.join(f'{name} {value:g}' for name, value in fitted.values.items())}", further="  ")
        screen.text(f"error of fitted shapes    {fitted.fitted}", "  ")
        screen.text(f"error of held-out shapes  {fitted.held_out}", "  ")
        screen.text(f"of those above 10^11 operations  {fitted.held_out_large}", "  ")
    screen.text(f"written: {output}")
