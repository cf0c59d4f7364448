"""The figures of validation/COLLECTIVES.md: device files are what the procedure makes of the data, and the page has their errors."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import Any

import pytest
import tomli
from astra_sim.schedule import Collective
from astra_sim_network_analytical.nccl_devices import device_names, device_tables
from astra_sim_network_analytical.nccl_parameters import read_device
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


@pytest.fixture(scope="module")
def comparisons() -> list[Any]:
    """The errors of all named tables."""
    result: list[Any] = COLLECTIVES.comparisons()
    return result


def test_files_are_what_the_fit_makes() -> None:
    table = COLLECTIVES.TABLES[0]
    files = COLLECTIVES.files_of(table)
    assert tuple(tomli.loads((folder / "a100-2.27.3.toml").read_text()) for folder in (COLLECTIVES.DEVICES, COLLECTIVES.HALVES)) == files


def test_each_named_table_has_its_files() -> None:
    names = sorted(table.name for table in COLLECTIVES.TABLES)
    assert sorted(path.stem for path in COLLECTIVES.HALVES.iterdir()) == names == sorted(device_tables())
    assert {table.device: table.name for table in reversed(COLLECTIVES.TABLES)} == {name: newest(name) for name in device_names()}


def newest(device: str) -> str:
    """The named table of a device."""
    same = read_device(device)
    return next(name for name in device_tables() if read_device(name) == same)


def test_the_page_has_the_figures(comparisons: list[Any]) -> None:
    page = (ROOT / "validation" / "COLLECTIVES.md").read_text()
    assert COLLECTIVES.markdown(comparisons) in page
    assert COLLECTIVES.summary(comparisons) in page
    assert COLLECTIVES.between_nodes() in page


def test_every_line_has_its_source() -> None:
    lines = COLLECTIVES.lines() + COLLECTIVES.lines(COLLECTIVES.NODES)
    assert all({"repo", "path", "commit"} <= line["source"].keys() or "note" in line["source"] for line in lines)


def test_every_line_between_nodes_is_of_a_machine() -> None:
    assert {line["system"] for line in COLLECTIVES.lines(COLLECTIVES.NODES)} == {machine.system for machine in COLLECTIVES.MACHINES}


def test_devices_of_blackwell_tell_large_sizes_of_each_other(comparisons: list[Any]) -> None:
    own = [each for each in comparisons if each.others.rows]
    assert {each.table.device for each in own} == set(COLLECTIVES.BLACKWELL)
    held_out, others = (COLLECTIVES.mean([getattr(each, name) for each in own]) for name in ("held_out_large", "others"))
    assert 3 * others < held_out
    assert others < 0.03


def test_files_of_blackwell_have_the_times_of_their_tables() -> None:
    """Times that fall are levelled, so that a few differ a little."""
    for table in COLLECTIVES.TABLES:
        if table.device in COLLECTIVES.BLACKWELL:
            used = COLLECTIVES.error(COLLECTIVES.NcclPrices(read_device(table.name)), COLLECTIVES.rows_of(table))
            assert used.mean < 0.012, table.name


def test_times_in_a_file_are_what_the_procedure_makes_of_it() -> None:
    table = next(table for table in COLLECTIVES.TABLES if table.name == "b200-2.29.2")
    written = tomli.loads((COLLECTIVES.DEVICES / f"{table.name}.toml").read_text())
    assert COLLECTIVES.with_all_times(table, written) == written


@pytest.mark.parametrize(("device", "most"), [("a100-2.27.3", 0.05), ("h100-2.29.2", 0.05)])
def test_all_reduces_of_eight(comparisons: list[Any], device: str, most: float) -> None:
    result = [each for each in comparisons if (each.device, each.operation, each.ranks) == (device, Collective.ALL_REDUCE, 8)]
    assert [each.held_out_large.mean < most for each in result] == [True]
    assert result[0].held_out_large.rows >= 3
