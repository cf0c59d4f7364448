"""The commands of dev.py: when a package is installed again, one version for all, and how revisions are compared."""

from __future__ import annotations

import itertools
import re
import runpy
import shutil
import subprocess
import sys
import time
import tomllib
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from astra_sim._version import VERSION
from astra_sim_devkit.templates import kernel_range
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from support import ROOT

from devtools import comparison, figures, release, slow_tests, suite, workspace
from devtools.environment import Environment
from devtools.workspace import Failure, fingerprint

MEMBERS = [*workspace.members(), *workspace.separate()]


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run dev.py as a user does who has installed nothing."""
    done = subprocess.run([sys.executable, "-S", ROOT / "dev.py", *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    return done


# -- Installation ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["compiled", "pure"])
def package(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A package with one module; a compiled one has a CMakeLists.txt and a source."""
    folder = tmp_path / str(request.param)
    (folder / "src" / "mine").mkdir(parents=True)
    (folder / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    (folder / "src" / "mine" / "one.py").write_text("")
    if request.param == "compiled":
        (folder / "CMakeLists.txt").write_text("project(mine)\n")
        (folder / "mine.cpp").write_text("int one;\n")
    return folder


def test_contents_of_modules_and_what_is_built_do_not_count(package: Path) -> None:
    before = fingerprint(package, package)
    (package / "src" / "mine" / "one.py").write_text("ONE = 1\n")
    for name in ("build", "__pycache__", ".cache"):
        (package / name).mkdir()
        (package / name / "made.py").write_text("")
        (package / name / "made.cpp").write_text("")
    assert fingerprint(package, package) == before


def test_a_module_that_comes_goes_or_moves_counts_where_the_installation_lists_modules(package: Path) -> None:
    module = package / "src" / "mine" / "one.py"
    seen = {fingerprint(package, package)}
    module.with_name("two.py").write_text("")
    seen.add(fingerprint(package, package))
    module.unlink()
    seen.add(fingerprint(package, package))
    module.with_name("room").mkdir()
    module.with_name("two.py").rename(package / "src" / "mine" / "room" / "two.py")
    seen.add(fingerprint(package, package))
    assert len(seen) == (4 if package.name == "compiled" else 1)


def test_metadata_and_sources_count(package: Path) -> None:
    seen = {fingerprint(package, package)}
    (package / "pyproject.toml").write_text("[project]\nname = 'yours'\n")
    seen.add(fingerprint(package, package))
    (package / "mine.hpp").write_text("int two;\n")
    seen.add(fingerprint(package, package))
    assert len(seen) == 3


def test_what_has_not_begun_when_something_fails_is_left_out() -> None:
    begun: list[int] = []

    def fail() -> None:
        raise Failure("it failed")

    with pytest.raises(Failure, match="it failed"):
        workspace.in_parallel([fail, *(partial(count, begun, number) for number in range(1000))])
    assert len(begun) < 1000


def count(begun: list[int], number: int) -> None:
    """Take some time, and be counted."""
    begun.append(number)
    time.sleep(0.01)


def test_packages_of_the_checkout_are_no_requirements_of_others() -> None:
    needed = [*workspace.build_requirements(), *workspace.requirements_of(MEMBERS)]
    assert len(needed) > 10
    assert [requirement for requirement in needed if requirement.startswith("astra-sim")] == []


# -- Version -----------------------------------------------------------------------------------------------------------


def requirements_of_ours(table: dict[str, Any]) -> list[str]:
    """What a package asks of packages of ours, to be built, to run, and with its extras."""
    project = table["project"]
    extras = [requirement for listed in project.get("optional-dependencies", {}).values() for requirement in listed]
    asked = [*table["build-system"]["requires"], *project.get("dependencies", []), *extras]
    return [requirement for requirement in asked if requirement.startswith("astra-sim")]


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_all_packages_have_the_version_of_the_workspace_and_ask_for_a_kernel_of_its_series(member: Path) -> None:
    table = workspace.toml_of(member)
    assert table["project"]["version"] == release.version()
    asked = requirements_of_ours(table)
    assert VERSION == release.version()
    exactly = "==" if member.name == "engine" else "~="  # the engine follows the tasks and queues of one kernel
    assert set(asked) == (set() if member.name == "core" else {f"{workspace.KERNEL}{exactly}{release.version()}"})


def test_the_bundle_asks_for_every_member_of_its_version() -> None:
    table = workspace.toml_of(workspace.bundle())
    names = [workspace.toml_of(member)["project"]["name"] for member in workspace.members()]
    dependencies = table["project"]["dependencies"]
    assert [asked.split(";")[0] for asked in dependencies] == [f"{name}=={release.version()}" for name in names[:1] + sorted(names[1:])]
    assert all(asked.split(";")[0].endswith(f"=={release.version()}") for asked in requirements_of_ours(table))


def test_the_bundle_leaves_out_on_windows_what_is_not_built_there() -> None:
    """Where a compiled package has neither a wheel for Windows nor one without compiled parts, pip would compile it."""
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "wheels.yml").read_text())
    (windows,) = [each for each in workflow["jobs"]["compiled"]["strategy"]["matrix"]["include"] if each["os"].startswith("windows")]
    only_compiled = [member for member in workspace.members() if workspace.is_compiled(member) and not workspace.works_without(member)]
    missing = [workspace.toml_of(member)["project"]["name"] for member in only_compiled if member.name not in windows["packages"].split()]
    dependencies = workspace.toml_of(workspace.bundle())["project"]["dependencies"]
    assert [asked.split("==")[0] for asked in dependencies if asked.endswith("; sys_platform != 'win32'")] == sorted(missing)
    assert missing


