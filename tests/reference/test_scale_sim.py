"""SCALE-Sim's reports: every character of version 2's; of version 3's what SCALE-SIM.md does not explain."""

from __future__ import annotations

import re
from typing import Any

import pytest
from astra_sim_compute_systolic import reports_csv
from astra_sim_compute_systolic.report import LayerReport, report_layer
from astra_sim_compute_systolic.scale_sim_files import read_configuration, read_topology
from support import ROOT
from support.references import reference_cases

REPORTS = {
    "COMPUTE_REPORT": reports_csv.compute_report,
    "BANDWIDTH_REPORT": reports_csv.bandwidth_report,
    "DETAILED_ACCESS_REPORT": reports_csv.detailed_access_report,
}


@pytest.fixture(scope="module")
def cases() -> list[dict[str, Any]]:
    result = reference_cases("scale-sim.jsonl")
    if not result:
        pytest.skip("no reference cases of SCALE-Sim")
    return result


def report(case: dict[str, Any]) -> list[LayerReport]:
    machine = read_configuration(case["cfg_text"], "case.cfg")
    layers = read_topology(case["topology_csv"], "case.csv", case["input_type"] == "gemm")
    return [report_layer(layer.name, layer.shape, machine.array, machine.srams, machine.bandwidth) for layer in layers]


def test_all_reports_of_version_2_are_the_same_text(cases: list[dict[str, Any]]) -> None:
    wrong = []
    for case in cases:
        if not case["id"].startswith("v3-"):
            layers = report(case)
            wrong += [(case["id"], name) for name, write in REPORTS.items() if write(layers) != case[name]]
    assert not wrong


def test_version_3_differs_only_where_the_documentation_explains(cases: list[dict[str, Any]]) -> None:
    text = (ROOT / "plugins" / "compute_systolic" / "SCALE-SIM.md").read_text()
    explained = {
        name: (int(theirs), int(ours)) for name, theirs, ours in re.findall(r"^\| `(v3-[\w-]+)` \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    }
    different = {}
    for case in cases:
        if not case["id"].startswith("v3-"):
            continue
        [layer] = report(case)
        heading, row = (line.split(", ") for line in case["COMPUTE_REPORT"].splitlines())
        wanted = dict(zip(heading, (float(cell.rstrip(",")) for cell in row), strict=True))
        total, stalls = wanted["Total Cycles"], wanted["Stall Cycles"]
        assert layer.mapping_efficiency == wanted["Mapping Efficiency %"]
        assert layer.compute_utilisation == wanted["Compute Util %,"]
        assert layer.timing.total - layer.timing.stalls == total - stalls
        if (layer.timing.total, layer.overall_utilisation) != (total, wanted["Overall Util %"]):
            different[case["id"]] = (total, layer.timing.total)
    present = {case["id"] for case in cases}
    assert different == {name: totals for name, totals in explained.items() if name in present}
