"""The workload generator of ASTRA-sim 1.0: its text, with the cycles it should have written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from astra_sim_compute_systolic.generate.command import generate
from click.testing import CliRunner
from support.references import reference_cases


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    result = reference_cases("workload-generator.jsonl")
    if not result:
        pytest.skip("no reference cases of the workload generator")
    return result


def intended_text(case: dict[str, Any]) -> str:
    """What the script wrote, with the right cycles in place of those of the weight gradient everywhere."""
    heading, count, *rows = case["workload_txt"].split("\n")
    lines = [heading, count]
    for row, layer in zip(rows, case["intended"], strict=True):
        cells = row.split("\t")
        for place, name in ((2, "fwd"), (5, "inp_grad"), (8, "weight_grad")):
            cells[place] = f" {layer['cycles_intended'][name]}"
        lines.append("\t".join(cells))
    return "\n".join(lines)


def test_the_text_is_the_same_with_the_intended_cycles(cases: list[dict[str, Any]], tmp_path: Path) -> None:
    layers, configuration, output = tmp_path / "layers.csv", tmp_path / "array.cfg", tmp_path / "workload.txt"
    for case in cases:
        layers.write_text(case["mnk_csv"])
        configuration.write_text(case["scalesim_cfg"])
        arguments = re.sub(r"--mnk=\S+", f"--mnk={layers}", case["args"])
        arguments = re.sub(r"--scalesim_config=\S+", f"--scalesim_config={configuration}", arguments)
        done = CliRunner().invoke(generate, [*arguments.split(), "--output", str(output)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert output.read_text() == intended_text(case), case["id"]
