"""What is released: wheels and source distributions as a package index wants them, and source distributions that build by themselves."""

from __future__ import annotations

import json
import os
import re
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import trove_classifiers
import yaml  # type: ignore[import-untyped]
from packaging.metadata import Metadata
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from support import ROOT
from support.environments import Environment, checked

from devtools import release, workspace

pytestmark = pytest.mark.xdist_group("wheels")  # in one process: the wheels are built once
DISTRIBUTIONS = {workspace.toml_of(folder)["project"]["name"]: folder for folder in release.distributions()}
APART = {workspace.toml_of(folder)["project"]["name"] for folder in workspace.separate()}
BUNDLE = workspace.toml_of(workspace.bundle())["project"]["name"]
LICENCES = dict.fromkeys(DISTRIBUTIONS, "MIT") | dict.fromkeys(APART, "GPL-2.0-only")
BUILT_AGAIN = list(DISTRIBUTIONS.keys() - APART) if os.environ.get("ASTRA_LONG_BUILDS") else ["astra-sim-memory"]
"""Packages whose source distributions are built: all where that is asked for, compiled ones too (`.ci/nightly`), else one."""


@pytest.fixture(scope="module")
def sdist_house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source distribution of every package."""
    folder = tmp_path_factory.mktemp("sdists")
    workspace.build_sdists(folder, Path(sys.executable))
    return folder


def stem(name: str) -> str:
    """How the file of a distribution begins."""
    return f"{name.replace('-', '_')}-{release.version()}"


def sdist(name: str, house: Path) -> Path:
    """The source distribution of a package."""
    return house / f"{stem(name)}.tar.gz"


@pytest.fixture(params=["wheel", "sdist"])
def texts(request: pytest.FixtureRequest) -> dict[str, bytes]:
    """The metadata of all wheels, or all source distributions, by name."""
    house: Path = request.getfixturevalue("wheel_house" if request.param == "wheel" else "sdist_house")
    result = {}
    for name in DISTRIBUTIONS:
        if request.param == "sdist":
            with tarfile.open(sdist(name, house)) as archive:
                file = archive.extractfile(f"{stem(name)}/PKG-INFO")
                assert file is not None
                result[name] = file.read()
        elif name not in APART:
            (wheel,) = house.glob(f"{stem(name)}-*.whl")
            result[name] = zipfile.Path(wheel, f"{stem(name)}.dist-info/METADATA").read_bytes()
    return result


# -- Metadata ----------------------------------------------------------------------------------------------------------


def test_metadata_are_valid_and_complete(texts: dict[str, bytes]) -> None:
    """Licence expressions, versions, requirements and classifiers are checked as an index checks them when files are uploaded."""
    address = release.address()
    links = {name: f"{address}{path}" for name, path in release.LINKS.items()} if address else {}
    for name, text in texts.items():
        metadata = Metadata.from_email(text, validate=True)
        assert metadata.name == name
        assert metadata.version == Version(release.version())
        assert metadata.summary
        assert metadata.requires_python == SpecifierSet(">=3.11")
        assert metadata.license_expression == LICENCES[name]
        assert metadata.license_files == ["LICENSE"]
        assert metadata.author == "The astra developers"
        assert metadata.keywords
        assert metadata.classifiers
        assert set(metadata.classifiers) <= trove_classifiers.classifiers
        assert (metadata.project_urls or {}) == links
        assert metadata.description_content_type == "text/markdown"


def test_descriptions_are_the_readme_and_have_no_links_that_lead_nowhere_on_an_index(texts: dict[str, bytes]) -> None:
    for name, text in texts.items():
        description = Metadata.from_email(text, validate=True).description
        assert description is not None
        assert description.strip() == (DISTRIBUTIONS[name] / "README.md").read_text(encoding="utf-8").strip()
        assert [link for link in re.findall(r"\]\(([^)]*)\)", description) if not link.startswith("https://")] == []


def test_classifiers_are_those_of_the_tests_and_say_which_packages_are_compiled() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    pythons = [f"Programming Language :: Python :: {version}" for version in workflow["jobs"]["run"]["strategy"]["matrix"]["python"]]
    for folder in DISTRIBUTIONS.values():
        classifiers = workspace.toml_of(folder)["project"]["classifiers"]
        assert [each for each in classifiers if re.search(r"Python :: 3\.\d+$", each)] == pythons
        assert ("Programming Language :: C++" in classifiers) is workspace.is_compiled(folder)
        assert ("Typing :: Typed" in classifiers) is (folder != workspace.bundle())


# -- The bundle --------------------------------------------------------------------------------------------------------


def test_the_bundle_has_no_code_and_its_licence(wheel_house: Path) -> None:
    (wheel,) = wheel_house.glob(f"{stem(BUNDLE)}-py3-none-any.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    assert {name.removeprefix(f"{stem(BUNDLE)}.dist-info/") for name in names} == {"METADATA", "WHEEL", "RECORD", "licenses/LICENSE"}


# -- Source distributions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_source_distribution_has_the_files_of_its_package_and_no_others(name: str, sdist_house: Path) -> None:
    folder = DISTRIBUTIONS[name]
    with tarfile.open(sdist(name, sdist_house)) as archive:
        names = {Path(member.name).relative_to(stem(name)).as_posix() for member in archive.getmembers() if member.isfile()}
    expected = {path.relative_to(folder).as_posix() for path in workspace.files_of(folder)}
    assert names - {".gitignore"} == (expected | {"PKG-INFO"}) - {".gitignore"}  # hatchling adds that of the checkout
    assert {"LICENSE", "README.md", "pyproject.toml"} <= names


def test_there_is_one_source_distribution_for_every_package(sdist_house: Path) -> None:
    assert {path.name for path in sdist_house.iterdir()} == {f"{stem(name)}.tar.gz" for name in DISTRIBUTIONS}


@pytest.mark.parametrize("name", BUILT_AGAIN)
def test_a_source_distribution_builds_the_wheel_by_itself(name: str, sdist_house: Path, wheel_house: Path, tmp_path: Path) -> None:
    """In an environment of pip's own, outside the checkout; compiled plugins find the kernel among the wheels."""
    options = ("--quiet", "--no-deps", "--wheel-dir", tmp_path, "--find-links", wheel_house)
    checked(sys.executable, "-m", "pip", "wheel", *options, sdist(name, sdist_house))
    (built,) = tmp_path.iterdir()
    other = zipfile.ZipFile(wheel_house / built.name)
    wheel = zipfile.ZipFile(built)
    assert wheel.namelist() == other.namelist()
    for file in wheel.namelist():
        if file.endswith((".py", ".pyi", ".toml", "METADATA", "entry_points.txt", "LICENSE")):
            assert wheel.read(file) == other.read(file)


