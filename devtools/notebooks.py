"""Notebooks are Python files whose cells begin with `# %%` (`# %% [markdown]` for text), as Jupytext and editors read them.

python -m devtools.notebooks FILE.py...    write FILE.ipynb beside each, without outputs
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "notebooks"
MARK = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)


def cells(text: str) -> Iterator[tuple[str, str]]:
    """The cells of a file: `markdown` or `code`, and their text."""
    _, *parts = MARK.split(text)
    for mark, part in zip(parts[::2], parts[1::2], strict=True):
        if mark is None:
            yield "code", part.strip("\n")
        else:
            yield "markdown", "\n".join(line.removeprefix("#").removeprefix(" ") for line in part.strip("\n").splitlines())


def notebook(text: str) -> Any:
    """The notebook of a file, without outputs."""
    from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

    return new_notebook(cells=[{"code": new_code_cell, "markdown": new_markdown_cell}[kind](source) for kind, source in cells(text)])


def page(text: str) -> str:
    """A page of the site with the cells of a file."""
    return "\n\n".join(f"```python\n{source}\n```" if kind == "code" else source for kind, source in cells(text)) + "\n"


def main(arguments: list[str]) -> None:
    """Write notebooks."""
    import nbformat

    for name in arguments:
        nbformat.write(notebook(Path(name).read_text(encoding="utf-8")), str(Path(name).with_suffix(".ipynb")))


if __name__ == "__main__":
    main(sys.argv[1:])
