"""The report: files about results."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import attrs
from astra_sim import option
from astra_sim.reports import ReportFolder, Result

NS = {"ns": 1, "us": 1000, "ms": 1_000_000}


@attrs.frozen
class ReportOptions:
    """Options of the report."""

    unit: str = option("us", choices=tuple(NS), help="unit of all times")


def write(options: ReportOptions, results: Sequence[Result], folder: ReportFolder) -> None:
    """Write a row for each result."""
    unit, ns = options.unit, NS[options.unit]
    with folder.open("before_report.csv") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["run", "npus", f"finish_{unit}", f"compute_{unit}", f"exposed_comm_{unit}"])
        for result in results:
            times = (result.finish_ns, result.compute_ns, result.exposed_comm_ns)
            table.writerow([result.run_name, result.npus, *(time / ns for time in times)])
