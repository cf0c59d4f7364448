"""Some cases of every random check, the same ones every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_checks import load, names, violations
from random_checks.__main__ import main


@pytest.mark.parametrize("name", names())
def test_what_must_hold_holds(name: str, tmp_path: Path) -> None:
    check = load(name)
    assert not {seed: lines for seed, lines in violations(check, range(check.IN_TESTS), tmp_path) if lines}


def test_an_unknown_check_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nonsense"]) == 2
    assert "random takes a check" in capsys.readouterr().err
