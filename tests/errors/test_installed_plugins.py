"""Broken plugins, as they are installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from errors.inputs import FILES, IMPORTS, Words, cases, command, holds, hook, no_answer, one_error, one_layer, refused, write


@cases(
    {
        "that cannot be imported": ("import nosuchmodule\n", "ModuleNotFoundError", "nosuchmodule"),
        "with a syntax error": ("def (\n", "SyntaxError"),
        "that raises": ("raise RuntimeError('no luck')\n", "RuntimeError", "no luck"),
        "that wants to stop everything": ("import sys\nsys.exit('no luck')\n", "no luck"),
        "whose hook raises": (
            f"{IMPORTS}\n@hookimpl\ndef astra_computes():\n    raise RuntimeError('no luck')\n",
            "RuntimeError",
            "no luck",
        ),
        "whose hook wants to stop everything": (
            f"{IMPORTS}\nimport sys\n@hookimpl\ndef astra_computes():\n    sys.exit('no luck')\n",
            "no luck",
        ),
        "whose hook takes other arguments": (f"{IMPORTS}\n@hookimpl\ndef astra_computes(size):\n    return []\n", "size"),
    }
)
def test_a_plugin_that_is_broken_is_reported_and_stops_nobody(
    tmp_path: Path, installed: Callable[..., dict[str, str]], given: str, words: Words
) -> None:
    env = installed(given)
    run = command(tmp_path, *FILES, "--json", env=env)
    assert (run.status, run.err) == (0, "")
    assert json.loads(run.out)["finish_ns"] == 24896
    listed = command(tmp_path, "plugins", "--json", env=env)
    assert (listed.status, listed.err) == (0, "")
    (broken,) = json.loads(listed.out)["broken"]
    assert (broken["name"], broken["distribution"]) == ("mine", "somebodys-plugin")
    holds(broken["error"], words)
    holds(command(tmp_path, "plugins", env=env).out, ["broken", "mine", "somebodys-plugin"])
    asked = command(tmp_path, *FILES, "--compute", "plugin:mine", "--json", env=env)
    assert asked.status == 2
    no_answer(asked.out)
    holds(asked.err, ["astra: error", "mine", "somebodys-plugin", *words])
    checked = command(tmp_path, "plugins", "check", "mine", env=env)
    assert checked.status == 1
    holds(checked.out, ["FAILED", "mine", *words])


@cases(
    {
        "a module that is not there": ("mine = nosuchmodule", "nosuchmodule"),
        "an object that is not there": ("mine = {module}:nosuchthing", "nosuchthing"),
        "something that is no name": ("mine = not a name!", "mine"),
    }
)
def test_an_entry_point_that_leads_nowhere_is_reported(
    tmp_path: Path, installed: Callable[..., dict[str, str]], given: str, words: Words
) -> None:
    env = installed("", given)
    (broken,) = json.loads(command(tmp_path, "plugins", "--json", env=env).out)["broken"]
    holds(f"{broken['name']}: {broken['error']}", words)
    assert command(tmp_path, *FILES, "--quiet", env=env) == (0, "", "")


def test_a_plugin_that_prints_does_not_spoil_json(tmp_path: Path, installed: Callable[..., dict[str, str]]) -> None:
    env = installed("print('Welcome to my plugin')\n")
    assert json.loads(command(tmp_path, *FILES, "--json", env=env).out)["finish_ns"] == 24896


PRINTING = f"""{IMPORTS}
import ctypes
from astra_sim.compute import Compute
print("on import")
class Printing(Compute):
    def __init__(self):
        print("when made")
    def duration_ns(self, work):
        print("in a run")
        ctypes.CDLL(None).puts(b"in C")
        ctypes.CDLL(None).fflush(None)
        return work.recorded_ns
@hookimpl
def astra_computes():
    print("in a hook")
    return [Provider("mine", "It prints", Printing)]
