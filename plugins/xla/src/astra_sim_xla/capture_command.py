"""The command `astra capture jax`: compile a script for faked devices in a child process, and keep the partitioned HLO."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import attrs
import click
from astra_sim import InputError
from astra_sim.commands import quiet_option
from astra_sim.errors import RunError, located
from astra_sim.files import FileSet, read_text

from astra_sim_xla.compiling import FAILED
from astra_sim_xla.hlo_text import is_communication, parse_module

INSTALL = "pip install jax"
_AFTER = ".after_spmd-partitioning."
"""In the name of the files that hold the partitioner's output: element types are still those of the script there."""

_COMPILING = Path(__file__).with_name("compiling.py")


@attrs.frozen
class Captured:
    """A module that was captured: the name of its program, its text, and its operations."""

    name: str
    text: str
    collectives: int


@click.command()
@click.option("--devices", type=click.IntRange(2, 65536), required=True, help="Devices to compile for; the script sees as many.")
@click.option("-o", "--output", default="hlo", show_default=True, metavar="DIR", help="Folder for the modules, one file for each program.")
@click.option(
    "--target",
    metavar="gpu:NAME|tpu:TOPOLOGY",
    help="Compile for these devices, such as gpu:h100 or tpu:v5e:2x4, which need not be there, and keep the optimised modules.",
)
@click.option("--python", default=sys.executable, metavar="PATH", help="Python that has jax, if it is not the one of astra.")
@quiet_option
@click.argument("script", nargs=-1, required=True)
def capture(devices: int, output: str, target: str | None, python: str, quiet: bool, script: tuple[str, ...]) -> None:
    """Compile a JAX script for faked devices, and keep its HLO.

    The script runs on the CPU and sees as many devices as are requested. The modules compiled for all of them are kept as they are
    after SPMD partitioning; `lower(...).compile()` on shapes compiles without data.

        astra capture jax --devices 8 -- step.py --its arguments

    With --target the script sees GPUs (a100, h100, b200) or a topology of TPUs, for which XLA compiles without them: combined
    collectives, what overlaps, and fusions are those of the compiler. It must compile shapes; `pip install "jax[cuda12]"` or "jax[tpu]".
    """
    modules = captured(list(script), devices, python, target)
    with FileSet() as files:
        files.make_folder(output)
        for module in modules:
            files.write(os.path.join(output, f"{module.name}.txt"), [module.text])
    for module in () if quiet else modules:
        click.echo(f"{os.path.join(output, module.name)}.txt: {devices} devices, {module.collectives} collectives and messages in its text")


def captured(script: list[str], devices: int, python: str = sys.executable, target: str | None = None) -> list[Captured]:
    """The modules that a script compiles for `devices` devices. Raises InputError, or RunError if the script fails.

    `target`: the devices for which they are optimised; None: as they are after SPMD partitioning.
    """
    if target is not None and not re.fullmatch(r"(gpu|tpu):.+", target):
        raise InputError(f"--target is {target!r}; expected gpu:NAME or tpu:TOPOLOGY, such as gpu:h100 or tpu:v5e:2x4")
    if not os.path.isfile(script[0]):
        raise InputError(f"{script[0]}: no such file; expected a Python script")
    _check_jax(python)
    with tempfile.TemporaryDirectory(prefix="astra-hlo-") as folder:
        if target is not None:
            return _compiled_for(target, script, devices, python, Path(folder))
        flags = f"--xla_force_host_platform_device_count={devices} --xla_dump_to={folder} --xla_dump_hlo_pass_re=spmd-partitioning"
        flags = f"{os.environ.get('XLA_FLAGS', '')} {flags} --xla_dump_hlo_as_text".strip()
        environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false"}
        done = subprocess.run([python, *script], env=environment, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise RunError(_failure(script[0], done.returncode, done.stderr))
        sys.stderr.write(done.stderr)
        return _modules(Path(folder), script[0], devices)


def _compiled_for(target: str, script: list[str], devices: int, python: str, folder: Path) -> list[Captured]:
    """The modules of a script as XLA optimises them for a target. Raises InputError and RunError."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false", "TPU_SKIP_MDS_QUERY": "1"}
    words = [python, str(_COMPILING), str(folder), target, str(devices), *script]
    done = subprocess.run(words, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == FAILED:
        raise InputError(done.stderr.strip().splitlines()[-1])
    if done.returncode:
        raise RunError(_failure(script[0], done.returncode, done.stderr))
    return _modules(folder, script[0], devices, "*.txt")


def _modules(folder: Path, script: str, devices: int, files: str = f"*{_AFTER}*.txt") -> list[Captured]:
    """The modules of a dump that are for `devices` devices, each with a name of its own. Raises InputError if there is none."""
    captureds: dict[str, Captured] = {}
    for path in sorted(folder.glob(files)):
        text = read_text(str(path), is_input=False)
        try:
            module = parse_module(text)
        except InputError as error:
            raise located(error, path.name) from None
        if module.devices == devices:
            collectives = sum(is_communication(each.opcode) for one in module.computations.values() for each in one.instructions.values())
            program = re.split(r"[\s,]+", text, maxsplit=2)[1].partition(".")[0]
            name, number = program, 2
            while name in captureds:
                name, number = f"{program}.{number}", number + 1
            captureds[name] = Captured(name, text, collectives)
    if not captureds:
        raise InputError(
            f"{script} compiled no program for {devices} devices; shard its arrays over a mesh of jax.devices(), "
            "and see that it compiles in this process"
        )
    return list(captureds.values())


def _check_jax(python: str) -> None:
    if shutil.which(python) is None:
        raise InputError(f"--python: {python!r} is no program")
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('jax') is None)"
    if subprocess.run([python, "-c", probe], check=False, stderr=subprocess.DEVNULL).returncode:
        raise InputError(f"jax is not installed for {python}; install it ({INSTALL}), or name a Python that has it with --python")


def _failure(script: str, status: int, stderr: str) -> str:
    """The error of a script, with its last line in the traceback."""
    places = [line for file, line in re.findall(r'File "([^"]+)", line (\d+)', stderr) if os.path.abspath(file) == os.path.abspath(script)]
    last = next((line for line in reversed(stderr.splitlines()) if re.match(r"[\w.]+(Error|Exception|Exit|Interrupt)\b", line)), "")
    where = f"{script}:{places[-1]}" if places else script
    return f"{where}: the script ended with status {status}{': ' + last if last else ''}"
