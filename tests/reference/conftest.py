"""Figures of other simulators, where they are present."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def reference_cases(name: str) -> list[dict[str, Any]]:
    """The cases of a file of references; none where it is absent."""
    folder = Path(os.environ.get("ASTRA_REFERENCE", ROOT.parent / "shared" / "reference"))
    path = folder / name
    if not path.exists():
        return []
    with path.open() as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="session")
def astra1_cases() -> list[dict[str, Any]]:
    """Cases of ASTRA-sim 1.0 with its analytical network."""
    cases = reference_cases("astra1.jsonl")
    if not cases:
        pytest.skip("no reference cases of ASTRA-sim 1.0")
    return cases
