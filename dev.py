#!/usr/bin/env python3
"""Development commands of astra. They need nothing but Python 3.11 or newer.

python3 dev.py astra [ARGUMENTS]   run the command astra as this checkout has it
python3 dev.py test [ARGUMENTS]    run the tests: pytest with these arguments, in the project's folder
python3 dev.py interop             run the tests that need programs of others: MLCommons' Chakra tools
python3 dev.py lint                ruff check, ruff format --check and mypy
python3 dev.py bench [NAME]        run the benchmark of that name in benchmarks/, or all
python3 dev.py random [N] [FIRST]  run N random experiments (1000) from seed FIRST (0) on, and say what does not hold
python3 dev.py wheels DIR          build a wheel of every package into DIR
python3 dev.py sanitize [ARGUMENTS]  run the tests of compiled code (pytest with these arguments) under the address and
                                   undefined-behaviour sanitizers

What is missing is installed first, into .venv in the project's folder (.venv-sanitize for sanitize): all packages, editable, and
the development tools for test and lint. A package is installed again when its pyproject.toml or its compiled sources have changed.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):
    sys.exit(f"dev.py: Python 3.11 or newer is needed; {sys.executable} is {sys.version.split()[0]}")

import hashlib
import json
import os
import subprocess
import sysconfig
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "astra-dev.json"
HEADERS = ROOT / "core" / "src" / "astra_sim" / "include"
TOOLS = "development tools"
BUILD_TOOLS = "build tools"
OTHERS = "programs of others"
COMPILED_SUFFIXES = {".c", ".cc", ".cmake", ".cpp", ".h", ".hpp"}
STATUS_INTERRUPTED = 130
BUILD_OPTIONS: list[str] = []
"""Options of pip for building the packages."""
SANITIZED_TESTS = [
    f"tests/test_{name}.py"
    for name in (
        "engine",
        "engines_agree",
        "queue_orders",
        "columns",
        "function_table",
        "broken_tables",
        "networks",
        "packet",
        "packet_table",
        "packet_traffic",
        "chakra",
        "congestion",
    )
]


class Failure(Exception):
    """A step failed; the message says which, with its output."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


# -- The workspace -----------------------------------------------------------------------------------------------------


def members() -> list[Path]:
    """The folders of all packages."""
    patterns = _toml(ROOT)["tool"]["uv"]["workspace"]["members"]
    return [folder for pattern in patterns for folder in sorted(ROOT.glob(pattern)) if (folder / "pyproject.toml").is_file()]


def build_wheels(directory: Path, python: Path) -> None:
    """Build a wheel of every package, with the pip of that Python. Raises Failure."""
    core, *plugins = members()
    pip = (python, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", directory, "--find-links", directory)
    _run("building the wheel of the kernel", *pip, core)
    _run("building the wheels of the plugins", *pip, *plugins)


def _toml(folder: Path) -> dict[str, Any]:
    with open(folder / "pyproject.toml", "rb") as file:
        return tomllib.load(file)


def _fingerprint(member: Path) -> str:
    """Changes when a package has to be installed again: elsewhere, other metadata, other compiled sources or headers they use."""
    state = hashlib.sha256(os.fsencode(member))
    roots = [member, HEADERS] if (member / "CMakeLists.txt").is_file() else [member]
    for folder, folders, files in (entry for root in roots for entry in os.walk(root)):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in ("build", "dist", "tests"))
        for name in sorted(files):
            if name in ("pyproject.toml", "CMakeLists.txt") or os.path.splitext(name)[1] in COMPILED_SUFFIXES:
                path = Path(folder, name)
                state.update(os.fsencode(path) + b"\0" + path.read_bytes() + b"\0")
    return state.hexdigest()


def _build_requirements() -> list[str]:
    """What the packages need to be built, but for each other, and what their build backends ask for themselves."""
    tables = [_toml(member) for member in members()]
    own = {table["project"]["name"] for table in tables}
    needed = {requirement for table in tables for requirement in table["build-system"]["requires"]}
    needed |= {"cmake>=3.20", "editables>=0.5", "ninja>=1.10"}
    return sorted(requirement for requirement in needed if requirement.split("=")[0] not in own)


