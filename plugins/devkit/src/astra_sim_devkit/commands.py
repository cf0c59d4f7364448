"""The commands `astra plugins check` and `astra plugins new`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from astra_sim.commands import Screen, candidates, say_json, shared_plugins
from click.shell_completion import CompletionItem

from astra_sim_devkit.templates import KINDS, new_package
from astra_sim_devkit.testing.apart import check_apart

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _kinds(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Candidates for KIND of `astra plugins new`."""
    return [CompletionItem(name, help=f"{kind.words}: {kind.about}") for name, kind in KINDS.items() if name.startswith(incomplete)]


@click.command()
@click.argument("names", metavar="[NAME...]", nargs=-1, shell_complete=candidates("any_component"))
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    help="Seconds after which the check of a component is ended, which has then failed.",
)
@json_option
@click.pass_obj
def check(outer: tuple[bool, bool], names: tuple[str, ...], timeout_s: float, as_json: bool) -> None:
    """Check that components load and keep their contract; exit status 1 if one does not.

    NAME is a plugin's, a component's, or KIND:NAME (training-loop:data); without one all that is installed is checked, each component in a
    process of its own.
    """
    if not check_components(names, as_json or outer[0], timeout_s):
        sys.exit(1)


@click.command()
@click.argument("kind", shell_complete=_kinds)
@click.argument("name")
@click.option("-o", "--output", metavar="DIR", type=click.Path(), help="The new folder.  [default: NAME]")
@json_option
@click.pass_obj
def new(outer: tuple[bool, bool], kind: str, name: str, output: str | None, as_json: bool) -> None:
    """Write a new plugin package, which works and passes its tests as it is.

    KIND is collective, scheduler, training-loop, workload, system, platform (a topology), network (in Python), network-cpp (in C++),
    compute, memory, format, report, serving-policy or command. NAME is that of the component.
    """
    write_package(kind, name, output, as_json or outer[0])


def check_components(names: Sequence[str], as_json: bool, timeout_s: float) -> bool:
    """Load components (of plugins or by name; without a name all) and run their contracts. Returns whether none has a problem.

    A component whose contract could not be run "loads": it has options without a default, and offers no examples. Each has `timeout_s`
    seconds, and a line when its check has ended.
    """
    plugins = shared_plugins()
    infos = {info.name: info for info in plugins.infos()}
    chosen: list[tuple[str, Any]] = [] if names else list(plugins.every_component())
    broken = [info for info in infos.values() if info.error is not None and (not names or info.name in names)]
    for name in names:
        if name in infos:
            chosen += [(kind, component) for kind, component in plugins.every_component() if plugins.owner(kind, component.name) == name]
        else:
            chosen += plugins.named([name])
    screen, results = None if as_json else Screen(), []

    def tell(kind: str, name: str, problem: str | None, note: str | None) -> None:
        results.append({"kind": kind, "name": name, "problem": problem, "note": note})
        if screen is not None:
            state = "FAILED" if problem is not None else "ok" if note is None else "loads"
            screen.text(f"{state:7}{kind} {name}")
            for text in (problem, note):
                if text is not None:
                    screen.text(text, " " * 7)

    for info in broken:
        tell("plugin", info.title, info.error, None)
    for kind, component in {(kind, each.name): (kind, each) for kind, each in chosen}.values():
        problem, note = check_apart(kind, component, timeout_s)
        tell(kind, component.name, problem if problem is not None or not names else plugins.clash(kind, component.name), note)
    if as_json:
        say_json(results)
    return all(result["problem"] is None for result in results)


def write_package(kind: str, name: str, output: str | None, as_json: bool) -> None:
    """Write a new plugin package, and list its files. Raises InputError if it cannot be."""
    folder = Path(name if output is None else output)
    files = new_package(kind, name, shared_plugins()).write(folder)
    if as_json:
        say_json({"folder": str(folder), "files": files})
        return
    screen = Screen()
    screen.text(f"{len(files)} files in {folder}:")
    for path in files:
        screen.text(path, "  ")
    screen.text(f"next: cd {shlex.quote(str(folder))}; pip install --editable '.[test]'; pytest; astra plugins check {name}")
