"""Finds plugins through the entry points of installed packages, and components by kind and name."""

from __future__ import annotations

import contextlib
import functools
import importlib
import operator
import os
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import attrs
import pluggy

from astra_sim import hookspecs
from astra_sim._boundary import call, describe_exception
from astra_sim.errors import InputError, PluginError, suggestion, warn
from astra_sim.providers import FileFormat, Provider, SchedulerProvider
from astra_sim.setup.entry_points import EntryPoint, entry_points
from astra_sim.setup.known_components import BUILT_IN, install_hint, remedy
from astra_sim.setup.plugin_files import PluginChoice

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


@attrs.frozen
class PluginInfo:
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


@attrs.frozen(eq=False, repr=False)
class _Offer:
    """A component and the plugin that offers it, with the name behind the @ of `NAME@DISTRIBUTION`."""

    component: Any
    plugin: str
    distribution: str
    is_built_in: bool

    def is_of(self, distribution: str) -> bool:
        return _normal(distribution) in (_normal(self.distribution), _normal(self.plugin))

    def __str__(self) -> str:
        return self.plugin if self.plugin == self.distribution else f"{self.plugin} of {self.distribution}"


def _normal(distribution: str) -> str:
    """The name of a distribution as package indices compare it."""
    return distribution.replace("_", "-").replace(".", "-").lower()


