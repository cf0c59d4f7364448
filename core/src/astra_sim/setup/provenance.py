"""The provenance of a result: the experiment as it was run, in plain tables that can be run again, and the versions of the software."""

from __future__ import annotations

import contextlib
import datetime
import enum
import functools
import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import attrs

from astra_sim._version import VERSION
from astra_sim.errors import AstraError
from astra_sim.files import Table
from astra_sim.memo import Cache, is_hashable
from astra_sim.options import Typed
from astra_sim.providers import options_of
from astra_sim.setup.engines import engine_name
from astra_sim.setup.experiment import DEFAULTS, SECTIONS, Experiment
from astra_sim.setup.inputs import InputFiles, changed_inputs, each_text, input_files
from astra_sim.setup.plugins import Plugins
from astra_sim.setup.sources import binary_digests, source_digests
from astra_sim.setup.specs import PREFIX, parse_spec, sizes_of


class Origin(NamedTuple):
    """The experiment of a result, ready for JSON, the versions of the software, and the files that options name, with digests.

    Parts of them may be shared with other results. `invocation` has the values that differ each time: command line, folder, host and date.
    """

    experiment: Table
    versions: Table
    inputs: list[Table]
    invocation: Table


@attrs.frozen(eq=False, repr=False)
class Provenance:
    """Computes the provenance of a run's result. It is computed on request; before pickling it is computed.

    `options` are those of components, by section; `folder` is the working directory of the run, to which paths in them are relative.
    `taken` are the options of the workload that come from the compute model, of those that were `offered`: the compute model will offer
    them again, so the experiment does not have them, but it has values given in place of one, even if that is a default.
    """

    _experiment: Experiment
    _plugins: Plugins
    _options: Mapping[str, Any]
    _folder: str
    _inputs: Sequence[InputFiles]
    _time: float
    _taken: Mapping[str, Any]
    _offered: Mapping[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownProvenance, (self.origin,)

    @functools.cached_property
    def origin(self) -> Origin:
        """The experiment, the versions, the inputs and the invocation."""
        tables = resolved(self._experiment, self._plugins, self._options, self._folder)
        if self._offered and "object" not in tables["workload"]:
            results = self._experiment.sections["workload"]
            tables["workload"] = _as_given(tables["workload"], results, self._taken, self._offered)
        inputs = [files.table() for files in self._inputs]
        result = invocation(self._folder, self._time)
        if self._plugins.choices:
            result["plugins"] = [choice.word for choice in self._plugins.choices]
        return Origin(tables, versions(self._plugins, tables["run"]["engine"]), inputs, result)

    def changed_inputs(self) -> list[str]:
        """The differences of the files of an experiment that was read from a result, a line for each option."""
        return changed_inputs(self._experiment.inputs, self.origin.inputs) if self._experiment.inputs else []


class KnownProvenance(NamedTuple):
    """Provenance that was worked out before."""

    origin: Origin


def provenance(
    experiment: Experiment, plugins: Plugins, options: Mapping[str, Any], taken: Mapping[str, Any], offered: Mapping[str, Any]
) -> Provenance:
    """The provenance of a run that is made now, of components with these options; for `taken` and `offered` see `Provenance`."""
    try:
        folder = os.getcwd()
    except OSError:  # it has been deleted: then no relative path has been read either
        folder = ""
    named = dict.fromkeys(_named_paths(experiment, plugins, options, folder))
    inputs = [files for files in (input_files(option, path) for option, path in named) if files is not None]
    return Provenance(
        experiment=experiment,
        plugins=plugins,
        options=options,
        folder=folder,
        inputs=inputs,
        time=time.time(),
        taken=taken,
        offered=offered,
    )


def _as_given(table: Mapping[str, Any], overrides: Mapping[str, Any], taken: Mapping[str, Any], offered: Mapping[str, Any]) -> Table:
    """The table of a workload without the options from the compute model, and with all options given in place of offered ones."""
    result = {key: value for key, value in table.items() if key not in taken or isinstance(taken[key], Mapping)}
    for key, value in offered.items():
        override = overrides.get(key)
        if isinstance(value, Mapping):
            inner = _as_given(result.get(key, {}), override if isinstance(override, Mapping) else {}, taken.get(key, {}), value)
            if inner or isinstance(override, Mapping):
                result[key] = inner
            else:
                result.pop(key, None)
        elif key in overrides and key not in result:
            result[key] = _untyped(override) if isinstance(override, Typed) else override
    return result


def invocation(folder: str, seconds: float) -> Table:
    """The command line of this process, the working directory, the host, and a time in UTC."""
    import platform

    is_astra = os.path.basename(sys.argv[0]) in ("astra", "__main__.py") if sys.argv else False
    return {
        "command": shlex.join(["astra", *sys.argv[1:]] if is_astra else sys.orig_argv),
        "directory": folder,
        "host": platform.node(),
        "date": datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds"),
    }


def versions(plugins: Plugins, engine: str, edited: bool = False) -> Table:
    """The versions of astra, of Python and of every distribution with plugins, and the engine that runs if `engine` is chosen.

    `sources` has digests of the source of distributions that may change without a new version: editable installations, folders, and of
    plugin files, which are listed among distributions by their names. They are
    those of the code when this process asked first; `edited`: as it is now, as other processes run it.
    """
    import platform

    if edited:
        _sources.cache_clear()
    return {
        "astra": VERSION,
        "python": platform.python_version(),
        "engine": engine_name(engine, plugins),
        "plugins": {info.distribution: info.version for info in plugins.infos() if info.module},
        "sources": dict(_sources(_modules(plugins))) | {each.name: each.digest for each in plugins.choices if each.source is not None},
    }


def binaries(plugins: Plugins) -> dict[str, str]:
    """Digests of the compiled modules of the distributions that `sources` has: they tell builds of the same source apart."""
    return binary_digests(dict(_modules(plugins)))


_KERNEL = "astra-sim-core"


def _modules(plugins: Plugins) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The modules of each distribution with plugins, and of the kernel."""
    result: dict[str, list[str]] = {_KERNEL: [__name__]}
    for info in plugins.infos():
        if info.module and not info.file:
            result.setdefault(info.distribution, []).append(info.module)
    return tuple((distribution, tuple(sorted(modules))) for distribution, modules in sorted(result.items()))


@functools.cache
def _sources(modules: tuple[tuple[str, tuple[str, ...]], ...]) -> dict[str, str]:
    """The digests of the code that this process has loaded: no cache of `memo`, for files that changed since do not count."""
    return source_digests(dict(modules))


def version_differences(recorded: Mapping[str, Any], now: Mapping[str, Any], names: Sequence[str] = ("recorded", "now")) -> list[str]:
    """The packages, Python or engine in which two tables of `versions` differ, a line for each; `names` are the names of the two."""
    first, second = names
    lines = [
        f"{key}: {recorded[key]} ({first}), {now.get(key)} ({second})"
        for key in ("astra", "python", "engine")
        if key in recorded and recorded[key] != now.get(key)
    ]
    plugins, others = (_table(each, "plugins") for each in (recorded, now))
    sources, other_sources = (_table(each, "sources") for each in (recorded, now))
    for name in sorted({*plugins, *others, *sources, *other_sources}):
        version, other = plugins.get(name), others.get(name)
        if version != other:
            lines.append(f"{name}: {version or 'not installed'} ({first}), {other or 'not installed'} ({second})")
        elif "sources" in recorded and sources.get(name) != other_sources.get(name):
            label = f" {version}" if version else ""
            lines.append(f"{name}{label}: the source differs ({_source(sources, name)} {first}, {_source(other_sources, name)} {second})")
    return lines


def _table(versions: Mapping[str, Any], key: str) -> Table:
    value = versions.get(key)
    return dict(value) if isinstance(value, Mapping) else {}


def _source(sources: Mapping[str, Any], name: str) -> str:
    return str(sources.get(name, "as released"))


def resolved(experiment: Experiment, plugins: Plugins, options: Mapping[str, Any], folder: str) -> Table:
    """All sections of an experiment with all options as a run uses them; paths of options are absolute.

    The content of a component's file is in the tables. A component that was given as an object is `{"object": its class}`, and is all that
    cannot be run again.
    """
    resolver = _Resolver(plugins, folder)
    tables: Table = {"name": experiment.name} if experiment.name else {}
    for kind in SECTIONS:
        value = experiment.sections.get(kind, {} if DEFAULTS[kind] is not None else None)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            tables[kind] = {"object": type(value).__name__}
        elif kind == "platform":
            tables[kind] = resolver.platform(value)
        else:
            tables[kind] = {"plugin": str(value.get("plugin", DEFAULTS[kind])), **resolver.options(options[kind])}
    tables |= {name: resolver.options(options[name]) for name in experiment.plugin_sections}
    tables["run"] = resolver.options(experiment.run_options())
    return tables


def _named_paths(experiment: Experiment, plugins: Plugins, options: Mapping[str, Any], folder: str) -> Iterator[tuple[str, str]]:
    """The options that name files, as `section.key`, each with an absolute path, or with how the names of its files begin."""
    resolver = _Resolver(plugins, folder)
    for kind, value in options.items():
        yield from resolver.paths(value, kind)
    table = experiment.sections.get("platform")
    if isinstance(table, Mapping):
        rest = {key: value for key, value in table.items() if key not in ("name", "device", "logical_dims", "without")}
        for key, parts in (("plugin", [rest]), ("topology", [rest]), ("topology", rest.get("dimensions", ()))):
            for part in parts:
                if key in part:
                    yield from resolver.paths(resolver.part_options(part, key), "platform")


_tables: Cache[tuple[int, bool], tuple[Any, Table]] = Cache("option tables", most=1 << 16, largest=1 << 10)
"""The tables of options that name no file, which therefore do not depend on the run.

They are found by the options object, which is kept with its table so that its id stays its own: equal options may have been typed in
different ways (1 and 1.0), and a table records which.
"""


def _cells(value: Any) -> int:
    """The number of values in a table, including those of nested tables and lists."""
    if isinstance(value, Mapping):
        return 1 + sum(map(_cells, value.values()))
    return 1 + sum(map(_cells, value)) if isinstance(value, list) else 1


@attrs.define(eq=False, repr=False)
class _Resolver:
    """Makes plain tables of options. `named` counts values that may be names of files."""

    plugins: Plugins
    folder: str
    named: int = 0

    def platform(self, table: Mapping[str, Any]) -> Table:
        """The section `platform`: a component, or a list of dimensions."""
        result: Table = {key: str(table[key]) for key in ("name", "device") if key in table}
        if "logical_dims" in table:
            result["logical_dims"] = sizes_of(table["logical_dims"], "platform: logical_dims")
        if "without" in table:
            result["without"] = table["without"]
        rest = {key: value for key, value in table.items() if key not in result}
        for key in ("plugin", "topology"):
            if key in rest:
                return result | self._part(rest, key)
        return result | {"dimensions": [self._part(each, "topology") for each in rest["dimensions"]]}

    def _part(self, table: Mapping[str, Any], key: str) -> Table:
        """The table of dimensions, whose plugin is under `key`."""
        return {key: str(table[key]), **self.options(self.part_options(table, key))}

    def part_options(self, table: Mapping[str, Any], key: str) -> Any:
        """The options of dimensions, whose plugin is under `key`."""
        provider = self.plugins.get("platform", str(table[key]))
        return options_of(provider, {option: value for option, value in table.items() if option != key}, "platform")

    def paths(self, options: Any, where: str) -> Iterator[tuple[str, str]]:
        """The fields of an options object that name files, each with its place and an absolute path."""
        cls: Any = type(options)
        for name, _, metadata in _fields(cls) if attrs.has(cls) else ():
            value = getattr(options, name)
            if metadata is None:
                nested: Any = type(value)
                if _has_fields(nested):
                    yield from self.paths(value, f"{where}.{name}")
                continue
            texts: list[str] = []
            each_text(value, texts.append)
            for text in texts:
                if metadata.get("specs"):
                    yield from ((f"{where}.{name}", path) for path in self._paths_of_spec(metadata["specs"], text))
                elif self._is_path(text, metadata["path"]):
                    yield f"{where}.{name}", self._absolute(text, metadata["path"])

    def options(self, options: Any, brief: bool = False) -> Table:
        """The fields of an options object, if any, that are not None; `brief`: and have another value than the default."""
        known = _tables.get((id(options), brief))
        if known is not None:
            return known[1]
        named = self.named
        table = self._table(options, brief)
        if self.named == named and is_hashable(options):
            _tables.add((id(options), brief), (options, table), _cells(table))
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
        """A value of an option as JSON has it. Tables within options leave out defaults."""
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
        """A value with absolute paths, according to the field's metadata."""
        self.named += 1
        if metadata.get("specs"):
            return each_text(value, lambda spec: self._spec(metadata["specs"], spec))
        if metadata.get("path") and isinstance(value, str):
            return self._absolute(value, metadata["path"])
        return value

    def _is_path(self, text: str, kind: str) -> bool:
        looks_like_one = os.sep in text or os.path.splitext(text)[1] != ""
        return kind == "path" or (looks_like_one and os.path.isfile(os.path.join(self.folder, text)))

    def _absolute(self, path: str, kind: str) -> str:
        return os.path.normpath(os.path.join(self.folder, path)) if self._is_path(path, kind) else path

    def _spec(self, kind: str, spec: str) -> str:
        """`NAME?key=value` with absolute paths."""
        name, table, paths = self._parsed_spec(kind, spec)
        if not table:
            return spec
        parts = [f"{key}={self._absolute(value, paths[key]) if key in paths else value}" for key, value in table.items()]
        return f"{name}?{'&'.join(parts)}"

    def _paths_of_spec(self, kind: str, spec: str) -> list[str]:
        """The absolute paths in `NAME?key=value`."""
        _, table, paths = self._parsed_spec(kind, spec)
        return [self._absolute(table[key], paths[key]) for key in table if key in paths and self._is_path(table[key], paths[key])]

    def _parsed_spec(self, kind: str, spec: str) -> tuple[str, Table, dict[str, str]]:
        """The name in `NAME?key=value`, its options, and those of them that name files; no options of other text."""
        if "?" not in spec:
            return spec, {}, {}
        try:
            table = parse_spec(PREFIX + spec)
            name = table.pop("plugin")
            options = self.plugins.get(kind, name).load_options()
        except AstraError:
            return spec, {}, {}  # a name of its own that a system gives to something else
        fields = attrs.fields(options) if options else ()
        return name, table, {field.name: field.metadata["path"] for field in fields if field.metadata.get("path")}


_has_fields = functools.cache(attrs.has)


@functools.cache
def _fields(cls: Any) -> list[tuple[str, Any, Mapping[str, Any] | None]]:
    """The names of the fields of an options class, with defaults, and with the metadata of those that name files."""
    result = []
    for field in attrs.fields(cls):
        default = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]
        names_files = field.metadata.get("path") or field.metadata.get("specs")
        result.append((field.name, default, field.metadata if names_files else None))
    return result


def _untyped(text: Typed) -> Any:
    """The value of an option without a type, parsed as JSON: a number or true or false if it reads as one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for convert in (int, float):
        with contextlib.suppress(ValueError):
            return convert(text)
    return str(text)
