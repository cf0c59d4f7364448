"""`astra doctor`: installed, missing, and broken parts."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import click
from astra_sim.commands import Column, Plugins, Screen, Table, json_option, say_json, shared_plugins
from astra_sim.engines import ReferenceEngine, find_engine
from astra_sim.experiments import cache_folder

KERNEL = "astra-sim-core"


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Report installed, missing and broken parts; exit status 1 if something is broken.

    Broken are plugins that cannot be imported or need another version of a package of astra, packages of astra whose version does not go
    with that of the kernel (another series, the first two numbers, or newer), and a cache folder that cannot be written.
    Packages that are not installed, incomplete extras and a kernel without its compiled engine are reported, but are no fault.
    """
    report = examine()
    if as_json:
        say_json(report)
    else:
        _print(report)
    if report["problems"]:
        sys.exit(1)


def examine() -> dict[str, Any]:
    """The output of `--json`: versions, engine, cache folder, packages, missing ones, extras, broken plugins, and problems as text."""
    installed = {name: version for name in sorted({KERNEL, *Plugins.OWN_DISTRIBUTIONS}) if (version := _version(name)) is not None}
    broken = [attrs.asdict(info) for info in shared_plugins().infos() if info.error is not None]
    folder = cache_folder()
    writable = not folder or _can_be_written(folder)
    problems = [f"plugin {info['name']} of {info['distribution']}: {info['error']}" for info in broken]
    kernel = installed.get(KERNEL)
    problems += [
        f"{name} has version {version}, and {KERNEL} {kernel}; expected {'.'.join(kernel.split('.')[:2])}, and none that is newer"
        for name, version in installed.items()
        if kernel is not None and not _goes_with(version, kernel)
    ]
    plugins = {
        info.distribution for info in shared_plugins().infos() if info.module and not info.file and info.distribution not in installed
    }
    problems += [problem for name in sorted(plugins) for problem in _unmet(name, installed)]
    if not writable:
        problems.append(f"cache folder {folder} cannot be written (ASTRA_CACHE_DIR names another one)")
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": platform.platform(),
        "engine": "python" if find_engine() is ReferenceEngine else "compiled",
        "cache": {"folder": folder or None, "writable": writable if folder else None},
        "packages": installed,
        "missing": sorted(Plugins.OWN_DISTRIBUTIONS - installed.keys()),
        "extras": list(_extras(installed)),
        "broken": broken,
        "problems": problems,
    }


def _goes_with(version: str, kernel: str) -> bool:
    """Whether a package of astra of that version goes with that kernel: the same series, and not newer (docs/plugins.md)."""
    package, core = ([int(number) for number in re.findall(r"\d+", each)[:3]] for each in (version, kernel))
    return package[:2] == core[:2] and package <= core


def _unmet(distribution: str, installed: Mapping[str, str]) -> Iterator[str]:
    """Describe the versions of astra's packages that other distributions require and that are not installed."""
    try:
        requirements = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return
    for requirement in requirements:
        text, _, marker = requirement.partition(";")
        match = re.match(r"\s*([\w.-]+)\s*(?:\[[^]]*\])?\s*\(?([^)]*)", text)
        name = re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""
        if match is None or name not in installed or "extra" in marker:
            continue
        bounds = [each.strip() for each in match[2].split(",") if each.strip()]
        unmet = [bound for bound in bounds if not _meets(installed[name], bound)]
        if unmet:
            needs_newer = any(bound.startswith((">", "~", "==")) and _numbers(bound) > _numbers(installed[name]) for bound in unmet)
            remedy = f"'{name}{','.join(bounds)}'" if needs_newer else distribution
            yield f"{distribution} needs {name} {', '.join(bounds)}, and {installed[name]} is installed; pip install --upgrade {remedy}"


def _meets(version: str, bound: str) -> bool:
    """Whether a version meets a bound such as >=1.2, by its first three numbers."""
    installed, wanted, count = _numbers(version), _numbers(bound), len(re.findall(r"\d+", bound))
    match re.match(r"[<>=!~]*", bound)[0]:  # type: ignore[index]
        case ">=":
            return installed >= wanted
        case ">":
            return installed > wanted
        case "<=":
            return installed <= wanted
        case "<":
            return installed < wanted
        case "==" | "===":
            return installed[:count] == wanted[:count] if bound.endswith("*") else installed == wanted
        case "!=":
            return installed[:count] != wanted[:count] if bound.endswith("*") else installed != wanted
        case "~=":
            return installed >= wanted and installed[: count - 1] == wanted[: count - 1]
    return True


def _numbers(version: str) -> list[int]:
    """The first three numbers of a version; 0 if there are fewer."""
    return [*map(int, re.findall(r"\d+", version)[:3]), 0, 0, 0][:3]


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _can_be_written(folder: str) -> bool:
    """Whether a folder, or the first folder above it that is there, can be written."""
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _extras(installed: dict[str, str]) -> Iterator[dict[str, Any]]:
    """The optional extras of packages, with the distributions that each still lacks."""
    for name in installed:
        wanted: dict[str, list[str]] = {}
        for requirement in importlib.metadata.requires(name) or []:
            extra = re.search(r"""extra\s*==\s*['"]([^'"]+)['"]""", requirement)
            distribution = re.match(r"[\w.-]+", requirement)
            if extra and distribution:
                wanted.setdefault(extra[1], []).append(distribution[0])
        for extra_name, distributions in sorted(wanted.items()):
            yield {"extra": f"{name}[{extra_name}]", "missing": [each for each in distributions if _version(each) is None]}


def _print(findings: dict[str, Any]) -> None:
    """Print the findings, as tables."""
    screen = Screen(every=True)
    engine = "compiled" if findings["engine"] == "compiled" else "in Python: same answers, slower (the compiled one is not installed)"
    screen.text(f"Python {findings['python']}, {findings['executable']}")
    screen.text(f"system {findings['system']}")
    screen.text(f"engine {engine}")
    screen.text(f"cache folder {findings['cache']['folder'] or 'none'}")
    screen.table(Table((Column("package", "word"), Column("version", "word")), [list(row) for row in findings["packages"].items()]))
    for name in findings["missing"]:
        screen.text(f"not installed: {name} ({Plugins.remedy(name)})")
    for extra in findings["extras"]:
        if extra["missing"]:
            screen.text(f"not complete: {extra['extra']}, it lacks {', '.join(extra['missing'])} (pip install '{extra['extra']}')")
    for problem in findings["problems"]:
        screen.text(f"BROKEN: {problem}")
    if not findings["problems"]:
        screen.text("nothing is broken")
