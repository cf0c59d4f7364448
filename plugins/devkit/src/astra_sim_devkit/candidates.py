"""Completion candidates for a partial value: components and their options, files, keys of `--set`.

The functions of the first part are those that `astra_sim.commands.candidates` names: `completion` makes this module the object of the
root context, where options look for them. The type of a candidate is what follows it: nothing ("open": the value goes on), or a space
("plain").
"""

from __future__ import annotations

import os
import tomllib
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import attrs
import click
from astra_sim.commands import Experiment, shared_plugins
from astra_sim.experiments import SECTIONS, RunOptions
from astra_sim.options import describe_options, given_kind
from astra_sim.providers import load
from astra_sim.results import read_results, tables_of
from click.shell_completion import CompletionItem

Candidates = list[CompletionItem[str]]
Complete = Callable[[click.Context, click.Parameter, str], Candidates]
OPEN = "open"
_PREFIX = "plugin:"


def component(kind: str) -> Complete:
    """Candidates for `plugin:NAME?key=value&...` or a file."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
        named = "" if _PREFIX.startswith(incomplete) else incomplete.removeprefix(_PREFIX)
        result = [] if named == incomplete and named else _with(_PREFIX, _specs(kind, named))
        return [*result, *files(incomplete)]

    return complete


def bare_component(kind: str) -> Complete:
    """Candidates for `NAME?key=value&...`."""
    return lambda ctx, param, incomplete: list(_specs(kind, incomplete))


def assignment(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Candidates for `SECTION.KEY=VALUE`, by the components that the command line and its experiment file name."""
    section, dot, rest = incomplete.partition(".")
    if not dot:
        return [CompletionItem(f"{name}.", OPEN) for name in (*SECTIONS, "run") if name.startswith(section)]
    cls = RunOptions if section == "run" else _options(section, _chosen(ctx, section)) if section in SECTIONS else None
    return list(_with(f"{section}.", _keys(cls, rest, set())))


def one_of(reference: str) -> Complete:
    """Candidates of which a function that takes nothing, "module:function", gives the names; else, files."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
        return _beginning(_named(reference), incomplete) or list(files(incomplete))

    return complete


def any_component(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Candidates for the name of a component of any kind, or KIND:NAME."""
    of_kind, colon, _ = incomplete.partition(":")
    result: dict[str, CompletionItem[str]] = {}
    for kind, provider in shared_plugins().every_component():
        value = f"{of_kind}:{provider.name}" if colon and kind == of_kind.replace("-", "_") else provider.name
        if value.startswith(incomplete):
            result.setdefault(value, CompletionItem(value, help=f"{kind.replace('_', ' ')}: {provider.summary}"))
    return [result[value] for value in sorted(result)]


def table_of_result(ctx: click.Context, param: click.Parameter, incomplete: str) -> Candidates:
    """Candidates for a table of the result that the argument `run` names."""
    _, runs = read_results(ctx.params["run"])
    return _beginning({name: None for run in runs for name in tables_of(run)}, incomplete)


def files(incomplete: str, ending: str = "", folders: bool = True) -> Iterator[CompletionItem[str]]:
    """Folders, which go on, and files with an ending whose paths begin so. Those with a dot in front if it has been typed."""
    folder, name = os.path.split(incomplete)
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder) or "."), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not entry.name.startswith(name) or entry.name.startswith(".") > name.startswith("."):
            continue
        path = os.path.join(folder, entry.name)
        if entry.is_dir():
            if folders:
                yield CompletionItem(f"{path}/", OPEN)
        elif entry.name.endswith(ending):
            yield CompletionItem(path)


def _named(reference: str) -> Iterable[str]:
    """The names that a function, "module:function", lists."""
    names: Iterable[str] = load(reference, "a list of names")()
    return names


def _beginning(names: Iterable[str], incomplete: str) -> Candidates:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


# -- Components and their options --------------------------------------------------------------------------------------


def _with(prefix: str, items: Iterable[CompletionItem[str]]) -> Iterator[CompletionItem[str]]:
    for item in items:
        yield CompletionItem(prefix + item.value, item.type, item.help)


def _specs(kind: str, incomplete: str) -> Iterator[CompletionItem[str]]:
    """The completions of `NAME?key=value&...`."""
    name, mark, query = incomplete.partition("?")
    if not mark:
        for known, provider in sorted(shared_plugins().components(kind).items()):
            if known.startswith(name):
                yield CompletionItem(known, help=provider.summary)
        return
    *complete, last = query.split("&")
    prefix = incomplete.removesuffix(last)
    yield from _with(prefix, _keys(_options(kind, name), last, {part.partition("=")[0] for part in complete}))


def _keys(cls: type | None, incomplete: str, taken: set[str]) -> Iterator[CompletionItem[str]]:
    """The completions of `key=value`, for the options of a class that are not used yet."""
    key, equals, value = incomplete.partition("=")
    if equals:
        yield from _with(f"{key}=", _values(cls, key, value))
        return
    for option in describe_options(cls):
        if option.name.startswith(key) and option.name not in taken and ".N." not in option.name and option.type != "table":
            yield CompletionItem(f"{option.name}=", OPEN, option.help)


def listed(names: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]:
    """Completes a value from the names that a function, "module:function", lists."""
    return lambda ctx, param, incomplete: list(_beginning(_named(names), incomplete))


def _values(cls: type | None, key: str, incomplete: str) -> Iterator[CompletionItem[str]]:
    """The completions of an option's value: one of its choices, yes or no, a component, a file."""
    field, kind = _field(cls, key)
    if field is None:
        return
    if field.metadata.get("names"):
        yield from _beginning(_named(field.metadata["names"]), incomplete)
    if field.metadata.get("specs"):
        yield from _specs(field.metadata["specs"], incomplete)
    elif field.metadata.get("path"):
        yield from files(incomplete)
    yield from _beginning(field.metadata.get("choices") or (("true", "false") if kind is bool else ()), incomplete)


def _field(cls: type | None, key: str) -> tuple[attrs.Attribute[Any] | None, Any]:
    """The field of an options class that `key`, or `table.key`, names, and its type."""
    first, dot, rest = key.partition(".")
    if cls is None or first not in attrs.fields_dict(cls):
        return None, None
    kind = given_kind(typing.get_type_hints(cls)[first])
    if dot:
        return _field(kind, rest) if attrs.has(kind) else (None, None)
    return attrs.fields_dict(cls)[first], kind


def _options(kind: str, name: str | None) -> type | None:
    return None if name is None else shared_plugins().get(kind, name).load_options()


def _chosen(ctx: click.Context, section: str) -> str | None:
    """The component of a section: that of the command line, of the experiment file, or the one that is meant without."""
    experiment = Experiment()
    value = ctx.params.get(section)
    # Behind an option without its value click gives no argument its value: they are left over.
    path = next((path for path in [ctx.params.get("experiment"), *(ctx.params.get("experiments") or ()), *ctx.args] if path), None)
    if isinstance(value, (tuple, list)):
        value = value[-1] if value else None
    base = ""
    if value is None and path is not None:
        with open(path, "rb") as file:
            value = tomllib.load(file).get(section)
        base = os.path.dirname(path)
    if value is not None:
        experiment.use(section, value, shared_plugins(), base)
    table = experiment.sections.get(section, {})
    return table.get("plugin", Experiment.DEFAULTS[section]) if isinstance(table, Mapping) else None
