"""Where a result comes from: the experiment as it was run, in plain tables that can be run again, and the versions of what ran it."""

from __future__ import annotations

import enum
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from astra_sim.engine import has_compiled
from astra_sim.errors import AstraError
from astra_sim.files import Table
from astra_sim.options import Typed, is_shared
from astra_sim.providers import options_of
from astra_sim.setup.experiment import DEFAULTS, SECTIONS, Experiment
from astra_sim.setup.plugins import Plugins
from astra_sim.setup.specs import PREFIX, parse_spec, sizes_of


class Origin(NamedTuple):
    """The experiment of a result, ready for JSON, and the versions of what ran it. Parts of them may be those of other results, too."""

    experiment: Table
    versions: Table


@attrs.frozen(eq=False, repr=False)
class Provenance:
    """Says where the result of a run comes from. It is worked out when it is asked for; a pickled one is worked out before.

    `options` are those of components, by section; `folder` is the working directory of the run, to which paths in them are relative.
    """

    _experiment: Experiment
    _plugins: Plugins
    _options: Mapping[str, Any]
    _folder: str

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownProvenance, (self.origin,)

    @functools.cached_property
    def origin(self) -> Origin:
        """The experiment and the versions."""
        tables = resolved(self._experiment, self._plugins, self._options, self._folder)
        return Origin(tables, versions(self._plugins, tables["run"]["engine"]))


@attrs.frozen(eq=False, repr=False)
class KnownProvenance:
    """Provenance that was worked out before."""

    origin: Origin


def provenance(experiment: Experiment, plugins: Plugins, options: Mapping[str, Any]) -> Provenance:
    """The provenance of a run that is made now, of components with these options."""
    try:
        folder = os.getcwd()
    except OSError:  # it has been deleted: then no relative path has been read either
        folder = ""
    return Provenance(experiment, plugins, options, folder)


def versions(plugins: Plugins, engine: str) -> Table:
    """The versions of astra, of Python and of every distribution with plugins, and the engine that runs where `engine` is chosen."""
    import platform

    return {
        "astra": _version("astra-sim-core"),
        "python": platform.python_version(),
        "engine": "compiled" if engine != "python" and has_compiled() else "python",
        "plugins": {info.distribution: info.version for info in plugins.infos() if info.module},
    }


@functools.cache
def _version(distribution: str) -> str:
    import importlib.metadata

    return importlib.metadata.version(distribution)


def resolved(experiment: Experiment, plugins: Plugins, options: Mapping[str, Any], folder: str) -> Table:
    """All sections of an experiment with all options as a run uses them; paths of options are absolute.

    What a file of a component held is in the tables. A component that was given as an object is `{"object": its class}`, and is all that
    cannot be run again.
    """
    resolver = _Resolver(plugins, folder)
    tables: Table = {"name": experiment.name} if experiment.name else {}
    for kind in SECTIONS:
        given = experiment.sections.get(kind, {} if DEFAULTS[kind] is not None else None)
        if given is None:
            continue
        if not isinstance(given, Mapping):
            tables[kind] = {"object": type(given).__name__}
        elif kind == "platform":
            tables[kind] = resolver.platform(given)
        else:
            tables[kind] = {"plugin": str(given.get("plugin", DEFAULTS[kind])), **resolver.options(options[kind])}
    tables["run"] = resolver.options(experiment.run_options())
    return tables


_MOST_TABLES = 512
_tables: dict[tuple[int, bool], tuple[Any, Table]] = {}
"""Options that runs share, and the tables that were made of them: where no file is named in them, they do not depend on the run."""


