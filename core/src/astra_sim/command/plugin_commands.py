"""What `astra plugins` prints."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from astra_sim.command.options import say_json
from astra_sim.errors import PluginError, suggestion
from astra_sim.options import describe_options
from astra_sim.providers import FileFormat, Provider
from astra_sim.report.layout import Column, Table
from astra_sim.report.screen import Screen
from astra_sim.setup.plugins import KINDS, PluginInfo, Plugins, shared_plugins


def list_components(as_json: bool, every: bool = False) -> None:
    """Print all components by kind, and broken plugins with their error."""
    plugins = shared_plugins()
    rows = [_row(plugins, kind, component) for kind, component in _all(plugins)]
    broken = [info for info in plugins.infos() if info.error is not None]
    if as_json:
        say_json({"components": rows, "broken": [attrs.asdict(info) for info in broken]})
        return
    columns = Column("kind", "word"), Column("name", "name"), Column("plugin", "word", 1), Column("what it is", "text")
    screen = Screen(every)
    screen.table(Table(columns, [[row["kind"], row["name"], row["plugin"], row["summary"]] for row in rows]))
    for info in broken:
        screen.text(f"broken: {_title(info)}: {info.error}")


def show_components(names: Sequence[str], as_json: bool) -> None:
    """Print the options of components, for every kind that has one of a name. Raises PluginError."""
    plugins = shared_plugins()
    found = _each_once(entry for name in names for entry in _find(plugins, name))
    described = []
    for kind, component in found:
        entry: dict[str, Any] = _row(plugins, kind, component)
        entry["options"] = [attrs.asdict(o) for o in describe_options(component.load_options())] if isinstance(component, Provider) else []
        described.append(entry)
    if as_json:
        say_json(described)
        return
    screen = Screen(every=True)
    columns = (
        Column("option", "word"),
        Column("type", "text"),
        Column("default", "text"),
        Column("unit", "word"),
        Column("what it is", "text"),
    )
    for entry in described:
        screen.text(f"{entry['kind']} {entry['name']}: {entry['summary']} (plugin {entry['plugin']})")
        if not entry["options"]:
            screen.text("no options")
            continue
        rows = [[option["name"], option["type"], option["default"], option["unit"] or "-", option["help"]] for option in entry["options"]]
        screen.table(Table(columns, rows))


def check_components(names: Sequence[str], as_json: bool, timeout_s: float) -> bool:
    """Load components (of plugins or by name; without a name all) and run their contracts. Returns whether none has a problem.

    A component whose contract could not be run "loads": it has options without a default, and offers no examples. Each has `timeout_s`
    seconds, and a line when its check has ended.
    """
    from astra_sim.testing.apart import check_apart

    plugins = shared_plugins()
    infos = {info.name: info for info in plugins.infos()}
    chosen: list[tuple[str, Any]] = [] if names else list(_all(plugins))
    broken = [info for info in infos.values() if info.error is not None and (not names or info.name in names)]
    for name in names:
        if name in infos:
            chosen += [(kind, component) for kind, component in _all(plugins) if plugins.owner(kind, component.name) == name]
        else:
            chosen += _find(plugins, name)
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
        tell("plugin", _title(info), info.error, None)
    for kind, component in _each_once(chosen):
        problem, note = check_apart(kind, component, timeout_s)
        tell(kind, component.name, problem if problem is not None or not names else plugins.clash(kind, component.name), note)
    if as_json:
        say_json(results)
    return all(result["problem"] is None for result in results)


def write_package(kind: str, name: str, output: str | None, as_json: bool) -> None:
    """Write a new plugin package, and say what is in it. Raises InputError where it cannot be."""
    from astra_sim.plugin_templates import new_package

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


def _all(plugins: Plugins) -> Iterator[tuple[str, Provider | FileFormat]]:
    for kind in KINDS:
        for component in plugins.components(kind).values():
            yield kind, component


def _find(plugins: Plugins, name: str) -> list[tuple[str, Any]]:
    kind, colon, plain = name.rpartition(":")
    found = [(k, c) for k, c in _all(plugins) if c.name == plain and (not colon or k == kind.replace("-", "_"))]
    if not found:
        for info in plugins.infos():
            if info.error is not None and info.name == name:
                raise PluginError(f"plugin {_title(info)} is broken: {info.error}\n{info.details}")
        raise PluginError(f"there is no component {name!r}; {suggestion(plain, {c.name for _, c in _all(plugins)})}")
    return found


def _each_once(found: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Components that several names may have named, by kind and name."""
    return list({(kind, component.name): (kind, component) for kind, component in found}.values())


def _row(plugins: Plugins, kind: str, component: Provider | FileFormat) -> dict[str, str]:
    return {"kind": kind, "name": component.name, "plugin": plugins.owner(kind, component.name), "summary": component.summary}


def _title(info: PluginInfo) -> str:
    return f"{info.name} ({info.distribution} {info.version})".replace(" )", ")")
