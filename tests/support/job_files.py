"""Files of several jobs on one platform, as `astra jobs` reads them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def write_jobs(folder: Path, jobs: Sequence[dict[str, Any]], **sections: str) -> Path:
    """Write a file of jobs, with the plugins of other sections by name; each job has a value for each key as TOML writes it."""
    text = "".join(f'{name} = "{plugin}"\n' for name, plugin in sections.items())
    for job in jobs:
        text += "\n[[jobs]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in job.items())
    file = folder / "jobs.toml"
    file.write_text(text)
    return file
