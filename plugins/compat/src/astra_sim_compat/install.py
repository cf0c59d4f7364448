"""The command `astra compat install`: writes the programs, and puts them into the folders of a checkout that run scripts use."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from astra_sim.commands import json_option, quiet_option, say_json
from astra_sim.errors import InputError
from astra_sim.files import FileSet

from astra_sim_compat.programs import GENERATOR, PROGRAMS

_UNAWARE, _AWARE = "AstraSim_Analytical_Congestion_Unaware", "AstraSim_Analytical_Congestion_Aware"
_ANALYTICAL, _CONGESTION = "AnalyticalAstra", "AstraCongestion"
_EXECUTABLE = 0o755

_REPOSITORY: Mapping[str, tuple[str, ...]] = {
    _UNAWARE: ("build/astra_analytical/build/bin",),
    _AWARE: ("build/astra_analytical/build/bin",),
    _ANALYTICAL: ("build/astra_analytical/build/AnalyticalAstra/bin",),
    _CONGESTION: ("build/astra_analytical/build/AstraCongestion/bin", "build/astra_congestion/build/AstraCongestion/bin"),
}
_NS3: Mapping[str, tuple[str, ...]] = {name: ("extern/network_backend/ns-3/build/scratch",) for name in PROGRAMS if name.startswith("ns3")}
_TUTORIAL: Mapping[str, tuple[str, ...]] = {
    _ANALYTICAL: ("build/AnalyticalAstra/bin", "build/analytical/AnalyticalAstra/bin"),
    _CONGESTION: ("build/congestion/AstraCongestion/bin",),
}

PLACES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "build/astra_analytical": _REPOSITORY,
    "build/astra_garnet": {"gem5.opt": ("build/astra_garnet/build",)},
    "build/astra_ns3": _NS3,
    "build/astra_htsim": {"AstraSim_HTSim": ("build/astra_htsim/build/bin",)},
    "scripts/workload_generator": {GENERATOR: ("scripts/workload_generator",)},
    "exercise_1": _TUTORIAL,
}
"""The folders in which run scripts look for programs, from the top of a checkout of ASTRA-sim or a tutorial, known by a folder in it."""

_BUILD_SCRIPTS = ("build/astra_analytical/build.sh",)
"""Scripts that run scripts start first. Those of 2.x compile whenever they run."""

_NOTHING_TO_BUILD = """\
#!/bin/sh
# Written by `astra compat install --checkout`: the programs under build/ are those of astra, and there is nothing to compile.
# `git checkout {path}` brings back the script of ASTRA-sim.
exit 0
"""


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--checkout", is_flag=True, help="DIR is a checkout of ASTRA-sim or of its tutorials: write into the folders of its scripts.")
@json_option
@quiet_option
def install(folder: str, checkout: bool, as_json: bool, quiet: bool) -> None:
    """Write programs that ASTRA-sim's run scripts start into DIR, with its names, options and output.

    They run astra, with the Python that runs this command. With --checkout a build script that run scripts start is replaced, too: there is
    nothing to compile.
    """
    files = dict(_in_checkout(Path(folder)) if checkout else _programs(Path(folder)))
    with FileSet() as written:
        for path, text in files.items():
            written.make_folder(path.parent)
            with written.open(path) as file:
                file.write(text)
                os.fchmod(file.fileno(), _EXECUTABLE)
    if as_json:
        say_json({"files": written.names})
    elif not quiet:
        for path in files:
            click.echo(path)


def _programs(folder: Path) -> Iterator[tuple[Path, str]]:
    """All programs, in one folder."""
    for name in PROGRAMS:
        yield folder / name, _script(name)


def _in_checkout(folder: Path) -> Iterator[tuple[Path, str]]:
    """The programs in the folders of run scripts, and build scripts that have nothing to build. Raises InputError.

    Checkouts may be in it at any depth: that of the tutorials has a folder for each tutorial, whose scripts clone ASTRA-sim into theirs.
    """
    roots = [(Path(root), known) for root in _folders(folder) for known in PLACES if os.path.isdir(os.path.join(root, known))]
    if not roots:
        raise InputError(f"{folder} is no checkout of ASTRA-sim or of its tutorials: it has neither {' nor '.join(PLACES)}")
    for root, known in roots:
        for name, places in PLACES[known].items():
            for place in places:
                yield root / place / name, _script(name)
        for build in _BUILD_SCRIPTS:
            if (root / build).is_file():
                yield root / build, _NOTHING_TO_BUILD.format(path=build)


def _folders(folder: Path) -> Iterator[str]:
    """A folder and those in it, in order, without hidden ones: links are not followed, and a folder that cannot be read has none."""
    for path, inside, _ in os.walk(folder):
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        yield path


def _script(name: str) -> str:
    """A program. One that scripts start is a shell script: a path to Python may be too long for a line that begins with #!, or have spaces.

    One in Python replaces itself by this Python, whichever has started it.
    """
    command = [sys.executable, "-P", "-m", "astra_sim_compat", name]
    if name.endswith(".py"):
        return f"import os\nimport sys\n\nos.execv({sys.executable!r}, [*{command!r}, *sys.argv[1:]])\n"
    return f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n'
