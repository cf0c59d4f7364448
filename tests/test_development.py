"""The commands of dev.py: when a package is installed again, one version for all, and how revisions are compared."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support import ROOT

from devtools import comparison, workspace
from devtools.workspace import Failure, fingerprint

MEMBERS = [*workspace.members(), *workspace.separate()]


def dev(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run dev.py as somebody does who has installed nothing."""
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


# -- Version -----------------------------------------------------------------------------------------------------------


def kernel_requirements(table: dict[str, Any]) -> list[str]:
    """What a package asks of the kernel, to be built and to run."""
    asked = [*table["build-system"]["requires"], *table["project"].get("dependencies", [])]
    return [requirement for requirement in asked if requirement.startswith(workspace.KERNEL)]


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_all_packages_have_the_version_of_the_workspace(member: Path) -> None:
    table = workspace.toml_of(member)
    assert table["project"]["version"] == workspace.version()
    asked = kernel_requirements(table)
    assert set(asked) == (set() if member.name == "core" else {f"{workspace.KERNEL}=={workspace.version()}"})


def test_a_new_version_is_written_everywhere_and_nothing_else(tmp_path: Path) -> None:
    for folder in (ROOT, *MEMBERS):
        copy = tmp_path / folder.relative_to(ROOT)
        copy.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "pyproject.toml", copy)
    old = workspace.version()
    assert len(workspace.write_version("7.8.9rc1", tmp_path)) == 1 + len(MEMBERS)
    assert workspace.version(tmp_path) == "7.8.9rc1"
    for folder in (ROOT, *MEMBERS):
        text = (tmp_path / folder.relative_to(ROOT) / "pyproject.toml").read_text()
        table = tomllib.loads(text)
        if folder != ROOT:
            assert table["project"]["version"] == "7.8.9rc1"
            assert all(asked == f"{workspace.KERNEL}==7.8.9rc1" for asked in kernel_requirements(table))
        assert text.replace("7.8.9rc1", old) == (folder / "pyproject.toml").read_text()


@pytest.mark.parametrize("new", ["", "one", "1.", "1.0-beta", '1"'])
def test_what_is_no_version_is_refused(new: str) -> None:
    with pytest.raises(Failure, match="is no version; expected"):
        workspace.write_version(new)


def test_the_command_says_the_version() -> None:
    assert dev("version").stdout == workspace.version() + "\n"


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
        (("bench", "unknown"), "the names are chakra, engine"),
        (("bench", "engine", "--against"), "--against REVISION"),
        (("bench", "unknown", "--against", "HEAD"), "the names are chakra, engine"),
        (("version", "1.0", "2.0"), "the new version, or nothing"),
        (("random", "many"), "how many experiments"),
        (("wheels",), "the folder for the wheels"),
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


def test_the_tests_for_sanitizers_exist() -> None:
    assert all((ROOT / path).is_file() for path in runpy.run_path(str(ROOT / "dev.py"))["SANITIZED_TESTS"])
