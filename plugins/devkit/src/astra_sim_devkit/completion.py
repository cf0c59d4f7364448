"""Completion in shells: `astra completion`, and the requests of its scripts.

A script calls `astra` with the variable `_ASTRA_COMPLETE`, and the line as far as it has been typed. The answer has a line for each
candidate: its type, its value, its help, with tabs between. The type is what comes behind the value: "plain" a space, "open" nothing, as
the value goes on. "file" and "dir": the shell completes them itself.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import ClassVar

import click
from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, shell_complete, split_arg_string

from astra_sim_devkit import candidates
from astra_sim_devkit.candidates import OPEN, Candidates, files

VARIABLE = "_ASTRA_COMPLETE"
_SPECIAL = re.compile(r"""([\s"'\\$`&;|<>()*\[\]{}!#])""")
"""Characters that are special in bash. A question mark is left as typed: it represents itself if no file fits."""

_BASH = """\
_astra_completion() {
    local type value help
    while IFS=$'\\t' read -r type value help; do
        case $type in
            plain) COMPREPLY+=("$value") ;;
            open) COMPREPLY+=("$value"); compopt -o nospace ;;
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
        esac
    done < <(_ASTRA_COMPLETE=bash_complete COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORD="$2" "$1" 2>/dev/null)
}

complete -o nosort -F _astra_completion astra
"""

_ZSH = """\
#compdef astra

_astra_completion() {
    local line type value help
    local -a plain open
    for line in "${(@f)$(_ASTRA_COMPLETE=zsh_complete COMP_LINE="${words[1,CURRENT-1]} $QIPREFIX$PREFIX" $words[1] 2>/dev/null)}"; do
        IFS=$'\\t' read -r type value help <<< "$line"
        case $type in
            plain) plain+=("${value//:/\\\\:}${help:+:$help}") ;;
            open) open+=("${value//:/\\\\:}${help:+:$help}") ;;
            dir) _files -/ ;;
            file) _files ;;
        esac
    done
    (( $#plain )) && _describe -V 'astra' plain -U
    (( $#open )) && _describe -V 'astra' open -U -S ''
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _astra_completion "$@"
else
    compdef _astra_completion astra
fi
"""

_FISH = """\
function _astra_completion
    set -l words (commandline -opc)
    set -lx COMP_LINE (commandline -cp)
    set -lx _ASTRA_COMPLETE fish_complete
    for line in ($words[1] 2>/dev/null)
        set -l parts (string split \\t -- $line)
        switch $parts[1]
            case dir
                __fish_complete_directories (commandline -ct)
            case file
                __fish_complete_path (commandline -ct)
            case plain open
                printf '%%s\\t%%s\\n' $parts[2] "$parts[3]"
        end
    end
end

complete --command astra --no-files --arguments '(_astra_completion)'
"""


class _Shell(ShellComplete):
    """Shared code of the shells."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is not complete, and that."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        incomplete = words.pop() if len(words) > 1 and not _ends_with_space(line) else ""
        return words[1:], incomplete

    def get_completions(self, args: list[str], incomplete: str) -> Candidates:
        """The candidates. In `--option=value` they are whole words, and files are listed here, as shells know none within a word."""
        name, equals, value = incomplete.partition("=")
        if not name.startswith("-") or not equals:
            return super().get_completions(args, incomplete)
        result: Candidates = []
        for item in super().get_completions([*args, name], value):
            result += files(value) if item.type in ("file", "dir") else [item]
        return [CompletionItem(f"{name}={item.value}", item.type, item.help) for item in result]

    def format_completion(self, item: CompletionItem[str]) -> str:
        """A line of the answer."""
        return "\t".join([item.type, item.value, " ".join((item.help or "").split())])


class Bash(_Shell):
    """Bash divides words at `:` and `=`: the completion replaces the last part only, `COMP_WORD`."""

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = _BASH

    def format_completion(self, item: CompletionItem[str]) -> str:
        """A line of the answer. Special characters of bash are escaped, unless it is within quotation marks."""
        if item.type not in ("plain", OPEN):
            return super().format_completion(item)
        line, word = os.environ["COMP_LINE"], os.environ.get("COMP_WORD", "")
        _, whole = self.get_completion_args()
        quote = _open_quote(line)
        prefix = len(whole) - len(_unquoted(word))
        value = item.value[prefix:]
        if not quote:
            value = _SPECIAL.sub(r"\\\1", value)
        elif word.startswith(quote):
            value = quote + value
        return super().format_completion(CompletionItem(value, item.type))


class Zsh(_Shell):
    """Z shell, which shows help beside the candidates."""

    name: ClassVar[str] = "zsh"
    source_template: ClassVar[str] = _ZSH


class Fish(_Shell):
    """The friendly interactive shell."""

    name: ClassVar[str] = "fish"
    source_template: ClassVar[str] = _FISH


SHELLS = {shell.name: shell for shell in (Bash, Zsh, Fish)}


def _ends_with_space(line: str) -> bool:
    """Whether a new word begins at the end of a line: behind a space that is neither escaped nor within quotation marks."""
    return line[-1:].isspace() and len(split_arg_string(f"{line}x")) > len(split_arg_string(line))


def _open_quote(line: str) -> str:
    """The quotation mark within which a line ends; empty: there is none."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        list(lexer)
    except ValueError:
        return state if (state := getattr(lexer, "state", "")) in ("'", '"') else ""
    return ""


def _unquoted(word: str) -> str:
    return "".join(split_arg_string(word))


def complete(command: click.Command) -> int:
    """Answer the script of a shell, according to the environment. Returns the exit status; errors give no candidate, and no message."""
    for shell in SHELLS.values():
        add_completion_class(shell)
    try:
        return shell_complete(command, {"obj": candidates}, "astra", VARIABLE, os.environ[VARIABLE])
    except Exception:
        if os.environ.get("ASTRA_TRACEBACK"):
            raise
        return 1


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script with which a shell completes commands, options, names of components and their options, and files.

    \b
    bash: echo 'eval "$(astra completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(astra completion zsh)"' >> ~/.zshrc        (behind compinit)
    fish: astra completion fish > ~/.config/fish/completions/astra.fish
    """
    if VARIABLE in os.environ:
        ctx.exit(complete(ctx.find_root().command))
    click.echo(SHELLS[shell](click.Command("astra"), {}, "astra", VARIABLE).source(), nl=False)
