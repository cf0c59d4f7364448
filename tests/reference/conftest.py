"""Cases that several tests compare with."""

from __future__ import annotations

from typing import Any

import pytest
from support.references import cases_or_skip


@pytest.fixture(scope="session")
def astra1_cases() -> list[dict[str, Any]]:
    """Cases of ASTRA-sim 1.0 with its analytical network."""
    return cases_or_skip("astra1.jsonl")
