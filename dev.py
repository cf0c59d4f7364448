#!/usr/bin/env python3
"""Development commands of astra. They need nothing but Python 3.11 or newer.

python3 dev.py astra [ARGUMENTS]   run the command astra as this checkout has it
python3 dev.py test [ARGUMENTS]    run the tests but for the slowest (tests/slow_tests.txt): pytest with these arguments, in the project's
                                   folder, side by side on every processor (-n 0: one after another); --all: the slowest, too; --slow:
                                   say which take the most processor time
python3 dev.py test PACKAGE        run the tests of one package, such as core or network_packet
python3 dev.py ns3 [ARGUMENTS]     build the network ns3, which is not among the other packages (its licence is GPL-2.0-only), and run its
                                   tests: pytest with these arguments. Once built it stays in the environment, up to date
python3 dev.py interop             run the tests that need programs of others: MLCommons' Chakra tools
python3 dev.py frameworks [RELEASE]...  run the tests that need PyTorch and JAX, whose programs are captured, with their two newest
                                   releases, each in an environment of its own; or with some, such as torch-2.15 jax-0.12
python3 dev.py lint                ruff check, ruff format --check, mypy and clang-format --dry-run
python3 dev.py docs [DIR]          build the documentation site into DIR (site), with warnings as errors; docs/*.md are its pages
python3 dev.py bench [NAME]        run the benchmark of that name in benchmarks/, or all
python3 dev.py bench --write [NAME]...  measure the tables of pages, or those of some benchmarks, and write them there. Other
                                   programs are measured beside ours where environment variables name them: see that page
python3 dev.py bench NAME --against REVISION  compare its cases in CPU time with a revision of git, which gets a checkout and an
                                   environment of its own, in a temporary folder
python3 dev.py validate [--short]  compare simulated iterations with measured ones: fit profiles and write docs/validation.md; or run
                                   the short part, and say what differs from what is recorded
python3 dev.py random [N] [FIRST]  run N random experiments (1000) from seed FIRST (0) on, and say what does not hold
python3 dev.py random CHECK [N] [FIRST]  run N cases (100) of a random check of tests/random_checks/; "all": every check as in nightly
python3 dev.py components          write the list of all packages' components into the kernel, which says by it what to install
python3 dev.py version [NEW]       say the version of all packages, or write a new one wherever it stands; a final one closes the changelog
python3 dev.py address [URL]       say where the project lies, or write it wherever packages say so
python3 dev.py releasable TAG      say whether that tag can be released, and what is new in it
python3 dev.py wheels DIR [--pure]  build a wheel of every package into DIR; or those without compiled parts, which also packages have
                                   that work without them
python3 dev.py sdists DIR          build a source distribution of every package into DIR
python3 dev.py sanitize [ARGUMENTS]  run the tests of compiled code (pytest with these arguments) under the address and
                                   undefined-behaviour sanitizers
python3 dev.py races [ARGUMENTS]   run the tests of threads (pytest with these arguments) under the thread sanitizer

What is missing is installed first, into .venv in the project's folder (.venv-sanitize and .venv-races for what is built with
sanitizers): all packages, editable, and the development tools for test and lint. A package is installed again when its
pyproject.toml or its compiled sources have changed, and a compiled one when Python modules have come, gone or moved. The first
`dev.py astra EXPERIMENT` compiles what that experiment needs; the next command compiles the rest.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):
    sys.exit(f"dev.py: Python 3.11 or newer is needed; {sys.executable} is {sys.version.split()[0]}")

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from devtools import comparison, figures, release, suite, workspace
from devtools import frameworks as releases
from devtools.environment import Environment
from devtools.workspace import ROOT, Failure

STATUS_USAGE = 2
STATUS_INTERRUPTED = 130
OURS = Environment()
IN_PARALLEL = ["-n", "auto", "--dist", "loadgroup"]
BY_FILE = ["--dist", "loadfile"]
"""How quick tests are shared out: those of a file in one process, which makes its fixtures once. What groups of files share takes long."""
SANITIZED_TESTS = [
    "tests/engine/test_engine.py",
    "tests/engine/test_engines_agree.py",
    "tests/engine/test_queue_orders.py",
    "tests/core/test_columns.py",
    "tests/core/test_function_table.py",
    "tests/core/test_broken_tables.py",
    "tests/llm/test_networks.py",
    "tests/network_packet/test_packet.py",
    "tests/network_packet/test_packet_quotient.py",
    "tests/network_packet/test_packet_table.py",
    "tests/network_packet/test_packet_traffic.py",
    "tests/network_roce/test_roce.py",
    "tests/network_roce/test_roce_repetition.py",
    "tests/chakra/test_chakra.py",
    "tests/network_analytical/test_congestion.py",
    "tests/network_flow/test_flow.py",
    "tests/network_flow/test_flow_sharing.py",
    "tests/serving/test_compiled.py",
    "tests/synthesis/test_methods.py",
]
THREADED_TESTS = ["tests/network_packet/test_packet_windows.py"]


LATER = ("astra-sim-network-packet", "astra-sim-network-roce", "astra-sim-network-flow", "astra-sim-chakra", "astra-sim-serving")
"""Packages that most experiments do not need, and that take two thirds of the time of an installation to compile."""


def astra(arguments: Sequence[str]) -> int:
    """Run `astra`. An experiment that needs no package of `LATER` does not wait for one to be compiled; the next command builds them."""
    program = OURS.folder / "bin" / "astra"
    missing = [package for package in LATER if not OURS.has(package)]
    if missing and len(arguments) == 1 and Path(arguments[0]).is_file():
        OURS.install(later=missing)
        status, errors = _run_first(program, arguments)
        if status != STATUS_USAGE:
            sys.stderr.write(errors)
            print(f"dev.py: {', '.join(missing)}: the next command that starts with dev.py compiles these", file=sys.stderr)
            return status
    OURS.install()
    return OURS.become(program, *arguments)


def _run_first(program: Path, arguments: Sequence[str]) -> tuple[int, str]:
    """The exit status of a program that has the standard output of this one, and what it wrote to standard error."""
    sys.stdout.flush()
    done = subprocess.run([program, *arguments], env=OURS.variables(), stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


def test(arguments: Sequence[str]) -> int:
    """Run the tests."""
    OURS.install(tools=True)
    os.chdir(ROOT)
    replaced = ["-pdevtools.slow_tests" if argument == "--slow" else argument for argument in arguments if argument != "--all"]
    chosen = suite.chosen(replaced)
    alone = chosen == replaced and _names_tests(arguments)  # a package has many tests, as all have
    parallel = [] if alone else IN_PARALLEL
    if chosen == replaced and not alone and "--all" not in arguments:
        parallel = [*IN_PARALLEL, *BY_FILE]
        chosen.append("--quick")
    OURS.become(OURS.python, "-m", "pytest", *parallel, *chosen)


def interop(arguments: Sequence[str]) -> int:
    """Run the tests that need programs of others."""
    OURS.install(tools=True, others=True)
    os.chdir(ROOT)
    OURS.become(OURS.python, "-m", "pytest", *IN_PARALLEL, *arguments, "tests/chakra/test_chakra.py", "tests/chakra/test_chakra_convert.py")


def frameworks(arguments: Sequence[str]) -> int:
    """Run the tests that need PyTorch and JAX, with each of their two newest releases; those without GPUs will do."""
    os.environ.setdefault("PIP_EXTRA_INDEX_URL", "https://download.pytorch.org/whl/cpu")
    OURS.install(tools=True)
    return releases.run([OURS.python, "-m", "pytest", *IN_PARALLEL], arguments)


def ns3(arguments: Sequence[str]) -> int:
    """Build the network ns3, and run its tests."""
    OURS.install(tools=True, apart=True)
    os.chdir(ROOT)
    OURS.become(OURS.python, "-m", "pytest", *arguments, *([] if _names_tests(arguments) else ["tests/network_ns3/test_ns3.py"]))


def lint(arguments: Sequence[str]) -> int:
    """Run all linters, also those after one that complains."""
    if arguments:
        raise Failure("dev.py: lint takes no arguments", 2)
    OURS.install(tools=True)
    status = 0
    cpp = [str(path.relative_to(ROOT)) for path in workspace.cpp_files()]
    for command, files in (
        (["ruff", "check"], []),
        (["ruff", "format", "--check"], []),
        (["mypy"], []),
        (["clang-format", "--dry-run", "-Werror"], cpp),
    ):
        print("dev.py: " + " ".join(command), file=sys.stderr, flush=True)
        program = OURS.folder / "bin" / command[0]
        if subprocess.run([program, *command[1:], *files], cwd=ROOT, env=OURS.variables(), check=False).returncode:
            status = 1
    return status


def docs(arguments: Sequence[str]) -> int:
    """Build the documentation site."""
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        raise Failure("dev.py: docs takes the folder for the site, or nothing", 2)
    OURS.install(docs=True)
    folder = Path(*arguments).resolve() if arguments else ROOT / "site"
    os.chdir(ROOT)
    os.environ["NO_MKDOCS_2_WARNING"] = "true"  # of Material for MkDocs, about a version that is not used here
    OURS.become(OURS.python, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder)


def bench(arguments: Sequence[str]) -> int:
    """Run one benchmark, or all; or compare the cases of one with a revision."""
    known = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
    match arguments:
        case [name, "--against", revision] if name in known:
            OURS.install()
            for line in comparison.compare(name, revision, OURS):
                print(line)
            return 0
        case ["--write", *names] if not set(names) - set(known):
            OURS.install()
            figures.write(figures.PAGES, OURS, names)
            return 0
        case [] | [_] if not set(arguments) - set(known):
            OURS.install()
            for name in arguments or known:
                command = [OURS.python, ROOT / "benchmarks" / f"{name}.py"]
                status = subprocess.run(command, env=figures.variables(OURS), check=False).returncode
                if status:
                    return status
            return 0
    raise Failure(
        "dev.py: bench takes the name of a benchmark, and --against REVISION; or --write, and names of benchmarks;"
        f" the names are {', '.join(known)}",
        2,
    )


def random(arguments: Sequence[str]) -> int:
    """Run random experiments, and compare."""
    of_checks = bool(arguments) and arguments[0].isidentifier()
    if not of_checks and (len(arguments) > 2 or not all(argument.isdecimal() for argument in arguments)):
        raise Failure("dev.py: random takes how many experiments, and the first seed; or first the name of a check", 2)
    OURS.install(tools=True)
    os.environ["PYTHONPATH"] = str(ROOT / "tests")
    OURS.become(OURS.python, "-m", "random_checks" if of_checks else "support.experiment_checks", *arguments)


def validate(arguments: Sequence[str]) -> int:
    """Run the validation."""
    OURS.install(tools=True)
    os.chdir(ROOT)
    OURS.become(OURS.python, "-m", "validation", *arguments)


def components(arguments: Sequence[str]) -> int:
    """Write the list of components."""
    if arguments:
        raise Failure("dev.py: components takes no arguments", 2)
    OURS.install()
    os.chdir(ROOT)
    OURS.become(OURS.python, "-m", "devtools.components")


def version(arguments: Sequence[str]) -> int:
    """Say the version, or write a new one."""
    if len(arguments) > 1:
        raise Failure("dev.py: version takes the new version, or nothing", 2)
    for new in arguments:
        release.write_version(new)
    print(release.version())
    return 0


def address(arguments: Sequence[str]) -> int:
    """Say where the project lies, or write it."""
    if len(arguments) > 1:
        raise Failure("dev.py: address takes the address of the repository, or nothing", 2)
    for new in arguments:
        release.write_address(new)
    place = release.address()
    if place is None:
        raise Failure("dev.py: the project has no address; python3 dev.py address URL writes one into all packages")
    print(place)
    return 0


def releasable(arguments: Sequence[str]) -> int:
    """Say whether a tag can be released, and what is new in it."""
    if len(arguments) != 1:
        raise Failure("dev.py: releasable takes one argument, the tag", 2)
    print(release.releasable(arguments[0]))
    return 0


def wheels(arguments: Sequence[str]) -> int:
    """Build the wheels."""
    match arguments:
        case [directory] if not directory.startswith("-"):
            OURS.make()
            OURS.install_builders()
            workspace.build_wheels(Path(directory), OURS.python)
        case [directory, "--pure"]:
            OURS.make()
            workspace.build_pure_wheels(Path(directory), OURS.python)
        case _:
            raise Failure("dev.py: wheels takes the folder for the wheels, and --pure", 2)
    return 0


def sdists(arguments: Sequence[str]) -> int:
    """Build the source distributions."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise Failure("dev.py: sdists takes one argument, the folder for the source distributions", 2)
    OURS.make()
    OURS.install_builders()
    workspace.build_sdists(Path(arguments[0]), OURS.python)
    return 0


