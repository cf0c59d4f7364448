"""The packages of this checkout: their folders, names, sources, and how they are built."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KERNEL = "astra-sim-core"
HEADERS = Path("core", "src", "astra_sim", "include")
PURE = "ASTRA_SIM_PURE"
"""The environment variable with which a package is built without its compiled parts."""
CPP_SUFFIXES = {".c", ".cc", ".cpp", ".h", ".hpp"}
COMPILED_SUFFIXES = {*CPP_SUFFIXES, ".cmake"}


class Failure(Exception):
    """A step failed; the message says which, with its output."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def run_quietly(what: str, *command: str | Path) -> None:
    """Say in one line what happens, and run a command whose output is shown only if it fails. Raises Failure."""
    print(f"dev.py: {what}", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode:
        raise Failure(f"{done.stdout}dev.py: {what} failed (status {done.returncode})")


def toml_of(folder: Path) -> dict[str, Any]:
    """The pyproject.toml of a folder."""
    with open(folder / "pyproject.toml", "rb") as file:
        return tomllib.load(file)


def members(root: Path = ROOT) -> list[Path]:
    """The folders of the packages that are built and installed together, the kernel first."""
    apart = set(separate(root))
    return [folder for folder in _packages(root, "members") if folder not in apart]


def separate(root: Path = ROOT) -> list[Path]:
    """The folders of the packages that are built only on request."""
    return _packages(root, "exclude")


def bundle(root: Path = ROOT) -> Path:
    """The folder of the distribution without code that brings all members."""
    return root / "bundle"


def _packages(root: Path, key: str) -> list[Path]:
    patterns = toml_of(root)["tool"]["uv"]["workspace"].get(key, [])
    return [folder for pattern in patterns for folder in sorted(root.glob(pattern)) if (folder / "pyproject.toml").is_file()]


def build_wheels(directory: Path, python: Path) -> None:
    """Build a wheel of every package that is installed together, and of the bundle, with the pip of that Python.

    Packages without compiled sources take the build backend of that Python, instead of an environment with one of its own. Raises Failure.
    """
    pip = (python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", directory, "--find-links", directory)

    # Sources as few units, nanobind's too: each package builds its own, since a wheel stands by itself.
    units = "--config-settings=cmake.define.CMAKE_UNITY_BUILD=ON"

    def command(folder: Path) -> Sequence[str | Path]:
        how = units if is_compiled(folder) else "--no-build-isolation"
        return (*pip, how, folder)

    core, *plugins = members()
    # Compiled plugins need the kernel, and take longest.
    _build("wheel", [[core], [*sorted(plugins, key=compiled_bytes, reverse=True), bundle()]], command)


def build_development_wheels(directory: Path, python: Path, options: Sequence[str]) -> None:
    """Build wheels of the same packages from what is compiled for an environment of development, with the options of pip given there.

    Files, metadata and modules are those of `build_wheels`, but for how modules are linked; nothing is compiled twice. Raises Failure.
    """
    pip = (python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", directory)
    compiled = [folder for folder in members() if is_compiled(folder)]
    plain = [folder for folder in (*members(), bundle()) if folder not in compiled]
    in_parallel(
        [
            partial(run_quietly, "building wheels of packages without compiled parts", *pip, *plain),
            partial(run_quietly, "building wheels of compiled packages", *pip, *options, *compiled),
        ]
    )


def build_pure_wheels(directory: Path, python: Path) -> None:
    """Build a wheel without compiled parts of every package that works without them, and of the bundle. Raises Failure."""
    pip = ("env", f"{PURE}=1", python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", directory, "--find-links", directory)
    core, *plugins = [folder for folder in members() if not is_compiled(folder) or works_without(folder)]
    _build("wheel", [[core], [*plugins, bundle()]], lambda folder: (*pip, folder))


def build_sdists(directory: Path, python: Path) -> None:
    """Build a source distribution of every package, those apart and the bundle too, with the build backends of that Python.

    Raises Failure.
    """
    build = (python, "-m", "build", "--sdist", "--no-isolation", "--skip-dependency-check", "--outdir", directory)
    _build("source distribution", [[*members(), *separate(), bundle()]], lambda folder: (*build, folder))


def _build(what: str, groups: Sequence[Sequence[Path]], command: Callable[[Path], Sequence[str | Path]]) -> None:
    """Build something of all packages, one group after another, and say how far it is. Raises Failure."""
    began = time.monotonic()
    total = sum(map(len, groups))
    done: list[str] = []

    def build(folder: Path) -> None:
        name = toml_of(folder)["project"]["name"]
        run_quietly(f"building the {what} of {name}", *command(folder))
        done.append(name)
        print(f"dev.py: {len(done)} of {total} {what}s after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    for folders in groups:
        in_parallel([partial(build, folder) for folder in folders])


def in_parallel(actions: Sequence[Callable[[], None]]) -> None:
    """Call functions, as many at a time as there are processors, until all have ended.

    Raises what the first of them raised that failed, or KeyboardInterrupt; those that have not begun by then are left out.
    """
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        outcomes = [pool.submit(action) for action in actions]
        try:
            for outcome in outcomes:
                outcome.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def is_compiled(folder: Path) -> bool:
    """Whether a package has compiled sources."""
    return (folder / "CMakeLists.txt").is_file()


def compiled_bytes(folder: Path) -> int:
    """The bytes of the sources in C++ of a package, which say how long its build takes, beside others; 0 where there are none."""
    return sum(path.stat().st_size for path in files_of(folder) if path.suffix in CPP_SUFFIXES) if is_compiled(folder) else 0


def works_without(folder: Path) -> bool:
    """Whether a package works without its compiled parts, and can be built so."""
    overrides = toml_of(folder)["tool"]["scikit-build"].get("overrides", [])
    return any(PURE in override["if"].get("env", {}) for override in overrides)


def requirements_of(folders: Iterable[Path]) -> list[str]:
    """What packages need to run, but for packages of this checkout."""
    own = {toml_of(member)["project"]["name"] for member in members()}
    needed = {requirement for folder in folders for requirement in toml_of(folder)["project"].get("dependencies", [])}
    return sorted(requirement for requirement in needed if _name(requirement) not in own)


def _name(requirement: str) -> str:
    """The distribution that a requirement asks for."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def build_requirements() -> list[str]:
    """What the packages need to be built, but for each other, and what their build backends ask for themselves."""
    tables = [toml_of(member) for member in members()]
    own = {table["project"]["name"] for table in tables}
    needed = {requirement for table in tables for requirement in table["build-system"]["requires"]}
    needed |= {"cmake>=3.20", "editables>=0.5", "ninja>=1.10"}
    return sorted(requirement for requirement in needed if _name(requirement) not in own)


# -- Sources -----------------------------------------------------------------------------------------------------------


def files_of(folder: Path) -> Iterator[Path]:
    """The files of a package, in a fixed order, without what is built, installed or only for its tests."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in ("build", "dist", "tests", "__pycache__"))
        yield from (Path(place, name) for name in sorted(files))


def cpp_files() -> list[Path]:
    """All sources and headers in C++, those of examples too."""
    return [path for folder in (*members(), *separate(), ROOT / "examples") for path in files_of(folder) if path.suffix in CPP_SUFFIXES]


def fingerprint(member: Path, root: Path = ROOT) -> str:
    """Changes when a package has to be installed again.

    That is if it is in another folder, has other metadata, other compiled sources or headers they use; and, if it is compiled, other Python
    modules: their contents do not matter, but its editable installation keeps a list of them.
    """
    state = hashlib.sha256(os.fsencode(member))
    compiled = is_compiled(member)
    for path in (path for folder in ([member, root / HEADERS] if compiled else [member]) for path in files_of(folder)):
        if path.name in ("pyproject.toml", "CMakeLists.txt") or path.suffix in COMPILED_SUFFIXES:
            state.update(os.fsencode(path) + b"\0" + path.read_bytes() + b"\0")
        elif compiled and path.suffix == ".py":
            state.update(os.fsencode(path) + b"\0")
    return state.hexdigest()
