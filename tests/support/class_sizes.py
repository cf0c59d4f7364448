"""How many methods and fields classes have, counted in the sources of Python and C++.

Of a method, all overloads count; constructors, destructors, operators and special methods of Python do not. A field is a data member, or an
attribute that a method sets on `self`; constants of a class do not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class ClassSize(NamedTuple):
    """The size of a class."""

    name: str
    methods: int
    fields: int


def of_python(text: str) -> Iterator[ClassSize]:
    """The classes of a Python module, nested ones too."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ClassDef):
            continue
        functions = [each for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
        names = {each.name for each in functions}
        declared = {each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)}
        constants = {name for name in declared if name.isupper()}
        stored = {
            each.attr
            for function in functions
            for each in ast.walk(function)
            if isinstance(each, ast.Attribute)
            and isinstance(each.ctx, ast.Store)
            and isinstance(each.value, ast.Name)
            and each.value.id == "self"
        }
        yield ClassSize(node.name, sum(not name.startswith("__") for name in names), len((declared - constants) | (stored - names)))


_NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|^[ \t]*#(?:\\\n|[^\n])*', re.DOTALL | re.MULTILINE)
_HEAD = re.compile(r"\b(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+)\s*(?:final\s*)?(?::[^;{()]*)?\{")
_NO_MEMBER = ("using ", "friend ", "enum ", "typedef ", "static_assert", "class ", "struct ", "union ")


def of_cpp(text: str) -> Iterator[ClassSize]:
    """The classes and structs of C++ text as clang-format leaves it, nested ones too."""
    text = _NOISE.sub(" ", text)
    for head in _HEAD.finditer(text):
        name = head.group(1)
        methods = fields = 0
        for member in _members(text, head.end()):
            if member.startswith(_NO_MEMBER) or re.match(r"(?:\[\[\w+\]\]\s*)?(?:explicit|virtual)?\s*~?" + name + r"\s*\(", member):
                continue
            before = re.split(r"=|\{", member, maxsplit=1)[0]
            if "operator" in before:
                continue
            if _is_function(before):
                methods += 1
            elif "static constexpr" not in before and "static const " not in before:
                fields += 1 + _without_brackets(before).count(",")
        yield ClassSize(name, methods, fields)


def _is_function(declaration: str) -> bool:
    """Whether there are arguments behind a name, and not only within the type of a data member."""
    return re.search(r"\w\s*\(", _without_brackets(re.sub(r"\balignas\([^)]*\)|\bdecltype\([^)]*\)|: \d+", "", declaration))) is not None


def _without_brackets(text: str) -> str:
    """A declaration without what is between angle brackets."""
    while True:
        shorter = re.sub(r"<[^<>]*>", "", text)
        if shorter == text:
            return text
        text = shorter


def _members(text: str, start: int) -> Iterator[str]:
    """The declarations in the body of a class that begins at a place, without the bodies of functions."""
    depth, begin, place = 0, start, start
    while True:
        letter = text[place]
        if letter in "{(":
            depth += 1
        elif letter in "})":
            depth -= 1
            if depth < 0:
                return
        ends = depth == 0 and (letter == ";" or (letter == "}" and not _goes_on(text, place)))
        if ends:
            member = re.sub(r"\s+", " ", text[begin : place + 1]).strip()
            member = re.sub(r"^(?:(?:public|private|protected) ?: ?)+", "", member)
            member = re.sub(r"^template <[^{};]*?> (?=\w|\[)", "", member)
            if member.strip("; "):
                yield member
            begin = place + 1
        place += 1


def _goes_on(text: str, place: int) -> bool:
    """Whether a declaration goes on behind a brace: that of an initial value, or of one in a list of initial values."""
    return re.match(r"\s*[,;{)]", text[place + 1 :]) is not None


def classes(folder: Path) -> Iterator[tuple[Path, ClassSize]]:
    """The classes below a folder, with their files."""
    for file in sorted(folder.rglob("*")):
        if "build" in file.parts or not file.is_file():
            continue
        if file.suffix == ".py":
            yield from ((file, size) for size in of_python(file.read_text()))
        elif file.suffix in (".hpp", ".cpp", ".h"):
            yield from ((file, size) for size in of_cpp(file.read_text()))