"""


@pytest.mark.parametrize("options", [["--json"], ["--quiet"], ["--json", "--explain"]], ids=" ".join)
def test_what_a_plugin_prints_goes_to_standard_error(tmp_path: Path, installed: Callable[..., dict[str, str]], options: list[str]) -> None:
    run = command(tmp_path, *FILES, "--compute", "plugin:mine", *options, env=installed(PRINTING))
    assert run.status == 0
    holds(run.err, ["on import", "in a hook", "when made", "in a run", "in C"])
    assert not run.out if "--quiet" in options else json.loads(run.out)["finish_ns"] == 24896


def test_a_command_may_print_json_without_help(tmp_path: Path, installed: Callable[..., dict[str, str]]) -> None:
    source = f"{IMPORTS}\nimport click\n@click.command()\n@click.option('--json', is_flag=True)\ndef command(json):\n"
    source += "    click.echo('[1]' if json else 'one')\n"
    env = installed(source + "@hookimpl\ndef astra_commands():\n    return [Provider('mine', 'A command', command)]\n")
    assert command(tmp_path, "mine", "--json", env=env) == (0, "[1]\n", "")
    assert command(tmp_path, "mine", env=env) == (0, "one\n", "")


def test_an_exception_without_words_is_named(tmp_path: Path, installed: Callable[..., dict[str, str]]) -> None:
    source = f"{IMPORTS}\nclass Wordless(Exception):\n    def __str__(self):\n        raise ValueError('no text')\n"
    source += "def make():\n    raise Wordless\n@hookimpl\ndef astra_computes():\n    return [Provider('mine', 'It fails', make)]\n"
    run = command(tmp_path, *FILES, "--compute", "plugin:mine", env=installed(source))
    refused(run, "mine", "Wordless")


@cases(
    {
        "that cannot be loaded": ("Provider('mine', 'A command', 'nosuchmodule:command')", "nosuchmodule"),
        "that is no command": ("Provider('mine', 'A command', 'os:getcwd')", "not a click command"),
    }
)
def test_a_broken_command_leaves_help_and_the_others_alone(
    tmp_path: Path, installed: Callable[..., dict[str, str]], given: str, words: Words
) -> None:
    env = installed(hook("commands", given))
    asked = command(tmp_path, "mine", env=env)
    refused(asked, "mine", *words)
    shown = command(tmp_path, "--help", env=env)
    assert (shown.status, shown.err) == (0, "")
    holds(shown.out, ["run", "plugins"])
    assert command(tmp_path, "plugins", "check", "mine", env=env).status == 1


def test_a_command_that_fails_is_one_error(tmp_path: Path, installed: Callable[..., dict[str, str]]) -> None:
    done = command(tmp_path, "mine", env=installed(hook("commands", "Provider('mine', 'A command', fails)")))
    assert done.status == 1
    no_answer(done.out)
    one_error(done.err)
    holds(done.err, ["mine", "RuntimeError", "no luck"])


@pytest.mark.parametrize("entry", ["aaa", "zzz"])
def test_a_name_that_is_already_taken_is_reported_and_takes_nothing_away(
    tmp_path: Path, installed: Callable[..., dict[str, str]], entry: str
) -> None:
    env = installed(hook("computes", "Provider('recorded', 'Everything is free', Free)"), entry + " = {module}")
    broken = json.loads(command(tmp_path, "plugins", "--json", env=env).out)["broken"]
    assert len(broken) == 1
    holds(f"{broken[0]['name']}: {broken[0]['error']}", ["'recorded'", entry, "compute_recorded"])
    done = command(tmp_path, *FILES, "--json", env=env)
    if done.status:
        refused(done, "'recorded'", entry, "compute_recorded")
    else:
        assert json.loads(done.out)["finish_ns"] == 24896


@pytest.mark.parametrize("summary", ["'[/red] text'", "3", "None"])
def test_a_summary_of_whatever_kind_does_not_break_the_list(tmp_path: Path, installed: Callable[..., dict[str, str]], summary: str) -> None:
    env = installed(hook("computes", f"Provider('mine', {summary}, Free)"))
    for arguments in (["plugins"], ["plugins", "--json"], ["plugins", "show", "recorded"]):
        done = command(tmp_path, *arguments, env=env)
        assert (done.status, done.err) == (0, "")
    assert "Traceback" not in command(tmp_path, "plugins", "show", "mine", env=env).err


@pytest.mark.parametrize("symmetry", [[], ["--no-symmetry"]], ids=["one for all", "every NPU"])
def test_a_run_that_cannot_finish_ends_with_status_1(tmp_path: Path, installed: Callable[..., dict[str, str]], symmetry: list[str]) -> None:
    env = installed(hook("collectives", "CollectiveProvider('stuck', 'Waits for ever', stuck)"))
    done = command(tmp_path, *FILES, "--json", "--set", "system.all_reduce=stuck", *symmetry, env=env)
    assert done.status == 1
    no_answer(done.out)
    one_error(done.err)
    holds(done.err, ["cannot finish", "NPU 0", "99 tokens"])


def test_the_command_refuses_in_a_process_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, workload=one_layer(policy="DATUM"))
    refused(command(tmp_path, *FILES, "--json"), "w.txt:1", "'DATUM'", "'DATA'")
