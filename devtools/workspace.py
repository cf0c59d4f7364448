"""The packages of this checkout: where they lie, what they are called, what their sources are, and which version they have."""

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
CPP_SUFFIXES = {".c", ".cc", ".cpp", ".h", ".hpp"}
COMPILED_SUFFIXES = {*CPP_SUFFIXES, ".cmake"}
VERSION = re.compile(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?")


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
    """The folders of the packages that are built only where somebody asks for them."""
    return _packages(root, "exclude")


def _packages(root: Path, key: str) -> list[Path]:
    patterns = toml_of(root)["tool"]["uv"]["workspace"].get(key, [])
    return [folder for pattern in patterns for folder in sorted(root.glob(pattern)) if (folder / "pyproject.toml").is_file()]


def build_wheels(directory: Path, python: Path) -> None:
    """Build a wheel of every package, with the pip of that Python. Raises Failure."""
    folders = members()
    pip = (python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", directory, "--find-links", directory)
    began = time.monotonic()
    done: list[str] = []

    def build(folder: Path) -> None:
        name = toml_of(folder)["project"]["name"]
        run_quietly(f"building the wheel of {name}", *pip, folder)
        done.append(name)
        print(f"dev.py: {len(done)} of {len(folders)} wheels after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    core, *plugins = folders
    build(core)  # compiled plugins need it
    in_parallel([partial(build, folder) for folder in sorted(plugins, key=is_compiled, reverse=True)])


def in_parallel(actions: Sequence[Callable[[], None]]) -> None:
    """Call functions, as many at a time as there are processors, until all have ended. Raises what the first of them raised that failed."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for outcome in [pool.submit(action) for action in actions]:
            outcome.result()


def is_compiled(folder: Path) -> bool:
    """Whether a package has compiled sources."""
    return (folder / "CMakeLists.txt").is_file()


def requirements_of(folders: Iterable[Path]) -> list[str]:
    """What packages need to run, but for packages of this checkout."""
    own = {toml_of(member)["project"]["name"] for member in members()}
    needed = {requirement for folder in folders for requirement in toml_of(folder)["project"].get("dependencies", [])}
    return sorted(requirement for requirement in needed if re.split(r"[^\w.-]", requirement, maxsplit=1)[0] not in own)


def build_requirements() -> list[str]:
    """What the packages need to be built, but for each other, and what their build backends ask for themselves."""
    tables = [toml_of(member) for member in members()]
    own = {table["project"]["name"] for table in tables}
    needed = {requirement for table in tables for requirement in table["build-system"]["requires"]}
    needed |= {"cmake>=3.20", "editables>=0.5", "ninja>=1.10"}
    return sorted(requirement for requirement in needed if requirement.split("=")[0] not in own)


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

    That is when it lies elsewhere, has other metadata, other compiled sources or headers they use; and, if it is compiled, other Python
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


# -- Version -----------------------------------------------------------------------------------------------------------


def version(root: Path = ROOT) -> str:
    """The version of all packages, as the workspace's pyproject.toml has it."""
    found: str = toml_of(root)["tool"]["astra"]["version"]
    return found


def write_version(new: str, root: Path = ROOT) -> list[Path]:
    """Write a version into the workspace and all its packages, with what they ask of the kernel. Returns the files. Raises Failure.

    Every package has the version in its own pyproject.toml, so that it can be built alone, and out of a source distribution.
    """
    if not VERSION.fullmatch(new):
        raise Failure(f"dev.py: {new!r} is no version; expected numbers and dots, such as 1.2.0 or 1.2.0rc1", 2)
    files = [folder / "pyproject.toml" for folder in (root, *members(root), *separate(root))]
    for file in files:
        text = re.sub(r'^version = "[^"]*"$', f'version = "{new}"', file.read_text(), flags=re.MULTILINE)
        file.write_text(re.sub(rf'"{KERNEL}==[^"]*"', f'"{KERNEL}=={new}"', text))
    return files
