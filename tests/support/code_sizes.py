"""Sizes of the classes and functions of the packages, read from their Python and C++ sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from support import ROOT

_CPP_BRANCH = re.compile(r"\b(?:if|for|while|case|catch)\b")
_CPP_TOKENS = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9A-Za-z])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.DOTALL | re.MULTILINE
)
_CPP_CLASS = re.compile(r"\b(?:class|struct|union)\s+(?:\[\[[^\]]*\]\]\s*)?([A-Za-z_][\w:]*)")
_CPP_INITIALISERS = re.compile(r"\)\s*(?:noexcept\s*)?:(?!:)")
_CPP_NO_MEMBER = re.compile(r"^(?:using|friend|typedef|static_assert|enum|class|struct|union)\b")


@attrs.frozen
class ClassSize:
    """A class as `path:Name`, with its methods and fields."""

    where: str
    methods: int
    fields: int


@attrs.frozen
class FunctionSize:
    """A function as `path:name`, with its cyclomatic complexity."""

    where: str
    complexity: int


def sources(*suffixes: str) -> list[Path]:
    """The files of the packages with one of these suffixes."""
    folders = [ROOT / "core" / "src", *(ROOT / "plugins").glob("*/src"), *(ROOT / "plugins").glob("*/native")]
    return sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in suffixes)


def python_classes(text: str, where: str) -> Iterator[ClassSize]:
    """The classes of a Python module. A field declared by `option()` is a setting for users, and is not counted as state."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ClassDef):
            continue
        fields: set[str] = set()
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
        for each in node.body:
            if not isinstance(each, ast.AnnAssign) or "ClassVar" in ast.unparse(each.annotation):
                continue
            is_option = isinstance(each.value, ast.Call) and ast.unparse(each.value.func).split(".")[-1] == "option"
            if not is_option and isinstance(each.target, ast.Name):
                fields.add(each.target.id)
        for inner in (inner for method in methods for inner in ast.walk(method)):
            if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and ast.unparse(inner.value) == "self":
                fields.add(inner.attr)
        names = {each.name for each in methods}  # overloads, and getters with their setters, are one
        yield ClassSize(f"{where}:{node.name}", len(names), len(fields - names))


def _without_text(text: str) -> str:
    """C++ without comments, preprocessor lines and what is quoted."""
    return _CPP_TOKENS.sub(lambda found: '""' if found[0][0] in "\"'" else " ", text)


def _plain(statement: str) -> str:
    """A C++ statement without access labels, attributes, alignment and template arguments."""
    statement = re.sub(r"\b(?:public|private|protected)\s*:(?!:)", " ", statement)
    statement = re.sub(r"\[\[.*?\]\]|\balignas\([^)]*\)", " ", statement).replace("->", " ")
    while (shorter := re.sub(r"<[^<>]*>", " ", statement)) != statement:
        statement = shorter
    return re.sub(r"\btemplate\b|\b(?:requires)\b", " ", statement).strip()


def _before_value(statement: str) -> str:
    """What is before a default value; an `operator=` is no value."""
    return re.split(r"(?<!operator)(?<![=!<>])=(?!=)", re.sub(r"\([^()]*\)", "()", statement), maxsplit=1)[0]


def _close(text: str, start: int) -> int:
    """The position behind the brace that closes the one at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if not depth:
            return at + 1
    raise AssertionError("a brace is not closed")


def cpp_sizes(text: str, where: str) -> Iterator[ClassSize | FunctionSize]:
    """The classes and functions of a C++ file. A lambda counts with the function around it."""
    yield from _cpp_scope(_without_text(text), where, None)


def _cpp_scope(text: str, where: str, name: str | None) -> Iterator[ClassSize | FunctionSize]:
    """What is in a namespace, or in the class `name`."""
    start = at = fields = 0
    methods: set[str] = set()
    while at < len(text):
        if text[at] not in "{;":
            at += 1
            continue
        raw = text[start:at]
        head = _plain(raw)
        if text[at] == ";":
            declared = _before_value(head)
            if declared and not _CPP_NO_MEMBER.match(declared):
                if "(" in declared:
                    if not re.search(r"=\s*(?:default|delete)\s*$", head):
                        methods.add(head)
                elif not re.match(r"(?:static|inline static|constexpr)\b", declared):
                    fields += re.sub(r"\([^()]*\)", "", head).count(",") + 1
            start = at = at + 1
            continue
        end = _close(text, at)
        inside = text[at + 1 : end - 1]
        is_value = (
            raw.count("(") > raw.count(")")
            or "(" not in _before_value(head)
            or ("=" in head and _before_value(head) != re.sub(r"\([^()]*\)", "()", head))
        )
        if re.match(r"(?:inline\s+)?namespace\b|extern\b", head) and "(" not in head:
            yield from _cpp_scope(inside, where, None)
            start = at = end
        elif re.search(r"\benum\b", head) and "(" not in head:
            at = end  # up to its semicolon
        elif (match := _CPP_CLASS.search(head)) and "(" not in _before_value(head[match.start() :]):
            yield from _cpp_scope(inside, f"{where}", match[1])
            at = end
        elif is_value or (_CPP_INITIALISERS.search(raw) and re.search(r"[\w>]\s*$", raw)):
            text = text[:at] + "]" + " " * (end - at - 1) + text[end:]  # a value in braces: the statement continues
        else:
            called = re.search(r"([~\w:]+|operator[^(]*)\s*\(", head)
            own = f"{name}::{called[1]}" if name and called else called[1] if called else "?"
            yield FunctionSize(f"{where}:{own}", 1 + len(_CPP_BRANCH.findall(inside)))
            methods.add(head)
            start = at = end
    if name is not None:
        yield ClassSize(f"{where}:{name}", len(methods), fields)


def undocumented(text: str, where: str, lines: int) -> Iterator[str]:
    """The private functions of a Python module with a body of more than `lines` lines and no docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("_") and not node.name.startswith("__"):
            body = (node.end_lineno or 0) - node.body[0].lineno + 1
            if body > lines and not ast.get_docstring(node):
                yield f"{where}:{node.name}"


def all_sizes(paths: Sequence[Path]) -> Iterator[ClassSize | FunctionSize]:
    """The sizes in all these files."""
    for path in paths:
        where = str(path.relative_to(ROOT))
        yield from python_classes(path.read_text(), where) if path.suffix == ".py" else cpp_sizes(path.read_text(), where)
