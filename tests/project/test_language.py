"""Names and pages: words of a dialect that are not to come back in identifiers, and how many pages and words there may be.

Counts may only become smaller: where there are fewer than a list says, the list is wrong, too.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator

from support import ROOT
from support.code_sizes import sources

WORDS = {
    "turns": "destination_order, round_robin",
    "ways": "paths",
    "happening": "event, payload",
    "in_words": "describe",
    "heard": "received",
    "stuck": "blocked, deadlocked",
    "suits": "is_exact",
    "bring": "prefetch",
    "loose": "lenient",
    "things": "what they are",
    "kept": "cached, saved",
    "told": "what it is: arguments, options, message",
    "said": "what it is: text, value",
    "found": "what it is: routes, options, errors; result",
    "made": "what it is: components, network; result",
    "given": "what it is: options, arguments, values",
    "own": "what the values are: steps, of_npu, durations",
    "carriage": "bus_transfer",
    "carriages": "bus_transfers",
    "history": "causal_key",
    "joined": "product_dimension, merged",
    "tells_sent": "reports_completion",
    "charged_dimension": "accounting_dimension",
}
"""Words that are not to come back as identifiers, and those of the field."""

LEFT = {
    "carriages": 1,
    "charged_dimension": 1,
    "found": 3,
    "given": 6,
    "joined": 1,
    "own": 264,
    "tells_sent": 5,
    "turns": 3,
}
"""How often packages still have them."""

PROSE = {
    r"(?:no|some)body": "name the party: no rank, the user, another process",
    r"told": "what happens: receives, is called with, is printed",
    r"in vain": "without effect",
    r"without a word": "silently",
    r"pass(?:es|ed|ing) over": "skip",
    r"foretells?": "estimate",
    r"(?:stands?|stood|standing) for": "represent",
    r"so many": "the name of the number",
    r"Raises? [A-Za-z, ]+ where": "if",
}
"""Phrases of a dialect in pages, docstrings and comments, and plain ones."""

BESIDE_PACKAGES = ("tests", "devtools", "benchmarks", "validation")

MOST_PAGES = 23
MOST_WORDS = 65_000
"""Words of all pages in docs/, with tables and what commands print."""

_STRINGS_AND_COMMENTS = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')


def identifiers(path_text: str, is_python: bool) -> Iterator[str]:
    """The identifiers of a source, each as often as it is there."""
    if is_python:
        yield from (token.string for token in tokenize.generate_tokens(io.StringIO(path_text).readline) if token.type == tokenize.NAME)
    else:
        yield from re.findall(r"[A-Za-z_]\w*", _STRINGS_AND_COMMENTS.sub("", path_text))


def test_identifiers_are_counted() -> None:
    assert list(identifiers('a = found  # found\nb = "found"\n', is_python=True)) == ["a", "found", "b"]
    assert list(identifiers('int a = found;  // found\nchar* b = "found";\n', is_python=False)) == ["int", "a", "found", "char", "b"]


def test_words_of_a_dialect_do_not_come_back() -> None:
    counts = Counter[str]()
    for path in sources(".py", ".hpp", ".cpp", ".h"):
        counts.update(name.strip("_") for name in identifiers(path.read_text(), path.suffix == ".py") if name.strip("_") in WORDS)
    more = {word: f"{count} times; write {WORDS[word]}" for word, count in counts.items() if count > LEFT.get(word, 0)}
    assert more == {}
    assert dict(counts) == LEFT, "there are fewer than the list says: shorten it"


def prose(text: str, suffix: str) -> str:
    """The words for people in a source: comments and docstrings; all of a page, but for its blocks of code."""
    if suffix == ".md":
        return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    if suffix != ".py":
        return "\n".join(re.findall(r"//([^\n]*)", text))
    docs = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    comments = [each.string for each in tokenize.generate_tokens(io.StringIO(text).readline) if each.type == tokenize.COMMENT]
    return "\n".join([*(str(each.value) for each in docs), *comments])


def test_prose_is_counted() -> None:
    assert prose('"""Told."""\na = "told"  # so many\n', ".py") == "Told.\n# so many"
    assert prose("int a;  // told\n", ".cpp") == " told"
    assert prose("Told.\n```sh\nnobody\n```\n", ".md") == "Told.\n\n"


def test_phrases_of_a_dialect_do_not_come_back() -> None:
    counts = Counter[str]()
    beside = [
        path
        for folder in BESIDE_PACKAGES
        for path in (ROOT / folder).rglob("*.py")
        if "previous" not in path.parts and path.name != "test_language.py"
    ]
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    any_phrase = re.compile("|".join(rf"\b{phrase}\b" for phrase in PROSE))
    for path in [*sources(".py", ".hpp", ".cpp", ".h"), *beside, *pages]:
        whole = path.read_text(encoding="utf-8")
        if not any_phrase.search(whole):  # most files, which need not be parsed
            continue
        text = prose(whole, path.suffix)
        counts.update({phrase: len(re.findall(rf"\b{phrase}\b", text)) for phrase in PROSE})
    assert {phrase: f"{count} times; write {PROSE[phrase]}" for phrase, count in counts.items() if count} == {}


def test_a_class_name_means_one_thing() -> None:
    """But for `Compute`, an operation of a graph and the base of compute models, which plugins have imported since 0.1.0."""
    classes = Counter[str]()
    for path in sources(".py"):
        if "templates" not in path.parts:
            classes.update(node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef))
    assert {name for name, count in classes.items() if count > 1} == {"Compute"}


def test_pages_and_words_do_not_become_more() -> None:
    pages = list((ROOT / "docs").glob("*.md"))
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in pages)
    assert len(pages) <= MOST_PAGES
    assert MOST_WORDS - 1500 < words <= MOST_WORDS, "pages became shorter or longer: write the number of their words, rounded up"
