"""Finds plugins through the entry points of installed packages, and components by kind and name."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import sys
import traceback
from collections.abc import Iterable
from typing import Any

import attrs
import pluggy

from astra_sim import hookspecs
from astra_sim.boundary import call
from astra_sim.errors import PluginError, suggestion
from astra_sim.providers import FileFormat, Provider, SchedulerProvider

GROUP = "astra_sim"
OURS = "astra-sim-"

KINDS = {
    "workload": "astra_workloads",
    "training_loop": "astra_training_loops",
    "system": "astra_systems",
    "collective": "astra_collectives",
    "scheduler": "astra_schedulers",
    "platform": "astra_platforms",
    "network": "astra_networks",
    "compute": "astra_computes",
    "memory": "astra_memories",
    "format": "astra_formats",
    "command": "astra_commands",
}
"""Kinds of components and the hooks that offer them."""


@attrs.frozen
class PluginInfo:
    """A plugin that was found: its entry point, its distribution, and the error if it failed to import or answer."""

    name: str
    module: str
    distribution: str
    version: str
    error: str | None = None
    details: str = ""


class Plugins:
    """The plugins of this process. Modules are imported when a component is first asked for, implementations when used."""

    def __init__(self, load_entry_points: bool = True) -> None:
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._load = load_entry_points
        self._infos: list[PluginInfo] = []
        self._components: dict[str, dict[str, Provider | FileFormat]] = {}
        self._owners: dict[tuple[str, str], str] = {}

    def register(self, plugin: object, name: str | None = None) -> None:
        """Add a plugin by hand: a module or an object with hook implementations."""
        self._discover()
        call(f"plugin {name or plugin!r}", self._manager.register, plugin, name)
        self._components.clear()

    def unregister(self, plugin: object) -> None:
        """Take a plugin away that was added by hand."""
        self._manager.unregister(plugin)
        self._components.clear()

    def infos(self) -> list[PluginInfo]:
        """All plugins found, broken ones with their error."""
        for kind in KINDS:
            self.components(kind)
        return list(self._infos)

    def components(self, kind: str) -> dict[str, Any]:
        """All components of a kind by name. A plugin that fails is left out; `infos` says why."""
        self._discover()
        if kind not in self._components:
            self._components[kind] = {}
            # One implementation at a time, so that one that fails does not stop the others.
            implementations = getattr(self._manager.hook, KINDS[kind]).get_hookimpls()
            for implementation in sorted(implementations, key=lambda i: self._rank(i.plugin_name)):
                for component in self._ask(kind, implementation):
                    self._add(kind, implementation.plugin_name, component)
        return self._components[kind]

    def get(self, kind: str, name: str) -> Any:
        """The component of that kind and name. Raises PluginError: unknown (with what is known), or a broken plugin's own error."""
        components = self.components(kind)
        if name in components:
            return components[name]
        for info in self._infos:
            if info.error is not None and name.replace("-", "_") in (info.name, *info.name.split("_", 1)[1:]):
                raise PluginError(f"plugin {info.name!r} of {info.distribution} is broken: {info.error}\n{info.details}")
        broken = [info.name for info in self._infos if info.error is not None]
        also = f" (broken plugins, see 'astra plugins': {', '.join(broken)})" if broken else ""
        raise PluginError(f"there is no {kind.replace('_', ' ')} plugin {name!r}; {suggestion(name, components)}{also}")

    def owner(self, kind: str, name: str) -> str:
        """The name of the plugin that offers a component."""
        return self._owners[kind, name]

    def _discover(self) -> None:
        if not self._load:
            return
        self._load = False
        entries = call("the entry points of installed packages", importlib.metadata.entry_points)
        for entry in sorted(entries.select(group=GROUP), key=lambda entry: (entry.name, entry.value)):
            distribution, version = (entry.dist.name, entry.dist.version) if entry.dist else ("?", "?")
            error, details = None, ""
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    module = entry.load()
                if not self._manager.is_registered(module):
                    self._manager.register(module, entry.name if self._manager.get_plugin(entry.name) is None else entry.value)
            except (Exception, SystemExit) as problem:
                error, details = f"{type(problem).__name__}: {problem}", traceback.format_exc()
            self._infos.append(PluginInfo(entry.name, entry.value, distribution, version, error, details))

    def _ask(self, kind: str, implementation: pluggy.HookImpl) -> Iterable[Provider | FileFormat]:
        expected = {"format": FileFormat, "scheduler": SchedulerProvider}.get(kind, Provider)
        try:
            with contextlib.redirect_stdout(sys.stderr):
                answer: list[Provider | FileFormat] = list(implementation.function())  # type: ignore[call-overload]
            for component in answer:
                if not isinstance(component, expected):
                    raise PluginError(f"{component!r} is not a {expected.__name__}")
                if not isinstance(component.name, str) or not isinstance(component.summary, str):
                    raise PluginError(f"{component!r} has a name or a summary that is not text")
        except PluginError as problem:
            self._report(implementation.plugin_name, f"{KINDS[kind]}: {problem}", "")
            return []
        except (Exception, SystemExit) as problem:
            self._report(implementation.plugin_name, f"{KINDS[kind]}: {type(problem).__name__}: {problem}", traceback.format_exc())
            return []
        return answer

    def _add(self, kind: str, plugin: str, component: Provider | FileFormat) -> None:
        if component.name in self._components[kind]:
            first = self._owners[kind, component.name]
            self._report(plugin, f"its {kind} {component.name!r} is already offered by {first}, which is used", "")
            return
        self._components[kind][component.name] = component
        self._owners[kind, component.name] = plugin

    def _rank(self, plugin: str) -> tuple[bool, str]:
        """Of two plugins that offer the same name the first is used: ours, then by name."""
        ours = any(info.name == plugin and info.distribution.startswith(OURS) for info in self._infos)
        return not ours, plugin

    def _report(self, name: str, error: str, details: str) -> None:
        for index, info in enumerate(self._infos):
            if info.name == name:
                self._infos[index] = attrs.evolve(info, error=error, details=details)
                return
        self._infos.append(PluginInfo(name, "", "registered by hand", "", error, details))


@functools.cache
def shared_plugins() -> Plugins:
    """The plugins of this process, found once."""
    return Plugins()
