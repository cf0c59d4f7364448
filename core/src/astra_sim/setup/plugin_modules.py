"""The modules with hooks of this process: found through the entry points of installed packages, in files, and registered by hand."""

from __future__ import annotations

import contextlib
import importlib
import operator
import os
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pluggy

from astra_sim import hookspecs
from astra_sim._boundary import call, describe_exception
from astra_sim.errors import InputError, PluginError, suggestion
from astra_sim.setup.entry_points import EntryPoint, entry_points
from astra_sim.setup.known_components import BUILT_IN
from astra_sim.setup.plugin_files import PluginChoice
from astra_sim.value_objects import ValueObject

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
    "report": "astra_reports",
    "explainer": "astra_explainers",
    "command": "astra_commands",
    "engine": "astra_engines",
    "model": "astra_models",
    "serving_policy": "astra_serving_policies",
    "account": "astra_accounts",
    "variation": "astra_variations",
    "placement": "astra_placements",
}
"""Kinds of components and the hooks that offer them."""

_ENTRY_POINTS = "the entry points of installed packages"
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)


@attrs.frozen(eq=False, repr=False)
class PluginInfo(ValueObject):
    """A plugin that was found: its entry point, its distribution, and the error if it failed to import or answer.

    `file` is its path if it is a single file (`-p FILE`), whose name represents the distribution.
    """

    name: str
    module: str
    distribution: str
    version: str
    error: str | None = None
    details: str = ""
    file: str = ""

    @property
    def title(self) -> str:
        """Its name, with the distribution and its version."""
        return f"{self.name} ({self.distribution} {self.version})".replace(" )", ")")


def normal(distribution: str) -> str:
    """The name of a distribution as package indices compare it."""
    return distribution.replace("_", "-").replace(".", "-").lower()


