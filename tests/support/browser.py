"""Pages in a browser: what their figures hold once they are drawn."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")

_EXPECTED = r':INFO:CONSOLE.*"\[bokeh [\d.]+\] (setting log level|document idle)'
"""What Bokeh says of every page."""

READ_BACK = """
<pre id="read-back"></pre>
<script>
function readBack() {
  const document_ = Bokeh.documents[0];
  if (document_ === undefined || !document_.is_idle) { setTimeout(readBack, 50); return; }
  const found = {figures: document_.roots().length};
  for (const model of document_._all_models.values())
    if (model.type === "ColumnDataSource" && model.name !== null)
      found[model.name] = Object.fromEntries(Object.entries(model.data).map(([key, column]) => [key, Array.from(column)]));
  document.getElementById("read-back").textContent = JSON.stringify(found);
}
window.addEventListener("load", () => setTimeout(readBack, AFTER_MS));
</script>
"""


def with_script(text: str, script: str) -> str:
    """A page with something at its end."""
    return f"{script}</body>".join(text.rsplit("</body>", 1))


def browse(text: str, folder: Path, after_ms: int = 50) -> tuple[dict[str, Any], list[str]]:
    """What the figures of a page hold some time after a browser without network has drawn them, and what it says on its console."""
    path = folder / "page.html"
    path.write_text(with_script(text, READ_BACK.replace("AFTER_MS", str(after_ms))))
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}/user"]
    arguments += ["--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=20000", "--window-size=1280,800", "--dump-dom"]
    assert CHROMIUM is not None
    done = subprocess.run([CHROMIUM, *arguments, path.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    (result,) = re.findall(r'<pre id="read-back">(.*?)</pre>', done.stdout, re.DOTALL)
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(result) or "{}"), [line for line in console if not re.search(_EXPECTED, line)]