# -- Installation ------------------------------------------------------------------------------------------------------


def install(tools: bool = False, others: bool = False) -> None:
    """Bring .venv up to date: the packages, and if asked for the development tools, and programs of others. Raises Failure."""
    folders = {_toml(member)["project"]["name"]: member for member in members()}
    wanted = {name: _fingerprint(member) for name, member in folders.items()}
    requirements = {BUILD_TOOLS: _build_requirements()}
    if tools:
        requirements[TOOLS] = _toml(ROOT)["dependency-groups"]["dev"]
    if others:
        requirements[OTHERS] = _toml(ROOT)["dependency-groups"]["interop"]
    wanted.update({name: json.dumps(listed) for name, listed in requirements.items()})
    _make_environment()
    installed = _read_stamp()
    changed = [name for name in wanted if installed.get(name) != wanted[name]]
    gone = [name for name in installed if name not in folders and name not in (TOOLS, BUILD_TOOLS, OTHERS)]
    if not changed and not gone:
        return
    # An installation that is broken off counts for nothing, but what it may have put there is not forgotten.
    installed.update(dict.fromkeys(changed + gone, ""))
    _write_stamp(installed)
    if gone:
        _run("uninstalling " + ", ".join(gone), PYTHON, "-m", "pip", "uninstall", "--yes", *gone)
    # Packages are built with what is in .venv: first the tools, then the kernel, whose header others are compiled with.
    listed = [requirement for name in requirements if name in changed for requirement in requirements[name]]
    if listed:
        _run("installing " + " and ".join(name for name in requirements if name in changed), PYTHON, "-m", "pip", "install", *listed)
    core, *plugins = folders
    for names in ([core], plugins):
        arguments: list[str | Path] = []
        for name in names:
            arguments += ["--editable", folders[name]] if name in changed else []
        if arguments:
            what = "installing " + ", ".join(name for name in names if name in changed)
            _run(what, PYTHON, "-m", "pip", "install", "--no-build-isolation", *BUILD_OPTIONS, *arguments)
    _write_stamp({name: state for name, state in {**installed, **wanted}.items() if name not in gone})


def _make_environment() -> None:
    """Create .venv, or create it anew where it is incomplete or of another Python version."""
    packages = sysconfig.get_path("purelib", "venv", {"base": str(VENV)})
    if not PYTHON.exists() or not os.path.exists(os.path.join(packages, "pip", "__main__.py")):
        python = f"{sys.version_info.major}.{sys.version_info.minor}"
        _run(f"creating {VENV} with Python {python}", sys.executable, "-m", "venv", "--clear", VENV)


def _read_stamp() -> dict[str, str]:
    """What is installed: names and fingerprints."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def _write_stamp(installed: dict[str, str]) -> None:
    STAMP.write_text(json.dumps(installed, indent=2) + "\n")


# -- Running -----------------------------------------------------------------------------------------------------------


def _run(what: str, *command: str | Path) -> None:
    """Say in one line what happens, and run a command whose output is shown only if it fails. Raises Failure."""
    print(f"dev.py: {what}", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode:
        raise Failure(f"{done.stdout}dev.py: {what} failed (status {done.returncode})")


def _environment() -> dict[str, str]:
    """The environment of a command: as if .venv were activated."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
    variables["VIRTUAL_ENV"] = str(VENV)
    variables["PATH"] = os.pathsep.join([str(VENV / "bin"), os.environ.get("PATH", os.defpath)])
    return variables


