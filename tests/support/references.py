"""Figures of other simulators, where they are present: in ASTRA_REFERENCE, or in ../shared/reference beside the checkout."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support import ROOT

FOLDER = Path(os.environ.get("ASTRA_REFERENCE", ROOT.parent / "shared" / "reference"))
FULL = bool(os.environ.get("ASTRA_REFERENCE_FULL"))
"""Whether all cases are compared, not only as many as a quick run can (`.ci/nightly` sets it)."""


def reference_cases(name: str) -> list[dict[str, Any]]:
    """The cases of a file of references; none where it is absent."""
    path = FOLDER / name
    if not path.exists():
        return []
    with path.open() as lines:
        return [json.loads(line) for line in lines]


def cases_or_skip(name: str) -> list[dict[str, Any]]:
    """The cases of a file of references. Skips the test where it is absent."""
    return reference_cases(name) or pytest.skip(f"no reference cases {name} in {FOLDER}")