# -- Without compiled parts --------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.environ.get("ASTRA_LONG_BUILDS"), reason=".ci/nightly runs it")
def test_wheels_without_compiled_parts_work_on_any_machine(tmp_path: Path) -> None:
    """The kernel, Chakra and the analytical network among them; packet, flow and roce exist compiled alone."""
    workspace.build_pure_wheels(tmp_path / "wheels", Path(sys.executable))
    wheels = sorted((tmp_path / "wheels").iterdir())
    assert all(wheel.name.endswith("-py3-none-any.whl") for wheel in wheels)
    only_compiled = {
        name for name, folder in DISTRIBUTIONS.items() if workspace.is_compiled(folder) and not workspace.works_without(folder)
    }
    assert {wheel.name.split("-")[0].replace("_", "-") for wheel in wheels} == DISTRIBUTIONS.keys() - only_compiled
    venv.create(tmp_path / "environment", symlinks=True)
    environment = Environment(tmp_path / "environment")
    environment.install(*(wheel for wheel in wheels if not wheel.name.startswith(f"{stem(BUNDLE)}-")))
    result = json.loads(environment.run("astra", "doctor", "--json").stdout)
    assert (result["engine"], result["problems"]) == ("python", [])
    done = environment.run("astra", "plugins", "check")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
