"""The wheels hold what they should, and work in an environment that knows nothing of the checkout."""

from __future__ import annotations

import importlib.metadata
import json
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devtools import workspace

if TYPE_CHECKING:
    from support.environments import Environment

pytestmark = pytest.mark.xdist_group("wheels")  # in one process: the wheels are built once
MEMBERS = workspace.members()


def project(member: Path) -> dict[str, str]:
    table: dict[str, str] = tomllib.loads((member / "pyproject.toml").read_text())["project"]
    return table


def import_name(member: Path) -> str:
    return "astra_sim" if member.name == "core" else f"astra_sim_{member.name}"


@pytest.fixture
def environment(bundle_environment: Environment) -> Environment:
    return bundle_environment


# -- The content of wheels ---------------------------------------------------------------------------------------------


@pytest.fixture(params=MEMBERS, ids=lambda member: member.name)
def member(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture
def wheel(member: Path, wheel_house: Path) -> zipfile.Path:
    name = project(member)["name"].replace("-", "_")
    (path,) = wheel_house.glob(f"{name}-{project(member)['version']}-*.whl")
    return zipfile.Path(path)


def info_of(member: Path) -> str:
    return f"{project(member)['name'].replace('-', '_')}-{project(member)['version']}.dist-info"


def test_there_is_one_wheel_for_every_package_and_the_bundle(wheel_house: Path) -> None:
    assert len(list(wheel_house.iterdir())) == len([*MEMBERS, workspace.bundle()]) > 2


def test_a_wheel_has_only_files_of_its_package_and_no_tests(member: Path, wheel: zipfile.Path) -> None:
    names = [name for name in wheel.root.namelist() if not name.endswith("/")]
    assert {name.split("/")[0] for name in names} == {import_name(member), info_of(member)}
    for name in names:
        *folders, file = name.split("/")
        assert "tests" not in folders
        assert "__pycache__" not in folders
        assert not file.startswith(("test_", "conftest"))


def test_a_wheel_has_all_modules_of_its_package(member: Path, wheel: zipfile.Path) -> None:
    sources = member / "src"
    modules = {path.relative_to(sources).as_posix() for path in sources.rglob("*.py")}
    assert modules <= set(wheel.root.namelist())


def test_a_wheel_is_typed(member: Path, wheel: zipfile.Path) -> None:
    assert (wheel / import_name(member) / "py.typed").exists()


def test_a_wheel_has_its_licence(member: Path, wheel: zipfile.Path) -> None:
    assert (wheel / info_of(member) / "licenses" / "LICENSE").read_text() == (workspace.ROOT / "LICENSE").read_text()


def test_the_metadata_of_a_wheel_name_the_licence_and_describe_the_package(member: Path, wheel: zipfile.Path) -> None:
    metadata = importlib.metadata.PathDistribution(wheel / info_of(member)).metadata
    assert metadata["Name"] == project(member)["name"]
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Summary"] == project(member)["description"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    description = metadata.json["description"]
    assert isinstance(description, str)
    assert description.strip() == (member / "README.md").read_text().strip()
    assert metadata["Name"] in description


# -- Installed packages ------------------------------------------------------------------------------------------------


def test_the_kernel_is_imported_from_the_wheel(environment: Environment) -> None:
    done = environment.run("python", "-c", "import astra_sim; print(astra_sim.__file__)")
    assert done.stderr == ""
    assert Path(done.stdout.strip()).is_relative_to(environment.prefix)


def test_the_bundle_alone_brings_every_package(environment: Environment) -> None:
    """The environment is made by `pip install astra-sim`, from the wheels."""
    code = "import importlib.metadata as m; print(*sorted(d.name for d in m.distributions() if d.name.startswith('astra-sim')))"
    assert environment.run("python", "-c", code).stdout.split() == sorted(["astra-sim", *(project(member)["name"] for member in MEMBERS)])


def test_help(environment: Environment) -> None:
    done = environment.run("astra", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "astra experiment.toml" in done.stdout


def test_all_components_keep_their_contract(environment: Environment) -> None:
    """Those of synthesis, which plans hundreds of collectives for it, are checked in the checkout alone."""
    done = environment.run("astra", "plugins", "check", *(member.name for member in MEMBERS if member.name not in ("core", "synthesis")))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "ok     collective ring\n" in done.stdout


def test_every_plugin_package_offers_components_and_none_is_broken(environment: Environment) -> None:
    done = environment.run("astra", "plugins", "list", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(done.stdout)
    assert listed["broken"] == []
    assert {row["plugin"] for row in listed["components"]} == {member.name for member in MEMBERS if member.name != "core"}


def test_the_readme_of_a_plugin_package_names_its_components(environment: Environment) -> None:
    rows = json.loads(environment.run("astra", "plugins", "list", "--json").stdout)["components"]
    readmes = {member.name: (member / "README.md").read_text() for member in MEMBERS}
    missing = [row["name"] for row in rows if row["kind"] != "format" and f"`{row['name']}`" not in readmes[row["plugin"]]]
    assert missing == []


# The reference case is tutorial-exercise_1-ring-all_reduce of ASTRA-sim 1.0: 45681 ns, of which 1 ns is the update of the layer.
@pytest.mark.parametrize(("update_ns", "finish_ns"), [(1, 45681), (0, 45680)])
def test_an_all_reduce_on_a_ring_takes_as_long_as_in_astra_sim_1(environment: Environment, update_ns: int, finish_ns: int) -> None:
    done = environment.run(
        "astra",
        *("--workload", f"plugin:collective?bytes=1048576&update_ns={update_ns}"),
        *("--platform", "plugin:ring?size=8&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500&both_ways=true"),
        *("--set", "system.splits=4", "--set", "system.all_reduce=ring", "--json"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["npus"] == 8
    assert result["finish_ns"] == finish_ns
