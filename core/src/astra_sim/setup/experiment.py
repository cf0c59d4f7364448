"""Experiments: which workload, system, platform, network, compute and memory, and how to run them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs

from astra_sim._boundary import contain_exits
from astra_sim.errors import InputError, suggestion
from astra_sim.files import Table, parse_toml, read_text
from astra_sim.options import Typed, structure
from astra_sim.results import is_result, read_results
from astra_sim.setup.groups import read_groups
from astra_sim.setup.inputs import absolute_in
from astra_sim.setup.plugins import Plugins, shared_plugins
from astra_sim.setup.run_options import RunOptions
from astra_sim.setup.specs import sections_of, set_value

SECTIONS = ("workload", "system", "network", "platform", "compute", "memory")
"""The components of an experiment. A network file may bring a platform along; a platform of the experiment's own comes after it."""

DEFAULTS = {
    "workload": "layers",
    "system": "astra1",
    "platform": None,
    "network": "analytical",
    "compute": "recorded",
    "memory": "local",
}
"""Names of the plugins that a section without `plugin` means. A platform without one is a list of dimensions."""
_MODULES_OF_VALUES = "builtins", "datetime"
"""Modules of the types of all values of a file. A value of another type is a component, given in Python."""


@attrs.define
class Experiment:
    """An experiment as it was read. `sections` holds a table, or an object given in Python, for each kind of component.

    `KINDS` are those that there are, `DEFAULTS` the plugins of sections that name none. `left_out` is the network in the file of the
    platform, if the experiment takes its network from elsewhere. `inputs` are the files that options named when the result was made from
    which the experiment was read. `plugin_sections` holds those of plugins, such as `energy`.
    """

    KINDS: ClassVar[tuple[str, ...]] = SECTIONS
    DEFAULTS: ClassVar[Mapping[str, str | None]] = DEFAULTS

    name: str = ""
    sections: dict[str, Any] = attrs.field(factory=dict)
    run: Table = attrs.field(factory=dict)
    origin: dict[str, str] = attrs.field(factory=dict)
    left_out: Table | None = None
    inputs: Sequence[Any] = ()
    plugin_sections: dict[str, Table] = attrs.field(factory=dict)

    def check(self) -> None:
        """Raise InputError unless sections and run are tables, and the sections known ones."""
        if not isinstance(self.sections, Mapping) or not isinstance(self.run, Mapping):
            raise InputError(f"an experiment has sections {self.sections!r} and run {self.run!r}; expected tables")
        for section in self.sections:
            if section not in SECTIONS:
                raise InputError(f"an experiment has the section {section!r}; {suggestion(section, SECTIONS)}")

    def copied(self) -> Experiment:
        """A copy, of which a change leaves this one as it is."""
        tables: Any = {name: dict(getattr(self, name)) for name in ("sections", "run", "origin", "plugin_sections")}
        return attrs.evolve(self, **tables)

    def take(self, other: Experiment) -> None:
        """Take over the sections of another experiment."""
        self.sections |= other.sections
        self.origin |= other.origin
        self.plugin_sections |= other.plugin_sections
        if "platform" in other.sections:
            self.left_out = other.left_out

    def use(self, kind: str, value: Any, plugins: Plugins, base: str = "", where: str | None = None) -> None:
        """Set a section to the meaning of a spec string, path or table, or to an object.

        A network file that also describes a platform sets both. Raises InputError for any other value of a file.
        """
        if isinstance(value, (os.PathLike, Mapping)) or type(value).__module__ in _MODULES_OF_VALUES:
            sections = sections_of(kind, value, base, plugins, where or kind)
            # A file that is given as the platform sets nothing else: the network is chosen separately.
            if "platform" in sections:
                self.left_out = sections.get("network") if kind == "platform" else None
            for section, table in sections.items() if kind != "platform" else [("platform", sections["platform"])]:
                if section == "platform" and set(table) == {"logical_dims"}:
                    known = self.sections.get("platform", {})  # the platform that the network's file has named
                    table = {**(known if isinstance(known, Mapping) else {}), **table}
                self.sections[section] = table
                self.origin[section] = os.fspath(value) if isinstance(value, (str, os.PathLike)) else where or kind
        else:
            self.sections[kind] = value
            self.origin[kind] = f"{kind} object"

    def choose(self, key: str, value: Any, base: str = "") -> None:
        """Set an option of the section `run`; groups may be the path of their file. Raises InputError."""
        if key != "groups":
            self.run[key] = value
        elif isinstance(value, (str, os.PathLike)):
            path = os.path.join(base, os.fspath(value))
            self.run["groups"] = read_groups(path)
            self.origin["groups"] = path
        else:
            self.run["groups"] = value
            self.origin["groups"] = "groups"

    def set(self, assignment: str) -> None:
        """Apply `section.key=value`, as `--set` does. Raises InputError."""
        self.assign(*assigned(assignment), f"--set {assignment}")

    def assign(self, path: str, value: Any, where: str) -> None:
        """Set the option `section.key`, whose value has a type; `run.groups` may be the path of a file.

        Raises InputError that begins with `where`.
        """
        section, _, key = path.partition(".")
        if path == "run.groups":
            self.choose("groups", value)
            return
        if section == "run":
            set_value(self.run, key, value, where)
            return
        tables = self.sections if section in SECTIONS else self.plugin_sections
        if tables is self.plugin_sections and section not in tables and section not in plugin_section_names():
            known = (*SECTIONS, "run", *plugin_section_names())
            raise InputError(f"{where}: there is no section {section!r}; {suggestion(section, known)}")
        table = tables.get(section, {})
        if not isinstance(table, Mapping):
            raise InputError(f"{where}: the {section} is an object, and only options of files and specs can be changed")
        table = dict(table)
        set_value(table, key, value, where)
        tables[section] = table

    def where(self, kind: str) -> str:
        """The name of a section in error messages."""
        return self.origin.get(kind, kind)

    def run_options(self) -> RunOptions:
        """The run section, checked. Raises InputError."""
        return structure(RunOptions, self.run, self.where("run"))  # type: ignore[no-any-return]