def sanitize(arguments: Sequence[str]) -> int:
    """Run tests with compiled code under sanitizers, in an environment of its own."""
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"  # Python itself leaks on purpose; what is leaked by ours shows in benchmarks
    os.environ["UBSAN_OPTIONS"] = "print_stacktrace=1"
    os.environ["PYTHONMALLOC"] = "malloc"  # objects of Python are watched as well
    os.environ.setdefault("ASTRA_RANDOM_GRAPHS", "400")
    _test_under("sanitize", "address,undefined", ("asan", "ubsan"), arguments, SANITIZED_TESTS)


def races(arguments: Sequence[str]) -> int:
    """Run tests of threads under the thread sanitizer, in an environment of its own."""
    # It needs memory at the addresses that it expects.
    setarch = shutil.which("setarch")
    fixed_addresses = (setarch, "-R") if setarch else ()
    _test_under("races", "thread", ("tsan",), arguments, THREADED_TESTS, fixed_addresses)


def _test_under(
    name: str, sanitizers: str, libraries: Sequence[str], arguments: Sequence[str], tests: Sequence[str], before: Sequence[str] = ()
) -> NoReturn:
    options = (f"--config-settings=cmake.define.ASTRA_SANITIZE={sanitizers}", f"--config-settings=build-dir=build/{name}")
    environment = Environment(ROOT / f".venv-{name}", options)
    environment.install(tools=True)
    compiler = os.environ.get("CXX", "c++")
    paths = [subprocess.check_output([compiler, f"-print-file-name=lib{library}.so"], text=True).strip() for library in libraries]
    os.environ["LD_PRELOAD"] = " ".join(paths)
    os.chdir(ROOT)
    # What a sanitizer says before it ends the process is not for pytest to keep.
    pytest: tuple[str | Path, ...] = (
        environment.python,
        "-m",
        "pytest",
        "--capture=sys",
        *arguments,
        *([] if _names_tests(arguments) else tests),
    )
    environment.become(*before, *pytest)


