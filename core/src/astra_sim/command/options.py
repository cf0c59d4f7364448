"""Options that several commands share: the components of an experiment, and how to run it."""

from __future__ import annotations

import contextlib
import io
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO, TypeVar

import attrs
import click

from astra_sim.report.amounts import TIME_UNITS
from astra_sim.report.writing import REPORT_HELP, SERIES, SERIES_HELP
from astra_sim.setup.run_options import RunOptions

_Command = TypeVar("_Command", bound=Callable[..., Any])

COMPONENTS = {
    "workload": "Workload: {}.",
    "system": "System layer: {}.",
    "platform": "Platform: {}.",
    "network": "Network backend: {}; a network file may bring its platform.",
    "compute": "Compute model: {}.",
    "memory": "Memory model: {}.",
}
"""Help for the sections of an experiment, with a placeholder for the ways to give a component."""

_SPEC = "plugin:NAME[?key=value&...] or a file"


def _in_order(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Give a command several options, which its help lists in this order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def component_options(multiple: bool, kinds: Sequence[str] = tuple(COMPONENTS)) -> Callable[[_Command], _Command]:
    """Give a command an option for each component of some kinds and `--set`; `multiple`: a component may be given several times."""
    several = "Give several to compare them." if multiple else "Repeatable."
    text, completes = f"Change one option. {several}", candidates("assignment")
    components = (
        click.option(
            f"--{name}", metavar="S", multiple=multiple, help=COMPONENTS[name].format(_SPEC), shell_complete=candidates("component", name)
        )
        for name in kinds
    )
    return _in_order(
        *components,
        click.option("--set", "assignments", metavar="SECTION.KEY=VALUE", multiple=True, help=text, shell_complete=completes),
    )


def candidates(what: str, *arguments: str) -> Callable[..., Any]:
    """`shell_complete` of an option or argument: a function of the object of the root context, which answers a shell.

    That is the module `astra_sim_devkit.candidates`. `candidates("component", KIND)` matches `component_options`.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        function = getattr(ctx.find_root().obj, what)
        return (function(*arguments) if arguments else function)(ctx, param, incomplete)

    return complete


def output_options(multiple: bool) -> Callable[[_Command], _Command]:
    """Give a command `--output`, `--report`s (`reports`), `--series`, `--timeline` and `--explain`; `multiple`: of several runs."""
    timeline = "Write a timeline for Perfetto; *.json: as Chrome does; *.gz: gzipped."
    explain = "Explain the run, in result.json and --json, too; it takes several runs on some networks."
    if multiple:
        timeline = "Write a timeline of each run for Perfetto: FILE with the run's name before the ending."
        explain = "Explain every run, in result.json, for astra report; it takes several runs on some networks."
    output = f"Write result.json and reports{' of all runs' if multiple else ''} there."
    completes = candidates("bare_component", "report")
    return _in_order(
        click.option("-o", "--output", metavar="DIR", type=click.Path(file_okay=False), help=output),
        click.option("--report", "reports", metavar="NAME", multiple=True, help=REPORT_HELP, shell_complete=completes),
        click.option("--series", type=click.Choice(SERIES), default="limited", show_default=True, help=SERIES_HELP),
        click.option("--timeline", metavar="FILE", type=click.Path(dir_okay=False), help=timeline),
        click.option("--explain", is_flag=True, help=explain),
    )


def table_options(command: _Command) -> _Command:
    """Give a command `--all` (`every`) and `--units`, of which a `Screen` is made."""
    command = click.option("--units", type=click.Choice(TIME_UNITS), help="The unit of all times.  [default: by their magnitude]")(command)
    return all_option(command)


def all_option(command: _Command) -> _Command:
    """Give a command `--all` (`every`), if its tables have no times."""
    return click.option("--all", "every", is_flag=True, help="Print all rows and columns of all tables.")(command)


def json_option(command: _Command) -> _Command:
    """Give a command `--json` (`as_json`). `say_json` prints the object; files that were written are its `files`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")(command)


def write_then_show(write: Callable[[], object], show: Callable[[], object]) -> None:
    """Write the files of a command, then print, so that nothing is lost if standard output is closed early.

    If writing fails, the figures of a possibly long run are printed all the same.
    """
    try:
        write()
    except BaseException:
        with contextlib.suppress(OSError):
            show()
        raise
    show()


def say_json(document: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print the output of `--json`. Raises ValueError for numbers that JSON cannot express.

    Under `--json` nothing else gets to standard output.
    """
    import json

    click.echo(json.dumps(document, allow_nan=False), file=json_output())


_output: list[TextIO] = []
"""Standard output, if something else is in its place."""


def json_output() -> TextIO:
    """Standard output, also under `only_json`: for JSON that is printed in parts."""
    return _output[-1] if _output else sys.stdout


@contextlib.contextmanager
def only_json() -> Iterator[None]:
    """Allow nothing but JSON on standard output: the output of `say_json`, or all output, if it is JSON.

    Anything else goes to standard error in the end.
    """
    import json

    held = io.StringIO()
    _output.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(held):
            yield
    finally:
        real, text = _output.pop(), held.getvalue()
        try:
            json.loads(text)
        except ValueError:
            real = sys.stderr
        real.write(text)


def quiet_option(command: _Command) -> _Command:
    """Give a command `--quiet`."""
    return click.option("--quiet", is_flag=True, help="Print nothing but errors and warnings, which findings of the audit are.")(command)


def run_options(command: _Command) -> _Command:
    """Give a command an option for each field of `RunOptions`, with its name, type and help. One that is not given is None."""
    kinds = typing.get_type_hints(RunOptions)
    return _in_order(*(_run_option(field, kinds[field.name]) for field in attrs.fields(RunOptions)))(command)


def _run_option(field: attrs.Attribute[Any], kind: Any) -> Callable[[_Command], _Command]:
    """The option of the command line for an option of a run, by its kind."""
    name, words = field.name.replace("_", "-"), field.metadata["help"]
    text = f"{words[:1].upper()}{words[1:]}."
    if kind is bool:
        return click.option(f"--{name}/--no-{name}", default=None, help=text)
    if kind in (int, float):
        return click.option(f"--{name}", type=kind, help=text)
    if kind is str:
        names = field.metadata["names"]
        completes = None if names is None else candidates("listed", names)
        return click.option(f"--{name}", metavar="TEXT", help=text, shell_complete=completes)
    return click.option(f"--{name}", metavar="FILE", type=click.Path(), help=text)
