"""The figures of docs/nccl.md: device files are what the procedure makes of the data, and the page has their errors."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
import tomli
from astra_sim.schedule import Collective
from support import ROOT


def validation() -> ModuleType:
    """The module validation/collectives.py."""
    spec = importlib.util.spec_from_file_location("validation_collectives", ROOT / "validation" / "collectives.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


COLLECTIVES = validation()


def test_a_device_file_is_what_the_fit_makes() -> None:
    table = COLLECTIVES.TABLES[0]
    assert tomli.loads((COLLECTIVES.DEVICES / "a100.toml").read_text()) == COLLECTIVES.fit_device(table)


def test_the_page_has_the_figures() -> None:
    assert COLLECTIVES.markdown(COLLECTIVES.comparisons()) in (ROOT / "docs" / "nccl.md").read_text()


def test_every_line_has_its_source() -> None:
    assert all({"repo", "path", "commit"} <= line["source"].keys() for line in COLLECTIVES.lines())


@pytest.mark.parametrize(("device", "most"), [("a100", 0.05), ("h100", 0.055)])
def test_all_reduces_of_eight(device: str, most: float) -> None:
    found = [each for each in COLLECTIVES.comparisons() if (each.device, each.operation, each.ranks) == (device, Collective.ALL_REDUCE, 8)]
    assert [each.held_out_large.mean < most for each in found] == [True]
    assert found[0].held_out_large.rows >= 3
