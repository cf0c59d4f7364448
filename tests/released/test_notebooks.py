"""The notebooks of examples/notebooks run in a kernel of Jupyter."""

from __future__ import annotations

import gc
import sys
import warnings
from pathlib import Path

import pytest
from support import ROOT

from devtools.notebooks import FOLDER, cells, notebook, page

FILES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_figures_hold(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="python3 dev.py docs installs what runs notebooks")
    pytest.importorskip("ipykernel", reason="python3 dev.py docs installs what runs notebooks")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    book = notebook(path.read_text(encoding="utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Jupyter about itself
        nbclient.NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
        gc.collect()  # the client goes here, not in another test: its kernel may still be ending
    printed = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any(output.output_type == "stream" and output.name == "stdout" for output in printed)


def test_cells_are_code_and_text() -> None:
    text = "# %% [markdown]\n# # Title\n#\n# words\n\n# %%\na = 1\n\n\n# %%\nb = 2\n"
    assert list(cells(text)) == [("markdown", "# Title\n\nwords"), ("code", "a = 1"), ("code", "b = 2")]
    assert page(text) == "# Title\n\nwords\n\n```python\na = 1\n```\n\n```python\nb = 2\n```\n"


def test_the_page_names_all_notebooks() -> None:
    text = (ROOT / "docs" / "report.md").read_text()
    assert all(f"`{path.name}`" in text for path in FILES)
