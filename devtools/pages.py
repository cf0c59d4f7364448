"""The code blocks of documentation pages: they run as a reader would run them, in an empty folder, and print what the page shows.

    python -m devtools.pages docs/start.md           run the blocks of pages, and say what is not as shown
    python -m devtools.pages --write docs/start.md   put what is printed now into the pages

What a block is:

- `console`: commands after `$ `, and below each what it prints (nothing below: anything goes). A line `...` matches any lines.
- `sh`: commands, whatever they print.
- `python`: a program. A block without a language that follows at once is what it prints.
- `toml`: must be TOML.

A comment on the line before a block says otherwise: `<!-- file: NAME -->` writes the block into a file, `<!-- continued -->` runs a program
behind the one before it, `<!-- not run: REASON -->` leaves a block out. `<!-- setup: COMMANDS -->` is run first; `$PAGES` is tests/pages,
where the files of pages are. All blocks of a page share a folder, in which `examples` is that of the checkout. Wall times and the
width of spaces are not compared.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ROOT / "tests" / "pages"
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>file|not run|continued)(?:: (?P<value>[^\n]*?))? -->\n+)?```(?P<language>[\w-]*)\n(?P<text>.*?)^```$"
    r"(?:\n\n```\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
SETUP = re.compile(r"^<!-- setup: (.*?) -->$", re.MULTILINE | re.DOTALL)
PLACES: list[str] = []
"""Folders where programs are looked for before the environment's own."""
PROGRAMS = ("console", "sh", "python")
WALL = re.compile(r"(wall time:?\s+)[\d.]+\s+\w+")


@dataclass(frozen=True)
class Block:
    """A code block: its language, its text, what it prints if that is shown, its mark, and where its text and output stand."""

    language: str
    text: str
    printed: str | None
    mark: str | None
    value: str | None
    start: int
    printed_start: int


def blocks(page: str) -> Iterator[Block]:
    """The code blocks of a page. Only those of Python have their output in the next block."""
    position = 0
    while (match := BLOCK.search(page, position)) is not None:
        printed = match["printed"] if match["language"] == "python" and match["mark"] != "not run" else None
        position = match.end() if printed is not None else match.end("text") + 3
        yield Block(match["language"], match["text"], printed, match["mark"], match["value"], match.start("text"), match.start("printed"))


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with what is shown below it."""
    for each in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = each.split("\n")
        count = 1
        while lines[count - 1].endswith("\\"):
            count += 1
        yield "\n".join(lines[:count]), "\n".join(lines[count:])


def comparable(text: str) -> list[str]:
    """Lines without wall times: in words, and the last column of tables that end in one."""
    lines, in_table = [], False
    for line in text.strip("\n").splitlines():
        line = WALL.sub(r"\1", line).rstrip()
        if line.endswith("wall time (s)"):
            in_table = True
        elif not line or "  " not in line:
            in_table = False
        if in_table:
            line = re.sub(r"\s+(wall time \(s\)|[\d.]+)$", "", line)
        lines.append(" ".join(line.split()))
    return lines


def agrees(shown: str, printed: str) -> bool:
    """Whether a command prints what is shown, where a line `...` matches any lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in comparable(shown))
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in comparable(printed))) is not None


def run(command: list[str], folder: Path) -> str:
    """The output of a command in a folder. Raises ValueError if it fails."""
    path = os.pathsep.join([*PLACES, str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "PATH": path, "PYTHONIOENCODING": "utf-8", "PAGES": str(FILES)}
    environment["PYTHONPATH"] = str(folder)  # where a page writes a package
    environment.pop("COLUMNS", None)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise ValueError(f"{command[-1]}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def shell(command: str, folder: Path) -> str:
    """The output of a command of a shell. Raises ValueError if it fails; of a pipe if its last part does, as `head` may leave early."""
    return run(["bash", "-eu", "-c", command], folder)


def check(page: str, folder: Path) -> tuple[str, list[str]]:
    """Run the blocks of a page in an empty folder. Returns the page with what is printed now, and what differs."""
    (folder / "examples").symlink_to(ROOT / "examples")
    problems: list[str] = []
    changes: list[tuple[int, int, str]] = []
    before = ""
    for setup in SETUP.findall(page):
        shell(setup, folder)
    for block in blocks(page):
        program = before + block.text if block.mark == "continued" else block.text
        before = program if block.language == "python" else before
        try:
            new = _check_block(block, program, folder, problems)
        except ValueError as error:
            problems.append(str(error))
            continue
        if new is not None:
            old, start = (block.text, block.start) if block.language == "console" else (block.printed or "", block.printed_start)
            changes.append((start, start + len(old), new))
    for start, end, new in reversed(changes):
        page = page[:start] + new + page[end:]
    return page, problems


def _check_block(block: Block, program: str, folder: Path, problems: list[str]) -> str | None:
    """Run a block, a program with what it continues. Returns its output as it would be written now, if that is shown and differs."""
    if block.mark == "not run":
        return None
    if block.mark == "file":
        path = folder / (block.value or "")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text, encoding="utf-8")
    elif block.language == "toml":
        tomllib.loads(block.text)  # raises TOMLDecodeError, a ValueError
    elif block.language == "sh":
        shell(block.text, folder)
    elif block.language == "python":
        printed = run([sys.executable, "-c", program], folder)
        if block.printed is not None and not agrees(block.printed, printed):
            problems.append(f"the program\n{block.text}prints\n{printed}")
            return printed
    elif block.language == "console":
        return _check_console(block, folder, problems)
    return None


def _check_console(block: Block, folder: Path, problems: list[str]) -> str | None:
    written, differs = [], False
    for command, shown in commands(block.text):
        printed = shell(command, folder)
        if shown.strip() and not agrees(shown, printed):
            problems.append(f"{command}\nprints\n{printed}")
            differs, shown = True, printed.strip("\n") + "\n"
        written.append(f"$ {command}\n{shown}")
    return "".join(written) if differs else None


def main(arguments: list[str]) -> int:
    """Check pages, or write them. Returns the exit status."""
    write = "--write" in arguments
    status = 0
    for name in arguments:
        if name == "--write":
            continue
        path = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            page, problems = check(path.read_text(encoding="utf-8"), Path(folder))
        if write:
            path.write_text(page, encoding="utf-8")
        for problem in problems:
            print(f"{name}: {problem}\n", file=sys.stderr)
        status = status or int(bool(problems))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
