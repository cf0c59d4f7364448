"""The files of `--output`: result.json, those of the network, and those of reports, all or none."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from astra_sim._boundary import contain_exits
from astra_sim.errors import InputError, locating
from astra_sim.files import FileSet

if TYPE_CHECKING:
    from pathlib import Path

    from astra_sim.providers import Provider
    from astra_sim.report.result import Result
    from astra_sim.reports import ReportFolder
    from astra_sim.setup.plugins import Plugins

SERIES = ("limited", "all", "none")
SERIES_HELP = "How much of time series reports write; limited: a small file, in wider steps if needed."
DEFAULT_REPORTS = ("astra1",)
TIMELINE = "timeline"
"""The report that `--timeline` writes."""
REPORT_HELP = f"Report that --output writes beside result.json ({', '.join(DEFAULT_REPORTS)}): NAME or NAME?key=value&... Repeatable."


class Reports:
    """Reports that have been chosen, with their options. `TIMELINE` is the one that `--timeline` writes."""

    TIMELINE = TIMELINE

    def __init__(
        self, names: str | Sequence[str] = DEFAULT_REPORTS, plugins: Plugins | None = None, timeline: str | None = None
    ) -> None:  # fmt: skip
        """Find reports by `NAME` or `NAME?key=value`; the report TIMELINE is written into the file `timeline`, if one is named.

        Raises InputError, so that a wrong name is found before a long run.
        """
        from astra_sim.setup.plugins import shared_plugins
        from astra_sim.setup.specs import component_of

        specs = [names] if isinstance(names, str) else list(names)
        if not all(isinstance(spec, str) for spec in specs):
            raise InputError(f"reports is {names!r}; expected a list of names such as {DEFAULT_REPORTS[0]!r}")
        self._timeline = timeline
        self._chosen: dict[str, tuple[Provider, Any]] = {}
        self._of_timeline = None if timeline is None else component_of(plugins or shared_plugins(), "report", TIMELINE, "report")
        for spec in specs:
            if spec in self._chosen:
                raise InputError(f"report {spec!r} is given twice")
            self._chosen[spec] = component_of(plugins or shared_plugins(), "report", spec, "report")

    @classmethod
    def chosen(cls, names: Sequence[str], output: str | None, timeline: str | None = None) -> Reports:
        """The reports that `--report` names, or the default ones. Raises InputError if one is named and `--output` is not given."""
        if names and output is None:
            raise InputError(f"--report {names[0]} needs --output DIR, the folder for its files")
        return cls(() if output is None else names or DEFAULT_REPORTS, timeline=timeline)

    @staticmethod
    def check_names(names: Sequence[str]) -> None:
        """Raise InputError if runs that are reported together have names that give the same file name."""
        from astra_sim.reports import file_name

        for name, count in Counter(map(file_name, names)).items():
            if count > 1:
                raise InputError(f"{count} runs have the name {name!r} in reports; expected different names")

    @contain_exits()
    def write(
        self,
        results: Result | Sequence[Result],
        directory: str | Path | None,
        series: str = "limited",
        every: bool = False,
        tables: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    ) -> list[Path]:
        """Write them; see `write_reports`. Without `directory` only the timeline is written, of several runs one for each.

        In result.json tables of all NPUs have few rows, or `every` one. `tables` are written beside it, as CSV, by their files' names.
        """
        from astra_sim.report.frames import write_csv
        from astra_sim.report.result import Result
        from astra_sim.reports import ReportFile, ReportFolder, Series

        if series not in SERIES:
            raise InputError(f"series is {series!r}; expected {', '.join(SERIES)}")
        runs = [results] if isinstance(results, Result) else results
        if not runs:
            raise InputError("there are no results to report; expected at least one")
        self.check_names([run.run_name for run in runs])
        written: dict[Path, str] = {}
        with FileSet() as files:
            if directory is not None:
                files.make_folder(directory)
            if self._timeline is not None and self._of_timeline is not None:
                for run in runs:
                    file = self._timeline if len(runs) == 1 else _of_run(self._timeline, run.run_name)
                    timeline = ReportFile(file, files, f"report {TIMELINE}")
                    _create(*self._of_timeline, [run], timeline)
                    written |= timeline.written
            if directory is None:
                return list(written)
            folder = ReportFolder(directory, files, cast(Series, series), "astra")
            folder.written |= written
            folder.write("result.json", _document(runs, not isinstance(results, Result), every, os.fspath(directory)))
            for name, rows in (tables or {}).items():
                with folder.open(name) as table:
                    write_csv(rows, table)
            for run in runs:
                folder.author = f"the network of {run.run_name}"
                for name, text in run.network_reports().items():
                    folder.write(name if len(runs) == 1 else f"{run.run_name}_{name}", text)
            for spec, (provider, options) in self._chosen.items():
                folder.author = f"report {spec}"
                _create(provider, options, runs, folder)
        return list(folder.written)


def _of_run(path: str, name: str) -> str:
    """A path with the name of a run before its endings."""
    from astra_sim.reports import file_name

    folder, file = os.path.split(path)
    stem, dot, endings = file.partition(".")
    return os.path.join(folder, f"{stem}_{file_name(name)}{dot}{endings}")


def _document(runs: Sequence[Result], is_list: bool, every: bool, folder: str) -> Iterator[str]:
    """The text of result.json in a folder, of each run when its turn comes: that of one, or a list."""
    if not is_list:
        yield f"{_in_lines(runs[0].document(every, folder))}\n"
        return
    for number, run in enumerate(runs):
        yield f"{',' if number else '['}\n{_in_lines(run.document(every, folder))}"
    yield "\n]\n"


def write_document(document: Mapping[str, Any], path: str | Path) -> None:
    """Write a result as JSON (`Result.document`) into a file, with the paths of inputs relative to its folder. Raises RunError."""
    from astra_sim.setup.inputs import relative_to

    with FileSet() as files, files.open(path) as opened:
        opened.write(f"{_in_lines(relative_to(os.path.dirname(os.path.abspath(path)), dict(document)))}\n")


_DEPTH = 3
"""The depth to which tables have a line for each member."""

_SINGLE = frozenset((int, float, str, bool, type(None)))


@functools.cache
def _encoder(separator: str) -> Callable[[Any], str]:
    """Writes JSON with this between the members of tables and lists, in C; with indentation it would take as long as a run."""
    import json

    return json.JSONEncoder(allow_nan=False, check_circular=False, separators=(separator, ": ")).encode


def _compact(value: Any) -> str:
    """A value as JSON, in one line."""
    return _encoder(", ")(value)


def _in_lines(value: Any, margin: str = "") -> str:
    """JSON with a line for each member of the outer tables and for each table in lists of tables."""
    inner = f"{margin}  "
    if len(margin) == 2 * _DEPTH or not value:
        return _compact(value)
    if isinstance(value, dict):
        if _SINGLE.issuperset(map(type, value.values())):
            lines = _encoder(f",\n{inner}")(value)[1:-1]
        else:
            lines = f",\n{inner}".join([f"{_compact(key)}: {_in_lines(each, inner)}" for key, each in value.items()])
        return f"{{\n{inner}{lines}\n{margin}}}"
    if isinstance(value, list) and isinstance(value[0], dict):
        # Zero bytes are escaped in texts, because they separate members.
        text = _encoder(",\0")(value)[1:-1].replace("},\0{", f"}},\n{inner}{{").replace("\0", " ")
        return f"[\n{inner}{text}\n{margin}]"
    return repr(value) if type(value) is int else _compact(value)


def _create(provider: Provider, options: Any, runs: Sequence[Result], folder: ReportFolder) -> None:
    """Let a report write its files, about results of its own. Raises InputError, which names the report."""
    with locating(folder.author):
        provider.create(options, [run.copied() for run in runs], folder)


def write_reports(
    results: Result | Sequence[Result],
    directory: str | Path,
    reports: str | Sequence[str] = DEFAULT_REPORTS,
    series: str = "limited",
    plugins: Plugins | None = None,
) -> list[Path]:
    """Write result.json and reports of one run or several into a directory, made if it does not exist: all files, or none.

    Several runs share the files; runs must have different names. result.json is then a list. `reports` are names of report plugins, each
    perhaps with options (`NAME?key=value`). `series` is how much of the time series they write: "limited" (a small file,
    in wider steps if needed), "all", or "none". Returns the paths, that of result.json first.

    Raises InputError for an unknown report or another `series`, PluginError if a report fails, RunError if a file cannot be written.
    """
    return Reports(reports, plugins).write(results, directory, series)