class Plugins:
    """The plugins of this process. Modules are imported when a component is first asked for, implementations when used.

    `OWN_DISTRIBUTIONS` are those of astra, whose components go before others of the same name; `remedy` tells how to get one.
    """

    OWN_DISTRIBUTIONS = BUILT_IN
    remedy = staticmethod(remedy)

    def __init__(self, load_entry_points: bool = True) -> None:
        self._manager = pluggy.PluginManager(hookspecs.PROJECT)
        self._manager.add_hookspecs(hookspecs)
        self._load = load_entry_points
        self._infos: list[PluginInfo] = []
        self._offers: dict[str, dict[str, list[_Offer]]] = {}
        self._untold: dict[str, bool] = {}
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
        self._forget()

    def _switch_off(self, name: str) -> None:
        entries = call(_ENTRY_POINTS, entry_points)
        known = {each for entry in entries for each in (entry.name, entry.distribution)}
        if _normal(name) not in map(_normal, known):
            raise InputError(f"-p no:{name}: no installed plugin or distribution has this name; {suggestion(name, known)}")
        self._off |= {_normal(each.distribution) for each in entries if _normal(name) in (_normal(each.name), _normal(each.distribution))}
        for info in [each for each in self._infos if not each.file and _normal(name) in (_normal(each.name), _normal(each.distribution))]:
            self._remove(info.name)

    def _add_file(self, choice: PluginChoice) -> None:
        """Register the module of a plugin file in place of the same file's earlier one. Raises PluginError without a hook."""
        self._discover()
        module = choice.module()
        for info in [each for each in self._infos if each.file and each.distribution == choice.name]:
            self._remove(info.name)
        name = module.__name__ if not self._manager.has_plugin(module.__name__) else f"{module.__name__}@{choice.name}"
        self._infos.append(PluginInfo(name, module.__name__, choice.name, "file", file=choice.path))
        self._manager.register(module, name)
        self._check_hooks(module, name)
        if not any(each.plugin_name == name for hook in KINDS.values() for each in getattr(self._manager.hook, hook).get_hookimpls()):
            self._remove(name)
            raise PluginError(f"plugin file {choice.path}: no function is marked with @hookimpl; expected hooks such as astra_collectives")

    def _remove(self, name: str) -> None:
        """Take away a plugin that is there, whether it could be imported or not."""
        if self._manager.has_plugin(name):
            self._manager.unregister(name=name)
        self._infos = [info for info in self._infos if info.name != name]

    def register(self, plugin: object, name: str | None = None) -> None:
        """Add a plugin by hand: a module or an object with hook implementations."""
        self._discover()
        registered = call(f"plugin {name or plugin!r}", self._manager.register, plugin, name)
        self._check_hooks(plugin, registered)
        self._forget()

    def unregister(self, plugin: object) -> None:
        """Take a plugin away that was added by hand."""
        name = self._manager.get_name(plugin)
        self._manager.unregister(plugin)
        self._infos = [info for info in self._infos if info.module or info.name != name]
        self._forget()

    def _forget(self) -> None:
        self._offers.clear()

    def infos(self) -> list[PluginInfo]:
        """All plugins found, broken ones with their error."""
        self._ask_all()
        return list(self._infos)

    def _ask_all(self) -> None:
        if len(self._offers) < len(KINDS):
            for kind in KINDS:
                self._offers_of(kind)

    def tell(self) -> None:
        """Warn, once in a process, about ignored parts of plugins: unknown hooks, and components with the name of a built-in one."""
        self._ask_all()
        for problem, untold in self._untold.items():
            if untold:
                self._untold[problem] = False
                warn(problem)

    def components(self, kind: str) -> dict[str, Any]:
        """All components of a kind by name, one of each name. A plugin that fails is left out; `infos` has the reason."""
        return {name: offers[0].component for name, offers in self._offers_of(kind).items()}

    def every_component(self) -> Iterator[tuple[str, Any]]:
        """The kind and the component of all that there is, kind by kind."""
        for kind in KINDS:
            for component in self.components(kind).values():
                yield kind, component

    def named(self, names: Sequence[str]) -> list[tuple[str, Any]]:
        """The kind and the component of all that have one of some names, or KIND:NAME, each once. Raises PluginError for other names."""
        result = [entry for name in names for entry in self._named(name)]
        return list({(kind, component.name): (kind, component) for kind, component in result}.values())

    def _named(self, name: str) -> list[tuple[str, Any]]:
        kind, colon, plain = name.rpartition(":")
        result = [(k, c) for k, c in self.every_component() if c.name == plain and (not colon or k == kind.replace("-", "_"))]
        if not result:
            for info in self.infos():
                if info.error is not None and info.name == name:
                    raise PluginError(f"plugin {info.title} is broken: {info.error}\n{info.details}")
            raise PluginError(f"there is no component {name!r}; {suggestion(plain, {c.name for _, c in self.every_component()})}")
        return result

    def get(self, kind: str, name: str) -> Any:
        """The component of that kind and name, which may be `NAME@DISTRIBUTION`.

        Raises PluginError: unknown (with known names), a broken plugin's own error, or a name that several plugins offer.
        """
        known = self._offers_of(kind)
        plain, at, distribution = name.rpartition("@")
        if name in known:
            return self._only(kind, name, known[name])
        if at and plain in known:
            offers = [offer for offer in known[plain] if offer.is_of(distribution)]
            if not offers:
                among = suggestion(distribution, {offer.distribution for offer in known[plain]})
                raise PluginError(f"{_words(kind)} {plain!r} is not offered by {distribution!r}; {among}")
            return self._only(kind, plain, offers)
        for info in self._infos:
            if info.error is not None and name.replace("-", "_") in (info.name, *info.name.split("_", 1)[1:]):
                raise PluginError(f"plugin {info.name!r} of {info.distribution} is broken: {info.error}\n{info.details}".rstrip())
        broken = [info.name for info in self._infos if info.error is not None]
        also = f" (broken plugins, see 'astra plugins': {', '.join(broken)})" if broken else ""
        remedy = self.install_hint(kind, name) or suggestion(name, known)
        off = [f"-p no:{choice.name}" for choice in self.choices if choice.source is None]
        also += f" (switched off: {', '.join(off)})" if off else ""
        raise PluginError(f"there is no {_words(kind)} plugin {name!r}; {remedy}{also}")

    def install_hint(self, kind: str, name: str) -> str | None:
        """The installation hint for a missing component of ours; None if its package is installed, or none of ours has it."""
        self._discover()
        installed = {_normal(info.distribution) for info in self._infos} | self._off
        return install_hint(kind, name, installed.__contains__)

    def owner(self, kind: str, name: str) -> str:
        """The name of the plugin that offers a component."""
        return self._offers_of(kind)[name][0].plugin

    def clash(self, kind: str, name: str) -> str | None:
        """Describe the conflict of several plugins that offer a component of that name."""
        first, *others = self._offers_of(kind)[name]
        return f"it is offered by {' and '.join(map(str, (first, *others)))}" if others else None

    def _only(self, kind: str, name: str, offers: list[_Offer]) -> Any:
        """The component of a name that one plugin offers, or a built-in one."""
        first, *others = offers
        if others and not first.is_built_in:
            distributions = [offer.distribution for offer in offers]
            sources = [offer.distribution if distributions.count(offer.distribution) == 1 else offer.plugin for offer in offers]
            choice = " or ".join(f"plugin:{name}@{source}" for source in sources)
            raise PluginError(f"{_words(kind)} {name!r} is offered by {' and by '.join(map(str, offers))}; choose {choice}")
        return first.component

    def _offers_of(self, kind: str) -> dict[str, list[_Offer]]:
        """The providers of a kind, by name; the first is used, unless there are several and none is built in."""
        self._discover()
        if kind not in self._offers:
            self._offers[kind] = {}
            # One implementation at a time, so that one that fails does not stop the others.
            implementations = getattr(self._manager.hook, KINDS[kind]).get_hookimpls()
            for implementation in sorted(implementations, key=lambda i: self._rank(i.plugin_name)):
                for component in self._ask(kind, implementation):
                    self._add(kind, implementation.plugin_name, component)
        return self._offers[kind]

    def _discover(self) -> None:
        """Import the plugins of installed distributions, once; those that fail are reported and left out."""
        if not self._load:
            return
        self._load = False
        off = {_normal(choice.name) for choice in self.choices if choice.source is None}
        for entry in call(_ENTRY_POINTS, entry_points):
            if off & {_normal(entry.name), _normal(entry.distribution)}:
                continue
            taken = any(info.name == entry.name for info in self._infos)
            name = f"{entry.name}@{entry.distribution}" if taken else entry.name
            self._infos.append(PluginInfo(name, entry.value, entry.distribution, entry.version))
            try:
                with contextlib.redirect_stdout(sys.stderr):
                    module = _imported(entry)
                if not self._manager.is_registered(module):
                    self._manager.register(module, name)
                    self._check_hooks(module, name)
            except KeyboardInterrupt:
                raise
            except BaseException as problem:
                self._report(name, describe_exception(problem), _frames(problem))

    def _check_hooks(self, plugin: object, name: str) -> None:
        """Report functions that are meant as hooks and are none: of an unknown name, or without `hookimpl`."""
        known = set(KINDS.values())
        for attribute in (name for name in dir(plugin) if not name.startswith("__")):
            marks = self._manager.parse_hookimpl_opts(plugin, attribute)
            hook = attribute if marks is None else marks["specname"] or attribute
            if marks is None and hook in known and isinstance(getattr(plugin, attribute), _FUNCTIONS):
                self._report(name, f"its function {hook} is not marked with @hookimpl and is not called", "", tell=True)
            elif marks is not None and hook not in known and not marks["optionalhook"]:
                self._report(name, f"it implements the hook {hook}, which does not exist; {suggestion(hook, known)}", "", tell=True)

    def _ask(self, kind: str, implementation: pluggy.HookImpl) -> Iterable[Provider | FileFormat]:
        """The components of one implementation of a hook; none, and a report, if it fails or returns anything else."""
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
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            self._report(implementation.plugin_name, f"{KINDS[kind]}: {describe_exception(problem)}", _frames(problem))
            return []
        return answer

    def _add(self, kind: str, plugin: str, component: Provider | FileFormat) -> None:
        """Record an offer; two offers of one name are reported."""
        distribution = next((info.distribution for info in self._infos if info.name == plugin and info.module), plugin)
        offer = _Offer(component, plugin, distribution, _normal(distribution) in BUILT_IN)
        offers = self._offers[kind].setdefault(component.name, [])
        if any(other.plugin == plugin for other in offers):
            self._report(plugin, f"it offers the {_words(kind)} {component.name!r} twice; the first is used", "")
            return
        if offers:
            first = offers[0]
            used = "which is used" if first.is_built_in else f"and choosing it takes {component.name}@{distribution}"
            problem = f"its {_words(kind)} {component.name!r} is already offered by {first}, {used}"
            self._report(plugin, problem, "", tell=first.is_built_in)
        offers.append(offer)

    def _rank(self, plugin: str) -> tuple[bool, str]:
        """Of two plugins that offer the same name a built-in one is first, then they go by name."""
        is_built_in = any(info.name == plugin and _normal(info.distribution) in BUILT_IN for info in self._infos)
        return not is_built_in, plugin

    def _report(self, name: str, error: str, details: str, tell: bool = False) -> None:
        """Record an error of a plugin, for lists and checks; `tell`: and for a warning when something is run."""
        index = next((index for index, info in enumerate(self._infos) if info.name == name), len(self._infos))
        if index == len(self._infos):
            self._infos.append(PluginInfo(name, "", "registered by hand", ""))
        info = self._infos[index]
        if info.error is None or error not in info.error:
            errors = error if info.error is None else f"{info.error}; {error}"
            self._infos[index] = attrs.evolve(info, error=errors, details=info.details or details)
        if tell:
            of = f" of {info.distribution}" if info.module else ""
            self._untold.setdefault(f"plugin {name!r}{of}: {error}", True)