def _become(*command: str | Path) -> NoReturn:
    """Go on as another program, which so gets the terminal, the signals and the exit status."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, _environment())


# -- Commands ----------------------------------------------------------------------------------------------------------


def astra(arguments: Sequence[str]) -> int:
    """Run `astra`."""
    install()
    _become(VENV / "bin" / "astra", *arguments)


def test(arguments: Sequence[str]) -> int:
    """Run the tests."""
    install(tools=True)
    os.chdir(ROOT)
    _become(PYTHON, "-m", "pytest", *arguments)


def interop(arguments: Sequence[str]) -> int:
    """Run the tests that need programs of others."""
    install(tools=True, others=True)
    os.chdir(ROOT)
    _become(PYTHON, "-m", "pytest", *arguments, "tests/test_chakra.py", "tests/test_chakra_convert.py")


def lint(arguments: Sequence[str]) -> int:
    """Run all linters, also those after one that complains."""
    if arguments:
        raise Failure("dev.py: lint takes no arguments", 2)
    install(tools=True)
    status = 0
    for command in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]):
        print("dev.py: " + " ".join(command), file=sys.stderr, flush=True)
        if subprocess.run([PYTHON, "-m", *command], cwd=ROOT, env=_environment(), check=False).returncode:
            status = 1
    return status


def bench(arguments: Sequence[str]) -> int:
    """Run one benchmark, or all."""
    known = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
    if len(arguments) > 1 or (arguments and arguments[0] not in known):
        raise Failure(f"dev.py: bench takes the name of a benchmark: {', '.join(known)}", 2)
    install()
    for name in arguments or known:
        status = subprocess.run([PYTHON, ROOT / "benchmarks" / f"{name}.py"], env=_environment(), check=False).returncode
        if status:
            return status
    return 0


def random(arguments: Sequence[str]) -> int:
    """Run random experiments, and compare."""
    if len(arguments) > 2 or not all(argument.isdecimal() for argument in arguments):
        raise Failure("dev.py: random takes how many experiments, and the first seed", 2)
    install(tools=True)
    _become(PYTHON, ROOT / "tests" / "experiment_checks.py", *arguments)


def wheels(arguments: Sequence[str]) -> int:
    """Build the wheels."""
    if len(arguments) != 1:
        raise Failure("dev.py: wheels takes one argument, the folder for the wheels", 2)
    _make_environment()
    build_wheels(Path(arguments[0]), PYTHON)
    return 0


def sanitize(arguments: Sequence[str]) -> int:
    """Run tests with compiled code under sanitizers, in an environment of its own."""
    global VENV, PYTHON, STAMP  # noqa: PLW0603
    VENV = ROOT / ".venv-sanitize"
    PYTHON, STAMP = VENV / "bin" / "python", VENV / "astra-dev.json"
    BUILD_OPTIONS[:] = ["-Ccmake.define.ASTRA_SANITIZE=ON", "-Cbuild-dir=build/sanitize"]
    install(tools=True)
    compiler = os.environ.get("CXX", "c++")
    libraries = [subprocess.check_output([compiler, f"-print-file-name=lib{name}.so"], text=True).strip() for name in ("asan", "ubsan")]
    os.environ["LD_PRELOAD"] = " ".join(libraries)
    # Python itself leaks on purpose; what is leaked by ours shows in the memory figures of the benchmarks.
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"
    os.environ["UBSAN_OPTIONS"] = "print_stacktrace=1"
    os.environ.setdefault("ASTRA_RANDOM_GRAPHS", "400")
    os.chdir(ROOT)
    chosen = any(Path(argument.partition("::")[0]).exists() for argument in arguments)
    _become(PYTHON, "-m", "pytest", *arguments, *([] if chosen else SANITIZED_TESTS))


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "astra": astra,
    "test": test,
    "interop": interop,
    "lint": lint,
    "bench": bench,
    "random": random,
    "wheels": wheels,
    "sanitize": sanitize,
}


def main(arguments: Sequence[str]) -> int:
    """Run one command. Returns the exit status."""
    if arguments and arguments[0] in COMMANDS:
        try:
            return COMMANDS[arguments[0]](arguments[1:])
        except Failure as failure:
            print(failure, file=sys.stderr)
            return failure.status
        except KeyboardInterrupt:
            return STATUS_INTERRUPTED
    asked = bool(arguments) and arguments[0] in ("-h", "--help")
    if arguments and not asked:
        print(f"dev.py: there is no command {arguments[0]!r}\n", file=sys.stderr)
    print((__doc__ or "").strip(), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
