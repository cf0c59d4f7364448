"""The command `astra generate`."""

from __future__ import annotations

import os
from typing import Any

import click
from astra_sim import InputError
from astra_sim.commands import Progress, candidates, json_option, quiet_option, say_json
from astra_sim.files import FileSet, is_whole, parse_toml

from astra_sim_compute_systolic.generate.parallelism import POLICIES

_SYSTOLIC = "plugin:systolic"


@click.command()
@click.option(
    "--layers", "--mnk", "layers", metavar="F.csv", type=click.Path(), help="Layers: a heading, then name, m, n, k [, parallelisation]."
)
@click.option(
    "--model",
    metavar="NAME|F.toml",
    help="A model of this package (see --list), or a TOML file.",
    shell_complete=candidates("one_of", "astra_sim_compute_systolic.generate.model_file:shipped_models"),
)
@click.option(
    "--parallel",
    "policy",
    metavar="POLICY",
    help=f"Parallelisation: {', '.join(POLICIES)}.",
    shell_complete=lambda ctx, param, incomplete: [policy for policy in POLICIES if policy.startswith(incomplete)],
)
@click.option("--npus", "--num_npus", "--num-npus", "npus", type=int, help="NPUs.")
@click.option(
    "--packages", "--num_packages", "--num-packages", "packages", type=int, default=1, show_default=True, help="Packages of NPUs."
)
@click.option("--datatype-bytes", "--datatype_size", "element_bytes", type=int, default=2, show_default=True, help="Bytes of an element.")
@click.option("--batch", type=int, help="Samples of a model's batch, over all NPUs.")
@click.option("--batch-per-npu", type=int, help="Samples of a model's batch, for each NPU.")
@click.option("--set", "changes", metavar="PARAMETER=NUMBER", multiple=True, help="Change a parameter of a model. Repeatable.")
@click.option(
    "--compute",
    "--scalesim_config",
    "compute",
    metavar="S",
    default=_SYSTOLIC,
    show_default=True,
    help="Compute model: plugin:NAME or a file.",
    shell_complete=candidates("component", "compute"),
)
@click.option(
    "--memory",
    metavar="S",
    help="Memory model that the layers must fit in, such as plugin:local?capacity_gib=80.",
    shell_complete=candidates("component", "memory"),
)
@click.option("--format", "form", type=click.Choice(("toml", "text")), help="TOML, or text of ASTRA-sim 1.0; default: by --output.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), help="Write the workload to this file; default: print it.")
@click.option("--list", "listing", is_flag=True, help="List the models of this package.")
@json_option
@quiet_option
def generate(
    layers: str | None,
    model: str | None,
    listing: bool,
    output: str | None,
    form: str | None,
    as_json: bool,
    quiet: bool,
    **choices: Any,
) -> None:
    """Generate a workload from layers, a parallelisation and a compute model.

    \b
    astra generate --model resnet50 --parallel DATA --npus 64 --batch-per-npu 32 --output resnet50.toml
    astra generate --layers mlp.csv --parallel HYBRID_DATA_MODEL --npus 16 --packages 2 --compute google.cfg --format text

    The text format holds whole nanoseconds, which are cycles if the clock of the array is 1 GHz.
    """
    if listing:
        from astra_sim_compute_systolic.generate.model_file import shipped_models

        if as_json:
            say_json({"models": shipped_models()})
        else:
            click.echo("\n".join(shipped_models()))
        return
    if (layers is None) == (model is None):
        raise InputError("exactly one of --layers and --model must be given")
    text = form == "text" or (form is None and output is not None and not output.endswith(".toml"))
    with Progress(enabled=not quiet) as progress:
        progress.stage("computing the times of layers", simulates=False)
        workload = _generate(layers, model, text, **choices)
    files = FileSet()
    if output is not None:
        with files, files.open(output) as file:
            file.write(workload)
    if as_json:
        say_json({"files": files.names, "workload": workload if text else parse_toml(workload, "the workload")})
    elif output is None:
        click.echo(workload, nl=not workload.endswith("\n"))


def _generate(
    layers: str | None,
    model: str | None,
    text: bool,
    *,
    policy: str | None,
    npus: int | None,
    packages: int,
    element_bytes: int,
    batch: int | None,
    batch_per_npu: int | None,
    changes: tuple[str, ...],
    compute: str,
    memory: str | None,
) -> str:
    """The workload as text, of ASTRA-sim 1.0 (`text`) or as TOML. Raises InputError for options that are missing or do not go together."""
    from astra_sim.commands import shared_plugins
    from astra_sim.errors import suggestion
    from astra_sim.experiments import component
    from astra_sim.files import read_text

    from astra_sim_compute_systolic.generate.layers import read_csv
    from astra_sim_compute_systolic.generate.model_file import read_model
    from astra_sim_compute_systolic.generate.parallelism import Machine
    from astra_sim_compute_systolic.generate.workload import generate_workload
    from astra_sim_compute_systolic.generate.writers import to_text, to_toml

    if policy not in POLICIES:
        raise InputError(f"--parallel is {policy!r}; {suggestion(policy or '', POLICIES)}" if policy else "--parallel is missing")
    if npus is None:
        raise InputError("--npus is missing")
    if element_bytes < 1:
        raise InputError(f"--datatype-bytes is {element_bytes}; expected at least 1")
    machine = Machine(npus, packages)
    if layers is not None:
        if batch is not None or batch_per_npu is not None or changes:
            raise InputError("--batch, --batch-per-npu and --set need --model; the batch of a CSV file is in its column m")
        read = read_csv(read_text(layers), layers)
        name = os.path.splitext(os.path.basename(layers))[0]
    else:
        assert model is not None
        read = read_model(model, _batch(batch, batch_per_npu, npus), _changes(changes))
        name = os.path.splitext(os.path.basename(model))[0]
    plugins = shared_plugins()
    workload = generate_workload(read, policy, machine, element_bytes, component("compute", compute, plugins, "--compute"))
    footprint = workload.footprint_bytes(element_bytes)
    if memory is not None:
        component("memory", memory, plugins, "--memory").require(footprint, f"{name} on {npus} NPUs, {policy}")
    if text:
        return to_text(workload)
    comment = f"{name}, {policy}, {npus} NPUs in {packages} packages, {element_bytes} bytes an element; times of {compute}."
    return to_toml(workload, name, footprint, comment)


def _batch(batch: int | None, batch_per_npu: int | None, npus: int) -> int:
    if (batch is None) == (batch_per_npu is None):
        raise InputError("exactly one of --batch and --batch-per-npu must be given with a model")
    total = batch if batch is not None else (batch_per_npu or 0) * npus
    if total < 1:
        raise InputError(f"a batch of {total} samples; expected at least 1")
    return total


def _changes(changes: tuple[str, ...]) -> dict[str, int]:
    result = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals or not is_whole(value.strip()):
            raise InputError(f"--set {change}: expected PARAMETER=NUMBER, such as hidden=4096")
        result[name.strip()] = int(value)
    return result