@attrs.define(eq=False, repr=False)
class _Resolver:
    """Makes plain tables of options. `named` counts what may be the name of a file."""

    plugins: Plugins
    folder: str
    named: int = 0

    def platform(self, table: Mapping[str, Any]) -> Table:
        """The section `platform`: a component, or a list of dimensions."""
        told: Table = {key: str(table[key]) for key in ("name", "device") if key in table}
        if "logical_dims" in table:
            told["logical_dims"] = sizes_of(table["logical_dims"], "platform: logical_dims")
        rest = {key: value for key, value in table.items() if key not in told}
        for key in ("plugin", "topology"):
            if key in rest:
                return told | self._part(rest, key)
        return told | {"dimensions": [self._part(each, "topology") for each in rest["dimensions"]]}

    def _part(self, table: Mapping[str, Any], key: str) -> Table:
        """The table of dimensions, whose plugin stands under `key`."""
        provider = self.plugins.get("platform", str(table[key]))
        options = options_of(provider, {option: value for option, value in table.items() if option != key}, "platform")
        return {key: str(table[key]), **self.options(options)}

    def options(self, options: Any, brief: bool = False) -> Table:
        """The fields of an options object, if any, that are not None; `brief`: and have another value than the default."""
        known = _tables.get((id(options), brief))
        if known is not None:
            return known[1]
        named = self.named
        table = self._table(options, brief)
        if self.named == named and is_shared(options):
            if len(_tables) >= _MOST_TABLES:
                _tables.clear()
            _tables[id(options), brief] = options, table
        return table

    def _table(self, options: Any, brief: bool) -> Table:
        table: Table = {}
        cls: Any = type(options)
        for name, default, metadata in () if options is None else _fields(cls):
            value = getattr(options, name)
            if value is None or (brief and (value is default or value == default)):
                continue
            if metadata is not None:
                value = self._named(value, metadata)
            table[name] = value if type(value) in (str, int, float, bool) else self.plain(value)
        return table

    def plain(self, value: Any) -> Any:
        """A value of an option as JSON has it. Tables within options leave out what is the default."""
        kind: Any = type(value)
        if _has_fields(kind):
            return self.options(value, brief=True)
        if isinstance(value, enum.Enum):
            return value.value
        if isinstance(value, Mapping):
            return {str(key): self.plain(each) for key, each in value.items()}
        if isinstance(value, Typed):
            return _untyped(value)
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [self.plain(each) for each in value]
        return value

    def _named(self, value: Any, metadata: Mapping[str, Any]) -> Any:
        """A value with absolute paths, by what the field says of it."""
        self.named += 1
        if metadata.get("specs"):
            return _each_text(value, lambda spec: self._spec(metadata["specs"], spec))
        if metadata.get("path") and isinstance(value, str):
            return self._absolute(value, metadata["path"])
        return value

    def _absolute(self, path: str, kind: str) -> str:
        looks_like_one = os.sep in path or os.path.splitext(path)[1] != ""
        if kind == "path" or (looks_like_one and os.path.isfile(os.path.join(self.folder, path))):
            return os.path.normpath(os.path.join(self.folder, path))
        return path

    def _spec(self, kind: str, spec: str) -> str:
        """`NAME?key=value` with absolute paths."""
        if "?" not in spec:
            return spec
        try:
            table = parse_spec(PREFIX + spec)
            name = table.pop("plugin")
            options = self.plugins.get(kind, name).load_options()
        except AstraError:
            return spec  # a name of its own that a system gives to something else
        paths = {field.name: field.metadata["path"] for field in attrs.fields(options) if field.metadata.get("path")} if options else {}
        parts = [f"{key}={self._absolute(value, paths[key]) if key in paths else value}" for key, value in table.items()]
        return f"{name}?{'&'.join(parts)}"


_has_fields = functools.cache(attrs.has)


@functools.cache
def _fields(cls: Any) -> list[tuple[str, Any, Mapping[str, Any] | None]]:
    """The names of the fields of an options class, with defaults, and with what is said of those that name files."""
    found = []
    for field in attrs.fields(cls):
        default = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]
        names_files = field.metadata.get("path") or field.metadata.get("specs")
        found.append((field.name, default, field.metadata if names_files else None))
    return found


def _each_text(value: Any, change: Any) -> Any:
    """A value with each text in it changed: of a list, or under the keys of a table."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each_text(each, change) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_each_text(each, change) for each in value]
    return value


def _untyped(text: Typed) -> Any:
    """What was typed for an option that has no type here, as JSON would have it: a number or true or false where it reads as one."""
    known: dict[str, Any] = {"true": True, "false": False}
    if text.lower() in known:
        return known[text.lower()]
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return str(text)
