"""The command `astra`."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from astra_sim._boundary import describe_exception, printing_to_errors
from astra_sim.command.options import (
    all_option,
    candidates,
    component_options,
    json_option,
    only_json,
    output_options,
    quiet_option,
    run_options,
    say_json,
    table_options,
    write_then_show,
)
from astra_sim.errors import STATUS_INTERRUPTED, AstraError, InputError, printable, suggestion
from astra_sim.files import check_words, guarded_inputs, interrupt_on_sigterm, move_output

if TYPE_CHECKING:
    from pathlib import Path

    from click.shell_completion import CompletionItem


class PluginGroup(click.Group):
    """Commands whose names have two words, of which the first is that of the group: its own, if any, and those that any plugin may add."""

    def full_name(self, name: str) -> str:
        """The name of a command as plugins offer it."""
        return f"{self.name} {name}"

    def offered(self) -> dict[str, str]:
        """The commands of plugins in this group, with their summaries."""
        within = self.full_name("")
        return {name.removeprefix(within): summary for name, summary in _offered().items() if name.startswith(within)}

    def summaries(self) -> dict[str, str]:
        """All commands by name, those of plugins with the summary that they offer, so that none is imported."""
        summaries = self.offered() | {name: command.get_short_help_str(limit=80) for name, command in self.commands.items()}
        return dict(sorted(summaries.items()))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands."""
        return list(self.summaries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command by its name in the group; that of a plugin is imported now."""
        return super().get_command(ctx, cmd_name) or _command_of_plugins(self.full_name(cmd_name))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the words name. Raises InputError with an installation hint if its package is absent."""
        if args and self.get_command(ctx, args[0]) is None and not ctx.resilient_parsing:
            from astra_sim.setup.plugins import shared_plugins

            if hint := shared_plugins().install_hint("command", name := self.full_name(args[0])):
                raise InputError(f"there is no command {name}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.summaries().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Its commands, of which none is imported, and its options."""
        from click.shell_completion import CompletionItem

        result = [CompletionItem(name, help=summary) for name, summary in self.summaries().items() if name.startswith(incomplete)]
        return result if not incomplete.startswith("-") else super().shell_complete(ctx, incomplete)


class Commands(PluginGroup):
    """The commands of astra: `run`, which may be left out, its own others, and those of plugins."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Choose the plugins of `-p`, which may bring commands, and put `run` in front of words that name no command."""
        chosen, args = _chosen_plugins(args)
        if chosen:
            from astra_sim.setup.plugins import use_plugins

            with contextlib.suppress(*(AstraError,) if ctx.resilient_parsing else ()):
                use_plugins(*chosen)
        options = {"--help", "-h", "--version"}
        if args and args[0] not in options and args[0] not in self.list_commands(ctx):
            names_nothing = not args[0].startswith("-") and not os.path.exists(args[0]) and "." not in args[0]
            if names_nothing and not ctx.resilient_parsing:
                from astra_sim.setup.plugins import shared_plugins

                remedy = shared_plugins().install_hint("command", args[0]) or suggestion(args[0], self.list_commands(ctx))
                raise InputError(f"{args[0]!r} is neither a command nor an experiment file; {remedy}")
            args = ["run", *args]
        if not ctx.resilient_parsing:
            check_words(*_read_and_written(args))  # at once, not after a long run; FileSet sees to files that no word names
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, which does not replace a file that it has read."""
        with guarded_inputs():
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Commands and experiment files, other files if no command begins so, and the options of `run`."""
        result = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            return result + run.shell_complete(click.Context(run, parent=ctx), incomplete)
        return [*result, *ctx.find_root().obj.files(incomplete, ".toml" if result else "", folders=not result)]

    def full_name(self, name: str) -> str:
        """The name itself."""
        return name

    def offered(self) -> dict[str, str]:
        """The commands of plugins with their summaries. Those whose names have two words are one, by the first."""
        result: dict[str, str] = {}
        for name, summary in sorted(_offered().items()):
            first, _, second = name.partition(" ")
            result[first] = summary if not second else f"{result[first]}, {second}" if first in result else f"Commands: {second}"
        return result


def _chosen_plugins(words: list[str]) -> tuple[list[str], list[str]]:
    """The arguments of each `-p` in front of a command, and the other words. A `-p` with nothing after it stays."""
    chosen = []
    while words and words[0].startswith(_PLUGIN) and (len(words) > 1 or words[0] != _PLUGIN):
        first, *words = words
        chosen.append(words.pop(0) if first == _PLUGIN else first.removeprefix(_PLUGIN))
    return chosen, words


_PLUGIN = "-p"
_COMPLETE = "_ASTRA_COMPLETE"
"""The variable with which a shell asks for candidates; the command `completion` answers."""

_WRITTEN = ("--output", "--timeline", "--junit")
"""Options of commands that name a file to write, or a folder; `-o` is the first."""


def _read_and_written(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of a command that may name files to read, those within `plugin:NAME?key=FILE`, too, and those that name files to write."""
    read, written, is_written = list[str](), list[str](), False
    for word in words:
        option, equals, value = word.partition("=")
        if is_written or (option in _WRITTEN and equals):
            written.append(word if is_written else value)
            is_written = False
        elif word in (*_WRITTEN, "-o"):
            is_written = True
        elif word.startswith("-o") and os.path.lexists(word[2:]):
            written.append(word[2:])
        else:
            read += [word, *(part.rpartition("=")[2] for part in re.split("[?&]", word))]
    folders = [path for path in written if os.path.isdir(path)]
    if folders:
        from astra_sim.results import RESULT_FILE

        written += [os.path.join(folder, RESULT_FILE) for folder in folders]
    return read, written


def _offered() -> dict[str, str]:
    """The commands that plugins offer, with their summaries."""
    from astra_sim.setup.plugins import shared_plugins

    return {name: provider.summary for name, provider in shared_plugins().components("command").items()}


def _command_of_plugins(name: str) -> click.Command | None:
    """A command that a plugin offers, or the group of those whose names begin with a word. Raises InputError if it is no command."""
    from astra_sim.setup.plugins import shared_plugins

    offered = _offered()
    if name not in offered:
        is_group = any(each.startswith(f"{name} ") for each in offered)
        return PluginGroup(name, context_settings={"help_option_names": ["-h", "--help"]}) if is_group else None
    loaded = shared_plugins().get("command", name).load_factory()
    if not isinstance(loaded, click.Command):
        raise InputError(f"command plugin {name!r} is {loaded!r}, which is not a click command")
    return loaded


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=True)
@click.version_option(package_name="astra-sim-core", prog_name="astra")
@click.option(
    _PLUGIN,
    "plugin",
    metavar="FILE|no:NAME",
    multiple=True,
    expose_value=False,
    help="Use a plugin in a file, or switch one off.",
)
def astra() -> None:
    """Simulate distributed deep-learning training.

    \b
    astra experiment.toml
    astra --workload w.txt --system s.txt --network n.json
    astra --workload w.toml --platform p.toml --network plugin:analytical

    A component is plugin:NAME, plugin:NAME?key=value&key=value, or a file.
    `run` is the default command: see `astra run --help`.
    """


@astra.command(short_help="Run one experiment: a file, or components given by options.")
@click.argument("experiment", required=False, type=click.Path())
@component_options(multiple=False)
@run_options
@click.option("--run-name", metavar="NAME", help="Name of the run in reports.")
@output_options(multiple=False)
@table_options
@json_option
@quiet_option
def run(
    experiment: str | None,
    assignments: tuple[str, ...],
    run_name: str | None,
    output: str | None,
    reports: tuple[str, ...],
    series: str,
    timeline: str | None,
    explain: bool,
    every: bool,
    units: str | None,
    as_json: bool,
    quiet: bool,
    **choices: Any,
) -> None:
    """Run one experiment: a TOML file, or components given by options, which also replace those of the file."""
    from astra_sim.api import simulate
    from astra_sim.command.findings import say_findings
    from astra_sim.command.progress import Progress
    from astra_sim.report.screen import Screen
    from astra_sim.report.tables import print_result
    from astra_sim.report.writing import Reports

    chosen = Reports.chosen(reports, output, timeline)
    _say_if_slow(choices["engine"], quiet)
    with Progress(enabled=not quiet) as progress:
        result = simulate(
            experiment,
            run_name=run_name,
            set=assignments,
            progress=progress,
            timelines="path" if timeline is not None or Reports.TIMELINE in reports else False,
            npu_times=not quiet or output is not None,
            explain=explain,
            **choices,
        )
    say_findings(result)
    screen = Screen(every, units)
    is_written = output is not None or timeline is not None
    paths: list[Path] = []

    def write() -> None:
        if is_written:
            with Progress(enabled=not quiet) as progress:
                progress.stage("writing files", simulates=False)
                paths.extend(chosen.write(result, output, series, every))

    def show() -> None:
        if as_json or quiet:
            return
        print_result(result, screen)
        if result.explanation is not None:
            screen.text("")
            result.explanation.show(screen)

    write_then_show(write, show)
    if is_written and not as_json and not quiet:
        screen.text(f"timeline in {timeline}" if output is None else f"{len(paths)} files in {output}")
    if as_json:
        say_json(result.document(every))


def _say_if_slow(engine: str | None, quiet: bool) -> None:
    """Say on a terminal that there is no compiled engine, if it was not chosen so."""
    from astra_sim.setup.engines import compiled_engine

    if sys.stderr.isatty() and not quiet and engine is None and compiled_engine() is None:
        click.echo("astra: the compiled engine is not installed; the engine in Python gives the same answers, slower", err=True)


@astra.command("show", short_help="Print a table of a result that was written.")
@click.argument("run", type=click.Path())
@click.argument("table", required=False, shell_complete=candidates("table_of_result"))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of rows; without TABLE an object with all tables.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False), help="Write FILE.csv, FILE.json or FILE.parquet.")
def show_(run: str, table: str | None, as_json: bool, as_csv: bool, output: str | None) -> None:
    """Print a table of a result; without TABLE the names of its tables.

    RUN is a result.json, or the folder that --output has written. If it holds several runs, a column names the run of each row.
    """
    from astra_sim.command.show import show_table

    show_table(run, table, as_json, as_csv, output)


_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@astra.group(cls=PluginGroup, invoke_without_command=True)
@all_option
@_json_option
@click.pass_context
def plugins(ctx: click.Context, every: bool, as_json: bool) -> None:
    """List plugins, show the components of one, or check them."""
    ctx.obj = as_json, every
    if ctx.invoked_subcommand is None:
        _list(as_json, every)


@plugins.command("list")
@all_option
@_json_option
@click.pass_obj
def list_(outer: tuple[bool, bool], every: bool, as_json: bool) -> None:
    """List all components, and plugins that are broken."""
    _list(as_json or outer[0], every or outer[1])


def _list(as_json: bool, every: bool) -> None:
    from astra_sim.command import plugin_commands

    plugin_commands.list_components(as_json, every)


@plugins.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=candidates("any_component"))
@_json_option
@click.pass_obj
def show(outer: tuple[bool, bool], names: tuple[str, ...], as_json: bool) -> None:
    """Show components and their options. NAME may be KIND:NAME if several kinds have one of that name."""
    from astra_sim.command import plugin_commands

    plugin_commands.show_components(names, as_json or outer[0])


def main() -> None:
    """Run the command line; errors of the input and of the run become one message and an exit status."""
    try:
        interrupt_on_sigterm()
        _open_closed_streams()
        if _is_of_process(sys.stderr, 2):
            _let_nobody_read_errors()
        if _is_of_process(sys.stdout, 1):
            _keep_output()
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="replace")
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        if _COMPLETE in os.environ:
            with astra.make_context("astra", ["completion", os.environ[_COMPLETE].partition("_")[0]]) as context:
                astra.invoke(context)  # not `main`, in which click would answer itself
        with printing_to_errors(), only_json() if "--json" in sys.argv[1:] else contextlib.nullcontext():
            astra.main(standalone_mode=False)
        sys.stdout.flush()
    except (SystemExit, click.exceptions.Exit) as stop:
        sys.exit(_written(getattr(stop, "exit_code", getattr(stop, "code", None))))
    except BrokenPipeError:
        _forget(sys.stdout)
        sys.exit(1)
    except BaseException as error:
        status, message = _outcome(error)
        _tell(error, message)
        sys.exit(status)


def _written(status: Any) -> Any:
    """The exit status of a command that has ended by itself, after its output has been written.

    click ends a command whose output is not read, and puts another stream in its place, which drops that silently.
    """
    stream = getattr(sys.stdout, "wrapped", sys.stdout)
    try:
        stream.flush()
    except BrokenPipeError:
        _forget(stream)
        return status or 1
    except OSError as error:
        _tell(error, _outcome(error)[1])
        return status or 1
    return status


def _outcome(error: BaseException) -> tuple[int, str]:
    """The exit status and the message of an exception that ended a command. Raises it if ASTRA_TRACEBACK is set."""
    match error:
        case click.Abort() | KeyboardInterrupt():
            return STATUS_INTERRUPTED, "interrupted"
        case click.ClickException():
            return error.exit_code, error.format_message()
        case AstraError():
            return error.exit_status, str(error)
        case MemoryError():
            return 1, "the run needs more memory than there is"
        case OSError():
            return 1, f"{error.filename or 'output'}: {error.strerror or error}"
    if os.environ.get("ASTRA_TRACEBACK"):
        raise error
    return 1, f"{' '.join(sys.argv[1:2])} failed: {describe_exception(error)} (ASTRA_TRACEBACK=1 shows where)"


def _tell(error: BaseException, message: str) -> None:
    """Report the end of a command: a line on standard error, and under --json an object on standard output. Streams may be full or gone."""
    try:
        if isinstance(error, OSError) and error.filename is None:
            _forget(sys.stdout)  # standard output could not be written
        elif "--json" in sys.argv[1:]:
            say_json({"error": printable(message)})
        sys.stdout.flush()
    except OSError:
        _forget(sys.stdout)
    try:
        if isinstance(error, click.ClickException):
            text = io.StringIO()
            error.show(text)  # with the usage of the command
            click.echo(printable(text.getvalue()), err=True, nl=False)
        else:
            click.echo(f"astra: {'' if message == 'interrupted' else 'error: '}{printable(message)}", err=True)
        sys.stderr.flush()
    except OSError:
        _forget(sys.stderr)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    click.echo(f"astra: warning: {message}", err=True)


def _open_closed_streams() -> None:
    """Open standard streams that the caller has closed on the null device, so that no file opened later gets their number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _is_of_process(stream: Any, number: int) -> bool:
    """Whether a standard stream is that of the process, and not one of a test."""
    try:
        return bool(stream.fileno() == number)
    except (OSError, ValueError):
        return False


def _keep_output() -> None:
    """Keep standard output for commands: output of libraries in C goes to standard error."""
    sys.stdout.flush()
    descriptor = os.dup(1)
    os.dup2(2, 1)
    move_output(descriptor)
    sys.stdout = os.fdopen(descriptor, "w", 1 if sys.stdout.line_buffering else -1, sys.stdout.encoding, closefd=False)


class _UnreadErrors(io.FileIO):
    """Standard error that may be full or closed: lines that cannot be written are dropped, and the command goes on."""

    def write(self, data: Any) -> int:
        """Write as much as possible."""
        with contextlib.suppress(OSError):
            return super().write(data) or len(data)
        return len(data)


def _let_nobody_read_errors() -> None:
    """Let standard error take all that is written to it."""
    sys.stderr.flush()
    buffer = io.BufferedWriter(_UnreadErrors(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(buffer, sys.stderr.encoding, "backslashreplace", line_buffering=True, write_through=True)


def _forget(stream: Any) -> None:
    """Drop unwritten output of a stream, so that Python does not try again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
