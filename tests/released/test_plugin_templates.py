"""Every package that `astra plugins new` writes passes its own tests, keeps its contract, and is used in a run, as its README says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from astra_sim import InputError
from astra_sim.setup.plugin_modules import KINDS as COMPONENTS
from astra_sim.setup.plugins import Plugins, shared_plugins
from astra_sim_devkit.templates import KINDS, Package, new_package
from support import ROOT, warm
from support.commands import commands_of

PYTHON_KINDS = [kind for kind in KINDS if kind != "network-cpp"]
EXAMPLE = ROOT / "examples" / "plugins" / "bus_network"


def name_of(kind: str) -> str:
    return f"made_{kind.replace('-', '_')}"


@attrs.frozen
class Installed:
    """Packages of all kinds without compiled parts, as if they were installed."""

    folder: Path

    def run(self, kind: str, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder of a package."""
        paths = [str(self.folder / "site"), *(str(self.folder / name_of(each) / "src") for each in PYTHON_KINDS)]
        programs = os.pathsep.join([str(Path(warm.astra()).parent), os.environ["PATH"]])
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTEST_ADDOPTS": "", "PATH": programs}
        where = self.folder / name_of(kind)
        return subprocess.run(command, cwd=where, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("packages")
    for kind in PYTHON_KINDS:
        package = new_package(kind, name_of(kind), shared_plugins())
        package.write(folder / package.name)
        information = folder / "site" / f"{package.package}-0.1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.distribution}\nVersion: 0.1.0\n")
        (information / "entry_points.txt").write_text(f"[astra_sim]\n{package.name} = {package.package}.plugin\n")
    return Installed(folder)


def test_there_is_a_template_for_every_kind_of_component() -> None:
    assert {kind.component for kind in KINDS.values()} == set(COMPONENTS) - {
        "account",  # docs/plugins.md has one in a file
        "engine",  # which belongs to one version of the kernel
        "explainer",  # provisional; examples/plugins/every_hook has one
        "placement",  # a function, of which the page of jobs has the form
        "model",  # a table of dimensions does without one
        "variation",  # docs/plugins.md has one in a file
    }


# -- Packages in Python ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PYTHON_KINDS)
def test_a_package_passes_its_tests(kind: str, installed: Installed) -> None:
    done = installed.run(kind, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"([3-9]|[1-9][0-9]) passed", done.stdout)


def test_packages_keep_their_contracts(installed: Installed) -> None:
    names = [name_of(kind) for kind in PYTHON_KINDS]
    done = installed.run("collective", "astra", "plugins", "check", *names, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(done.stdout)
    assert [(row["kind"], row["name"]) for row in results] == [(KINDS[kind].component, name_of(kind)) for kind in PYTHON_KINDS]
    assert all(row["problem"] is None and row["note"] is None for row in results)


@pytest.mark.parametrize("kind", PYTHON_KINDS)
def test_the_commands_of_a_readme_work(kind: str, installed: Installed) -> None:
    commands = commands_of((installed.folder / name_of(kind) / "README.md").read_text())
    assert commands
    outputs = []
    for command in commands:
        done = installed.run(kind, "sh", "-c", command)
        assert (done.returncode, done.stderr) == (0, ""), command
        outputs.append(re.sub(r"wall time .*", "", done.stdout))
    assert len(set(outputs)) == len(commands), "options change nothing"


# -- A package in C++; tests/released/test_native_plugin.py builds it -----------------------------------------------------------


def texts(folder: Path) -> dict[str, str]:
    built = ("__pycache__", "build", "dist", ".pytest_cache")
    files = (path for path in folder.rglob("*") if path.is_file() and not set(path.relative_to(folder).parts) & set(built))
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_the_example_is_what_the_template_gives() -> None:
    ours, result = texts(EXAMPLE), Package("network-cpp", "bus").files()
    assert {**ours, "LICENSE": ""} == {**result, "LICENSE": ""}
    assert ours["include/astra_sim/network.h"] == (ROOT / "core/src/astra_sim/include/astra_sim/network.h").read_text()


# -- Names and folders -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("colective", "mine", "KIND is 'colective'; did you mean 'collective'?"),
        ("collective", "My-Ring", "NAME is 'My-Ring'; expected at most 60 small letters, digits and single _ .*, such as my_ring"),
        ("collective", "../up", "NAME is '../up'; expected"),
        ("collective", "2d", "NAME is '2d'; expected"),
        ("collective", "lambda", "and no word of Python$"),
        ("collective", "a" * 61, "expected at most 60"),
        ("collective", "ring", "NAME is 'ring', and plugin collectives offers a collective algorithm of that name"),
        ("collective", "memory", "astra-sim-memory is a package of astra"),
        ("network", "core", "astra-sim-core is a package of astra"),
    ],
)
def test_a_name_that_cannot_be_is_an_error(kind: str, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        new_package(kind, name, shared_plugins())


def test_a_folder_that_exists_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match=r"mine exists; expected the name of a new folder \(--output DIR\)"):
        Package("report", "mine").write(tmp_path / "mine")
    assert list((tmp_path / "mine").iterdir()) == []


def test_a_package_goes_where_output_says(tmp_path: Path) -> None:
    command = [warm.astra(), "plugins", "new", "memory", "mine", "--output", "a/b c", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    written = json.loads(done.stdout)
    assert written["folder"] == "a/b c"
    assert sorted(texts(tmp_path / "a" / "b c")) == written["files"]


def test_what_is_written_is_told_with_what_comes_next(tmp_path: Path) -> None:
    command = [warm.astra(), "plugins", "new", "collective", "mine"]
    lines = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "11 files in mine:"
    assert [line.strip() for line in lines[1:12]] == sorted(texts(tmp_path / "mine"))
    assert lines[12:] == ["next: cd mine; pip install --editable '.[test]'; pytest; astra plugins check mine"]


def test_a_name_is_free_where_no_plugin_has_it() -> None:
    assert new_package("collective", "ring", Plugins(load_entry_points=False)).distribution == "astra-sim-ring"