SECTION_KINDS = ("variation", "account")
"""Kinds of components whose options are a section of an experiment by the name of the component."""


def plugin_section_names(plugins: Plugins | None = None) -> list[str]:
    """The names of sections that plugins add to an experiment. Asked for only if a section has another name than all others."""
    return [name for kind in SECTION_KINDS for name in (plugins or shared_plugins()).components(kind)]


def assigned(assignment: str) -> tuple[str, Typed]:
    """The option and the value of `section.key=value`. Raises InputError."""
    path, equals, value = assignment.partition("=")
    _, dot, key = path.strip().partition(".")
    if not equals or not dot or not key:
        raise InputError(f"--set {assignment}: expected section.key=value, such as system.splits=8")
    return path.strip(), Typed(value.strip())


@contain_exits()
def load_experiment(path: str | os.PathLike[str], plugins: Plugins | None = None) -> Experiment:
    """Read an experiment file (TOML), whose paths are relative to it, or the experiment of a result: its result.json or the folder of it.

    Raises InputError.
    """
    plugins = plugins or shared_plugins()
    file = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(file, str):
        raise InputError(f"{path!r} is not an Experiment or the path of its file")
    if is_result(file):
        file, runs = read_results(file)
        if len(runs) != 1:
            names = ", ".join(repr(run.get("run_name")) for run in runs[:5])
            raise InputError(
                f"{file} holds {len(runs)} runs ({names}{', ...' if len(runs) > 5 else ''}); expected the result of one"
                " (astra rerun --run NAME runs one of them again)"
            )
        return experiment_of(runs[0], file)
    return experiment_from(parse_toml(read_text(file), file), file, plugins)


def experiment_from(table: Table, file: str, plugins: Plugins) -> Experiment:
    """The experiment in a table that was read from a file, whose paths are relative to it. Raises InputError."""
    experiment = Experiment(name=os.path.splitext(os.path.basename(file))[0])
    _read_others(experiment, table, file, plugins)
    if "name" in table:
        if not isinstance(table["name"], str):
            raise InputError(f"{file}: name is {table['name']!r}, not text")
        experiment.name = table["name"]
    for kind in SECTIONS:
        if kind in table:
            experiment.use(kind, table[kind], plugins, os.path.dirname(file), f"{file}: {kind}")
    if "groups" in experiment.run:
        experiment.choose("groups", experiment.run["groups"], os.path.dirname(file))
    return experiment


_OTHER_FILES = {
    **dict.fromkeys(("loop", "layers"), "this looks like a workload: --workload"),
    "jobs": "this is a file of several jobs: astra jobs FILE",
    **dict.fromkeys(("base", "axes"), "this is a file of a sweep or a search: astra sweep FILE, astra search FILE"),
    "expect": "this is a file of expectations: astra assert FILE",
    "serving": "this is a file of servers: astra serve FILE",
    "schedule": "this is a file of the jobs of a cluster: astra jobs FILE",
    "goodput": "this is a file of months of training: astra goodput FILE, which says what is lost to what",
}
"""Keys of files that are no experiments, and the commands that read them."""


def _read_others(experiment: Experiment, table: Table, file: str, plugins: Plugins) -> None:
    """Take over the sections of plugins, and `run`. Raises InputError if no plugin adds one of that name, or one is no table."""
    known = ("name", "run", *SECTIONS)
    for key, section in table.items():
        if key in known:
            continue
        names = plugin_section_names(plugins)
        if key not in names:
            hint = next(filter(None, (plugins.install_hint(kind, key) for kind in SECTION_KINDS)), None) or suggestion(
                key, (*known, *names)
            )
            raise InputError(f"{file}: unknown key {key!r}; {_OTHER_FILES.get(key, hint)}")
        if not isinstance(section, dict):
            raise InputError(f"{file}: {key} is {section!r}; expected a table")
        experiment.plugin_sections[key] = dict(section)
        experiment.origin[key] = f"{file}: {key}"
    run = table.get("run", {})
    if not isinstance(run, dict):
        raise InputError(f"{file}: run is {run!r}, not a table")
    experiment.run = dict(run)
    experiment.origin["run"] = f"{file}: run"


def experiment_of(run: Table, file: str) -> Experiment:
    """The experiment of a run of a result file, to whose folder the paths of inputs are relative.

    Raises InputError if it cannot be run again.
    """
    document = absolute_in(os.path.dirname(file), run)
    table = document.get("experiment")
    if not isinstance(table, dict) or not table:
        raise InputError(f"{file}: there is no experiment in this result, which cannot be run again")
    inputs = document.get("inputs", [])
    if not isinstance(inputs, list):
        raise InputError(f"{file}: inputs is {inputs!r}, not a list")
    experiment = Experiment(name=str(table.get("name", "")), inputs=inputs)
    for kind in SECTIONS:
        section = table.get(kind, {})
        if not isinstance(section, dict):
            raise InputError(f"{file}: {kind} is {section!r}, not a table")
        if "object" in section:
            raise InputError(f"{file}: {kind} was given as an object of Python ({section['object']}), which is not in the file")
        if section:
            # As it is: a table that is used may name a file that it changes, and here all files have been read.
            experiment.sections[kind] = section
            experiment.origin[kind] = f"{file}: {kind}"
    _read_others(experiment, table, file, shared_plugins())
    experiment.origin["groups"] = f"{file}: groups"
    return experiment