def _imported(entry: EntryPoint) -> Any:
    """The object of an entry point. Extras in brackets behind it have no meaning."""
    module, _, attribute = entry.value.partition("[")[0].replace(" ", "").partition(":")
    imported = importlib.import_module(module)
    return operator.attrgetter(attribute)(imported) if attribute else imported


def _frames(problem: BaseException) -> str:
    """The traceback of a plugin's error, but for the frames of this module, pluggy and the import system. Empty if none is left."""
    import traceback

    from_exception = traceback.TracebackException.from_exception(problem)
    part: traceback.TracebackException | None = from_exception
    count = 0
    while part is not None:
        part.stack = traceback.StackSummary.from_list([frame for frame in part.stack if not _is_machinery(frame.filename)])
        count += len(part.stack)
        part = part.__cause__ or part.__context__
    return "".join(from_exception.format()) if count or isinstance(problem, SyntaxError) else ""


def _is_machinery(file: str) -> bool:
    packages = os.path.dirname(importlib.__file__), os.path.dirname(pluggy.__file__)
    return file == __file__ or file.startswith("<frozen importlib") or os.path.dirname(file).startswith(packages)


def _words(kind: str) -> str:
    return kind.replace("_", " ")


@functools.cache
def shared_plugins() -> Plugins:
    """The plugins of this process, found once."""
    return Plugins()


def use_plugins(*words: str | os.PathLike[str]) -> None:
    """Choose plugins for this process, as `astra -p WORD`: the path of a Python file with hooks, or `no:NAME` to switch a plugin off.

    Processes of sweeps and of Dask have the same ones. Raises InputError if there is no such file or plugin, PluginError if the file
    cannot be run.
    """
    shared_plugins().choose([PluginChoice.of(word) for word in words])