def test_extras_of_the_bundle_are_those_of_its_packages_and_all_is_all_of_them() -> None:
    """But for those that bring what a package has by itself here: pictures come with astra-sim-report."""
    extras = workspace.toml_of(workspace.bundle())["project"]["optional-dependencies"]
    offered = {
        (project["name"], extra)
        for project in (workspace.toml_of(member)["project"] for member in workspace.members())
        for extra in project.get("optional-dependencies", {})
    }
    listed = " ".join(requirement for requirements in extras.values() for requirement in requirements)
    assert {(name, extra) for name, extra in offered if f"{name}[{extra}]==" in listed} == offered - {("astra-sim-network-packet", "plot")}
    assert extras["all"] == [f"astra-sim[{','.join(sorted(extras.keys() - {'all'}))}]=={release.version()}"]
    readme = (workspace.bundle() / "README.md").read_text()
    assert {extra for extra in extras if f"`astra-sim[{extra}]`" in readme} == set(extras)


WRITTEN = [ROOT, *release.distributions()]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of all files that a release changes."""
    for folder in WRITTEN:
        copy = tmp_path / folder.relative_to(ROOT)
        copy.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "pyproject.toml", copy)
    for name in (release.CITATION, release.CHANGELOG, release.EXAMPLE, release.KERNEL_VERSION):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_a_new_version_is_written_everywhere_and_nothing_else(checkout: Path) -> None:
    old = release.version()
    files = [folder.relative_to(ROOT) / "pyproject.toml" for folder in WRITTEN] + [release.CITATION, release.KERNEL_VERSION]
    assert {path.relative_to(checkout) for path in release.write_version("7.8.9rc1", checkout)} == {*files, release.EXAMPLE}
    assert release.version(checkout) == "7.8.9rc1"
    for path in files:
        text = (checkout / path).read_text()
        assert text.replace("7.8.9rc1", old) == (ROOT / path).read_text()
        if path.name == "pyproject.toml":
            table = tomllib.loads(text)
            assert table.get("project", table["tool"].get("astra"))["version"] == "7.8.9rc1"
    assert (checkout / release.CHANGELOG).read_text() == (ROOT / release.CHANGELOG).read_text()


@pytest.mark.parametrize(
    ("version", "asked"),
    [("7.8.9", ">=7.8,<7.10"), ("7.9.0rc1", ">=7.9.0.dev0,<7.11"), ("0.2.0.dev0", ">=0.2.0.dev0,<0.4"), ("1.0.0.post1", ">=1.0,<1.2")],
)
def test_the_example_asks_for_what_a_new_package_would(version: str, asked: str, checkout: Path) -> None:
    release.write_version(version, checkout)
    assert kernel_range(version) == f"astra-sim-core{asked}"
    dependencies = tomllib.loads((checkout / release.EXAMPLE).read_text())["project"]["dependencies"]
    assert kernel_range(version) in dependencies
    assert Version(version) in SpecifierSet(asked, prereleases=True)


def test_a_final_version_closes_the_changelog_and_has_a_date(checkout: Path) -> None:
    before = (checkout / release.CHANGELOG).read_text()
    release.write_version("7.8.9", checkout)
    text = (checkout / release.CHANGELOG).read_text()
    heading = re.search(r"^## Unreleased\n\n(## 7\.8\.9 - (\d{4}-\d\d-\d\d)\n)\n###? ", text, re.MULTILINE)
    assert heading is not None
    assert text.replace(f"{heading[1]}\n", "", 1) == before
    assert f"version: 7.8.9\ndate-released: {heading[2]}\n" in (checkout / release.CITATION).read_text()
    release.write_version("7.9.0.dev0", checkout)
    assert "date-released" not in (checkout / release.CITATION).read_text()
    assert (checkout / release.CHANGELOG).read_text() == text


def test_a_version_that_is_there_and_one_that_changes_nothing_are_refused_and_nothing_is_written(checkout: Path) -> None:
    release.write_version("7.8.9", checkout)
    with pytest.raises(Failure, match=r"has a version 7\.8\.9 already"):
        release.write_version("7.8.9", checkout)
    with pytest.raises(Failure, match="has nothing below '## Unreleased'"):
        release.write_version("7.8.10", checkout)
    assert release.version(checkout) == "7.8.9"


@pytest.mark.parametrize("new", ["", "one", "1.", "1.0", "1.0-beta", '1"'])
def test_what_is_no_version_is_refused(new: str) -> None:
    with pytest.raises(Failure, match="is no version; expected three numbers"):
        release.write_version(new)


def test_the_command_says_the_version() -> None:
    assert dev("version").stdout == release.version() + "\n"


def test_the_changelog_has_versions_the_newest_first_and_each_with_its_day() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / release.CHANGELOG).read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    matches = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) - (\d{4}-\d\d-\d\d)", heading) for heading in headings[1:]]
    versions = [([int(number) for number in match.groups()[:3]], match[4]) for match in matches if match]
    assert len(versions) == len(matches) > 0
    assert versions == sorted(versions, reverse=True)


def test_the_changelog_keeps_to_its_format() -> None:
    kinds = re.findall(r"^### (.*)$", (ROOT / release.CHANGELOG).read_text(), re.MULTILINE)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_a_tag_can_be_released_when_everything_says_its_version(checkout: Path) -> None:
    with pytest.raises(Failure) as raised:
        release.releasable("v7.8.9", checkout)
    result = str(raised.value).splitlines()
    assert f"dev.py: the tag is v7.8.9, and the version {release.version()}; expected v{release.version()}" in result
    assert any("is a version in development" in line for line in result)
    assert any("the project has no address" in line for line in result)
    release.write_address("https://host.example/group/astra", checkout)
    release.write_version("7.8.9rc1", checkout)
    unreleased = release.releasable("v7.8.9rc1", checkout)
    release.write_version("7.8.9", checkout)
    assert release.releasable("v7.8.9", checkout) == unreleased
    assert unreleased.startswith("### ")
    assert "## 0.1.0" not in unreleased
    text = (checkout / "core" / "pyproject.toml").read_text()
    (checkout / "core" / "pyproject.toml").write_text(text.replace('version = "7.8.9"', 'version = "7.8.8"'))
    with pytest.raises(Failure, match=r"^dev\.py: core/pyproject\.toml has version 7\.8\.8; expected 7\.8\.9$"):
        release.releasable("v7.8.9", checkout)


# -- The address of the project ----------------------------------------------------------------------------------------


def test_an_address_is_written_into_all_packages_and_another_one_takes_its_place(checkout: Path) -> None:
    links = {name: f"https://host.example/group/astra{path}" for name, path in release.LINKS.items()}
    written = {}
    for new in ("https://host.example/else", "https://host.example/group/astra"):
        files = release.write_address(new, checkout)
        written = {path: path.read_text() for path in files}
    assert release.address(checkout) == "https://host.example/group/astra"
    for folder in release.distributions():
        table = tomllib.loads(written[checkout / folder.relative_to(ROOT) / "pyproject.toml"])
        assert table["project"].pop("urls") == links
        original = workspace.toml_of(folder)
        original["project"].pop("urls", None)
        assert table == original
    assert "repository-code: https://host.example/group/astra\n" in written[checkout / release.CITATION]
    assert not [path for path, text in written.items() if "host.example/else" in text]


@pytest.mark.parametrize("new", ["", "astra", "http://host.example/astra", "https://host.example", "https://host.example/astra/"])
def test_what_is_no_address_is_refused(new: str) -> None:
    with pytest.raises(Failure, match="is no address; expected that of the repository"):
        release.write_address(new)


# -- Benchmarks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_every_benchmark_has_cases_to_compare(path: Path) -> None:
    cases = runpy.run_path(str(path))["CASES"]
    assert cases
    assert all(callable(case) for case in cases.values())


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    """A disturbed round changes neither the times nor the ratio."""
    assert comparison.row([(1.0, 2.0), (50.0, 2.0), (1.0, 3.0)]).split() == ["1.0000", "2.0000", "2.000", "(0.040", "-", "3.000)"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bench", "unknown"), "the names are auto, caches, chakra, engine"),
        (("bench", "engine", "--against"), "--against REVISION"),
        (("bench", "unknown", "--against", "HEAD"), "the names are auto, caches, chakra, engine"),
        (("version", "1.0", "2.0"), "the new version, or nothing"),
        (("random", "many"), "random takes a check"),
        (("address", "one", "two"), "the address of the repository, or nothing"),
        (("releasable",), "takes one argument, the tag"),
        (("wheels",), "the folder for the wheels"),
        (("wheels", "folder", "--fast"), "the folder for the wheels, and --pure"),
        (("wheels", "--pure"), "the folder for the wheels, and --pure"),
        (("docs", "--strict"), "the folder for the site, or nothing"),
        (("sdists", "-v"), "the folder for the source distributions"),
        (("sdists",), "the folder for the source distributions"),
        (("lint", "core"), "takes no arguments"),
        (("unknown",), "there is no command 'unknown'"),
    ],
)
def test_wrong_arguments_are_told(arguments: tuple[str, ...], words: str) -> None:
    done = dev(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr


def test_help_names_every_command() -> None:
    commands = runpy.run_path(str(ROOT / "dev.py"))["COMMANDS"]
    text = dev("--help").stdout
    assert all(f"python3 dev.py {name}" in text for name in commands)
    assert all(dev(name, "--help").stdout == text for name in ("wheels", "lint", "unknown"))  # and nothing else happens


def test_the_tests_for_sanitizers_exist() -> None:
    assert all((ROOT / path).is_file() for path in runpy.run_path(str(ROOT / "dev.py"))["SANITIZED_TESTS"])


# -- What the first command waits for ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Recorded(Environment):
    """An environment that installs nothing, and says what it would install."""

    installs: list[set[str]] = field(default_factory=list)

    def make(self) -> None:
        self.folder.mkdir(exist_ok=True)

    def _change(self, gone: Sequence[str], requirements: dict[str, list[str]], alone: dict[str, list[str]]) -> None:
        assert not gone

    def _install_packages(self, folders: dict[str, Path]) -> None:
        self.installs.append(set(folders))


def test_packages_that_can_wait_are_left_out_until_something_asks_for_them(tmp_path: Path) -> None:
    environment = _Recorded(tmp_path / "environment")
    later = {"astra-sim-network-packet", "astra-sim-chakra"}
    environment.install(later=later)
    environment.install(later=later)
    assert not any(map(environment.has, later))
    environment.install()
    environment.install(later=later)
    everything = {str(workspace.toml_of(member)["project"]["name"]) for member in workspace.members()}
    assert environment.installs == [everything - later, later]
    assert all(map(environment.has, later))


@pytest.mark.parametrize("variables", [Environment.variables, figures.variables], ids=["command", "benchmark"])
def test_processes_keep_compiled_modules(
    variables: Callable[[Environment], dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (tmp_path / "module.py").touch()
    (tmp_path / "program.py").write_text("import module")
    subprocess.run([sys.executable, tmp_path / "program.py"], env=variables(Environment(tmp_path)), check=True)
    assert list(tmp_path.glob("__pycache__/module.*.pyc"))


@pytest.mark.parametrize(
    ("arguments", "status", "calls"),
    [
        (["one.toml"], 0, ["install later", "run"]),
        (["one.toml"], 1, ["install later", "run"]),
        (["one.toml"], 2, ["install later", "run", "install all", "become"]),
        (["one.toml", "--json"], 0, ["install all", "become"]),
        (["plugins"], 0, ["install all", "become"]),
    ],
)
def test_the_first_experiment_waits_for_what_it_needs(
    arguments: list[str], status: int, calls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.toml").touch()
    done: list[str] = []
    names = runpy.run_path(str(ROOT / "dev.py"))
    ours = types.SimpleNamespace(
        folder=tmp_path,
        has=lambda package: False,
        install=lambda later=(): done.append("install later" if later == list(names["LATER"]) else "install all"),
        become=lambda *command: done.append("become"),
    )
    globals__ = names["astra"].__globals__
    monkeypatch.setitem(globals__, "OURS", ours)

    def run_first(program: Path, arguments: Sequence[str]) -> tuple[int, str]:
        done.append("run")
        return status, "said\n"

    monkeypatch.setitem(globals__, "_run_first", run_first)
    assert names["astra"](arguments) == (status if "become" not in calls else None)
    assert done == calls
    assert ("the next command that starts with dev.py compiles these" in capsys.readouterr().err) == ("become" not in calls)


# -- Builds ------------------------------------------------------------------------------------------------------------

TWO_MODULES = """
cmake_minimum_required(VERSION 3.20)
project(two LANGUAGES CXX)
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
execute_process(COMMAND "${Python_EXECUTABLE}" -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE)
find_package(nanobind CONFIG REQUIRED)
nanobind_add_module(one STABLE_ABI NB_STATIC NOMINSIZE one.cpp)
nanobind_add_module(two NOMINSIZE two.cpp)
"""
MODULE = """
#include <nanobind/nanobind.h>
NB_MODULE({name}, m) {{ m.def("name", [] {{ return "{name}"; }}); }}
"""


def test_development_builds_link_one_nanobind(tmp_path: Path) -> None:
    """Packages compile nothing of it, wherever the environment is, and their modules work."""
    tools = Path(sys.prefix, "bin")
    for name in ("cmake", "ninja"):
        if not (tools / name).exists():
            pytest.skip(f"{name} is not in the environment")
    pytest.importorskip("nanobind")
    environment = _Beside(tmp_path / "an environment", tools)
    linked = dict(option.removeprefix("--config-settings=").split("=", 1) for option in environment._shared_nanobind())
    package = tmp_path / "a package"
    package.mkdir()
    (package / "CMakeLists.txt").write_text(TWO_MODULES)
    for name in ("one", "two"):
        (package / f"{name}.cpp").write_text(MODULE.format(name=name))
    include = f"-DCMAKE_PROJECT_INCLUDE={linked['cmake.define.CMAKE_PROJECT_INCLUDE']}"
    configure: list[str | Path] = [
        tools / "cmake",
        "-S",
        package,
        "-B",
        package / "build",
        "-G",
        "Ninja",
        include,
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    configure += [f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}", "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run(configure, check=True, capture_output=True)
    commands = subprocess.check_output([tools / "ninja", "-C", package / "build", "-t", "commands"], text=True)
    assert "nb_internals" not in commands
    subprocess.run([tools / "cmake", "--build", package / "build"], check=True, capture_output=True)
    program = "import one, two; print(one.name(), two.name())"
    done = subprocess.run([sys.executable, "-c", program], cwd=package / "build", check=True, capture_output=True, text=True)
    assert done.stdout == "one two\n"
    assert linked["build-dir"] != "build/{wheel_tag}"


class _Beside(Environment):
    """An environment in a folder of its own, with the programs of the one that runs the tests."""

    def __init__(self, folder: Path, tools: Path) -> None:
        super().__init__(folder)
        (folder / "bin").mkdir(parents=True)
        for name in ("cmake", "ninja"):
            (folder / "bin" / name).symlink_to(tools / name)

    @property
    def python(self) -> Path:
        return Path(sys.executable)


# -- The tests of one package ------------------------------------------------------------------------------------------


OTHER_PARTS = {"errors", "project", "random_checks", "reference", "released"}
"""Folders of tests of no single package: of errors, the project, its hunts, other simulators, and what users get."""


def test_every_folder_of_tests_is_of_one_package() -> None:
    """Or of another part; and no module lies outside of them."""
    assert suite.parts() - {folder.name for folder in MEMBERS} <= {*OTHER_PARTS, *suite.FOLDERS.values()}
    assert sorted(suite.TESTS.glob("test_*.py")) == []


def test_a_package_stands_for_its_tests() -> None:
    assert suite.chosen(["-q", "engine", "-k", "engine", "tests/llm"]) == ["-q", "tests/engine", "-k", "engine", "tests/llm"]
    assert all((ROOT / suite.tests_of(part)).is_dir() for part in suite.parts())


def test_the_list_of_slow_tests_names_tests_that_exist() -> None:
    names = [re.split(r"::|\[", name)[:2] for name in slow_tests.listed()]
    assert len(names) > 100
    assert [name for path, name in names if not re.search(rf"(def|class) {name}\b", (ROOT / path).read_text(encoding="utf-8"))] == []


def test_tests_that_take_long_run_when_they_are_named() -> None:
    name = "tests/errors/test_fuzzed_files.py::test_spoilt_files_give_an_answer_or_an_error_and_nothing_else"
    assert name in slow_tests.listed()
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/errors/test_fuzzed_files.py"]
    for arguments, count in (([], 1), (["--quick"], 0)):
        done = subprocess.run([*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.stdout.count(name) == count, done.stdout + done.stderr


def test_dev_py_leaves_out_slow_tests_where_none_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    dev = runpy.run_path(str(ROOT / "dev.py"))
    commands: list[tuple[object, ...]] = []
    monkeypatch.setattr(type(dev["OURS"]), "install", lambda *_, **__: None)
    monkeypatch.setattr(type(dev["OURS"]), "become", lambda _, *command: commands.append(command))
    monkeypatch.chdir(ROOT)
    for arguments in ([], ["-q", "--all"], ["core"], ["tests/project/test_docs.py"], ["--dist", "load"]):
        dev["test"](arguments)
    assert ["--quick" in command for command in commands] == [True, False, False, False, True]
    shared_out = [[word for option, word in itertools.pairwise(command) if option == "--dist"][-1:] for command in commands]
    assert shared_out == [["loadfile"], ["loadgroup"], ["loadgroup"], [], ["load"]]
    assert not any("--all" in command for command in commands)


def test_the_slowest_tests_are_told_with_the_time_of_processes_they_waited_for(tmp_path: Path) -> None:
    burn = "import time; end = time.process_time() + 0.4\\nwhile time.process_time() < end: pass"
    (tmp_path / "test_two.py").write_text(
        f"""
import subprocess, sys
def test_quick(): pass
def test_slow(): subprocess.run([sys.executable, "-c", {burn!r}], check=True)
""".replace("\\\\n", "\\n")
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "devtools.slow_tests", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir"]
    for parallel in ([], ["-n", "2"]):
        done = subprocess.run([*command, tmp_path, tmp_path, *parallel], cwd=ROOT, capture_output=True, text=True, check=False)
        matches = re.findall(r"^ +([\d.]+) s  test_two.py(?:::(\w+)| \(2\))$", done.stdout, re.MULTILINE)
        assert [name for _, name in matches] == ["test_slow", "test_quick", ""], done.stdout + done.stderr
        assert float(matches[0][0]) > 0.35 > float(matches[1][0])
