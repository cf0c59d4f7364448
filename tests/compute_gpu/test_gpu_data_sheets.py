"""Peaks, memory and multiprocessors of the devices of the gpu model name a page, or say visibly that none was found."""

from __future__ import annotations

import re

import pytest
from astra_sim_compute_gpu import data_files, device
from support import ROOT

DEVICES = data_files.names(device.FOLDER)
PAGE = (ROOT / "docs" / "compute.md").read_text(encoding="utf-8")
OF_DATA_SHEETS = ("multiprocessors", "memory_bandwidth_gb_per_s", "memory_gib", "peak_tera_ops_per_s")
UNVERIFIED = "unverified: "


def sources(name: str) -> dict[str, str]:
    table, _ = device.read_table(name)
    return {key: source for key, source in table["sources"].items() if key.startswith(OF_DATA_SHEETS)}


@pytest.mark.parametrize("name", DEVICES)
def test_numbers_of_data_sheets_name_a_page(name: str) -> None:
    assert set(sources(name)) >= set(OF_DATA_SHEETS)
    for key, source in sources(name).items():
        assert source.startswith(UNVERIFIED) or re.search(r", .*https://\S+\)", source), f"{key}: {source}"


def test_the_page_shows_what_is_unverified() -> None:
    result = {name: [key for key, source in sources(name).items() if source.startswith(UNVERIFIED)] for name in DEVICES}
    rows = [f"| `{name}` | {', '.join(f'`{key}`' for key in keys)} |" for name, keys in result.items() if keys]
    table = PAGE.split("| device | unverified |\n|---|---|\n")[1].split("\n\n")[0]
    assert table.splitlines() == rows


@pytest.mark.parametrize("name", DEVICES)
def test_the_table_of_devices_has_the_numbers_of_the_files(name: str) -> None:
    """A row may hold several devices; then each cell has one number for all, or one for each."""
    row = next(line for line in PAGE.splitlines() if line.startswith("| `") and f"`{name}`" in line.split("|")[1] and line.count("|") == 7)
    names, units, peaks, bandwidth, memory = (cell.strip() for cell in row.split("|")[1:6])
    position = re.findall(r"`([^`]+)`", names).index(name)
    result = device.read_device(name)

    def cell(text: str) -> str:
        parts = text.split(", ")
        return parts[position] if len(parts) > 1 else parts[0]

    assert cell(units) == str(result.multiprocessors)
    assert cell(bandwidth) == f"{result.memory_bandwidth_gb_per_s:g}"
    assert cell(memory) == f"{result.memory_gib:.0f}"
    rates = {key: f"{rate:.0f}" for key, rate in result.peak_tera_ops_per_s.items()}
    shown = rates["bf16"] if "bf16" in rates else f"fp16 {rates['fp16']}"
    assert cell(peaks) == shown + (f" ({rates['fp8']})" if "fp8" in rates else "")