def _names_tests(arguments: Sequence[str]) -> bool:
    """Whether arguments of pytest, given in the project's folder, name files or folders."""
    return any(not argument.startswith("-") and Path(argument.partition("::")[0]).exists() for argument in arguments)


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "astra": astra,
    "test": test,
    "ns3": ns3,
    "interop": interop,
    "frameworks": frameworks,
    "lint": lint,
    "docs": docs,
    "bench": bench,
    "random": random,
    "validate": validate,
    "components": components,
    "version": version,
    "address": address,
    "releasable": releasable,
    "wheels": wheels,
    "sdists": sdists,
    "sanitize": sanitize,
    "races": races,
}


OWN_ARGUMENTS = ("astra", "test", "ns3", "sanitize", "races")
"""Commands that pass their arguments on, so that --help is not for us."""


def main(arguments: Sequence[str]) -> int:
    """Run one command. Returns the exit status."""
    asked = any(argument in ("-h", "--help") for argument in arguments) and arguments[0] not in OWN_ARGUMENTS
    if arguments and arguments[0] in COMMANDS and not asked:
        try:
            return COMMANDS[arguments[0]](arguments[1:])
        except Failure as failure:
            print(failure, file=sys.stderr)
            return failure.status
        except KeyboardInterrupt:
            return STATUS_INTERRUPTED
    if arguments and not asked:
        print(f"dev.py: there is no command {arguments[0]!r}\n", file=sys.stderr)
    print((__doc__ or "").strip(), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