class PluginModules:
    """The modules with hooks, imported when one is first asked for, and what is wrong with them.

    `infos` describes each module. `untold` holds the problems that a run warns of, and whether none has yet.
    """

    def __init__(self, load_entry_points: bool) -> None:
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._load = load_entry_points
        self.infos: list[PluginInfo] = []
        self.untold: dict[str, bool] = {}
        self._choices: dict[str, PluginChoice] = {}
        self._off: set[str] = set()  # distributions with plugins that are switched off

    @property
    def choices(self) -> tuple[PluginChoice, ...]:
        """The plugin files of this process, and the plugins that are switched off, in the order in which they were chosen."""
        return tuple(self._choices.values())

    def choose(self, choices: Iterable[PluginChoice]) -> None:
        """Add plugin files, and switch plugins off. A file of the name of an earlier one takes its place.

        Raises InputError for a name that no installed plugin or distribution has, PluginError if a file cannot be run.
        """
        for choice in choices:
            if self._choices.get(choice.name) == choice:
                continue
            if choice.source is None:
                self._switch_off(choice.name)
            else:
                self._add_file(choice)
            self._choices[choice.name] = choice

    def _switch_off(self, name: str) -> None:
        entries = call(_ENTRY_POINTS, entry_points)
        known = {each for entry in entries for each in (entry.name, entry.distribution)}
        if normal(name) not in map(normal, known):
            raise InputError(f"-p no:{name}: no installed plugin or distribution has this name; {suggestion(name, known)}")
        self._off |= {normal(each.distribution) for each in entries if normal(name) in (normal(each.name), normal(each.distribution))}
        for info in [each for each in self.infos if not each.file and normal(name) in (normal(each.name), normal(each.distribution))]:
            self._remove(info.name)

    def _add_file(self, choice: PluginChoice) -> None:
        """Register the module of a plugin file in place of the same file's earlier one. Raises PluginError without a hook."""
        self.discover()
        module = choice.module()
        for info in [each for each in self.infos if each.file and each.distribution == choice.name]:
            self._remove(info.name)
        name = module.__name__ if not self._manager.has_plugin(module.__name__) else f"{module.__name__}@{choice.name}"
        self.infos.append(PluginInfo(name, module.__name__, choice.name, "file", file=choice.path))
        self._manager.register(module, name)
        self._check_hooks(module, name)
        if not any(each.plugin_name == name for hook in KINDS.values() for each in getattr(self._manager.hook, hook).get_hookimpls()):
            self._remove(name)
            raise PluginError(f"plugin file {choice.path}: no function is marked with @hookimpl; expected hooks such as astra_collectives")

    def _remove(self, name: str) -> None:
        """Take away a plugin that is there, whether it could be imported or not."""
        if self._manager.has_plugin(name):
            self._manager.unregister(name=name)
        self.infos = [info for info in self.infos if info.name != name]

    def register(self, plugin: object, name: str | None = None) -> None:
        """Add a plugin by hand: a module or an object with hook implementations."""
        self.discover()
        registered = call(f"plugin {name or plugin!r}", self._manager.register, plugin, name)
        self._check_hooks(plugin, registered)

    def unregister(self, plugin: object) -> None:
        """Take a plugin away that was added by hand."""
        name = self._manager.get_name(plugin)
        self._manager.unregister(plugin)
        self.infos = [info for info in self.infos if info.module or info.name != name]

    def implementations(self, kind: str) -> Sequence[pluggy.HookImpl]:
        """The functions that offer components of a kind, those of built-in packages first, then by name."""
        self.discover()
        return sorted(getattr(self._manager.hook, KINDS[kind]).get_hookimpls(), key=lambda each: self._rank(each.plugin_name))

    def is_installed(self, distribution: str) -> bool:
        """Whether a distribution has plugins here, which may be switched off."""
        self.discover()
        return normal(distribution) in {normal(info.distribution) for info in self.infos} | self._off

    def discover(self) -> None:
        """Import the plugins of installed distributions, once; those that fail are reported and left out."""
        if not self._load:
            return
        self._load = False
        off = {normal(choice.name) for choice in self.choices if choice.source is None}
        for entry in call(_ENTRY_POINTS, entry_points):
            if off & {normal(entry.name), normal(entry.distribution)}:
                continue
            taken = any(info.name == entry.name for info in self.infos)
            name = f"{entry.name}@{entry.distribution}" if taken else entry.name
            self.infos.append(PluginInfo(name, entry.value, entry.distribution, entry.version))
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    module = _imported(entry)
                if not self._manager.is_registered(module):
                    self._manager.register(module, name)
                    self._check_hooks(module, name)
            except KeyboardInterrupt:
                raise
            except BaseException as problem:
                self.report(name, describe_exception(problem), frames(problem))

    def _check_hooks(self, plugin: object, name: str) -> None:
        """Report functions that are meant as hooks and are none: of an unknown name, or without `hookimpl`."""
        known = set(KINDS.values())
        for attribute in (name for name in dir(plugin) if not name.startswith("__")):
            marks = self._manager.parse_hookimpl_opts(plugin, attribute)
            hook = attribute if marks is None else marks["specname"] or attribute
            if marks is None and hook in known and isinstance(getattr(plugin, attribute), _FUNCTIONS):
                self.report(name, f"its function {hook} is not marked with @hookimpl and is not called", "", tell=True)
            elif marks is not None and hook not in known and not marks["optionalhook"]:
                self.report(name, f"it implements the hook {hook}, which does not exist; {suggestion(hook, known)}", "", tell=True)

    def _rank(self, plugin: str) -> tuple[bool, str]:
        """Of two plugins that offer the same name a built-in one is first, then they go by name."""
        is_built_in = any(info.name == plugin and normal(info.distribution) in BUILT_IN for info in self.infos)
        return not is_built_in, plugin

    def report(self, name: str, error: str, details: str, tell: bool = False) -> None:
        """Record an error of a plugin, for lists and checks; `tell`: and for a warning when something is run."""
        index = next((index for index, info in enumerate(self.infos) if info.name == name), len(self.infos))
        if index == len(self.infos):
            self.infos.append(PluginInfo(name, "", "registered by hand", ""))
        info = self.infos[index]
        if info.error is None or error not in info.error:
            errors = error if info.error is None else f"{info.error}; {error}"
            self.infos[index] = attrs.evolve(info, error=errors, details=info.details or details)
        if tell:
            of = f" of {info.distribution}" if info.module else ""
            self.untold.setdefault(f"plugin {name!r}{of}: {error}", True)


def _imported(entry: EntryPoint) -> Any:
    """The object of an entry point. Extras in brackets behind it have no meaning."""
    module, _, attribute = entry.value.partition("[")[0].replace(" ", "").partition(":")
    imported = importlib.import_module(module)
    return operator.attrgetter(attribute)(imported) if attribute else imported


def frames(problem: BaseException) -> str:
    """The traceback of a plugin's error, but for the frames of modules of plugins, pluggy and the import system. Empty if none is left."""
    import traceback

    from_exception = traceback.TracebackException.from_exception(problem)
    part: traceback.TracebackException | None = from_exception
    count = 0
    while part is not None:
        part.stack = traceback.StackSummary.from_list([frame for frame in part.stack if not frame.filename.startswith(_MACHINERY)])
        count += len(part.stack)
        part = part.__cause__ or part.__context__
    return "".join(from_exception.format()) if count or isinstance(problem, SyntaxError) else ""


_PACKAGES = (os.path.join(os.path.dirname(file), "") for file in (importlib.__file__, pluggy.__file__))
_MACHINERY = (__file__, os.path.join(os.path.dirname(__file__), "plugins.py"), "<frozen importlib", *_PACKAGES)
"""How the names of files that hold no code of a plugin begin."""
