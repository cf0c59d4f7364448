"""The components of plugins, by kind and name."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pluggy

from astra_sim._boundary import describe_exception
from astra_sim.errors import PluginError, suggestion, warn
from astra_sim.providers import FileFormat, Provider, SchedulerProvider
from astra_sim.setup.known_components import BUILT_IN, install_hint, remedy
from astra_sim.setup.plugin_files import PluginChoice
from astra_sim.setup.plugin_modules import KINDS, PluginInfo, PluginModules, frames, normal


class _Offer(NamedTuple):
    """A component and the plugin that offers it, with the name behind the @ of `NAME@DISTRIBUTION`."""

    component: Any
    plugin: str
    distribution: str
    is_built_in: bool

    def is_of(self, distribution: str) -> bool:
        return normal(distribution) in (normal(self.distribution), normal(self.plugin))

    def __str__(self) -> str:
        return self.plugin if self.plugin == self.distribution else f"{self.plugin} of {self.distribution}"


class Plugins:
    """The plugins of this process. Modules are imported when a component is first asked for, implementations when used.

    `OWN_DISTRIBUTIONS` are those of astra, whose components go before others of the same name; `remedy` tells how to get one.
    """

    OWN_DISTRIBUTIONS = BUILT_IN
    remedy = staticmethod(remedy)

    def __init__(self, load_entry_points: bool = True) -> None:
        self._modules = PluginModules(load_entry_points)
        self._offers: dict[str, dict[str, list[_Offer]]] = {}

    @property
    def choices(self) -> tuple[PluginChoice, ...]:
        """The plugin files of this process, and the plugins that are switched off, in the order in which they were chosen."""
        return self._modules.choices

    def choose(self, choices: Iterable[PluginChoice]) -> None:
        """Add plugin files, and switch plugins off. A file of the name of an earlier one takes its place.

        Raises InputError for a name that no installed plugin or distribution has, PluginError if a file cannot be run.
        """
        self._modules.choose(choices)
        self._offers.clear()

    def register(self, plugin: object, name: str | None = None) -> None:
        """Add a plugin by hand: a module or an object with hook implementations."""
        self._modules.register(plugin, name)
        self._offers.clear()

    def unregister(self, plugin: object) -> None:
        """Take a plugin away that was added by hand."""
        self._modules.unregister(plugin)
        self._offers.clear()

    def infos(self) -> list[PluginInfo]:
        """All plugins found, broken ones with their error."""
        self._ask_all()
        return list(self._modules.infos)

    def _ask_all(self) -> None:
        if len(self._offers) < len(KINDS):
            for kind in KINDS:
                self._offers_of(kind)

    def tell(self) -> None:
        """Warn, once in a process, about ignored parts of plugins: unknown hooks, and components with the name of a built-in one."""
        self._ask_all()
        for problem, untold in self._modules.untold.items():
            if untold:
                self._modules.untold[problem] = False
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
        for info in self._modules.infos:
            if info.error is not None and name.replace("-", "_") in (info.name, *info.name.split("_", 1)[1:]):
                raise PluginError(f"plugin {info.name!r} of {info.distribution} is broken: {info.error}\n{info.details}".rstrip())
        broken = [info.name for info in self._modules.infos if info.error is not None]
        also = f" (broken plugins, see 'astra plugins': {', '.join(broken)})" if broken else ""
        remedy = self.install_hint(kind, name) or suggestion(name, known)
        off = [f"-p no:{choice.name}" for choice in self.choices if choice.source is None]
        also += f" (switched off: {', '.join(off)})" if off else ""
        raise PluginError(f"there is no {_words(kind)} plugin {name!r}; {remedy}{also}")

    def install_hint(self, kind: str, name: str) -> str | None:
        """The installation hint for a missing component of ours; None if its package is installed, or none of ours has it."""
        return install_hint(kind, name, self._modules.is_installed)

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
        if kind not in self._offers:
            self._offers[kind] = {}
            # One implementation at a time, so that one that fails does not stop the others.
            for implementation in self._modules.implementations(kind):
                for component in self._ask(kind, implementation):
                    self._add(kind, implementation.plugin_name, component)
        return self._offers[kind]

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
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            is_ours = isinstance(problem, PluginError)
            error, details = (str(problem), "") if is_ours else (describe_exception(problem), frames(problem))
            self._modules.report(implementation.plugin_name, f"{KINDS[kind]}: {error}", details)
            return []
        return answer

    def _add(self, kind: str, plugin: str, component: Provider | FileFormat) -> None:
        """Record an offer; two offers of one name are reported."""
        distribution = next((info.distribution for info in self._modules.infos if info.name == plugin and info.module), plugin)
        offer = _Offer(component, plugin, distribution, normal(distribution) in BUILT_IN)
        offers = self._offers[kind].setdefault(component.name, [])
        if any(other.plugin == plugin for other in offers):
            self._modules.report(plugin, f"it offers the {_words(kind)} {component.name!r} twice; the first is used", "")
            return
        if offers:
            first = offers[0]
            used = "which is used" if first.is_built_in else f"and choosing it takes {component.name}@{distribution}"
            problem = f"its {_words(kind)} {component.name!r} is already offered by {first}, {used}"
            self._modules.report(plugin, problem, "", tell=first.is_built_in)
        offers.append(offer)


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
