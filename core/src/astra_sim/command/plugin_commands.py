"""The output of `astra plugins`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from astra_sim.command.options import say_json
from astra_sim.options import describe_options
from astra_sim.providers import FileFormat, Provider
from astra_sim.report.layout import Column, Table
from astra_sim.report.screen import Screen
from astra_sim.setup.plugins import Plugins, shared_plugins


def list_components(as_json: bool, every: bool = False) -> None:
    """Print all components by kind, and broken plugins with their error."""
    plugins = shared_plugins()
    rows = [_row(plugins, kind, component) for kind, component in plugins.every_component()]
    broken = [info for info in plugins.infos() if info.error is not None]
    if as_json:
        say_json({"components": rows, "broken": [attrs.asdict(info) for info in broken]})
        return
    columns = Column("kind", "word"), Column("name", "name"), Column("plugin", "word", 1), Column("summary", "text")
    screen = Screen(every)
    screen.table(Table(columns, [[row["kind"], row["name"], row["plugin"], row["summary"]] for row in rows]))
    for info in broken:
        screen.text(f"broken: {info.title}: {info.error}")


def show_components(names: Sequence[str], as_json: bool) -> None:
    """Print the options of components, for every kind that has one of a name. Raises PluginError."""
    plugins = shared_plugins()
    described = []
    for kind, component in plugins.named(names):
        entry: dict[str, Any] = _row(plugins, kind, component)
        entry["options"] = [o._asdict() for o in describe_options(component.load_options())] if isinstance(component, Provider) else []
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
        Column("summary", "text"),
    )
    for entry in described:
        screen.text(f"{entry['kind']} {entry['name']}: {entry['summary']} (plugin {entry['plugin']})")
        if not entry["options"]:
            screen.text("no options")
            continue
        rows = [[option["name"], option["type"], option["default"], option["unit"] or "-", option["help"]] for option in entry["options"]]
        screen.table(Table(columns, rows))


def _row(plugins: Plugins, kind: str, component: Provider | FileFormat) -> dict[str, str]:
    return {"kind": kind, "name": component.name, "plugin": plugins.owner(kind, component.name), "summary": component.summary}
